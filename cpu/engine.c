/* The CPU engine's table of functions. cpu/CMakeLists.txt compiles this file
 * once per instruction set and gives each table its name. */
#include "cpu/engine.h"

#ifndef TERP_INSTRUCTIONS
#define TERP_INSTRUCTIONS baseline
#endif
#define PASTED(a, b) a##b
#define NAMED(a, b) PASTED(a, b)
#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

const struct terp_engine NAMED(terp_cpu_, TERP_INSTRUCTIONS) = {
    .instructions = TEXT(TERP_INSTRUCTIONS),
    .open = terp_cpu_open,
    .close = terp_cpu_close,
    .allocate = terp_cpu_allocate,
    .release = terp_cpu_release,
    .copy = terp_cpu_copy,
    .begin = terp_cpu_begin,
    .encode = terp_cpu_encode,
    .end = terp_cpu_end,
    .encode_speed = terp_cpu_speed_encode,
    .peek = terp_cpu_peek,
    .decode = terp_cpu_decode,
    .inspect = terp_cpu_inspect,
    .encode_changed = terp_cpu_encode_changed,
    .measure = terp_cpu_measure,
    .compare = terp_cpu_compare,
    .split = terp_cpu_split,
    .join = terp_cpu_join,
    .gather = terp_cpu_gather,
    .leave_out = terp_cpu_copies_leave_out,
    .put_back = terp_cpu_copies_put_back,
    .search = terp_cpu_references_search,
    .differ = terp_cpu_references_differ,
    .forget = terp_cpu_references_forget,
    .follow = terp_cpu_references_follow,
    .sample = terp_cpu_ranks_sample,
    .rank = terp_cpu_ranks_find,
    .sample_grid = terp_cpu_grid_sample,
    .number = terp_cpu_grid_number,
    .unrank = terp_cpu_ranks_follow,
    .sample_rows = terp_cpu_columns_sample,
    .take_apart = terp_cpu_columns_take_apart,
    .put_together = terp_cpu_columns_put_together,
    .assemble = terp_cpu_assemble};
