/* Any bytes are safe as the frame of a stream. All functions that read sizes
 * and the chunk from a frame agree. A frame that is written again reads the
 * same. Any changed bit fails the checksum. */
#include <string.h>

#include "codec/api/terp.h"
#include "codec/format/frame.h"
#include "fuzz/streams.h"
#include "fuzz/target.h"

/* A frame that was read and is written again has the same bytes, except for two
 * fields: a program may choose the width of dims, and checksums of prefixes are
 * filled in later. */
static void
write_again(const struct terp_frame *frame)
{
    uint8_t bytes[TERP_FRAME_MAX_NBYTES] = {0};
    uint8_t again[TERP_FRAME_MAX_NBYTES] = {0};
    struct terp_frame read;
    int read_nbytes;
    const int nbytes = terp_frame_write(frame, bytes);

    CHECK(nbytes == terp_frame_nbytes(frame));
    CHECK(terp_frame_read(bytes, (uint64_t)nbytes, &read, &read_nbytes) ==
          TERP_OK);
    CHECK(read_nbytes == nbytes);
    CHECK(terp_chunks_are_alike(&read.chunk, &frame->chunk));
    CHECK(terp_shapes_are_equal(&read.domain, &frame->domain));
    CHECK(terp_frame_write(&read, again) == nbytes);
    CHECK(memcmp(bytes, again, (size_t)nbytes) == 0);
    for (int i = 0; i < nbytes; i++)
        CHECK(terp_frame_read(bytes, (uint64_t)i, &read, &read_nbytes) !=
              TERP_OK);
}

/* Compares the prefix that suffices for every step-th value. */
static void
read_prefix(const struct fuzz_stream *stream, const struct terp_frame *frame,
            int frame_nbytes, int i)
{
    const struct terp_prefix *prefix = &frame->prefix[i];
    const enum terp_status st = terp_frame_verify_prefix(
        stream->bytes, stream->nbytes, prefix, frame_nbytes);
    uint64_t needed = 0;

    CHECK(terp_coarse_nbytes(stream->bytes, stream->nbytes, UINT64_C(2) << i,
                             &needed) == TERP_OK);
    CHECK(needed == prefix->nbytes);
    CHECK(st != TERP_OK || prefix->nbytes <= stream->nbytes);
}

static void
read_sealed(struct fuzz_stream *stream)
{
    uint8_t *changed =
        stream->bytes + TERP_FRAME_CHECKSUM_AT +
        stream->other % (stream->nbytes - TERP_FRAME_CHECKSUM_AT);

    /* Coding SPEED has a checksum only if the tiles can be found. */
    if (terp_frame_verify(stream->bytes, stream->nbytes) != TERP_OK) {
        CHECK(stream->bytes[TERP_FRAME_CODING_AT] == TERP_CODING_SPEED);
        return;
    }
    *changed ^= (uint8_t)stream->step;
    CHECK(terp_frame_verify(stream->bytes, stream->nbytes) ==
          TERP_ERR_CHECKSUM);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct fuzz_stream stream = fuzz_stream_make(data, nbytes);
    struct terp_chunk chunk, coarse;
    struct terp_frame frame;
    int frame_nbytes;
    uint64_t announced_nbytes = 0, needed = 0;
    const enum terp_status st =
        terp_frame_read(stream.bytes, nbytes, &frame, &frame_nbytes);

    CHECK(terp_decoded_nbytes(stream.bytes, nbytes, &announced_nbytes) == st);
    CHECK(terp_decoded_chunk(stream.bytes, nbytes, &chunk) == st);
    CHECK(terp_coarse_nbytes(stream.bytes, nbytes, stream.step, &needed) == st);
    CHECK((st == TERP_OK) == (announced_nbytes != 0));
    if (st == TERP_OK) {
        CHECK(terp_chunk_nbytes(&chunk) == announced_nbytes);
        CHECK(terp_encode_bound(&chunk) > announced_nbytes);
        CHECK(terp_coarse_chunk(&chunk, stream.step, &coarse) == TERP_OK);
        CHECK(terp_chunk_nbytes(&coarse) <= announced_nbytes);
        CHECK((uint64_t)frame_nbytes <= nbytes);
        write_again(&frame);
        for (int i = 0; i < TERP_NPREFIXES && frame.has_prefixes; i++)
            read_prefix(&stream, &frame, frame_nbytes, i);
        CHECK(terp_decode(stream.bytes, nbytes, NULL, 0, &needed, 1) !=
              TERP_OK);
    }
    if (stream.sealed)
        read_sealed(&stream);
    free(stream.bytes);
    return 0;
}
