/* Makes the anchors and coarse levels of the spline predictor, in one launch.
 *
 * A chunk's block keeps the fine lattice of the finest coarse level in shared
 * memory. The points of all coarser levels are elements of it. Tile order
 * begins with these points, level by level, and within a level by the number of
 * odd dimensions, so the points of a step are consecutive. Before the previous
 * kernels have ended, the block writes a note for each position of tile order
 * that says which point it is. When the plan is known, the block adds to each
 * note the predictors of the point. It then makes one step after another
 * without reading global memory. */
#pragma once

#include "gpu/predict/spline_notes.cuh"
#include "gpu/sections/escapes.cuh"

/* ---- values ---- */

/* Makes anchors; each is predicted by the anchor before, `last`. One thread
 * calls it. */
template <typename T, bool decode>
static __device__ __forceinline__ void
make_anchors(const level_view<T> &view, uint64_t first, unsigned n, T *s_values,
             uint32_t stride, struct coarse_note *s_notes, T *last)
{
#pragma unroll 1
    for (unsigned i = 0; i < n; i++) {
        T &value = s_values[i * stride];
        uint32_t &where = s_notes[i].where;
        if (!decode)
            value = quantize(value, *last, view, &where);
        else if (!(where >> NOTE_ESCAPED_AT & 1))
            value = *last + value * view.k.step;
        if (!decode && __builtin_expect(where == TERP_ESCAPE, 0)) {
            value = put_on_grid(value, view);
            count_escape(view, first + i);
        }
        *last = value;
    }
}

/* Makes the anchors of a chunk that has no coarse levels. A chunk that is too
 * long is left to the CPU. */
template <typename T, bool decode>
static __device__ __forceinline__ void
make_only_anchors(const struct cuda_batch &batch,
                  const struct coarse_work &work, level_view<T> *view_ret,
                  coarse_shared<T> *shared)
{
    const struct cuda_chunk &chunk = shared->chunk;
    const level_view<T> &view = *view_ret;
    const struct terp_layout &layout = *batch.d_layout;
    const uint64_t nbricks = layout.nbricks;
    const uint64_t brick_nvalues = batch.nvalues / nbricks;
    T *to = layout.nlevels > 0
                ? view.lattice + layout.level[layout.nlevels].lattice_at
            : decode ? view.dst
                     : view.work;
    T last = (T)chunk.model.reference;

    if (work.nlevels < 0) {
        if (threadIdx.x == 0)
            batch.d_chunks[blockIdx.y].status = TERP_ERR_DEVICE;
        return;
    }
    view_ret->k = constants_of<T>(chunk.model.step, chunk.bound,
                                  terp_max_code_of(chunk.model.wide));
    for (uint64_t first = 0; first < nbricks; first += COARSE_NTHREADS) {
        unsigned n = (unsigned)min_u64(COARSE_NTHREADS, nbricks - first);
        const uint64_t at = first + threadIdx.x;
        T &s_value = shared->values[threadIdx.x];
        uint32_t &s_where = shared->notes[threadIdx.x].where;
        if (threadIdx.x < n) {
            const uint32_t symbol = decode ? view.symbols[at] : 0;
            const bool escaped = symbol == TERP_ESCAPE;
            s_where = (uint32_t)escaped << NOTE_ESCAPED_AT;
            s_value = !decode   ? view.src[at * brick_nvalues]
                      : escaped ? view.work[at]
                                : code_of<T>(symbol, view.radius);
        }
        __syncthreads();
        if (threadIdx.x == 0)
            make_anchors<T, decode>(view, first, n, shared->values, 1,
                                    shared->notes, &last);
        __syncthreads();
        if (threadIdx.x < n) {
            to[at] = s_value;
            if (!decode)
                view.symbols[at] = (uint16_t)s_where;
        }
    }
}

/* Makes a point of a class of nodd_dims odd dimensions; returns its symbol
 * (encode). The neighbours along all dimensions are read at once, and no thread
 * of a warp waits for the stencils of others. */
template <typename T, bool decode, int nodd_dims>
static __device__ __forceinline__ uint32_t
make_coarse_point(const coarse_level<T> &level, const level_view<T> &view,
                  struct coarse_note note, coarse_shared<T> *shared)
{
    T *at = shared->values + place_of(note);
    const T none = (T)-0.0, value = *at;
    const T share = shared->shares[note.where >> NOTE_NPREDICTIONS_AT & 3];
    T sum = none;
    uint32_t symbol = 0;

#pragma unroll
    for (int j = 0; j < nodd_dims; j++) {
        const uint32_t reaches = note.reaches >> (8 * j);
        const struct coarse_stride stride =
            level.strides[reaches >> REACHES_DIM_AT & 3];
        const T *b = at + stride.to_b, *a = b - stride.to_next;
        const T *c = b + stride.to_next, *d = c + stride.to_next;
        sum += combine_weighted(
            shared->weights[level.weights + (reaches & 15)],
            reaches & REACHES_A ? *a : none, reaches & REACHES_B ? *b : none,
            reaches & REACHES_C ? *c : none, reaches & REACHES_D ? *d : none);
    }
    const T pred = sum * share;
    if (!decode)
        *at = quantize(value, pred, view, &symbol);
    else if (!(note.where >> NOTE_ESCAPED_AT & 1))
        *at = pred + value * view.k.step;
    return symbol;
}

/* Makes the points of a step: the positions of tile order from begin to end. A
 * thread makes every COARSE_NTHREADS-th one. */
template <typename T, bool decode, int nodd_dims>
static __device__ __forceinline__ void
make_coarse_points(const coarse_level<T> &level, uint32_t begin, uint32_t end,
                   level_view<T> *view, coarse_shared<T> *shared)
{
#pragma unroll 1
    for (uint32_t q = begin + threadIdx.x; q < end; q += COARSE_NTHREADS) {
        const struct coarse_note note = shared->notes[q];
        view->k = level.k;
        uint32_t made =
            make_coarse_point<T, decode, nodd_dims>(level, *view, note, shared);
        if (decode)
            continue;
        shared->notes[q].where = made;
        if (__builtin_expect(made == TERP_ESCAPE, 0)) {
            T &value = shared->values[place_of(note)];
            value = put_on_grid(value, *view);
            count_escape(*view, work_of(note));
        }
    }
}

/* Makes all steps. The first warp alone makes the first, small steps, while the
 * other warps write their notes. A warp barrier separates its steps; a barrier
 * of the block separates the others. */
template <typename T, bool decode>
static __device__ __forceinline__ void
make_steps(const struct coarse_work &work, level_view<T> *view,
           coarse_shared<T> *shared)
{
#pragma unroll 1
    for (int s = threadIdx.x < 32 ? 0 : work.nsmall; s < work.nsteps; s++) {
        const uint32_t begin = s > 0 ? work.step[s - 1].end : work.nbricks;
        const uint32_t end = work.step[s].end;
        const coarse_level<T> &level = shared->level[work.step[s].shift];
        if (s < work.nsmall)
            __syncwarp();
        else
            __syncthreads();
        switch (work.step[s].nodd_dims) {
        case 1:
            make_coarse_points<T, decode, 1>(level, begin, end, view, shared);
            break;
        case 2:
            make_coarse_points<T, decode, 2>(level, begin, end, view, shared);
            break;
        case 3:
            make_coarse_points<T, decode, 3>(level, begin, end, view, shared);
            break;
        default:
            make_coarse_points<T, decode, 4>(level, begin, end, view, shared);
        }
    }
    __syncthreads();
}

/* Fills the tables that follow from the layout, or are constant. */
template <typename T>
static __device__ __forceinline__ void
fill_tables(const struct coarse_work &work, coarse_shared<T> *shared)
{
    const int level = (int)(threadIdx.x / TERP_NCLASSES);
    const unsigned odd = threadIdx.x % TERP_NCLASSES;
    const unsigned last = COARSE_NTHREADS - 1 - threadIdx.x;

    static_assert(MAX_NCOARSE * TERP_NCLASSES + 2 * 16 + TERP_NDIMS <=
                      COARSE_NTHREADS,
                  "Each entry has a thread.");
    if (level < work.nlevels) {
        shared->level[level].class_at[odd] = work.class_at[level][odd];
        const int to_b = -(int)(work.stride[odd % TERP_NDIMS] << level);
        struct coarse_stride stride = {to_b, -2 * to_b};
        if (odd == 0 && level == 0)
            stride = {-(int)((work.extent[0] + 1) >> 1), 1};
        else if (odd == 0)
            stride = {to_b / 2, -to_b};
        if (odd < TERP_NDIMS)
            shared->level[level].strides[odd] = stride;
    }
    if (last < COARSE_NVALUES / 32)
        shared->escaped[last] = 0;
    if (last < 2 * 16)
        shared->weights[last] =
            last & REACHES_B ? weights_at<T>(last / 16 * NREACHES + last % 8)
                             : weights_of<T>(TERP_STENCIL_COPY);
    else if (last < 2 * 16 + TERP_NDIMS)
        shared->shares[last - 2 * 16] = TERP_SHARE(T, last - 2 * 16 + 1);
}

/* Writes the notes as far as the plan is not needed, and copies the values to
 * shared memory (encode). */
template <typename T, bool decode>
static __device__ __forceinline__ void
locate_points(const struct cuda_batch &batch, const struct coarse_work &work,
              coarse_shared<T> *shared)
{
    /* Volatile loads bypass the cache, so the state can be read anew when the
     * plan is complete. */
    const volatile struct cuda_chunk &state = batch.d_chunks[blockIdx.y];
    const T *src = decode ? NULL : (const T *)state.src;

    __syncthreads();
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < work.nvalues; i += COARSE_NTHREADS) {
        uint64_t src_at = locate_point(work, i, shared);
        if (!decode)
            copy_async(&shared->values[shared->places[i]], src + src_at);
    }
    wait_async();
}

/* Returns the position in tile order of the thread's i-th symbol. */
static __device__ __forceinline__ uint32_t
position_of(unsigned i)
{
    return threadIdx.x / 32 * COARSE_NPART + 32 * i + threadIdx.x % 32;
}

/* Fills the tables that depend on the chunk's state: those of each level, and
 * the constants of the anchors. Two warps prepare a level. */
template <typename T, bool decode>
static __device__ __forceinline__ void
prepare_levels(const struct cuda_batch &batch, const struct coarse_work &work,
               coarse_shared<T> *shared)
{
    const struct cuda_chunk &chunk = shared->chunk;
    const int level = (int)(threadIdx.x / 32 % 16);
    const bool anchors = level == work.nlevels;

    static_assert(MAX_NCOARSE < 16 && COARSE_NTHREADS == 2 * 16 * 32,
                  "Two warps prepare a level.");
    const unsigned lane = threadIdx.x % 32;
    if (level > work.nlevels || lane >= TERP_NCLASSES)
        return;
    coarse_level<T> &s_level = shared->level[anchors ? 0 : level];
    const struct terp_level_plan &plan = chunk.model.plan[work.finest + level];
    if (threadIdx.x < COARSE_NTHREADS / 2) {
        if (anchors)
            return;
        uint32_t priorities = 0, nodd_dims = 0;
#pragma unroll
        for (int d = TERP_NDIMS - 1; d >= 0; d--)
            if (lane >> d & 1)
                priorities |= (8 * (plan.priorities >> (2 * d) & 3u) + 1)
                              << (8 * nodd_dims++);
        s_level.choice[lane] = {priorities, plan.spline == TERP_SPLINE_LINEAR
                                                ? 0x01010101 * REACHES_C
                                                : 0};
        if (lane == 0)
            s_level.weights = 2 * first_weights_of(plan.spline);
        /* terp's encoders do not blend, or use long splines, at coarse levels.
         */
        if (lane == 0 && (terp_blend_order(plan.priorities) > 1 ||
                          terp_spline_is_far(plan.spline)))
            batch.d_chunks[blockIdx.y].status = TERP_ERR_DEVICE;
    } else if (lane == 0) {
        double factor = anchors ? 1.0 : terp_bound_factor(&plan);
        constants<T> &s_k = anchors ? shared->k : s_level.k;
        constants<T> k = constants_of<T>(chunk.model.step * factor, chunk.bound,
                                         terp_max_code_of(chunk.model.wide));
        if (decode)
            s_k.step = k.step;
        else
            s_k = k;
    }
}

/* Sets the bits of the warp's symbols that are escapes. */
template <typename T>
static __device__ __forceinline__ void
mark_escapes(const uint32_t symbol[COARSE_NEACH], coarse_shared<T> *shared)
{
#pragma unroll
    for (unsigned i = 0; i < COARSE_NEACH; i++) {
        if (symbol[i] != TERP_ESCAPE)
            continue;
        const uint32_t at = work_of(shared->notes[position_of(i)]);
        atomicOr(&shared->escaped[at / 32], 1u << (at % 32));
    }
}

/* Returns the value of an escape. The first escapes of a chunk belong to its
 * coarse levels, in level order. */
template <typename T>
static __device__ __forceinline__ T
escaped_value(const coarse_shared<T> *shared, uint32_t work_at)
{
    const struct cuda_chunk &chunk = shared->chunk;
    unsigned nth = (unsigned)__popc(shared->escaped[work_at / 32] &
                                    ((1u << (work_at % 32)) - 1));

#pragma unroll 4
    for (uint32_t i = 0; i < work_at / 32; i++)
        nth += (unsigned)__popc(shared->escaped[i]);
    if (nth >= chunk.nescapes) /* the stream is damaged and will be refused */
        return 0;
    return value_of_bits(read_escape<T>(chunk, shared->k.step, nth));
}

/* Completes the notes of a warp, and replaces symbols by codes and escapes by
 * their values (decode). */
template <typename T, bool decode>
static __device__ __forceinline__ void
finish_notes(const struct coarse_work &work, uint32_t radius,
             const uint32_t symbol[COARSE_NEACH], coarse_shared<T> *shared)
{
#pragma unroll
    for (unsigned i = 0; i < COARSE_NEACH; i++) {
        const uint32_t q = position_of(i);
        if (q >= work.nvalues)
            break;
        struct coarse_note note = shared->notes[q];
        T *at = shared->values + place_of(note);
        const bool escaped = decode && symbol[i] == TERP_ESCAPE;
        if (__builtin_expect(escaped, 0))
            *at = escaped_value(shared, work_of(note));
        else if (decode)
            *at = code_of<T>(symbol[i], radius);
        if (q >= work.nbricks)
            finish_note(shared, &note);
        note.where |= (uint32_t)escaped << NOTE_ESCAPED_AT;
        shared->notes[q] = note;
    }
}

/* Grid: x = 1, y = chunks. The block has COARSE_NTHREADS threads and owns the
 * anchors and coarse levels of its chunk. Dynamic shared memory: struct
 * coarse_shared. Barriers: see make_steps.
 *
 * An encoding block may read values before the previous kernels have ended.
 * They are the tuner's, which write nothing but the plan, and which trigger
 * this launch only after all kernels before them have ended. */
template <typename T, bool decode>
static __global__ void
__launch_bounds__(COARSE_NTHREADS, 1)
    spline_coarse(const __grid_constant__ struct cuda_batch batch,
                  const __grid_constant__ struct coarse_work work)
{
    coarse_shared<T> *shared = dynamic_shared<coarse_shared<T>>();
    const struct cuda_chunk &chunk = shared->chunk;
    uint32_t symbol[COARSE_NEACH];

    fill_tables(work, shared);
    locate_points<T, decode>(batch, work, shared);
    wait_for_kernels();
    let_next_kernel_come(); /* see spline_tile */
#pragma unroll
    for (unsigned i = 0; i < COARSE_NEACH; i++)
        symbol[i] =
            decode && position_of(i) < work.nvalues
                ? region<uint16_t>(batch, batch.at.symbols)[position_of(i)]
                : TERP_RADIUS;
    copy_state(batch, threadIdx.x, COARSE_NTHREADS, &shared->chunk);
    if (!chunk_applies(chunk))
        return;
    level_view<T> view = view_of<T>(batch, chunk);
    if (work.nlevels <= 0) {
        make_only_anchors<T, decode>(batch, work, &view, shared);
        return;
    }
    prepare_levels<T, decode>(batch, work, shared);
    if (decode)
        mark_escapes(symbol, shared);
    __syncthreads();
    finish_notes<T, decode>(work, view.radius, symbol, shared);
    if (work.nbricks > COARSE_NPART)
        __syncthreads();
    else
        __syncwarp();
    if (threadIdx.x == 0) {
        T last = (T)chunk.model.reference;
        view.k = shared->k;
        make_anchors<T, decode>(view, 0, work.nbricks, shared->values,
                                work.stride[TERP_NDIMS], shared->notes, &last);
    }
    make_steps<T, decode>(work, &view, shared);
    T *to = work.finest > 1 ? view.lattice + work.lattice_at : view.dst;
    const bool keep = decode || work.finest > 1;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < work.nvalues; i += COARSE_NTHREADS) {
        if (keep)
            to[i] = shared->values[shared->places[i]];
        if (!decode)
            view.symbols[i] = (uint16_t)shared->notes[i].where;
    }
}
