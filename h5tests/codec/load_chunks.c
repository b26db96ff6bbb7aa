/* load_chunks [--seconds N] [--threads N] [--seed N] [--first N] [DIGESTS]
 *
 * Threads encode and decode chunks of random types, shapes, contents, bounds
 * and pipelines at the same time, in private and in shared contexts. Each
 * stream must equal the one that a single thread makes, and each value must
 * keep its bound. Exits with 1 at the first error, or if memory has grown. With
 * TERP_ENGINE=cuda it is also an error if the CPU runs the batches. The seed
 * determines the cases. DIGESTS gets a line for each BLOCK_NCASES cases;
 * another process with the same seed writes the same lines. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "codec/format/types.h"
#include "codec/model/repeats.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/load.h"
#include "h5tests/support/values.h"

#define MAX_NTHREADS 256
#define MAX_NCOPIES 4  /* copies of a chunk in a batch */
#define MAX_NBITS 17   /* bits of the number of values */
#define LARGE_NBITS 21 /* one case in LARGE_EVERY has this size */
#define LARGE_EVERY 100
#define REPEATS_EVERY 16  /* the chunk's values repeat earlier ones */
#define BEST_NVALUES 4096 /* TERP_EFFORT_BEST takes long above this size */
#define BLOCK_NCASES 256
#define MAX_NBLOCKS (1 << 16)

/* State that all threads share. */
static struct load_options options;
static struct terp_context *common;
static atomic_uint_fast64_t next_case;
static struct {
    atomic_uint_fast64_t sum;
    atomic_uint ncases;
} blocks[MAX_NBLOCKS];

struct load_case {
    uint64_t number;
    struct load_random random;
    struct terp_params params;
    struct terp_chunk chunk;
    bool repeats;
    uint64_t nbytes;
    uint8_t *values, *decoded, *other;
    uint8_t *streams[MAX_NCOPIES];
    uint64_t cap_nbytes;
};

static void
need(const struct load_case *it, enum terp_status st, const char *what)
{
    char text[128];

    if (st == TERP_OK)
        return;
    snprintf(text, sizeof text, "%s: %s", what, terp_status_text(st));
    load_fail(it->number, text);
}

/* ---- the choice of a case ---- */

static void
choose_chunk(struct load_case *it)
{
    struct load_random *random = &it->random;
    struct terp_chunk *chunk = &it->chunk;
    const int nbits =
        load_once_in(random, LARGE_EVERY) ? LARGE_NBITS : MAX_NBITS;
    /* Encoders search large domains and repeats only in large chunks. */
    const uint64_t nvalues =
        it->repeats && load_once_in(random, 2)
            ? TERP_REPEATS_MIN_NVALUES + load_size(random, MAX_NBITS - 1)
            : load_size(random, nbits);
    const enum terp_type types[] = {
        TERP_FLOAT32, TERP_FLOAT64,
        (enum terp_type)load_below(random, TERP_NTYPES)};

    *chunk = (struct terp_chunk){.type = types[load_below(random, 3)]};
    chunk->rank = chunk->type == TERP_BYTES
                      ? 1
                      : (int)load_below(random, TERP_MAX_RANK) + 1;
    load_dims(random, chunk->rank, nvalues, chunk->dims);
    if (chunk->type == TERP_BYTES)
        return;
    chunk->big_endian = load_once_in(random, 8);
    chunk->stack = chunk->rank > 1 && load_once_in(random, 8);
}

static void
choose_bound(struct load_case *it)
{
    struct load_random *random = &it->random;
    struct terp_params *params = &it->params;
    const double bound = ldexp(1, -(int)load_below(random, 40));

    *params = (struct terp_params){.size = sizeof *params};
    params->bound_mode =
        (enum terp_bound_mode)(1 + load_below(random, TERP_NBOUND_MODES - 1));
    params->bound = bound;
    if (params->bound_mode == TERP_BOUND_PSNR)
        params->bound = 20 + (double)load_below(random, 100);
    if (params->bound_mode == TERP_BOUND_POINTWISE) {
        params->bound = bound / 2;
        params->floor = load_once_in(random, 2) ? bound / 64 : 0;
    }
    if (load_once_in(random, 4)) {
        params->bound_mode = TERP_BOUND_ABSOLUTE;
        params->bound = 0;
        params->floor = 0;
    }
    if (terp_type_is_integer(it->chunk.type) &&
        params->bound_mode == TERP_BOUND_ABSOLUTE && params->bound > 0)
        params->bound = (double)load_size(random, 8);
    do
        params->pipeline =
            (enum terp_pipeline)load_below(random, TERP_NPIPELINES);
    while (terp_pipeline_name(params->pipeline) == NULL);
    params->predictor =
        it->repeats ? TERP_PREDICTOR_AUTO
                    : (enum terp_predictor)load_below(random, TERP_NPREDICTORS);
    params->effort = (enum terp_effort)load_below(random, TERP_NEFFORTS);
    if (params->effort == TERP_EFFORT_BEST &&
        it->nbytes / (uint64_t)terp_value_nbytes(it->chunk.type) > BEST_NVALUES)
        params->effort = TERP_EFFORT_DEFAULT;
    params->has_fill = load_once_in(random, 4);
}

static void
make_case(struct load_case *it, uint64_t number)
{
    *it = (struct load_case){
        .number = number, .random = {options.seed + terp_field_mix(number), 0}};
    it->repeats = load_once_in(&it->random, REPEATS_EVERY);
    choose_chunk(it);
    it->nbytes = terp_chunk_nbytes(&it->chunk);
    it->cap_nbytes = terp_encode_bound(&it->chunk);
    choose_bound(it);
    it->values = terp_case_alloc(it->nbytes);
    it->decoded = terp_case_alloc(it->nbytes);
    it->other = terp_case_alloc(it->nbytes);
    for (int i = 0; i < MAX_NCOPIES; i++)
        it->streams[i] = NULL;
    if (it->chunk.type == TERP_BYTES)
        for (uint64_t i = 0; i < it->nbytes; i++)
            it->values[i] = (uint8_t)terp_field_mix(number + i);
    else
        terp_field_make(it->repeats ? TERP_FIELD_MIRRORS
                                    : (enum terp_field)load_below(
                                          &it->random, TERP_NNAMED_FIELDS),
                        &it->chunk, it->values);
    /* One of the chunk's values, or 0. */
    if (it->params.has_fill && it->chunk.type != TERP_BYTES &&
        load_once_in(&it->random, 2))
        it->params.fill_bits =
            value_bits(&it->chunk, it->values,
                       load_below(&it->random, chunk_nvalues(&it->chunk)));
}

static void
free_case(struct load_case *it)
{
    free(it->values);
    free(it->decoded);
    free(it->other);
    for (int i = 0; i < MAX_NCOPIES; i++)
        free(it->streams[i]);
}

/* ---- the checks ---- */

static void
check_integers(const struct load_case *it)
{
    const struct terp_chunk *chunk = &it->chunk;
    const int unused = 64 - 8 * value_nbytes(chunk->type);

    for (uint64_t i = 0; i < chunk_nvalues(chunk); i++) {
        uint64_t a = value_bits(chunk, it->values, i) << unused;
        uint64_t b = value_bits(chunk, it->decoded, i) << unused;
        /* The bits as unsigned numbers in the order of the values. */
        if (terp_type_is_signed(chunk->type)) {
            a ^= UINT64_C(1) << 63;
            b ^= UINT64_C(1) << 63;
        }
        if ((double)((a > b ? a - b : b - a) >> unused) > it->params.bound)
            load_fail(it->number, "an integer is beyond its bound");
    }
}

static void
check_values(const struct load_case *it)
{
    const enum terp_type type = it->chunk.type;
    const enum terp_bound_mode mode = it->params.bound_mode;
    const bool absolute = mode == TERP_BOUND_ABSOLUTE;
    char name[64];

    if (type == TERP_BYTES || (absolute && it->params.bound == 0) ||
        (terp_type_is_integer(type) && !absolute)) {
        if (memcmp(it->values, it->decoded, it->nbytes) != 0)
            load_fail(it->number, "what must not change has changed");
    } else if (terp_type_is_integer(type)) {
        check_integers(it);
    } else if ((type == TERP_FLOAT32 || type == TERP_FLOAT64) &&
               mode != TERP_BOUND_PSNR) {
        snprintf(name, sizeof name, "case %" PRIu64, it->number);
        terp_case_compare(name, &it->params, &it->chunk, it->values,
                          it->decoded,
                          terp_case_bound(&it->params, &it->chunk, it->values));
    }
}

/* Encodes copies of the chunk in a batch, by several threads. All streams must
 * equal the stream of one thread. */
static void
check_batch(struct load_case *it, struct terp_context *context,
            uint64_t stream_nbytes)
{
    struct terp_run_options run = {.size = sizeof run,
                                   .context = context,
                                   .engine = load_engine(),
                                   .nthreads =
                                       1 + (int)load_below(&it->random, 4)};
    const uint64_t n = 1 + load_below(&it->random, MAX_NCOPIES - 1);
    const void *src[MAX_NCOPIES];
    void *dst[MAX_NCOPIES];
    uint64_t nbytes[MAX_NCOPIES] = {0};
    enum terp_status status[1];
    struct terp_run_result result = {.size = sizeof result};

    for (uint64_t i = 0; i < n; i++) {
        it->streams[i + 1] = terp_case_alloc(it->cap_nbytes);
        src[i] = it->values;
        dst[i] = it->streams[i + 1];
    }
    need(it,
         terp_encode_batch(&run, &it->params, &it->chunk, n, src, dst, nbytes,
                           &result),
         "encoding a batch");
    load_note(&result);
    for (uint64_t i = 0; i < n; i++)
        if (nbytes[i] != stream_nbytes ||
            memcmp(dst[i], it->streams[0], stream_nbytes) != 0)
            load_fail(it->number, "a batch has another stream");
    src[0] = dst[0];
    dst[0] = it->other;
    need(it,
         terp_decode_batch(&run, &it->chunk, 1, src, nbytes, dst, status,
                           &result),
         "decoding a batch");
    load_note(&result);
    if (memcmp(it->other, it->decoded, it->nbytes) != 0)
        load_fail(it->number, "a batch decodes to other values");
}

/* Decodes every step-th value, and a stream with one changed bit. */
static void
check_rest(struct load_case *it, uint64_t stream_nbytes)
{
    struct terp_chunk coarse;
    const uint64_t step = UINT64_C(2) << load_below(&it->random, 4);
    const int nthreads = 1 + (int)load_below(&it->random, 4);
    uint64_t nbytes = 0;

    if (it->chunk.type != TERP_BYTES) {
        need(it, terp_coarse_chunk(&it->chunk, step, &coarse), "its shape");
        uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&coarse));
        need(it,
             terp_decode_coarse(it->streams[0], stream_nbytes, step, values,
                                terp_chunk_nbytes(&coarse), &nbytes, nthreads),
             "decoding coarsely");
        terp_case_take(&it->chunk, it->decoded, step, it->other);
        if (memcmp(values, it->other, nbytes) != 0)
            load_fail(it->number, "coarse values are others");
        free(values);
    }
    it->streams[0][load_below(&it->random, stream_nbytes)] ^=
        (uint8_t)(1 << load_below(&it->random, 8));
    if (terp_decode(it->streams[0], stream_nbytes, it->other, it->nbytes,
                    &nbytes, nthreads) == TERP_OK)
        load_fail(it->number, "a changed bit is not noticed");
}

/* Runs the case. Returns a digest of its stream and values. */
static uint64_t
do_case(struct load_case *it)
{
    uint64_t stream_nbytes = 0, nbytes = 0;
    struct terp_context *own = NULL;
    const uint64_t which = load_below(&it->random, 8);

    if (which == 0)
        need(it, terp_context_make(NULL, &own), "making a context");
    it->streams[0] = terp_case_alloc(it->cap_nbytes);
    need(it,
         terp_encode(&it->params, &it->chunk, it->values, it->streams[0],
                     it->cap_nbytes, &stream_nbytes, 1),
         "encoding");
    need(it,
         terp_decode(it->streams[0], stream_nbytes, it->decoded, it->nbytes,
                     &nbytes, 1),
         "decoding");
    check_values(it);
    check_batch(it,
                which == 0  ? own
                : which < 4 ? common
                            : NULL,
                stream_nbytes);
    const uint64_t digest = XXH3_64bits(it->streams[0], stream_nbytes) +
                            XXH3_64bits(it->decoded, it->nbytes);
    check_rest(it, stream_nbytes);
    terp_context_destroy(own);
    if (which == 7 && load_once_in(&it->random, 50))
        terp_context_trim(common);
    return digest;
}

/* ---- threads ---- */

static void *
work(void *unused)
{
    struct load_case it;

    while (!load_is_over()) {
        const uint64_t number = atomic_fetch_add(&next_case, 1);
        const uint64_t block = number / BLOCK_NCASES;
        make_case(&it, number);
        const uint64_t digest = do_case(&it);
        free_case(&it);
        load_count(1, it.nbytes / (uint64_t)terp_value_nbytes(it.chunk.type));
        if (block < MAX_NBLOCKS) {
            atomic_fetch_add(&blocks[block].sum, digest);
            atomic_fetch_add(&blocks[block].ncases, 1);
        }
    }
    return unused;
}

static bool
write_digests(void)
{
    FILE *file = options.path != NULL ? fopen(options.path, "w") : NULL;

    if (options.path == NULL)
        return true;
    if (file == NULL)
        return false;
    for (int i = 0; i < MAX_NBLOCKS; i++)
        if (blocks[i].ncases == BLOCK_NCASES)
            fprintf(file, "%05d %016" PRIx64 "\n", i,
                    (uint64_t)atomic_load(&blocks[i].sum));
    return fclose(file) == 0;
}

int
main(int argc, char **argv)
{
    pthread_t threads[MAX_NTHREADS];

    options = load_options_of(argc, argv);
    next_case = options.first;
    if (options.nthreads > MAX_NTHREADS ||
        terp_context_make(NULL, &common) != TERP_OK)
        load_fail(0, "too many threads, or no memory");
    for (uint64_t i = 0; i < options.nthreads; i++)
        if (pthread_create(&threads[i], NULL, work, NULL) != 0)
            load_fail(0, "no more threads");
    load_watch(&options);
    for (uint64_t i = 0; i < options.nthreads; i++)
        pthread_join(threads[i], NULL);
    terp_context_destroy(common);
    if (!write_digests())
        load_fail(0, "the digests cannot be written");
    if (!load_memory_is_flat())
        load_fail(0, "memory grows");
    if (!load_engine_is_used())
        load_fail(0, "no device is used");
    return 0;
}
