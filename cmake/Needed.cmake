# Checks the libraries and tools that terp needs. One message names all that are
# missing, with their Debian packages; it is the last message in the output of
# CMake and pip.

set(terp_missing)
set(terp_missing_packages)

# terp_miss(thing package): records a missing thing, and the package that has
# it.
macro(terp_miss thing package)
  list(APPEND terp_missing "${thing} (Debian: ${package})")
  list(APPEND terp_missing_packages ${package})
endmacro()

find_package(Threads REQUIRED)
include(${CMAKE_CURRENT_LIST_DIR}/Xxhash.cmake)
if(TERP_HDF5)
  find_package(HDF5 COMPONENTS C)
  if(NOT HDF5_FOUND)
    terp_miss("HDF5, whose headers are in no folder that CMake knows"
              libhdf5-dev)
  elseif(HDF5_IS_PARALLEL)
    # Headers of an HDF5 with MPI include mpi.h, which only mpicc finds by itself.
    find_package(MPI COMPONENTS C)
    if(MPI_C_INCLUDE_DIRS)
      list(APPEND HDF5_C_INCLUDE_DIRS ${MPI_C_INCLUDE_DIRS})
      include_directories(SYSTEM ${MPI_C_INCLUDE_DIRS})
    endif()
  endif()
endif()
if(BUILD_TESTING AND PROJECT_IS_TOP_LEVEL)
  find_path(CMOCKA_INCLUDE_DIR cmocka.h)
  find_library(CMOCKA_LIBRARY cmocka)
  if(NOT CMOCKA_INCLUDE_DIR OR NOT CMOCKA_LIBRARY)
    terp_miss("cmocka, for tests, which -DBUILD_TESTING=OFF leaves out"
              libcmocka-dev)
  endif()
endif()

if(terp_missing)
  list(JOIN terp_missing "\n  " terp_missing)
  list(JOIN terp_missing_packages " " terp_missing_packages)
  message(FATAL_ERROR "terp needs what was not found here:\n"
    "  ${terp_missing}\n"
    "On Debian and Ubuntu:\n  apt-get install ${terp_missing_packages}")
endif()
