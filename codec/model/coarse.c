/* Finds the lattice of a domain that holds the wanted values of a chunk. */
#include "codec/model/coarse.h"

#include "codec/format/limits.h"

struct terp_chunk
terp_coarse_chunk_of(const struct terp_chunk *chunk, uint64_t step)
{
    struct terp_chunk coarse = *chunk;

    for (int i = 0; i < chunk->rank; i++)
        coarse.dims[i] = div_up(chunk->dims[i], step);
    return coarse;
}

/* Whether the fastest dims of the chunk are those of the domain's bricks. Only
 * then is a lattice of the domain a lattice of the chunk. A chunk of one
 * dimension may have another domain. */
static bool
bricks_are_aligned(const struct terp_chunk *chunk,
                   const struct terp_chunk *domain)
{
    const int rank = domain->rank - domain->stack;

    for (int i = 1; i <= rank; i++)
        if (i > chunk->rank - chunk->stack ||
            chunk->dims[chunk->rank - i] != domain->dims[domain->rank - i])
            return false;
    return true;
}

static int
log2_of(uint64_t step)
{
    int log2 = 0;

    while (step >> log2 > 1)
        log2++;
    return log2;
}

/* The number of levels that need not be decoded: 0 for raster predictions and
 * for stored values. A constant chunk has no levels, but any lattice. */
static int
count_skipped(const struct terp_frame *frame, uint64_t step)
{
    const struct terp_chunk *domain = &frame->domain;
    const int wanted = log2_of(step);
    uint64_t largest = 1;
    int nlevels = 0;

    if (frame->coding == TERP_CODING_RAW ||
        frame->coding == TERP_CODING_SPEED ||
        frame->coding == TERP_CODING_COPIES ||
        frame->coding == TERP_CODING_REFERENCES ||
        frame->coding == TERP_CODING_COLUMNS ||
        terp_prediction_is_raster(frame->prediction) ||
        !bricks_are_aligned(&frame->chunk, domain))
        return 0;
    for (int i = domain->stack; i < domain->rank; i++)
        largest = largest < domain->dims[i] ? domain->dims[i] : largest;
    while ((uint64_t)1 << nlevels < largest)
        nlevels++;
    return wanted < nlevels ? wanted : nlevels;
}

void
terp_coarse_make(const struct terp_frame *frame, uint64_t step,
                 struct terp_coarse *coarse_ret)
{
    const struct terp_chunk *chunk = &frame->chunk;
    const int nskipped = count_skipped(frame, step);
    struct terp_coarse coarse = {.nskipped = nskipped,
                                 .domain = frame->domain,
                                 .nvalues = 1,
                                 .rank = chunk->rank,
                                 .is_all = true};
    /* The number of the chunk's dims that count bricks of the domain. */
    const int nslow =
        nskipped == 0
            ? 0
            : chunk->rank - (frame->domain.rank - frame->domain.stack);

    for (int i = coarse.domain.stack; i < coarse.domain.rank; i++)
        coarse.domain.dims[i] =
            div_up(coarse.domain.dims[i], (uint64_t)1 << nskipped);
    for (int i = 0; i < chunk->rank; i++) {
        const int skipped_here = i < nslow ? 0 : nskipped;
        coarse.dims[i] = div_up(chunk->dims[i], (uint64_t)1 << skipped_here);
        coarse.stride[i] = step >> skipped_here;
        coarse.count[i] = div_up(chunk->dims[i], step);
        coarse.nvalues *= coarse.dims[i];
        coarse.is_all &= coarse.count[i] == coarse.dims[i];
    }
    *coarse_ret = coarse;
}

/* A table of prefixes stores a length in 32 bits; no stream is much longer than
 * its chunk. */
bool
terp_may_have_prefixes(const struct terp_frame *frame)
{
    struct terp_coarse coarse, whole;

    if (frame->prediction != TERP_PREDICTION_SPLINE ||
        terp_chunk_nbytes(&frame->chunk) >> 31 != 0)
        return false;
    terp_coarse_make(frame, 1, &whole);
    terp_coarse_make(frame, 2, &coarse);
    return whole.nvalues > TERP_TILE_NSYMBOLS && coarse.nskipped > 0;
}

uint64_t
terp_prefix_ntiles(const struct terp_frame *frame, int i)
{
    struct terp_coarse coarse;

    terp_coarse_make(frame, UINT64_C(2) << i, &coarse);
    return div_up(coarse.nvalues, TERP_TILE_NSYMBOLS);
}
