# zig cannot link bundles of macOS; programs can load a dynamic library as well.
if(APPLE)
  set(CMAKE_SHARED_MODULE_CREATE_C_FLAGS "-dynamiclib")
endif()
