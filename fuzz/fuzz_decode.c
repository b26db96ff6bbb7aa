/* Any bytes are safe to decode: terp_decode, terp_inspect and
 * terp_decoded_nbytes agree with each other, stay inside their buffers (ASan)
 * and ask for little memory (libFuzzer's -malloc_limit_mb); what they return
 * depends neither on the number of threads nor on what was in `dst`. */
#include <stdlib.h>
#include <string.h>

#include "codec/api/terp.h"
#include "codec/format/frame.h"
#include "codec/format/types.h"

#define MAX_CHUNK_NBYTES (64u << 10)

/* Survives NDEBUG. */
#define CHECK(condition)  \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

/* Copies every step-th value of each dimension. */
static void
take(const struct terp_chunk *chunk, const uint8_t *values, uint64_t step,
     uint8_t *taken)
{
    const uint64_t nbytes = (uint64_t)terp_value_nbytes(chunk->type);
    const uint64_t nvalues = terp_chunk_nbytes(chunk) / nbytes;

    for (uint64_t v = 0; v < nvalues; v++) {
        uint64_t left = v;
        bool is_taken = true;
        for (int i = chunk->rank - 1; i >= 0; left /= chunk->dims[i--])
            is_taken &= left % chunk->dims[i] % step == 0;
        if (is_taken) {
            memcpy(taken, values + v * nbytes, nbytes);
            taken += nbytes;
        }
    }
}

/* Every step-th value: those of the whole stream, or where `whole` is NULL, and
 * that is an error, any or an error. */
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
        take(&chunk, whole, step, expected);
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

static void
decode(const uint8_t *src, size_t src_nbytes)
{
    uint64_t announced_nbytes = 0, one_nbytes = 0, two_nbytes = 0;
    struct terp_info info = {.size = sizeof info};
    enum terp_status sized =
        terp_decoded_nbytes(src, src_nbytes, &announced_nbytes);
    enum terp_status inspected = terp_inspect(src, src_nbytes, &info);

    CHECK((sized == TERP_OK) == (announced_nbytes != 0));
    if (inspected == TERP_OK)
        CHECK(sized == TERP_OK && info.chunk_nbytes == announced_nbytes &&
              info.stream_nbytes == src_nbytes);
    if (announced_nbytes > MAX_CHUNK_NBYTES) {
        CHECK(terp_decode(src, src_nbytes, NULL, 0, &one_nbytes, 1) != TERP_OK);
        (void)terp_coarse_nbytes(src, src_nbytes, 4, &one_nbytes);
        return;
    }
    uint8_t *one = malloc(announced_nbytes + 1);
    uint8_t *two = malloc(announced_nbytes + 1);
    CHECK(one != NULL && two != NULL);
    memset(one, 0x00, announced_nbytes + 1);
    memset(two, 0xFF, announced_nbytes + 1);
    enum terp_status decoded =
        terp_decode(src, src_nbytes, one, announced_nbytes, &one_nbytes, 1);
    CHECK(terp_decode(src, src_nbytes, two, announced_nbytes, &two_nbytes, 2) ==
          decoded);
    if (decoded == TERP_OK) {
        CHECK(inspected == TERP_OK);
        CHECK(one_nbytes == announced_nbytes && two_nbytes == one_nbytes);
        CHECK(memcmp(one, two, one_nbytes) == 0);
        CHECK(terp_decode(src, src_nbytes, one, announced_nbytes - 1,
                          &one_nbytes, 1) == TERP_ERR_CAPACITY);
    }
    for (uint64_t step = 2; step <= 16; step *= 2)
        decode_coarse(src, src_nbytes, step, decoded == TERP_OK ? one : NULL);
    CHECK(one[announced_nbytes] == 0x00 && two[announced_nbytes] == 0xFF);
    free(one);
    free(two);
}

/* The checksums of what prefixes there are. */
static void
seal_prefixes(uint8_t *stream, size_t nbytes)
{
    uint32_t told[TERP_NPREFIXES];
    struct terp_frame frame;
    int frame_nbytes;

    if (terp_frame_read(stream, nbytes, &frame, &frame_nbytes) != TERP_OK ||
        !frame.has_prefixes)
        return;
    for (int i = 0; i < TERP_NPREFIXES; i++) {
        told[i] = frame.prefix[i].nbytes;
        if (told[i] < TERP_PREFIX_MIN_NBYTES || told[i] > nbytes)
            return;
    }
    terp_frame_seal_prefixes(stream, frame_nbytes, told);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    decode(data, nbytes);
    if (nbytes >= TERP_FRAME_DIMS_AT) {
        /* With a checksum that holds, to get at what lies behind it. */
        uint8_t *sealed = malloc(nbytes);
        CHECK(sealed != NULL);
        memcpy(sealed, data, nbytes);
        seal_prefixes(sealed, nbytes);
        terp_frame_seal(sealed, nbytes);
        decode(sealed, nbytes);
        free(sealed);
    }
    return 0;
}
