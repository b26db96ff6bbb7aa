/* Checks a chunk whose stream is expected to have a coding. */
#pragma once

#include <stdlib.h>

#include "codec/format/frame.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/reader.h"

static inline enum terp_coding
coding_of(const struct terp_stream *stream)
{
    return (enum terp_coding)stream->bytes[TERP_FRAME_CODING_AT];
}

static inline int
version_of(const struct terp_stream *stream)
{
    return stream->bytes[TERP_FRAME_VERSION_AT];
}

/* Encodes a chunk. The stream has `coding`, and version 2 if only that version
 * has the coding. Both decoders give the values back, and the first one some of
 * them. */
static inline struct terp_stream
check_as(const char *name, const struct terp_params *params,
         const struct terp_chunk *chunk, const uint8_t *values,
         enum terp_coding coding)
{
    const uint64_t nbytes = terp_chunk_nbytes(chunk);
    const struct terp_stream stream =
        terp_case_encode(params, chunk, values, 1);
    uint8_t *decoded = terp_case_alloc(nbytes);
    uint64_t got;
    bool both;

    if (coding_of(&stream) != coding)
        fail_msg("%s: coding %d", name, (int)coding_of(&stream));
    if (coding == TERP_CODING_GRID || coding == TERP_CODING_COLUMNS ||
        coding == TERP_CODING_RANKS)
        assert_int_equal(version_of(&stream), 2);
    assert_int_equal(
        terp_decode(stream.bytes, stream.nbytes, decoded, nbytes, &got, 3),
        TERP_OK);
    assert_memory_equal(decoded, values, nbytes);
    assert_true(
        reader_agrees(stream.bytes, stream.nbytes, UINT64_MAX, true, &both));
    assert_true(both);
    for (uint64_t step = 2; step <= 16; step *= 2)
        assert_int_equal(
            terp_case_check_coarse(name, &stream, decoded, step, 1), TERP_OK);
    free(decoded);
    return stream;
}
