# Fails unless CUDA code is for the machine's GPUs if nvcc supports one of them,
# and for those of packages otherwise. Scripts stand in for nvcc and
# nvidia-smi:
#   cmake -DWORK_DIR=... -P test_cuda_architectures.cmake
cmake_minimum_required(VERSION 3.22)
unset(ENV{CUDAARCHS})
set(packages "80-real;90-real;90-virtual")

function(write_script name)
  file(WRITE ${WORK_DIR}/${name} "#!/bin/sh\n${ARGN}\n")
  file(CHMOD ${WORK_DIR}/${name} PERMISSIONS OWNER_READ OWNER_EXECUTE OWNER_WRITE)
endfunction()

# check(expected [variable value]...)
function(check expected)
  set(CMAKE_CUDA_COMPILER ${WORK_DIR}/nvcc)
  set(TERP_NVIDIA_SMI ${WORK_DIR}/nvidia-smi)
  while(ARGN)
    list(POP_FRONT ARGN variable value)
    set(${variable} ${value})
  endwhile()
  include(${CMAKE_CURRENT_LIST_DIR}/CudaArchitectures.cmake)
  if(NOT CMAKE_CUDA_ARCHITECTURES STREQUAL expected)
    message(FATAL_ERROR "${CMAKE_CUDA_ARCHITECTURES}, not ${expected}")
  endif()
endfunction()

write_script(nvcc "echo compute_80; echo compute_90; echo compute_120")
write_script(nvidia-smi "echo 9.0; echo 9.0; echo 12.0; echo 7.0")
check("90;120")
check("${packages}" TERP_CUDA_PORTABLE ON)
check("75" CMAKE_CUDA_ARCHITECTURES 75)
check("${packages}" TERP_NVIDIA_SMI ${WORK_DIR}/absent)
write_script(nvidia-smi "echo 7.0") # nvcc makes no code for it
check("${packages}")
write_script(nvidia-smi "echo No devices were found; exit 6")
check("${packages}")
