/* terp advise: encodes and decodes a sample with each bound and pipeline, and
 * measures ratio, PSNR and speed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "codec/format/base.h"
#include "codec/model/bound.h"
#include "tools/advise/advise.h"
#include "tools/common/progress.h"
#include "tools/common/range.h"
#include "tools/common/workers.h"

static const double bounds[ADVISE_NBOUNDS] = {1e-2, 1e-3, 1e-4, 1e-5};
static const enum terp_pipeline pipelines[ADVISE_NPIPELINES] = {
    TERP_PIPELINE_RATIO, TERP_PIPELINE_HUFFMAN};

/* Limit for the buffers of all threads; it may reduce the number of threads. */
#define CREW_NBYTES ((uint64_t)256 << 20)

enum task {
    WRITE, /* encode */
    READ,  /* decode */
    CHECK  /* decode and sum up errors; not timed */
};

/* Threads that code boxes in parallel. Every worker codes the same number of
 * boxes. Where there are fewer boxes than workers, several workers code the
 * same box, so that speeds are those of all threads. */
struct crew {
    const struct advise_sample *sample;
    struct terp_params params;
    enum task task;
    int nworkers;
    int nthreads;    /* within each call of the codec */
    int nboxes_each; /* boxes per worker */
    struct tool_workers *workers;
    struct share *shares; /* [nworkers] */
    uint64_t stream_cap, values_cap;
    struct stream *streams; /* [sample->nboxes] */
};

struct stream {
    void *bytes;
    uint64_t nbytes;
    double squares; /* of the errors of its values */
};

/* The boxes of one worker. */
struct share {
    struct tool_work work; /* first member: both have the same address */
    int first;             /* number of the worker */
    void *stream, *values; /* output buffers */
    uint64_t nbytes;       /* of coded values */
    enum terp_status status;
};

/* Special values are exact. The sum leaves them out because the difference of
 * two infinities is NaN. */
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

/* Codes box `n` modulo the number of boxes. The first encoding of a box keeps
 * its stream. */
static enum terp_status
code_box(const struct crew *crew, struct share *share, int n)
{
    const int nth = n % crew->sample->nboxes;
    const struct advise_box *box = &crew->sample->boxes[nth];
    struct stream *stream = &crew->streams[nth];
    uint64_t nbytes = 0;
    enum terp_status st;

    if (crew->task == WRITE) {
        const bool is_first = n == nth;
        st = terp_encode(&crew->params, &box->chunk, box->values,
                         is_first ? stream->bytes : share->stream,
                         crew->stream_cap, is_first ? &stream->nbytes : &nbytes,
                         crew->nthreads);
    } else {
        st = terp_decode(stream->bytes, stream->nbytes, share->values,
                         crew->values_cap, &nbytes, crew->nthreads);
    }
    share->nbytes += terp_chunk_nbytes(&box->chunk);
    if (st == TERP_OK && crew->task == CHECK)
        stream->squares = sum_squares(box, share->values);
    return st;
}

static void
code_share(void *arg, struct tool_work *work)
{
    const struct crew *crew = arg;
    struct share *share = (struct share *)work;

    share->nbytes = 0;
    share->status = TERP_OK;
    for (int i = 0; share->status == TERP_OK && i < crew->nboxes_each; i++) {
        const int n = i * crew->nworkers + share->first;
        if (crew->task != CHECK || n < crew->sample->nboxes)
            share->status = code_box(crew, share, n);
    }
}

/* Runs a task on all workers. Sets their speed in MB per second. */
static enum terp_status
run_task(struct crew *crew, enum task task, double *speed_ret)
{
    enum terp_status st = TERP_OK;
    uint64_t nbytes = 0;
    const double start = tool_seconds();

    crew->task = task;
    for (int i = 0; i < crew->nworkers; i++)
        tool_workers_give(crew->workers, &crew->shares[i].work);
    for (int i = 0; i < crew->nworkers; i++) {
        const struct share *share = &crew->shares[i];
        tool_workers_await(crew->workers, &crew->shares[i].work);
        nbytes += share->nbytes;
        if (st == TERP_OK)
            st = share->status;
    }
    *speed_ret = (double)nbytes / 1e6 / (tool_seconds() - start);
    return st;
}

static void
find_caps(struct crew *crew)
{
    for (int i = 0; i < crew->sample->nboxes; i++) {
        const struct terp_chunk *chunk = &crew->sample->boxes[i].chunk;
        const uint64_t cap = terp_encode_bound(chunk);
        const uint64_t nbytes = terp_chunk_nbytes(chunk);
        crew->stream_cap = cap > crew->stream_cap ? cap : crew->stream_cap;
        crew->values_cap =
            nbytes > crew->values_cap ? nbytes : crew->values_cap;
    }
}

static bool
make_crew(struct crew *crew, const struct advise_sample *sample, int nthreads)
{
    bool ok = true;

    *crew = (struct crew){.sample = sample, .stream_cap = 1, .values_cap = 1};
    find_caps(crew);
    const uint64_t nfit = CREW_NBYTES / (crew->stream_cap + crew->values_cap);
    crew->nworkers = (int)min_u64((uint64_t)nthreads, nfit > 0 ? nfit : 1);
    crew->nthreads = nthreads / crew->nworkers;
    crew->nboxes_each = (sample->nboxes + crew->nworkers - 1) / crew->nworkers;
    crew->shares = calloc((size_t)crew->nworkers, sizeof *crew->shares);
    crew->streams = calloc((size_t)sample->nboxes, sizeof *crew->streams);
    crew->workers = tool_workers_start(crew->nworkers, code_share, crew);
    if (crew->shares == NULL || crew->streams == NULL || crew->workers == NULL)
        return false;
    for (int i = 0; i < crew->nworkers; i++) {
        struct share *share = &crew->shares[i];
        share->first = i;
        share->stream = malloc(crew->stream_cap);
        share->values = malloc(crew->values_cap);
        ok &= share->stream != NULL && share->values != NULL;
    }
    for (int i = 0; i < sample->nboxes; i++) {
        crew->streams[i].bytes = malloc(crew->stream_cap);
        ok &= crew->streams[i].bytes != NULL;
    }
    return ok;
}

static void
free_crew(struct crew *crew)
{
    tool_workers_end(crew->workers);
    for (int i = 0; crew->shares != NULL && i < crew->nworkers; i++) {
        free(crew->shares[i].stream);
        free(crew->shares[i].values);
    }
    for (int i = 0; crew->streams != NULL && i < crew->sample->nboxes; i++)
        free(crew->streams[i].bytes);
    free(crew->shares);
    free(crew->streams);
}

static void
set_choice(const struct crew *crew, struct advise_choice *choice)
{
    const struct advise_sample *sample = crew->sample;
    const double range = sample->max - sample->min;
    const double nvalues = (double)(sample->nvalid - sample->nleft_out);
    uint64_t nbytes = 0, stream_nbytes = 0;
    double squares = 0;

    for (int i = 0; i < sample->nboxes; i++) {
        nbytes += terp_chunk_nbytes(&sample->boxes[i].chunk);
        stream_nbytes += crew->streams[i].nbytes;
        squares += crew->streams[i].squares;
    }
    choice->ratio = (double)nbytes / (double)stream_nbytes;
    choice->psnr = 20 * log10(range / sqrt(squares / nvalues));
}

static enum terp_status
measure(struct crew *crew, struct advise_choice *choice)
{
    struct terp_params *params = &crew->params;
    double check_speed;

    *params = crew->sample->params;
    params->bound_mode =
        choice->pointwise > 0 ? TERP_BOUND_POINTWISE : TERP_BOUND_ABSOLUTE;
    params->bound = choice->pointwise > 0 ? choice->pointwise : choice->bound;
    params->pipeline = choice->pipeline;
    params->predictor = TERP_PREDICTOR_AUTO;
    enum terp_status st = run_task(crew, WRITE, &choice->write_speed);
    if (st == TERP_OK)
        st = run_task(crew, READ, &choice->read_speed);
    if (st == TERP_OK)
        st = run_task(crew, CHECK, &check_speed);
    if (st == TERP_OK)
        set_choice(crew, choice);
    return st;
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
advise_measure(struct advise_sample *sample, bool pointwise, int nthreads,
               struct advise_choice choices_ret[ADVISE_NCHOICES])
{
    struct advise_choice *choice = choices_ret;
    enum terp_status st = TERP_OK;
    struct crew crew;

    if (!make_crew(&crew, sample, nthreads))
        st = TERP_ERR_MEMORY;
    for (int i = 0; st == TERP_OK && i < ADVISE_NBOUNDS; i++)
        for (int k = 0; st == TERP_OK && k < ADVISE_NPIPELINES; k++) {
            *choice = pointwise ? pointwise_choice(bounds[i])
                                : range_choice(sample, bounds[i]);
            choice->pipeline = pipelines[k];
            /* The first measurement runs twice: in its first run the system
             * still supplies the pages of the buffers. */
            if (choice == choices_ret)
                st = measure(&crew, choice);
            if (st == TERP_OK)
                st = measure(&crew, choice++);
        }
    if (st != TERP_OK)
        snprintf(sample->reason, sizeof sample->reason, "%s",
                 terp_status_text(st));
    free_crew(&crew);
    return st == TERP_OK;
}
