# The connector's rules; this test needs no HDF5.
terp_add_ctest(test_vol_rules vol/test_vol_rules.c ${PROJECT_SOURCE_DIR}/vol/rules.c)
target_link_libraries(test_vol_rules PRIVATE terp_codec)
terp_use_hdf5_headers(test_vol_rules)

# The connector with HDF5 2.x and 1.14 from PyPI's wheels. Another test compares
# the connector's declarations with the headers of such an HDF5.
if(TARGET h5vlterp AND Python3_FOUND AND NOT TERP_SANITIZE)
  # Tests with the older HDF5, and h5py's own tests, take longer.
  set(venvs venv)
  if(TERP_TEST_READERS)
    list(APPEND venvs venv-1.14)
  endif()
  foreach(venv ${venvs})
    terp_add_venv_test(vol_connector_${venv} ${venv} ../vol/test_connector.py)
    set_tests_properties(vol_connector_${venv} PROPERTIES COST 100)
    add_dependencies(h5zterp h5vlterp)
    set_property(TEST vol_connector_${venv} APPEND PROPERTY ENVIRONMENT
      "HDF5_VOL_CONNECTOR=terp;TERP_NUM_THREADS=2")
    if(TARGET terp_cuda_emulated_library)
      set(library $<TARGET_FILE:terp_cuda_emulated_library>)
      set_property(TEST vol_connector_${venv} APPEND PROPERTY ENVIRONMENT
        "TERP_CUDA_LIBRARY=${library};TERP_TEST_CUDART=${library}")
    endif()
  endforeach()

  terp_add_venv_test(vol_async venv ../vol/test_async.py)
  set_property(TEST vol_async APPEND PROPERTY ENVIRONMENT
    "HDF5_VOL_CONNECTOR=terp;TERP_NUM_THREADS=2")

  # The test suites of h5py and netCDF4, and readers and writers of other
  # projects.
  set(venv-xarray_packages xarray,h5netcdf,netCDF4,h5py)
  terp_add_venv_test(vol_xarray venv-xarray ../vol/test_xarray.py)
  set_property(TEST vol_xarray APPEND PROPERTY ENVIRONMENT
    "HDF5_VOL_CONNECTOR=terp;TERP_NUM_THREADS=2")

  # A test of another project may fail only if it also fails without the
  # connector.
  if(TERP_TEST_READERS)
    set(venv-suites_packages
      h5py,h5netcdf,netCDF4,pandas,tables,xarray,dask,hypothesis,pytest,pytest-mpi)
    foreach(suite h5py h5netcdf pandas tables xarray)
      terp_add_venv_test(vol_suite_${suite} venv-suites ../vol/test_suite.py)
      set_property(TEST vol_suite_${suite} APPEND PROPERTY ENVIRONMENT
        "TEST_SUITE=${suite};TERP_NUM_THREADS=2")
      set_tests_properties(vol_suite_${suite} PROPERTIES TIMEOUT 7200)
    endforeach()
  endif()
endif()

# C programs with threads and child processes, where this HDF5 has connectors.
if(TARGET h5vlterp AND HDF5_VERSION VERSION_GREATER_EQUAL 1.14)
  foreach(host host_shared host_static host_renamed)
    foreach(action threads fork)
      set(file ${CMAKE_CURRENT_BINARY_DIR}/vol_${host}_${action})
      if(TARGET ${host})
        add_test(NAME vol_${host}_${action} COMMAND ${host} ${action}
                 ${file}_1.h5 ${file}_2.h5 ${file}_3.h5)
        set_tests_properties(vol_${host}_${action} PROPERTIES ENVIRONMENT
          "HDF5_PLUGIN_PATH=$<TARGET_FILE_DIR:h5zterp>;\
HDF5_VOL_CONNECTOR=terp;TERP_NUM_THREADS=2")
      endif()
    endforeach()
  endforeach()

  # Beside the connector's own thread; ThreadSanitizer runs it too.
  find_package(Threads REQUIRED)
  add_executable(vol_threads vol/vol_threads.c)
  target_include_directories(vol_threads
    PRIVATE ${PROJECT_SOURCE_DIR}/filter/plugin)
  terp_use_hdf5_headers(vol_threads)
  target_link_libraries(vol_threads
    PRIVATE ${HDF5_C_LIBRARIES} Threads::Threads m)
  foreach(way writes events async)
    set(arguments ${CMAKE_CURRENT_BINARY_DIR}/vol_threads_${way}_ 3)
    if(way STREQUAL "events")
      list(APPEND arguments events)
    endif()
    add_test(NAME vol_threads_${way} COMMAND vol_threads ${arguments})
    set_tests_properties(vol_threads_${way} PROPERTIES ENVIRONMENT
      "HDF5_PLUGIN_PATH=$<TARGET_FILE_DIR:h5zterp>;\
HDF5_VOL_CONNECTOR=terp;TERP_NUM_THREADS=2;\
TERP_ASYNC=$<STREQUAL:${way},async>")
  endforeach()
endif()

# TERP_VOL_HEADERS: a folder with H5VLconnector.h of HDF5 1.14 or newer, in case
# terp is built with an older HDF5.
set(TERP_VOL_HEADERS "" CACHE PATH
    "Headers of HDF5 1.14 or newer, to hold the connector against")
set(headers ${TERP_VOL_HEADERS})
if(NOT headers AND HDF5_VERSION VERSION_GREATER_EQUAL 1.14)
  set(headers ${HDF5_C_INCLUDE_DIRS})
endif()
if(headers)
  add_library(vol_abi OBJECT vol/vol_abi.c)
  target_include_directories(vol_abi PRIVATE ${PROJECT_SOURCE_DIR})
  target_include_directories(vol_abi SYSTEM PRIVATE ${headers})
else()
  message(STATUS "The connector is not held against HDF5's headers: "
                 "TERP_VOL_HEADERS is not set")
endif()
