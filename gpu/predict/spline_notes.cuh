/* What the block of a chunk's coarse levels notes of each point before
 * it makes them: where it is, and what predicts it. */
#pragma once

#include "gpu/entropy/order.cuh"
#include "gpu/predict/spline_values.cuh"

/* A level whose fine lattice has no more values is coarse. Each level about
 * halves a lattice of at least two values. */
#define COARSE_NVALUES 4096
#define MAX_NCOARSE 12
#define COARSE_NTHREADS 1024
#define COARSE_NEACH (COARSE_NVALUES / COARSE_NTHREADS)

/* Room for the lattice, whose rows and planes are kept apart so that points of
 * a class mostly lie in different banks. */
#define COARSE_NPLACES 5376

/* A warp's part of tile order. */
#define COARSE_NPART (32 * COARSE_NEACH)

/* A position of tile order. In `where`, from the lowest bit on: the point's
 * place; how many predictions it has, less one; whether it has escaped
 * (decode); its position in level order; its level, from the finest.
 * In the end: its symbol (encode). */
struct alignas(8) coarse_note {
    uint32_t where;
    /* A byte an odd dimension, the slowest first: what the point reaches for
     * along it, by a spline that is not linear, REACHES_B, and which dimension
     * it is. Once the chunk's state is known: what it does reach for, zero
     * where the dimension does not predict it. Its class stands where the
     * first two bytes have room. */
    uint32_t reaches;
};
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

/* Values from a point to its neighbour b, and from there to the next even
 * point. */
struct alignas(8) coarse_stride {
    int to_b, to_next;
};

/* What chooses the dimensions that predict a class. */
struct alignas(8) coarse_choice {
    uint32_t priorities; /* a byte an odd dimension: 8 times as much, and 1 */
    uint32_t linear;     /* mask of what makes a prediction linear */
};

/* A level, by its distance from the finest. */
template <typename T> struct coarse_level {
    struct coarse_choice choice[TERP_NCLASSES];
    uint32_t class_at[TERP_NCLASSES];
    struct coarse_stride strides[TERP_NDIMS];
    uint32_t weights; /* the first of its spline */
    struct constants<T> k;
};

template <typename T> struct coarse_shared {
    struct cuda_chunk chunk; /* a copy of the state */
    struct coarse_level<T> level[MAX_NCOARSE];
    struct constants<T> k;                  /* of anchors */
    struct form_weights<T> weights[2 * 16]; /* by spline and REACHES_B .. */
    T shares[TERP_NDIMS]; /* by the number of predictions less one */
    T values[COARSE_NPLACES];
    struct coarse_note notes[COARSE_NVALUES];
    uint16_t places[COARSE_NVALUES]; /* in C order */
    /* decode: a bit a position of level order */
    uint32_t escaped[COARSE_NVALUES / 32];
};
struct coarse_work {
    int nlevels; /* 0: anchors only; -1: too long a chunk */
    int finest;  /* level, if there are any */
    int rank;
    bool in_order; /* no class is wider than a box: tile order is level order */
    uint32_t nbricks;
    uint32_t nvalues; /* of the lattice in shared memory */
    /* Of this lattice. [TERP_NDIMS]: bricks. Reciprocals are for divide_by.
     * Strides are those in shared memory, where the even points of a row stand
     * before the odd ones. */
    uint32_t extent[TERP_NDIMS], reciprocal[TERP_NDIMS];
    uint32_t stride[TERP_NDIMS + 1];
    uint64_t src_stride[TERP_NDIMS + 1];
    uint64_t lattice_at; /* where it goes to; of finest level 1: not used */
    uint16_t class_at[MAX_NCOARSE][TERP_NCLASSES];
    int nsteps;
    int nsmall; /* steps, from the first on, that a warp does alone */
    struct {
        uint16_t end;  /* in tile order */
        uint8_t shift; /* level above the finest */
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

/* The least number of at least `least` that leaves `rest` when divided. */
static inline uint32_t
padded(uint32_t least, uint32_t divisor, uint32_t rest)
{
    return least + (rest + divisor - least % divisor) % divisor;
}

/* Where the lattice's values stand: with room between rows and planes, if there
 * is so much. A warp's points are each other's second neighbours. */
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

/* The first `nlevels` levels. */
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

    /* Classes are in the order of their numbers of odd dimensions. */
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

/* What is known of a point without the chunk's state; returns where its value
 * is in the chunk. */
template <typename T>
static __device__ __forceinline__ uint64_t
locate_point(const struct coarse_work &work, uint32_t number,
             struct coarse_shared<T> *shared)
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

    /* Its level is the first that has one of its coordinates odd. */
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

/* What predicts a point: along the dimensions of highest priority, those that
 * have forms of the highest order. A form's order is what it reaches for
 * besides b, c counting twice. */
template <typename T>
static __device__ __forceinline__ void
finish_note(const struct coarse_shared<T> *shared, struct coarse_note *note)
{
    const uint32_t ones = 0x01010101;
    uint32_t reaches = note->reaches, best = 0;
    const uint32_t odd = (reaches >> REACHES_CLASS_AT & 3) |
                         (reaches >> (8 + REACHES_CLASS_AT - 2) & 12);
    const struct coarse_choice choice =
        shared->level[note->where >> NOTE_LEVEL_AT].choice[odd];
    const uint32_t c = reaches & choice.linear;

    reaches &= ~(c >> 1 | c << 1);
    const uint32_t ranks =
        (reaches & 3 * ones) + (reaches >> 2 & ones) + choice.priorities;
#pragma unroll
    for (int j = 0; j < TERP_NDIMS; j++)
        best = max_u32(best, ranks >> (8 * j) & 0xFF);
    /* No byte exceeds 127, and zero none but that of the best. */
    const uint32_t which = ~((ranks ^ best * ones) + 0x7F * ones) & 0x80 * ones;
    note->reaches = reaches & (which >> 7) * 0xFF;
    note->where |= ((uint32_t)__popc(which) - 1) << NOTE_NPREDICTIONS_AT;
}
