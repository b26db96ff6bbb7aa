/* terp advise: encodes and decodes a sample by every bound and pipeline, and
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

/* What threads code at a time takes at most so much memory. */
#define CREW_NBYTES ((uint64_t)256 << 20)

enum pass {
    WRITE, /* encode */
    READ,  /* decode */
    CHECK  /* decode, and sum up errors: not measured */
};

/* Threads that code the boxes at once, each as long as the others: where there
 * are fewer boxes than threads, some are coded by several. */
struct crew {
    const struct advise_sample *sample;
    struct terp_params params;
    enum pass pass;
    int nworkers;
    int nthreads; /* of each call of the codec */
    int nturns;   /* boxes that each worker codes */
    struct tool_workers *workers;
    struct turn *turns; /* [nworkers] */
    uint64_t stream_cap, values_cap;
    struct stream *streams; /* [sample->nboxes] */
};

struct stream {
    void *bytes;
    uint64_t nbytes;
    double squares; /* of the errors of its values */
};

/* What one of them does in a pass. */
struct turn {
    struct tool_work work; /* first, so that one is the other's address */
    int first;             /* number of the worker */
    void *stream, *values; /* to write to */
    uint64_t nbytes;       /* of values that were coded */
    enum terp_status status;
};

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

/* Codes box number `n`, counted on where all are coded. Streams are
 * kept of the first time that a box is coded. */
static enum terp_status
code_box(const struct crew *crew, struct turn *turn, int n)
{
    const int nth = n % crew->sample->nboxes;
    const struct advise_box *box = &crew->sample->boxes[nth];
    struct stream *stream = &crew->streams[nth];
    uint64_t nbytes = 0;
    enum terp_status st;

    if (crew->pass == WRITE) {
        const bool is_first = n == nth;
        st = terp_encode(&crew->params, &box->chunk, box->values,
                         is_first ? stream->bytes : turn->stream,
                         crew->stream_cap, is_first ? &stream->nbytes : &nbytes,
                         crew->nthreads);
    } else {
        st = terp_decode(stream->bytes, stream->nbytes, turn->values,
                         crew->values_cap, &nbytes, crew->nthreads);
    }
    turn->nbytes += terp_chunk_nbytes(&box->chunk);
    if (st == TERP_OK && crew->pass == CHECK)
        stream->squares = sum_squares(box, turn->values);
    return st;
}

static void
take_turn(void *arg, struct tool_work *work)
{
    const struct crew *crew = arg;
    struct turn *turn = (struct turn *)work;

    turn->nbytes = 0;
    turn->status = TERP_OK;
    for (int i = 0; turn->status == TERP_OK && i < crew->nturns; i++) {
        const int n = i * crew->nworkers + turn->first;
        if (crew->pass != CHECK || n < crew->sample->nboxes)
            turn->status = code_box(crew, turn, n);
    }
}

/* All of them, at once. Sets how many MB a second they have coded. */
static enum terp_status
run_pass(struct crew *crew, enum pass pass, double *speed_ret)
{
    enum terp_status st = TERP_OK;
    uint64_t nbytes = 0;
    const double start = tool_seconds();

    crew->pass = pass;
    for (int i = 0; i < crew->nworkers; i++)
        tool_workers_give(crew->workers, &crew->turns[i].work);
    for (int i = 0; i < crew->nworkers; i++) {
        const struct turn *turn = &crew->turns[i];
        tool_workers_await(crew->workers, &crew->turns[i].work);
        nbytes += turn->nbytes;
        if (st == TERP_OK)
            st = turn->status;
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
    crew->nturns = (sample->nboxes + crew->nworkers - 1) / crew->nworkers;
    crew->turns = calloc((size_t)crew->nworkers, sizeof *crew->turns);
    crew->streams = calloc((size_t)sample->nboxes, sizeof *crew->streams);
    crew->workers = tool_workers_start(crew->nworkers, take_turn, crew);
    if (crew->turns == NULL || crew->streams == NULL || crew->workers == NULL)
        return false;
    for (int i = 0; i < crew->nworkers; i++) {
        struct turn *turn = &crew->turns[i];
        turn->first = i;
        turn->stream = malloc(crew->stream_cap);
        turn->values = malloc(crew->values_cap);
        ok &= turn->stream != NULL && turn->values != NULL;
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
    for (int i = 0; crew->turns != NULL && i < crew->nworkers; i++) {
        free(crew->turns[i].stream);
        free(crew->turns[i].values);
    }
    for (int i = 0; crew->streams != NULL && i < crew->sample->nboxes; i++)
        free(crew->streams[i].bytes);
    free(crew->turns);
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
    enum terp_status st = run_pass(crew, WRITE, &choice->write_speed);
    if (st == TERP_OK)
        st = run_pass(crew, READ, &choice->read_speed);
    if (st == TERP_OK)
        st = run_pass(crew, CHECK, &check_speed);
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
            /* The first measurement is made twice: in the first run the system
             * still has to supply the pages of the buffers. */
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
