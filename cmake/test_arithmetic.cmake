# Fails unless builds with inexact arithmetic are refused: by the configuration
# or, if the flags arrive in another way, by the compiler:
#   cmake -DSOURCE_DIR=... -DWORK_DIR=... -DCOMPILER=... -DCOMPILER_ID=...
#         -P test_arithmetic.cmake

# configure(variable flags): sets `result`, and `said` to the output.
function(configure variable flags)
  file(REMOVE_RECURSE ${WORK_DIR})
  execute_process(
    COMMAND ${CMAKE_COMMAND} -S ${SOURCE_DIR} -B ${WORK_DIR}
            -DCMAKE_C_COMPILER=${COMPILER} -DTERP_HDF5=OFF -DTERP_CUDA=OFF
            -DBUILD_TESTING=OFF "-D${variable}=${flags}"
    RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
  set(result ${result} PARENT_SCOPE)
  set(said "${said}" PARENT_SCOPE)
endfunction()

foreach(flags "-O3 -fassociative-math -fno-signed-zeros" -Ofast -ffast-math
        -freciprocal-math)
  foreach(variable CMAKE_C_FLAGS_RELEASE CMAKE_C_FLAGS)
    configure(${variable} "${flags}")
    if(result EQUAL 0 OR NOT said MATCHES "exact arithmetic")
      message(FATAL_ERROR "${variable}=${flags} was not refused:\n${said}")
    endif()
  endforeach()
endforeach()
foreach(flags --use_fast_math -ftz=true --prec-div=false)
  configure(CMAKE_CUDA_FLAGS_RELEASE "${flags}")
  if(result EQUAL 0 OR NOT said MATCHES "exact arithmetic")
    message(FATAL_ERROR "CUDA's ${flags} was not refused:\n${said}")
  endif()
endforeach()
configure(CMAKE_C_FLAGS_RELEASE "-O2 -fno-fast-math")
if(NOT result EQUAL 0)
  message(FATAL_ERROR "exact flags were refused:\n${said}")
endif()

# compile(flags...): compiles a source with the header that all sources include.
function(compile)
  execute_process(
    COMMAND ${COMPILER} -I${SOURCE_DIR} ${ARGN} -fsyntax-only -x c
            -include codec/format/base.h /dev/null
    RESULT_VARIABLE result OUTPUT_QUIET ERROR_QUIET)
  set(result ${result} PARENT_SCOPE)
endfunction()

compile(-std=c11 -O2)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "codec/format/base.h does not compile")
endif()
set(inexact -ffast-math -ffinite-math-only)
if(COMPILER_ID STREQUAL GNU) # clang defines macros for the two flags above only
  list(APPEND inexact -freciprocal-math -funsafe-math-optimizations
       "-fassociative-math -fno-signed-zeros -fno-trapping-math")
endif()
foreach(flags ${inexact})
  separate_arguments(separate UNIX_COMMAND "${flags}")
  compile(${separate})
  if(result EQUAL 0)
    message(FATAL_ERROR "the compiler lets ${flags} pass")
  endif()
endforeach()
