# What other systems get in place of headers that Linux has, held against those.
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  add_library(terp_windows_fnmatch OBJECT
    ${PROJECT_SOURCE_DIR}/portable/windows/fnmatch.c)
  target_include_directories(terp_windows_fnmatch
    BEFORE PRIVATE ${PROJECT_SOURCE_DIR}/portable/windows)
  target_compile_definitions(terp_windows_fnmatch PRIVATE fnmatch=terp_fnmatch)
  terp_add_ctest(test_fnmatch portable/test_fnmatch.c
                 $<TARGET_OBJECTS:terp_windows_fnmatch>)
  terp_add_ctest(test_argp portable/test_argp.c
                 ${PROJECT_SOURCE_DIR}/portable/argp/argp.c)
  target_include_directories(test_argp
    BEFORE PRIVATE ${PROJECT_SOURCE_DIR}/portable/argp)
  set_target_properties(test_argp PROPERTIES C_EXTENSIONS ON)
endif()
