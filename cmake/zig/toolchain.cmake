# Compiles for another system with zig: clang, with the C libraries of many
# systems (PyPI's ziglang). scripts/everywhere.sh calls it, and makes the folder of
# headers and libraries that zig lacks:
#   cmake -DCMAKE_TOOLCHAIN_FILE=cmake/zig/toolchain.cmake
#         -DTERP_ZIG_TARGET=aarch64-linux-gnu.2.17 -DTERP_ZIG_PREFIX=FOLDER
# `python3` on the path must have ziglang.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES TERP_ZIG_TARGET TERP_ZIG_PREFIX)
string(REGEX MATCH "^[^-]+" CMAKE_SYSTEM_PROCESSOR "${TERP_ZIG_TARGET}")
if(TERP_ZIG_TARGET MATCHES "windows")
  set(CMAKE_SYSTEM_NAME Windows)
elseif(TERP_ZIG_TARGET MATCHES "macos")
  set(CMAKE_SYSTEM_NAME Darwin)
else()
  set(CMAKE_SYSTEM_NAME Linux)
endif()
set(CMAKE_C_COMPILER ${CMAKE_CURRENT_LIST_DIR}/cc)
set(CMAKE_C_COMPILER_TARGET ${TERP_ZIG_TARGET})
set(CMAKE_AR ${CMAKE_CURRENT_LIST_DIR}/ar CACHE FILEPATH "")
set(CMAKE_RANLIB ${CMAKE_CURRENT_LIST_DIR}/ranlib CACHE FILEPATH "")
# The linker strips, because no strip program supports the files of all systems.
set(CMAKE_SHARED_LINKER_FLAGS_INIT -s)
set(CMAKE_MODULE_LINKER_FLAGS_INIT -s)
set(CMAKE_USER_MAKE_RULES_OVERRIDE_C ${CMAKE_CURRENT_LIST_DIR}/rules.cmake)
list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})
# Searches no files of this machine.
set(CMAKE_FIND_ROOT_PATH ${TERP_ZIG_PREFIX})
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} ${TERP_ZIG_PREFIX}/lib/pkgconfig)
