/* Empty definitions of the functions that instrumented code calls, for a
 * program that is linked neither to a fuzzing engine nor to a sanitizer. Their
 * parameters do not matter. */
#include <stdint.h>

#define NOTHING(name)                      \
    __attribute__((weak)) void name(void); \
    __attribute__((weak)) void name(void)  \
    {                                      \
    }

extern __attribute__((weak)) _Thread_local uintptr_t __sancov_lowest_stack;
__attribute__((weak)) _Thread_local uintptr_t __sancov_lowest_stack;

NOTHING(__sanitizer_cov_8bit_counters_init)
NOTHING(__sanitizer_cov_pcs_init)
NOTHING(__sanitizer_cov_trace_pc_indir)
NOTHING(__sanitizer_cov_trace_cmp1)
NOTHING(__sanitizer_cov_trace_cmp2)
NOTHING(__sanitizer_cov_trace_cmp4)
NOTHING(__sanitizer_cov_trace_cmp8)
NOTHING(__sanitizer_cov_trace_const_cmp1)
NOTHING(__sanitizer_cov_trace_const_cmp2)
NOTHING(__sanitizer_cov_trace_const_cmp4)
NOTHING(__sanitizer_cov_trace_const_cmp8)
NOTHING(__sanitizer_cov_trace_switch)
NOTHING(__sanitizer_cov_trace_div4)
NOTHING(__sanitizer_cov_trace_div8)
NOTHING(__sanitizer_cov_trace_gep)
