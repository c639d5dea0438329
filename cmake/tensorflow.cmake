# The op library for TensorFlow, built without TensorFlow: it calls its C API, found at load time in the library of the process that
# has the name of this empty one.
set(IPU_TENSORFLOW_DIR ${CMAKE_SOURCE_DIR}/tensorflow_ipu/src/ipu_tensorflow CACHE PATH "Where the op library for TensorFlow goes")
file(WRITE ${CMAKE_BINARY_DIR}/tensorflow_stub.cc "")
add_library(tensorflow_stub SHARED ${CMAKE_BINARY_DIR}/tensorflow_stub.cc)
set_target_properties(tensorflow_stub PROPERTIES PREFIX "" OUTPUT_NAME libtensorflow_framework SUFFIX ".so.2" NO_SONAME OFF
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tensorflow_stub)
target_link_options(tensorflow_stub PRIVATE -Wl,-soname,libtensorflow_framework.so.2)

file(GLOB IPU_TENSORFLOW_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/csrc/bindings/tensorflow/*.cc)
add_library(ipu_tensorflow MODULE ${IPU_TENSORFLOW_SOURCES})
ipu_translate_together(ipu_tensorflow 1200 ${IPU_TENSORFLOW_SOURCES})
target_include_directories(ipu_tensorflow PRIVATE ${FMT_INCLUDE})
target_link_libraries(ipu_tensorflow PRIVATE ipu tensorflow_stub)
# The stub stays behind: the library must name it although it takes nothing of it.
target_link_options(ipu_tensorflow PRIVATE -Wl,--no-as-needed)
set_target_properties(ipu_tensorflow PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${IPU_TENSORFLOW_DIR}
                      BUILD_RPATH "$ORIGIN/../../../poptorch" INSTALL_RPATH "$ORIGIN/../poptorch;$ORIGIN/../ipu_core" BUILD_WITH_INSTALL_RPATH OFF
                      SKIP_BUILD_RPATH OFF)
