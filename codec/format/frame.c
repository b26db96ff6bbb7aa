/* Writes, reads and seals the frame of a stream. */
#include "codec/format/frame.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "codec/format/base.h"

static const uint8_t magic[4] = {'T', 'E', 'R', 'P'};

/* The layout byte: rank - 1 | log2(dim bytes) << 2 | type << 4 | flags. */
enum {
    LAYOUT_BIG_ENDIAN = 0x40,
    LAYOUT_STACK = 0x80
};

/* log2 of the bytes that hold the largest dim. */
static int
dim_width_log2(const struct terp_chunk *chunk)
{
    uint64_t largest = 0;
    for (int i = 0; i < chunk->rank; i++)
        largest |= chunk->dims[i];
    return largest >> 32 ? 3 : largest >> 16 ? 2 : largest >> 8 ? 1 : 0;
}

static bool
has_bound(enum terp_coding coding)
{
    return coding != TERP_CODING_RAW && coding != TERP_CODING_CONSTANT;
}

int
terp_frame_nbytes(const struct terp_frame *frame)
{
    return TERP_FRAME_DIMS_AT +
           (frame->chunk.rank << dim_width_log2(&frame->chunk)) +
           (has_bound(frame->coding) ? 8 : 0);
}

int
terp_frame_write(const struct terp_frame *frame, uint8_t *dst)
{
    const struct terp_chunk *chunk = &frame->chunk;
    int width_log2 = dim_width_log2(chunk);
    uint8_t *at = dst + TERP_FRAME_DIMS_AT;

    memcpy(dst, magic, sizeof magic);
    dst[TERP_FRAME_VERSION_AT] = TERP_FORMAT_VERSION;
    dst[5] =
        (uint8_t)((chunk->rank - 1) | width_log2 << 2 | (int)chunk->type << 4 |
                  (chunk->big_endian ? LAYOUT_BIG_ENDIAN : 0) |
                  (chunk->stack ? LAYOUT_STACK : 0));
    dst[TERP_FRAME_CODING_AT] = (uint8_t)frame->coding;
    dst[TERP_FRAME_PREDICTION_AT] =
        (uint8_t)((int)frame->prediction |
                  (frame->has_specials ? TERP_FRAME_SPECIALS : 0));
    for (int i = 0; i < chunk->rank; i++) {
        store_le(at, chunk->dims[i], 1 << width_log2);
        at += 1 << width_log2;
    }
    if (has_bound(frame->coding)) {
        store_le(at, double_bits(frame->bound), 8);
        at += 8;
    }
    return (int)(at - dst);
}

/* The bytes before the checksum seed the hash of the bytes behind it. */
static uint64_t
checksum(const uint8_t *stream, uint64_t stream_nbytes)
{
    return XXH3_64bits_withSeed(stream + TERP_FRAME_DIMS_AT,
                                stream_nbytes - TERP_FRAME_DIMS_AT,
                                load_le(stream, TERP_FRAME_CHECKSUM_AT));
}

void
terp_frame_seal(uint8_t *stream, uint64_t stream_nbytes)
{
    store_le(stream + TERP_FRAME_CHECKSUM_AT, checksum(stream, stream_nbytes),
             8);
}

enum terp_status
terp_frame_verify(const uint8_t *src, uint64_t src_nbytes)
{
    uint64_t stored = load_le(src + TERP_FRAME_CHECKSUM_AT, 8);
    return stored == checksum(src, src_nbytes) ? TERP_OK : TERP_ERR_CHECKSUM;
}

enum terp_status
terp_frame_read(const uint8_t *src, uint64_t src_nbytes,
                struct terp_frame *frame_ret, int *frame_nbytes_ret)
{
    struct terp_frame frame = {0};
    struct terp_chunk *chunk = &frame.chunk;

    if (src_nbytes < sizeof magic)
        return TERP_ERR_TRUNCATED;
    if (memcmp(src, magic, sizeof magic) != 0)
        return TERP_ERR_MAGIC;
    if (src_nbytes < TERP_FRAME_DIMS_AT)
        return TERP_ERR_TRUNCATED;
    if (src[TERP_FRAME_VERSION_AT] > TERP_FORMAT_VERSION)
        return TERP_ERR_VERSION;

    int width = 1 << (src[5] >> 2 & 3), type = src[5] >> 4 & 3;
    int prediction = src[TERP_FRAME_PREDICTION_AT] & TERP_FRAME_PREDICTION;
    chunk->rank = (src[5] & 3) + 1;
    chunk->big_endian = src[5] & LAYOUT_BIG_ENDIAN;
    chunk->stack = src[5] & LAYOUT_STACK;
    if (type > TERP_BYTES || src[TERP_FRAME_CODING_AT] >= TERP_NCODINGS ||
        prediction >= TERP_NPREDICTIONS ||
        (src[TERP_FRAME_PREDICTION_AT] &
         ~(TERP_FRAME_PREDICTION | TERP_FRAME_SPECIALS)))
        return TERP_ERR_CORRUPT;
    chunk->type = (enum terp_type)type;
    frame.coding = (enum terp_coding)src[TERP_FRAME_CODING_AT];
    frame.prediction = (enum terp_prediction)prediction;
    frame.has_specials = src[TERP_FRAME_PREDICTION_AT] & TERP_FRAME_SPECIALS;
    if (has_bound(frame.coding) != (prediction != TERP_PREDICTION_NONE) ||
        (frame.coding == TERP_CODING_RAW && frame.has_specials) ||
        (frame.coding != TERP_CODING_RAW && chunk->type == TERP_BYTES))
        return TERP_ERR_CORRUPT;

    uint64_t frame_nbytes = TERP_FRAME_DIMS_AT +
                            (uint64_t)(chunk->rank * width) +
                            (has_bound(frame.coding) ? 8 : 0);
    if (src_nbytes < frame_nbytes)
        return TERP_ERR_TRUNCATED;
    const uint8_t *at = src + TERP_FRAME_DIMS_AT;
    for (int i = 0; i < chunk->rank; i++, at += width)
        chunk->dims[i] = load_le(at, width);
    if (terp_chunk_nbytes(chunk) == 0)
        return TERP_ERR_CORRUPT;
    if (has_bound(frame.coding)) {
        frame.bound = double_of_bits(load_le(at, 8));
        if (!is_bound(frame.bound))
            return TERP_ERR_CORRUPT;
    }
    *frame_ret = frame;
    *frame_nbytes_ret = (int)frame_nbytes;
    return TERP_OK;
}
