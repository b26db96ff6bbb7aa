# Tests of the codec through its C interface, codec/terp.h.

# What they share: contents of chunks, and a round trip with its checks.
add_library(terp_cases STATIC cases.c fields.c)
target_link_libraries(terp_cases PUBLIC terp_codec PkgConfig::CMOCKA)

function(terp_add_codec_test name)
  terp_add_ctest(${name} ${name}.c ${ARGN})
  target_link_libraries(${name} PRIVATE terp_cases)
endfunction()

foreach(name cd_values frame roundtrip special_values)
  terp_add_codec_test(test_${name})
endforeach()

# These watch the memory that the codec takes.
foreach(name hostile memory)
  terp_add_codec_test(test_${name} allocations.c)
  foreach(call malloc calloc realloc aligned_alloc posix_memalign free
          pthread_create)
    target_link_options(test_${name} PRIVATE -Wl,--wrap=${call})
  endforeach()
endforeach()
