# Fails unless the plugin compiles with the headers of an HDF5 with MPI, by a
# compiler that does not find mpi.h by itself:
#   cmake -DSOURCE_DIR=... -DWORK_DIR=... -DCOMPILER=... -P test_parallel.cmake
# Without such an HDF5, it is compiled with the one that there is.
file(REMOVE_RECURSE ${WORK_DIR})
execute_process(
  COMMAND ${CMAKE_COMMAND} -S ${SOURCE_DIR} -B ${WORK_DIR} -DTERP_CUDA=OFF
          -DBUILD_TESTING=OFF -DTERP_TOOL=OFF -DHDF5_PREFER_PARALLEL=ON
          -DCMAKE_C_COMPILER=${COMPILER} -G "Unix Makefiles"
  OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${said}")
endif()
file(READ ${WORK_DIR}/compile_commands.json commands)
string(JSON length LENGTH "${commands}")
math(EXPR last "${length} - 1")
foreach(i RANGE ${last})
  string(JSON file GET "${commands}" ${i} file)
  if(file MATCHES "/filter/plugin/call[.]c$")
    string(JSON command GET "${commands}" ${i} command)
    execute_process(COMMAND sh -c "${command} -fsyntax-only"
                    WORKING_DIRECTORY ${WORK_DIR} COMMAND_ERROR_IS_FATAL ANY)
    return()
  endif()
endforeach()
message(FATAL_ERROR "filter/plugin/call.c is not compiled")
