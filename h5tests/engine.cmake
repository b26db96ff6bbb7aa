# Tests of how the codec and the plugin reach the CUDA engine, with a fake one.

add_library(fake_cuda_engine MODULE fake_cuda_engine.c)
target_link_libraries(fake_cuda_engine
  PRIVATE terp_codec -Wl,--exclude-libs,ALL)
# Where the codec looks for the engine, seen from several places.
set(engine_tree ${CMAKE_CURRENT_BINARY_DIR}/engine_tree)
set_target_properties(fake_cuda_engine PROPERTIES
  OUTPUT_NAME terp_cuda LIBRARY_OUTPUT_DIRECTORY ${engine_tree}/lib)

terp_add_codec_test(test_batch)
terp_add_codec_test(test_engine)
add_dependencies(test_engine fake_cuda_engine)
set_tests_properties(test_engine PROPERTIES
  ENVIRONMENT TEST_FAKE_CUDA=$<TARGET_FILE:fake_cuda_engine>)

terp_add_ctest(test_cuda_device
  test_cuda_device.c ${PROJECT_SOURCE_DIR}/gpu/cuda_device.c)
target_include_directories(test_cuda_device PRIVATE ${PROJECT_SOURCE_DIR}/gpu)
