# Tests of the operator for ADIOS2: without ADIOS2, and with the ADIOS2 of PyPI
# and of the system.
add_executable(test_block adios2/test_block.c)
target_link_libraries(test_block PRIVATE terp_block terp_cmocka m)
add_test(NAME test_block COMMAND test_block)

find_package(Python3 COMPONENTS Interpreter)
if(NOT Python3_FOUND OR TERP_SANITIZE OR NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
  return()
endif()
find_program(TERP_SYSTEM_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
# The packages of venv-openpmd, which simulations.cmake uses, too.
set(openpmd_packages openpmd-api==0.17.1.post4,numpy,adios2==2.12.1.1001)

# terp_add_adios2_test(name command...)
function(terp_add_adios2_test name)
  add_test(NAME ${name} COMMAND ${ARGN}
           WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/adios2)
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77
    ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;TEST_SOURCE=${PROJECT_SOURCE_DIR}")
endfunction()

include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER)
  terp_add_adios2_test(adios2_newest
    ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/hosts/in_venv.py
    ${CMAKE_CURRENT_BINARY_DIR}/venv-openpmd ${openpmd_packages} test_adios2.py)
  set_property(TEST adios2_newest APPEND PROPERTY ENVIRONMENT
    "TEST_CXX=${CMAKE_CXX_COMPILER}"
    "TEST_ARCHIVES=$<TARGET_FILE:terp_block>:$<TARGET_FILE:terp_codec>:\
$<TARGET_FILE:terp_codebooks>")
  set_tests_properties(adios2_newest PROPERTIES
    LABELS ci RESOURCE_LOCK venv-openpmd)
endif()
if(TARGET terp_adios2 AND TARGET adios2_write AND TERP_SYSTEM_PYTHON)
  find_program(BPLS NAMES bpls bpls.serial)
  mark_as_advanced(BPLS)
  terp_add_adios2_test(adios2_system ${TERP_SYSTEM_PYTHON} test_adios2.py)
  set_property(TEST adios2_system APPEND PROPERTY ENVIRONMENT
    TEST_PLUGIN=$<TARGET_FILE:terp_adios2>
    TEST_EXAMPLE=$<TARGET_FILE:adios2_write>)
  if(BPLS)
    set_property(TEST adios2_system APPEND PROPERTY ENVIRONMENT TEST_BPLS=${BPLS})
  endif()
endif()
