# Installs BUILD_DIR into a folder of its own, builds the consumer against it
# there, and runs it, also with FAKE_ENGINE in the CUDA engine's place:
#   cmake -DBUILD_DIR=... -DWORK_DIR=... -DFAKE_ENGINE=... -P test_install.cmake

include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

file(REMOVE_RECURSE ${WORK_DIR})
file(MAKE_DIRECTORY ${WORK_DIR})
run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/first)
# Moved, so that a path of the first place that was kept shows.
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
  # A prefix or a library that is missing shows here.
  get_filename_component(lib_dir ${archive} DIRECTORY)
  set(ENV{PKG_CONFIG_PATH} ${lib_dir}/pkgconfig)
  run(sh -c "cc '${CMAKE_CURRENT_LIST_DIR}/consumer/batch.c' -o shared \
$('${PKG_CONFIG}' --cflags --libs terp) -Wl,-rpath,'${lib_dir}'")
  run(${WORK_DIR}/shared)
endif()
foreach(file man/man1/terp.1 bash-completion/completions/terp
        zsh/site-functions/_terp)
  if(NOT EXISTS ${WORK_DIR}/prefix/share/${file})
    message(FATAL_ERROR "share/${file} is not installed")
  endif()
endforeach()
