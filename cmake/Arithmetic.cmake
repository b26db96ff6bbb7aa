# Same bytes everywhere: every operation is rounded as IEEE 754 says, in its
# own type and order. What would change that is refused here.

foreach(flags "${CMAKE_C_FLAGS}" "$ENV{CFLAGS}"
        "${CMAKE_C_FLAGS_${CMAKE_BUILD_TYPE}}"
        "${CMAKE_CUDA_FLAGS}" "$ENV{CUDAFLAGS}")
  if(flags MATCHES
     "fast.math|-Ofast|-funsafe-math|-fassociative-math|-ftz|-prec-|-fmad")
    message(FATAL_ERROR "terp's streams need exact arithmetic, so these "
                        "flags cannot be used: ${flags}")
  endif()
endforeach()

# No fused multiply-add, also where the target has one (arm64, -march=...).
add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-ffp-contract=off>
                    $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false>
                    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-ffp-contract=off>)

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
