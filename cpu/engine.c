/* The CPU engine as its users see it: a table for each instruction set, named
 * by cpu/CMakeLists.txt. */
#include "cpu/pipeline.h"

#ifndef TERP_INSTRUCTIONS
#define TERP_INSTRUCTIONS baseline
#endif
#define PASTED(a, b) a##b
#define NAMED(a, b) PASTED(a, b)
#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

const struct terp_cpu_engine NAMED(terp_cpu_, TERP_INSTRUCTIONS) = {
    .instructions = TEXT(TERP_INSTRUCTIONS),
    .encode = terp_cpu_encode,
    .decode = terp_cpu_decode,
    .inspect = terp_cpu_inspect,
    .measure = terp_cpu_measure,
    .encode_changed = terp_cpu_encode_changed};
