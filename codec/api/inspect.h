/* What the tools tell of streams beyond terp.h. */
#pragma once

#include "codec/api/terp.h"
#include "codec/format/frame.h"

/* The distribution of dictionary entry `entry`, "cauchy", "laplace" or
 * "gaussian", and in *place_ret its place among those; NULL if this version
 * has no such entry. */
const char *
terp_entry_family(int entry, int *place_ret);

/* As terp_inspect, of a stream that was decoded, and whose frame was read. */
enum terp_status
terp_inspect_decoded(const struct terp_read_frame *frame, const void *src,
                     uint64_t src_nbytes, struct terp_info *info_ret);
