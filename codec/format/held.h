/* Reads the body of a stream that holds other streams. Only the first bytes of
 * each inner stream are read, because a device shows the host no more. */
#pragma once

#include "codec/format/grid.h"
#include "codec/format/parts.h"

TERP_C_BEGIN

/* Of codings but columns. */
#define TERP_HELD_MAX_NPARTS 3

/* Bytes that suffice to read an inner stream's head: the fields before the
 * first inner stream, and a head. */
#define TERP_HELD_HEAD_NBYTES (9 + TERP_GRID_NBYTES + TERP_PART_HEAD_NBYTES)

/* State of reading a stream that holds other streams (terp_coding_holds). */
struct terp_held {
    struct terp_chunk chunk;
    enum terp_coding coding;
    int version;
    /* Of columns, `nparts` is 1 until the first part was read. */
    int nparts, next;
    double bound;                 /* of PARTS */
    unsigned dims;                /* of COPIES */
    uint64_t marker, nreferences; /* of REFERENCES */
    uint64_t ntable;              /* of RANKS and GRID */
    int number_nbytes;            /* of RANKS and GRID */
    struct terp_grid grid;        /* of GRID */
    unsigned mask;                /* of COLUMNS */
};

void
terp_held_begin(const struct terp_frame *frame, struct terp_held *held_ret);

/* Reads the head of the next inner stream. `seen` points to its first byte (to
 * the body's first byte for the first one) and has `left_nbytes` up to the
 * body's end; only the first TERP_HELD_HEAD_NBYTES are read. The pointers in
 * *part_ret point into `seen`. *read_nbytes is the distance to the next inner
 * stream. Errors: TERP_ERR_TRUNCATED, TERP_ERR_CORRUPT. */
enum terp_status
terp_held_read(struct terp_held *held, const uint8_t *seen,
               uint64_t left_nbytes, struct terp_part *part_ret,
               uint64_t *read_nbytes);

TERP_C_END
