-- Modulefile of terp for Lmod, as MODULEPATH/terp/2.0.0.lua. Set `prefix` to the
-- folder that cmake --install --prefix used.
local version = myModuleVersion()
local prefix = pathJoin("/opt/terp", version)

help([[
terp compresses floating-point data in HDF5 with an error bound.
Commands: terp --help, man terp. HDF5_PLUGIN_PATH names the plugin's folder; it
replaces the folder in which HDF5 looks by itself.
]])
whatis("Name: terp")
whatis("Version: " .. version)
whatis("Category: data, compression, HDF5")
whatis("Description: Error-bounded compression of floating-point data in HDF5")

conflict("terp")

setenv("TERP_ROOT", prefix)
prepend_path("HDF5_PLUGIN_PATH", pathJoin(prefix, "lib/hdf5/plugin"))
prepend_path("PATH", pathJoin(prefix, "bin"))
prepend_path("MANPATH", pathJoin(prefix, "share/man"))
prepend_path("LD_LIBRARY_PATH", pathJoin(prefix, "lib"))
prepend_path("LIBRARY_PATH", pathJoin(prefix, "lib"))
prepend_path("CPATH", pathJoin(prefix, "include"))
prepend_path("PKG_CONFIG_PATH", pathJoin(prefix, "lib/pkgconfig"))
prepend_path("CMAKE_PREFIX_PATH", prefix)
