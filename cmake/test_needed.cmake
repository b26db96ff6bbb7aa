# Fails unless a configuration without libraries names the Debian packages of
# all that are missing, and uses its own copy of xxHash where the system has none:
#   cmake -DSOURCE_DIR=... -DWORK_DIR=... -P test_needed.cmake

# configure(option...): sets `result`, and `said` to the output in one line.
function(configure)
  file(REMOVE_RECURSE ${WORK_DIR})
  execute_process(
    COMMAND ${CMAKE_COMMAND} -S ${SOURCE_DIR} -B ${WORK_DIR} -DTERP_CUDA=OFF
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

configure(-DTERP_SYSTEM_XXHASH=ON)
if(result EQUAL 0 OR NOT said MATCHES
   "apt-get install libxxhash-dev libhdf5-dev libcmocka-dev")
  message(FATAL_ERROR "what is missing was not named:\n${said}")
endif()
configure(-DTERP_HDF5=OFF -DBUILD_TESTING=OFF -DTERP_SYSTEM_XXHASH=ON)
if(result EQUAL 0 OR NOT said MATCHES "apt-get install libxxhash-dev "
   OR said MATCHES "hdf5-dev|cmocka")
  message(FATAL_ERROR "more was named than is needed:\n${said}")
endif()
# Without the system's header, the copy in the tree is used.
foreach(option AUTO OFF)
  configure(-DTERP_HDF5=OFF -DBUILD_TESTING=OFF -DTERP_SYSTEM_XXHASH=${option})
  if(NOT result EQUAL 0 OR NOT said MATCHES "copy of xxHash 0[.]8[.][0-9]")
    message(FATAL_ERROR "xxHash's header is not replaced by the copy:\n${said}")
  endif()
endforeach()
# Before 0.8.0, xxHash had other values of XXH3.
set(old ${WORK_DIR}-old)
file(WRITE ${old}/xxhash.h "#define XXH_VERSION_MAJOR 0
#define XXH_VERSION_MINOR 7
#define XXH_VERSION_RELEASE 4
")
configure(-DTERP_HDF5=OFF -DBUILD_TESTING=OFF -DXXHASH_INCLUDE_DIR=${old})
if(NOT result EQUAL 0 OR NOT said MATCHES "copy of xxHash")
  message(FATAL_ERROR "an old header is used:\n${said}")
endif()
configure(-DTERP_HDF5=OFF -DBUILD_TESTING=OFF -DXXHASH_INCLUDE_DIR=${old}
          -DTERP_SYSTEM_XXHASH=ON)
if(result EQUAL 0 OR NOT said MATCHES "too old")
  message(FATAL_ERROR "an old header was not refused:\n${said}")
endif()
