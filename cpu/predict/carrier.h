/* The loops between a chunk's parts and the floats that carry them
 * (codec/model/carrier.h), shared out among threads. */
#pragma once

#include "codec/model/carrier.h"
#include "cpu/pool/pool.h"

/* The parts of a chunk, in the host's byte order. */
struct cpu_parts {
    struct cpu_pool *pool;
    enum terp_type type; /* of a part */
    uint64_t nparts;
    int nfills;
    uint64_t fill[2]; /* the bits of parts that are not looked at */
};

/* What integers have in common. Those of 16-bit floats are int16 in the order
 * of the values, and NaN and infinities count no more than fill values. */
void
terp_cpu_integers_measure(const struct cpu_parts *parts, const void *src,
                          struct terp_integers *integers_ret);

/* To values of the carrier, NaN for what does not count, and back within
 * limits. */
void
terp_cpu_integers_code(const struct cpu_parts *parts, const void *src,
                       const struct terp_carrier_head *head, void *coded);
void
terp_cpu_integers_decode(const struct cpu_parts *parts,
                         const struct terp_carrier_head *head,
                         const struct terp_integer_limits *limits,
                         const void *coded, void *dst);

/* 16-bit floats to float32, NaN for what is no number, or with `normal_only` no
 * normal one; and back, rounded. */
void
terp_cpu_halves_code(const struct cpu_parts *parts, const void *src,
                     bool normal_only, void *coded);
void
terp_cpu_halves_decode(const struct cpu_parts *parts, const void *coded,
                       void *dst);

/* Complex values to their parts, the real ones first, and back. */
void
terp_cpu_parts_split(const struct cpu_parts *parts, const void *values,
                     void *dst);
void
terp_cpu_parts_join(const struct cpu_parts *parts, const void *src,
                    void *values);
