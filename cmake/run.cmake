# run(command...): runs a command in WORK_DIR; its failure ends the script.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result
                  WORKING_DIRECTORY ${WORK_DIR})
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${result} from: ${command}")
  endif()
endfunction()
