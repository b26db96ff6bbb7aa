# `dist`: makes the source release from the files of the checked-out commit.
# With the same git and xz, the archive is the same on every machine, byte for
# byte.
find_package(Git)
find_program(TERP_XZ xz)
if(Git_FOUND AND TERP_XZ AND EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/.git)
  set(archive ${CMAKE_BINARY_DIR}/terp-${PROJECT_VERSION}.tar)
  add_custom_target(dist
    COMMAND ${GIT_EXECUTABLE} -C ${CMAKE_CURRENT_SOURCE_DIR} archive
            --format=tar --prefix=terp-${PROJECT_VERSION}/ -o ${archive} HEAD
    COMMAND ${TERP_XZ} -9 -T1 -f ${archive}
    COMMENT "${archive}.xz"
    VERBATIM)
endif()
