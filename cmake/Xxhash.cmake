# Chooses xxHash's header: sets XXHASH_INCLUDE_DIR and terp_xxhash_version.

set(TERP_SYSTEM_XXHASH AUTO CACHE STRING
    "xxHash's header: AUTO (the system's if found, otherwise the copy in \
third_party), ON (the system's) or OFF (the copy)")
set_property(CACHE TERP_SYSTEM_XXHASH PROPERTY STRINGS AUTO ON OFF)

# terp_read_xxhash_version(header): sets terp_xxhash_version.
macro(terp_read_xxhash_version header)
  set(terp_xxhash_version)
  file(STRINGS ${header} lines
       REGEX "define XXH_VERSION_(MAJOR|MINOR|RELEASE) ")
  foreach(line ${lines})
    string(REGEX MATCH "[0-9]+ *$" line "${line}")
    list(APPEND terp_xxhash_version ${line})
  endforeach()
  list(JOIN terp_xxhash_version "." terp_xxhash_version)
endmacro()

set(terp_xxhash_copy ${CMAKE_CURRENT_LIST_DIR}/../third_party/xxhash)
if(TERP_SYSTEM_XXHASH)
  find_path(XXHASH_INCLUDE_DIR xxhash.h)
  set(terp_xxhash_found ${XXHASH_INCLUDE_DIR})
  if(terp_xxhash_found)
    terp_read_xxhash_version(${XXHASH_INCLUDE_DIR}/xxhash.h)
    # XXH3, the checksum of streams, had other values before 0.8.0.
    if(terp_xxhash_version VERSION_LESS 0.8.0)
      message(STATUS "xxHash ${terp_xxhash_version} in ${XXHASH_INCLUDE_DIR} is too "
                     "old: terp needs 0.8.0")
      set(terp_xxhash_found)
    endif()
  endif()
endif()
if(TERP_SYSTEM_XXHASH AND NOT terp_xxhash_found AND
   NOT TERP_SYSTEM_XXHASH STREQUAL AUTO)
  terp_miss("xxHash's header xxhash.h, version 0.8" libxxhash-dev)
elseif(NOT TERP_SYSTEM_XXHASH OR NOT terp_xxhash_found)
  # Hides the cache variable of the same name.
  set(XXHASH_INCLUDE_DIR ${terp_xxhash_copy})
  terp_read_xxhash_version(${XXHASH_INCLUDE_DIR}/xxhash.h)
  message(STATUS "terp uses its copy of xxHash ${terp_xxhash_version}")
endif()
