/* Reads bodies that hold inner streams, one inner stream at a time. */
#include "codec/format/held.h"

#include "codec/format/columns.h"
#include "codec/format/copies.h"
#include "codec/format/ranks.h"
#include "codec/format/references.h"

/* Whether a stream has a table and numbers. */
static bool
is_ranked(enum terp_coding coding)
{
    return coding == TERP_CODING_RANKS || coding == TERP_CODING_GRID;
}

void
terp_held_begin(const struct terp_frame *frame, struct terp_held *held_ret)
{
    *held_ret = (struct terp_held){
        .chunk = frame->chunk,
        .coding = frame->coding,
        .version =
            frame->version == 0 ? TERP_FORMAT_FIRST_VERSION : frame->version,
        .nparts = frame->coding == TERP_CODING_COPIES ||
                          frame->coding == TERP_CODING_COLUMNS
                      ? 1
                  : frame->coding == TERP_CODING_PARTS ? TERP_NPARTS
                  : is_ranked(frame->coding)           ? TERP_RANKS_NPARTS
                                             : TERP_REFERENCES_NPARTS};
}

/* The chunk of a part, once the first one was read. */
static struct terp_chunk
chunk_of(const struct terp_held *held, int part)
{
    return held->coding == TERP_CODING_COPIES
               ? terp_copies_chunk(&held->chunk, held->dims)
           : held->coding == TERP_CODING_PARTS
               ? terp_chunk_of_part(&held->chunk)
           : held->coding == TERP_CODING_COLUMNS
               ? terp_columns_chunk(&held->chunk, held->mask, part)
           : is_ranked(held->coding)
               ? terp_ranks_chunk(&held->chunk, (enum terp_ranks_part)part,
                                  held->ntable, held->number_nbytes)
               : terp_references_chunk(&held->chunk,
                                       (enum terp_references_part)part,
                                       held->nreferences);
}

/* Reads the fields before the first inner stream. */
static enum terp_status
read_begin(struct terp_held *held, struct reader *reader)
{
    const int value_nbytes = terp_value_nbytes(held->chunk.type);
    const uint64_t nvalues =
        terp_chunk_nbytes(&held->chunk) / (uint64_t)value_nbytes;

    switch (held->coding) {
    case TERP_CODING_COPIES:
        held->dims = (unsigned)read_le(reader, 1);
        return reader->underflow ? TERP_ERR_TRUNCATED
               : terp_copies_are_valid(&held->chunk, held->dims)
                   ? TERP_OK
                   : TERP_ERR_CORRUPT;
    case TERP_CODING_PARTS:
        held->bound = double_of_bits(read_le(reader, 8));
        return TERP_OK; /* checked after the first size was read */
    case TERP_CODING_COLUMNS:
        held->mask = (unsigned)read_le(reader, TERP_COLUMNS_MASK_NBYTES);
        if (reader->underflow)
            return TERP_ERR_TRUNCATED;
        if (!terp_columns_are_valid(terp_columns_n(&held->chunk), held->mask))
            return TERP_ERR_CORRUPT;
        held->nparts = terp_columns_ngroups(held->mask);
        return TERP_OK;
    case TERP_CODING_RANKS:
        held->ntable = read_uleb(reader);
        held->number_nbytes = terp_rank_nbytes(held->ntable);
        return reader->underflow ? TERP_ERR_TRUNCATED
               : terp_ranks_are_valid(value_nbytes, nvalues, held->ntable)
                   ? TERP_OK
                   : TERP_ERR_CORRUPT;
    case TERP_CODING_GRID:
        held->ntable = read_uleb(reader);
        held->grid = terp_grid_read(reader);
        held->number_nbytes = held->grid.number_nbytes;
        return reader->underflow ? TERP_ERR_TRUNCATED
               : terp_grid_table_is_valid(nvalues, held->ntable) &&
                       terp_grid_is_valid(&held->grid) &&
                       terp_grid_may_drift(held->chunk.rank, nvalues,
                                           held->grid.drift)
                   ? TERP_OK
                   : TERP_ERR_CORRUPT;
    default:
        held->marker = read_le(reader, value_nbytes);
        held->nreferences = read_uleb(reader);
        return reader->underflow ? TERP_ERR_TRUNCATED
               : held->nreferences == 0 || held->nreferences > nvalues
                   ? TERP_ERR_CORRUPT
                   : TERP_OK;
    }
}

/* Whether an inner stream must not have this coding. */
static bool
is_forbidden(const struct terp_held *held, enum terp_coding coding)
{
    switch (held->coding) {
    case TERP_CODING_COPIES:
        return coding == TERP_CODING_COPIES || coding == TERP_CODING_SPEED;
    case TERP_CODING_REFERENCES:
        return terp_coding_holds(coding) || coding == TERP_CODING_SPEED;
    case TERP_CODING_COLUMNS:
        return coding == TERP_CODING_COLUMNS || coding == TERP_CODING_COPIES ||
               coding == TERP_CODING_SPEED;
    case TERP_CODING_RANKS:
    case TERP_CODING_GRID:
        return is_ranked(coding) || coding == TERP_CODING_COPIES ||
               coding == TERP_CODING_COLUMNS || coding == TERP_CODING_SPEED;
    default:
        return false;
    }
}

enum terp_status
terp_held_read(struct terp_held *held, const uint8_t *seen,
               uint64_t left_nbytes, struct terp_part *part_ret,
               uint64_t *read_nbytes)
{
    struct reader reader = {
        seen, seen + min_u64(left_nbytes, TERP_HELD_HEAD_NBYTES), false};
    const int part = held->next++;
    enum terp_status st = part == 0 ? read_begin(held, &reader) : TERP_OK;

    if (st != TERP_OK)
        return st;
    const bool is_last = part == held->nparts - 1;
    uint64_t nbytes = is_last ? 0 : read_uleb(&reader);
    const uint64_t begin = (uint64_t)(reader.at - seen);
    if (is_last)
        nbytes = left_nbytes - begin;
    if (reader.underflow || nbytes > left_nbytes - begin)
        return TERP_ERR_TRUNCATED;
    if (held->coding == TERP_CODING_PARTS && !is_bound(held->bound) &&
        !is_zero_bound(held->bound))
        return TERP_ERR_CORRUPT;
    const struct terp_chunk chunk = chunk_of(held, part);
    st = terp_part_read(&chunk, held->version, seen + begin, nbytes, part_ret);
    *read_nbytes = begin + nbytes;
    return st == TERP_OK && is_forbidden(held, part_ret->frame.coding)
               ? TERP_ERR_CORRUPT
               : st;
}

/* ---- whole bodies ---- */

enum terp_status
terp_parts_read(const struct terp_chunk *chunk, int version,
                const uint8_t *body, uint64_t body_nbytes, double *bound_ret,
                struct terp_part parts_ret[TERP_NPARTS])
{
    const struct terp_frame frame = {
        .chunk = *chunk, .version = version, .coding = TERP_CODING_PARTS};
    struct terp_held held;
    enum terp_status st = TERP_OK;

    terp_held_begin(&frame, &held);
    for (int i = 0; st == TERP_OK && i < held.nparts; i++) {
        uint64_t nbytes = 0;
        st = terp_held_read(&held, body, body_nbytes, &parts_ret[i], &nbytes);
        body += nbytes;
        body_nbytes -= nbytes;
    }
    *bound_ret = held.bound;
    return st;
}
