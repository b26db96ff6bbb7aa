# Tests of the CUDA engine. Without a GPU, an emulator (emulator/) compiles gpu/
# as C++ and runs its kernels on the CPU.

# Fibers do not work with sanitizers, and libFuzzer needs neither.
if(TERP_SANITIZE OR TERP_FUZZ)
  return()
endif()

# On a machine with a GPU, a script runs the same programs. TERP_CUDA_LIBRARY
# then names the engine, and TERP_TEST_CUDART the CUDA runtime.
function(terp_add_cuda_program name)
  add_executable(${name} ${ARGN})
  target_include_directories(${name} SYSTEM PRIVATE ${XXHASH_INCLUDE_DIR})
  target_link_libraries(${name}
    PRIVATE terp_cases terp_codec terp_codebooks terp_cmocka)
endfunction()

# Tests of terp.h, linked so that both engines run each case.
function(terp_add_both_engines name)
  terp_add_cuda_program(${name} ${ARGN} gpu/both_engines.c)
  target_link_options(${name}
    PRIVATE -Wl,--wrap=terp_encode -Wl,--wrap=terp_decode)
endfunction()

foreach(name choices domain environment precision repeats roundtrip special_values speed_tiles
        threads types valid_range)
  terp_add_both_engines(cuda_${name} codec/test_${name}.c)
endforeach()
target_sources(cuda_environment PRIVATE support/environment.c)
target_link_libraries(cuda_speed_tiles PRIVATE terp_reader m)
terp_add_both_engines(cuda_golden codec/test_golden.c support/golden.c)
terp_add_both_engines(cuda_hostile codec/test_hostile.c support/allocations.c)
terp_wrap_allocations(cuda_hostile)
terp_add_cuda_program(cuda_memory gpu/test_cuda_memory.c)
terp_add_cuda_program(cuda_bytes gpu/test_cuda_bytes.c support/cuda_buffer.c)
target_link_libraries(cuda_bytes PRIVATE ${CMAKE_DL_LIBS})

option(TERP_EMULATE_CUDA "Test the CUDA engine on an emulated device" ON)
if(NOT TERP_EMULATE_CUDA)
  return()
endif()
include(CheckLanguage)
check_language(CXX)
find_library(BOOST_CONTEXT_LIBRARY boost_context)
find_path(BOOST_CONTEXT_INCLUDE_DIR boost/context/fiber.hpp)
if(NOT CMAKE_CXX_COMPILER OR NOT BOOST_CONTEXT_LIBRARY
   OR NOT BOOST_CONTEXT_INCLUDE_DIR)
  message(STATUS "The CUDA engine is not emulated: that needs a C++ compiler "
                 "and Boost.Context")
  return()
endif()
enable_language(CXX)

set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
# Host compilers warn of loops that they do not unroll.
set(terp_cuda_cxx_flags -O2 -ffp-contract=off -fno-trapping-math
    -fno-math-errno -Wall -Wextra -Wshadow -Wno-unknown-pragmas
    $<$<CXX_COMPILER_ID:Clang>:-Wno-pass-failed> $<$<BOOL:${TERP_WERROR}>:-Werror>)

add_library(terp_cuda_emulator STATIC
  emulator/emulator.cpp
  emulator/runtime.cpp)
target_include_directories(terp_cuda_emulator PUBLIC emulator)
target_include_directories(terp_cuda_emulator SYSTEM
  PRIVATE ${BOOST_CONTEXT_INCLUDE_DIR})
target_compile_options(terp_cuda_emulator PRIVATE ${terp_cuda_cxx_flags})
target_link_libraries(terp_cuda_emulator
  PUBLIC ${BOOST_CONTEXT_LIBRARY} Threads::Threads)

# Adds C, C++ and CUDA files, the last as C++, to a target.
function(terp_emulate_cuda target)
  set(cuda_files ${ARGN})
  list(FILTER cuda_files INCLUDE REGEX "\\.cu$")
  set_source_files_properties(${cuda_files} PROPERTIES LANGUAGE CXX)
  target_sources(${target} PRIVATE ${ARGN})
  target_compile_options(${target}
    PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${terp_cuda_cxx_flags}>)
  target_link_libraries(${target}
    PUBLIC terp_codec terp_codebooks terp_cuda_emulator)
endfunction()

# The engine twice: as an archive for tests of its stages, and as the shared
# object that terp opens.
include(${PROJECT_SOURCE_DIR}/gpu/sources.cmake)
# This file takes longest to compile, so its loops are short here.
set_source_files_properties(${PROJECT_SOURCE_DIR}/gpu/predict/spline.cu
  PROPERTIES COMPILE_OPTIONS -O1)
list(TRANSFORM TERP_CUDA_SOURCES PREPEND ${PROJECT_SOURCE_DIR}/gpu/)
add_library(terp_cuda_emulated STATIC)
terp_emulate_cuda(terp_cuda_emulated ${TERP_CUDA_SOURCES})
add_library(terp_cuda_emulated_library SHARED
  $<TARGET_OBJECTS:terp_cuda_emulated>)
set_target_properties(terp_cuda_emulated_library PROPERTIES
  OUTPUT_NAME terp_cuda LINKER_LANGUAGE CXX
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/emulated)
target_link_libraries(terp_cuda_emulated_library
  PRIVATE terp_codec terp_codebooks terp_cuda_emulator)

# terp_add_cuda_test(NAME FILE...): a test that calls functions inside the
# emulated engine.
function(terp_add_cuda_test name)
  add_executable(${name})
  terp_emulate_cuda(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE terp_cuda_emulated terp_cases terp_cmocka)
  add_test(NAME ${name} COMMAND ${name})
endfunction()

terp_add_cuda_test(test_cuda_emulator gpu/test_cuda_emulator.cu)
terp_add_cuda_test(test_cuda_engine gpu/test_cuda_engine.cu)
# Lines of 8 values and more are cut into stretches.
terp_add_cuda_test(test_cuda_lossless gpu/test_cuda_lossless.cu
  ${PROJECT_SOURCE_DIR}/gpu/predict/lossless_quantize.cu
  ${PROJECT_SOURCE_DIR}/gpu/predict/lossless_reconstruct.cu)
target_compile_definitions(test_cuda_lossless
  PRIVATE CUDA_LINES_ENOUGH=0x7fffffffu CUDA_STRETCH_MIN_NVALUES=2u)
set_tests_properties(test_cuda_lossless PROPERTIES COST 100)
terp_add_cuda_test(test_cuda_specials gpu/test_cuda_specials.cu)
terp_add_cuda_test(test_cuda_prediction gpu/test_cuda_prediction.cu)
# The same test with the launch shapes of large chunks.
add_library(terp_cuda_busy_spline OBJECT)
terp_emulate_cuda(terp_cuda_busy_spline
  ${PROJECT_SOURCE_DIR}/gpu/predict/spline.cu)
target_compile_definitions(terp_cuda_busy_spline
  PRIVATE CUDA_BUSY_NTHREADS=64 CUDA_MARCH_NBLOCKS=24u)
terp_add_cuda_test(test_cuda_prediction_busy gpu/test_cuda_prediction.cu
  ${PROJECT_SOURCE_DIR}/gpu/sections/escapes.cu
  ${PROJECT_SOURCE_DIR}/gpu/predict/lorenzo_quantize.cu
  ${PROJECT_SOURCE_DIR}/gpu/predict/lorenzo_reconstruct.cu)
target_sources(test_cuda_prediction_busy
  PRIVATE $<TARGET_OBJECTS:terp_cuda_busy_spline>)
target_compile_definitions(test_cuda_prediction_busy
  PRIVATE CUDA_BUSY_NTHREADS=64 CUDA_MARCH_NBLOCKS=24u
    CUDA_SINGLE_BLOCK_MAX_NRANGES=0
    CUDA_LORENZO_MAX_NBLOCKS=1 CUDA_LORENZO_MIN_NBLOCKS=1u
    CUDA_LINES_ENOUGH=0x7fffffffu CUDA_STRETCH_MIN_NVALUES=2u)
terp_add_cuda_test(test_cuda_specials_busy gpu/test_cuda_specials.cu
  ${PROJECT_SOURCE_DIR}/gpu/predict/scan.cu
  ${PROJECT_SOURCE_DIR}/gpu/sections/specials_mask.cu)
target_compile_definitions(test_cuda_specials_busy
  PRIVATE CUDA_SCAN_SMALL_MAX_NBLOCKS=0 CUDA_SINGLE_BLOCK_MAX_NSUMMED=0)
terp_add_cuda_test(test_cuda_tiles_decode gpu/test_cuda_tiles_decode.cu)
# The same test with the launch shapes of large chunks.
terp_add_cuda_test(test_cuda_tiles_decode_busy gpu/test_cuda_tiles_decode.cu
  ${PROJECT_SOURCE_DIR}/gpu/sections/low_bits.cu
  ${PROJECT_SOURCE_DIR}/gpu/sections/stream_read.cu
  ${PROJECT_SOURCE_DIR}/gpu/entropy/tiles_decode.cu)
target_compile_definitions(test_cuda_tiles_decode_busy
  PRIVATE CUDA_LONG_INDEX_NPARTITIONS=1 CUDA_LARGE_BATCH_NTILES=1 CUDA_SINGLE_BLOCK_MAX_NRANGES=0)
terp_add_cuda_test(test_cuda_tiles_encode gpu/test_cuda_tiles_encode.cu)
terp_add_cuda_test(test_cuda_tuner gpu/test_cuda_tuner.cu)
terp_add_cuda_test(test_cuda_low_bits gpu/test_cuda_low_bits.cu)
terp_add_cuda_test(test_cuda_contexts gpu/test_cuda_contexts.cu)
# The same test with the launch shapes of large chunks.
terp_add_cuda_test(test_cuda_contexts_busy gpu/test_cuda_contexts.cu
  ${PROJECT_SOURCE_DIR}/gpu/entropy/contexts.cu)
target_compile_definitions(test_cuda_contexts_busy
  PRIVATE CUDA_CONTEXT_SINGLE_BLOCK_NSYMBOLS=0 CUDA_CONTEXT_SPAN_NTILES=2
    CUDA_CONTEXT_BUSY_NBLOCKS=1 CUDA_SINGLE_BLOCK_MAX_NRANGES=0)

# terp_add_emulated(PROGRAM EVERY [ARGUMENT...]): a test that runs one of the
# programs above and repeats one call in EVERY with the emulated engine. EVERY
# keeps the test within CI's time. The date chooses the calls
# (terp_case_is_drawn).
function(terp_add_emulated program every)
  set(library $<TARGET_FILE:terp_cuda_emulated_library>)
  add_test(NAME ${program} COMMAND ${program} ${ARGN})
  set_tests_properties(${program} PROPERTIES ENVIRONMENT
    "TERP_CUDA_LIBRARY=${library};TERP_TEST_CUDART=${library};TERP_TEST_EVERY=${every}")
endfunction()

terp_add_emulated(cuda_choices 4)
terp_add_emulated(cuda_domain 48)
terp_add_emulated(cuda_environment 200)
terp_add_emulated(cuda_memory 1)
terp_add_emulated(cuda_precision 96)
terp_add_emulated(cuda_repeats 96)
terp_add_emulated(cuda_roundtrip 800)
terp_add_emulated(cuda_special_values 400)
terp_add_emulated(cuda_speed_tiles 20)
terp_add_emulated(cuda_threads 400)
terp_add_emulated(cuda_types 400)
terp_add_emulated(cuda_valid_range 400)
terp_add_emulated(cuda_hostile 1600)
set_property(TEST cuda_hostile APPEND PROPERTY ENVIRONMENT TERP_TEST_NANS=any)
if(golden_folders)
  terp_add_emulated(cuda_golden 1 ${golden_folders})
endif()
terp_add_emulated(cuda_bytes 24)

# TERP_ENGINE tells the load programs which engine to use.
if(TARGET load_chunks)
  add_test(NAME load_chunks_emulated
           COMMAND load_chunks --seconds 2 --threads 2)
  set_tests_properties(load_chunks_emulated PROPERTIES ENVIRONMENT
    "TERP_ENGINE=cuda;TERP_CUDA_LIBRARY=$<TARGET_FILE:terp_cuda_emulated_library>")
endif()

# Chunks under all bounds, with the launches and their shapes of large chunks.
add_library(terp_cuda_busy_library SHARED)
set(busy_sources engine/sequence.cu predict/pointwise.cu predict/scan.cu sections/signs.cu
  sections/low_bits.cu sections/specials_mask.cu
  sections/stream_read.cu entropy/tiles_decode.cu)
list(TRANSFORM busy_sources PREPEND ${PROJECT_SOURCE_DIR}/gpu/)
terp_emulate_cuda(terp_cuda_busy_library ${busy_sources})
target_sources(terp_cuda_busy_library
  PRIVATE $<TARGET_OBJECTS:terp_cuda_busy_spline>)
target_compile_definitions(terp_cuda_busy_library PRIVATE
  CUDA_TOLD_MIN_NPARTITIONS=1
  CUDA_SCAN_SMALL_MAX_NBLOCKS=0 CUDA_SINGLE_BLOCK_MAX_NSUMMED=0
  CUDA_LONG_INDEX_NPARTITIONS=1 CUDA_LARGE_BATCH_NTILES=1 CUDA_POINTWISE_MAX_NBLOCKS=3
  CUDA_SIGNS_MAX_NBLOCKS=3)
set_target_properties(terp_cuda_busy_library PROPERTIES LINKER_LANGUAGE CXX
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/emulated)
target_link_options(terp_cuda_busy_library PRIVATE LINKER:-u,terp_cuda_open)
target_link_libraries(terp_cuda_busy_library
  PRIVATE terp_cuda_emulated terp_codec terp_codebooks terp_cuda_emulator)
add_test(NAME cuda_bytes_busy COMMAND cuda_bytes batch_under_each_bound*)
set(library $<TARGET_FILE:terp_cuda_busy_library>)
add_test(NAME cuda_prefixes_busy COMMAND cuda_bytes prefixes*)
set_tests_properties(cuda_bytes_busy cuda_prefixes_busy PROPERTIES ENVIRONMENT
  "TERP_CUDA_LIBRARY=${library};TERP_TEST_CUDART=${library};TERP_TEST_EVERY=3")
add_dependencies(cuda_bytes terp_cuda_busy_library)

terp_add_cuda_program(test_cuda_failures gpu/test_cuda_failures.c)
target_include_directories(test_cuda_failures PRIVATE emulator)
target_link_libraries(test_cuda_failures PRIVATE ${CMAKE_DL_LIBS})
terp_add_emulated(test_cuda_failures 1)
