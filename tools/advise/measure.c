/* terp advise: encodes and decodes a sample by every bound and pipeline, and
 * measures ratio, PSNR and speed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "codec/model/bound.h"
#include "tools/advise/advise.h"
#include "tools/common/progress.h"
#include "tools/common/range.h"

static const double bounds[ADVISE_NBOUNDS] = {1e-2, 1e-3, 1e-4, 1e-5};
static const enum terp_pipeline pipelines[ADVISE_NPIPELINES] = {
    TERP_PIPELINE_RATIO, TERP_PIPELINE_HUFFMAN};

/* Memory for the stream of any box, and for what is decoded of it. */
struct buffers {
    uint64_t stream_cap, values_cap;
    void *stream, *values;
};

/* Sums over the boxes of a sample. */
struct sum {
    uint64_t nbytes, stream_nbytes;
    double write_seconds, read_seconds, squares;
};

static bool
make_buffers(const struct advise_sample *sample, struct buffers *buffers)
{
    for (int i = 0; i < sample->nboxes; i++) {
        uint64_t cap = terp_encode_bound(&sample->boxes[i].chunk);
        uint64_t nbytes = terp_chunk_nbytes(&sample->boxes[i].chunk);
        buffers->stream_cap =
            cap > buffers->stream_cap ? cap : buffers->stream_cap;
        buffers->values_cap =
            nbytes > buffers->values_cap ? nbytes : buffers->values_cap;
    }
    buffers->stream = malloc(buffers->stream_cap);
    buffers->values = malloc(buffers->values_cap);
    return buffers->stream != NULL && buffers->values != NULL;
}

/* Special values are kept exactly and have no error. They are left out, since
 * the difference of two infinities is not 0 but NaN. */
static double
sum_squares(const struct advise_box *box, const void *decoded)
{
    bool wide = box->chunk.type == TERP_FLOAT64;
    double sum = 0;

    for (uint64_t i = 0; i < box->nvalues; i++) {
        double error = tool_value_at(wide, box->values, i) -
                       tool_value_at(wide, decoded, i);
        if (isfinite(error))
            sum += error * error;
    }
    return sum;
}

static enum terp_status
add_box(const struct terp_params *params, const struct advise_box *box,
        struct buffers *buffers, struct sum *sum)
{
    uint64_t stream_nbytes, nbytes;
    double start = tool_seconds();
    enum terp_status st =
        terp_encode(params, &box->chunk, box->values, buffers->stream,
                    buffers->stream_cap, &stream_nbytes, 1);
    double middle = tool_seconds();

    if (st == TERP_OK)
        st = terp_decode(buffers->stream, stream_nbytes, buffers->values,
                         buffers->values_cap, &nbytes, 1);
    double end = tool_seconds();
    if (st != TERP_OK)
        return st;
    sum->write_seconds += middle - start;
    sum->read_seconds += end - middle;
    sum->nbytes += nbytes;
    sum->stream_nbytes += stream_nbytes;
    sum->squares += sum_squares(box, buffers->values);
    return TERP_OK;
}

static enum terp_status
measure(const struct advise_sample *sample, struct buffers *buffers,
        struct advise_choice *choice)
{
    struct terp_params params = sample->params;
    struct sum sum = {0};
    double range = sample->max - sample->min;
    double nvalues = (double)(sample->nvalid - sample->nleft_out);

    params.bound_mode =
        choice->pointwise > 0 ? TERP_BOUND_POINTWISE : TERP_BOUND_ABSOLUTE;
    params.bound = choice->pointwise > 0 ? choice->pointwise : choice->bound;
    params.pipeline = choice->pipeline;
    params.predictor = TERP_PREDICTOR_AUTO;
    for (int i = 0; i < sample->nboxes; i++) {
        enum terp_status st =
            add_box(&params, &sample->boxes[i], buffers, &sum);
        if (st != TERP_OK)
            return st;
    }
    choice->ratio = (double)sum.nbytes / (double)sum.stream_nbytes;
    choice->psnr = 20 * log10(range / sqrt(sum.squares / nvalues));
    choice->write_speed = (double)sum.nbytes / 1e6 / sum.write_seconds;
    choice->read_speed = (double)sum.nbytes / 1e6 / sum.read_seconds;
    return TERP_OK;
}

static struct advise_choice
range_choice(const struct advise_sample *sample, double relative)
{
    return (struct advise_choice){
        .relative = relative,
        .bound = terp_bound_of_range(relative, sample->min, sample->max)};
}

static struct advise_choice
pointwise_choice(double bound)
{
    return (struct advise_choice){
        .relative = NAN, .bound = NAN, .pointwise = bound};
}

bool
advise_measure(struct advise_sample *sample, bool pointwise,
               struct advise_choice choices_ret[ADVISE_NCHOICES])
{
    struct buffers buffers = {.stream_cap = 1, .values_cap = 1};
    struct advise_choice *choice = choices_ret;
    enum terp_status st = TERP_OK;

    if (!make_buffers(sample, &buffers))
        st = TERP_ERR_MEMORY;
    for (int i = 0; st == TERP_OK && i < ADVISE_NBOUNDS; i++)
        for (int k = 0; st == TERP_OK && k < ADVISE_NPIPELINES; k++) {
            *choice = pointwise ? pointwise_choice(bounds[i])
                                : range_choice(sample, bounds[i]);
            choice->pipeline = pipelines[k];
            /* The first measurement is made twice: in the first run the system
             * still has to supply the pages of the buffers. */
            if (choice == choices_ret)
                st = measure(sample, &buffers, choice);
            if (st == TERP_OK)
                st = measure(sample, &buffers, choice++);
        }
    if (st != TERP_OK)
        snprintf(sample->reason, sizeof sample->reason, "%s",
                 terp_status_text(st));
    free(buffers.stream);
    free(buffers.values);
    return st == TERP_OK;
}
