/* Any bytes are safe to decode. terp_decode, terp_decode_coarse, terp_inspect
 * and terp_decoded_nbytes agree with each other, stay inside their buffers
 * (ASan) and allocate little memory (libFuzzer's -malloc_limit_mb). Their
 * results depend neither on the number of threads nor on earlier contents of
 * `dst`.
 *
 * An input that begins as a container is decoded as one, with the right
 * checksums. */
#include <string.h>

#include "codec/api/terp.h"
#include "codec/format/frame.h"
#include "codec/format/types.h"
#include "filter/container.h"
#include "fuzz/streams.h"
#include "fuzz/target.h"

/* Decodes every step-th value and compares it with the whole stream's values.
 * `whole` is NULL if the whole stream does not decode; then the result may be
 * anything, or an error. */
static void
decode_coarse(const uint8_t *src, size_t src_nbytes, uint64_t step,
              const uint8_t *whole)
{
    struct terp_chunk chunk, coarse;
    uint64_t got = 0, needed = 0;

    if (terp_decoded_chunk(src, src_nbytes, &chunk) != TERP_OK)
        return;
    CHECK(terp_coarse_chunk(&chunk, step, &coarse) == TERP_OK);
    CHECK(terp_coarse_nbytes(src, src_nbytes, step, &needed) == TERP_OK);
    const uint64_t nbytes = terp_chunk_nbytes(&coarse);
    uint8_t *values = malloc(nbytes + 1), *expected = malloc(nbytes);
    CHECK(values != NULL && expected != NULL);
    values[nbytes] = 0x5A;
    enum terp_status st =
        terp_decode_coarse(src, src_nbytes, step, values, nbytes, &got, 1);
    CHECK(values[nbytes] == 0x5A);
    if (whole != NULL) {
        fuzz_take(&chunk, whole, step, expected);
        CHECK((st == TERP_OK && got == nbytes) || needed != UINT64_MAX);
        CHECK(st != TERP_OK || memcmp(values, expected, nbytes) == 0);
    }
    if (st == TERP_OK && needed < src_nbytes) {
        CHECK(terp_decode_coarse(src, needed, step, expected, nbytes, &got,
                                 1) == TERP_OK);
        CHECK(memcmp(values, expected, nbytes) == 0);
    }
    free(values);
    free(expected);
}

/* Decodes again with the input's number of threads, into a buffer with other
 * contents. */
static void
decode_again(const struct fuzz_stream *stream, const uint8_t *values,
             uint64_t nbytes, enum terp_status st)
{
    uint8_t *again = malloc(nbytes + 1);
    uint64_t got = 0;

    CHECK(again != NULL);
    memset(again, 0xFF, nbytes + 1);
    CHECK(terp_decode(stream->bytes, stream->nbytes, again, nbytes, &got,
                      stream->nthreads) == st);
    CHECK(again[nbytes] == 0xFF);
    CHECK(st != TERP_OK ||
          (got == nbytes && memcmp(values, again, nbytes) == 0));
    free(again);
}

static void
decode(const struct fuzz_stream *stream)
{
    const uint8_t *src = stream->bytes;
    uint64_t nbytes = 0, got = 0;
    struct terp_info info = {.size = sizeof info};
    const enum terp_status sized =
        terp_decoded_nbytes(src, stream->nbytes, &nbytes);

    if (nbytes > stream->max_chunk_nbytes || sized != TERP_OK) {
        CHECK(terp_decode(src, stream->nbytes, NULL, 0, &got, 1) != TERP_OK);
        return;
    }
    uint8_t *values = malloc(nbytes + 1);
    CHECK(values != NULL);
    memset(values, 0x00, nbytes + 1);
    const enum terp_status st =
        terp_decode(src, stream->nbytes, values, nbytes, &got, 1);
    CHECK(values[nbytes] == 0x00);
    if (stream->nthreads > 1 || stream->again)
        decode_again(stream, values, nbytes, st);
    if (st == TERP_OK) {
        CHECK(got == nbytes);
        CHECK(terp_inspect(src, stream->nbytes, &info) == TERP_OK);
        CHECK(terp_decode(src, stream->nbytes, NULL, nbytes - 1, &got, 1) ==
              TERP_ERR_CAPACITY);
    }
    decode_coarse(src, stream->nbytes, stream->step,
                  st == TERP_OK ? values : NULL);
    free(values);
}

/* Bounds the values of a container, as the fuzzed streams are. */
#define MAX_CONTAINER_NBYTES ((uint64_t)1 << 16)

/* Corrects the checksums of a container and of its streams. */
static void
seal_container(uint8_t *bytes, uint64_t nbytes)
{
    struct terp_container container;
    struct terp_container_walk walk = {.next = 0};
    const uint64_t head_nbytes =
        nbytes < 32 ? nbytes : 32 + 12 * load_le(bytes + 24, 4);

    if (head_nbytes <= nbytes && head_nbytes > TERP_FRAME_DIMS_AT)
        terp_frame_seal(bytes, head_nbytes);
    if (terp_container_read(bytes, nbytes, &container) != TERP_OK)
        return;
    while (terp_container_next(&container, &walk))
        if (walk.stream_nbytes > TERP_FRAME_DIMS_AT)
            terp_frame_seal(bytes + (walk.stream - bytes), walk.stream_nbytes);
}

/* Changes a value, and encodes the chunk again as one of numbers. Whatever the
 * container, the result fits its buffer and is a container that decodes. */
static void
change_container(struct terp_run *run, const struct terp_container *before,
                 uint8_t *values)
{
    const struct terp_params params = {
        .size = sizeof params, .bound_mode = TERP_BOUND_ABSOLUTE, .bound = 1};
    const uint64_t chunk_nbytes = terp_container_chunk_nbytes(before);
    const uint64_t cap_nbytes = terp_container_change_bound(before);
    struct terp_container_walk walk = {.next = 0};
    struct terp_container after;
    struct terp_frame frame;
    uint64_t nbytes;
    int frame_nbytes;
    bool is_rewrite;

    (void)terp_container_next(before, &walk);
    if (terp_frame_read(walk.stream, walk.stream_nbytes, &frame,
                        &frame_nbytes) != TERP_OK ||
        chunk_nbytes % (uint64_t)terp_value_nbytes(frame.chunk.type) != 0)
        return;
    const struct terp_chunk chunk = {
        .type = frame.chunk.type,
        .big_endian = frame.chunk.big_endian,
        .rank = 1,
        .dims = {chunk_nbytes / (uint64_t)terp_value_nbytes(frame.chunk.type)}};
    uint8_t *dst = malloc(cap_nbytes);
    CHECK(dst != NULL);
    values[chunk_nbytes / 2] ^= 1;
    if (terp_container_change(run, &params, &chunk, before, values, dst,
                              &nbytes, &is_rewrite) == TERP_OK) {
        CHECK(nbytes <= cap_nbytes);
        CHECK(terp_container_read(dst, nbytes, &after) == TERP_OK);
        CHECK(terp_container_chunk_nbytes(&after) == chunk_nbytes);
        CHECK(terp_container_decode(run, &after, NULL, values) == TERP_OK);
    }
    free(dst);
}

static void
decode_container(const uint8_t *data, size_t nbytes)
{
    uint8_t *bytes = malloc(nbytes);
    struct terp_container container;
    struct terp_run run;

    CHECK(bytes != NULL);
    memcpy(bytes, data, nbytes);
    seal_container(bytes, nbytes);
    if (terp_container_read(bytes, nbytes, &container) == TERP_OK &&
        terp_container_chunk_nbytes(&container) <= MAX_CONTAINER_NBYTES) {
        uint8_t *values = malloc(terp_container_chunk_nbytes(&container));
        CHECK(values != NULL);
        CHECK(terp_run_begin(NULL, NULL, &run) == TERP_OK);
        if (terp_container_decode(&run, &container, NULL, values) == TERP_OK)
            change_container(&run, &container, values);
        (void)terp_run_end(&run, TERP_OK, NULL);
        free(values);
    }
    free(bytes);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    if (terp_container_is(data, nbytes)) {
        decode_container(data, nbytes);
        return 0;
    }
    struct fuzz_stream stream = fuzz_stream_make(data, nbytes);

    decode(&stream);
    free(stream.bytes);
    return 0;
}
