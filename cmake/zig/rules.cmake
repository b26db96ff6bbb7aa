# zig links no bundles of macOS; a dynamic library is opened as well.
if(APPLE)
  set(CMAKE_SHARED_MODULE_CREATE_C_FLAGS "-dynamiclib")
endif()
