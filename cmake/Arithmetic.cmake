# Makes streams the same everywhere: every operation is rounded as IEEE 754
# says, in its own type and order. Flags that change this are refused here, in
# any configuration; codec/format/base.h refuses such flags that arrive in other
# ways.

set(terp_flags "$ENV{CFLAGS} $ENV{CXXFLAGS} $ENV{CUDAFLAGS}"
    "$ENV{NVCC_PREPEND_FLAGS} $ENV{NVCC_APPEND_FLAGS}")
get_directory_property(options COMPILE_OPTIONS)
list(APPEND terp_flags ${options})
foreach(language C CXX CUDA)
  list(APPEND terp_flags "${CMAKE_${language}_FLAGS}")
  foreach(config DEBUG RELEASE RELWITHDEBINFO MINSIZEREL ${CMAKE_BUILD_TYPE}
          ${CMAKE_CONFIGURATION_TYPES})
    string(TOUPPER ${config} config)
    list(APPEND terp_flags "${CMAKE_${language}_FLAGS_${config}}")
  endforeach()
endforeach()
string(JOIN "|" terp_inexact "-Ofast"
  "-f(fast-math|unsafe-math-optimizations|associative-math)"
  "-f(reciprocal-math|finite-math-only|no-signed-zeros)"
  "-fp-model" "-ffp-model=(fast|aggressive)" "-mdaz-ftz"
  "-use_fast_math" "-ftz" "-prec-" "-fmad")
foreach(flags ${terp_flags})
  if(flags MATCHES "${terp_inexact}")
    message(FATAL_ERROR "terp's streams need exact arithmetic, so these "
                        "flags cannot be used: ${flags}")
  endif()
endforeach()

# No fused multiply-add, even if the target has one (arm64, -march=...).
add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-ffp-contract=off>
                    $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false>
                    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-ffp-contract=off>)

# On s390x, for example, ISO C lets compilers evaluate float in double.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^s390")
  add_compile_options(-fexcess-precision=fast)
  list(APPEND CMAKE_REQUIRED_FLAGS -fexcess-precision=fast)
endif()

include(CheckCSourceCompiles)
check_c_source_compiles("
#include <float.h>
#include <limits.h>
_Static_assert(FLT_EVAL_METHOD == 0, \"no excess precision\");
_Static_assert(FLT_RADIX == 2 && FLT_MANT_DIG == 24 && DBL_MANT_DIG == 53,
               \"binary32 and binary64\");
_Static_assert(CHAR_BIT == 8, \"bytes of eight bits\");
_Static_assert(-1 >> 1 == -1, \"arithmetic shift\");
int main(void) { return 0; }
" TERP_ARITHMETIC_IS_EXACT)
if(NOT TERP_ARITHMETIC_IS_EXACT)
  message(FATAL_ERROR "This target evaluates float and double with excess "
                      "precision (x87?) or has no IEEE 754 types. On 32-bit "
                      "x86 add -msse2 -mfpmath=sse.")
endif()
