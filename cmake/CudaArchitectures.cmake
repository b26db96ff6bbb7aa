# Sets CMAKE_CUDA_ARCHITECTURES unless the user or CUDAARCHS does: to the GPUs
# of this machine; without a known GPU, or with TERP_CUDA_PORTABLE, to the GPUs
# that packages support.

option(TERP_CUDA_PORTABLE
       "CUDA code for all GPUs that packages are for, not this machine's alone"
       OFF)

# terp_find_gpus(variable): sets `variable` to the architectures of this
# machine's GPUs that nvcc supports.
function(terp_find_gpus variable)
  set(${variable} "" PARENT_SCOPE)
  find_program(TERP_NVIDIA_SMI nvidia-smi)
  if(CMAKE_CROSSCOMPILING OR NOT TERP_NVIDIA_SMI)
    return()
  endif()
  execute_process(
    COMMAND ${TERP_NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader
    OUTPUT_VARIABLE gpus RESULT_VARIABLE result ERROR_QUIET TIMEOUT 60)
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-arch
                  OUTPUT_VARIABLE known RESULT_VARIABLE known_result ERROR_QUIET)
  if(NOT result EQUAL 0 OR NOT known_result EQUAL 0)
    return()
  endif()
  string(REGEX MATCHALL "[0-9]+[.][0-9]" gpus "${gpus}")
  string(REPLACE "." "" gpus "${gpus}")
  list(REMOVE_DUPLICATES gpus)
  set(found)
  foreach(gpu ${gpus})
    if(known MATCHES "compute_${gpu}[\r\n]")
      list(APPEND found ${gpu})
    endif()
  endforeach()
  set(${variable} "${found}" PARENT_SCOPE)
endfunction()

if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND "$ENV{CUDAARCHS}" STREQUAL "")
  # The A100, the H100 and H200; newer devices compile the PTX.
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 90-virtual)
  if(NOT TERP_CUDA_PORTABLE)
    terp_find_gpus(terp_gpus)
    if(terp_gpus)
      set(CMAKE_CUDA_ARCHITECTURES ${terp_gpus})
    endif()
  endif()
  message(STATUS "CUDA code for ${CMAKE_CUDA_ARCHITECTURES}")
endif()
