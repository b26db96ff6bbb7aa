/* Any bytes decode to the same values, or are refused, by the CUDA engine as by
 * the CPU's. TERP_CUDA_LIBRARY names the engine: that of a machine with a GPU,
 * or the emulated one of another build (h5tests/cuda.cmake), which is slow and
 * tells no edges of its own: inputs are those that reach something in the
 * CPU's. */
#include <stdio.h>
#include <string.h>

#include "codec/api/terp.h"
#include "fuzz/streams.h"
#include "fuzz/target.h"
#include "h5tests/support/reader.h"

static enum terp_status
decode(const struct fuzz_stream *stream, enum terp_engine_kind engine,
       const struct terp_chunk *chunk, uint64_t step, uint8_t *values)
{
    const struct terp_run_options options = {.engine = engine};
    struct terp_run_result result = {.size = sizeof result};
    const void *src = stream->bytes;
    void *dst = values;
    enum terp_status status;
    const enum terp_status st =
        terp_decode_coarse_batch(&options, chunk, step, 1, &src,
                                 &stream->nbytes, &dst, &status, &result);

    if (engine == TERP_ENGINE_CUDA && result.used != engine &&
        chunk->type != TERP_BYTES) {
        fprintf(stderr, "the CUDA engine is not used: %s\n",
                result.reason != NULL ? result.reason : "no reason");
        exit(1);
    }
    CHECK(st == status);
    return st;
}

/* One of them had nothing to object to: it read the whole stream, of which the
 * other one took a prefix that lies. */
static void
check_prefix(const struct fuzz_stream *stream, const struct terp_chunk *chunk,
             const struct terp_chunk *taken, uint64_t step,
             const uint8_t *values)
{
    uint8_t *whole = malloc(terp_chunk_nbytes(chunk));
    uint8_t *expected = malloc(terp_chunk_nbytes(taken));
    uint64_t needed;

    CHECK(whole != NULL && expected != NULL);
    CHECK(terp_coarse_nbytes(stream->bytes, stream->nbytes, step, &needed) ==
              TERP_OK &&
          needed != UINT64_MAX);
    CHECK(decode(stream, TERP_ENGINE_CPU, chunk, 1, whole) == TERP_OK);
    fuzz_take(chunk, whole, step, expected);
    CHECK(reader_values_equal(taken, values, expected));
    free(whole);
    free(expected);
}

static void
compare(const struct fuzz_stream *stream, const struct terp_chunk *chunk,
        uint64_t step)
{
    struct terp_chunk taken;

    CHECK(terp_coarse_chunk(chunk, step, &taken) == TERP_OK);
    const uint64_t nbytes = terp_chunk_nbytes(&taken);
    uint8_t *values = malloc(nbytes + 1), *other = malloc(nbytes + 1);
    CHECK(values != NULL && other != NULL);
    values[nbytes] = other[nbytes] = 0x5A;
    const enum terp_status st =
        decode(stream, TERP_ENGINE_CPU, chunk, step, values);
    const enum terp_status other_st =
        decode(stream, TERP_ENGINE_CUDA, chunk, step, other);
    CHECK(values[nbytes] == 0x5A && other[nbytes] == 0x5A);
    /* Which of several faults is told depends on who is first to find one. */
    if ((st == TERP_OK) != (other_st == TERP_OK))
        check_prefix(stream, chunk, &taken, step,
                     st == TERP_OK ? values : other);
    else
        CHECK(st != TERP_OK || reader_values_equal(&taken, values, other));
    free(values);
    free(other);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct fuzz_stream stream = fuzz_stream_make(data, nbytes);
    struct terp_chunk chunk;

    if (terp_decoded_chunk(stream.bytes, nbytes, &chunk) == TERP_OK &&
        terp_chunk_nbytes(&chunk) <= stream.max_chunk_nbytes) {
        compare(&stream, &chunk, 1);
        if (stream.again)
            compare(&stream, &chunk, stream.step);
    }
    free(stream.bytes);
    return 0;
}
