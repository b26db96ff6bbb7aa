# The CUDA engine's files, for nvcc and for the tests' emulator alike.
set(TERP_CUDA_SOURCES
  cuda_device.c
  cuda_escapes.cu
  cuda_lorenzo.cu
  cuda_spline.cu
  cuda_scan.cu
  cuda_specials_read.cu
  cuda_specials_write.cu
)
