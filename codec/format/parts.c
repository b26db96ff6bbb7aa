/* Writes and reads the streams of a chunk's parts. */
#include "codec/format/parts.h"

#include "codec/format/types.h"

/* Of a part's frame its stream has the coding, the prediction, and what comes
 * behind the dims. */
#define NKEPT 2
_Static_assert(TERP_FRAME_PREDICTION_AT == TERP_FRAME_CODING_AT + 1,
               "They are neighbours.");

static int
common_nbytes(const struct terp_chunk *part)
{
    const struct terp_frame raw = {.chunk = *part, .coding = TERP_CODING_RAW};
    return terp_frame_nbytes(&raw);
}

void
terp_parts_write_bound(struct writer *writer, double bound)
{
    write_le(writer, double_bits(bound), 8);
}

void
terp_parts_write(struct writer *writer, const struct terp_chunk *part,
                 const uint8_t *stream, uint64_t stream_nbytes, bool last)
{
    const uint64_t left_nbytes = stream_nbytes - (uint64_t)common_nbytes(part);

    if (!last)
        write_uleb(writer, NKEPT + left_nbytes);
    write_raw(writer, stream + TERP_FRAME_CODING_AT, NKEPT);
    write_raw(writer, stream + stream_nbytes - left_nbytes, left_nbytes);
}

/* Puts the frame together again, to read it as any other. */
enum terp_status
terp_part_read(const struct terp_chunk *chunk, const uint8_t *bytes,
               uint64_t nbytes, struct terp_part *part_ret)
{
    const struct terp_frame raw = {.chunk = *chunk, .coding = TERP_CODING_RAW};
    uint8_t frame[TERP_FRAME_MAX_NBYTES] = {0};
    const int common = terp_frame_write(&raw, frame);
    int frame_nbytes;

    if (nbytes < NKEPT)
        return TERP_ERR_TRUNCATED;
    const uint64_t copied =
        min_u64(nbytes - NKEPT, sizeof frame - (uint64_t)common);
    memcpy(frame + TERP_FRAME_CODING_AT, bytes, NKEPT);
    memcpy(frame + common, bytes + NKEPT, copied);
    enum terp_status st = terp_frame_read(frame, (uint64_t)common + copied,
                                          &part_ret->frame, &frame_nbytes);
    if (st == TERP_OK && part_ret->frame.has_prefixes)
        st = TERP_ERR_CORRUPT;
    if (st != TERP_OK)
        return st;
    const uint64_t head_nbytes = NKEPT + (uint64_t)(frame_nbytes - common);
    part_ret->body = bytes + head_nbytes;
    part_ret->body_nbytes = nbytes - head_nbytes;
    return TERP_OK;
}

enum terp_status
terp_parts_read(const struct terp_chunk *chunk, const uint8_t *body,
                uint64_t body_nbytes, double *bound_ret,
                struct terp_part parts_ret[TERP_NPARTS])
{
    const struct terp_chunk part = terp_chunk_of_part(chunk);
    struct reader reader = {body, body + body_nbytes, false};

    *bound_ret = double_of_bits(read_le(&reader, 8));
    const uint64_t first_nbytes = read_uleb(&reader);
    const uint8_t *first = reader_take(&reader, first_nbytes);
    if (first == NULL)
        return TERP_ERR_TRUNCATED;
    if (!is_bound(*bound_ret) && !is_zero_bound(*bound_ret))
        return TERP_ERR_CORRUPT;
    enum terp_status st =
        terp_part_read(&part, first, first_nbytes, &parts_ret[0]);
    return st == TERP_OK ? terp_part_read(&part, reader.at,
                                          (uint64_t)(reader.end - reader.at),
                                          &parts_ret[1])
                         : st;
}
