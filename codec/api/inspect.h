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

/* What a stream tells beside struct terp_info. */
struct terp_stream_facts {
    /* The usual fill values (codec/model/fills.h) among its special values. */
    struct terp_usual_fills fills;
    /* The codings of the stream and of all inner streams: the bit 1u << C for
     * the coding C (enum terp_coding). */
    unsigned codings;
};

/* As terp_inspect; also sets the facts. */
enum terp_status
terp_inspect_facts(const void *src, uint64_t src_nbytes,
                   struct terp_info *info_ret,
                   struct terp_stream_facts *facts_ret);

/* As terp_inspect, for a stream that was decoded and whose frame was read: the
 * checksum is not verified again. */
enum terp_status
terp_inspect_decoded(const struct terp_read_frame *frame, const void *src,
                     uint64_t src_nbytes, struct terp_info *info_ret);
