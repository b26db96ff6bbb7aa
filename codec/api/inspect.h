/* What the tools tell of streams beyond terp.h. */
#pragma once

/* The distribution of dictionary entry `entry`, "cauchy", "laplace" or
 * "gaussian", and in *place_ret its place among those; NULL if this version
 * has no such entry. */
const char *
terp_entry_family(int entry, int *place_ret);
