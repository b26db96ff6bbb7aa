# Builds the consumer with terp's source in it, by add_subdirectory, and runs it:
#   cmake -DWORK_DIR=... -P test_subdirectory.cmake
# As the preset release does, whose objects ccache has.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

file(MAKE_DIRECTORY ${WORK_DIR})
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/consumer -B build
    -DTERP_SOURCE_DIR=${CMAKE_CURRENT_LIST_DIR}/.. -DTERP_CUDA=OFF
    -DCMAKE_BUILD_TYPE=Release -DTERP_WERROR=ON)
run(${CMAKE_COMMAND} --build build --target consumer batch blocks h5zterp)
run(build/consumer)
run(build/batch)
run(build/blocks)
