/* Loops between a chunk's values and the floats that carry them
 * (codec/model/carrier.h), shared out among threads. */
#pragma once

#include "codec/model/carrier.h"
#include "cpu/pool/pool.h"

/* A chunk's values, or the parts of its complex values, in the host's byte
 * order. */
struct cpu_parts {
    struct cpu_pool *pool;
    enum terp_type type; /* of one value or part */
    uint64_t nparts;
    int nfills;
    uint64_t fill[2]; /* fill values, by their bits */
};

/* Finds the range and the common divisor of integers, without fill values. The
 * integers of 16-bit floats are int16 in the order of the floats; NaN and
 * infinities do not count. */
void
terp_cpu_integers_measure(const struct cpu_parts *parts, const void *src,
                          struct terp_integers *integers_ret);

/* Converts integers to floats (fill values, NaN and infinities become NaN), and
 * floats to integers within `limits`. */
void
terp_cpu_integers_code(const struct cpu_parts *parts, const void *src,
                       const struct terp_carrier_head *head, void *coded);
void
terp_cpu_integers_decode(const struct cpu_parts *parts,
                         const struct terp_carrier_head *head,
                         const struct terp_integer_limits *limits,
                         const void *coded, void *dst);

/* Converts 16-bit floats to float32, and float32 to 16-bit floats with
 * rounding. In float32, NaN stands for NaN and infinities; with `normal_only`
 * also for zeros and subnormal numbers. */
void
terp_cpu_halves_code(const struct cpu_parts *parts, const void *src,
                     bool normal_only, void *coded);
void
terp_cpu_halves_decode(const struct cpu_parts *parts, const void *coded,
                       void *dst);

/* Separates complex values into all real parts and all imaginary parts, and
 * joins the parts. */
void
terp_cpu_parts_split(const struct cpu_parts *parts, const void *values,
                     void *dst);
void
terp_cpu_parts_join(const struct cpu_parts *parts, const void *src,
                    void *values);
