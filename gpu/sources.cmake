# The CUDA engine's files, for nvcc and for the tests' emulator alike.
set(TERP_CUDA_SOURCES
  cuda_books.cu
  cuda_context.cu
  cuda_device.c
  cuda_engine.cu
  cuda_escapes.cu
  cuda_lorenzo.cu
  cuda_scan.cu
  cuda_seal.cu
  cuda_specials_read.cu
  cuda_specials_write.cu
  cuda_spline.cu
  cuda_stream_read.cu
  cuda_stream_write.cu
  cuda_tiles_decode.cu
  cuda_tiles_encode.cu
  cuda_tuner.cu)
