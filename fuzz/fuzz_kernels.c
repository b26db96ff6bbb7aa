/* The CUDA engine decodes any bytes to the same values as the CPU engine, or
 * both refuse the bytes. TERP_CUDA_LIBRARY names the CUDA engine: the real one
 * on a machine with a GPU, or the emulated one of another build
 * (h5tests/cuda.cmake). The emulated one is slow and has no coverage counters,
 * so coverage of the CPU engine decides which inputs are kept.
 *
 * A GPU takes about as long for many streams as for one. FUZZ_NSTREAMS is the
 * number of streams in a batch; all but the first are variations of the input.
 * At the end the program prints how many streams it tried. */
#include <stdio.h>
#include <string.h>

#include "codec/api/terp.h"
#include "fuzz/streams.h"
#include "fuzz/target.h"
#include "h5tests/support/reader.h"

#define MAX_NSTREAMS 1024

/* A batch of streams whose chunks have the same shape. */
struct streams {
    struct terp_chunk chunk;
    uint64_t n;
    uint8_t *bytes[MAX_NSTREAMS];
    uint64_t nbytes[MAX_NSTREAMS];
};

struct decoded {
    struct terp_chunk chunk;       /* of every step-th value */
    uint8_t *values[MAX_NSTREAMS]; /* each followed by a guard byte */
    enum terp_status status[MAX_NSTREAMS];
};

static uint64_t
nstreams(void)
{
    const char *text = getenv("FUZZ_NSTREAMS");
    const long n = text != NULL ? strtol(text, NULL, 10) : 1;

    return n < 1 ? 1 : n > MAX_NSTREAMS ? MAX_NSTREAMS : (uint64_t)n;
}

static uint64_t ntried;

static void
tell_ntried(void)
{
    fprintf(stderr, "stat::number_of_streams: %llu\n",
            (unsigned long long)ntried);
}

static void
count(uint64_t n)
{
    if (ntried == 0)
        atexit(tell_ntried);
    ntried += n;
}

/* ---- decoding ---- */

#define GUARD 0x5A

static struct decoded *
decode(const struct streams *streams, enum terp_engine_kind engine,
       uint64_t step)
{
    const struct terp_run_options options = {.engine = engine};
    struct terp_run_result result = {.size = sizeof result};
    struct decoded *decoded = malloc(sizeof *decoded);
    const void *src[MAX_NSTREAMS];
    void *dst[MAX_NSTREAMS];
    enum terp_status first = TERP_OK;

    CHECK(decoded != NULL);
    CHECK(terp_coarse_chunk(&streams->chunk, step, &decoded->chunk) == TERP_OK);
    const uint64_t nbytes = terp_chunk_nbytes(&decoded->chunk);
    for (uint64_t i = 0; i < streams->n; i++) {
        src[i] = streams->bytes[i];
        dst[i] = decoded->values[i] = malloc(nbytes + 1);
        CHECK(dst[i] != NULL);
        decoded->values[i][nbytes] = GUARD;
    }
    const enum terp_status st = terp_decode_coarse_batch(
        &options, &streams->chunk, step, streams->n, src, streams->nbytes, dst,
        decoded->status, &result);
    for (uint64_t i = 0; i < streams->n; i++) {
        CHECK(decoded->values[i][nbytes] == GUARD);
        first = first == TERP_OK ? decoded->status[i] : first;
    }
    if (engine == TERP_ENGINE_CUDA && result.used != engine &&
        streams->chunk.type != TERP_BYTES) {
        fprintf(stderr, "the CUDA engine is not used: %s\n",
                result.reason != NULL ? result.reason : "no reason");
        exit(1);
    }
    CHECK(st == first);
    return decoded;
}

static void
free_decoded(const struct streams *streams, struct decoded *decoded)
{
    for (uint64_t i = 0; i < streams->n; i++)
        free(decoded->values[i]);
    free(decoded);
}

/* Called when only one engine accepts a stream. That is allowed only if the
 * engine that accepts it read the whole stream, and the other engine read a
 * prefix whose table is wrong. */
static void
check_prefix(const struct streams *streams, uint64_t i, uint64_t step,
             const struct decoded *taken)
{
    const struct streams one = {.chunk = streams->chunk,
                                .n = 1,
                                .bytes = {streams->bytes[i]},
                                .nbytes = {streams->nbytes[i]}};
    uint8_t *expected = malloc(terp_chunk_nbytes(&taken->chunk));
    uint64_t needed;

    CHECK(expected != NULL);
    CHECK(terp_coarse_nbytes(one.bytes[0], one.nbytes[0], step, &needed) ==
              TERP_OK &&
          needed != UINT64_MAX);
    struct decoded *whole = decode(&one, TERP_ENGINE_CPU, 1);
    CHECK(whole->status[0] == TERP_OK);
    fuzz_take(&one.chunk, whole->values[0], step, expected);
    CHECK(reader_values_equal(&taken->chunk, taken->values[i], expected));
    free_decoded(&one, whole);
    free(expected);
}

static void
compare(const struct streams *streams, uint64_t step)
{
    struct decoded *own = decode(streams, TERP_ENGINE_CPU, step);
    struct decoded *other = decode(streams, TERP_ENGINE_CUDA, step);

    for (uint64_t i = 0; i < streams->n; i++) {
        const bool is_good = own->status[i] == TERP_OK;
        /* If a stream has several faults, engines may report different ones, so
         * only success is compared. */
        if (is_good != (other->status[i] == TERP_OK))
            check_prefix(streams, i, step, is_good ? own : other);
        else
            CHECK(!is_good || reader_values_equal(&own->chunk, own->values[i],
                                                  other->values[i]));
    }
    free_decoded(streams, own);
    free_decoded(streams, other);
}

/* ---- streams ---- */

static void
add_varied(struct streams *streams, const uint8_t *data, size_t nbytes,
           uint64_t seed)
{
    uint8_t *bytes = malloc(nbytes);

    CHECK(bytes != NULL);
    memcpy(bytes, data, nbytes);
    const struct fuzz_stream varied =
        fuzz_stream_make(bytes, fuzz_stream_vary(bytes, nbytes, seed));
    free(bytes);
    streams->bytes[streams->n] = varied.bytes;
    streams->nbytes[streams->n++] = varied.nbytes;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    const struct fuzz_stream first = fuzz_stream_make(data, nbytes);
    struct streams streams = {
        .n = 1, .bytes = {first.bytes}, .nbytes = {nbytes}};

    if (terp_decoded_chunk(first.bytes, nbytes, &streams.chunk) == TERP_OK &&
        terp_chunk_nbytes(&streams.chunk) <= first.max_chunk_nbytes) {
        for (uint64_t i = 1, n = nstreams(); i < n; i++)
            add_varied(&streams, data, nbytes,
                       i + ((uint64_t)first.other << 32));
        compare(&streams, 1);
        if (first.again)
            compare(&streams, first.step);
        count(streams.n);
    }
    for (uint64_t i = 0; i < streams.n; i++)
        free(streams.bytes[i]);
    return 0;
}
