# Runs at the end of an installation: prints how HDF5 finds the plugin, which is
# in plugin_dir below the prefix. default_dir: the folder that HDF5 searches by
# itself.
if(NOT "$ENV{DESTDIR}" STREQUAL "")
  return()
endif()
get_filename_component(plugin_dir ${CMAKE_INSTALL_PREFIX}/${plugin_dir} ABSOLUTE)
if(plugin_dir STREQUAL default_dir)
  message(STATUS "The HDF5 that terp was built with finds the plugin by itself, "
                 "in ${plugin_dir}")
else()
  message(STATUS "For HDF5 to find the plugin, set where programs run:\n"
                 "     export HDF5_PLUGIN_PATH=${plugin_dir}")
  if(IS_DIRECTORY "${default_dir}")
    message(STATUS "That takes the place of HDF5's own folder; with its plugins:\n"
      "     export HDF5_PLUGIN_PATH=${plugin_dir}:${default_dir}")
  endif()
endif()
