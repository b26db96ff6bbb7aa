# Tests of the plugin, through HDF5 as users meet it.
find_package(HDF5 REQUIRED COMPONENTS C)

add_library(terp_h5_files STATIC h5_files.c)
target_include_directories(terp_h5_files PUBLIC
  ${PROJECT_SOURCE_DIR}/filter)
target_include_directories(terp_h5_files SYSTEM PUBLIC ${HDF5_C_INCLUDE_DIRS})
target_compile_definitions(terp_h5_files PUBLIC ${HDF5_C_DEFINITIONS})
target_link_libraries(terp_h5_files
  PUBLIC terp_codec PkgConfig::CMOCKA ${HDF5_C_LIBRARIES})

# The plugin is found as users find it, and linked to no test.
foreach(name values pass errors)
  terp_add_ctest(test_filter_${name} test_filter_${name}.c)
  target_link_libraries(test_filter_${name} PRIVATE terp_h5_files)
  add_dependencies(test_filter_${name} h5zterp)
  set_tests_properties(test_filter_${name} PROPERTIES
    ENVIRONMENT HDF5_PLUGIN_PATH=$<TARGET_FILE_DIR:h5zterp>)
endforeach()
