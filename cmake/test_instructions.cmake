# Fails unless every name that the objects export ends in _SET. Otherwise code
# for some processors could be linked in place of the code for all:
#   cmake -DNM=... -DSET=... -DOBJECTS=... -P test_instructions.cmake
cmake_minimum_required(VERSION 3.22)
list(LENGTH OBJECTS nobjects)
if(nobjects LESS 2)
  message(FATAL_ERROR "no objects of ${SET}")
endif()
foreach(object ${OBJECTS})
  execute_process(COMMAND ${NM} -gP --defined-only ${object}
                  OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE " [^\n]*\n" ";" symbols "${symbols}")
  list(FILTER symbols EXCLUDE REGEX "_${SET}$")
  list(REMOVE_ITEM symbols "")
  if(symbols)
    message(FATAL_ERROR "${object} defines ${symbols}")
  endif()
endforeach()
message("${nobjects} objects of ${SET}, under names of their own")
