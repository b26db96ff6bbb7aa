# Install rules, and the package that find_package(terp) finds:
#   terp::h5z        the C interface: the directory of h5z_terp.h
#   terp::codec      the codec without HDF5, a static library: <terp/terp.h>
#   terp::h5         datasets by batches of chunks, a static library:
#                    <terp/terp_h5.h>; the program links its own HDF5
#   terp::h5z_linked the filter as a static library, for programs that cannot load
#                    a plugin (H5Z_terp_register)
#   terp_PLUGIN_DIR  the folder that HDF5_PLUGIN_PATH must contain
# A project that adds this folder by add_subdirectory has the same names.

include(CMakePackageConfigHelpers)

set(terp_install_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/terp)

add_library(h5z INTERFACE)
target_include_directories(h5z INTERFACE
  $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/filter/plugin>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
install(TARGETS h5z EXPORT terp)
add_library(terp::h5z ALIAS h5z)
add_library(terp::codec ALIAS terp_codec)

# A program that links the codec finds the CUDA engine by its run path.
target_include_directories(terp_codec INTERFACE
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_options(terp_codec INTERFACE
  $<INSTALL_INTERFACE:LINKER:-rpath,$<INSTALL_PREFIX>/${CMAKE_INSTALL_LIBDIR}>)
set_target_properties(terp_codec PROPERTIES EXPORT_NAME codec)
set_target_properties(terp_codebooks PROPERTIES EXPORT_NAME codebooks)
install(TARGETS terp_codec terp_codebooks EXPORT terp
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES codec/api/terp.h codec/api/terp_status.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/terp)
install(EXPORT terp NAMESPACE terp:: FILE terp-targets.cmake
        DESTINATION ${terp_install_cmake_dir})

if(TARGET terp_h5)
  add_library(terp::h5 ALIAS terp_h5)
  target_include_directories(terp_h5 INTERFACE
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  set_target_properties(terp_h5 PROPERTIES EXPORT_NAME h5)
  install(TARGETS terp_h5 EXPORT terp
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(FILES filter/h5/terp_h5.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/terp)
endif()
if(TARGET terp_h5z_linked)
  add_library(terp::h5z_linked ALIAS terp_h5z_linked)
  target_include_directories(terp_h5z_linked INTERFACE
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  set_target_properties(terp_h5z_linked PROPERTIES EXPORT_NAME h5z_linked)
  install(TARGETS terp_h5z_linked EXPORT terp
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(NOT PROJECT_IS_TOP_LEVEL)
  foreach(header codec/api/terp.h codec/api/terp_status.h filter/h5/terp_h5.h)
    get_filename_component(name ${header} NAME)
    configure_file(${header} ${PROJECT_BINARY_DIR}/include/terp/${name} COPYONLY)
  endforeach()
  target_include_directories(terp_codec PUBLIC
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>)
  set(terp_PLUGIN_DIR ${CMAKE_BINARY_DIR}/plugin PARENT_SCOPE)
endif()
if(TARGET h5zterp)
  install(TARGETS h5zterp LIBRARY DESTINATION ${TERP_INSTALL_PLUGIN_DIR})
  install(FILES filter/plugin/h5z_terp.h filter/fortran/h5z_terp.f90
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endif()
if(TARGET h5vlterp)
  install(TARGETS h5vlterp LIBRARY DESTINATION ${TERP_INSTALL_PLUGIN_DIR})
endif()
install(TARGETS terp_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET terp_cuda)
  install(TARGETS terp_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
# The folder in which the plugin looks for the engine, if it is not "../../". A
# run path would load the engine without checking who may write there
# (codec/api/loader.c).
file(RELATIVE_PATH terp_engine_folder /${TERP_INSTALL_PLUGIN_DIR}
     /${CMAKE_INSTALL_LIBDIR})
string(REGEX REPLACE "/+$" "" terp_engine_folder "${terp_engine_folder}")
if(NOT terp_engine_folder STREQUAL "../..")
  set_property(SOURCE codec/api/loader.c TARGET_DIRECTORY terp_codec
    APPEND PROPERTY COMPILE_DEFINITIONS
    TERP_ENGINE_FOLDER="${terp_engine_folder}/")
endif()
if(TERP_PYTHON)
  install(TARGETS h5zterp h5vlterp
          LIBRARY DESTINATION lib/hdf5/plugin COMPONENT python)
  install(TARGETS terp_shared
          LIBRARY DESTINATION lib COMPONENT python NAMELINK_SKIP
          RUNTIME DESTINATION lib COMPONENT python)
  install(TARGETS terp_tool LIBRARY DESTINATION lib COMPONENT python)
endif()
if(TARGET terp)
  install(TARGETS terp RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES doc/terp.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES tools/completion/terp.bash
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
          RENAME terp)
  install(FILES tools/completion/_terp
          DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
endif()
include(cmake/Sbom.cmake)
install(FILES LICENSE README.md CHANGELOG.md doc/format.md decoder/terp_decode.c
              ${CMAKE_CURRENT_BINARY_DIR}/terp.spdx.json
        DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES licenses/xxHash.txt DESTINATION ${CMAKE_INSTALL_DOCDIR}/licenses)
if(TARGET terp_cuda)
  install(FILES licenses/CUB.txt DESTINATION ${CMAKE_INSTALL_DOCDIR}/licenses)
endif()
if(terp_jansson_link STREQUAL "STATIC_LINK")
  install(FILES licenses/jansson.txt
          DESTINATION ${CMAKE_INSTALL_DOCDIR}/licenses)
endif()

configure_package_config_file(
  cmake/terp-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/terp-config.cmake
  INSTALL_DESTINATION ${terp_install_cmake_dir}
  PATH_VARS TERP_INSTALL_PLUGIN_DIR)
write_basic_package_version_file(
  ${CMAKE_CURRENT_BINARY_DIR}/terp-config-version.cmake
  COMPATIBILITY SameMajorVersion)
file(RELATIVE_PATH terp_pc_prefix
     /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/terp.pc.in terp.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/terp.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/terp-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/terp-config-version.cmake
        DESTINATION ${terp_install_cmake_dir})

# Prints at installation whether HDF5 finds the plugin by itself.
if(TARGET h5zterp AND PROJECT_IS_TOP_LEVEL AND NOT TERP_PYTHON)
  install(CODE "set(plugin_dir \"${TERP_INSTALL_PLUGIN_DIR}\")
set(default_dir \"${TERP_HDF5_PLUGIN_DIR}\")")
  install(SCRIPT cmake/plugin_hint.cmake)
endif()
