/* A plain stream that is decoded. */
#pragma once

#include "cpu/body.h"
#include "cpu/sections/escapes.h"
#include "cpu/sections/low_bits.h"
#include "cpu/sections/remainders.h"
#include "cpu/sections/shifts.h"
#include "cpu/sections/tails.h"

/* The sections before the tiles. */
struct cpu_decoder_sections {
    struct reader specials; /* whose values are placed last */
    struct cpu_tails_section tails;
    struct cpu_shifts_section shifts;
    struct cpu_remainders_section remainders;
    struct cpu_escape_section escapes;
    struct cpu_low_bits_section low_bits;
};

/* What is left out. Once the sections are read, layout, model, mask and signs
 * are those of the lattice that is left, and these are of all. */
struct cpu_decoder_whole {
    struct terp_layout layout;
    uint64_t *mask;
    uint64_t nsymbols; /* of the tiles, wanted or not */
};

struct cpu_decoder {
    struct cpu_body body;
    const struct terp_coarse *coarse; /* NULL: all values are wanted */
    struct terp_integer_limits limits;
    struct reader reader;
    const uint8_t *constant_at;
    struct cpu_decoder_sections sections;
    struct cpu_decoder_whole whole;
    void *dst;
    void *values; /* what carries those of `dst` */
};

struct cpu_decoder *
terp_cpu_decoder_make(const struct terp_frame *frame, const uint8_t *body,
                      uint64_t body_nbytes, struct cpu_pool *pool);

void
terp_cpu_decoder_free(struct cpu_decoder *dec);

/* What stands behind the frame. */
enum terp_status
terp_cpu_decoder_read_head(struct cpu_decoder *dec);

/* What stands before the tiles. Specials and signs are decoded unless NULL is
 * given for them; all others tell what they say of themselves. */
enum terp_status
terp_cpu_decoder_pass_sections(struct cpu_decoder *dec, uint64_t **mask_ret,
                               uint64_t **signs_ret);

/* Has the symbols in the predictor's order, and what is not in symbols where
 * the predictor looks for it. */
enum terp_status
terp_cpu_decoder_read(struct cpu_decoder *dec);
