# Test programs for machines with a GPU; scripts/gpu_check.sh runs them.
if(NOT TARGET terp_cuda)
  return()
endif()

foreach(name exhaustive failures hammer large random)
  add_executable(cuda_${name} gpu/cuda_${name}.cu)
  target_link_libraries(cuda_${name} PRIVATE terp_fields)
  set_target_properties(cuda_${name} PROPERTIES
    CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON CUDA_EXTENSIONS OFF)
endforeach()

# This program calls functions inside the engine, on a device too.
add_executable(cuda_lossless gpu/test_cuda_lossless.cu)
target_link_libraries(cuda_lossless PRIVATE terp_cuda_objects terp_cases
  terp_cmocka)
set_target_properties(cuda_lossless PROPERTIES
  CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON CUDA_EXTENSIONS OFF)

add_dependencies(terp_gpu_check cuda_exhaustive cuda_failures cuda_hammer cuda_large
  cuda_random cuda_bytes cuda_domain cuda_environment cuda_golden cuda_hostile cuda_lossless cuda_precision
  cuda_memory cuda_repeats cuda_roundtrip cuda_special_values cuda_speed_tiles cuda_threads
  cuda_types cuda_valid_range)
