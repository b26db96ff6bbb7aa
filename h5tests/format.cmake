# doc/format.md as a program in Python, compared with the codec. Sanitizers
# would watch what other tests show them.
if(TERP_SANITIZE)
  return()
endif()
find_package(Python3 COMPONENTS Interpreter)
if(NOT Python3_FOUND)
  message(STATUS "The test of doc/format.md is left out: no Python")
  return()
endif()

add_executable(make_pairs format/make_pairs.c)
target_link_libraries(make_pairs PRIVATE terp_fields)

add_test(NAME format
         COMMAND ${Python3_EXECUTABLE} ../hosts/in_venv.py
                 ${CMAKE_CURRENT_BINARY_DIR}/venv-numpy numpy test_format.py
         WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/format)
set(environment
  TEST_PAIRS=$<TARGET_FILE:make_pairs>
  TEST_FREQUENCIES=${PROJECT_SOURCE_DIR}/codebooks/frequencies.c
  TEST_DOCUMENT=${PROJECT_SOURCE_DIR}/doc/format.md
  PYTHONDONTWRITEBYTECODE=1)
set_tests_properties(format PROPERTIES
  SKIP_RETURN_CODE 77 ENVIRONMENT "${environment}")
