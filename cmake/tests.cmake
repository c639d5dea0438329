# ipu_tests: all C++ tests of the torch-free rooms in one binary.
find_package(GTest QUIET)
if(NOT GTest_FOUND)
  message(FATAL_ERROR "GoogleTest is missing. Install it with: apt-get install libgtest-dev")
endif()
enable_testing()
set(IPU_TEST_ROOMS "" CACHE STRING "Folders of tests/ whose C++ tests are built; empty: all")
set(IPU_TEST_PATTERNS ${CMAKE_SOURCE_DIR}/tests/*_test.cc)
if(IPU_TEST_ROOMS)
  list(TRANSFORM IPU_TEST_ROOMS REPLACE "(.+)" "${CMAKE_SOURCE_DIR}/tests/\\1/*_test.cc" OUTPUT_VARIABLE IPU_TEST_PATTERNS)
endif()
file(GLOB_RECURSE IPU_TEST_SOURCES CONFIGURE_DEPENDS ${IPU_TEST_PATTERNS})
if(IPU_TEST_SOURCES)
  add_executable(ipu_tests ${IPU_TEST_SOURCES})
  ipu_translate_together(ipu_tests 3000 ${IPU_TEST_SOURCES})
  target_compile_options(ipu_tests PRIVATE -O1 -g0)  # compile time counts here, not speed
  target_include_directories(ipu_tests PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(ipu_tests PRIVATE ipu_cases ipu GTest::gtest GTest::gtest_main)
  add_test(NAME ipu_tests COMMAND ipu_tests WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
endif()

# The C++ examples, which tests/examples runs.
file(GLOB IPU_EXAMPLES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/examples/*.cc)
foreach(source ${IPU_EXAMPLES})
  get_filename_component(name ${source} NAME_WE)
  add_executable(example_${name} ${source})
  target_link_libraries(example_${name} PRIVATE ipu)
endforeach()

# Libraries of custom operations that the tests load, as a user would build them.
if(TARGET ipu_tests)
  set(IPU_CUSTOM_LIBRARIES custom_ops_example)
  add_library(custom_ops_example MODULE ${CMAKE_SOURCE_DIR}/tests/ops/custom_ops/example.cc)
  foreach(kind 1 2 3 4 5)
    add_library(custom_ops_broken${kind} MODULE ${CMAKE_SOURCE_DIR}/tests/ops/custom_ops/broken.cc)
    target_compile_definitions(custom_ops_broken${kind} PRIVATE BROKEN=${kind})
    list(APPEND IPU_CUSTOM_LIBRARIES custom_ops_broken${kind})
  endforeach()
  foreach(library ${IPU_CUSTOM_LIBRARIES})
    target_include_directories(${library} PRIVATE ${CMAKE_SOURCE_DIR}/csrc/include)
    set_target_properties(${library} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/custom_ops)
    add_dependencies(ipu_tests ${library})
  endforeach()
  set_source_files_properties(${CMAKE_SOURCE_DIR}/tests/ops/custom_op_test.cc
                              ${CMAKE_SOURCE_DIR}/tests/executable/attacks_test.cc
                              ${CMAKE_SOURCE_DIR}/tests/executable/program_fuzz_test.cc PROPERTIES COMPILE_DEFINITIONS
                              IPU_CUSTOM_OPS="${CMAKE_BINARY_DIR}/custom_ops")
endif()
