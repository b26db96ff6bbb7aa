/* terp report: says what another shape of chunks would save. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codec/format/base.h"
#include "codec/model/bound.h"
#include "tools/common/chunk_shape.h"
#include "tools/common/range.h"
#include "tools/report/report.h"

/* Limit of the values that are encoded in both shapes: it takes a moment. */
#define SAMPLE_NVALUES ((uint64_t)1 << 21)
/* A reader of one value decodes a chunk; above this size it notices. */
#define LARGE_NBYTES ((uint64_t)64 << 20)
/* Smaller savings, in percent, are not worth a new file. */
#define LEAST_SAVING 3.0

/* A box of a dataset's values in memory. */
struct sample {
    enum terp_type type;
    struct tool_grid box;
    void *values;
    struct terp_params params;
};

/* Chooses a box in the middle that holds whole chunks of both shapes, as far
 * as the limit allows. */
static struct tool_grid
choose_box(const struct tool_dataset *dataset, const hsize_t *shape)
{
    struct tool_grid box = tool_grid_of(dataset, shape);

    for (int i = 0; i < box.rank; i++) {
        const uint64_t side = dataset->chunk_dims[i] > shape[i]
                                  ? dataset->chunk_dims[i]
                                  : shape[i];
        box.count[i] = min_u64(box.dims[i], side);
    }
    for (;;) {
        int longest = 0;
        box.nvalues = 1;
        for (int i = 0; i < box.rank; i++) {
            box.nvalues *= box.count[i];
            if (box.count[i] > box.count[longest])
                longest = i;
        }
        if (box.nvalues <= SAMPLE_NVALUES)
            break;
        box.count[longest] = div_up(box.count[longest], 2);
    }
    for (int i = 0; i < box.rank; i++)
        box.at[i] = (box.dims[i] - box.count[i]) / 2;
    return box;
}

/* Copies the current box of `grid`, which lies in the sample, to `to`. */
static void
cut_out(const struct sample *sample, const struct tool_grid *grid, uint8_t *to)
{
    const size_t size = sample->type == TERP_FLOAT64 ? 8 : 4;
    const int last = grid->rank - 1;
    const uint64_t nrows = grid->nvalues / grid->count[last];

    for (uint64_t row = 0; row < nrows; row++) {
        uint64_t rest = row, from = 0, stride = sample->box.count[last];
        for (int i = last - 1; i >= 0; i--) {
            from += (grid->at[i] + rest % grid->count[i]) * stride;
            rest /= grid->count[i];
            stride *= sample->box.count[i];
        }
        memcpy(to,
               (const uint8_t *)sample->values + (from + grid->at[last]) * size,
               grid->count[last] * size);
        to += grid->count[last] * size;
    }
}

/* Encodes the sample in chunks of a shape. Returns the bytes of all streams; 0
 * where that fails. */
static uint64_t
encode(const struct sample *sample, const hsize_t *shape)
{
    const uint64_t size = sample->type == TERP_FLOAT64 ? 8 : 4;
    struct tool_grid grid = {.rank = sample->box.rank};
    struct terp_chunk chunk;
    uint64_t dims[H5S_MAX_RANK], sum = 0, nbytes;
    bool ok = true;

    for (int i = 0; i < grid.rank; i++) {
        grid.dims[i] = sample->box.count[i];
        grid.step[i] = min_u64(shape[i], grid.dims[i]);
        dims[i] = grid.step[i];
    }
    if (terp_chunk_make(sample->type, grid.rank, dims, &chunk) != TERP_OK)
        return 0;
    const uint64_t cap = terp_encode_bound(&chunk);
    uint8_t *values = malloc(tool_grid_cap(&grid) * size);
    void *stream = malloc(cap);
    while (ok && values != NULL && stream != NULL && tool_grid_next(&grid)) {
        cut_out(sample, &grid, values);
        for (int i = 0; i < grid.rank; i++)
            dims[i] = grid.count[i];
        ok =
            terp_chunk_make(sample->type, grid.rank, dims, &chunk) == TERP_OK &&
            terp_encode(&sample->params, &chunk, values, stream, cap, &nbytes,
                        1) == TERP_OK;
        sum += ok ? nbytes : 0;
    }
    ok = ok && values != NULL && stream != NULL;
    free(values);
    free(stream);
    return ok ? sum : 0;
}

/* The bound of the copy, so that both shapes have the same errors. Without a
 * known one, a thousandth of the range. */
static void
set_params(const struct report_pair *pair, double bound,
           struct terp_params *params)
{
    const struct compare_result *result = pair->result;
    const struct terp_cd *cd = pair->b->has_terp ? &pair->b->cd : NULL;

    *params = (struct terp_params){.size = sizeof *params,
                                   .bound_mode = TERP_BOUND_ABSOLUTE};
    if (cd != NULL)
        terp_cd_copy_fills(cd, params);
    if (cd != NULL && cd->has_missing) {
        params->has_missing = true;
        params->missing_bits = tool_number_bits(
            tool_type(pair->b->type) == TERP_FLOAT64, cd->missing);
    }
    if (result->is_lossless)
        return;
    if (result->pointwise_bound > 0) {
        params->bound_mode = TERP_BOUND_POINTWISE;
        params->bound = result->pointwise_bound;
        params->floor = result->floor;
    } else {
        params->bound =
            bound > 0 ? bound
                      : terp_bound_of_range(1e-3, result->min, result->max);
    }
}

/* Reads the sample, and encodes it in both shapes. Returns the percentage that
 * the other shape saves; NAN where that fails. */
static double
measure(const struct report_pair *pair, const hsize_t *shape, double bound,
        uint64_t *nvalues_ret)
{
    const struct tool_dataset *a = pair->a;
    struct sample sample = {.type = tool_type(a->type)};
    double saving = NAN;

    if (sample.type == TERP_BYTES)
        return NAN;
    sample.box = choose_box(pair->b, shape);
    *nvalues_ret = sample.box.nvalues;
    sample.values = calloc(sample.box.nvalues, a->value_nbytes);
    set_params(pair, bound, &sample.params);
    if (sample.values != NULL &&
        tool_box_read(a,
                      sample.type == TERP_FLOAT64 ? H5T_NATIVE_DOUBLE
                                                  : H5T_NATIVE_FLOAT,
                      &sample.box, NULL, sample.values)) {
        const uint64_t now = encode(&sample, pair->b->chunk_dims);
        const uint64_t other = encode(&sample, shape);
        if (now > 0 && other > 0)
            saving = 100 * (1 - (double)other / (double)now);
    }
    free(sample.values);
    return saving;
}

static bool
is_same(const struct tool_dataset *dataset, const hsize_t *shape)
{
    for (int i = 0; i < dataset->rank; i++)
        if (min_u64(dataset->chunk_dims[i], dataset->dims[i]) !=
            min_u64(shape[i], dataset->dims[i]))
            return false;
    return true;
}

/* Adds "64x64x32" for a command. */
static void
put_option(struct html *html, int rank, const hsize_t *shape)
{
    html_put(html, " <code>terp repack IN OUT --chunk ");
    for (int i = 0; i < rank; i++)
        html_printf(html, "%s%llu", i > 0 ? "x" : "",
                    (unsigned long long)shape[i]);
    html_put(html, "</code>");
}

static void
put_saving(struct html *html, const struct report_pair *pair,
           const hsize_t *shape, double saving, uint64_t nvalues)
{
    html_put(html, "Chunks of ");
    html_dims(html, pair->b->rank, shape);
    html_put(html, pair->b->rank == 1 ? " values" : "");
    if (isnan(saving)) {
        html_put(html, " are what terp would choose; their effect was not "
                       "measured.");
        return;
    }
    if (fabs(saving) < LEAST_SAVING)
        html_put(html, " would take about as many bytes");
    else {
        html_put(html, " would take ");
        html_data(html, "saving", fabs(saving), 2);
        html_put(html, saving > 0 ? " % fewer bytes" : " % more bytes");
    }
    html_put(html, ", measured with terp and the same bound on ");
    html_count(html, nvalues);
    html_put(html, pair->has_original ? " values of the original."
                                      : " values of the file.");
    /* A copy with loss must not be compressed again. */
    if (saving >= LEAST_SAVING &&
        (pair->has_original || tool_is_lossless(pair->b))) {
        html_put(html, " To make them:");
        put_option(html, pair->b->rank, shape);
    }
}

void
report_chunks(struct html *html, const struct report_pair *pair, double bound)
{
    const struct tool_dataset *b = pair->b;
    hsize_t shape[H5S_MAX_RANK];
    uint64_t nvalues = 0;

    html_put(html, "<p class=\"chunks\"><strong>Chunks.</strong> ");
    if (b->rank == 0 || b->nvalues < TOOL_MIN_NVALUES) {
        html_put(html, "The dataset is so small that its chunks matter "
                       "little.</p>\n");
        return;
    }
    tool_chunk_shape(b->rank, b->dims, shape);
    if (!b->chunked) {
        html_put(html, "The dataset has no chunks, and filters need them. "
                       "<code>terp repack</code> would choose ");
        html_dims(html, b->rank, shape);
        html_put(html, ".");
    } else if (is_same(b, shape)) {
        html_put(html, "They have the shape that terp would choose.");
    } else {
        const double saving = measure(pair, shape, bound, &nvalues);
        put_saving(html, pair, shape, saving, nvalues);
    }
    if (b->chunk_nbytes > LARGE_NBYTES && b->chunked) {
        html_put(html, " A program that reads one value decodes a chunk of ");
        html_nbytes(html, b->chunk_nbytes);
        html_put(html, ".");
    }
    html_put(html, "</p>\n");
}
