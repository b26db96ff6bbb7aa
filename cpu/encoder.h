/* A chunk that is encoded: what it is, what was found out about it, and the
 * attempt at its stream. */
#pragma once

#include "codec/model/exact.h"
#include "cpu/body.h"
#include "cpu/entropy/tiles.h"

/* The chunk and its bound. */
struct cpu_encoder_source {
    const struct terp_params *params; /* an absolute bound's, once surveyed */
    struct terp_params given;         /* under the bound of the chunk */
    struct terp_params coded;         /* where they are not the caller's */
    void *swapped; /* values in the host's byte order, where they were not */
    const void *parts;         /* in the host's byte order */
    struct terp_limits limits; /* of what is coded, where `is_limited` */
    bool is_limited;
    bool is_part; /* of another stream */
    bool wants_more;
};

/* What the values are like. */
struct cpu_encoder_survey {
    struct cpu_fills fills;
    struct cpu_stats stats;
    double constant; /* of a constant chunk */
    double step;
    unsigned escape_nbytes; /* likely, of a number */
    bool may_be_wide;       /* codes */
    struct terp_exact exact;
};

/* A stream. */
struct cpu_encoder_attempt {
    enum terp_predictor asked;
    struct terp_code_widths widths;
    struct writer writer;
    bool may_have_prefixes;
    struct cpu_tiles_prefixes found;
    int prefixed_nbytes; /* of a frame that has a table of prefixes; 0: none */
    uint32_t prefix_nbytes[TERP_NPREFIXES];
};

struct cpu_encoder {
    struct cpu_body body;
    struct cpu_encoder_source source;
    struct cpu_encoder_survey survey;
    struct cpu_encoder_attempt attempt;
    struct terp_facts facts;
};

/* Begins with chunk i of a source. Whatever is returned, free() releases the
 * rest. */
enum terp_status
terp_cpu_encoder_make(const struct terp_source *source, uint64_t i,
                      const struct terp_chunk *domain, struct cpu_pool *pool,
                      struct cpu_encoder **enc_ret);

void
terp_cpu_encoder_free(struct cpu_encoder *enc);

/* ---- the survey ---- */

/* Has the values in the host's byte order. */
enum terp_status
terp_cpu_survey_swap(struct cpu_encoder *enc);

/* Finds special values, and the range of the others. */
void
terp_cpu_survey_range(struct cpu_encoder *enc);

/* The absolute bound of the values that are coded. */
double
terp_cpu_survey_bound(struct cpu_encoder *enc);

/* Finds out all that attempts, and those who order them, need to know.
 * TERP_ERR_CAPACITY: the chunk cannot be coded. */
enum terp_status
terp_cpu_survey(struct cpu_encoder *enc);

/* ---- attempts ---- */

/* Writes the stream of a trial at `dst` in less than `cap_nbytes`, which a
 * frame fits. TERP_ERR_CAPACITY: it is larger. */
enum terp_status
terp_cpu_attempt(struct cpu_encoder *enc, const struct terp_trial *trial,
                 uint8_t *dst, uint64_t cap_nbytes, uint64_t *nbytes_ret);

/* The same by the steps and predictions of an earlier stream. */
enum terp_status
terp_cpu_attempt_as_before(struct cpu_encoder *enc, uint8_t *dst,
                           uint64_t cap_nbytes, uint64_t *nbytes_ret);
