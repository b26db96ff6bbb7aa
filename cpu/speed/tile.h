/* The tiles of coding SPEED: doc/format.md, "Speed". cpu/speed/tile_32.c and
 * cpu/speed/tile_64.c each include cpu/speed/tile_impl.h, which has the loops
 * over integers of one size. */
#pragma once

#include "codec/engine.h"
#include "codec/format/speed.h"
#include "codec/model/range.h"

/* The conversion of a chunk's values to integers and back. */
struct cpu_speed_numbers {
    enum terp_type type;
    int value_nbytes, word_nbytes;
    enum terp_speed_kind kind;
    /* Of floats: the steps of each level and about their inverses; the largest
     * error that the encoder takes. */
    double step[TERP_SPEED_NLEVELS], per_step[TERP_SPEED_NLEVELS], most;
    /* Of integers. */
    uint64_t whole_step, whole_most;
    double per_whole_step;
    /* Values that are not coded: their bits, zeros being positive. */
    int nfills;
    uint64_t fill[TERP_NFILLS];
};

/* Sets the steps from the first one. */
void
terp_cpu_speed_set_step(struct cpu_speed_numbers *numbers, uint64_t step_bits);

/* Memory of a thread that codes tiles. Buffers of bytes end with padding for a
 * store of 16 bytes behind a tile. */
#define CPU_SPEED_PADDING_NBYTES 64
struct cpu_speed_work {
    _Alignas(64) uint64_t words[TERP_SPEED_TILE_NVALUES];
    _Alignas(64) uint64_t residuals[TERP_SPEED_TILE_NVALUES];
    _Alignas(64) uint64_t values[TERP_SPEED_NCOLUMNS];
    uint8_t widths[TERP_SPEED_NGROUPS];
    uint16_t masks[TERP_SPEED_NGROUPS]; /* exceptions: bit r is row r's */
    uint8_t bytes[TERP_SPEED_TILE_MAX_NBYTES(8) + CPU_SPEED_PADDING_NBYTES];
};

/* Codes a tile of `values`, the chunk in the host's byte order. `dst` holds a
 * tile and its padding. Returns its bytes, a multiple of 8. */
uint64_t
terp_cpu_speed_encode_tile_32(const struct cpu_speed_numbers *numbers,
                              const struct terp_speed_box *box,
                              const void *values, struct cpu_speed_work *work,
                              uint8_t *dst);
uint64_t
terp_cpu_speed_encode_tile_64(const struct cpu_speed_numbers *numbers,
                              const struct terp_speed_box *box,
                              const void *values, struct cpu_speed_work *work,
                              uint8_t *dst);

/* Decodes a tile to its places in `values`. `readable_nbytes` bytes may be read
 * behind the tile. */
enum terp_status
terp_cpu_speed_decode_tile_32(const struct cpu_speed_numbers *numbers,
                              const struct terp_speed_box *box,
                              const uint8_t *tile, uint64_t nbytes,
                              uint64_t readable_nbytes,
                              struct cpu_speed_work *work, void *values);
enum terp_status
terp_cpu_speed_decode_tile_64(const struct cpu_speed_numbers *numbers,
                              const struct terp_speed_box *box,
                              const uint8_t *tile, uint64_t nbytes,
                              uint64_t readable_nbytes,
                              struct cpu_speed_work *work, void *values);

/* The head of a tile. */
struct cpu_speed_tile {
    int widths, level, nlisted;
    bool is_exact, has_exceptions;
    uint64_t base;
    uint64_t packed_at, exceptions_at; /* offsets in the tile */
};

/* Reads a tile's head and its widths, and checks its size. */
enum terp_status
terp_cpu_speed_tile_read(const struct cpu_speed_numbers *numbers,
                         const struct terp_speed_box *box, const uint8_t *tile,
                         uint64_t nbytes,
                         uint8_t widths_ret[TERP_SPEED_NGROUPS],
                         struct cpu_speed_tile *tile_ret);

/* Appends exceptions to a tile of `nbytes` bytes. Returns its new size. */
uint64_t
terp_cpu_speed_exceptions_write(const struct cpu_speed_numbers *numbers,
                                const struct terp_speed_box *box,
                                const void *values,
                                const uint16_t masks[TERP_SPEED_NGROUPS],
                                uint8_t *tile, uint64_t nbytes);

/* Writes exceptions to their places in the chunk. */
enum terp_status
terp_cpu_speed_exceptions_place(const struct cpu_speed_numbers *numbers,
                                const struct terp_speed_box *box,
                                const struct cpu_speed_tile *read,
                                const uint8_t *tile, void *values);

/* The number of exceptions whose bits differ from those of the first one. */
int
terp_cpu_speed_count_listed(const struct cpu_speed_numbers *numbers,
                            const struct terp_speed_box *box,
                            const void *values,
                            const uint16_t masks[TERP_SPEED_NGROUPS]);

/* The bits of a value of the chunk. */
static inline const uint8_t *
cpu_speed_row(const struct cpu_speed_numbers *numbers,
              const struct terp_speed_box *box, const void *values, int s,
              int r)
{
    return (const uint8_t *)values +
           (box->first + (uint64_t)s * box->slab + (uint64_t)r * box->row) *
               (uint64_t)numbers->value_nbytes;
}
