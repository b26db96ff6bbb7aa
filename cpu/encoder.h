/* The state of a chunk while it is encoded: its source, the facts of its
 * survey, and the attempt at its stream. */
#pragma once

#include "codec/model/exact.h"
#include "cpu/body.h"
#include "cpu/entropy/tiles.h"

/* The chunk and its bound. */
struct cpu_encoder_source {
    const struct terp_params *params; /* after the survey: with an absolute
                                       * bound */
    struct terp_params given;         /* the caller's, with the bound of this
                                       * chunk */
    struct terp_params coded;         /* if they differ from the caller's */
    void *swapped;     /* byte-swapped values; NULL if they have the host's byte
                        * order */
    const void *parts; /* in the host's byte order */
    struct terp_limits limits; /* of the coded values, if `is_limited` */
    bool is_limited;
    bool is_part;     /* the stream will be a part of another stream */
    bool has_markers; /* terp_source.has_markers */
    bool wants_more;
};

/* Facts about the values. */
struct cpu_encoder_survey {
    struct cpu_fills fills;
    struct cpu_stats stats;        /* of coded values */
    struct terp_bound_range range; /* of valid values */
    double constant;               /* if the chunk is constant */
    double step;
    unsigned escape_nbytes; /* expected size of an escaped value */
    bool may_be_wide;       /* codes may be too wide for symbols */
    struct terp_exact exact;
};

/* An attempt at a stream. */
struct cpu_encoder_attempt {
    enum terp_predictor predictor;
    struct terp_code_widths widths;
    struct writer writer;
    bool may_have_prefixes;
    struct cpu_tiles_prefixes found;
    int prefixed_nbytes; /* of a frame with its table of prefixes; 0: no
                          * table */
    uint32_t prefix_nbytes[TERP_NPREFIXES];
};

struct cpu_encoder {
    struct cpu_body body;
    struct cpu_encoder_source source;
    struct cpu_encoder_survey survey;
    struct cpu_encoder_attempt attempt;
    struct terp_facts facts;
};

/* Makes an encoder of chunk i of a source. After an error,
 * terp_cpu_encoder_free releases what *enc_ret holds. */
enum terp_status
terp_cpu_encoder_make(const struct terp_source *source, uint64_t i,
                      const struct terp_chunk *domain, struct cpu_pool *pool,
                      struct cpu_encoder **enc_ret);

void
terp_cpu_encoder_free(struct cpu_encoder *enc);

/* ---- the survey ---- */

/* Brings the values into the host's byte order. */
enum terp_status
terp_cpu_survey_swap(struct cpu_encoder *enc);

/* Finds special values, and the range of all other values. */
void
terp_cpu_survey_range(struct cpu_encoder *enc);

/* The absolute bound of the coded values. */
double
terp_cpu_survey_bound(struct cpu_encoder *enc);

/* Finds the facts that attempts and codec/compose need. TERP_ERR_CAPACITY: the
 * chunk cannot be coded. */
enum terp_status
terp_cpu_survey(struct cpu_encoder *enc);

/* ---- attempts ---- */

/* Writes the stream of a trial to `dst`, in less than `cap_nbytes`, which hold
 * at least a frame. TERP_ERR_CAPACITY: the stream is larger. */
enum terp_status
terp_cpu_attempt(struct cpu_encoder *enc, const struct terp_trial *trial,
                 uint8_t *dst, uint64_t cap_nbytes, uint64_t *nbytes_ret);

/* Like terp_cpu_attempt, but with the steps and predictions of an earlier
 * stream. */
enum terp_status
terp_cpu_attempt_as_before(struct cpu_encoder *enc, uint8_t *dst,
                           uint64_t cap_nbytes, uint64_t *nbytes_ret);
