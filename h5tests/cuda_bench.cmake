# Runs the CUDA engine's benchmarks on the emulated device.
if(NOT TARGET terp_cuda_emulated_library)
  return()
endif()
find_package(Python3 COMPONENTS Interpreter)
if(NOT Python3_FOUND)
  message(STATUS "The test of the CUDA engine's benchmarks is left out: no "
                 "Python")
  return()
endif()

set(bench ${PROJECT_SOURCE_DIR}/bench)
set(emulated_bench ${CMAKE_CURRENT_BINARY_DIR}/emulated_bench)
function(terp_name_bench name)
  target_include_directories(emulated_${name} PRIVATE ${bench})
  set_target_properties(emulated_${name} PROPERTIES
    OUTPUT_NAME cuda_${name} RUNTIME_OUTPUT_DIRECTORY ${emulated_bench})
endfunction()

# Benchmark and engine must share one runtime, so that both know the same
# memory.
foreach(name speed shapes)
  set(files ${bench}/cuda_${name}.cu ${bench}/cuda_bench.cu)
  set_source_files_properties(${files} PROPERTIES LANGUAGE CXX)
  add_executable(emulated_${name} ${files})
  target_include_directories(emulated_${name}
    PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/emulator)
  target_compile_options(emulated_${name} PRIVATE ${terp_cuda_cxx_flags})
  target_link_libraries(emulated_${name}
    PRIVATE terp_codec terp_cuda_emulated_library)
  terp_name_bench(${name})
endforeach()

# Benchmarks of single stages.
foreach(name index books)
  add_executable(emulated_${name})
  terp_emulate_cuda(emulated_${name} ${bench}/cuda_${name}.cu
    ${bench}/cuda_bench.cu ${bench}/cuda_stages.cu)
  target_link_libraries(emulated_${name} PRIVATE terp_cuda_emulated)
  terp_name_bench(${name})
endforeach()
target_sources(emulated_books PRIVATE ${bench}/cuda_books_host.c)

if(TARGET cuda_h5 AND TARGET h5zterp)
  set(h5_environment TERP_BENCH_H5=$<TARGET_FILE:cuda_h5>
      HDF5_PLUGIN_PATH=$<TARGET_FILE_DIR:h5zterp>)
endif()
set(environment ${h5_environment}
  TERP_BENCH_PROGRAMS=${emulated_bench}
  TERP_CUDA_LIBRARY=$<TARGET_FILE:terp_cuda_emulated_library>)
add_test(NAME bench.cuda
         COMMAND ${Python3_EXECUTABLE} -B ${bench}/test_cuda_bench.py -v)
set_tests_properties(bench.cuda PROPERTIES ENVIRONMENT "${environment}")
