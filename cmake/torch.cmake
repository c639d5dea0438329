# The Python module poptorch.poptorch_core, with the rooms that see torch headers.
find_package(Python3 COMPONENTS Interpreter Development.Module REQUIRED)
execute_process(
  COMMAND ${Python3_EXECUTABLE} -c "import os; os.environ['TORCH_DEVICE_BACKEND_AUTOLOAD']='0'; import torch; print(torch.__version__); print(torch.utils.cmake_prefix_path)"
  OUTPUT_VARIABLE IPU_TORCH_FACTS OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE IPU_TORCH_MISSING ERROR_QUIET)
if(IPU_TORCH_MISSING)
  message(FATAL_ERROR "torch is not installed for ${Python3_EXECUTABLE}. Install it with: pip install torch==2.13.0")
endif()
string(REPLACE "\n" ";" IPU_TORCH_FACTS "${IPU_TORCH_FACTS}")
list(GET IPU_TORCH_FACTS 0 IPU_TORCH_VERSION)
list(GET IPU_TORCH_FACTS 1 IPU_TORCH_PREFIX)
if(NOT IPU_TORCH_VERSION MATCHES "^2\\.13\\.")
  message(FATAL_ERROR "torch ${IPU_TORCH_VERSION} is installed; this version of poptorch is built against torch 2.13. Install it with: pip install torch==2.13.0")
endif()
find_package(Torch REQUIRED PATHS ${IPU_TORCH_PREFIX} NO_DEFAULT_PATH)
find_library(TORCH_PYTHON_LIBRARY torch_python PATHS ${TORCH_INSTALL_PREFIX}/lib NO_DEFAULT_PATH REQUIRED)

# pybind11 is torch's own, seen through a link: beside it lie torch's versions of other libraries. Nothing of torch is linked.
set(IPU_PYBIND_INCLUDE ${CMAKE_BINARY_DIR}/pybind11_include)
file(MAKE_DIRECTORY ${IPU_PYBIND_INCLUDE})
file(CREATE_LINK ${TORCH_INSTALL_PREFIX}/include/pybind11 ${IPU_PYBIND_INCLUDE}/pybind11 SYMBOLIC)

file(GLOB_RECURSE IPU_TORCH_SOURCES CONFIGURE_DEPENDS
     ${CMAKE_SOURCE_DIR}/csrc/frontends/torch/*.cc
     ${CMAKE_SOURCE_DIR}/csrc/bindings/*.cc)
list(FILTER IPU_TORCH_SOURCES EXCLUDE REGEX "/bindings/(core|tensorflow)/")
if(IPU_TORCH_SOURCES)
  Python3_add_library(poptorch_core MODULE WITH_SOABI ${IPU_TORCH_SOURCES})
  ipu_translate_together(poptorch_core 1600 ${IPU_TORCH_SOURCES})
  target_include_directories(poptorch_core BEFORE PRIVATE ${TORCH_INCLUDE_DIRS})
  target_compile_options(poptorch_core PRIVATE -Wno-unused-variable -Wno-comment)
  target_precompile_headers(poptorch_core PRIVATE
    <ATen/core/Tensor.h> <ATen/core/dispatch/Dispatcher.h> <torch/library.h> <torch/csrc/utils/pybind.h>)
  target_link_libraries(poptorch_core PRIVATE ipu ipu_python ${TORCH_LIBRARIES} ${TORCH_PYTHON_LIBRARY})
  set_target_properties(poptorch_core PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${IPU_MODULE_DIR} BUILD_RPATH "$ORIGIN;${TORCH_INSTALL_PREFIX}/lib"
                        INSTALL_RPATH "$ORIGIN;$ORIGIN/../torch/lib")
endif()
