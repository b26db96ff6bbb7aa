/* Facts about streams for the tools, beyond terp.h. */
#pragma once

#include "codec/api/terp.h"
#include "codec/format/frame.h"
#include "codec/model/fills.h"

/* The distribution of a dictionary entry: "cauchy", "laplace" or "gaussian";
 * *place_ret is the entry's number within it. Returns NULL if this version does
 * not have the entry. */
const char *
terp_entry_family(int entry, int *place_ret);

/* As terp_inspect; also tells the usual fill values (codec/model/fills.h) among
 * the stream's special values. */
enum terp_status
terp_inspect_fills(const void *src, uint64_t src_nbytes,
                   struct terp_info *info_ret,
                   struct terp_usual_fills *fills_ret);

/* As terp_inspect, for a stream that was decoded and whose frame was read: the
 * checksum is not verified again. */
enum terp_status
terp_inspect_decoded(const struct terp_read_frame *frame, const void *src,
                     uint64_t src_nbytes, struct terp_info *info_ret);
