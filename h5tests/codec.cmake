# Tests of the codec through its C interface, codec/api/terp.h.

# Shared by the tests: contents of chunks, modes, and a checked round trip.
add_library(terp_fields STATIC support/fields.c support/modes.c)
target_link_libraries(terp_fields PUBLIC terp_codec)
add_library(terp_cases STATIC support/cases.c)
target_link_libraries(terp_cases PUBLIC terp_fields terp_cmocka)

function(terp_add_codec_test folder name)
  terp_add_ctest(${name} ${folder}/${name}.c ${ARGN})
  target_link_libraries(${name} PRIVATE terp_cases)
  set_tests_properties(${name} PROPERTIES LABELS codec)
  add_dependencies(codec_tests ${name})
endfunction()

foreach(name cd_values choices coarse columns compose domain environment estimates frame grid inspect lossless model pointwise precision processor psnr ranks ratio reduce repeats reserve rewrite roundtrip sections settings special_values speed_tiles
        stages tails text threads tight_bounds types valid_range)
  terp_add_codec_test(codec test_${name})
endforeach()

if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  terp_add_codec_test(codec test_signals)
  # Stack frames are larger with sanitizers and without optimization.
  if(NOT TERP_SANITIZE AND CMAKE_BUILD_TYPE MATCHES "^(Release|RelWithDebInfo)$")
    terp_add_codec_test(codec test_stack support/painted.c)
  endif()
endif()
target_sources(test_environment PRIVATE support/environment.c)
target_link_libraries(test_columns PRIVATE terp_reader m)
target_link_libraries(test_grid PRIVATE terp_reader m)
target_link_libraries(test_ranks PRIVATE terp_reader m)
target_link_libraries(test_speed_tiles PRIVATE terp_reader m)
target_link_options(test_frame PRIVATE -Wl,--wrap=terp_frame_read)

# Tests that count or fail the codec's allocations.
function(terp_wrap_allocations target)
  foreach(call malloc calloc realloc aligned_alloc posix_memalign free
          pthread_create)
    target_link_options(${target} PRIVATE -Wl,--wrap=${call})
  endforeach()
endfunction()
foreach(name hostile limit memory)
  terp_add_codec_test(codec test_${name} support/allocations.c)
  terp_wrap_allocations(test_${name})
endforeach()
foreach(name container container_numbers)
  terp_add_codec_test(filter test_${name} support/allocations.c
    ${PROJECT_SOURCE_DIR}/filter/container.c)
  terp_wrap_allocations(test_${name})
endforeach()

# Programs that write test files; the head of each says which.
foreach(name stream_digest make_golden)
  add_executable(${name} codec/${name}.c)
  target_include_directories(${name} SYSTEM PRIVATE ${XXHASH_INCLUDE_DIR})
  target_link_libraries(${name} PRIVATE terp_fields)
endforeach()
target_sources(stream_digest PRIVATE support/environment.c)

# All float32 patterns take a night; here the program tries some for each bound.
find_package(Threads REQUIRED)
add_executable(exhaustive codec/exhaustive.c)
target_link_libraries(exhaustive PRIVATE terp_fields Threads::Threads)
if(NOT TERP_SANITIZE)
  add_test(NAME exhaustive_sample COMMAND exhaustive --chunks 4 --threads 2)
endif()

# Many threads and processes, long in scripts/load.sh, a moment here.
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  add_executable(load_chunks codec/load_chunks.c support/load.c)
  target_include_directories(load_chunks
    SYSTEM PRIVATE ${XXHASH_INCLUDE_DIR})
  target_compile_definitions(load_chunks PRIVATE _POSIX_C_SOURCE=200809L)
  target_link_libraries(load_chunks PRIVATE terp_cases Threads::Threads)
  add_test(NAME load_chunks_sample
           COMMAND load_chunks --seconds 2 --threads 4)
endif()

# The same file for all compilers, options and numbers of threads.
set(digests ${CMAKE_CURRENT_SOURCE_DIR}/codec/stream_digest.txt)
set(every 1)
if(TERP_SANITIZE) # these cases take several times as long
  set(every 4)
endif()
if(EXISTS ${digests})
  add_test(NAME stream_digest_2
           COMMAND stream_digest --threads 2 --every ${every}
                   --expect ${digests})
endif()
if(EXISTS ${digests} AND NOT TERP_SANITIZE)
  add_test(NAME stream_digest_1
           COMMAND stream_digest --threads 1 --expect ${digests})
  # With fewer instruction sets than the processor has.
  add_test(NAME stream_digest_baseline
           COMMAND stream_digest --threads 2 --expect ${digests})
  set_tests_properties(stream_digest_baseline PROPERTIES
    ENVIRONMENT TERP_CPU=baseline)
  # In programs with another floating-point environment.
  foreach(environment flush upward traps)
    add_test(NAME stream_digest_${environment}
             COMMAND stream_digest --threads 2 --every 5
                     --environment ${environment} --expect ${digests})
    set_tests_properties(stream_digest_${environment} PROPERTIES
      SKIP_RETURN_CODE 77)
  endforeach()
endif()

# One folder for each release.
file(GLOB golden_folders ${CMAKE_CURRENT_SOURCE_DIR}/golden/*)
if(golden_folders)
  add_executable(test_golden codec/test_golden.c support/golden.c)
  target_include_directories(test_golden SYSTEM PRIVATE ${XXHASH_INCLUDE_DIR})
  target_link_libraries(test_golden PRIVATE terp_cases)
  add_test(NAME test_golden COMMAND test_golden ${golden_folders})
  add_test(NAME test_golden_baseline COMMAND test_golden ${golden_folders})
  set_tests_properties(test_golden PROPERTIES LABELS codec)
  add_dependencies(codec_tests test_golden)
  set_tests_properties(test_golden_baseline PROPERTIES
    ENVIRONMENT TERP_CPU=baseline)
  # With the copy of xxHash in the tree, which systems without the header use. The
  # program's own frame.c takes the place of the library's.
  add_executable(test_golden_copy codec/test_golden.c support/golden.c
                 ${PROJECT_SOURCE_DIR}/codec/format/frame.c)
  target_include_directories(test_golden_copy SYSTEM PRIVATE ${terp_xxhash_copy})
  target_link_libraries(test_golden_copy PRIVATE terp_cases)
  add_test(NAME test_golden_copy COMMAND test_golden_copy ${golden_folders})
endif()
