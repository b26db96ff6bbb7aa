# Builds the consumer with terp's source, by add_subdirectory, and runs it.
# Fails if the build has more than the libraries, unless an option adds more:
#   cmake -DWORK_DIR=... -P test_subdirectory.cmake
# Uses the flags of the preset release, whose objects ccache has. WORK_DIR is at the
# depth of build/release, in case ccache makes paths relative.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

file(MAKE_DIRECTORY ${WORK_DIR})
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/consumer -B .
    -DTERP_SOURCE_DIR=${CMAKE_CURRENT_LIST_DIR}/.. -UTERP_TOOL -UTERP_CUDA
    -DCMAKE_BUILD_TYPE=Release -DTERP_WERROR=ON)
execute_process(COMMAND ${CMAKE_COMMAND} --build . --target help
                WORKING_DIRECTORY ${WORK_DIR} OUTPUT_VARIABLE targets
                COMMAND_ERROR_IS_FATAL ANY)
foreach(target terp terp_cuda test_frame gray_scott)
  if(targets MATCHES "(^|\n|[.] )${target}(:| *\n)")
    message(FATAL_ERROR "${target} is there, which nobody wants of a subproject")
  endif()
endforeach()
if(NOT targets MATCHES "(\n|[.] )h5zterp(:| *\n)")
  message(FATAL_ERROR "h5zterp is missing among the targets:\n${targets}")
endif()
run(${CMAKE_COMMAND} --build . --target consumer batch blocks h5zterp)
run(./consumer)
run(./batch)
run(./blocks)
# Builds the tool on demand.
run(${CMAKE_COMMAND} . -DTERP_TOOL=ON)
execute_process(COMMAND ${CMAKE_COMMAND} --build . --target help
                WORKING_DIRECTORY ${WORK_DIR} OUTPUT_VARIABLE targets
                COMMAND_ERROR_IS_FATAL ANY)
if(NOT targets MATCHES "(^|\n|[.] )terp(:| *\n)")
  message(FATAL_ERROR "terp is missing among the targets:\n${targets}")
endif()
