/* Chooses the dimensions along which lorenzo takes differences, by costs that
 * are estimated on samples of the original values. All costs are integers, in
 * the units of the dictionary's cost table. */
#include <stdlib.h>

#include "codec/model/cost.h"
#include "cpu/entropy/codebooks.h"
#include "cpu/predict/predictor.h"

/* Consecutive codes are counted in different counters, so that the processor
 * need not wait for the same counter twice. */
#define NLANES 4
_Static_assert(TERP_LORENZO_RUN_NVALUES == 32,
               "A run has half a word of the mask of special values.");
_Static_assert(2 * TERP_MAX_NSAMPLES / NLANES + TERP_LORENZO_NVALUES <
                   UINT16_MAX,
               "A lane counts its part of all samples.");

/* A stretch of a row, and the rows before it in every combination of the slower
 * dimensions: [2][2][2][n], the row itself first. First integers, then
 * differences along the slower dimensions. */
struct stencil {
    uint64_t n;
    uint64_t first; /* first value that counts: terp_lorenzo_first */
    uint64_t quants[8 * TERP_LORENZO_NVALUES]; /* of 32 or 64 bits each */
    uint64_t along_row[TERP_LORENZO_NVALUES];
    uint64_t special[TERP_LORENZO_NVALUES / 64]; /* of the row itself */
    uint16_t symbols[TERP_LORENZO_NVALUES];
    /* Of all stretches, by the dimensions of differences. */
    uint16_t lanes[TERP_NCLASSES][NLANES][TERP_NROWS];
    uint64_t sums[TERP_NCLASSES];      /* of the codes' magnitudes */
    uint64_t run_costs[TERP_NCLASSES]; /* of runs, each with its own best
                                        * entry */
    uint64_t nsampled;
    uint64_t nunpredictable;
    uint64_t nnear;
};

static uint8_t *
row_of(const struct cpu_prediction *lorenzo, struct stencil *stencil,
       unsigned before)
{
    return (uint8_t *)stencil->quants +
           before * stencil->n * (uint64_t)lorenzo->stages->value_nbytes;
}

/* Fills in the row that is one before `row` in the dimensions `before`. */
static void
fill_row(const struct cpu_prediction *lorenzo, uint64_t row, uint64_t x,
         unsigned before, struct stencil *stencil)
{
    const struct cpu_stages *stages = lorenzo->stages;
    const uint64_t *dims = lorenzo->layout->dims;
    const uint64_t value_nbytes = (uint64_t)stages->value_nbytes;
    uint64_t mask[TERP_LORENZO_NVALUES / 64] = {0};
    uint64_t distance = 0, stride = 1, left = row;
    uint8_t *quants = row_of(lorenzo, stencil, before);
    bool exists = true;

    for (int d = 1; d < TERP_NDIMS; d++) {
        if (before >> (d - 1) & 1) {
            distance += stride;
            exists &= left % dims[d] > 0;
        }
        left /= dims[d];
        stride *= dims[d];
    }
    if (!exists) {
        memset(quants, 0, stencil->n * value_nbytes);
        return;
    }
    const uint8_t *from = (const uint8_t *)lorenzo->values +
                          ((row - distance) * dims[0] + x) * value_nbytes;
    if (lorenzo->quantizer.has_specials)
        stages->mask(from, 0, stencil->n, lorenzo->fills, mask);
    uint64_t nunpredictable = stages->prequantize(
        from, stencil->n, &lorenzo->quantizer, mask, quants);
    if (before == 0)
        stencil->nnear += stages->count_near(from, quants, mask, stencil->first,
                                             stencil->n, &lorenzo->quantizer);
    /* The predictor repeats integers along each dimension in turn. A sample can
     * do so only along its row, as it lacks rows further away. */
    stages->repeat(quants, mask, 1, stencil->n, 1);
    if (before == 0) {
        stencil->nunpredictable += nunpredictable;
        memcpy(stencil->special, mask, sizeof mask);
    }
}

/* Replaces rows by their differences along each set of the slower dimensions
 * `active`. */
static void
fill_stencil(const struct cpu_prediction *lorenzo, uint64_t row, uint64_t x,
             unsigned active, struct stencil *stencil)
{
    for (unsigned before = 0; before <= active; before++)
        if ((before & ~active) == 0)
            fill_row(lorenzo, row, x, before, stencil);
    for (unsigned bit = 1; bit <= active; bit *= 2)
        for (unsigned before = bit; before <= active; before++)
            if ((before & ~active) == 0 && (before & bit) != 0)
                lorenzo->stages->subtract_from(
                    row_of(lorenzo, stencil, before ^ bit), stencil->n,
                    row_of(lorenzo, stencil, before));
}

/* Counts the codes of values [first, end) of the stretch. */
static void
count_run(const uint16_t *rows, uint64_t first, uint64_t end, unsigned dims,
          struct stencil *stencil)
{
    uint16_t(*lanes)[TERP_NROWS] = stencil->lanes[dims];
    uint32_t sum = 0, n = 0;

    if (end - first == TERP_LORENZO_RUN_NVALUES &&
        (uint32_t)(stencil->special[first / 64] >> first % 64) == 0) {
        n = TERP_LORENZO_RUN_NVALUES;
        for (uint32_t i = 0; i < n; i++)
            sum += rows[first + i];
        for (uint32_t i = 0; i < n; i += NLANES)
            for (uint32_t j = 0; j < NLANES; j++)
                lanes[j][rows[first + i + j]]++;
    } else {
        for (uint64_t i = first; i < end; i++) {
            if (stencil->special[i / 64] >> i % 64 & 1)
                continue; /* a special value costs nothing */
            lanes[i % NLANES][rows[i]]++;
            sum += rows[i];
            n++;
        }
    }
    stencil->sums[dims] += sum;
    stencil->run_costs[dims] += terp_cost_of_run(sum, n);
}

static void
count_differences(const struct cpu_prediction *lorenzo, unsigned dims,
                  struct stencil *stencil)
{
    const struct cpu_stages *stages = lorenzo->stages;
    const struct cpu_quantizer *quantizer = &lorenzo->quantizer;
    const uint64_t n = stencil->n, nbytes = (uint64_t)stages->value_nbytes;
    const uint8_t *row = row_of(lorenzo, stencil, dims >> 1);
    uint8_t *along_row = (uint8_t *)stencil->along_row;
    uint16_t rows[TERP_LORENZO_NVALUES];

    if (dims & 1) {
        memset(along_row, 0, nbytes);
        memcpy(along_row + nbytes, row, (n - 1) * nbytes);
        stages->subtract_from(row, n, along_row);
        row = along_row;
    }
    stages->symbols_of_quants(row, n, quantizer, stencil->symbols);
    for (uint64_t i = 0; i < n; i++)
        rows[i] =
            (uint16_t)terp_row_of_wide(stencil->symbols[i], quantizer->wide);
    for (uint64_t first = 0; first < n; first += TERP_LORENZO_RUN_NVALUES)
        count_run(rows, first == 0 ? stencil->first : first,
                  min_u64(n, first + TERP_LORENZO_RUN_NVALUES), dims, stencil);
}

/* The stretches of rows that are sampled. */
struct sampling {
    const struct cpu_prediction *lorenzo;
    unsigned active; /* the dimensions */
    uint64_t every;
    struct stencil *stencils; /* one per worker */
};

static void
sample_stretches(void *arg, struct cpu_share share)
{
    const struct sampling *sampling = arg;
    const uint64_t *all = sampling->lorenzo->layout->dims;
    struct stencil *stencil = &sampling->stencils[share.worker];
    uint64_t per_row = div_up(all[0], TERP_LORENZO_NVALUES);

    for (uint64_t k = share.first; k < share.end; k++) {
        uint64_t i = sampling->every / 2 + k * sampling->every;
        uint64_t x = i % per_row * TERP_LORENZO_NVALUES;
        stencil->n = min_u64(TERP_LORENZO_NVALUES, all[0] - x);
        stencil->first = terp_lorenzo_first(x);
        fill_stencil(sampling->lorenzo, i / per_row, x, sampling->active >> 1,
                     stencil);
        for (unsigned dims = 0; dims <= sampling->active; dims++)
            if ((dims & ~sampling->active) == 0)
                count_differences(sampling->lorenzo, dims, stencil);
        stencil->nsampled += stencil->n - stencil->first;
    }
}

/* Adds up the counts of all workers in the first one's stencil. */
static void
add_stencils(struct stencil *stencils, int nworkers)
{
    for (int id = 1; id < nworkers; id++) {
        for (int dims = 0; dims < TERP_NCLASSES; dims++) {
            for (int lane = 0; lane < NLANES; lane++)
                for (int row = 0; row < TERP_NROWS; row++)
                    stencils[0].lanes[dims][lane][row] +=
                        stencils[id].lanes[dims][lane][row];
            stencils[0].sums[dims] += stencils[id].sums[dims];
            stencils[0].run_costs[dims] += stencils[id].run_costs[dims];
        }
        stencils[0].nsampled += stencils[id].nsampled;
        stencils[0].nunpredictable += stencils[id].nunpredictable;
        stencils[0].nnear += stencils[id].nnear;
    }
}

/* Estimates the cost of the chunk under differences along `dims`. */
static uint64_t
cost_of_dims(const struct terp_layout *layout, const struct stencil *stencil,
             unsigned dims, struct terp_beyond beyond, bool in_runs)
{
    uint32_t counts[TERP_NROWS] = {0};
    struct terp_difference_samples samples = {
        .nsampled = stencil->nsampled,
        .nunpredictable = stencil->nunpredictable,
        .run_costs = stencil->run_costs[dims],
        .sum = stencil->sums[dims]};

    for (int lane = 0; lane < NLANES; lane++)
        for (int row = 0; row < TERP_NROWS; row++)
            counts[row] += stencil->lanes[dims][lane][row];
    for (int row = 0; row < TERP_NROWS; row++)
        samples.ncodes += counts[row];
    samples.cost = terp_cpu_cost_of_counts(counts, beyond);
    return terp_cost_of_differences(&samples, layout->nvalues, in_runs);
}

enum terp_status
terp_cpu_lorenzo_tune(struct cpu_prediction *lorenzo,
                      struct terp_price *price_ret)
{
    const struct terp_layout *layout = lorenzo->layout;
    int nworkers = terp_cpu_pool_nworkers(lorenzo->pool);
    struct stencil *stencil = calloc((size_t)nworkers, sizeof *stencil);
    struct sampling sampling = {.lorenzo = lorenzo, .stencils = stencil};
    const struct terp_beyond beyond = cpu_beyond_of(&lorenzo->quantizer);
    uint64_t least = UINT64_MAX;
    unsigned active = 0;

    *price_ret = (struct terp_price){UINT64_MAX, 0};
    if (stencil == NULL)
        return TERP_ERR_MEMORY;
    for (int d = 0; d < TERP_NDIMS; d++)
        active |= (unsigned)(layout->dims[d] > 1) << d;
    uint64_t nstretches = layout->nvalues / layout->dims[0] *
                          div_up(layout->dims[0], TERP_LORENZO_NVALUES);
    sampling.active = active;
    sampling.every = terp_lorenzo_distance(layout->nvalues);
    uint64_t skipped = sampling.every / 2;
    if (nstretches > skipped)
        terp_cpu_pool_run(lorenzo->pool, sample_stretches, &sampling,
                          div_up(nstretches - skipped, sampling.every), 8);
    add_stencils(stencil, nworkers);
    lorenzo->lorenzo_dims = active;
    /* Ties go to the larger set. */
    for (unsigned dims = active + 1; stencil->nsampled > 0 && dims-- > 0;) {
        if ((dims & ~active) != 0)
            continue;
        uint64_t cost = cost_of_dims(layout, stencil, dims, beyond, false);
        if (cost < least) {
            least = cost;
            lorenzo->lorenzo_dims = dims;
        }
    }
    if (stencil->nsampled > 0 && terp_lorenzo_has_runs(layout->dims[0]))
        least =
            cost_of_dims(layout, stencil, lorenzo->lorenzo_dims, beyond, true);
    if (stencil->nsampled > 0)
        *price_ret = (struct terp_price){
            terp_cost_with_low_bits(least, layout->nvalues,
                                    cpu_nbits_below(&lorenzo->quantizer)),
            terp_scale_cost(stencil->nnear, layout->nvalues,
                            stencil->nsampled)};
    free(stencil);
    return TERP_OK;
}
