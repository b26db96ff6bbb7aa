# Installs BUILD_DIR into a folder of its own, builds the consumer against the
# installation, and runs it; also with FAKE_ENGINE in place of the CUDA engine.
# Compiles README.md's lines for CMake and CUDA, and runs those for h5repack:
#   cmake -DBUILD_DIR=... -DWORK_DIR=... -DFAKE_ENGINE=... -P test_install.cmake

include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

file(REMOVE_RECURSE ${WORK_DIR})
file(MAKE_DIRECTORY ${WORK_DIR})
execute_process(
  COMMAND ${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/first
  OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
file(GLOB_RECURSE plugin ${WORK_DIR}/first/libh5zterp.so)
get_filename_component(plugin_dir ${plugin} DIRECTORY)
if(NOT said MATCHES "\n +export HDF5_PLUGIN_PATH=${plugin_dir}\n")
  message(FATAL_ERROR "the line that lets HDF5 find the plugin is missing:\n${said}")
endif()
# The installation is moved, to reveal paths of its first place.
file(RENAME ${WORK_DIR}/first ${WORK_DIR}/prefix)
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/consumer -B build
    -DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix)
run(${CMAKE_COMMAND} --build build)
run(build/consumer)
run(build/batch)
run(build/blocks)
file(GLOB_RECURSE archive ${WORK_DIR}/prefix/libterp_codec.a)
get_filename_component(lib_dir ${archive} DIRECTORY)
file(COPY_FILE ${FAKE_ENGINE} ${lib_dir}/libterp_cuda.so)
run(build/batch cuda)
run(prefix/bin/terp --version)
foreach(library h5zterp h5vlterp)
  if(NOT EXISTS ${lib_dir}/hdf5/plugin/lib${library}.so)
    message(FATAL_ERROR "lib${library}.so is not in the plugin's folder")
  endif()
endforeach()
find_program(PKG_CONFIG pkg-config)
if(PKG_CONFIG)
  # Fails if pkg-config's file lacks the prefix or a library.
  get_filename_component(lib_dir ${archive} DIRECTORY)
  set(ENV{PKG_CONFIG_PATH} ${lib_dir}/pkgconfig)
  run(sh -c "cc '${CMAKE_CURRENT_LIST_DIR}/consumer/batch.c' -o shared \
$('${PKG_CONFIG}' --cflags --libs terp) -Wl,-rpath,'${lib_dir}'")
  run(${WORK_DIR}/shared)
  foreach(variable plugindir fortran_module)
    execute_process(COMMAND ${PKG_CONFIG} --variable=${variable} terp
      OUTPUT_VARIABLE ${variable} OUTPUT_STRIP_TRAILING_WHITESPACE
      COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  foreach(file ${plugindir}/libh5zterp.so ${fortran_module})
    if(NOT EXISTS ${file})
      message(FATAL_ERROR "pkg-config names ${file}, which is not installed")
    endif()
  endforeach()
  find_program(H5FC h5fc)
  if(H5FC)
    file(COPY ${CMAKE_CURRENT_LIST_DIR}/../examples/fortran_module.f90
         DESTINATION ${WORK_DIR}/fortran)
    execute_process(COMMAND ${H5FC} ${fortran_module} fortran_module.f90
      WORKING_DIRECTORY ${WORK_DIR}/fortran COMMAND_ERROR_IS_FATAL ANY)
    execute_process(COMMAND ${CMAKE_COMMAND} -E env
      HDF5_PLUGIN_PATH=${plugindir} ./a.out f.h5
      WORKING_DIRECTORY ${WORK_DIR}/fortran COMMAND_ERROR_IS_FATAL ANY)
  endif()
endif()

# Finds README.md's indented lines, from `first` to an empty line.
function(readme_lines first variable)
  file(READ ${CMAKE_CURRENT_LIST_DIR}/../README.md readme)
  string(FIND "${readme}" "\n    ${first}" begin)
  if(begin EQUAL -1)
    message(FATAL_ERROR "README.md has no line that begins with ${first}")
  endif()
  string(SUBSTRING "${readme}" ${begin} -1 lines)
  string(FIND "${lines}" "\n\n" end)
  string(SUBSTRING "${lines}" 0 ${end} lines)
  string(REPLACE "\n    " "\n" lines "${lines}")
  set(${variable} "${lines}\n" PARENT_SCOPE)
endfunction()

readme_lines("#include <terp/terp_h5.h>" lines)
file(WRITE ${WORK_DIR}/readme/device.c "${lines}")
readme_lines("find_package" lines)
file(WRITE ${WORK_DIR}/readme/CMakeLists.txt "cmake_minimum_required(VERSION 3.22)
project(readme LANGUAGES C)
add_executable(my_program ${CMAKE_CURRENT_LIST_DIR}/consumer/consumer.c device.c)
${lines}
target_compile_definitions(my_program PRIVATE PLUGIN_DIR=\"\${terp_PLUGIN_DIR}\")
")
run(${CMAKE_COMMAND} -S readme -B readme/build
    -DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix)
run(${CMAKE_COMMAND} --build readme/build)
run(readme/build/my_program)

# Repacks that program's file, with the plugin's folder and without it.
find_program(H5REPACK h5repack)
if(H5REPACK)
  readme_lines("export HDF5_PLUGIN_PATH" lines)
  string(REPLACE /usr/local ${WORK_DIR}/prefix lines "${lines}")
  run(${CMAKE_COMMAND} -E env HDF5_PLUGIN_PATH=${lib_dir}/hdf5/plugin
      ${H5REPACK} -f NONE consumer.h5 in.h5)
  foreach(folder ${lib_dir}/hdf5/plugin ${WORK_DIR}/readme)
    string(REPLACE ${lib_dir}/hdf5/plugin ${folder} these "${lines}")
    execute_process(COMMAND sh -ec "PATH=$PWD/prefix/bin:$PATH ${these}"
                    WORKING_DIRECTORY ${WORK_DIR} OUTPUT_VARIABLE said
                    COMMAND_ERROR_IS_FATAL ANY)
    list(APPEND shown "${said}")
  endforeach()
  list(GET shown 0 found)
  list(GET shown 1 missed)
  if(NOT found MATCHES "relative bound 0[.]001" OR missed MATCHES "relative bound")
    message(FATAL_ERROR "terp info does not tell whether the plugin was found:\n"
                        "${shown}")
  endif()
endif()
foreach(file man/man1/terp.1 doc/terp/licenses/xxHash.txt
        bash-completion/completions/terp
        zsh/site-functions/_terp)
  if(NOT EXISTS ${WORK_DIR}/prefix/share/${file})
    message(FATAL_ERROR "share/${file} is not installed")
  endif()
endforeach()
# Each installed part has its version.
file(READ ${WORK_DIR}/prefix/share/doc/terp/terp.spdx.json parts)
foreach(part 1 2) # xxHash, HDF5
  string(JSON version GET "${parts}" packages ${part} versionInfo)
  if(NOT version MATCHES "^[0-9]+[.][0-9]+[.][0-9]+")
    message(FATAL_ERROR "terp.spdx.json has no version of part ${part}: ${version}")
  endif()
endforeach()
