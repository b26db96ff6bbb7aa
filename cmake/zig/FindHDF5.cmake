# Finds HDF5's headers only: libraries for another system are not linked with
# HDF5. Windows' linker needs a library for every name, so an import library of
# hdf5.dll (as in h5py's wheels) is made from the names that the headers
# declare.
set(HDF5_C_INCLUDE_DIRS ${TERP_ZIG_PREFIX}/include/hdf5)
set(HDF5_C_DEFINITIONS)
set(HDF5_C_LIBRARIES)
set(HDF5_FOUND TRUE)

if(WIN32)
  set(names)
  file(GLOB headers ${HDF5_C_INCLUDE_DIRS}/H5*pub*.h ${HDF5_C_INCLUDE_DIRS}/H5FDsec2.h)
  foreach(header ${headers})
    file(READ ${header} text)
    string(REGEX REPLACE "[[;]" "," text "${text}")
    string(REGEX MATCHALL "H5_DLL +[^(]*[(]" functions "${text}")
    string(REGEX MATCHALL "H5_DLLVAR +[^,]*," variables "${text}")
    foreach(found ${functions} ${variables})
      string(REGEX MATCH "[A-Za-z0-9_]+ *[(,]$" name "${found}")
      string(REGEX REPLACE " *[(]" "" name "${name}")
      string(REGEX REPLACE "," " DATA" name "${name}")
      list(APPEND names "${name}")
    endforeach()
  endforeach()
  # Names that later versions give to functions of HDF5 1.10:
  # tools/CMakeLists.txt.
  foreach(name H5Lget_info H5Literate H5Oget_info H5Oget_info_by_name H5Ovisit)
    list(APPEND names ${name}1)
  endforeach()
  list(REMOVE_DUPLICATES names)
  list(JOIN names "\n" names)
  set(HDF5_C_LIBRARIES ${CMAKE_BINARY_DIR}/hdf5.lib)
  file(WRITE ${CMAKE_BINARY_DIR}/hdf5.def "LIBRARY hdf5.dll\nEXPORTS\n${names}\n")
  execute_process(COMMAND ${CMAKE_CURRENT_LIST_DIR}/dlltool -m i386:x86-64
    -d ${CMAKE_BINARY_DIR}/hdf5.def -l ${HDF5_C_LIBRARIES}
    COMMAND_ERROR_IS_FATAL ANY)
endif()
