# Fails unless a configuration without libraries names the Debian packages of
# all that are missing, and succeeds if it needs no library:
#   cmake -DSOURCE_DIR=... -DWORK_DIR=... -P test_needed.cmake

# configure(option...): sets `result`, and `said` to the output in one line.
function(configure)
  file(REMOVE_RECURSE ${WORK_DIR})
  execute_process(
    COMMAND ${CMAKE_COMMAND} -S ${SOURCE_DIR} -B ${WORK_DIR} -DTERP_CUDA=OFF
            -DXXHASH_INCLUDE_DIR=XXHASH_INCLUDE_DIR-NOTFOUND
            -DCMOCKA_LIBRARY=CMOCKA_LIBRARY-NOTFOUND
            -DCMAKE_DISABLE_FIND_PACKAGE_HDF5=ON
            -DCMAKE_FIND_ROOT_PATH=${WORK_DIR}
            -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY
            -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY ${ARGN}
    RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
  string(REGEX REPLACE "[ \n]+" " " said "${said}")
  set(result ${result} PARENT_SCOPE)
  set(said "${said}" PARENT_SCOPE)
endfunction()

configure()
if(result EQUAL 0 OR NOT said MATCHES
   "apt-get install libxxhash-dev libhdf5-dev libcmocka-dev")
  message(FATAL_ERROR "what is missing was not named:\n${said}")
endif()
configure(-DTERP_HDF5=OFF -DBUILD_TESTING=OFF)
if(result EQUAL 0 OR NOT said MATCHES "apt-get install libxxhash-dev "
   OR said MATCHES "hdf5-dev|cmocka")
  message(FATAL_ERROR "more was named than is needed:\n${said}")
endif()
