/* Coding SPEED: tiles of integers, which are differences along the dimensions
 * of a tile in groups of one width. doc/format.md, "Speed". The ideas are dual
 * quantization (cuSZ), blocks of fixed widths (cuSZp, FSZ), and keys that have
 * the order of floats. */
#pragma once

#include "codec/api/terp.h"
#include "codec/format/base.h"
#include "codec/format/types.h"

TERP_C_BEGIN

/* ---- the grid ---- */

/* A tile has up to 4 slabs of 16 rows of 64 values. The 16 values of a column
 * of a slab are a group. */
#define TERP_SPEED_NSLABS 4
#define TERP_SPEED_NROWS 16
#define TERP_SPEED_NCOLUMNS 64
#define TERP_SPEED_NGROUPS (TERP_SPEED_NSLABS * TERP_SPEED_NCOLUMNS)
#define TERP_SPEED_SLAB_NVALUES (TERP_SPEED_NROWS * TERP_SPEED_NCOLUMNS)
#define TERP_SPEED_TILE_NVALUES (TERP_SPEED_NSLABS * TERP_SPEED_SLAB_NVALUES)

/* What slabs are: planes; 16 rows each of one plane of 64 rows; 1024 values
 * each of 4096 values in a line. */
enum terp_speed_shape {
    TERP_SPEED_VOLUME,
    TERP_SPEED_PLANE,
    TERP_SPEED_LINE
};

/* Fewer columns, rows or slabs are joined with the next dimension. */
#define TERP_SPEED_MIN_NCOLUMNS 32
#define TERP_SPEED_MIN_NROWS 8

/* The array that is divided into tiles: x, y, z, and a number of volumes that
 * follow each other. */
struct terp_speed_grid {
    enum terp_speed_shape shape;
    uint64_t dims[4];
    uint64_t ntiles_along[4], ntiles;
};

/* A tile's values. Row r of slab s begins at `first` + s * `slab` + r * `row`.
 */
struct terp_speed_box {
    enum terp_speed_shape shape;
    uint64_t first, row, slab;
    /* columns; rows (of all slabs, in a plane); slabs. Of a line: values in
     * `nrows`. */
    int ncolumns, nrows, nslabs;
};

void
terp_speed_grid_make(const struct terp_chunk *chunk,
                     struct terp_speed_grid *grid_ret);

static inline TERP_HOST_DEVICE int
terp_speed_least(uint64_t left, int most)
{
    return left < (uint64_t)most ? (int)left : most;
}

static inline TERP_HOST_DEVICE void
terp_speed_box_make(const struct terp_speed_grid *grid, uint64_t tile,
                    struct terp_speed_box *box_ret)
{
    const uint64_t nx = grid->dims[0], ny = grid->dims[1], nz = grid->dims[2];
    struct terp_speed_box box = {grid->shape, 0, nx, 0, 0, 0, 0};

    if (grid->shape == TERP_SPEED_LINE) {
        box.first = tile * TERP_SPEED_TILE_NVALUES;
        box.row = TERP_SPEED_NCOLUMNS;
        box.slab = TERP_SPEED_SLAB_NVALUES;
        box.nrows = terp_speed_least(nx - box.first, TERP_SPEED_TILE_NVALUES);
        box.ncolumns =
            terp_speed_least((uint64_t)box.nrows, TERP_SPEED_NCOLUMNS);
        box.nslabs =
            (box.nrows + TERP_SPEED_SLAB_NVALUES - 1) / TERP_SPEED_SLAB_NVALUES;
        *box_ret = box;
        return;
    }
    const bool is_plane = grid->shape == TERP_SPEED_PLANE;
    const int most_nrows =
        is_plane ? TERP_SPEED_NSLABS * TERP_SPEED_NROWS : TERP_SPEED_NROWS;
    uint64_t at[4] = {0, 0, 0, 0};
    if (grid->ntiles <= UINT32_MAX) { /* divisions of 64 bits are slow */
        uint32_t left = (uint32_t)tile;
        for (int i = 0; i < 3; i++) {
            const uint32_t n = (uint32_t)grid->ntiles_along[i];
            at[i] = left % n;
            left /= n;
        }
        at[3] = left;
    } else {
        for (int i = 0; i < 3; i++) {
            at[i] = tile % grid->ntiles_along[i];
            tile /= grid->ntiles_along[i];
        }
        at[3] = tile;
    }
    const uint64_t x = at[0] * TERP_SPEED_NCOLUMNS;
    const uint64_t y = at[1] * (uint64_t)most_nrows;
    const uint64_t z = at[2] * TERP_SPEED_NSLABS, volume = at[3];
    box.first = ((volume * nz + z) * ny + y) * nx + x;
    box.slab = is_plane ? TERP_SPEED_NROWS * nx : nx * ny;
    box.ncolumns = terp_speed_least(nx - x, TERP_SPEED_NCOLUMNS);
    box.nrows = terp_speed_least(ny - y, most_nrows);
    box.nslabs = is_plane
                     ? (box.nrows + TERP_SPEED_NROWS - 1) / TERP_SPEED_NROWS
                     : terp_speed_least(nz - z, TERP_SPEED_NSLABS);
    *box_ret = box;
}

/* The columns that row r of slab s has. */
static inline TERP_HOST_DEVICE int
terp_speed_row_ncolumns(const struct terp_speed_box *box, int s, int r)
{
    if (box->shape == TERP_SPEED_VOLUME)
        return s < box->nslabs && r < box->nrows ? box->ncolumns : 0;
    const int row = s * TERP_SPEED_NROWS + r;
    if (box->shape == TERP_SPEED_PLANE)
        return row < box->nrows ? box->ncolumns : 0;
    const int left = box->nrows - row * TERP_SPEED_NCOLUMNS;
    return left < 0                     ? 0
           : left < TERP_SPEED_NCOLUMNS ? left
                                        : TERP_SPEED_NCOLUMNS;
}

/* The rows that slab s has; of a line, the rows with any value. */
static inline TERP_HOST_DEVICE int
terp_speed_slab_nrows(const struct terp_speed_box *box, int s)
{
    int nrows = box->nrows;

    if (box->shape == TERP_SPEED_LINE)
        nrows = (nrows + TERP_SPEED_NCOLUMNS - 1) / TERP_SPEED_NCOLUMNS;
    if (box->shape != TERP_SPEED_VOLUME)
        nrows -= s * TERP_SPEED_NROWS;
    return nrows < TERP_SPEED_NROWS ? nrows : TERP_SPEED_NROWS;
}

/* The number of groups of a slab that have widths: its columns, rounded up to a
 * multiple of 8. */
static inline TERP_HOST_DEVICE int
terp_speed_row_ngroups(const struct terp_speed_box *box)
{
    return (box->ncolumns + 7) / 8 * 8;
}

/* ---- numbers ---- */

/* How values are converted to integers. */
enum terp_speed_kind {
    TERP_SPEED_BITS = 0, /* the bits of values, floats in order */
    TERP_SPEED_STEPS = 1 /* multiples of a step */
};

/* Bits of the integers of a type: 32 or 64. */
static inline TERP_HOST_DEVICE int
terp_speed_word_nbytes(enum terp_type type)
{
    return terp_part_nbytes(type) > 4 ? 8 : 4;
}

/* Whether steps of a type are floats. */
static inline TERP_HOST_DEVICE bool
terp_speed_has_float_steps(enum terp_type type)
{
    return !terp_type_is_integer(type);
}

/* A tile whose values exceed the bound is coded with a smaller step. */
#define TERP_SPEED_NLEVELS 4
static inline TERP_HOST_DEVICE double
terp_speed_factor(int level)
{
    return level == 0   ? 1
           : level == 1 ? 1 - 0x1p-5
           : level == 2 ? 1 - 0x1p-2
                        : 0.5;
}

/* The first step is smaller than twice the bound by this share, which covers
 * the rounding errors of quotients of up to about 2^12. */
#define TERP_SPEED_SLACK 0x1p-9

/* Larger quotients are not coded: steps would be below the distances of the
 * type's values. */
#define TERP_SPEED_MAX_QUOTIENT_F32 0x1p22
#define TERP_SPEED_MAX_QUOTIENT_F64 0x1p51

/* Converts the bits of a float to a key in the order of floats, and back. */
static inline TERP_HOST_DEVICE uint64_t
terp_speed_key_of(uint64_t bits, int nbits)
{
    const uint64_t sign = UINT64_C(1) << (nbits - 1);
    return bits & sign ? bits ^ (sign | (sign - 1)) : bits | sign;
}

static inline TERP_HOST_DEVICE uint64_t
terp_speed_bits_of_key(uint64_t key, int nbits)
{
    const uint64_t sign = UINT64_C(1) << (nbits - 1);
    return key & sign ? key ^ sign : key ^ (sign | (sign - 1));
}

/* ---- the body ---- */

/* The head: the kind, zeros up to a multiple of 8 bytes from the beginning of a
 * complete stream, and for steps the first step: bits of a float64, or an
 * integer. */
struct terp_speed_head {
    enum terp_speed_kind kind;
    uint64_t step_bits;
};

/* A tile of a body whose index was read. */
struct terp_speed_body {
    struct terp_speed_head head;
    struct terp_speed_grid grid;
    const uint8_t *index, *tiles;
    uint64_t tiles_nbytes;
};

#define TERP_SPEED_INDEX_NBYTES 4
#define TERP_SPEED_ALIGN_NBYTES 8

static inline TERP_HOST_DEVICE uint64_t
terp_speed_aligned(uint64_t nbytes)
{
    return (nbytes + TERP_SPEED_ALIGN_NBYTES - 1) &
           ~(uint64_t)(TERP_SPEED_ALIGN_NBYTES - 1);
}

/* Bytes of the head of a body behind a frame of `frame_nbytes`. */
static inline TERP_HOST_DEVICE uint64_t
terp_speed_head_nbytes(enum terp_speed_kind kind, uint64_t frame_nbytes)
{
    return terp_speed_aligned(frame_nbytes + 1) - frame_nbytes +
           (kind == TERP_SPEED_STEPS ? 8 : 0);
}

static inline TERP_HOST_DEVICE uint64_t
terp_speed_index_nbytes(uint64_t ntiles)
{
    return terp_speed_aligned(ntiles * TERP_SPEED_INDEX_NBYTES);
}

/* Writes head and padding; returns its bytes. */
uint64_t
terp_speed_head_write(const struct terp_speed_head *head, uint64_t frame_nbytes,
                      uint8_t *dst);

/* Reads head and index. `frame_nbytes` is that of the frame of a complete
 * stream. TERP_ERR_CORRUPT: the body has a head or an index that
 * no encoder writes. */
enum terp_status
terp_speed_body_read(const struct terp_chunk *chunk, uint64_t frame_nbytes,
                     const uint8_t *body, uint64_t body_nbytes,
                     struct terp_speed_body *body_ret);

/* The place of tile i: at least 8 bytes. */
static inline const uint8_t *
terp_speed_tile_at(const struct terp_speed_body *body, uint64_t i,
                   uint64_t *nbytes_ret)
{
    const uint64_t from = load_le(body->index + TERP_SPEED_INDEX_NBYTES * i,
                                  TERP_SPEED_INDEX_NBYTES) *
                          TERP_SPEED_ALIGN_NBYTES;
    const uint64_t end =
        i + 1 == body->grid.ntiles
            ? body->tiles_nbytes
            : load_le(body->index + TERP_SPEED_INDEX_NBYTES * (i + 1),
                      TERP_SPEED_INDEX_NBYTES) *
                  TERP_SPEED_ALIGN_NBYTES;
    *nbytes_ret = end - from;
    return body->tiles + from;
}

/* ---- a tile ---- */

/* The first byte of a tile. */
#define TERP_SPEED_WIDTHS 0x03 /* enum terp_speed_widths */
#define TERP_SPEED_LEVEL_SHIFT 2
#define TERP_SPEED_EXACT 0x10      /* bits in place of multiples of a step */
#define TERP_SPEED_EXCEPTIONS 0x20 /* the tile ends with exceptions */
#define TERP_SPEED_UNUSED 0xC0

enum terp_speed_widths {
    TERP_SPEED_NO_WIDTHS = 0,   /* all are 0 */
    TERP_SPEED_WIDTHS_OF_4 = 1, /* bits */
    TERP_SPEED_WIDTHS_OF_8 = 2,
    TERP_SPEED_NWIDTHS
};

/* The most exceptions beside the tile's fill value. A tile with more is exact.
 */
#define TERP_SPEED_MAX_NLISTED 256

/* The group states of exceptions, two bits each. */
enum terp_speed_state {
    TERP_SPEED_NONE = 0,
    TERP_SPEED_ALL = 1,
    TERP_SPEED_MIXED = 2
};

/* Bytes of the fields before the widths: the first byte, a zero, the number of
 * listed exceptions, and the base, the tile's first integer. */
static inline TERP_HOST_DEVICE int
terp_speed_tile_head_nbytes(int word_nbytes)
{
    return word_nbytes == 4 ? 8 : 16;
}
#define TERP_SPEED_NLISTED_AT 2

static inline TERP_HOST_DEVICE int
terp_speed_base_at(int word_nbytes)
{
    return word_nbytes == 4 ? 4 : 8;
}

static inline TERP_HOST_DEVICE int
terp_speed_widths_nbytes(const struct terp_speed_box *box, int widths)
{
    const int n = box->nslabs * terp_speed_row_ngroups(box);
    return widths == TERP_SPEED_NO_WIDTHS     ? 0
           : widths == TERP_SPEED_WIDTHS_OF_4 ? n / 2
                                              : n;
}

/* Bytes of exceptions: the fill value, the states of groups, the masks of mixed
 * groups, places and values of others. */
static inline TERP_HOST_DEVICE int
terp_speed_states_nbytes(const struct terp_speed_box *box)
{
    return box->nslabs * terp_speed_row_ngroups(box) / 4;
}

/* The largest size of a tile, for buffers. */
#define TERP_SPEED_TILE_MAX_NBYTES(word_nbytes)                              \
    (16 + TERP_SPEED_NGROUPS + TERP_SPEED_TILE_NVALUES * (word_nbytes) + 8 + \
     TERP_SPEED_NGROUPS / 4 + 2 * TERP_SPEED_NGROUPS +                       \
     TERP_SPEED_MAX_NLISTED * (2 + 8) + 8)

/* ---- the checksum ---- */

#define TERP_SPEED_HASH_KEY UINT64_C(0x9E3779B97F4A7C15)
#define TERP_SPEED_HASH_PLACE UINT64_C(0xC2B2AE3D27D4EB4F)

/* The amount that word i of a tile adds to the tile's sum. */
static inline TERP_HOST_DEVICE uint64_t
terp_speed_hash_word(uint64_t word, uint64_t seed, uint64_t i)
{
    const uint64_t x = word + (seed + (i + 1) * TERP_SPEED_HASH_KEY);
    return (x & UINT32_MAX) * (x >> 32) + (word << 32 | word >> 32);
}

/* The amount that a tile adds to the checksum. `place` is its entry in the
 * index. */
static inline TERP_HOST_DEVICE uint64_t
terp_speed_hash_tile(uint64_t sum, uint64_t place, uint64_t tile)
{
    uint64_t h = sum + place * TERP_SPEED_HASH_PLACE;

    h = (h ^ h >> 33) * UINT64_C(0xC2B2AE3D27D4EB4F);
    h = (h ^ h >> 29) * UINT64_C(0x165667B19E3779F9);
    return (h ^ h >> 32) * (2 * tile + 1);
}

/* The sum of `nbytes` bytes, a multiple of 8. */
uint64_t
terp_speed_hash(const uint8_t *at, uint64_t nbytes, uint64_t seed);

/* The checksum of a stream whose frame was read. Returns false where the body
 * cannot be read. */
bool
terp_speed_checksum(const uint8_t *stream, uint64_t stream_nbytes,
                    const struct terp_chunk *chunk, uint64_t frame_nbytes,
                    uint64_t *checksum_ret);

TERP_C_END
