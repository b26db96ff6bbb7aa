/* Cuts chunks of a level into parts, and joins the streams of the parts. */
#include "tools/repack/amrex_parts.h"

#include <stdlib.h>

#include "codec/api/memory.h"
#include "filter/container.h"

/* ---- length of chunks ---- */

/* Usual chunks have as many bytes as HDF5's cache of chunks holds by default:
 * a larger chunk is decoded again for each box that a program reads. Larger
 * boxes have larger chunks, of at most MAX_CHUNK_NVALUES, 128^3. */
#define CHUNK_NBYTES ((uint64_t)1 << 20)
#define MAX_CHUNK_NVALUES ((uint64_t)1 << 21)
/* Where boxes are equal, larger ones have a chunk for each component: the index
 * and the head of a chunk take little beside its stream. */
#define MAX_STACKED_NVALUES ((uint64_t)1 << 14)
/* Parts of a chunk. The first and the last box of a chunk may be cut, into up
 * to four parts each (cut_span); and padding may follow. */
#define MAX_NPARTS TERP_COMPOUND_MAX_NMEMBERS
#define MAX_NBOXES_OF_CHUNK (MAX_NPARTS - 16)

/* The length of as few chunks of at most `cap` as hold `n`: shared equally, so
 * that the last one has little padding. */
static uint64_t
share(uint64_t n, uint64_t cap)
{
    return div_up(n, div_up(n, cap));
}

/* Chunks are stacks of equal boxes. False where a chunk would be too large. */
static bool
choose_stack(struct amrex_level *level, uint64_t cap_nvalues)
{
    const uint64_t box_nvalues = level->boxes[0].nvalues;
    uint64_t nvalues;

    if (box_nvalues > MAX_STACKED_NVALUES || level->ncomponents > MAX_NPARTS ||
        !mul_fits(box_nvalues, level->ncomponents, &nvalues) ||
        nvalues > cap_nvalues)
        return false;
    level->has_parts = true;
    level->nstacked = share(level->nboxes, cap_nvalues / nvalues);
    level->chunk_nvalues = level->nstacked * nvalues;
    return true;
}

/* Whether no chunk of `length` values meets more than MAX_NBOXES_OF_CHUNK
 * components of boxes. */
static bool
has_few_parts(const struct amrex_level *level, uint64_t length)
{
    uint64_t chunk = 0, n = 0;

    for (uint64_t i = 0; i < level->nboxes; i++)
        for (uint64_t c = 0; c < level->ncomponents; c++) {
            const struct amrex_box *box = &level->boxes[i];
            const uint64_t at = box->begin + c * box->nvalues;
            const uint64_t last = at + box->nvalues - 1;
            n = at / length == chunk ? n + 1 : 1;
            if (n > MAX_NBOXES_OF_CHUNK)
                return false;
            if (last / length != at / length)
                n = 1;
            chunk = last / length;
        }
    return true;
}

/* The length of chunks of at most `cap_nvalues`. Cuts at multiples of the
 * common divisor leave more whole rows. */
static uint64_t
chunk_length(const struct amrex_level *level, uint64_t cap_nvalues)
{
    uint64_t unit = amrex_level_common_divisor(level);

    if (unit > cap_nvalues)
        unit = 1;
    return unit * share(level->nvalues / unit, cap_nvalues / unit);
}

bool
amrex_parts_choose_chunk(struct amrex_level *level, uint64_t value_nbytes)
{
    uint64_t cap_nvalues = CHUNK_NBYTES / value_nbytes, smallest = UINT64_MAX;
    const uint64_t mean = level->nvalues / level->ncomponents / level->nboxes;

    if (amrex_level_has_one_shape(level))
        return level->ncomponents > 1 && choose_stack(level, cap_nvalues);
    for (uint64_t i = 0; i < level->nboxes; i++)
        smallest = min_u64(smallest, level->boxes[i].nvalues);
    if (mean > cap_nvalues)
        cap_nvalues = min_u64(mean, MAX_CHUNK_NVALUES);
    level->has_parts = true;
    level->nstacked = 0;
    level->chunk_nvalues = chunk_length(level, cap_nvalues);
    /* Few boxes are as small as the smallest one, so half is often enough. */
    const uint64_t least = smallest * MAX_NBOXES_OF_CHUNK;
    while (cap_nvalues > least && !has_few_parts(level, level->chunk_nvalues)) {
        cap_nvalues = cap_nvalues / 2 > least ? cap_nvalues / 2 : least;
        level->chunk_nvalues = chunk_length(level, cap_nvalues);
    }
    return true;
}

/* ---- parts ---- */

/* Values of a chunk that are one stream: of one component, in a shape. */
struct part {
    uint64_t number; /* of the chunk in the block */
    uint64_t component;
    const uint64_t *box;    /* dims, if the part is whole boxes; else NULL */
    uint64_t value_nvalues; /* in each compound value of the container */
    struct terp_chunk shape;
    struct terp_params params;
    const uint8_t *values;
    uint8_t *stream;
    uint64_t stream_nbytes;
    bool is_taken;
};

/* The parts of the chunks of a block, in order. */
struct parts {
    const struct amrex_level *level;
    const struct terp_h5_block *block;
    const struct terp_params *params; /* of each component */
    struct terp_h5_batch *batch;
    struct part *part;
    uint64_t n, cap;
    uint64_t value_nbytes;
    void *stacked; /* values of stacks, component after component */
    void *streams;
};

static bool
add(struct parts *parts, const struct part *part)
{
    if (parts->n == parts->cap) {
        const uint64_t cap = parts->cap == 0 ? 256 : 2 * parts->cap;
        struct part *new = realloc(parts->part, cap * sizeof *new);
        if (new == NULL)
            return false;
        parts->part = new;
        parts->cap = cap;
    }
    parts->part[parts->n++] = *part;
    return true;
}

/* A cut through a chunk: where the next part begins. */
struct cut {
    struct parts *parts;
    uint64_t number, component;
    const uint8_t *values;
};

/* Adds a box to the part before, if that is a box of the same shape and
 * component. */
static bool
joins_stack(struct parts *parts, const struct part *part)
{
    if (parts->n == 0 || part->box == NULL)
        return false;
    struct part *before = &parts->part[parts->n - 1];
    struct terp_chunk *shape = &before->shape;

    if (before->number != part->number ||
        before->component != part->component || before->box == NULL ||
        memcmp(before->box, part->box, 3 * sizeof *part->box) != 0)
        return false;
    if (!shape->stack)
        *shape = (struct terp_chunk){
            .type = shape->type,
            .stack = true,
            .rank = 4,
            .dims = {1, part->box[0], part->box[1], part->box[2]}};
    shape->dims[0]++;
    before->value_nvalues += part->value_nvalues;
    return true;
}

/* Adds the next `nvalues` values, in a shape of `rank` dims. */
static bool
add_part(struct cut *cut, uint64_t nvalues, int rank, const uint64_t *dims,
         const uint64_t *box)
{
    struct parts *parts = cut->parts;
    struct part part = {
        .number = cut->number,
        .component = cut->component,
        .box = box,
        .value_nvalues = nvalues,
        .shape = {.type = parts->block->cd.chunk.type, .rank = rank},
        .params = amrex_params(parts->block, &parts->params[cut->component]),
        .values = cut->values};

    if (nvalues == 0)
        return true;
    memcpy(part.shape.dims, dims, (size_t)rank * sizeof *dims);
    cut->values += nvalues * parts->value_nbytes;
    return joins_stack(parts, &part) || add(parts, &part);
}

/* Adds values of one plane, from value `at` on: whole rows are a map. */
static bool
add_rows(struct cut *cut, uint64_t at, uint64_t nvalues, uint64_t row)
{
    const uint64_t head = min_u64(nvalues, (row - at % row) % row);
    const uint64_t nrows = (nvalues - head) / row;
    const uint64_t tail = nvalues - head - nrows * row;
    const uint64_t map[] = {nrows, row};

    return add_part(cut, head, 1, &head, NULL) &&
           add_part(cut, nrows * row, 2, map, NULL) &&
           add_part(cut, tail, 1, &tail, NULL);
}

/* Adds values of one component of one box: whole planes are a box. */
static bool
cut_span(struct cut *cut, const struct amrex_span *span)
{
    const uint64_t *box = span->box->dims;
    const uint64_t row = box[2], plane = box[1] * row;
    const uint64_t head =
        min_u64(span->nvalues, (plane - span->at % plane) % plane);
    const uint64_t nplanes = (span->nvalues - head) / plane;
    const uint64_t tail = span->nvalues - head - nplanes * plane;
    const uint64_t planes[] = {nplanes, box[1], row};

    cut->component = span->component;
    return add_rows(cut, span->at, head, row) &&
           add_part(cut, nplanes * plane, 3, planes,
                    nplanes == box[0] ? box : NULL) &&
           add_rows(cut, 0, tail, row);
}

/* Cuts a chunk that is a stack of equal boxes: each component of all boxes is a
 * part. At the end of the dataset padding takes the place of boxes. */
static bool
cut_stack(struct cut *cut)
{
    struct parts *parts = cut->parts;
    const struct amrex_level *level = parts->level;
    const struct amrex_box *box = &level->boxes[0];
    const uint64_t nbytes = box->nvalues * parts->value_nbytes;
    uint8_t *to =
        (uint8_t *)parts->stacked + cut->number * parts->batch->chunk_nbytes;

    for (uint64_t c = 0; c < level->ncomponents; c++) {
        const struct part part = {
            .number = cut->number,
            .component = c,
            .value_nvalues = box->nvalues,
            .shape = {.type = parts->block->cd.chunk.type,
                      .stack = true,
                      .rank = 4,
                      .dims = {level->nstacked, box->dims[0], box->dims[1],
                               box->dims[2]}},
            .params = amrex_params(parts->block, &parts->params[c]),
            .values = to};
        for (uint64_t i = 0; i < level->nstacked; i++, to += nbytes)
            memcpy(to, cut->values + (i * level->ncomponents + c) * nbytes,
                   nbytes);
        if (!add(parts, &part))
            return false;
    }
    return true;
}

static bool
cut_chunk(struct parts *parts, uint64_t number)
{
    const struct amrex_level *level = parts->level;
    const uint64_t begin =
        parts->block->offset[0] + number * level->chunk_nvalues;
    const uint64_t end = min_u64(begin + level->chunk_nvalues, level->nvalues);
    const uint64_t padding = begin + level->chunk_nvalues - end;
    struct cut cut = {.parts = parts,
                      .number = number,
                      .values = parts->batch->chunks +
                                number * parts->batch->chunk_nbytes};

    if (level->nstacked > 0)
        return cut_stack(&cut);
    for (uint64_t at = begin; at < end;) {
        const struct amrex_span span = amrex_level_span(level, at, end - at);
        if (!cut_span(&cut, &span))
            return false;
        at += span.nvalues;
    }
    return add_part(&cut, padding, 1, &padding, NULL);
}

/* ---- streams ---- */

/* terp_encode_batch aligns streams so on the device. */
#define STREAM_ALIGNMENT 16

static uint64_t
stream_cap(const struct part *part)
{
    return div_up(terp_encode_bound(&part->shape), STREAM_ALIGNMENT) *
           STREAM_ALIGNMENT;
}

static enum terp_status
place_streams(struct parts *parts)
{
    uint64_t nbytes = 0;

    for (uint64_t i = 0; i < parts->n; i++)
        nbytes += stream_cap(&parts->part[i]);
    const enum terp_status st =
        terp_memory_make(parts->batch->run, nbytes, &parts->streams);
    uint8_t *at = parts->streams;
    for (uint64_t i = 0; st == TERP_OK && i < parts->n; i++) {
        parts->part[i].stream = at;
        at += stream_cap(&parts->part[i]);
    }
    return st;
}

/* What a call of the codec encodes, with capacity for all parts. */
struct call {
    const void **values;
    void **stream;
    uint64_t *nbytes, *number;
};

/* Encodes part `first` and all later ones that are alike. */
static enum terp_status
encode_alike(struct parts *parts, struct call *call, uint64_t first)
{
    const struct part *model = &parts->part[first];
    uint64_t n = 0;

    for (uint64_t i = first; i < parts->n; i++) {
        struct part *part = &parts->part[i];
        if (part->is_taken || !amrex_is_alike(&part->shape, &part->params,
                                              &model->shape, &model->params))
            continue;
        part->is_taken = true;
        call->values[n] = part->values;
        call->stream[n] = part->stream;
        call->number[n++] = i;
    }
    const enum terp_status st =
        terp_run_encode(parts->batch->run, &model->params, &model->shape, n,
                        call->values, call->stream, call->nbytes);
    for (uint64_t i = 0; st == TERP_OK && i < n; i++)
        parts->part[call->number[i]].stream_nbytes = call->nbytes[i];
    return st;
}

static enum terp_status
encode_parts(struct parts *parts)
{
    struct call call = {(const void **)calloc(parts->n, sizeof(void *)),
                        (void **)calloc(parts->n, sizeof(void *)),
                        calloc(parts->n, sizeof *call.nbytes),
                        calloc(parts->n, sizeof *call.number)};
    enum terp_status st = call.values == NULL || call.stream == NULL ||
                                  call.nbytes == NULL || call.number == NULL
                              ? TERP_ERR_MEMORY
                              : place_streams(parts);

    for (uint64_t i = 0; st == TERP_OK && i < parts->n; i++)
        if (!parts->part[i].is_taken)
            st = encode_alike(parts, &call, i);
    free((void *)call.values);
    free((void *)call.stream);
    free(call.nbytes);
    free(call.number);
    return st;
}

/* Encodes a chunk without loss: its container would be larger than that. */
static enum terp_status
encode_whole(struct parts *parts, uint64_t number)
{
    struct terp_h5_batch *batch = parts->batch;
    const struct terp_params lossless = {.size = sizeof lossless,
                                         .bound_mode = TERP_BOUND_ABSOLUTE,
                                         .format = parts->params[0].format};

    return terp_run_encode(batch->run, &lossless, &parts->block->cd.chunk, 1,
                           (const void *const *)batch->chunk + number,
                           batch->stream + number,
                           batch->stream_nbytes + number);
}

/* Makes the stream of a chunk of `n` parts from `first` on. */
static enum terp_status
join(struct parts *parts, const struct part *first, uint64_t n,
     struct terp_container_member *members)
{
    struct terp_h5_batch *batch = parts->batch;
    const uint64_t number = first->number, nstacked = parts->level->nstacked;

    for (uint64_t i = 0; i < n; i++)
        members[i] = (struct terp_container_member){
            (uint32_t)(first[i].value_nvalues * parts->value_nbytes),
            first[i].stream, first[i].stream_nbytes};
    if (n == 1 && nstacked <= 1) {
        memcpy(batch->stream[number], first->stream, first->stream_nbytes);
        batch->stream_nbytes[number] = first->stream_nbytes;
        return TERP_OK;
    }
    const uint64_t nbytes = terp_container_join_nbytes(members, (uint32_t)n);
    if (nbytes > batch->chunk_nbytes)
        return encode_whole(parts, number);
    terp_container_join(nstacked > 0 ? nstacked : 1, members, (uint32_t)n,
                        batch->stream[number]);
    batch->stream_nbytes[number] = nbytes;
    return TERP_OK;
}

static enum terp_status
join_parts(struct parts *parts)
{
    struct terp_container_member *members = calloc(MAX_NPARTS, sizeof *members);
    enum terp_status st = members == NULL ? TERP_ERR_MEMORY : TERP_OK;

    for (uint64_t i = 0, n; st == TERP_OK && i < parts->n; i += n) {
        const struct part *first = &parts->part[i];
        for (n = 1; i + n < parts->n && first[n].number == first->number; n++)
            ;
        st = join(parts, first, n, members);
    }
    free(members);
    return st;
}

enum terp_status
amrex_parts_encode(const struct amrex_level *level, struct terp_h5_batch *batch,
                   const struct terp_h5_block *block,
                   const struct terp_params *params)
{
    const uint64_t nchunks = terp_array_nchunks(&block->array);
    struct parts parts = {
        .level = level,
        .block = block,
        .params = params,
        .batch = batch,
        .value_nbytes = (uint64_t)terp_value_nbytes(block->cd.chunk.type)};
    enum terp_status st = TERP_OK;

    if (level->nstacked > 0)
        st = terp_memory_make(batch->run, nchunks * batch->chunk_nbytes,
                              &parts.stacked);
    for (uint64_t i = 0; st == TERP_OK && i < nchunks; i++) {
        terp_h5_batch_take(batch, i, i, i);
        st = cut_chunk(&parts, i) ? TERP_OK : TERP_ERR_MEMORY;
    }
    if (st == TERP_OK)
        st = encode_parts(&parts);
    if (st == TERP_OK)
        st = join_parts(&parts);
    terp_memory_free(batch->run, parts.streams);
    terp_memory_free(batch->run, parts.stacked);
    free(parts.part);
    return st;
}
