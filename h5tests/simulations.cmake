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

  # Programs of others. Debian's pkg-config file lacks the folder of the header.
  terp_add_pytest(mpi_programs ${TERP_SYSTEM_PYTHON}
                  ../tools/test_mpi_programs.py)
  set(TERP_AMREX_PLOTFILE "" CACHE FILEPATH
      "The program of examples/amrex, to try the connector's rules on it")
  set_property(TEST mpi_programs APPEND PROPERTY ENVIRONMENT
    TEST_MPIEXEC=${MPIEXEC_EXECUTABLE} TEST_NDEVICES=1
    TEST_PLOTFILE=${TERP_AMREX_PLOTFILE})
  find_library(TERP_NETCDF_MPI netcdf_mpi)
  cmake_path(GET TERP_NETCDF_MPI PARENT_PATH folder)
  find_path(TERP_NETCDF_MPI_INCLUDE netcdf_par.h
            HINTS ${folder}/netcdf/mpi/include NO_DEFAULT_PATH)
  if(TERP_NETCDF_MPI AND TERP_NETCDF_MPI_INCLUDE)
    add_executable(mpi_netcdf tools/mpi_netcdf.c)
    target_include_directories(mpi_netcdf SYSTEM
      PRIVATE ${TERP_NETCDF_MPI_INCLUDE})
    target_link_libraries(mpi_netcdf PRIVATE ${TERP_NETCDF_MPI} MPI::MPI_C m)
    set_property(TEST mpi_programs APPEND PROPERTY ENVIRONMENT
      TEST_MPI_NETCDF=$<TARGET_FILE:mpi_netcdf>)
  endif()
endif()
