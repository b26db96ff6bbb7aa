# Flags that make a fault in compiled code harder to exploit: those of Debian's
# packages, and frames that touch each page of a stack, so that no frame reaches
# beyond the stack's guard page. A flag is used if compiler and linker support
# it, unless the caller's flags, such as those of a package, have one of the
# same kind. CUDA's device code gets no such flags.
#
# terp_hardened lists the flags that are in effect, for their test
# (Checks.cmake); terp_hardening_cuda has the flags for host code in CUDA
# sources.

set(terp_hardened)
set(terp_hardening_cuda)

# Sanitizers check more, and do not see into libc's checked functions.
if(NOT TERP_HARDENING OR TERP_SANITIZE OR TERP_FUZZ OR WIN32)
  return()
endif()

include(CheckCSourceCompiles)
string(TOUPPER "${CMAKE_BUILD_TYPE}" terp_config)
string(JOIN " " terp_given ${CMAKE_C_FLAGS} ${CMAKE_C_FLAGS_${terp_config}}
  ${CMAKE_EXE_LINKER_FLAGS} ${CMAKE_SHARED_LINKER_FLAGS})
set(terp_big_frame "
#include <string.h>
void fill(char *at);
void fill(char *at) { memset(at, 1, 9000); }
int main(void) { char frame[9000]; fill(frame); return frame[8999] - 1; }")

# -Werror: some compilers only warn of flags that they ignore.
set(terp_required_flags "${CMAKE_REQUIRED_FLAGS}")
foreach(kind stack-protector-strong stack-clash-protection)
  set(CMAKE_REQUIRED_FLAGS "-Werror -f${kind}")
  string(MAKE_C_IDENTIFIER TERP_HAS_${kind} has)
  check_c_source_compiles("${terp_big_frame}" ${has})
  string(REGEX MATCH "^stack-[a-z]+" given ${kind})
  if(${has} AND NOT terp_given MATCHES "${given}")
    add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-f${kind}>)
    list(APPEND terp_hardening_cuda -f${kind})
    list(APPEND terp_hardened ${kind})
  endif()
endforeach()

# glibc's headers implement it. Some compilers define the macro themselves, and
# it needs optimization.
set(CMAKE_REQUIRED_FLAGS "-Werror -O2 -D_FORTIFY_SOURCE=2")
check_c_source_compiles("
#include <stdio.h>
#ifndef __GLIBC__
#error
#endif
int main(void) { return puts(\"\") < 0; }" TERP_HAS_fortify)
if(TERP_HAS_fortify AND NOT terp_given MATCHES "_FORTIFY_SOURCE|-O0")
  add_compile_options($<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<CONFIG:Release,RelWithDebInfo,MinSizeRel>>:-D_FORTIFY_SOURCE=2>)
  if(CMAKE_BUILD_TYPE MATCHES "^(Release|RelWithDebInfo|MinSizeRel)$")
    list(APPEND terp_hardened fortify)
  endif()
endif()
set(CMAKE_REQUIRED_FLAGS "${terp_required_flags}")

foreach(kind relro now noexecstack)
  set(CMAKE_REQUIRED_LINK_OPTIONS LINKER:-z,${kind})
  check_c_source_compiles("int main(void) { return 0; }" TERP_HAS_${kind})
  if(TERP_HAS_${kind} AND NOT terp_given MATCHES "-z[ ,]${kind}")
    add_link_options(LINKER:-z,${kind})
    list(APPEND terp_hardened ${kind})
  endif()
endforeach()
unset(CMAKE_REQUIRED_LINK_OPTIONS)
