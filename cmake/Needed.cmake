# What terp is built with, and the packages of Debian that have it: all that is
# missing is named at once. CMake's and pip's output end with that message.

set(terp_missing)
set(terp_missing_packages)

# terp_miss(thing package): notes what is missing, and what has it.
macro(terp_miss thing package)
  list(APPEND terp_missing "${thing} (Debian: ${package})")
  list(APPEND terp_missing_packages ${package})
endmacro()

find_package(Threads REQUIRED)
find_path(XXHASH_INCLUDE_DIR xxhash.h)
if(NOT XXHASH_INCLUDE_DIR)
  terp_miss("xxHash's header xxhash.h" libxxhash-dev)
endif()
if(TERP_HDF5)
  find_package(HDF5 COMPONENTS C)
  if(NOT HDF5_FOUND)
    terp_miss("HDF5, whose headers are in no folder that CMake knows"
              libhdf5-dev)
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
