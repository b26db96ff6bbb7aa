/* Compares the decoder of decoder/terp_decode.c with the codec. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "codec/api/terp.h"
#include "codec/format/types.h"
#define TERP_READER_HEADER
// NOLINTNEXTLINE(bugprone-suspicious-include)
#include "decoder/terp_decode.c"

static inline bool
reader_is_nan(enum terp_type type, const uint8_t *value, bool big_endian)
{
    const int nbytes = terp_value_nbytes(type);
    const int nfraction = type == TERP_FLOAT32    ? 23
                          : type == TERP_FLOAT64  ? 52
                          : type == TERP_FLOAT16  ? 10
                          : type == TERP_BFLOAT16 ? 7
                                                  : 0;
    uint64_t bits = 0;

    for (int i = 0; i < nbytes; i++)
        bits = bits << 8 | value[big_endian ? i : nbytes - 1 - i];
    const uint64_t sign = UINT64_C(1) << (8 * nbytes - 1);
    const uint64_t infinity = (sign - 1) >> nfraction << nfraction;
    return nfraction > 0 && (bits & (sign - 1)) > infinity;
}

/* Whether values have the same bits. NaN compare equal, because the format does
 * not say which NaN arithmetic makes. */
static inline bool
reader_values_equal(const struct terp_chunk *chunk, const uint8_t *values,
                    const uint8_t *other)
{
    enum terp_type type = chunk->type;
    const uint64_t nbytes = terp_chunk_nbytes(chunk);

    if (type == TERP_COMPLEX64)
        type = TERP_FLOAT32;
    if (type == TERP_COMPLEX128)
        type = TERP_FLOAT64;
    const uint64_t step = (uint64_t)terp_value_nbytes(type);
    for (uint64_t at = 0; at < nbytes; at += step)
        if (memcmp(values + at, other + at, step) != 0 &&
            !(reader_is_nan(type, values + at, chunk->big_endian) &&
              reader_is_nan(type, other + at, chunk->big_endian)))
            return false;
    return true;
}

/* Whether both decoders describe a stream alike and, if its values have at most
 * `max_nbytes`, decode it to the same values or both refuse it. `is_whole`: an
 * encoder made the stream, so NaN must have the same bits too. `*decoded_ret`:
 * both decoded it. */
static inline bool
reader_agrees(const uint8_t *stream, size_t stream_nbytes, uint64_t max_nbytes,
              bool is_whole, bool *decoded_ret)
{
    struct terp_reader_chunk told;
    struct terp_chunk chunk;
    uint64_t got;
    const bool described =
        terp_decoded_chunk(stream, stream_nbytes, &chunk) == TERP_OK;

    *decoded_ret = false;
    if (described != (terp_reader_decode(stream, stream_nbytes, &told, NULL,
                                         0) == TERP_READER_OK))
        return false;
    if (!described)
        return true;
    const uint64_t nbytes = terp_chunk_nbytes(&chunk);
    if (told.nvalues * told.value_nbytes != nbytes ||
        told.type != (uint64_t)chunk.type ||
        told.big_endian != chunk.big_endian || told.stack != chunk.stack ||
        told.rank != (uint64_t)chunk.rank ||
        memcmp(told.dims, chunk.dims,
               (size_t)chunk.rank * sizeof chunk.dims[0]) != 0)
        return false;
    if (nbytes > max_nbytes)
        return true;
    uint8_t *values = malloc(nbytes), *other = malloc(nbytes);
    if (values == NULL || other == NULL)
        abort();
    *decoded_ret =
        terp_decode(stream, stream_nbytes, values, nbytes, &got, 1) == TERP_OK;
    const bool other_decoded =
        terp_reader_decode(stream, stream_nbytes, &told, other, nbytes) ==
        TERP_READER_OK;
    const bool agrees =
        *decoded_ret == other_decoded &&
        (!other_decoded || memcmp(values, other, nbytes) == 0 ||
         (!is_whole && reader_values_equal(&chunk, values, other)));
    free(values);
    free(other);
    return agrees;
}
