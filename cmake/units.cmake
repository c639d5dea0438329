# Sources of a target that translate together under IPU_UNITS, at most so many lines at once; asked for anew whenever one of them
# changes, since their names decide.
function(ipu_translate_together target lines)
  if(NOT IPU_UNITS)
    return()
  endif()
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  execute_process(COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/scripts/source_units.py --lines ${lines} ${ARGN}
                  OUTPUT_VARIABLE units OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE ";" "\\;" units "${units}")
  string(REPLACE "\n" ";" units "${units}")
  set(number 0)
  foreach(unit IN LISTS units)
    math(EXPR number "${number} + 1")
    set_source_files_properties(${unit} PROPERTIES UNITY_GROUP unit${number})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP UNITY_BUILD_RELOCATABLE ON)
  set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
               ${CMAKE_SOURCE_DIR}/scripts/source_units.py ${ARGN})
endfunction()
