# The CUDA engine on machines without a GPU: its files are compiled as C++ for
# an emulator (cuda_emulator/), and run by tests. Fibers and sanitizers do not
# mix.
if(TERP_SANITIZE OR TERP_FUZZ)
  return()
endif()
include(CheckLanguage)
check_language(CXX)
if(NOT CMAKE_CXX_COMPILER)
  message(STATUS "No tests of the CUDA engine: needs a C++ compiler")
  return()
endif()
enable_language(CXX)
find_library(BOOST_CONTEXT_LIBRARY boost_context)
find_path(BOOST_CONTEXT_INCLUDE_DIR boost/context/fiber.hpp)
if(NOT BOOST_CONTEXT_LIBRARY OR NOT BOOST_CONTEXT_INCLUDE_DIR)
  message(STATUS "No tests of the CUDA engine: needs Boost.Context")
  return()
endif()

set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(terp_cuda_cxx_flags -O2 -ffp-contract=off -fno-trapping-math
    -fno-math-errno -Wall -Wextra -Wshadow $<$<BOOL:${TERP_WERROR}>:-Werror>)

add_library(terp_cuda_emulator STATIC
  cuda_emulator/emulator.cpp
  cuda_emulator/runtime.cpp)
target_include_directories(terp_cuda_emulator PUBLIC cuda_emulator)
target_include_directories(terp_cuda_emulator SYSTEM
  PRIVATE ${BOOST_CONTEXT_INCLUDE_DIR})
target_compile_options(terp_cuda_emulator PRIVATE ${terp_cuda_cxx_flags})
target_link_libraries(terp_cuda_emulator
  PUBLIC ${BOOST_CONTEXT_LIBRARY} Threads::Threads)

# terp_emulate_cuda(TARGET FILE...): adds CUDA files to a target, as C++.
function(terp_emulate_cuda target)
  set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX)
  target_sources(${target} PRIVATE ${ARGN})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/gpu)
  target_compile_options(${target}
    PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${terp_cuda_cxx_flags}>)
  target_link_libraries(${target}
    PUBLIC terp_codec terp_codebooks terp_cuda_emulator)
endfunction()

include(${PROJECT_SOURCE_DIR}/gpu/sources.cmake)
list(TRANSFORM TERP_CUDA_SOURCES PREPEND ${PROJECT_SOURCE_DIR}/gpu/)
if(TERP_CUDA_SOURCES)
  add_library(terp_cuda_emulated STATIC)
  terp_emulate_cuda(terp_cuda_emulated ${TERP_CUDA_SOURCES})
endif()

# terp_add_cuda_test(NAME FILE...): a test of the emulated engine; FILEs may
# be C, C++ or CUDA.
function(terp_add_cuda_test name)
  add_executable(${name})
  terp_emulate_cuda(${name})
  foreach(file ${ARGN})
    if(file MATCHES "\\.cu$")
      terp_emulate_cuda(${name} ${file})
    else()
      target_sources(${name} PRIVATE ${file})
    endif()
  endforeach()
  target_link_libraries(${name} PRIVATE terp_cmocka)
  if(TARGET terp_cuda_emulated)
    target_link_libraries(${name} PRIVATE terp_cuda_emulated)
  endif()
  add_test(NAME ${name} COMMAND ${name})
endfunction()

terp_add_cuda_test(test_cuda_emulator test_cuda_emulator.cu)
