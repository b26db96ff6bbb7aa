# Compares the second decoder with the codec, on golden and damaged streams.
add_executable(test_reader format/test_reader.c format/inside.c
  support/golden.c)
target_link_libraries(test_reader PRIVATE terp_cases m)
add_test(NAME test_reader COMMAND test_reader 6000 ${golden_folders})
set_tests_properties(test_reader PROPERTIES LABELS codec)
add_dependencies(codec_tests test_reader)

# Streams of all kinds, the examples of doc/format.md, and streams that break
# its rules.
find_package(Python3 COMPONENTS Interpreter)
if(NOT Python3_FOUND)
  message(STATUS "The test of doc/format.md is left out: no Python")
  return()
endif()

add_executable(make_pairs format/make_pairs.c format/inside.c)
target_link_libraries(make_pairs PRIVATE terp_fields m)

add_dependencies(make_pairs terp_decode)
add_test(NAME format COMMAND ${Python3_EXECUTABLE} test_format.py
         WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/format)
# Each field of a stream with other values.
add_test(NAME format_fields COMMAND ${Python3_EXECUTABLE} test_fields.py
         WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/format)
set(environment
  TEST_PAIRS=$<TARGET_FILE:make_pairs>
  TEST_DECODER=$<TARGET_FILE:terp_decode>
  TEST_DOCUMENT=${PROJECT_SOURCE_DIR}/doc/format.md
  PYTHONPYCACHEPREFIX=${CMAKE_BINARY_DIR}/pycache)
set_tests_properties(format format_fields PROPERTIES ENVIRONMENT "${environment}")
