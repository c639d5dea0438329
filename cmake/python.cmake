# ipu_core, the Python module without torch, and what the modules share.
find_package(Python3 COMPONENTS Interpreter Development.Module REQUIRED)
if(NOT IPU_PYBIND_INCLUDE)  # that of torch where there is torch
  execute_process(
    COMMAND ${Python3_EXECUTABLE} -c "import pybind11; print(pybind11.get_include())"
    OUTPUT_VARIABLE IPU_PYBIND_INCLUDE OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE IPU_PYBIND_MISSING ERROR_QUIET)
  if(IPU_PYBIND_MISSING)
    message(FATAL_ERROR "pybind11 is not installed for ${Python3_EXECUTABLE}. Install it with: pip install pybind11")
  endif()
endif()

# What both modules share: room "python".
file(GLOB IPU_PYTHON_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/csrc/python/*.cc)
add_library(ipu_python STATIC ${IPU_PYTHON_SOURCES})
target_include_directories(ipu_python PUBLIC ${CMAKE_SOURCE_DIR}/csrc PRIVATE ${IPU_PYBIND_INCLUDE})
target_link_libraries(ipu_python PUBLIC Python3::Module)

file(GLOB IPU_CORE_MODULE_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/csrc/bindings/core/*.cc)
Python3_add_library(ipu_core MODULE WITH_SOABI ${IPU_CORE_MODULE_SOURCES})
ipu_translate_together(ipu_core 1200 ${IPU_CORE_MODULE_SOURCES})
target_include_directories(ipu_core PRIVATE ${IPU_PYBIND_INCLUDE} ${FMT_INCLUDE})
target_link_libraries(ipu_core PRIVATE ipu ipu_python)
# libipu.so lies in poptorch/, or beside this module where there is no torch.
set_target_properties(ipu PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${IPU_MODULE_DIR})
set_target_properties(ipu_core PROPERTIES OUTPUT_NAME _native LIBRARY_OUTPUT_DIRECTORY ${IPU_MODULE_DIR}/../ipu_core
                      BUILD_RPATH "$ORIGIN/../poptorch;$ORIGIN" INSTALL_RPATH "$ORIGIN/../poptorch;$ORIGIN")
