/* Chooses the length of the chunks of a level, and encodes chunks in the shape
 * of the boxes. */
#include <stdlib.h>
#include <string.h>

#include "codec/api/cd_values.h"
#include "codec/api/context.h"
#include "codec/format/base.h"
#include "tools/repack/amrex_parts.h"

/* Limits of a chunk that holds one component. At least 8^3 values, as AMReX's
 * smallest usual boxes have: HDF5's index and terp's frame take about 100 bytes
 * for each chunk. At most 128^3 values, so that a reader of a small region
 * decodes little else. */
#define MIN_CHUNK_NVALUES 512
#define MAX_CHUNK_NVALUES ((uint64_t)1 << 21)
/* Sizes of chunks that several components may share. Boxes of equal shape are
 * stacked in a chunk up to STACK_NVALUES, the size of chunks of other datasets.
 * Boxes of several shapes get chunks of SHARED_CHUNK_NVALUES where their common
 * divisor is below MIN_SHAPED_NVALUES: the frames of so short chunks take more
 * than the shape of the boxes saves. */
#define STACK_NVALUES ((uint64_t)1 << 18)
#define MIN_SHAPED_NVALUES ((uint64_t)1 << 11)
#define SHARED_CHUNK_NVALUES ((uint64_t)1 << 15)
/* Where no length divides all boxes, some chunks hold the end of one component
 * and the start of the next; they must keep the smaller of the two bounds. With
 * ODD_CHUNKS_PER_BOX chunks in the smallest box such chunks are few. */
#define ODD_CHUNKS_PER_BOX 8
#define MAX_ODD_CHUNK_NVALUES ((uint64_t)1 << 15)

/* ---- length of chunks ---- */

static uint64_t
plane_of(const struct amrex_box *box)
{
    return box->dims[1] * box->dims[2];
}

/* The number of values in chunks that keep the shape of their boxes. */
static uint64_t
count_in_shape(const struct amrex_level *level, uint64_t chunk_nvalues)
{
    uint64_t nvalues = 0;

    for (uint64_t i = 0; i < level->nboxes; i++)
        if (chunk_nvalues % plane_of(&level->boxes[i]) == 0)
            nvalues += level->boxes[i].nvalues;
    return nvalues;
}

/* Chooses a length that divides all boxes: then each chunk holds one component
 * and has its bound. Of such lengths the function takes the one with the most
 * values in chunks that keep the shape of their boxes, and of equal ones the
 * largest. */
static uint64_t
choose_chunk(const struct amrex_level *level)
{
    const uint64_t common = amrex_level_common_divisor(level);
    uint64_t smallest = UINT64_MAX, best = 0, best_in_shape = 0;

    for (uint64_t i = 0; i < level->nboxes; i++)
        smallest = min_u64(smallest, level->boxes[i].nvalues);
    for (uint64_t nvalues = min_u64(common, MAX_CHUNK_NVALUES);
         nvalues >= MIN_CHUNK_NVALUES; nvalues--) {
        if (common % nvalues != 0)
            continue;
        uint64_t in_shape = count_in_shape(level, nvalues);
        if (best == 0 || in_shape > best_in_shape) {
            best = nvalues;
            best_in_shape = in_shape;
        }
    }
    if (best == 0)
        best = min_u64(smallest / ODD_CHUNKS_PER_BOX, MAX_ODD_CHUNK_NVALUES);
    if (best < MIN_CHUNK_NVALUES)
        best = MIN_CHUNK_NVALUES;
    return min_u64(best, level->nvalues);
}

/* Chooses a length where components may share chunks: whole boxes if boxes are
 * equal and small, else chunks of a sufficient length. `stacks` is false for
 * lossless chunks of several components: bits of different components have
 * nothing in common, and a stack would be larger than its boxes one by one. */
static uint64_t
choose_shared_chunk(const struct amrex_level *level, bool stacks)
{
    const uint64_t box_nvalues = level->boxes[0].nvalues;
    const uint64_t nvalues = choose_chunk(level);

    if (stacks && amrex_level_has_one_shape(level) &&
        box_nvalues <= STACK_NVALUES / 2)
        return min_u64(STACK_NVALUES / box_nvalues * box_nvalues,
                       level->nvalues);
    return nvalues < MIN_SHAPED_NVALUES
               ? min_u64(SHARED_CHUNK_NVALUES, level->nvalues)
               : nvalues;
}

/* Whether the caller, or the environment, forbids what terp 1 does not read. */
static bool
is_first_format(unsigned format)
{
    const struct terp_params params = {.size = sizeof params,
                                       .format = (int)format};
    struct terp_params own;

    return !terp_params_copy(&params, &own) || own.format == 1;
}

void
amrex_level_choose_chunk(struct amrex_level *level, enum amrex_bounds bounds,
                         uint64_t value_nbytes, unsigned format)
{
    const bool is_one = level->ncomponents == 1;

    if (!is_first_format(format) &&
        amrex_parts_choose_chunk(level, value_nbytes))
        return;
    level->chunk_nvalues =
        bounds == AMREX_OWN && !is_one
            ? choose_chunk(level)
            : choose_shared_chunk(level, is_one || bounds != AMREX_LOSSLESS);
}

/* ---- chunks ---- */

/* Whether all boxes of the values from `at` on have the same shape. */
static bool
boxes_are_alike(const struct amrex_level *level, uint64_t at, uint64_t nvalues)
{
    if (nvalues > level->nvalues - at)
        return false;
    struct amrex_span first = amrex_level_span(level, at, nvalues);
    for (uint64_t done = first.nvalues; done < nvalues;) {
        struct amrex_span span =
            amrex_level_span(level, at + done, nvalues - done);
        if (memcmp(span.box->dims, first.box->dims, sizeof span.box->dims) != 0)
            return false;
        done += span.nvalues;
    }
    return true;
}

/* The shape is a stack of boxes if the chunk holds whole boxes, a box if it
 * holds planes of one box, a map if it holds rows, else a line. */
void
amrex_level_shape(const struct amrex_level *level, enum terp_type type,
                  uint64_t at, struct terp_chunk *chunk_ret)
{
    uint64_t nvalues = level->chunk_nvalues;
    struct terp_chunk line = {.type = type, .rank = 1, .dims = {nvalues}};

    *chunk_ret = line;
    if (!boxes_are_alike(level, at, nvalues))
        return;
    struct amrex_span span = amrex_level_span(level, at, nvalues);
    const uint64_t *box = span.box->dims;
    uint64_t plane = box[1] * box[2], row = box[2];
    if (span.at == 0 && nvalues % span.box->nvalues == 0 &&
        nvalues > span.box->nvalues) {
        *chunk_ret = (struct terp_chunk){
            .type = type,
            .stack = true,
            .rank = 4,
            .dims = {nvalues / span.box->nvalues, box[0], box[1], box[2]}};
    } else if (span.at % plane == 0 && nvalues % plane == 0 &&
               span.nvalues == nvalues) {
        *chunk_ret = (struct terp_chunk){
            .type = type, .rank = 3, .dims = {nvalues / plane, box[1], row}};
    } else if (span.at % row == 0 && nvalues % row == 0) {
        *chunk_ret = (struct terp_chunk){
            .type = type, .rank = 2, .dims = {nvalues / row, row}};
    }
}

unsigned
amrex_level_brick(const struct amrex_level *level, unsigned *dims_ret)
{
    struct terp_chunk chunk;
    uint64_t chunk_nvalues = level->chunk_nvalues;
    uint64_t box_nvalues = level->boxes[0].nvalues;

    if (level->has_parts || !amrex_level_has_one_shape(level) ||
        level->nvalues % chunk_nvalues != 0 ||
        (box_nvalues % chunk_nvalues != 0 && chunk_nvalues % box_nvalues != 0))
        return 0;
    amrex_level_shape(level, TERP_FLOAT32, 0, &chunk);
    if (chunk.rank == 1)
        return 0;
    int first = chunk.stack ? 1 : 0;
    for (int d = first; d < chunk.rank; d++)
        dims_ret[d - first] = (unsigned)chunk.dims[d];
    return (unsigned)(chunk.rank - first);
}

/* The smallest bound of all components in the chunk; an absolute bound takes
 * precedence over a relative one. A chunk of several components keeps the sign
 * of each value: the common sign of a chunk says nothing about one component.
 */
static struct terp_params
params_at(const struct amrex_level *level, const struct terp_params *params,
          uint64_t at)
{
    uint64_t nvalues = min_u64(level->chunk_nvalues, level->nvalues - at);
    struct amrex_span span = amrex_level_span(level, at, nvalues);
    const uint64_t first = span.component;
    struct terp_params least = params[first];
    bool several = false;

    for (uint64_t done = span.nvalues; done < nvalues; done += span.nvalues) {
        span = amrex_level_span(level, at + done, nvalues - done);
        const struct terp_params *other = &params[span.component];
        if (other->bound_mode < least.bound_mode ||
            (other->bound_mode == least.bound_mode &&
             other->bound < least.bound))
            least = *other;
        several |= span.component != first;
    }
    if (several && least.keep_sign != TERP_KEEP_SIGN_NONE)
        least.keep_sign = TERP_KEEP_SIGN_OF_VALUES;
    return least;
}

/* How one chunk is encoded. */
struct work {
    struct terp_chunk chunk;
    struct terp_params params;
    bool taken;
};

/* Encodes `work[first]` and all later chunks of the same shape and bound in one
 * batch; *ntaken counts the chunks that batches have taken. */
static enum terp_status
encode_alike(struct terp_h5_batch *batch, struct work *work, uint64_t nwork,
             uint64_t first, uint64_t *ntaken)
{
    const uint64_t from = *ntaken;

    for (uint64_t i = first; i < nwork; i++) {
        if (work[i].taken ||
            !amrex_is_alike(&work[i].chunk, &work[i].params, &work[first].chunk,
                            &work[first].params))
            continue;
        work[i].taken = true;
        terp_h5_batch_take(batch, i, i, (*ntaken)++);
    }
    return terp_run_encode(batch->run, &work[first].params, &work[first].chunk,
                           *ntaken - from,
                           (const void *const *)batch->chunk + from,
                           batch->stream + from, batch->stream_nbytes + from);
}

/* Encodes chunks that are one stream each. */
static enum terp_status
encode_chunks(const struct amrex_level *level, struct terp_h5_batch *batch,
              const struct terp_h5_block *block,
              const struct terp_params *params)
{
    const uint64_t nwork = terp_array_nchunks(&block->array);
    struct work *work = calloc(nwork, sizeof *work);
    enum terp_status st = TERP_OK;
    uint64_t ntaken = 0;

    if (work == NULL)
        return TERP_ERR_MEMORY;
    for (uint64_t i = 0; i < nwork; i++) {
        uint64_t at = block->offset[0] + i * level->chunk_nvalues;
        amrex_level_shape(level, block->cd.chunk.type, at, &work[i].chunk);
        const struct terp_params own = params_at(level, params, at);
        work[i].params = amrex_params(block, &own);
    }
    for (uint64_t i = 0; st == TERP_OK && i < nwork; i++)
        if (!work[i].taken)
            st = encode_alike(batch, work, nwork, i, &ntaken);
    free(work);
    return st;
}

enum terp_status
amrex_level_encode(const struct amrex_level *level, struct terp_h5_batch *batch,
                   const struct terp_h5_block *block,
                   const struct terp_params *params, const void *values)
{
    const enum terp_status st = terp_array_gather(
        batch->run, &block->array, 0, terp_array_nchunks(&block->array), values,
        batch->chunks);

    if (st != TERP_OK)
        return st;
    return level->has_parts ? amrex_parts_encode(level, batch, block, params)
                            : encode_chunks(level, batch, block, params);
}
