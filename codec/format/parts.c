/* Writes and reads inner streams. */
#include "codec/format/parts.h"

_Static_assert(TERP_FRAME_PREDICTION_AT == TERP_FRAME_CODING_AT + 1,
               "An inner stream starts with both bytes.");

uint64_t
terp_part_common_nbytes(const struct terp_chunk *part)
{
    const struct terp_frame raw = {.chunk = *part, .coding = TERP_CODING_RAW};
    return (uint64_t)terp_frame_nbytes(&raw);
}

void
terp_parts_write_bound(struct writer *writer, double bound)
{
    write_le(writer, double_bits(bound), 8);
}

void
terp_part_write_nbytes(struct writer *writer, const struct terp_chunk *part,
                       uint64_t stream_nbytes)
{
    write_uleb(writer,
               TERP_PART_NKEPT + stream_nbytes - terp_part_common_nbytes(part));
}

void
terp_parts_write(struct writer *writer, const struct terp_chunk *part,
                 const uint8_t *stream, uint64_t stream_nbytes, bool last)
{
    const uint64_t left_nbytes = stream_nbytes - terp_part_common_nbytes(part);

    if (!last)
        terp_part_write_nbytes(writer, part, stream_nbytes);
    write_raw(writer, stream + TERP_FRAME_CODING_AT, TERP_PART_NKEPT);
    write_raw(writer, stream + stream_nbytes - left_nbytes, left_nbytes);
}

/* Writes the frame up to the end of the dims, as of a stream that is no part.
 * Returns its length. */
static int
write_frame(const struct terp_chunk *part, const uint8_t *bytes,
            uint8_t frame[TERP_FRAME_MAX_NBYTES])
{
    const struct terp_frame raw = {.chunk = *part, .coding = TERP_CODING_RAW};
    const int nbytes = terp_frame_write(&raw, frame);

    memcpy(frame + TERP_FRAME_CODING_AT, bytes, TERP_PART_NKEPT);
    return nbytes;
}

/* Rebuilds the complete frame, to read it as any other. */
enum terp_status
terp_part_read(const struct terp_chunk *chunk, int version,
               const uint8_t *bytes, uint64_t nbytes,
               struct terp_part *part_ret)
{
    uint8_t frame[TERP_FRAME_MAX_NBYTES] = {0};
    int frame_nbytes;

    if (nbytes < TERP_PART_NKEPT)
        return TERP_ERR_TRUNCATED;
    const int common = write_frame(chunk, bytes, frame);
    frame[TERP_FRAME_VERSION_AT] = (uint8_t)version;
    const uint64_t copied =
        min_u64(nbytes - TERP_PART_NKEPT, sizeof frame - (uint64_t)common);
    memcpy(frame + common, bytes + TERP_PART_NKEPT, copied);
    enum terp_status st = terp_frame_read(frame, (uint64_t)common + copied,
                                          &part_ret->frame, &frame_nbytes);
    if (st == TERP_OK && part_ret->frame.has_prefixes)
        st = TERP_ERR_CORRUPT;
    if (st != TERP_OK)
        return st;
    const uint64_t head_nbytes =
        TERP_PART_NKEPT + (uint64_t)(frame_nbytes - common);
    part_ret->bytes = bytes;
    part_ret->nbytes = nbytes;
    part_ret->body = bytes + head_nbytes;
    part_ret->body_nbytes = nbytes - head_nbytes;
    return TERP_OK;
}
