# Tests of the plugin through HDF5, as users call it.
find_package(HDF5 REQUIRED COMPONENTS C)

add_library(terp_h5_files STATIC support/h5_files.c)
target_include_directories(terp_h5_files SYSTEM PUBLIC ${HDF5_C_INCLUDE_DIRS})
target_compile_definitions(terp_h5_files PUBLIC ${HDF5_C_DEFINITIONS})
target_link_libraries(terp_h5_files
  PUBLIC terp_codec terp_cmocka ${HDF5_C_LIBRARIES})

# HDF5 finds the plugin by its path; no test links it.
set(names absent environment values pass pipeline errors members rewrite short)
if(NOT TERP_SANITIZE) # sanitizers have an allocator of their own
  list(APPEND names heap)
endif()
foreach(name IN LISTS names)
  terp_add_ctest(test_filter_${name} filter/test_filter_${name}.c)
  target_link_libraries(test_filter_${name} PRIVATE terp_h5_files)
  add_dependencies(test_filter_${name} h5zterp)
  set_tests_properties(test_filter_${name} PROPERTIES
    ENVIRONMENT HDF5_PLUGIN_PATH=$<TARGET_FILE_DIR:h5zterp>)
endforeach()
target_link_libraries(test_filter_rewrite PRIVATE terp_cases)
target_link_libraries(test_filter_members PRIVATE m)
if(TERP_SANITIZE MATCHES thread) # one thread; they take minutes
  foreach(name environment members rewrite)
    set_tests_properties(test_filter_${name} PROPERTIES DISABLED TRUE)
  endforeach()
endif()
target_sources(test_filter_environment PRIVATE support/environment.c)


# The same tests with the filter linked into the program.
terp_add_ctest(test_filter_short_linked filter/test_filter_short.c)
target_compile_definitions(test_filter_short_linked PRIVATE TERP_LINKED)
target_link_libraries(test_filter_short_linked
  PRIVATE terp_h5z_linked terp_h5_files)

# Golden files of each release.
file(GLOB golden_files ${CMAKE_CURRENT_SOURCE_DIR}/golden/*/*.h5)
add_executable(golden_files filter/golden_files.c)
target_compile_definitions(golden_files
  PRIVATE ${HDF5_C_DEFINITIONS} H5_USE_110_API)
target_include_directories(golden_files
  SYSTEM PRIVATE ${HDF5_C_INCLUDE_DIRS} ${XXHASH_INCLUDE_DIR})
target_link_libraries(golden_files
  PRIVATE terp_fields terp_cmocka ${HDF5_C_LIBRARIES})
add_dependencies(golden_files h5zterp)
if(golden_files)
  add_test(NAME golden_files COMMAND golden_files ${golden_files})
  set_tests_properties(golden_files PROPERTIES
    ENVIRONMENT HDF5_PLUGIN_PATH=$<TARGET_FILE_DIR:h5zterp>)
endif()

# Blocks of datasets, in batches of few chunks.
terp_add_ctest(test_h5_blocks filter/test_h5_blocks.c support/cuda_buffer.c
  ${PROJECT_SOURCE_DIR}/filter/container.c
  ${PROJECT_SOURCE_DIR}/filter/dcpl.c
  ${PROJECT_SOURCE_DIR}/filter/h5/batch.c
  ${PROJECT_SOURCE_DIR}/filter/h5/block.c
  ${PROJECT_SOURCE_DIR}/filter/h5/coder.c
  ${PROJECT_SOURCE_DIR}/filter/h5/strided.c
  ${PROJECT_SOURCE_DIR}/filter/h5/terp_h5.c
  ${PROJECT_SOURCE_DIR}/filter/plugin/linked_host.c)
target_compile_definitions(test_h5_blocks
  PRIVATE H5_USE_110_API TERP_H5_BATCH_NBYTES=12000
          TERP_H5_DEVICE_BATCH_NBYTES=9000)
target_link_libraries(test_h5_blocks
  PRIVATE terp_h5_files terp_cases ${CMAKE_DL_LIBS})
add_dependencies(test_h5_blocks h5zterp)
set_tests_properties(test_h5_blocks PROPERTIES
  ENVIRONMENT HDF5_PLUGIN_PATH=$<TARGET_FILE_DIR:h5zterp>)

# Stack frames are larger with sanitizers and without optimization.
if(CMAKE_SYSTEM_NAME STREQUAL "Linux" AND NOT TERP_SANITIZE
   AND CMAKE_BUILD_TYPE MATCHES "^(Release|RelWithDebInfo)$")
  terp_add_ctest(test_filter_stack filter/test_filter_stack.c support/painted.c)
  target_compile_definitions(test_filter_stack PRIVATE H5_USE_110_API)
  target_link_libraries(test_filter_stack
    PRIVATE terp_h5_files terp_cases terp_h5)
  add_dependencies(test_filter_stack h5zterp)
  set_tests_properties(test_filter_stack PROPERTIES
    ENVIRONMENT HDF5_PLUGIN_PATH=$<TARGET_FILE_DIR:h5zterp>)
endif()

# A dataset of a terabyte in a sparse file, most of which is never written.
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  terp_add_ctest(test_h5_terabyte filter/test_h5_terabyte.c)
  target_compile_definitions(test_h5_terabyte
    PRIVATE ${HDF5_C_DEFINITIONS} H5_USE_110_API)
  target_include_directories(test_h5_terabyte
    SYSTEM PRIVATE ${HDF5_C_INCLUDE_DIRS})
  target_link_libraries(test_h5_terabyte
    PRIVATE terp_cases terp_h5 ${HDF5_C_LIBRARIES})
  add_dependencies(test_h5_terabyte h5zterp)
  set_tests_properties(test_h5_terabyte PROPERTIES
    ENVIRONMENT HDF5_PLUGIN_PATH=$<TARGET_FILE_DIR:h5zterp>)
endif()

# Writes and reads files, long in scripts/load.sh, a moment here.
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  add_executable(load_files filter/load_files.c support/load.c)
  target_link_libraries(load_files
    PRIVATE terp_cases terp_h5 ${HDF5_C_LIBRARIES} Threads::Threads)
  target_include_directories(load_files SYSTEM PRIVATE ${HDF5_C_INCLUDE_DIRS})
  target_compile_definitions(load_files
    PRIVATE ${HDF5_C_DEFINITIONS} H5_USE_110_API _POSIX_C_SOURCE=200809L)
  add_dependencies(load_files h5zterp)
  add_test(NAME load_files_sample
           COMMAND load_files --seconds 2 ${CMAKE_CURRENT_BINARY_DIR}/load.h5)
  set_tests_properties(load_files_sample PROPERTIES ENVIRONMENT
    "HDF5_PLUGIN_PATH=$<TARGET_FILE_DIR:h5zterp>;TERP_NUM_THREADS=2")
  if(TARGET terp_cuda_emulated_library)
    add_test(NAME load_files_emulated
             COMMAND load_files --seconds 2
                     ${CMAKE_CURRENT_BINARY_DIR}/load_emulated.h5)
    set_tests_properties(load_files_emulated PROPERTIES ENVIRONMENT
      "HDF5_PLUGIN_PATH=$<TARGET_FILE_DIR:h5zterp>;TERP_ENGINE=cuda;TERP_CUDA_LIBRARY=$<TARGET_FILE:terp_cuda_emulated_library>")
  endif()
endif()

# Fake hosts: programs that are not HDF5, for situations that no real host can
# produce here.
function(terp_use_hdf5_headers target)
  target_compile_definitions(${target} PRIVATE ${HDF5_C_DEFINITIONS})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_include_directories(${target} SYSTEM PRIVATE ${HDF5_C_INCLUDE_DIRS})
endfunction()

foreach(host fake_hdf5 fake_vtkhdf5)
  add_library(${host} MODULE filter/fake_host.c)
  terp_use_hdf5_headers(${host})
endforeach()
target_compile_definitions(fake_vtkhdf5 PRIVATE FAKE_VTK)

terp_add_ctest(test_filter_hosts filter/test_filter_hosts.c)
foreach(name static static_hidden static_stripped)
  terp_add_ctest(test_filter_${name} filter/test_filter_static.c filter/fake_host.c)
endforeach()
set_target_properties(test_filter_static PROPERTIES ENABLE_EXPORTS ON)
target_link_options(test_filter_static_stripped PRIVATE -s)
target_compile_definitions(test_filter_static_stripped PRIVATE STRIPPED)
foreach(name hosts static static_hidden static_stripped)
  terp_use_hdf5_headers(test_filter_${name})
  target_link_libraries(test_filter_${name}
    PRIVATE ${CMAKE_DL_LIBS} Threads::Threads)
  add_dependencies(test_filter_${name} h5zterp fake_hdf5 fake_vtkhdf5)
  set_tests_properties(test_filter_${name} PROPERTIES ENVIRONMENT
    "TEST_PLUGIN=$<TARGET_FILE:h5zterp>;TEST_HOSTS=${CMAKE_CURRENT_BINARY_DIR}")
endforeach()

# The codec for NCZarr, in a program that has functions of netCDF.
if(TARGET h5vlterp)
  terp_add_ctest(test_filter_nczarr filter/test_filter_nczarr.c)
  set_target_properties(test_filter_nczarr PROPERTIES ENABLE_EXPORTS ON)
  target_link_libraries(test_filter_nczarr PRIVATE ${CMAKE_DL_LIBS})
  add_dependencies(test_filter_nczarr h5zterp h5vlterp)
  set_tests_properties(test_filter_nczarr PROPERTIES ENVIRONMENT
    "TEST_PLUGIN=$<TARGET_FILE:h5zterp>;TEST_CONNECTOR=$<TARGET_FILE:h5vlterp>")
endif()
# The same codec against netCDF's header, which includes one that Debian's
# package lacks and that an empty file replaces.
find_path(NETCDF_INCLUDE_DIR netcdf_filter_build.h)
mark_as_advanced(NETCDF_INCLUDE_DIR)
if(NETCDF_INCLUDE_DIR)
  set(headers ${CMAKE_CURRENT_BINARY_DIR}/netcdf_headers)
  if(NOT EXISTS ${NETCDF_INCLUDE_DIR}/netcdf_filter_hdf5_build.h)
    file(WRITE ${headers}/netcdf_filter_hdf5_build.h "")
  endif()
  add_library(test_nczarr_abi OBJECT filter/test_nczarr_abi.c)
  # It includes a source, which clang-tidy dislikes.
  set_target_properties(test_nczarr_abi PROPERTIES EXPORT_COMPILE_COMMANDS OFF)
  terp_use_hdf5_headers(test_nczarr_abi)
  target_include_directories(test_nczarr_abi
    SYSTEM PRIVATE ${NETCDF_INCLUDE_DIR} ${headers})
else()
  message(STATUS "The codec for NCZarr is not held against netCDF's header: not "
                 "found")
endif()

# The properties of a dataset, as fake functions of a host report them.
terp_add_ctest(test_filter_dataset filter/test_filter_dataset.c
  ${PROJECT_SOURCE_DIR}/filter/members.c
  ${PROJECT_SOURCE_DIR}/filter/plugin/dataset.c
  ${PROJECT_SOURCE_DIR}/filter/plugin/errors.c
  ${PROJECT_SOURCE_DIR}/filter/plugin/pipeline.c
  ${PROJECT_SOURCE_DIR}/filter/types.c)
terp_use_hdf5_headers(test_filter_dataset)

# Executable files of host programs, some of them damaged.
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  terp_add_ctest(test_filter_program filter/test_filter_program.c
    ${PROJECT_SOURCE_DIR}/filter/plugin/program.c)
  foreach(call open fstat mmap)
    target_link_options(test_filter_program PRIVATE -Wl,--wrap=${call})
  endforeach()
  target_link_libraries(test_filter_program PRIVATE ${CMAKE_DL_LIBS})
endif()
