# Tests of the terp tool: test_tool*.py run it on files that test_tool_files
# writes through the filter.
if(NOT TARGET terp OR NOT TARGET h5zterp)
  return()
endif()
find_package(HDF5 REQUIRED COMPONENTS C)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
find_program(H5REPACK h5repack)

add_executable(test_tool_files tools/test_tool_files.c)
target_include_directories(test_tool_files PRIVATE ${PROJECT_SOURCE_DIR})
target_include_directories(test_tool_files
  SYSTEM PRIVATE ${HDF5_C_INCLUDE_DIRS})
target_compile_definitions(test_tool_files
  PRIVATE ${HDF5_C_DEFINITIONS} H5_USE_110_API _POSIX_C_SOURCE=200809L)
target_link_libraries(test_tool_files PRIVATE ${HDF5_C_LIBRARIES} m)

# How the tool recognizes types, and attributes that limit the values of a
# variable.
foreach(name tool_types valid)
  terp_add_ctest(test_${name} tools/test_${name}.c
    ${PROJECT_SOURCE_DIR}/tools/common/attribute.c
    ${PROJECT_SOURCE_DIR}/tools/common/h5file.c
    ${PROJECT_SOURCE_DIR}/tools/common/range.c
    ${PROJECT_SOURCE_DIR}/tools/common/reason.c
    ${PROJECT_SOURCE_DIR}/tools/common/text.c)
  target_include_directories(test_${name} SYSTEM PRIVATE ${HDF5_C_INCLUDE_DIRS})
  target_compile_definitions(test_${name}
    PRIVATE ${HDF5_C_DEFINITIONS} H5_USE_110_API)
  target_link_libraries(test_${name}
    PRIVATE terp_h5_files terp_h5 ${HDF5_C_LIBRARIES} m)
endforeach()
target_sources(test_valid PRIVATE ${PROJECT_SOURCE_DIR}/tools/repack/valid.c)

set(environment
  TERP_SOURCE=${PROJECT_SOURCE_DIR}
  TERP_TOOL=$<TARGET_FILE:terp>
  TERP_TOOL_FILES=$<TARGET_FILE:test_tool_files>
  HDF5_PLUGIN_PATH=$<TARGET_FILE_DIR:h5zterp>)
# A program without sanitizers cannot load a plugin with them.
if(H5REPACK AND NOT TERP_SANITIZE)
  list(APPEND environment TERP_H5REPACK=${H5REPACK})
endif()
# Tests the pictures that the tool draws when it is built with cairo.
if(TARGET PkgConfig::CAIRO)
  add_executable(png_pixels tools/png_pixels.c)
  target_link_libraries(png_pixels PRIVATE PkgConfig::CAIRO)
  list(APPEND environment TERP_PNG_PIXELS=$<TARGET_FILE:png_pixels>
       LSAN_OPTIONS=print_suppressions=0:suppressions=${CMAKE_CURRENT_SOURCE_DIR}/tools/leaks_of_libraries.txt)
endif()
foreach(name test_tool test_tool_advise test_tool_docs test_tool_json test_tool_png)
  add_test(NAME ${name}
           COMMAND ${Python3_EXECUTABLE}
                   ${CMAKE_CURRENT_SOURCE_DIR}/tools/${name}.py)
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${environment}")
endforeach()

# Sanitizers find errors that do not crash.
add_test(NAME test_damaged
         COMMAND ${Python3_EXECUTABLE}
                 ${CMAKE_CURRENT_SOURCE_DIR}/tools/test_damaged.py)
set_tests_properties(test_damaged PROPERTIES ENVIRONMENT "${environment}")

# h5py writes and reads this test's files, and cannot load a plugin with
# sanitizers.
if(TERP_SYSTEM_PYTHON AND NOT TERP_SANITIZE)
  add_test(NAME test_repack
           COMMAND ${TERP_SYSTEM_PYTHON}
                   ${CMAKE_CURRENT_SOURCE_DIR}/tools/test_repack.py)
  set_tests_properties(test_repack PROPERTIES
    ENVIRONMENT "${environment};TEST_FAKE_CUDA=$<TARGET_FILE:fake_cuda_engine>"
    SKIP_RETURN_CODE 77)
  foreach(name test_cf test_coordinates test_fields test_growth test_many
              test_masks test_signs)
    add_test(NAME ${name}
             COMMAND ${TERP_SYSTEM_PYTHON}
                     ${CMAKE_CURRENT_SOURCE_DIR}/tools/${name}.py)
    set_tests_properties(${name} PROPERTIES
      ENVIRONMENT "${environment}" SKIP_RETURN_CODE 77)
  endforeach()
  add_test(NAME test_audience
           COMMAND ${TERP_SYSTEM_PYTHON}
                   ${CMAKE_CURRENT_SOURCE_DIR}/tools/test_audience.py)
  set_tests_properties(test_audience PROPERTIES
    ENVIRONMENT "${environment}" SKIP_RETURN_CODE 77)
  add_test(NAME test_verify
           COMMAND ${TERP_SYSTEM_PYTHON}
                   ${CMAKE_CURRENT_SOURCE_DIR}/tools/test_verify.py)
  set_tests_properties(test_verify PROPERTIES
    ENVIRONMENT "${environment}" SKIP_RETURN_CODE 77)
  add_test(NAME test_salvage
           COMMAND ${TERP_SYSTEM_PYTHON}
                   ${CMAKE_CURRENT_SOURCE_DIR}/tools/test_salvage.py)
  set_tests_properties(test_salvage PROPERTIES
    ENVIRONMENT "${environment}" SKIP_RETURN_CODE 77)
  add_test(NAME test_compare
           COMMAND ${TERP_SYSTEM_PYTHON}
                   ${CMAKE_CURRENT_SOURCE_DIR}/tools/test_compare.py)
  set_tests_properties(test_compare PROPERTIES
    ENVIRONMENT "${environment}" SKIP_RETURN_CODE 77)
  add_test(NAME test_limits
           COMMAND ${TERP_SYSTEM_PYTHON}
                   ${CMAKE_CURRENT_SOURCE_DIR}/tools/test_limits.py)
  set_tests_properties(test_limits PROPERTIES
    ENVIRONMENT "${environment}" SKIP_RETURN_CODE 77)
  add_test(NAME test_structure
           COMMAND ${TERP_SYSTEM_PYTHON}
                   ${CMAKE_CURRENT_SOURCE_DIR}/tools/test_structure.py)
  # A few random files; scripts/structures.sh tries new ones each day.
  add_test(NAME test_structures
           COMMAND ${TERP_SYSTEM_PYTHON}
                   ${CMAKE_CURRENT_SOURCE_DIR}/tools/test_structures.py)
  # A file with all types and codings of streams.
  add_test(NAME test_structures_all
           COMMAND ${TERP_SYSTEM_PYTHON}
                   ${CMAKE_CURRENT_SOURCE_DIR}/tools/test_structures.py
                   --files 1 ${CMAKE_CURRENT_SOURCE_DIR}/golden/2.0)
  set_tests_properties(test_structure test_structures test_structures_all
    PROPERTIES ENVIRONMENT "${environment}" SKIP_RETURN_CODE 77)
  set_tests_properties(test_structures_all PROPERTIES LABELS ci)
  add_test(NAME test_sparse
           COMMAND ${TERP_SYSTEM_PYTHON}
                   ${CMAKE_CURRENT_SOURCE_DIR}/tools/test_sparse.py)
  set_tests_properties(test_sparse PROPERTIES
    ENVIRONMENT "${environment}" SKIP_RETURN_CODE 77)
  if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
    # A repack that fails or is killed.
    add_executable(write_blocks tools/write_blocks.c)
    target_link_libraries(write_blocks PRIVATE terp_h5 ${HDF5_C_LIBRARIES} m)
    target_include_directories(write_blocks PRIVATE ${PROJECT_SOURCE_DIR})
    target_include_directories(write_blocks
      SYSTEM PRIVATE ${HDF5_C_INCLUDE_DIRS})
    target_compile_definitions(write_blocks
      PRIVATE ${HDF5_C_DEFINITIONS} H5_USE_110_API)
    list(APPEND environment TEST_WRITE_BLOCKS=$<TARGET_FILE:write_blocks>)
    add_test(NAME test_leftovers
             COMMAND ${TERP_SYSTEM_PYTHON}
                     ${CMAKE_CURRENT_SOURCE_DIR}/tools/test_leftovers.py)
    set_tests_properties(test_leftovers PROPERTIES
      ENVIRONMENT "${environment}" SKIP_RETURN_CODE 77)
    # A preloaded library makes writes fail.
    add_library(write_faults MODULE support/write_faults.c)
    target_compile_definitions(write_faults PRIVATE _GNU_SOURCE)
    target_link_libraries(write_faults PRIVATE Threads::Threads)
    set_target_properties(write_faults PROPERTIES C_VISIBILITY_PRESET default)
    add_test(NAME test_faults
             COMMAND ${TERP_SYSTEM_PYTHON}
                     ${CMAKE_CURRENT_SOURCE_DIR}/tools/test_faults.py)
    set_tests_properties(test_faults PROPERTIES
      ENVIRONMENT "${environment};TEST_WRITE_FAULTS=$<TARGET_FILE:write_faults>"
      SKIP_RETURN_CODE 77)
    set_property(TEST test_many APPEND PROPERTY ENVIRONMENT
      "TEST_WRITE_FAULTS=$<TARGET_FILE:write_faults>")
    # The connector, if this HDF5 has connectors.
    if(TARGET h5vlterp AND COMMAND terp_add_venv_test)
      terp_add_venv_test(test_faults_venv venv ../tools/test_faults.py)
      set_property(TEST test_faults_venv APPEND PROPERTY ENVIRONMENT
        "${environment};TEST_WRITE_FAULTS=$<TARGET_FILE:write_faults>;TEST_ONLY_CONNECTOR=1")
    endif()
  endif()
  add_test(NAME test_members
           COMMAND ${TERP_SYSTEM_PYTHON}
                   ${CMAKE_CURRENT_SOURCE_DIR}/tools/test_members.py)
  add_test(NAME test_preview
           COMMAND ${TERP_SYSTEM_PYTHON}
                   ${CMAKE_CURRENT_SOURCE_DIR}/tools/test_preview.py)
  set_tests_properties(test_members test_preview PROPERTIES
    ENVIRONMENT "${environment}" SKIP_RETURN_CODE 77)
  # Chromium shows the pages where it is found.
  foreach(name test_report test_report_browser)
    add_test(NAME ${name}
             COMMAND ${TERP_SYSTEM_PYTHON}
                     ${CMAKE_CURRENT_SOURCE_DIR}/tools/${name}.py)
    set_tests_properties(${name} PROPERTIES
      ENVIRONMENT "${environment}" SKIP_RETURN_CODE 77)
  endforeach()
  add_test(NAME test_metrics
           COMMAND ${TERP_SYSTEM_PYTHON}
                   ${CMAKE_CURRENT_SOURCE_DIR}/tools/test_metrics.py)
  # Compares metrics with scipy and scikit-image.
  add_test(NAME test_metrics_scipy
           COMMAND ${Python3_EXECUTABLE}
                   ${CMAKE_CURRENT_SOURCE_DIR}/hosts/in_venv.py
                   ${CMAKE_BINARY_DIR}/venv-metrics h5py,scipy,scikit-image
                   ${CMAKE_CURRENT_SOURCE_DIR}/tools/test_metrics.py)
  set_tests_properties(test_metrics test_metrics_scipy PROPERTIES
    ENVIRONMENT "${environment}" SKIP_RETURN_CODE 77)
  set_tests_properties(test_metrics_scipy PROPERTIES LABELS ci)
endif()
