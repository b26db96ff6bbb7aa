/* Whether a lossless stream may take less than one under a tight bound. A
 * sample tells; the decision uses plain operations of double, so all engines
 * decide alike. doc/design/06-lossless.md, "Under bounds above 0". */
#pragma once

#include "codec/model/grid.h"
#include "codec/model/repeats.h"

TERP_C_BEGIN

/* Whether chunks are sampled: floats under an absolute bound above 0. */
static inline bool
terp_tight_is_possible(const struct terp_params *params,
                       const struct terp_chunk *chunk)
{
    const uint64_t nvalues = terp_chunk_nvalues(chunk);

    return chunk->type <= TERP_FLOAT64 && nvalues >= TERP_GRID_MIN_NVALUES &&
           params->bound_mode != TERP_BOUND_POINTWISE &&
           terp_is_open_to_more(params, chunk, nvalues);
}

/* Streams under a bound that take less than this part of the chunk are not
 * weighed against lossless ones. In larger streams, steps are a few bits above
 * the last bits of most values. */
#define TERP_TIGHT_PART 4

static inline bool
terp_is_tight(const struct terp_chunk *chunk, uint64_t nbytes)
{
    return nbytes >= terp_chunk_nbytes(chunk) / TERP_TIGHT_PART;
}

/* Whether the sampled keys of a chunk of floats, TERP_GRID_NSAMPLES keys of
 * terp_grid_sampled_key, suggest a lossless trial beside a stream under an
 * absolute bound. */
bool
terp_tight_may_be_lossless(enum terp_type type, double bound,
                           const uint64_t *keys);

TERP_C_END
