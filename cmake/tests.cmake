# ipu_tests: all C++ tests of the torch-free rooms in one binary.
find_package(GTest QUIET)
if(NOT GTest_FOUND)
  message(FATAL_ERROR "GoogleTest is missing. Install it with: apt-get install libgtest-dev")
endif()
enable_testing()
file(GLOB_RECURSE IPU_TEST_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/*_test.cc)
if(IPU_TEST_SOURCES)
  add_executable(ipu_tests ${IPU_TEST_SOURCES})
  target_compile_options(ipu_tests PRIVATE -O1 -g0)  # compile time counts here, not speed
  target_include_directories(ipu_tests PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(ipu_tests PRIVATE ipu GTest::gtest GTest::gtest_main)
  add_test(NAME ipu_tests COMMAND ipu_tests WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
endif()
