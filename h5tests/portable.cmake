# What other systems get in place of headers that Linux has, held against those.
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  terp_add_ctest(test_argp portable/test_argp.c
                 ${PROJECT_SOURCE_DIR}/portable/argp/argp.c)
  target_include_directories(test_argp
    BEFORE PRIVATE ${PROJECT_SOURCE_DIR}/portable/argp)
  set_target_properties(test_argp PROPERTIES C_EXTENSIONS ON)
endif()
