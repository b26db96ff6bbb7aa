# Chooses the folder of the plugin: the folder that the found HDF5 searches by
# itself, if it is below the prefix, as when HDF5 and terp share a prefix.
# TERP_HDF5_PLUGIN_DIR is HDF5's folder; empty if it is not known.

set(TERP_INSTALL_PLUGIN_DIR "" CACHE STRING
    "Where the plugin is installed, below the prefix; if empty, where HDF5 looks")

if(TERP_HDF5 AND NOT CMAKE_CROSSCOMPILING AND NOT TERP_SANITIZE AND
   NOT DEFINED TERP_HDF5_PLUGIN_DIR)
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/plugin_folder/folder.c [[
#define _POSIX_C_SOURCE 200809L /* unsetenv */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>

int
main(void)
{
    char folder[4096];

    unsetenv("HDF5_PLUGIN_PATH");
    ssize_t length = H5PLget(0, folder, sizeof folder);
    if (length <= 0 || (size_t)length >= sizeof folder)
        return 1;
    fputs(folder, stdout);
    return 0;
}
]])
  try_run(terp_run_result terp_compile_result
    ${CMAKE_CURRENT_BINARY_DIR}/plugin_folder
    ${CMAKE_CURRENT_BINARY_DIR}/plugin_folder/folder.c
    CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${HDF5_C_INCLUDE_DIRS}"
    COMPILE_DEFINITIONS ${HDF5_C_DEFINITIONS}
    LINK_LIBRARIES ${HDF5_C_LIBRARIES}
    RUN_OUTPUT_VARIABLE terp_folder)
  if(NOT terp_compile_result OR NOT terp_run_result EQUAL 0)
    set(terp_folder "")
  endif()
  set(TERP_HDF5_PLUGIN_DIR "${terp_folder}" CACHE INTERNAL
      "Where HDF5 looks for plugins by itself")
endif()

if(NOT TERP_INSTALL_PLUGIN_DIR)
  set(TERP_INSTALL_PLUGIN_DIR ${CMAKE_INSTALL_LIBDIR}/hdf5/plugin)
  if(TERP_HDF5_PLUGIN_DIR)
    file(RELATIVE_PATH terp_folder ${CMAKE_INSTALL_PREFIX}
         ${TERP_HDF5_PLUGIN_DIR})
    if(NOT terp_folder MATCHES "^[.][.]")
      set(TERP_INSTALL_PLUGIN_DIR ${terp_folder})
    endif()
  endif()
endif()
