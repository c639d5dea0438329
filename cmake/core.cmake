# libipu.so: every torch-free room, linked whole so that static registrations (ops, passes, kernels) are never dropped.
find_package(Threads REQUIRED)
find_path(XSMM_INCLUDE libxsmm.h)
find_library(XSMM_LIBRARY NAMES libxsmm.a)
find_library(XSMM_NOBLAS_LIBRARY NAMES libxsmmnoblas.a)
if(NOT XSMM_INCLUDE OR NOT XSMM_LIBRARY OR NOT XSMM_NOBLAS_LIBRARY)
  message(FATAL_ERROR "libxsmm is missing. Install it with: apt-get install libxsmm-dev")
endif()
find_path(HWY_INCLUDE hwy/highway.h)
find_library(HWY_LIBRARY NAMES libhwy.a hwy)
if(NOT HWY_INCLUDE OR NOT HWY_LIBRARY)
  message(FATAL_ERROR "Highway is missing. Install it with: apt-get install libhwy-dev")
endif()

# A library of which only headers are taken from the system; `variable` becomes the folder they are in.
function(ipu_require_headers variable header name package)
  find_path(${variable} ${header})
  if(NOT ${variable})
    message(FATAL_ERROR "${name} is missing. Install it with: apt-get install ${package}")
  endif()
endfunction()
ipu_require_headers(XXHASH_INCLUDE xxhash.h xxHash libxxhash-dev)
ipu_require_headers(JSON_INCLUDE nlohmann/json.hpp nlohmann-json nlohmann-json3-dev)
ipu_require_headers(FMT_INCLUDE fmt/core.h {fmt} libfmt-dev)
ipu_require_headers(CLI11_INCLUDE CLI/CLI.hpp CLI11 libcli11-dev)

# Rooms whose code runs in a step, optimised as far as the compiler can, and rooms that build and compile programs: most of the
# lines, where -O1 saves a third of the time to translate (docs/rationale/build-time.md).
set(IPU_STEP_ROOMS support target kernels program emulator runtime)
set(IPU_COMPILER_ROOMS ir ops autodiff optimizers passes lowering report executable
                       frontends/common frontends/records frontends/popart frontends/popxl frontends/tensorflow)

# ipu_room_objects(NAME LINES ROOM...): an object library of the sources of rooms, units of at most so many lines.
function(ipu_room_objects name lines)
  set(sources)
  foreach(room ${ARGN})
    file(GLOB_RECURSE found CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/csrc/${room}/*.cc)
    list(APPEND sources ${found})
  endforeach()
  add_library(${name} OBJECT ${sources})
  ipu_translate_together(${name} ${lines} ${sources})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/csrc ${XSMM_INCLUDE} ${HWY_INCLUDE} ${JSON_INCLUDE}
                                             ${XXHASH_INCLUDE} ${FMT_INCLUDE})
endfunction()
ipu_room_objects(ipu_step 3000 ${IPU_STEP_ROOMS})
ipu_room_objects(ipu_compiler 5000 ${IPU_COMPILER_ROOMS})
target_compile_options(ipu_compiler PRIVATE $<IF:$<CONFIG:Debug>,-Og,-O1>)

# The machine files become part of the library.
file(GLOB IPU_MACHINES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/machines/*.json)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${IPU_MACHINES})
set(machines "#include \"target/machine.h\"\n\nconst std::vector<ipu::target::MachineFile> ipu::target::machine_files{\n")
foreach(file ${IPU_MACHINES})
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} text)
  string(APPEND machines "{\"${name}\", R\"json(${text})json\"},\n")
endforeach()
set(IPU_MACHINE_FILES ${CMAKE_BINARY_DIR}/machine_files.cc)
file(GENERATE OUTPUT ${IPU_MACHINE_FILES} CONTENT "${machines}};\n")

# Of a function that both translate inline the linker takes the first: the one of a step.
add_library(ipu SHARED $<TARGET_OBJECTS:ipu_step> $<TARGET_OBJECTS:ipu_compiler> ${IPU_MACHINE_FILES})
target_include_directories(ipu PUBLIC ${CMAKE_SOURCE_DIR}/csrc)
target_link_libraries(ipu PUBLIC Threads::Threads
                      PRIVATE ${XSMM_LIBRARY} ${XSMM_NOBLAS_LIBRARY} ${HWY_LIBRARY} ${CMAKE_DL_LIBS} m)
target_link_options(ipu PRIVATE -Wl,--exclude-libs,ALL)
set_target_properties(ipu PROPERTIES INSTALL_RPATH "$ORIGIN")

# What text tests of modules need; for tools and tests, not in libipu.so.
file(GLOB IPU_CASES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/csrc/tools/cases/*.cc)
add_library(ipu_cases STATIC ${IPU_CASES})
target_include_directories(ipu_cases PRIVATE ${FMT_INCLUDE})
target_link_libraries(ipu_cases PUBLIC ipu)

file(GLOB IPU_TOOLS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/csrc/tools/*.cc)
foreach(source ${IPU_TOOLS})
  get_filename_component(name ${source} NAME_WE)
  string(REPLACE "_" "-" name ${name})
  add_executable(${name} ${source})
  target_include_directories(${name} PRIVATE ${FMT_INCLUDE} ${CLI11_INCLUDE})
  target_compile_options(${name} PRIVATE -O1)  # half a second of work; CLI11 takes long to translate
  target_link_libraries(${name} PRIVATE ipu_cases)
endforeach()
