/* Encodes the parts of streams of ranks and of grids. */
#include "codec/compose/ranks.h"

#include <stdlib.h>

#include "codec/compose/pieces.h"
#include "codec/compose/references.h"
#include "codec/compose/trials.h"
#include "codec/format/ranks.h"
#include "codec/model/grid.h"
#include "codec/model/ranks.h"

/* ---- a part ---- */

/* A part, and the smallest of its streams. */
struct part {
    const struct terp_coder *coder;
    struct terp_chunk chunk;
    const void *values;
    uint8_t *stream;
    uint64_t nbytes; /* 0: none is smaller than the part stored */
};

/* Tries references. Ranks repeat where values repeat. Copies are not tried,
 * because a chunk with copies has a stream of copies already. */
static enum terp_status
encode_repeats(const struct part *part, const struct terp_batch *batch,
               const struct terp_facts *facts)
{
    const struct terp_reference_bound bound = {.bound = 0};
    uint64_t saved_nbits;

    return facts->may_repeat && facts->copied == 0
               ? terp_references_encode(part->coder, batch, 0, bound,
                                        &saved_nbits)
               : TERP_OK;
}

/* Copies the stream in `buffer` to memory of its own size. */
static enum terp_status
keep(struct part *part, const void *buffer, uint64_t nbytes)
{
    const struct terp_coder *coder = part->coder;

    terp_coder_release(coder, part->stream);
    part->stream = terp_coder_allocate(coder, nbytes);
    part->nbytes = nbytes;
    return part->stream == NULL
               ? TERP_ERR_MEMORY
               : terp_coder_copy(coder, part->stream, buffer, nbytes);
}

/* Encodes a part, and keeps its stream if it is smaller. `trial` is the only
 * attempt; NULL: all attempts that are worth it, and references. */
static enum terp_status
encode_part(struct part *part, const struct terp_params *params,
            const struct terp_trial *trial)
{
    const struct terp_coder *coder = part->coder;
    void *buffer = terp_coder_allocate(coder, terp_encode_bound(&part->chunk));
    uint64_t nbytes = 0;
    const struct terp_batch batch = {{.chunk = &part->chunk,
                                      .params = params,
                                      .is_part = true,
                                      .wants_more = trial == NULL,
                                      .n = 1,
                                      .src = &part->values},
                                     &buffer,
                                     &nbytes};
    struct terp_facts facts = {.may_repeat = false};
    enum terp_status st = buffer == NULL ? TERP_ERR_MEMORY
                          : trial == NULL
                              ? terp_trials_encode(coder, &batch, &facts)
                              : terp_trial_encode(coder, &batch, trial);

    if (st == TERP_OK)
        st = encode_repeats(part, &batch, &facts);
    if (st == TERP_OK && nbytes != 0 &&
        (part->nbytes == 0 || nbytes < part->nbytes))
        st = keep(part, buffer, nbytes);
    terp_coder_release(coder, buffer);
    return st;
}

/* Encodes ranks as lines. Long stretches of one rank fill more tiles with zeros
 * where tiles are stretches of lines. */
static enum terp_status
encode_lines(struct part *part, const struct terp_params *params)
{
    const struct terp_trial trial = {
        terp_domain_split(&part->chunk, part->chunk.rank - 1),
        TERP_PREDICTOR_LORENZO, params->pipeline};

    return part->chunk.stack || part->chunk.rank == 1 ||
                   !terp_ranks_try_lines(terp_chunk_nvalues(&part->chunk),
                                         part->nbytes)
               ? TERP_OK
               : encode_part(part, params, &trial);
}

/* Encodes ranks with both predictors. Ranks are less smooth than values, and an
 * estimate of the better predictor is often wrong. */
static enum terp_status
encode_ranks(struct part *part, const struct terp_params *params)
{
    static const enum terp_predictor predictors[] = {TERP_PREDICTOR_SPLINE,
                                                     TERP_PREDICTOR_LORENZO};
    struct terp_params own = *params;
    enum terp_status st = TERP_OK;

    if (params->effort == TERP_EFFORT_BEST)
        return encode_part(part, params, NULL);
    for (size_t i = 0;
         st == TERP_OK && i < sizeof predictors / sizeof *predictors; i++) {
        own.predictor = predictors[i];
        st = encode_part(part, &own, NULL);
    }
    return st == TERP_OK ? encode_lines(part, &own) : st;
}

/* ---- a chunk ---- */

static struct terp_coded_part
coded_part(const struct part *part)
{
    const struct terp_coded_part coded = {
        part->nbytes > 0 ? part->stream : part->values, part->nbytes};
    return coded;
}

static uint64_t
coded_nbytes(const struct part *part)
{
    return part->nbytes > 0 ? part->nbytes : terp_chunk_nbytes(&part->chunk);
}

/* Writes the stream of ranks if it is smaller than the chunk's other streams by
 * the required fraction. */
static enum terp_status
write_stream(const struct terp_coder *coder, const struct terp_batch *batch,
             uint64_t i, const struct terp_found_ranks *found,
             const struct part *parts)
{
    const bool has_grid = found->grid.number_nbytes > 0;
    const struct terp_frame frame = {.chunk = *batch->source.chunk,
                                     .coding = has_grid ? TERP_CODING_GRID
                                                        : TERP_CODING_RANKS,
                                     .version = TERP_FORMAT_VERSION};
    struct terp_pieces pieces;

    terp_pieces_begin(&pieces);
    terp_pieces_add_frame(&pieces, &frame);
    write_uleb(&pieces.writer, found->ntable);
    if (has_grid)
        terp_grid_write(&pieces.writer, &found->grid);
    for (int k = 0; k < TERP_RANKS_NPARTS; k++)
        terp_pieces_add_part(&pieces, &parts[k].chunk, coded_part(&parts[k]),
                             k == TERP_RANKS_RANKS);
    if (terp_pieces_end(&pieces) * TERP_RANKS_WORTH_DENOMINATOR >=
        terp_least_nbytes(batch, i) * TERP_RANKS_WORTH_NUMERATOR)
        return TERP_OK;
    batch->nbytes[i] = pieces.nbytes;
    pieces.dst = batch->dst[i];
    return terp_pieces_write(coder, 1, &pieces);
}

static enum terp_status
encode_parts(const struct terp_coder *coder, const struct terp_batch *batch,
             uint64_t i, struct terp_facts *facts,
             struct terp_found_ranks *found)
{
    void **const values[] = {&found->table, &found->ranks};
    struct terp_params params = terp_params_under(batch->source.params, 0);
    struct part parts[TERP_RANKS_NPARTS] = {{.coder = coder}, {.coder = coder}};
    enum terp_status st = TERP_OK;

    params.predictor = TERP_PREDICTOR_AUTO;
    params.has_fill = params.has_missing = false;
    for (int k = 0; st == TERP_OK && k < TERP_RANKS_NPARTS; k++) {
        parts[k].chunk = terp_ranks_chunk(
            batch->source.chunk, (enum terp_ranks_part)k, found->ntable,
            found->grid.number_nbytes > 0 ? found->grid.number_nbytes
                                          : terp_rank_nbytes(found->ntable));
        parts[k].values = *values[k];
        st = k == TERP_RANKS_TABLE ? encode_part(&parts[k], &params, NULL)
                                   : encode_ranks(&parts[k], &params);
        if (parts[k].nbytes > 0) { /* the values are no longer needed */
            terp_coder_release(coder, *values[k]);
            *values[k] = NULL;
        }
    }
    const uint64_t before = batch->nbytes[i];
    if (st == TERP_OK)
        st = write_stream(coder, batch, i, found, parts);
    if (st == TERP_OK && batch->nbytes[i] != before) {
        facts->ranks_ntable = found->ntable;
        facts->ranks_table_nbytes = coded_nbytes(&parts[TERP_RANKS_TABLE]);
    }
    for (int k = 0; k < TERP_RANKS_NPARTS; k++)
        terp_coder_release(coder, parts[k].stream);
    return st;
}

/* Whether a grid may take less than the ranks that are kept, if any. */
static bool
may_beat_ranks(const struct terp_batch *batch, uint64_t i,
               const struct terp_facts *facts,
               const struct terp_found_ranks *found)
{
    return facts->ranks_ntable == 0 ||
           terp_grid_may_beat_ranks(
               &found->grid, found->nnumbers, facts->ranks_ntable,
               facts->ranks_table_nbytes, terp_least_nbytes(batch, i));
}

/* Encodes a chunk by ranks; or, where `grid` is not NULL, by numbers on the
 * grid of this step. */
static enum terp_status
encode_chunk(const struct terp_coder *coder, const struct terp_batch *batch,
             uint64_t i, struct terp_facts *facts, const struct terp_grid *grid)
{
    const struct terp_chunk *chunk = batch->source.chunk;
    const void *src = batch->source.src[i];
    struct terp_found_ranks found = {0};
    enum terp_status st;

    if (grid == NULL) {
        st = coder->engine->rank(coder->session, chunk, src, &found);
    } else {
        found.grid = *grid;
        st = coder->engine->number(coder->session, chunk, src, &found);
    }
    if (st == TERP_OK && found.ntable > 0 &&
        (grid == NULL || may_beat_ranks(batch, i, facts, &found)))
        st = encode_parts(coder, batch, i, facts, &found);
    terp_coder_release(coder, found.table);
    terp_coder_release(coder, found.ranks);
    return st;
}

/* ---- chunks ---- */

/* Sampled chunks. */
struct samples {
    const void **src;
    uint64_t *keys, *scratch;
    bool *maybe;
};

/* The most keys of samples in host memory at a time. */
#define MAX_NKEYS (UINT64_C(1) << 21)

/* Whether the keys of a chunk's sample suggest a trial for chunk i of the
 * batch.
 */
typedef bool
sample_test(const struct terp_batch *batch, uint64_t i,
            const struct terp_facts *facts, uint64_t *keys, uint64_t *scratch);

static bool
are_few(const struct terp_batch *batch, uint64_t i,
        const struct terp_facts *facts, uint64_t *keys, uint64_t *scratch)
{
    const struct terp_chunk *chunk = batch->source.chunk;

    (void)i;
    (void)facts;
    return terp_ranks_are_few(chunk->type, terp_chunk_nvalues(chunk), keys,
                              scratch);
}

static bool
are_far(const struct terp_batch *batch, uint64_t i,
        const struct terp_facts *facts, uint64_t *keys, uint64_t *scratch)
{
    const struct terp_chunk *chunk = batch->source.chunk;

    return terp_ranks_are_far(
        chunk->type, terp_chunk_nvalues(chunk), facts[i].bound,
        batch->source.params->bound_mode == TERP_BOUND_POINTWISE, keys,
        scratch);
}

/* Moves those of the chunks at[0] to at[n - 1] whose samples suggest a trial to
 * the front, and adds their number to *nfound. */
static enum terp_status
test_samples(const struct terp_coder *coder, const struct terp_batch *batch,
             const struct terp_facts *facts, sample_test *test, uint64_t n,
             const uint64_t *at, const struct samples *samples,
             uint64_t *found_ret, uint64_t *nfound)
{
    const struct terp_chunk *chunk = batch->source.chunk;
    const uint64_t nsamples = terp_ranks_nsamples(terp_chunk_nvalues(chunk));

    for (uint64_t k = 0; k < n; k++)
        samples->src[k] = batch->source.src[at[k]];
    const enum terp_status st = coder->engine->sample(
        coder->session, chunk, n, samples->src, samples->keys, samples->maybe);
    for (uint64_t k = 0; st == TERP_OK && k < n; k++)
        if (samples->maybe[k] &&
            test(batch, at[k], facts, samples->keys + k * nsamples,
                 samples->scratch))
            found_ret[(*nfound)++] = at[k];
    return st;
}

/* Removes chunks from the list whose samples do not suggest a trial. A device
 * leaves the other chunks to the CPU and empties the list. */
static enum terp_status
choose(const struct terp_coder *coder, const struct terp_batch *batch,
       const struct terp_facts *facts, sample_test *test, uint64_t *n,
       uint64_t *at)
{
    const uint64_t nsamples =
        terp_ranks_nsamples(terp_chunk_nvalues(batch->source.chunk));
    const uint64_t most = min_u64(*n, MAX_NKEYS / nsamples);
    struct samples samples;
    enum terp_status st = TERP_OK;
    uint64_t nfound = 0;

    if (*n == 0)
        return TERP_OK;
    const uint64_t scratch_nwords = terp_ranks_scratch_nwords(nsamples);
    samples.scratch =
        malloc((scratch_nwords + most * nsamples) * sizeof *samples.scratch +
               most * (sizeof *samples.src + sizeof(bool)));
    if (samples.scratch == NULL)
        return TERP_ERR_MEMORY;
    samples.keys = samples.scratch + scratch_nwords;
    samples.src = (const void **)(samples.keys + most * nsamples);
    samples.maybe = (bool *)(samples.src + most);
    for (uint64_t k = 0; st == TERP_OK && k < *n; k += most)
        st = test_samples(coder, batch, facts, test, min_u64(most, *n - k),
                          at + k, &samples, at, &nfound);
    free(samples.scratch);
    for (uint64_t k = 0; coder->engine->is_device && k < nfound; k++)
        batch->nbytes[at[k]] = TERP_LEFT_NBYTES;
    *n = coder->engine->is_device ? 0 : nfound;
    return st;
}

enum terp_status
terp_ranks_choose(const struct terp_coder *coder,
                  const struct terp_batch *batch,
                  const struct terp_facts *facts, uint64_t *n, uint64_t *at)
{
    return choose(coder, batch, facts, are_far, n, at);
}

enum terp_status
terp_ranks_encode(const struct terp_coder *coder,
                  const struct terp_batch *batch, struct terp_facts *facts,
                  uint64_t n, uint64_t *at)
{
    enum terp_status st = choose(coder, batch, NULL, are_few, &n, at);

    for (uint64_t k = 0; st == TERP_OK && k < n; k++)
        st = encode_chunk(coder, batch, at[k], &facts[at[k]], NULL);
    return st;
}

static enum terp_status
encode_sampled(const struct terp_coder *coder, const struct terp_batch *batch,
               struct terp_facts *facts, uint64_t n, const uint64_t *at,
               uint64_t *keys)
{
    const struct terp_chunk *chunk = batch->source.chunk;
    const void **src = (const void **)(keys + n * TERP_GRID_NSAMPLES);

    for (uint64_t k = 0; k < n; k++)
        src[k] = batch->source.src[at[k]];
    enum terp_status st =
        coder->engine->sample_grid(coder->session, chunk, n, src, keys);
    for (uint64_t k = 0; st == TERP_OK && k < n; k++) {
        struct terp_grid grid;
        terp_grid_find(chunk->type, keys + k * TERP_GRID_NSAMPLES, &grid);
        if (grid.mantissa == 0)
            continue;
        if (coder->engine->is_device)
            batch->nbytes[at[k]] = TERP_LEFT_NBYTES;
        else
            st = encode_chunk(coder, batch, at[k], &facts[at[k]], &grid);
    }
    return st;
}

enum terp_status
terp_grids_encode(const struct terp_coder *coder,
                  const struct terp_batch *batch, struct terp_facts *facts,
                  uint64_t n, const uint64_t *at)
{
    const uint64_t most = min_u64(n, MAX_NKEYS / TERP_GRID_NSAMPLES);
    enum terp_status st = TERP_OK;

    if (n == 0)
        return TERP_OK;
    uint64_t *keys =
        malloc(most * (TERP_GRID_NSAMPLES * sizeof *keys + sizeof(void *)));
    if (keys == NULL)
        return TERP_ERR_MEMORY;
    for (uint64_t k = 0; st == TERP_OK && k < n; k += most)
        st = encode_sampled(coder, batch, facts, min_u64(most, n - k), at + k,
                            keys);
    free(keys);
    return st;
}
