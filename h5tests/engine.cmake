# Tests of how the codec and the plugin find and call the CUDA engine. A fake
# engine stands in its place.

add_library(fake_cuda_engine MODULE
  engine/fake_cuda_engine.c ${PROJECT_SOURCE_DIR}/gpu/engine/device.c)
target_link_libraries(fake_cuda_engine
  PRIVATE terp_codec -Wl,--exclude-libs,ALL)
# Search paths of the engine, seen from programs at several places.
set(engine_tree ${CMAKE_CURRENT_BINARY_DIR}/engine_tree)
set_target_properties(fake_cuda_engine PROPERTIES
  OUTPUT_NAME terp_cuda LIBRARY_OUTPUT_DIRECTORY ${engine_tree}/lib)

terp_add_codec_test(codec test_batch)
terp_add_codec_test(engine test_engine)
add_dependencies(test_engine fake_cuda_engine)
set_tests_properties(test_engine PROPERTIES
  ENVIRONMENT TEST_FAKE_CUDA=$<TARGET_FILE:fake_cuda_engine>)

if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  terp_add_ctest(test_loader engine/test_loader.c)
  foreach(call dlopen dlerror pthread_atfork atexit)
    target_link_options(test_loader PRIVATE -Wl,--wrap=${call})
  endforeach()
endif()

# Folders from which the codec opens the engine, and folders that it must not
# use. A program with sanitizers needs more of its environment than this test
# leaves.
find_package(Python3 COMPONENTS Interpreter)
if(CMAKE_SYSTEM_NAME STREQUAL "Linux" AND Python3_FOUND AND NOT TERP_SANITIZE)
  add_executable(load_engine engine/load_engine.c)
  target_link_libraries(load_engine PRIVATE terp_codec)
  # Like a plugin that is installed in a deeper folder.
  add_executable(load_engine_deep engine/load_engine.c
    ${PROJECT_SOURCE_DIR}/codec/api/loader.c)
  target_link_libraries(load_engine_deep PRIVATE terp_codec)
  target_compile_definitions(load_engine_deep
    PRIVATE TERP_ENGINE_FOLDER="../../../")
  add_test(NAME engine_places COMMAND ${Python3_EXECUTABLE} -B
           ${CMAKE_CURRENT_SOURCE_DIR}/engine/test_places.py)
  set_tests_properties(engine_places PROPERTIES ENVIRONMENT
    "TEST_PROGRAM=$<TARGET_FILE:load_engine>;\
TEST_DEEP_PROGRAM=$<TARGET_FILE:load_engine_deep>;\
TEST_FAKE_CUDA=$<TARGET_FILE:fake_cuda_engine>")
endif()

terp_add_ctest(test_cuda_device
  engine/test_device.c ${PROJECT_SOURCE_DIR}/gpu/engine/device.c)

if(NOT TARGET h5zterp)
  return()
endif()

# Reading and writing of blocks while HDF5, memory or the device fails. HDF5 2
# gives some of the functions other names.
if(CMAKE_SYSTEM_NAME STREQUAL "Linux" AND HDF5_VERSION VERSION_LESS 2)
  terp_add_ctest(test_h5_faults filter/test_h5_faults.c
    support/allocations.c support/h5_calls.c
    ${PROJECT_SOURCE_DIR}/filter/container.c
    ${PROJECT_SOURCE_DIR}/filter/dcpl.c
    ${PROJECT_SOURCE_DIR}/filter/h5/batch.c
    ${PROJECT_SOURCE_DIR}/filter/h5/block.c
    ${PROJECT_SOURCE_DIR}/filter/h5/coder.c
    ${PROJECT_SOURCE_DIR}/filter/h5/strided.c
    ${PROJECT_SOURCE_DIR}/filter/h5/terp_h5.c
    ${PROJECT_SOURCE_DIR}/filter/plugin/linked_host.c)
  target_compile_definitions(test_h5_faults
    PRIVATE TERP_H5_BATCH_NBYTES=12000 TERP_H5_DEVICE_BATCH_NBYTES=9000)
  terp_wrap_allocations(test_h5_faults)
  foreach(call H5Dget_type H5Dget_space H5Dget_create_plist H5Screate_simple
          H5Pclose H5Sclose H5Tclose H5Dread H5Dwrite H5Dwrite_chunk
          H5Dread_chunk H5Dget_chunk_storage_size H5Sget_simple_extent_ndims
          H5Sget_simple_extent_dims H5Sselect_hyperslab H5Pget_layout
          H5Pget_chunk H5Pget_chunk_opts H5Pget_nfilters H5Pget_filter2
          H5Pfill_value_defined H5Pget_fill_time H5Pget_fill_value H5Tget_size)
    target_link_options(test_h5_faults PRIVATE -Wl,--wrap=${call})
  endforeach()
  target_link_libraries(test_h5_faults
    PRIVATE terp_h5_files terp_cases ${CMAKE_DL_LIBS})
  add_dependencies(test_h5_faults h5zterp fake_cuda_engine)
  set_tests_properties(test_h5_faults PROPERTIES ENVIRONMENT
    "HDF5_PLUGIN_PATH=$<TARGET_FILE_DIR:h5zterp>;\
TERP_CUDA_LIBRARY=$<TARGET_FILE:fake_cuda_engine>")
endif()

# The connector on top of a fake connector and a fake library, any function of
# which can fail. The fake library has HDF5's functions for connectors in
# tables, so the test works with HDF5 versions that lack them.
if(CMAKE_SYSTEM_NAME STREQUAL "Linux" AND HDF5_VERSION VERSION_LESS 2)
  set(vol_sources)
  foreach(name ahead batches border chunks create dataset dense device exchange
          info library mapping marks messages object pass pending plan plugin request rules selection split)
    list(APPEND vol_sources ${PROJECT_SOURCE_DIR}/vol/${name}.c)
  endforeach()
  foreach(name call coding dataset errors h5z_terp history host marks opened
          overwrite pipeline prepared program)
    list(APPEND vol_sources ${PROJECT_SOURCE_DIR}/filter/plugin/${name}.c)
  endforeach()
  foreach(name calls transfers)
    terp_add_ctest(test_vol_${name} vol/test_vol_${name}.c vol/fake_below.c
      support/painted.c support/allocations.c ${vol_sources}
      ${PROJECT_SOURCE_DIR}/filter/container.c
      ${PROJECT_SOURCE_DIR}/filter/dcpl.c
      ${PROJECT_SOURCE_DIR}/filter/h5/batch.c
      ${PROJECT_SOURCE_DIR}/filter/h5/coder.c
      ${PROJECT_SOURCE_DIR}/filter/h5/strided.c
      ${PROJECT_SOURCE_DIR}/filter/members.c
      ${PROJECT_SOURCE_DIR}/filter/types.c)
    terp_wrap_allocations(test_vol_${name})
    target_compile_definitions(test_vol_${name}
      PRIVATE TERP_LINKED VOL_BATCH_MIN_NVALUES=128 VOL_CREATE_MIN_NVALUES=256
              VOL_CHUNK_NVALUES=512 VOL_HELD_MIN_NBYTES=16)
    foreach(call terp_host_find terp_host_find_id vol_library_of)
      target_link_options(test_vol_${name} PRIVATE -Wl,--wrap=${call})
    endforeach()
    # Stack frames are larger with sanitizers and without optimization.
    if(NOT TERP_SANITIZE
       AND CMAKE_BUILD_TYPE MATCHES "^(Release|RelWithDebInfo)$")
      target_compile_definitions(test_vol_${name} PRIVATE MAX_STACK_NBYTES=16384)
    endif()
    if(name STREQUAL "transfers")
      target_link_options(test_vol_transfers
                          PRIVATE -Wl,--wrap=terp_prepared_take
                                  -Wl,--wrap=terp_marks_take
                                  -Wl,--wrap=terp_history_find
                                  -Wl,--wrap=terp_history_add)
      foreach(call nprocesses rank share close any gather exchange)
        target_link_options(test_vol_transfers
                            PRIVATE -Wl,--wrap=vol_messages_${call})
      endforeach()
    endif()
    if(name STREQUAL "calls")
      target_link_options(test_vol_calls PRIVATE -Wl,--wrap=dladdr)
    endif()
    target_link_libraries(test_vol_${name}
      PRIVATE terp_h5_files terp_cases ${CMAKE_DL_LIBS})
    add_dependencies(test_vol_${name} h5zterp fake_cuda_engine)
    set_tests_properties(test_vol_${name} PROPERTIES ENVIRONMENT
      "HDF5_PLUGIN_PATH=$<TARGET_FILE_DIR:h5zterp>;TERP_NUM_THREADS=1;\
TERP_CUDA_LIBRARY=$<TARGET_FILE:fake_cuda_engine>")
  endforeach()
endif()

# The plugin at its place in a build and in an install, and beside the engine in
# one directory: HDF5 opens both libraries there and must take the right one.
set(plugin_dir_built ${engine_tree}/plugin)
set(plugin_dir_installed ${engine_tree}/lib/hdf5/plugin)
set(plugin_dir_shared ${engine_tree}/shared)
add_custom_target(engine_tree ALL
  COMMAND ${CMAKE_COMMAND} -E make_directory
          ${plugin_dir_built} ${plugin_dir_installed} ${plugin_dir_shared}
  COMMAND ${CMAKE_COMMAND} -E copy
          $<TARGET_FILE:h5zterp> ${plugin_dir_built}
  COMMAND ${CMAKE_COMMAND} -E copy
          $<TARGET_FILE:h5zterp> ${plugin_dir_installed}
  COMMAND ${CMAKE_COMMAND} -E copy
          $<TARGET_FILE:h5zterp> $<TARGET_FILE:fake_cuda_engine>
          ${plugin_dir_shared}
  DEPENDS h5zterp fake_cuda_engine)

add_executable(test_filter_engine engine/test_filter_engine.c)
target_link_libraries(test_filter_engine PRIVATE terp_fields terp_h5_files)
add_dependencies(test_filter_engine engine_tree)

# terp_add_engine_test(NAME PLUGIN_DIR SAID [VARIABLE=VALUE...]): checks the
# messages of the plugin in PLUGIN_DIR about a chunk.
function(terp_add_engine_test name plugin_dir said)
  add_test(NAME filter_engine_${name} COMMAND test_filter_engine)
  set(environment HDF5_PLUGIN_PATH=${plugin_dir} TERP_VERBOSE=1
      "TEST_SAID=${said}" ${ARGN})
  set_tests_properties(filter_engine_${name} PROPERTIES
    ENVIRONMENT "${environment}")
endfunction()

foreach(place built installed shared)
  terp_add_engine_test(${place} ${plugin_dir_${place}}
    "engine cuda (fake 0), threads" TERP_ENGINE=cuda TERP_DEVICE=0)
endforeach()
terp_add_engine_test(named $<TARGET_FILE_DIR:h5zterp>
  "engine cuda (fake 1), threads" TERP_ENGINE=cuda TERP_DEVICE=1
  TERP_CUDA_LIBRARY=$<TARGET_FILE:fake_cuda_engine>)
terp_add_engine_test(missing ${plugin_dir_built}
  "engine cpu (not cuda: /nowhere"
  TERP_ENGINE=cuda TERP_CUDA_LIBRARY=/nowhere)
terp_add_engine_test(small ${plugin_dir_built}
  "engine cpu (not cuda: the CPU is faster for so few bytes), threads"
  TERP_ENGINE=auto)
terp_add_engine_test(cpu ${plugin_dir_built} "engine cpu, threads"
  TERP_ENGINE=cpu)
terp_add_engine_test(default ${plugin_dir_built} "engine cpu, threads")
terp_add_engine_test(baseline ${plugin_dir_built}
  "threads 1, instructions baseline" TERP_CPU=baseline)
terp_add_engine_test(no_instructions ${plugin_dir_built}
  "threads 1, instructions " TERP_CPU=abacus)

# The real CUDA engine, on a machine without a driver or a device.
if(TARGET terp_cuda)
  add_dependencies(test_filter_engine terp_cuda)
  terp_add_engine_test(no_device $<TARGET_FILE_DIR:h5zterp>
    "(not cuda: no CUDA-capable device|(not cuda: CUDA driver version is"
    TERP_ENGINE=cuda CUDA_VISIBLE_DEVICES=)
endif()

# The emulated engine.
if(TARGET terp_cuda_emulated_library)
  add_dependencies(test_filter_engine terp_cuda_emulated_library)
  terp_add_engine_test(emulated $<TARGET_FILE_DIR:h5zterp>
    "engine cuda (emulator at 0000:4e:00.0), threads" TERP_ENGINE=cuda
    TERP_CUDA_LIBRARY=$<TARGET_FILE:terp_cuda_emulated_library>)

  add_dependencies(test_h5_blocks terp_cuda_emulated_library)
  set(library $<TARGET_FILE:terp_cuda_emulated_library>)
  foreach(memory device pinned)
    add_test(NAME test_h5_blocks_${memory} COMMAND test_h5_blocks)
    set(environment HDF5_PLUGIN_PATH=$<TARGET_FILE_DIR:h5zterp>
        TEST_MEMORY=${memory} TERP_CUDA_LIBRARY=${library}
        TERP_TEST_CUDART=${library})
    set_tests_properties(test_h5_blocks_${memory} PROPERTIES
      ENVIRONMENT "${environment}")
  endforeach()
endif()
