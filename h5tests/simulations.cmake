# Files in the layouts that simulations write. Uses results of hosts.cmake.
if(NOT TARGET h5zterp OR TERP_SANITIZE OR NOT no_h5py EQUAL 0)
  return()
endif()
terp_add_pytest(amrex_bricks ${TERP_SYSTEM_PYTHON} ../tools/test_amrex.py)
if(TARGET terp)
  terp_add_pytest(amrex_parts ${TERP_SYSTEM_PYTHON}
                  ../tools/test_amrex_parts.py)
  set_property(TEST amrex_bricks amrex_parts APPEND PROPERTY ENVIRONMENT
    TEST_TERP=$<TARGET_FILE:terp>)
  if(TARGET terp_cuda_emulated_library)
    set_property(TEST amrex_parts APPEND PROPERTY ENVIRONMENT
      TEST_EMULATED=$<TARGET_FILE:terp_cuda_emulated_library>)
  endif()
  terp_add_pytest(openpmd ${Python3_EXECUTABLE} in_venv.py
                  ${CMAKE_CURRENT_BINARY_DIR}/venv-openpmd
                  ${openpmd_packages} ../tools/test_openpmd.py)
  set_property(TEST openpmd APPEND PROPERTY ENVIRONMENT
    TEST_TERP=$<TARGET_FILE:terp>)
  set_tests_properties(openpmd PROPERTIES
    LABELS ci RESOURCE_LOCK venv-openpmd)
endif()

if(TARGET parallel_write)
  find_package(MPI REQUIRED COMPONENTS C)
  add_executable(mpi_patterns tools/mpi_patterns.c)
  target_include_directories(mpi_patterns
    PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/filter/plugin)
  target_link_libraries(mpi_patterns
    PRIVATE PkgConfig::TERP_HDF5_MPI MPI::MPI_C m)
  terp_add_pytest(mpi_parallel_write ${TERP_SYSTEM_PYTHON} ../tools/test_mpi.py)
  set_property(TEST mpi_parallel_write APPEND PROPERTY ENVIRONMENT
    TEST_MPIEXEC=${MPIEXEC_EXECUTABLE}
    TERP_CUDA_LIBRARY=$<TARGET_FILE:fake_cuda_engine> TEST_NDEVICES=2
    TEST_PARALLEL_WRITE=$<TARGET_FILE:parallel_write>
    TEST_MPI_PATTERNS=$<TARGET_FILE:mpi_patterns>
    TEST_MPI_MESSAGES=$<TARGET_FILE:mpi_messages>)
  if(TARGET terp_cuda_emulated_library)
    set(library $<TARGET_FILE:terp_cuda_emulated_library>)
    set_property(TEST mpi_parallel_write APPEND PROPERTY ENVIRONMENT
      TERP_TEST_CUDART=${library} TEST_DEVICE_ENGINE=${library})
  endif()
endif()
