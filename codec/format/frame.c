/* Writes, reads and seals the frame of a stream. */
#include "codec/format/frame.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "codec/format/base.h"
#include "codec/format/bytes.h"
#include "codec/format/columns.h"
#include "codec/format/speed.h"
#include "codec/format/types.h"

static const uint8_t magic[4] = {'T', 'E', 'R', 'P'};

/* The layout byte: rank - 1 | log2(dim bytes) << 2 | type << 4 | flags. The two
 * bits of the type hold types 0 to 2. LAYOUT_OTHER_TYPE says that a byte behind
 * the dims holds the type. */
enum {
    LAYOUT_TYPE_SHIFT = 4,
    LAYOUT_OTHER_TYPE = 3,
    LAYOUT_BIG_ENDIAN = 0x40,
    LAYOUT_STACK = 0x80,
    LAYOUT_NOT_OF_DOMAIN = 0x70 /* must be 0 in a domain's layout byte */
};

/* log2 of the number of bytes of each stored dim. */
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
    return coding != TERP_CODING_RAW && coding != TERP_CODING_CONSTANT &&
           !terp_coding_holds(coding);
}

bool
terp_shapes_are_equal(const struct terp_chunk *a, const struct terp_chunk *b)
{
    bool equal = a->rank == b->rank && a->stack == b->stack;

    for (int i = 0; equal && i < a->rank; i++)
        equal = a->dims[i] == b->dims[i];
    return equal;
}

bool
terp_chunks_are_alike(const struct terp_chunk *a, const struct terp_chunk *b)
{
    return a->type == b->type && a->big_endian == b->big_endian &&
           terp_shapes_are_equal(a, b);
}

static bool
has_domain(const struct terp_frame *frame)
{
    return has_bound(frame->coding) && frame->domain.rank > 0 &&
           !terp_shapes_are_equal(&frame->chunk, &frame->domain);
}

static bool
is_other_type(enum terp_type type)
{
    return type >= (enum terp_type)LAYOUT_OTHER_TYPE;
}

int
terp_frame_nbytes(const struct terp_frame *frame)
{
    int nbytes = TERP_FRAME_DIMS_AT +
                 (frame->chunk.rank << dim_width_log2(&frame->chunk)) +
                 (is_other_type(frame->chunk.type) ? 1 : 0) +
                 (has_bound(frame->coding) ? 8 : 0);
    return has_domain(frame)
               ? nbytes + 1 +
                     (frame->domain.rank << dim_width_log2(&frame->domain))
               : nbytes;
}

static uint8_t
layout_byte(const struct terp_chunk *chunk)
{
    return (uint8_t)((chunk->rank - 1) | dim_width_log2(chunk) << 2 |
                     (chunk->stack ? LAYOUT_STACK : 0));
}

static uint8_t *
write_dims(const struct terp_chunk *chunk, uint8_t *at)
{
    int width = 1 << dim_width_log2(chunk);

    for (int i = 0; i < chunk->rank; i++, at += width)
        store_le(at, chunk->dims[i], width);
    return at;
}

int
terp_frame_write(const struct terp_frame *frame, uint8_t *dst)
{
    const struct terp_chunk *chunk = &frame->chunk;
    const int type =
        is_other_type(chunk->type) ? LAYOUT_OTHER_TYPE : (int)chunk->type;

    memcpy(dst, magic, sizeof magic);
    dst[TERP_FRAME_VERSION_AT] =
        (uint8_t)(frame->version == 0 ? TERP_FORMAT_FIRST_VERSION
                                      : frame->version);
    dst[5] = (uint8_t)(layout_byte(chunk) | type << LAYOUT_TYPE_SHIFT |
                       (chunk->big_endian ? LAYOUT_BIG_ENDIAN : 0));
    dst[TERP_FRAME_CODING_AT] = (uint8_t)frame->coding;
    dst[TERP_FRAME_PREDICTION_AT] =
        (uint8_t)((int)frame->prediction |
                  (frame->has_specials ? TERP_FRAME_SPECIALS : 0) |
                  (has_domain(frame) ? TERP_FRAME_DOMAIN : 0) |
                  (frame->is_pointwise && has_bound(frame->coding)
                       ? TERP_FRAME_POINTWISE
                       : 0));
    uint8_t *at = write_dims(chunk, dst + TERP_FRAME_DIMS_AT);
    if (is_other_type(chunk->type))
        *at++ = (uint8_t)chunk->type;
    if (has_domain(frame)) {
        *at = layout_byte(&frame->domain);
        at = write_dims(&frame->domain, at + 1);
    }
    if (has_bound(frame->coding)) {
        store_le(at, double_bits(frame->bound), 8);
        at += 8;
    }
    return (int)(at - dst);
}

/* The hash of a piece. If `table_end` is not 0, the table of prefixes ends that
 * many bytes behind `at` and counts as zeros. */
static uint64_t
hash_piece(const uint8_t *at, uint64_t n, uint64_t seed, int table_end)
{
    static const uint8_t zeros[TERP_PREFIXES_NBYTES];
    XXH3_state_t state;

    if (table_end == 0)
        return XXH3_64bits_withSeed(at, n, seed);
    memset(&state, 0, sizeof state); /* XXH3 reads it */
    XXH3_64bits_reset_withSeed(&state, seed);
    XXH3_64bits_update(&state, at, (size_t)table_end - sizeof zeros);
    XXH3_64bits_update(&state, zeros, sizeof zeros);
    XXH3_64bits_update(&state, at + table_end, n - (uint64_t)table_end);
    return XXH3_64bits_digest(&state);
}

/* The bytes before the checksum seed the hashes of the bytes behind it.
 * `frame_nbytes` > 0: the frame ends with the table of prefixes, which counts
 * as zeros. */
static uint64_t
checksum(const uint8_t *stream, uint64_t stream_nbytes, int frame_nbytes)
{
    const uint64_t seed = load_le(stream, TERP_FRAME_CHECKSUM_AT);
    const uint8_t *at = stream + TERP_FRAME_DIMS_AT;
    uint64_t left = stream_nbytes - TERP_FRAME_DIMS_AT, sum = 0;
    const uint64_t npieces = terp_checksum_npieces(left);

    for (uint64_t i = 0; i < npieces; i++) {
        const uint64_t n = i + 1 < npieces ? TERP_CHECKSUM_PIECE_NBYTES : left;
        sum += terp_checksum_share(
            hash_piece(at, n, seed,
                       i == 0 && frame_nbytes > 0
                           ? frame_nbytes - TERP_FRAME_DIMS_AT
                           : 0),
            i);
        at += n;
        left -= n;
    }
    return sum;
}

void
terp_frame_seal_prefixes(uint8_t *stream, int frame_nbytes,
                         const uint32_t nbytes[TERP_NPREFIXES])
{
    uint8_t *at = stream + frame_nbytes - TERP_PREFIXES_NBYTES;

    for (int i = 0; i < TERP_NPREFIXES; i++, at += TERP_PREFIX_NBYTES) {
        store_le(at, nbytes[i], 4);
        store_le(
            at + 4,
            terp_prefix_checksum(checksum(stream, nbytes[i], frame_nbytes)), 4);
    }
}

enum terp_status
terp_frame_verify_prefix(const uint8_t *src, uint64_t src_nbytes,
                         const struct terp_prefix *prefix, int frame_nbytes)
{
    if (prefix->nbytes < TERP_PREFIX_MIN_NBYTES)
        return TERP_ERR_CORRUPT;
    if (prefix->nbytes > src_nbytes)
        return TERP_ERR_TRUNCATED;
    return prefix->checksum == terp_prefix_checksum(
                                   checksum(src, prefix->nbytes, frame_nbytes))
               ? TERP_OK
               : TERP_ERR_CHECKSUM;
}

/* Decodes a layout byte and reads the dims behind it. */
static bool
read_layout(uint8_t byte, struct reader *reader, struct terp_chunk *chunk)
{
    int width = 1 << (byte >> 2 & 3);

    chunk->rank = (byte & 3) + 1;
    chunk->stack = byte & LAYOUT_STACK;
    for (int i = 0; i < chunk->rank; i++)
        chunk->dims[i] = read_le(reader, width);
    return !reader->underflow;
}

/* A domain must have as many values as the chunk, and another shape. */
static enum terp_status
read_domain(struct reader *reader, struct terp_frame *frame)
{
    uint8_t byte = (uint8_t)read_le(reader, 1);

    frame->domain = (struct terp_chunk){.type = frame->chunk.type,
                                        .big_endian = frame->chunk.big_endian};
    if (!read_layout(byte, reader, &frame->domain))
        return TERP_ERR_TRUNCATED;
    return byte & LAYOUT_NOT_OF_DOMAIN ||
                   terp_chunk_nbytes(&frame->domain) !=
                       terp_chunk_nbytes(&frame->chunk) ||
                   terp_shapes_are_equal(&frame->domain, &frame->chunk)
               ? TERP_ERR_CORRUPT
               : TERP_OK;
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
    frame.version = src[TERP_FRAME_VERSION_AT];
    if (frame.version < TERP_FORMAT_FIRST_VERSION ||
        frame.version > TERP_FORMAT_VERSION)
        return TERP_ERR_VERSION;

    struct reader reader = {src + TERP_FRAME_DIMS_AT, src + src_nbytes, false};
    int type = src[5] >> LAYOUT_TYPE_SHIFT & 3,
        flags = src[TERP_FRAME_PREDICTION_AT];
    int prediction = flags & TERP_FRAME_PREDICTION;
    if (!terp_coding_is_valid(src[TERP_FRAME_CODING_AT]) ||
        prediction >= TERP_NPREDICTIONS ||
        (flags & TERP_FRAME_PREFIXES && prediction != TERP_PREDICTION_SPLINE) ||
        (flags & TERP_FRAME_POINTWISE &&
         prediction == TERP_PREDICTION_LOSSLESS))
        return TERP_ERR_CORRUPT;
    chunk->type = (enum terp_type)type;
    chunk->big_endian = src[5] & LAYOUT_BIG_ENDIAN;
    frame.coding = (enum terp_coding)src[TERP_FRAME_CODING_AT];
    frame.prediction = (enum terp_prediction)prediction;
    frame.has_specials = flags & TERP_FRAME_SPECIALS;
    frame.is_pointwise = flags & TERP_FRAME_POINTWISE;
    frame.has_prefixes = flags & TERP_FRAME_PREFIXES;
    const bool is_predicted =
        has_bound(frame.coding) && frame.coding != TERP_CODING_SPEED;
    if (is_predicted != (prediction != TERP_PREDICTION_NONE) ||
        (!is_predicted && frame.coding != TERP_CODING_CONSTANT &&
         frame.has_specials) ||
        (terp_coding_is_new(frame.coding) &&
         frame.version == TERP_FORMAT_FIRST_VERSION) ||
        (!is_predicted && flags & (TERP_FRAME_DOMAIN | TERP_FRAME_POINTWISE)) ||
        (frame.coding != TERP_CODING_RAW && chunk->type == TERP_BYTES))
        return TERP_ERR_CORRUPT;

    if (!read_layout(src[5], &reader, chunk))
        return TERP_ERR_TRUNCATED;
    if (type == LAYOUT_OTHER_TYPE) {
        type = (int)read_le(&reader, 1);
        if (reader.underflow)
            return TERP_ERR_TRUNCATED;
        if (type < LAYOUT_OTHER_TYPE || !terp_type_is_known(type))
            return TERP_ERR_CORRUPT;
        chunk->type = (enum terp_type)type;
    }
    if (terp_chunk_nbytes(chunk) == 0 ||
        (frame.coding != TERP_CODING_RAW &&
         (frame.coding == TERP_CODING_PARTS) !=
             (terp_type_nparts(chunk->type) > 1)) ||
        ((frame.coding == TERP_CODING_REFERENCES ||
          frame.coding == TERP_CODING_RANKS) &&
         !terp_references_are_possible(chunk->type)) ||
        (frame.coding == TERP_CODING_GRID && chunk->type > TERP_FLOAT64) ||
        (frame.coding == TERP_CODING_COLUMNS &&
         !terp_columns_are_possible(chunk)))
        return TERP_ERR_CORRUPT;
    frame.domain = *chunk;
    enum terp_status st =
        flags & TERP_FRAME_DOMAIN ? read_domain(&reader, &frame) : TERP_OK;
    if (st != TERP_OK)
        return st;
    if (has_bound(frame.coding))
        frame.bound = double_of_bits(read_le(&reader, 8));
    for (int i = 0; i < TERP_NPREFIXES && frame.has_prefixes; i++) {
        frame.prefix[i].nbytes = (uint32_t)read_le(&reader, 4);
        frame.prefix[i].checksum = (uint32_t)read_le(&reader, 4);
    }
    if (reader.underflow)
        return TERP_ERR_TRUNCATED;
    if (has_bound(frame.coding) && !is_bound(frame.bound) &&
        !(is_zero_bound(frame.bound) &&
          (frame.coding == TERP_CODING_SPEED ||
           terp_prediction_is_raster(frame.prediction))))
        return TERP_ERR_CORRUPT;
    *frame_ret = frame;
    *frame_nbytes_ret = (int)(reader.at - src);
    return TERP_OK;
}

/* ---- the checksum of a whole stream ---- */

/* Streams of coding SPEED have checksums of tiles (codec/format/speed.h), for
 * which the frame is read. */
static bool
whole_checksum(const uint8_t *stream, uint64_t stream_nbytes,
               uint64_t *checksum_ret)
{
    struct terp_frame frame;
    int frame_nbytes;

    if (stream[TERP_FRAME_CODING_AT] != TERP_CODING_SPEED ||
        stream[TERP_FRAME_VERSION_AT] == TERP_FORMAT_FIRST_VERSION) {
        *checksum_ret = checksum(stream, stream_nbytes, 0);
        return true;
    }
    return terp_frame_read(stream, stream_nbytes, &frame, &frame_nbytes) ==
               TERP_OK &&
           terp_speed_checksum(stream, stream_nbytes, &frame.chunk,
                               (uint64_t)frame_nbytes, checksum_ret);
}

void
terp_frame_seal(uint8_t *stream, uint64_t stream_nbytes)
{
    uint64_t sum = 0;

    whole_checksum(stream, stream_nbytes, &sum);
    store_le(stream + TERP_FRAME_CHECKSUM_AT, sum, 8);
}

enum terp_status
terp_frame_verify(const uint8_t *src, uint64_t src_nbytes)
{
    uint64_t sum;

    return whole_checksum(src, src_nbytes, &sum) &&
                   load_le(src + TERP_FRAME_CHECKSUM_AT, 8) == sum
               ? TERP_OK
               : TERP_ERR_CHECKSUM;
}
