/* The grid, the head, the index and the checksum of streams of coding SPEED. */
#include "codec/format/speed.h"

/* ---- the grid ---- */

/* Joins dimension i + 1 with dimension i, and moves the others down. */
static void
join(uint64_t dims[4], int i)
{
    dims[i] *= dims[i + 1];
    for (int k = i + 1; k < 3; k++)
        dims[k] = dims[k + 1];
    dims[3] = 1;
}

void
terp_speed_grid_make(const struct terp_chunk *chunk,
                     struct terp_speed_grid *grid_ret)
{
    const bool has_volumes = chunk->rank == 4 || chunk->stack;
    const int rank = has_volumes ? chunk->rank - 1 : chunk->rank;
    uint64_t dims[4] = {1, 1, 1, has_volumes ? chunk->dims[0] : 1};
    struct terp_speed_grid grid = {.shape = TERP_SPEED_VOLUME};

    for (int i = 0; i < rank; i++)
        dims[i] = chunk->dims[chunk->rank - 1 - i];
    while (dims[0] < TERP_SPEED_MIN_NCOLUMNS && dims[1] * dims[2] * dims[3] > 1)
        join(dims, 0);
    while (dims[1] < TERP_SPEED_MIN_NROWS && dims[2] * dims[3] > 1)
        join(dims, 1);
    if (dims[2] < TERP_SPEED_NSLABS && dims[3] > 1)
        join(dims, 2);
    if (dims[2] == 1 && dims[3] == 1)
        grid.shape = dims[1] == 1 ? TERP_SPEED_LINE : TERP_SPEED_PLANE;
    const uint64_t extent[4] = {
        grid.shape == TERP_SPEED_LINE ? TERP_SPEED_TILE_NVALUES
                                      : TERP_SPEED_NCOLUMNS,
        grid.shape == TERP_SPEED_PLANE ? TERP_SPEED_NSLABS * TERP_SPEED_NROWS
                                       : TERP_SPEED_NROWS,
        TERP_SPEED_NSLABS, 1};
    grid.ntiles = 1;
    for (int i = 0; i < 4; i++) {
        grid.dims[i] = dims[i];
        grid.ntiles_along[i] = div_up(dims[i], extent[i]);
        grid.ntiles *= grid.ntiles_along[i];
    }
    *grid_ret = grid;
}

/* ---- head and index ---- */

uint64_t
terp_speed_head_write(const struct terp_speed_head *head, uint64_t frame_nbytes,
                      uint8_t *dst)
{
    const uint64_t nbytes = terp_speed_head_nbytes(head->kind, frame_nbytes);

    memset(dst, 0, nbytes);
    dst[0] = (uint8_t)head->kind;
    if (head->kind == TERP_SPEED_STEPS)
        store_le(dst + nbytes - 8, head->step_bits, 8);
    return nbytes;
}

static bool
is_step(const struct terp_chunk *chunk, uint64_t bits)
{
    if (!terp_speed_has_float_steps(chunk->type))
        return bits > 0;
    const double step = double_of_bits(bits);
    return is_bound(step) && (terp_part_nbytes(chunk->type) == 8 ||
                              (step >= 0x1p-126 && step <= 0x1p127 &&
                               double_bits((double)(float)step) == bits));
}

static bool
are_zeros(const uint8_t *at, uint64_t nbytes)
{
    for (uint64_t i = 0; i < nbytes; i++)
        if (at[i] != 0)
            return false;
    return true;
}

enum terp_status
terp_speed_body_read(const struct terp_chunk *chunk, uint64_t frame_nbytes,
                     const uint8_t *body, uint64_t body_nbytes,
                     struct terp_speed_body *body_ret)
{
    struct terp_speed_body read;

    if (body_nbytes == 0 || body[0] > TERP_SPEED_STEPS)
        return TERP_ERR_CORRUPT;
    read.head.kind = (enum terp_speed_kind)body[0];
    read.head.step_bits = 0;
    terp_speed_grid_make(chunk, &read.grid);
    const bool has_step = read.head.kind == TERP_SPEED_STEPS;
    const uint64_t head_nbytes =
        terp_speed_head_nbytes(read.head.kind, frame_nbytes);
    if (body_nbytes < head_nbytes ||
        (body_nbytes - head_nbytes) / (TERP_SPEED_INDEX_NBYTES + 8) <
            read.grid.ntiles)
        return TERP_ERR_CORRUPT;
    if (has_step)
        read.head.step_bits = load_le(body + head_nbytes - 8, 8);
    const uint64_t index_nbytes = terp_speed_index_nbytes(read.grid.ntiles);
    read.index = body + head_nbytes;
    read.tiles = read.index + index_nbytes;
    if (body_nbytes - head_nbytes < index_nbytes)
        return TERP_ERR_CORRUPT;
    read.tiles_nbytes = body_nbytes - head_nbytes - index_nbytes;
    if ((has_step && !is_step(chunk, read.head.step_bits)) ||
        !are_zeros(body + 1, head_nbytes - 1 - (has_step ? 8 : 0)) ||
        !are_zeros(read.index + TERP_SPEED_INDEX_NBYTES * read.grid.ntiles,
                   index_nbytes - TERP_SPEED_INDEX_NBYTES * read.grid.ntiles) ||
        read.tiles_nbytes % TERP_SPEED_ALIGN_NBYTES != 0)
        return TERP_ERR_CORRUPT;
    uint64_t before = 0;
    for (uint64_t i = 0; i < read.grid.ntiles; i++) {
        const uint64_t at = load_le(read.index + TERP_SPEED_INDEX_NBYTES * i,
                                    TERP_SPEED_INDEX_NBYTES);
        if (i == 0 ? at != 0 : at <= before)
            return TERP_ERR_CORRUPT;
        before = at;
    }
    if (before >= read.tiles_nbytes / TERP_SPEED_ALIGN_NBYTES)
        return TERP_ERR_CORRUPT;
    *body_ret = read;
    return TERP_OK;
}

/* ---- the checksum ---- */

uint64_t
terp_speed_hash(const uint8_t *at, uint64_t nbytes, uint64_t seed)
{
    const uint64_t n = nbytes / 8;
    uint64_t sums[4] = {0}, i = 0;

    for (; i + 4 <= n; i += 4)
        for (uint64_t k = 0; k < 4; k++)
            sums[k] +=
                terp_speed_hash_word(load_le64(at + 8 * (i + k)), seed, i + k);
    for (; i < n; i++)
        sums[0] += terp_speed_hash_word(load_le64(at + 8 * i), seed, i);
    return sums[0] + sums[1] + sums[2] + sums[3];
}

/* The first bytes that the checksum covers. */
#define HASHED_FROM 16

bool
terp_speed_checksum(const uint8_t *stream, uint64_t stream_nbytes,
                    const struct terp_chunk *chunk, uint64_t frame_nbytes,
                    uint64_t *checksum_ret)
{
    const uint64_t seed = load_le64(stream);
    struct terp_speed_body body;

    if (terp_speed_body_read(chunk, frame_nbytes, stream + frame_nbytes,
                             stream_nbytes - frame_nbytes, &body) != TERP_OK)
        return false;
    uint64_t checksum = terp_speed_hash_tile(
        terp_speed_hash(stream + HASHED_FROM,
                        (uint64_t)(body.index - stream) - HASHED_FROM, seed),
        0, body.grid.ntiles);
    for (uint64_t i = 0; i < body.grid.ntiles; i++) {
        uint64_t nbytes;
        const uint8_t *tile = terp_speed_tile_at(&body, i, &nbytes);
        checksum += terp_speed_hash_tile(
            terp_speed_hash(tile, nbytes, seed),
            (uint64_t)(tile - body.tiles) / TERP_SPEED_ALIGN_NBYTES, i);
    }
    *checksum_ret = checksum;
    return true;
}
