# Hosts of the plugin as users have them: C programs, h5py and netCDF4 from
# several sources, and HDF5's own tools. doc/hosts.md lists the tested versions.
find_package(Python3 COMPONENTS Interpreter)
find_program(H5REPACK h5repack)
# The system's h5py works only with the system's Python.
find_program(TERP_SYSTEM_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)

# terp_add_pytest(name command...): a test in hosts/ with the plugin's path. Exit
# status 77 means "skipped".
function(terp_add_pytest name)
  add_test(NAME ${name} COMMAND ${ARGN}
           WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/hosts)
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 ENVIRONMENT
    "HDF5_PLUGIN_PATH=$<TARGET_FILE_DIR:h5zterp>;\
TEST_PLUGIN=$<TARGET_FILE:h5zterp>;\
TEST_H5REPACK=${H5REPACK};\
PYTHONPYCACHEPREFIX=${CMAKE_BINARY_DIR}/pycache")
endfunction()

if(NOT Python3_FOUND)
  message(STATUS "The filter's tests in Python are left out: no Python")
  return()
endif()
terp_add_pytest(filter_symbols ${Python3_EXECUTABLE} test_symbols.py)
set_property(TEST filter_symbols APPEND PROPERTY ENVIRONMENT
  "TEST_CONNECTOR=$<TARGET_FILE:h5vlterp>"
  "TEST_CODEC=$<TARGET_FILE:terp_shared>"
  "TEST_MAP=${PROJECT_SOURCE_DIR}/codec/libterp.map"
  "TEST_SONAME=libterp.so.${TERP_SOVERSION}"
  "TEST_ARCHIVES=$<TARGET_FILE:terp_codec>:$<TARGET_FILE:terp_codebooks>:\
$<TARGET_FILE:terp_h5>")

# A program without sanitizers cannot load a plugin with them.
if(TERP_SANITIZE)
  return()
endif()

# Hosts that read each other's files in test_hosts.py: --host NAME COMMAND...
set(hosts)

# A program that uses the filter in its main thread, in threads and in children.
# terp_add_host_program(target source libraries...)
function(terp_add_host_program target source)
  add_executable(${target} ${source})
  terp_use_hdf5_headers(${target})
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C)
  target_link_libraries(${target} PRIVATE ${ARGN} Threads::Threads m)
  add_dependencies(${target} h5zterp)
  foreach(action threads fork)
    set(file ${CMAKE_CURRENT_BINARY_DIR}/${target}_${action})
    add_test(NAME filter_${target}_${action} COMMAND ${target} ${action}
             ${file}_1.h5 ${file}_2.h5 ${file}_3.h5)
    set_tests_properties(filter_${target}_${action} PROPERTIES ENVIRONMENT
      "HDF5_PLUGIN_PATH=$<TARGET_FILE_DIR:h5zterp>;TERP_NUM_THREADS=2")
  endforeach()
endfunction()

terp_add_host_program(host_shared filter/host_file.c ${HDF5_C_LIBRARIES})
list(APPEND hosts --host "libhdf5.so" $<TARGET_FILE:host_shared>)

# The static library lies beside the library that CMake has found.
set(archive ${HDF5_C_LIBRARIES})
list(FILTER archive INCLUDE REGEX "/libhdf5[^/]*[.]so$")
string(REGEX REPLACE "[.]so$" ".a" archive "${archive}")
if(archive AND EXISTS "${archive}" AND CMAKE_NM AND CMAKE_OBJCOPY)
  set(needed ${HDF5_C_LIBRARIES})
  list(FILTER needed EXCLUDE REGEX "/libhdf5[^/]*$")
  terp_add_host_program(host_static filter/host_file.c ${archive} ${needed})
  list(APPEND hosts --host "libhdf5.a" $<TARGET_FILE:host_static>)

  # A fully static program that contains the filter. HDF5's S3 driver, which the
  # program never calls, would need many more static libraries.
  find_library(SZ_ARCHIVE libsz.a)
  find_library(AEC_ARCHIVE libaec.a)
  find_library(Z_ARCHIVE libz.a)
  set(static_needed ${needed})
  if(SZ_ARCHIVE AND AEC_ARCHIVE AND Z_ARCHIVE)
    set(static_needed ${SZ_ARCHIVE} ${AEC_ARCHIVE} ${Z_ARCHIVE} dl -static
        -Wl,--unresolved-symbols=ignore-all)
  endif()
  terp_add_host_program(host_linked filter/host_file.c terp_h5z_linked ${archive}
                        ${static_needed})
  target_compile_definitions(host_linked PRIVATE TERP_LINKED)
  list(APPEND hosts --host "libhdf5.a, the filter in the program"
       $<TARGET_FILE:host_linked>)

  # Like VTK's own libhdf5, with a prefix for every symbol.
  set(renamed ${CMAKE_CURRENT_BINARY_DIR}/vtkhdf5)
  add_library(host_plain OBJECT filter/host_file.c)
  terp_use_hdf5_headers(host_plain)
  add_custom_command(OUTPUT ${renamed}.txt ${renamed}.a ${renamed}.o
    COMMAND sh -c "\"$0\" -g --defined-only \"$1\" 2>/dev/null | \
awk '$3 ~ /^H5/ { print $3, \"vtkhdf5_\" $3 }' | sort -u >\"$2\""
            ${CMAKE_NM} ${archive} ${renamed}.txt
    COMMAND ${CMAKE_OBJCOPY} --redefine-syms=${renamed}.txt
            ${archive} ${renamed}.a
    COMMAND ${CMAKE_OBJCOPY} --redefine-syms=${renamed}.txt
            $<TARGET_OBJECTS:host_plain> ${renamed}.o
    DEPENDS host_plain $<TARGET_OBJECTS:host_plain> ${archive}
    VERBATIM)
  terp_add_host_program(host_renamed ${renamed}.o ${renamed}.a ${needed})
  list(APPEND hosts --host "libhdf5.a, vtkhdf5_" $<TARGET_FILE:host_renamed>)
else()
  message(STATUS "Hosts that hold HDF5 themselves are left out: no libhdf5.a")
endif()

set(no_h5py 1)
if(TERP_SYSTEM_PYTHON)
  execute_process(COMMAND ${TERP_SYSTEM_PYTHON} -c "import h5py"
                  RESULT_VARIABLE no_h5py OUTPUT_QUIET ERROR_QUIET)
endif()
if(no_h5py EQUAL 0)
  terp_add_pytest(filter_h5py_system ${TERP_SYSTEM_PYTHON} test_h5py.py)
  terp_add_pytest(filter_tables_system ${TERP_SYSTEM_PYTHON} test_tables.py)
  list(APPEND hosts --host "h5py of the system"
       ${TERP_SYSTEM_PYTHON} host_file.py)
  if(H5REPACK)
    terp_add_pytest(filter_h5tools ${TERP_SYSTEM_PYTHON} test_h5tools.py)
  endif()
else()
  message(STATUS "Some of the filter's tests are left out: no h5py in "
                 "/usr/bin/python3")
endif()

# Wheels from PyPI: the newest with HDF5 2, and older ones with HDF5 1.14 and
# 1.12. The first test of each set creates its virtual environment.
set(wheels venv venv-1.14 venv-1.12)
set(venv_packages h5py,netCDF4,hdf5plugin)
set(venv-1.14_packages h5py==3.14.0)
set(venv-1.12_packages h5py==3.9.0,numpy<2)

# terp_add_venv_test(name venv script [import...])
function(terp_add_venv_test name venv script)
  string(REPLACE ";" "," imports "${ARGN}")
  terp_add_pytest(${name} ${CMAKE_COMMAND} -E env TEST_IMPORTS=${imports}
                  ${Python3_EXECUTABLE} in_venv.py
                  ${CMAKE_CURRENT_BINARY_DIR}/${venv} "${${venv}_packages}"
                  ${script})
  set_tests_properties(${name} PROPERTIES RESOURCE_LOCK ${venv} LABELS ci)
endfunction()

foreach(venv ${wheels})
  terp_add_venv_test(filter_h5py_${venv} ${venv} test_h5py.py)
  list(APPEND hosts --host "h5py wheel"
       ${Python3_EXECUTABLE} in_venv.py ${CMAKE_CURRENT_BINARY_DIR}/${venv}
       "${${venv}_packages}" host_file.py)
endforeach()
terp_add_venv_test(filter_netcdf_after venv test_netcdf.py h5py)
terp_add_venv_test(filter_netcdf_before venv test_netcdf.py netCDF4)
terp_add_venv_test(filter_hdf5plugin_after venv test_hdf5plugin.py
                   h5py hdf5plugin)
terp_add_venv_test(filter_hdf5plugin_before venv test_hdf5plugin.py hdf5plugin)

terp_add_pytest(filter_hosts ${Python3_EXECUTABLE} test_hosts.py ${hosts})
list(TRANSFORM wheels PREPEND filter_h5py_ OUTPUT_VARIABLE makers)
set(of_hosts filter_hosts)
# The same where the connector is requested and HDF5 finds it before the filter:
# HDF5 1.10 then mistakes it for the filter.
if(TARGET h5vlterp)
  set(alone ${CMAKE_CURRENT_BINARY_DIR}/connector_alone)
  add_custom_target(connector_alone ALL
    COMMAND ${CMAKE_COMMAND} -E make_directory ${alone}
    COMMAND ${CMAKE_COMMAND} -E copy_if_different $<TARGET_FILE:h5vlterp> ${alone})
  terp_add_pytest(vol_hosts ${CMAKE_COMMAND} -E env
                  HDF5_PLUGIN_PATH=${alone}:$<TARGET_FILE_DIR:h5zterp>
                  HDF5_VOL_CONNECTOR=terp
                  ${Python3_EXECUTABLE} test_hosts.py ${hosts})
  list(APPEND of_hosts vol_hosts)
endif()
set_tests_properties(${of_hosts} PROPERTIES
  RESOURCE_LOCK "${wheels}" DEPENDS "${makers}" LABELS ci)

option(TERP_TEST_READERS
  "Test more of others' programs: VTK, yt, h5py's own tests; 250 MB of wheels"
       OFF)
if(TERP_TEST_READERS)
  set(venv-readers_packages vtk,yt,tables,xarray,h5netcdf,netCDF4,h5py)
  terp_add_venv_test(filter_readers venv-readers test_readers.py)
  terp_add_venv_test(filter_tables venv-readers test_tables.py)
  if(TARGET terp)
    set_property(TEST filter_tables APPEND PROPERTY ENVIRONMENT
      TEST_TOOL=$<TARGET_FILE:terp>)
  endif()
endif()
