/* The state of a plain stream while it is decoded. */
#pragma once

#include "cpu/body.h"
#include "cpu/sections/escapes.h"
#include "cpu/sections/low_bits.h"
#include "cpu/sections/remainders.h"
#include "cpu/sections/shifts.h"
#include "cpu/sections/tails.h"

/* The sections before the tiles. */
struct cpu_decoder_sections {
    struct reader specials; /* the special values, which are placed last */
    struct cpu_tails_section tails;
    struct cpu_shifts_section shifts;
    struct cpu_remainders_section remainders;
    struct cpu_escape_section escapes;
    struct cpu_low_bits_section low_bits;
};

/* The whole chunk in a coarse decode. After the sections are read, the body's
 * layout, model, mask and signs are those of the lattice. */
struct cpu_decoder_whole {
    struct terp_layout layout;
    uint64_t *mask;
    uint64_t nsymbols; /* of all tiles */
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
    void *values; /* the carrying values of `dst` */
};

struct cpu_decoder *
terp_cpu_decoder_make(const struct terp_frame *frame, const uint8_t *body,
                      uint64_t body_nbytes, struct cpu_pool *pool);

void
terp_cpu_decoder_free(struct cpu_decoder *dec);

/* Reads the heads after the frame: carrier, bound and model. */
enum terp_status
terp_cpu_decoder_read_head(struct cpu_decoder *dec);

/* Reads all sections before the tiles. Specials and signs are decoded unless
 * their argument is NULL; of all other sections only the head is read. */
enum terp_status
terp_cpu_decoder_pass_sections(struct cpu_decoder *dec, uint64_t **mask_ret,
                               uint64_t **signs_ret);

/* Reads symbols into the predictor's order, and places all other sections where
 * the predictor reads them. */
enum terp_status
terp_cpu_decoder_read(struct cpu_decoder *dec);
