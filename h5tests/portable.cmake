# Compares terp's replacements of Linux headers, which other systems use, with
# the originals.
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  terp_add_ctest(test_argp portable/test_argp.c
                 ${PROJECT_SOURCE_DIR}/portable/argp/argp.c)
  target_include_directories(test_argp
    BEFORE PRIVATE ${PROJECT_SOURCE_DIR}/portable/argp)
  set_target_properties(test_argp PROPERTIES C_EXTENSIONS ON)
endif()
