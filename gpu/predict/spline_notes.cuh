/* One block makes a chunk's coarse levels. Before it makes a point, it writes a
 * *note* about the point: the point's position and its predictors. */
#pragma once

#include "gpu/entropy/order.cuh"
#include "gpu/predict/spline_values.cuh"

/* COARSE_NVALUES: the most values of the fine lattice of a coarse level. The
 * values, and a note for each, must fit the shared memory of a block. Long
 * splines are not used on such levels (doc/design/01-prediction.md).
 *
 * MAX_NCOARSE: the most coarse levels; each level about halves a lattice of at
 * least two values.
 *
 * COARSE_NTHREADS: threads of the block; each has COARSE_NEACH values. */
#define COARSE_NVALUES 4096
#define MAX_NCOARSE 12
#define COARSE_NTHREADS 1024
#define COARSE_NEACH (COARSE_NVALUES / COARSE_NTHREADS)

/* Elements in shared memory for the lattice. Rows and planes are padded so that
 * most points of a class lie in different banks. */
#define COARSE_NPLACES 5376

/* Positions of tile order that a warp handles. */
#define COARSE_NPART (32 * COARSE_NEACH)

/* A note; notes are in tile order. `where` holds, from the lowest bit on: the
 * element of the point in shared memory; the number of its predictions less
 * one; whether it has escaped (decode); its index in level order; its level,
 * counted from the finest coarse level. After the point is made, an encoder
 * stores its symbol there. */
struct alignas(8) coarse_note {
    uint32_t where;
    /* A byte for each odd dimension of the point, the slowest first. Each holds
     * REACHES_A, _C and _D, for the neighbours that exist along the dimension;
     * REACHES_B; and the dimension's number. Two more bits of the first two
     * bytes hold the point's class. finish_note clears the neighbours that the
     * level's spline does not read, and whole bytes of dimensions that do not
     * predict. */
    uint32_t reaches;
};
/* Positions of the fields of `where` and of the bytes of `reaches`. */
#define NOTE_PLACE_NBITS 13
#define NOTE_NPREDICTIONS_AT NOTE_PLACE_NBITS
#define NOTE_ESCAPED_AT 15
#define NOTE_WORK_AT 16
#define NOTE_LEVEL_AT 28
#define REACHES_B 8u
#define REACHES_DIM_AT 4
#define REACHES_CLASS_AT 6
static_assert(COARSE_NPLACES <= 1 << NOTE_PLACE_NBITS,
              "A place fits its bits of a note.");
static_assert(COARSE_NVALUES <= 1 << (NOTE_LEVEL_AT - NOTE_WORK_AT) &&
                  MAX_NCOARSE <= 1 << (32 - NOTE_LEVEL_AT),
              "A position and a level fit their bits of a note.");

/* Elements from a point to its neighbour b along a dimension, and from there to
 * the next even point. */
struct alignas(8) coarse_stride {
    int to_b, to_next;
};

/* How finish_note chooses the dimensions that predict a class. */
struct alignas(8) coarse_choice {
    uint32_t priorities; /* a byte per odd dimension: 8 * priority + 1 */
    uint32_t linear;     /* REACHES_C of all bytes for linear splines, else 0 */
};

/* A coarse level, counted from the finest. */
template <typename T> struct coarse_level {
    struct coarse_choice choice[TERP_NCLASSES];
    uint32_t class_at[TERP_NCLASSES];
    struct coarse_stride strides[TERP_NDIMS];
    uint32_t weights; /* index of its spline's first weights */
    constants<T> k;
};

template <typename T> struct coarse_shared {
    struct cuda_chunk chunk; /* a copy of the state */
    coarse_level<T> level[MAX_NCOARSE];
    constants<T> k; /* of the anchors */
    /* by spline, then by REACHES_B and the other bits */
    stencil_weights<T> weights[2 * 16];
    T shares[TERP_NDIMS]; /* by the number of predictions less one */
    T values[COARSE_NPLACES];
    struct coarse_note notes[COARSE_NVALUES];
    uint16_t places[COARSE_NVALUES]; /* elements of `values`, in C order */
    /* decode: a bit per index of level order */
    uint32_t escaped[COARSE_NVALUES / 32];
};
/* The coarse levels of a chunk's shape. The host fills this struct. */
struct coarse_work {
    int nlevels; /* 0: anchors only; -1: the chunk is too long */
    int finest;  /* the finest coarse level, if there are any */
    int rank;
    /* No class is wider than a box, so tile order is level order. */
    bool in_order;
    uint32_t nbricks;
    uint32_t nvalues; /* of the lattice in shared memory */
    /* The lattice of the finest coarse level; index TERP_NDIMS is for bricks.
     * Reciprocals are for divide_by. stride counts elements in shared memory,
     * where the even points of a row are before its odd points. */
    uint32_t extent[TERP_NDIMS], reciprocal[TERP_NDIMS];
    uint32_t stride[TERP_NDIMS + 1];
    uint64_t src_stride[TERP_NDIMS + 1];
    /* where a finest level above 1 stores the lattice */
    uint64_t lattice_at;
    uint16_t class_at[MAX_NCOARSE][TERP_NCLASSES];
    int nsteps;
    /* The number of first steps that a single warp does alone. */
    int nsmall;
    struct {
        uint16_t end;  /* last position of the step in tile order, plus 1 */
        uint8_t shift; /* its level, counted from the finest */
        uint8_t nodd_dims;
    } step[MAX_NCOARSE * TERP_NDIMS];
};

static inline int
nodd_dims_of(unsigned odd)
{
    int n = 0;
    for (; odd != 0; odd &= odd - 1)
        n++;
    return n;
}

/* Returns the least number that is at least `least` and leaves `rest` when
 * divided by `divisor`. */
static inline uint32_t
padded(uint32_t least, uint32_t divisor, uint32_t rest)
{
    return least + (rest + divisor - least % divisor) % divisor;
}

/* Computes the strides in shared memory, padded if COARSE_NPLACES suffices. The
 * threads of a warp have points that are two elements apart. */
static inline void
make_coarse_strides(struct coarse_work *work)
{
    for (int pads = 1; pads >= 0; pads--) {
        uint32_t stride = work->stride[0] = 1;
        for (int d = 0; d < TERP_NDIMS; d++) {
            stride *= work->extent[d];
            if (pads != 0 && d == 0)
                stride = padded(stride, 16, 4);
            else if (pads != 0 && d == 1)
                stride = padded(stride, 8, 2);
            work->stride[d + 1] = stride;
        }
        if ((uint64_t)stride * work->nbricks <= COARSE_NPLACES)
            break;
    }
}

/* Describes the first, coarsest, `nlevels` levels. */
static inline void
make_coarse_work(const struct terp_layout *layout, int nlevels,
                 struct coarse_work *work)
{
    uint64_t src = 1;

    *work = {};
    work->nlevels = nlevels;
    work->rank = layout->rank;
    if (nlevels <= 0)
        return;
    const int finest = layout->nlevels - nlevels + 1;
    work->finest = finest;
    work->in_order = true;
    work->nvalues = 1;
    for (int d = 0; d < TERP_NDIMS; d++) {
        const struct terp_level *level = &layout->level[finest];
        work->extent[d] = (uint32_t)(level->neven[d] + level->nodd[d]);
        work->reciprocal[d] = reciprocal_of(work->extent[d]);
        work->src_stride[d] = src << (finest - 1);
        work->nvalues *= work->extent[d];
        work->in_order &=
            level->neven[d] <= 1u << terp_box_extent_log2(layout->rank) ||
            d >= layout->rank;
        src *= layout->dims[d];
    }
    work->src_stride[TERP_NDIMS] = src;
    work->nbricks = (uint32_t)layout->nbricks;
    make_coarse_strides(work);
    work->nvalues *= work->nbricks;
    if (finest > 1)
        work->lattice_at = layout->level[finest - 1].lattice_at;

    /* Classes are ordered by their number of odd dimensions. A step makes all
     * classes of a level with the same number. */
    uint64_t end = layout->nbricks;
    for (int l = layout->nlevels; l >= finest; l--) {
        for (int odd = 1; odd < TERP_NCLASSES; odd++)
            work->class_at[l - finest][odd] =
                (uint16_t)layout->level[l].class_at[odd];
        for (int i = 0, nodd_dims = 1; nodd_dims <= TERP_NDIMS; nodd_dims++) {
            uint64_t begin = end;
            for (; i < TERP_NCLASSES - 1 &&
                   nodd_dims_of(terp_nth_class(i)) == nodd_dims;
                 i++)
                end +=
                    terp_class_nrows(layout, l, terp_nth_class(i)) *
                    terp_class_extent(&layout->level[l], terp_nth_class(i), 0);
            if (end == begin)
                continue;
            work->step[work->nsteps].end = (uint16_t)end;
            work->step[work->nsteps].shift = (uint8_t)(l - finest);
            work->step[work->nsteps++].nodd_dims = (uint8_t)nodd_dims;
            if (work->nsmall == work->nsteps - 1 && end - begin <= 32 &&
                end <= COARSE_NPART)
                work->nsmall++;
        }
    }
}

/* ---- notes ---- */

static __device__ __forceinline__ uint32_t
place_of(const struct coarse_note &note)
{
    return note.where & ((1u << NOTE_PLACE_NBITS) - 1);
}

static __device__ __forceinline__ uint32_t
work_of(const struct coarse_note &note)
{
    return note.where << (32 - NOTE_LEVEL_AT) >>
           (32 - NOTE_LEVEL_AT + NOTE_WORK_AT);
}

/* Writes the note of point `number`, as far as it follows from the shape alone.
 * Returns the position of its value in the chunk. */
template <typename T>
static __device__ __forceinline__ uint64_t
locate_point(const struct coarse_work &work, uint32_t number,
             coarse_shared<T> *shared)
{
    uint32_t at[TERP_NDIMS], any = 0, left = number, place = 0;
    uint64_t src_at = 0;

#pragma unroll
    for (int d = 0; d < TERP_NDIMS; d++) {
        at[d] = 0;
        if (d >= work.rank)
            continue;
        uint32_t quotient = divide_by(work.reciprocal[d], left);
        at[d] = left - quotient * work.extent[d];
        any |= at[d];
        left = quotient;
        src_at += at[d] * work.src_stride[d];
        place += d > 0
                     ? at[d] * work.stride[d]
                     : (at[0] >> 1) + (at[0] & 1) * ((work.extent[0] + 1) >> 1);
    }
    const uint32_t brick = left;
    place += brick * work.stride[TERP_NDIMS];
    shared->places[number] = (uint16_t)place;
    src_at += brick * work.src_stride[TERP_NDIMS];
    if (any == 0) {
        shared->notes[brick] = {place | brick << NOTE_WORK_AT, 0};
        return src_at;
    }

    /* The point's level is the first one at which one of its coordinates is
     * odd. */
    const int shift = __ffs((int)any) - 1;
    const uint32_t box = 1u << terp_box_extent_log2(work.rank);
    uint32_t row = brick, box_nrows = 1, row_in_box = 0, raster = brick;
    uint32_t odd = 0, reaches = 0, nodd_dims = 0;
#pragma unroll
    for (int d = TERP_NDIMS - 1; d >= 0; d--) {
        if (d >= work.rank)
            continue;
        uint32_t doubled = at[d] >> shift, i = doubled >> 1;
        uint32_t fine = ((work.extent[d] - 1) >> shift) + 1;
        uint32_t extent = (fine + (~doubled & 1)) >> 1;
        odd |= (doubled & 1) << d;
        if (doubled & 1)
            reaches |= (reach_at(i, (fine + 1) >> 1) | REACHES_B |
                        (uint32_t)d << REACHES_DIM_AT)
                       << (8 * nodd_dims++);
        raster = raster * extent + i;
        if (work.in_order)
            continue;
        uint32_t low = i & ~(box - 1);
        uint32_t height = min_u32(box, extent - low);
        row = row * extent + box_nrows * low;
        row_in_box = row_in_box * height + (i - low);
        box_nrows *= height;
    }
    reaches |= (odd & 3) << REACHES_CLASS_AT;
    reaches |= (odd >> 2) << (8 + REACHES_CLASS_AT);
    const uint32_t class_at = shared->level[shift].class_at[odd];
    const uint32_t tiled =
        class_at + (work.in_order ? raster : row + row_in_box);
    shared->notes[tiled] = {place | (class_at + raster) << NOTE_WORK_AT |
                                (uint32_t)shift << NOTE_LEVEL_AT,
                            reaches};
    return src_at;
}

/* Completes a note by the plan. The point is predicted along its dimensions of
 * highest priority, and among them along the dimensions whose stencils have the
 * highest order. The order of a stencil is the number of neighbours that it
 * reads besides b, where c counts twice. */
template <typename T>
static __device__ __forceinline__ void
finish_note(const coarse_shared<T> *shared, struct coarse_note *note)
{
    const uint32_t ones = 0x01010101;
    uint32_t reaches = note->reaches, best = 0;
    const uint32_t odd = (reaches >> REACHES_CLASS_AT & 3) |
                         (reaches >> (8 + REACHES_CLASS_AT - 2) & 12);
    const struct coarse_choice choice =
        shared->level[note->where >> NOTE_LEVEL_AT].choice[odd];
    const uint32_t c = reaches & choice.linear;

    reaches &= ~(c >> 1 | c << 1);
    const uint32_t keys =
        (reaches & 3 * ones) + (reaches >> 2 & ones) + choice.priorities;
#pragma unroll
    for (int j = 0; j < TERP_NDIMS; j++)
        best = max_u32(best, keys >> (8 * j) & 0xFF);
    /* No byte exceeds 127, and exactly the bytes of the best dimensions are
     * zero. */
    const uint32_t which = ~((keys ^ best * ones) + 0x7F * ones) & 0x80 * ones;
    note->reaches = reaches & (which >> 7) * 0xFF;
    note->where |= ((uint32_t)__popc(which) - 1) << NOTE_NPREDICTIONS_AT;
}
