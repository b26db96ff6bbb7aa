/* Floor 3: anchors and coarse levels of the spline predictor, in one launch.
 *
 * A chunk's block keeps the fine lattice of its finest coarse level in shared
 * memory, and in it, at their places, the points of all coarser levels. Tile
 * order begins with these points, level by level, and within a level by the
 * number of odd dimensions: what may be made at once stands together. So the
 * block first notes for each position of tile order which point it is and what
 * predicts it, while values or symbols come, and then makes one step after the
 * other without looking at global memory. */
#ifndef TERP_CUDA_SPLINE_COARSE_CUH
#define TERP_CUDA_SPLINE_COARSE_CUH

#include "cuda_spline_values.cuh"

/* A level whose fine lattice has no more values is coarse. Each level about
 * halves a lattice of at least two values. */
#define COARSE_NVALUES 4096
#define MAX_NCOARSE 12
#define COARSE_NTHREADS 1024

/* A note: the point's place, then three bits a dimension: what it reaches for
 * along it, and how many predictions that makes, less one. */
#define NOTE_PLACE_NBITS 12
#define NOTE_NPREDICTIONS_AT (NOTE_PLACE_NBITS + 3 * TERP_NDIMS)
#define NOTE_ESCAPED_AT (NOTE_NPREDICTIONS_AT + 2) /* decode */
#define NOTE_RANGE_AT (NOTE_ESCAPED_AT + 1)        /* of escapes */
static_assert(COARSE_NVALUES == 1 << NOTE_PLACE_NBITS, "a place in a note");
static_assert(COARSE_NVALUES / CUDA_RANGE_NVALUES <= 1 << (32 - NOTE_RANGE_AT),
              "a range in a note");

/* A level, by its distance from the finest. */
struct coarse_level {
    uint32_t class_at[TERP_NCLASSES];
    uint8_t dims[TERP_NCLASSES]; /* that predict a class */
    uint8_t spline;
};

/* A point of the lattice as it is known before the chunk's state. */
struct coarse_sight {
    uint64_t src_at;
    uint16_t tiled, work_at; /* its positions */
    /* What it reaches for along each dimension, three bits each, unless the
     * spline is linear; then its class, then its level. Of an anchor: 0. */
    uint32_t facts;
};
#define SIGHT_ODD_AT (3 * TERP_NDIMS)
#define SIGHT_LEVEL_AT (SIGHT_ODD_AT + TERP_NDIMS)

template <typename T> struct coarse_shared {
    struct cuda_chunk chunk; /* a copy of the state */
    struct coarse_level level[MAX_NCOARSE];
    struct constants<T> k[MAX_NCOARSE];
    struct form_weights<T> weights[NWEIGHTS];
    T shares[TERP_NDIMS]; /* by the number of predictions less one */
    T values[COARSE_NVALUES];
    /* By position of tile order: first symbols (decode), then notes, last
     * symbols (encode). Of anchors always symbols. */
    uint32_t notes[COARSE_NVALUES];
    struct coarse_sight sights[COARSE_NVALUES];
};
struct coarse_work {
    int nlevels; /* 0: anchors only; -1: too long a chunk */
    int finest;  /* level, if there are any */
    int rank;
    bool in_order; /* no class is wider than a box: tile order is work order */
    uint32_t nbricks;
    uint32_t nvalues; /* of the lattice in shared memory */
    /* Of this lattice. [TERP_NDIMS]: bricks. Reciprocals are for
     * divide_by. */
    uint32_t extent[TERP_NDIMS], reciprocal[TERP_NDIMS];
    uint32_t stride[TERP_NDIMS + 1];
    uint64_t src_stride[TERP_NDIMS + 1];
    uint64_t lattice_at; /* where it goes to; of finest level 1: not used */
    int nsteps;
    struct {
        uint16_t end;  /* in tile order */
        uint8_t shift; /* level above the finest */
    } step[MAX_NCOARSE * TERP_NDIMS];
};

/* Of a number below 2^13, by an extent below 2^13. */
static __device__ __forceinline__ uint32_t
divide_by(uint32_t reciprocal, uint32_t number)
{
    return (uint32_t)((uint64_t)number * reciprocal >> 31);
}

static inline uint32_t
reciprocal_of(uint32_t extent)
{
    return (UINT32_C(1) << 31) / extent + 1;
}

static inline int
nodd_dims_of(unsigned odd)
{
    int n = 0;
    for (; odd != 0; odd &= odd - 1)
        n++;
    return n;
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
        work->stride[d] = work->nvalues;
        work->src_stride[d] = src << (finest - 1);
        work->nvalues *= work->extent[d];
        work->in_order &= level->neven[d] <= 1u << box_shift(layout->rank) ||
                          d >= layout->rank;
        src *= layout->dims[d];
    }
    work->stride[TERP_NDIMS] = work->nvalues;
    work->src_stride[TERP_NDIMS] = src;
    work->nbricks = (uint32_t)layout->nbricks;
    work->nvalues *= work->nbricks;
    if (finest > 1)
        work->lattice_at = layout->level[finest - 1].lattice_at;

    /* Classes are in the order of their numbers of odd dimensions. */
    uint64_t end = layout->nbricks;
    for (int l = layout->nlevels; l >= finest; l--) {
        for (int i = 0, nodd_dims = 1; nodd_dims <= TERP_NDIMS; nodd_dims++) {
            uint64_t begin = end;
            for (; i < TERP_NCLASSES - 1 &&
                   nodd_dims_of(terp_class_order[i]) == nodd_dims;
                 i++)
                end += terp_class_nrows(layout, l, terp_class_order[i]) *
                       terp_class_extent(&layout->level[l], terp_class_order[i],
                                         0);
            if (end == begin)
                continue;
            work->step[work->nsteps].end = (uint16_t)end;
            work->step[work->nsteps++].shift = (uint8_t)(l - finest);
        }
    }
}

/* ---- notes ---- */

/* terp_form_order of a form by its reach. */
static __device__ __forceinline__ unsigned
order_of(unsigned reach)
{
    return 0x43003210u >> (4 * reach) & 7;
}

/* What a point's note will be made from, but for the chunk's state. */
static __device__ __forceinline__ void
locate_point(const struct coarse_work &work,
             const struct coarse_level *s_levels, uint32_t place,
             struct coarse_sight *sight)
{
    uint32_t at[TERP_NDIMS], any = 0, left = place;
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
    }
    const uint32_t brick = left;
    sight->src_at = src_at + brick * work.src_stride[TERP_NDIMS];
    sight->tiled = sight->work_at = (uint16_t)brick;
    sight->facts = 0;
    if (any == 0)
        return;

    /* Its level is the first that has one of its coordinates odd. */
    const int shift = __ffs((int)any) - 1;
    const uint32_t box = 1u << box_shift(work.rank);
    uint32_t row = brick, box_nrows = 1, row_in_box = 0, raster = brick;
    uint32_t odd = 0, facts = (uint32_t)shift << SIGHT_LEVEL_AT;
#pragma unroll
    for (int d = TERP_NDIMS - 1; d >= 0; d--) {
        if (d >= work.rank)
            continue;
        uint32_t doubled = at[d] >> shift, i = doubled >> 1;
        uint32_t fine = ((work.extent[d] - 1) >> shift) + 1;
        uint32_t extent = (fine + (~doubled & 1)) >> 1;
        odd |= (doubled & 1) << d;
        facts |= reach_at(i, (fine + 1) >> 1) << (3 * d);
        raster = raster * extent + i;
        if (work.in_order)
            continue;
        uint32_t low = i & ~(box - 1);
        uint32_t height = min_u32(box, extent - low);
        row = row * extent + box_nrows * low;
        row_in_box = row_in_box * height + (i - low);
        box_nrows *= height;
    }
    const uint32_t class_at = s_levels[shift].class_at[odd];
    sight->facts = facts | odd << SIGHT_ODD_AT;
    sight->work_at = (uint16_t)(class_at + raster);
    sight->tiled = (uint16_t)(work.in_order ? class_at + raster
                                            : class_at + row + row_in_box);
}

/* What predicts it, as in a note: those dimensions that predict its class and
 * have forms of the highest order. */
static __device__ __forceinline__ uint32_t
reaches_at(const struct coarse_level *s_levels, uint32_t facts)
{
    const struct coarse_level &level = s_levels[facts >> SIGHT_LEVEL_AT];
    const unsigned dims =
        level.dims[facts >> SIGHT_ODD_AT & (TERP_NCLASSES - 1)];
    unsigned reaches = facts & ((1u << SIGHT_ODD_AT) - 1), best = 0;
    unsigned npredictions = 0;

    if (level.spline == TERP_SPLINE_LINEAR)
        reaches = linear_reaches(reaches);
#pragma unroll
    for (int d = 0; d < TERP_NDIMS; d++) {
        unsigned order = order_of(reaches >> (3 * d) & 7);
        if (dims >> d & 1 && order > best)
            best = order;
    }
#pragma unroll
    for (int d = 0; d < TERP_NDIMS; d++) {
        unsigned order = order_of(reaches >> (3 * d) & 7);
        if (dims >> d & 1 && order == best)
            npredictions++;
        else
            reaches = (reaches & ~(7u << (3 * d))) | REACHES_NOTHING << (3 * d);
    }
    return reaches | (npredictions - 1) << (3 * TERP_NDIMS);
}

/* ---- values ---- */

/* Anchors, each predicted by the one before: `last`. By one thread. */
template <typename T, bool decode>
static __device__ __forceinline__ void
make_anchors(const struct level_view<T> &view, uint64_t first, unsigned n,
             T *s_values, uint32_t stride, uint32_t *s_symbols, T *last)
{
#pragma unroll 1
    for (unsigned i = 0; i < n; i++) {
        T &value = s_values[i * stride];
        uint32_t &symbol = s_symbols[i];
        if (!decode)
            value = quantize(value, *last, view, &symbol);
        else if (symbol != TERP_ESCAPE)
            value = reconstruct(symbol, *last, view);
        *last = value;
        if (!decode && symbol == TERP_ESCAPE)
            count_escape(view, first + i);
    }
}

/* Of a chunk without coarse levels. */
template <typename T, bool decode>
static __device__ __forceinline__ void
make_only_anchors(const struct cuda_batch &batch,
                  const struct cuda_chunk &chunk,
                  const struct level_view<T> &view,
                  struct coarse_shared<T> *shared)
{
    const struct terp_layout &layout = *batch.d_layout;
    const uint64_t nbricks = layout.nbricks;
    const uint64_t brick_nvalues = batch.nvalues / nbricks;
    T *to = layout.nlevels > 0
                ? view.lattice + layout.level[layout.nlevels].lattice_at
            : decode ? view.dst
                     : view.work;
    T last = (T)chunk.reference;

    for (uint64_t first = 0; first < nbricks; first += COARSE_NTHREADS) {
        unsigned n = (unsigned)min_u64(COARSE_NTHREADS, nbricks - first);
        const uint64_t at = first + threadIdx.x;
        T &s_value = shared->values[threadIdx.x];
        uint32_t &s_symbol = shared->notes[threadIdx.x];
        if (threadIdx.x < n) {
            s_symbol = decode ? view.symbols[at] : 0;
            if (!decode)
                s_value = view.src[at * brick_nvalues];
            else if (s_symbol == TERP_ESCAPE)
                s_value = view.work[at];
        }
        __syncthreads();
        if (threadIdx.x == 0)
            make_anchors<T, decode>(view, first, n, shared->values, 1,
                                    shared->notes, &last);
        __syncthreads();
        if (threadIdx.x < n) {
            to[at] = s_value;
            if (!decode)
                view.symbols[at] = (uint16_t)s_symbol;
        }
    }
}

/* The point of a note; returns its symbol (encode). All along all dimensions
 * is read at once, and no thread of a warp waits for others' forms. */
template <typename T, bool decode, int ndims>
static __device__ __forceinline__ uint32_t
make_coarse_point(const uint32_t *strides, const struct level_view<T> &view,
                  const struct form_weights<T> *s_weights, const T *s_shares,
                  int shift, uint32_t note, T *s_values)
{
    T *at = s_values + (note & (COARSE_NVALUES - 1));
    T sum = (T)-0.0;
    uint32_t symbol = 0;

#pragma unroll
    for (int d = ndims - 1; d >= 0; d--) {
        const unsigned reach = note >> (NOTE_PLACE_NBITS + 3 * d) & 7;
        const int stride = (int)(strides[d] << shift);
        const T none = (T)-0.0;
        sum += combine_weighted(
            s_weights[reach], reach & REACHES_A ? at[-3 * stride] : none,
            reach != REACHES_NOTHING ? at[-stride] : none,
            reach & REACHES_C ? at[stride] : none,
            reach >= (REACHES_C | REACHES_D) ? at[3 * stride] : none);
    }
    T pred = sum * s_shares[note >> NOTE_NPREDICTIONS_AT & 3];
    if (!decode)
        *at = quantize(*at, pred, view, &symbol);
    else if (!(note >> NOTE_ESCAPED_AT & 1))
        *at = pred + *at * view.k.step;
    return symbol;
}

/* Step after step, from the notes of coarser ones on. */
template <typename T, bool decode, int ndims>
static __device__ __forceinline__ void
make_steps(const struct coarse_work &work, struct level_view<T> *view,
           struct coarse_shared<T> *shared)
{
    uint32_t begin = work.nbricks;

#pragma unroll 1
    for (int s = 0; s < work.nsteps; s++) {
        const uint32_t end = work.step[s].end;
        const int shift = work.step[s].shift;
        const struct form_weights<T> *s_weights =
            shared->weights + first_weights_of(shared->level[shift].spline);
        view->k = shared->k[shift];
        __syncthreads();
#pragma unroll 1
        for (uint32_t q = begin + threadIdx.x; q < end; q += COARSE_NTHREADS) {
            uint32_t note = shared->notes[q];
            uint32_t made = make_coarse_point<T, decode, ndims>(
                work.stride, *view, s_weights, shared->shares, shift, note,
                shared->values);
            if (decode)
                continue;
            shared->notes[q] = made;
            if (made == TERP_ESCAPE)
                atomicAdd(&view->ranges[note >> NOTE_RANGE_AT], 1ull);
        }
        begin = end;
    }
}

/* All that can be known without the chunk's state. */
template <typename T>
static __device__ __forceinline__ void
locate_points(const struct cuda_batch &batch, const struct coarse_work &work,
              struct coarse_shared<T> *shared)
{
    const unsigned level = threadIdx.x / TERP_NCLASSES;
    const unsigned odd = threadIdx.x % TERP_NCLASSES;

    const unsigned last = COARSE_NTHREADS - 1 - threadIdx.x;

    static_assert(MAX_NCOARSE * TERP_NCLASSES + NWEIGHTS + TERP_NDIMS <=
                      COARSE_NTHREADS,
                  "a thread an entry");
    if ((int)level < work.nlevels)
        shared->level[level].class_at[odd] =
            (uint32_t)batch.d_layout->level[work.finest + (int)level]
                .class_at[odd];
    if (last < NWEIGHTS)
        shared->weights[last] = weights_at<T>(last);
    else if (last < NWEIGHTS + TERP_NDIMS)
        shared->shares[last - NWEIGHTS] =
            share_of<T>((int)(last - NWEIGHTS) + 1);
    __syncthreads();
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < work.nvalues; i += COARSE_NTHREADS)
        locate_point(work, shared->level, i, &shared->sights[i]);
}

/* The chunk's state and, to decode, the points' symbols. */
template <typename T, bool decode>
static __device__ __forceinline__ void
load_state(const struct cuda_batch &batch, const struct coarse_work &work,
           struct coarse_shared<T> *shared)
{
    constexpr unsigned NEACH = COARSE_NVALUES / COARSE_NTHREADS;
    const uint16_t *symbols =
        region<uint16_t>(batch, blockIdx.y, batch.at.symbols);
    uint32_t symbol[NEACH] = {};

#pragma unroll
    for (unsigned i = 0; decode && i < NEACH; i++)
        if (i * COARSE_NTHREADS + threadIdx.x < work.nvalues)
            symbol[i] = symbols[i * COARSE_NTHREADS + threadIdx.x];
    copy_state(batch, threadIdx.x, COARSE_NTHREADS, &shared->chunk);
#pragma unroll
    for (unsigned i = 0; decode && i < NEACH; i++)
        shared->notes[i * COARSE_NTHREADS + threadIdx.x] = symbol[i];
}

/* What follows from the state for each level. */
template <typename T>
static __device__ __forceinline__ void
prepare_levels(const struct coarse_work &work, struct coarse_shared<T> *shared)
{
    const unsigned level = threadIdx.x / 32, lane = threadIdx.x % 32;

    if ((int)level < work.nlevels && lane <= TERP_NCLASSES) {
        const struct cuda_level_plan &plan =
            shared->chunk.plan[work.finest + (int)level];
        if (lane < TERP_NCLASSES)
            shared->level[level].dims[lane] =
                (uint8_t)terp_predicting_dims(lane, plan.priorities);
        else
            shared->level[level].spline = plan.spline;
    }
    __syncthreads();
}

/* Notes and constants, while values come. */
template <typename T, bool decode>
static __device__ __forceinline__ void
make_notes(const struct cuda_batch &batch, const struct coarse_work &work,
           const struct level_view<T> &view, struct coarse_shared<T> *shared)
{
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < work.nvalues; i += COARSE_NTHREADS) {
        const struct coarse_sight sight = shared->sights[i];
        uint32_t &s_note = shared->notes[sight.tiled];
        bool escaped = decode && s_note == TERP_ESCAPE;
        if (!decode)
            copy_async(&shared->values[i], view.src + sight.src_at);
        else if (escaped)
            copy_async(&shared->values[i], view.work + sight.work_at);
        else
            shared->values[i] = code_of<T>(s_note);
        if (sight.tiled >= work.nbricks)
            s_note =
                i | reaches_at(shared->level, sight.facts) << NOTE_PLACE_NBITS |
                (uint32_t)escaped << NOTE_ESCAPED_AT |
                (uint32_t)sight.work_at / CUDA_RANGE_NVALUES << NOTE_RANGE_AT;
    }
    const int level = (int)(COARSE_NTHREADS - 1 - threadIdx.x);
    if (level < work.nlevels) {
        const struct cuda_chunk &chunk = shared->chunk;
        double ratio =
            (double)chunk.plan[work.finest + level].ratio / TERP_RATIO_ONE;
        shared->k[level] =
            constants_of<T>(chunk.step * ratio, chunk.bound, batch.max_code);
    }
    wait_async();
}

/* Grid: (1, chunks). The block owns its chunk's anchors and coarse levels.
 * Shared: struct coarse_shared. */
template <typename T, bool decode>
static __global__ void
__launch_bounds__(COARSE_NTHREADS)
    spline_coarse(const __grid_constant__ struct cuda_batch batch,
                  const __grid_constant__ struct coarse_work work)
{
    struct coarse_shared<T> *shared = dynamic_shared<struct coarse_shared<T>>();
    const struct cuda_chunk &chunk = shared->chunk;

    locate_points(batch, work, shared);
    wait_for_kernels();
    let_next_kernel_come(); /* see spline_tile */
    load_state<T, decode>(batch, work, shared);
    if (!chunk_applies(chunk))
        return;
    if (work.nlevels < 0) {
        if (threadIdx.x == 0)
            batch.d_chunks[blockIdx.y].status = TERP_ERR_DEVICE;
        return;
    }
    struct level_view<T> view = view_of<T>(batch, chunk);
    if (work.nlevels == 0) {
        view.k = constants_of<T>(chunk.step, chunk.bound, batch.max_code);
        make_only_anchors<T, decode>(batch, chunk, view, shared);
        return;
    }
    prepare_levels(work, shared);
    make_notes<T, decode>(batch, work, view, shared);
    __syncthreads();
    if (threadIdx.x == 0) {
        T last = (T)chunk.reference;
        view.k = constants_of<T>(chunk.step, chunk.bound, batch.max_code);
        make_anchors<T, decode>(view, 0, work.nbricks, shared->values,
                                work.stride[TERP_NDIMS], shared->notes, &last);
    }
    if (work.rank < TERP_NDIMS)
        make_steps<T, decode, TERP_NDIMS - 1>(work, &view, shared);
    else
        make_steps<T, decode, TERP_NDIMS>(work, &view, shared);
    __syncthreads();
    T *to = work.finest > 1 ? view.lattice + work.lattice_at : view.dst;
    const bool keep = decode || work.finest > 1;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < work.nvalues; i += COARSE_NTHREADS) {
        if (keep)
            to[i] = shared->values[i];
        if (!decode)
            view.symbols[i] = (uint16_t)shared->notes[i];
    }
}

#endif
