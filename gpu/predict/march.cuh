/* Marching through a level of splines, which reads and writes each of its
 * points once: what all kernels that do so have in common.
 *
 * A cube is an even point and the seven points behind it, one of each class. A
 * block has the cubes of a tile along x and y and of a segment along z, and
 * marches along z, two cubes of a row a thread. In step z it makes the points
 * of even z of cubes z, and those of odd z of cubes a little behind, as these
 * reach for even planes above them. A thread has the last planes in registers;
 * along x and y points see each other through shared memory. What a tile needs
 * of its surroundings it makes itself: an odd point reaches for even ones only,
 * so these are few cubes, however many classes there are.
 *
 * Which chunks have plans that a kernel knows is known on the device alone: all
 * kernels of a level are launched, and the blocks of all but one end at once.
 * Odd extents, special values, and chunks that do not begin at a multiple of 16
 * bytes are left to gpu/predict/spline_rows.cuh. */
#pragma once

#include "gpu/predict/spline_values.cuh"

#define MARCH_NDIMS 3
#define MARCH_NCLASSES (1 << MARCH_NDIMS)
#define MARCH_ODD_X 1
#define MARCH_ODD_Y 2
#define MARCH_ODD_Z 4

/* Cubes of a thread, all in a row. */
#define MARCH_WIDTH 2

/* ---- what can be done so ---- */

/* Cubes along x, y and z, and how they are cut. */
struct march_work {
    int nx, ny, nz;
    uint32_t ntiles_x, ntiles_y, nsegments;
    int segment_nz;
    uint32_t plane_ncubes, fine_plane; /* the latter in values */
    uint32_t brick_at;  /* cubes of the bricks before a block's */
    uint64_t coarse_at; /* in `lattice` */
    uint32_t class_at[MARCH_NCLASSES];
    uint32_t class_byte_at[MARCH_NCLASSES]; /* of its symbols */
};

/* Whether a level's shape allows it: level 1 of three dimensions, whose extents
 * are even and have three cubes, and rows that are read by 16 bytes. */
static inline bool
shape_marches(const struct terp_layout *layout, int l)
{
    const struct terp_level *level = &layout->level[l];
    bool fits = true;

    for (int d = 0; d < MARCH_NDIMS; d++)
        fits &= level->neven[d] == level->nodd[d] && level->neven[d] >= 3;
    return l == 1 && layout->rank == MARCH_NDIMS && fits &&
           level->neven[0] % MARCH_WIDTH == 0 && layout->nvalues <= INT32_MAX;
}

/* Whether a chunk's values do, where the shape of its level does. */
template <bool decode>
static __device__ __forceinline__ bool
values_march(const struct cuda_chunk &chunk)
{
    const void *values = decode ? chunk.dst : chunk.src;

    return (decode || !chunk.has_specials) && (uintptr_t)values % 16 == 0;
}

/* Whether a chunk is marched through, where the shape of its level allows it:
 * as gpu/predict/spline_march.cuh says, or .../spline_march_blended.cuh. */
template <typename T, bool decode>
static __device__ __forceinline__ bool
plan_marches(const struct cuda_chunk &chunk, int l)
{
    const struct terp_level_plan &plan = chunk.model.plan[l];
    /* Eight planes of wide values are more than a thread has room for. */
    const bool may_be_long = sizeof(T) == 4;

    return plan.spline != TERP_SPLINE_LINEAR &&
           plan.spline != TERP_SPLINE_MEAN &&
           (plan.spline != TERP_SPLINE_LONG || may_be_long) &&
           terp_blend_order(plan.priorities) == 1 &&
           terp_predicting_dims(MARCH_NCLASSES - 1, plan.priorities) ==
               MARCH_NCLASSES - 1 &&
           values_march<decode>(chunk);
}

template <bool decode>
static __device__ __forceinline__ bool
plan_marches_blended(const struct cuda_chunk &chunk, int l)
{
    const struct terp_level_plan &plan = chunk.model.plan[l];

    return plan.spline == TERP_SPLINE_LONG &&
           terp_blend_order(plan.priorities) == MARCH_NDIMS &&
           values_march<decode>(chunk);
}

/* ---- values and forms ---- */

/* Both cubes' points of a class; a row of both, which takes turns between two
 * classes. */
template <typename T> struct alignas(2 * sizeof(T)) both {
    T at[MARCH_WIDTH];
};

template <typename T> struct alignas(16) row {
    T at[2 * MARCH_WIDTH];
};

/* The even points around an odd one, or what is missed at these, as many below
 * as above it; and around both cubes'. */
template <typename T, int npoints> struct line {
    T at[npoints];
};

template <typename T, int npoints> struct lines {
    struct line<T, npoints> of[MARCH_WIDTH];
};

/* Along x, where `s` has the thread's own points among others. */
template <typename tile, typename T>
static __device__ __forceinline__ struct lines<T, tile::npoints>
along_x(const struct both<T> *s, const struct both<T> &own) {
    constexpr int N = tile::npoints;
    struct lines<T, N> lines;
    T at[N + MARCH_WIDTH];

    static_assert(tile::below % MARCH_WIDTH == 1,
                  "The first of these points is one more than is reached.");
#pragma unroll
    for (int i = 0; i < N + MARCH_WIDTH; i += MARCH_WIDTH) {
        const int n = i / MARCH_WIDTH - tile::nleft;
        const struct both<T> two = n == 0 ? own : s[n];
        at[i] = two.at[0];
        at[i + 1] = two.at[1];
    }
#pragma unroll
    for (int i = 0; i < MARCH_WIDTH; i++)
#pragma unroll
        for (int n = 0; n < N; n++)
            lines.of[i].at[n] = at[1 + i + n];
    return lines;
}

/* Along y, where rows stand so many threads apart. */
template <typename tile, typename T>
static __device__ __forceinline__ struct lines<T, tile::npoints>
along_y(const struct both<T> *s, const struct both<T> &own) {
    struct lines<T, tile::npoints> lines;

#pragma unroll
    for (int n = 0; n < tile::npoints; n++) {
        const struct both<T> two =
            n == tile::below ? own : s[(n - tile::below) * tile::ncolumns];
        lines.of[0].at[n] = two.at[0];
        lines.of[1].at[n] = two.at[1];
    }
    return lines;
}

/* What a point reaches for along a dimension, see reach_at; by a long spline
 * its form too, above these bits. */
#define MARCH_REACH_NBITS 3

template <enum terp_spline spline>
static __device__ __forceinline__ unsigned
march_reach_at(uint32_t i, int neven)
{
    const unsigned reach = reach_at(i, (uint32_t)neven);

    return spline == TERP_SPLINE_LONG
               ? reach | (unsigned)terp_form_at(spline, i, (uint64_t)neven)
                             << MARCH_REACH_NBITS
               : reach;
}

/* Of points away from all borders. */
template <enum terp_spline spline>
static __device__ __forceinline__ unsigned
reach_inside(void)
{
    return spline == TERP_SPLINE_LONG
               ? REACHES_ALL | (unsigned)TERP_FORM_EIGHT << MARCH_REACH_NBITS
               : REACHES_ALL;
}

/* Whether a tile's spline has all its points there. */
template <typename tile>
static __device__ __forceinline__ bool
is_inside(int i, int neven)
{
    return i >= tile::below && i + tile::above < neven;
}

/* Both cubes' along x, and along y and z. */
struct march_reach {
    unsigned x[MARCH_WIDTH], y, z;
};

/* Whether the form is of lower order than a cubic one. */
static __device__ __forceinline__ bool
is_low(unsigned reach)
{
    return (reach & REACHES_ALL) != REACHES_ALL;
}

/* Whether there is an even point above the odd one. */
static __device__ __forceinline__ bool
has_above(unsigned reach)
{
    return (reach & REACHES_C) != 0;
}

/* By one of the forms of lower order that three or more even points have: the
 * quadratic ones, which mirror each other, and behind the last even point. */
template <typename T, int npoints>
static __device__ __forceinline__ T
low_of(unsigned reach, const struct line<T, npoints> &line)
{
    const T *b = &line.at[npoints / 2 - 1];
    const bool above = !(reach & REACHES_A);
    const T quad = TERP_QUAD_BELOW(above ? b[2] : b[-1], above ? b[1] : b[0],
                                   above ? b[0] : b[1]);

    return has_above(reach) ? quad : TERP_EXTRAPOLATE(b[-1], b[0]);
}

static __device__ __forceinline__ int
order_of_low(unsigned reach)
{
    return terp_form_order(has_above(reach) ? TERP_FORM_QUAD_BELOW
                                            : TERP_FORM_EXTRAPOLATE);
}

/* By a form that is not low; which one is known of points inside. Else all are
 * made, as lanes have different ones. */
template <enum terp_spline spline, bool inside, typename T, int npoints>
static __device__ __forceinline__ T
whole_of(unsigned reach, const struct line<T, npoints> &line)
{
    const T *b = &line.at[npoints / 2 - 1];

    if constexpr (spline == TERP_SPLINE_LONG) {
        const T eight =
            TERP_EIGHT(b[-3], b[-2], b[-1], b[0], b[1], b[2], b[3], b[4]);
        if (inside)
            return eight;
        const unsigned form = reach >> MARCH_REACH_NBITS;
        const T six = TERP_SIX(b[-2], b[-1], b[0], b[1], b[2], b[3]);
        const T cubic = TERP_CUBIC(b[-1], b[0], b[1], b[2]);
        return form == TERP_FORM_EIGHT ? eight
               : form == TERP_FORM_SIX ? six
                                       : cubic;
    } else if constexpr (spline == TERP_SPLINE_NATURAL) {
        return TERP_NATURAL(T, b[-1], b[0], b[1], b[2]);
    } else {
        return TERP_CUBIC(b[-1], b[0], b[1], b[2]);
    }
}

/* By any form. */
template <enum terp_spline spline, bool inside, typename T, int npoints>
static __device__ __forceinline__ T
value_of(unsigned reach, const struct line<T, npoints> &line)
{
    const T whole = whole_of<spline, inside>(reach, line);

    if (inside)
        return whole;
    const T low = low_of(reach, line);
    return is_low(reach) ? low : whole;
}

/* ---- a thread's place and points ---- */

struct march_thread {
    bool exists;               /* its cubes are in the lattice */
    bool in_tile_x, in_tile_y; /* of the block's, not of its surroundings */
    bool owns;                 /* all of these */
    bool is_beside_y;          /* in a row of the tile, or next to it */
    bool is_seen;              /* has a place in shared memory: seen_at */
    unsigned seen_at;
    uint32_t kx, ky; /* of the first cube, if it exists */
    /* Where its symbols stand, see symbols_at. */
    uint32_t before, box_plane, in_box;
};

/* Whether its points of a class are what they should be: those of the
 * surroundings lack some neighbours, and are not needed. */
template <int odd>
static __device__ __forceinline__ bool
is_made(const struct march_thread &thread)
{
    return thread.exists && (!(odd & MARCH_ODD_X) || thread.in_tile_x) &&
           (!(odd & MARCH_ODD_Y) || thread.in_tile_y);
}

/* Boxes that symbols are ordered by. */
static __device__ __forceinline__ uint32_t
march_box(void)
{
    return 1u << terp_box_extent_log2(MARCH_NDIMS);
}

static __device__ __forceinline__ void
place_symbols(const struct march_work &work, struct march_thread *thread)
{
    const uint32_t box = march_box();
    const uint32_t low_x = thread->kx & ~(box - 1);
    const uint32_t low_y = thread->ky & ~(box - 1);
    const uint32_t width = min_u32(box, (uint32_t)work.nx - low_x);
    const uint32_t height = min_u32(box, (uint32_t)work.ny - low_y);

    thread->before = low_y * (uint32_t)work.nx + low_x * height;
    thread->box_plane = height * width;
    thread->in_box = (thread->ky - low_y) * width + (thread->kx - low_x);
}

/* Where the thread's symbols of plane z of a class would be if that were the
 * first one: what tiled_row_at says. */
template <typename T>
static __device__ __forceinline__ uint8_t *
symbols_at(const struct march_work &work, const struct level_view<T> &view,
           const struct march_thread &thread, int z)
{
    const uint32_t in_layer = (uint32_t)z % march_box();
    const uint32_t low = (uint32_t)z - in_layer;
    const uint32_t depth = min_u32(march_box(), (uint32_t)work.nz - low);
    const uint32_t at = low * work.plane_ncubes + thread.before * depth +
                        in_layer * thread.box_plane + thread.in_box;

    return (uint8_t *)view.symbols + (uint32_t)sizeof(uint16_t) * at;
}

/* What a block shares: its copy of the state, and the grid of escapes
 * (encode). */
template <typename T> struct march_shared {
    struct cuda_chunk chunk;
    struct value_grid<T> grid;
};

/* Both points of a class, of which one has escaped or both: what the decoder
 * makes of these. `range` counts them; NULL where another thread does that. The
 * block's copy of the state tells which numbers it has noted. */
template <typename T>
static __device__ __noinline__ struct both<T>
escape_both(struct march_shared<T> *s_block, struct cuda_chunk *d_chunk,
            unsigned long long *range, uint32_t symbols,
            struct both<T> values) {
    const struct value_grid<T> grid = s_block->grid;
    unsigned n = 0;

#pragma unroll
    for (int i = 0; i < MARCH_WIDTH; i++) {
        const struct grid_point<T> point = find_on_grid(grid, values.at[i]);
        if ((symbols >> (16 * i) & 0xFFFF) != TERP_ESCAPE)
            continue;
        n++;
        values.at[i] = point.fits ? point.value : values.at[i];
        if (range == NULL)
            continue;
        const uint64_t number = point.fits ? zigzag((int64_t)point.nsteps) : 0;
        if (note_number(&s_block->chunk, point.fits, number))
            note_number(d_chunk, point.fits, number);
    }
    if (range != NULL)
        atomicAdd(range, (unsigned long long)n);
    return values;
}

/* A step: of even planes of cubes z, and of odd ones of cubes odd_z. */
struct march_step {
    int z, odd_z;
    bool has_even, has_odd;
    bool owns_even, owns_odd; /* by the thread */
};

/* All that points of a class are made of. */
template <typename T> struct march {
    const struct march_work &work;
    const struct level_view<T> &view;
    struct march_shared<T> *s_block;
    const struct march_thread &thread;
    const struct march_reach &reach;
    const struct march_step &step;
    /* encode: where the thread's would be, if a class were the first one */
    uint8_t *even_symbols, *odd_symbols;
};

/* The thread's first point of a class in level order. */
template <int odd, typename T>
static __device__ __forceinline__ uint32_t
class_point_at(const struct march<T> &m)
{
    const int z = odd & MARCH_ODD_Z ? m.step.odd_z : m.step.z;

    return m.work.class_at[odd] + m.work.brick_at +
           (uint32_t)z * m.work.plane_ncubes +
           m.thread.ky * (uint32_t)m.work.nx + m.thread.kx;
}

/* Both points of the class from their predictions and their values among those
 * of their row. */
template <int odd, typename T>
static __device__ __forceinline__ struct both<T>
quantize_both(const struct march<T> &m, const struct row<T> &values,
              const struct both<T> &pred) {
    const bool owns = odd & MARCH_ODD_Z ? m.step.owns_odd : m.step.owns_even;
    uint32_t symbol[MARCH_WIDTH];
    struct both<T> made;

#pragma unroll
    for (int i = 0; i < MARCH_WIDTH; i++)
        made.at[i] = quantize(values.at[2 * i + (odd & MARCH_ODD_X)],
                              pred.at[i], m.view, &symbol[i]);
    const uint32_t symbols = symbol[0] | symbol[1] << 16;
    if (__builtin_expect(min_u32(symbol[0], symbol[1]) == TERP_ESCAPE, 0) &&
        is_made<odd>(m.thread))
        made = escape_both(
            m.s_block, m.view.d_chunk,
            owns ? &m.view.ranges[class_point_at<odd>(m) / CUDA_RANGE_NVALUES]
                 : NULL,
            symbols, made);
    if (owns) {
        uint8_t *at = odd & MARCH_ODD_Z ? m.odd_symbols : m.even_symbols;
        *(uint32_t *)(at + m.work.class_byte_at[odd]) = symbols;
    }
    return made;
}

/* The same from both symbols; with `escapes` these may be such. */
template <int odd, bool escapes, typename T>
static __device__ __forceinline__ struct both<T>
reconstruct_both(const struct march<T> &m, uint32_t symbols,
                 const struct both<T> &pred) {
    struct both<T> made;

#pragma unroll
    for (int i = 0; i < MARCH_WIDTH; i++) {
        const uint32_t symbol = i == 0 ? symbols & 0xFFFF : symbols >> 16;
        made.at[i] = reconstruct(symbol, pred.at[i], m.view);
        if (escapes && symbol == TERP_ESCAPE && is_made<odd>(m.thread))
            made.at[i] = m.view.work[class_point_at<odd>(m) + (uint32_t)i];
    }
    return made;
}

/* ---- a block ---- */

/* What a kind of spline asks for: cubes below and above a tile along x and y;
 * by how many planes odd points are behind even ones, and coarse ones ahead of
 * these; classes in shared memory; whether points of odd x are reached for from
 * other rows than those next to theirs; planes of a segment where there are
 * several chunks. For a cubic one: */
struct march_cubic {
    static constexpr int below = SPLINE_LEFT, above = SPLINE_RIGHT;
    static constexpr int odd_lag = above, coarse_lead = 0;
    static constexpr int nseen = 6;
    static constexpr bool odd_x_far = true;
    static constexpr int batch_nz = 16;
};

/* How many cubes a tile has, how many steps' input is on its way, and how many
 * blocks a multiprocessor has. A tile that is all of a plane has nothing around
 * it: only room, in shared memory, for what no point is made of. */
template <typename T, bool is_decode, typename spline, int nx_, int ny_,
          int nstages_, int nblocks_, bool is_whole = false>
struct march_tile : spline {
    static constexpr bool decode = is_decode, whole = is_whole;
    static constexpr int nx = nx_, ny = ny_, nstages = nstages_;
    static constexpr int nblocks = nblocks_;
    /* Threads of a row whose points are reached for on its left; threads around
     * the tile; those of a row, and rows. */
    static constexpr int nleft = (spline::below - 1) / MARCH_WIDTH + 1;
    static constexpr int nright = (spline::above - 1) / MARCH_WIDTH + 1;
    static constexpr int before_x = is_whole ? 0 : nleft;
    static constexpr int behind_x = is_whole ? 0 : nright;
    static constexpr int before_y = is_whole ? 0 : spline::below;
    static constexpr int behind_y = is_whole ? 0 : spline::above;
    static constexpr int ncolumns = before_x + nx / MARCH_WIDTH + behind_x;
    static constexpr int nrows = before_y + ny + behind_y;
    static constexpr int nthreads = (ncolumns * nrows + 31) / 32 * 32;
    static constexpr int npoints = spline::below + 1 + spline::above;
    /* Points of a class, with what rows' ends see before and behind it. */
    static constexpr int nboth =
        ncolumns * (spline::below + ny + spline::above) + nleft + nright;
    /* A thread's input of a step: four rows, or symbols of all classes; and its
     * coarse points. */
    static constexpr int ninputs = decode ? MARCH_NCLASSES - 1 : 4;
    static constexpr int input_nbytes =
        decode ? sizeof(uint32_t) : sizeof(struct row<T>);
    static constexpr int coarse_nbytes = sizeof(struct both<T>);
    static constexpr int input_at =
        (spline::nseen * nboth * coarse_nbytes + 15) / 16 * 16;
    static constexpr int coarse_at =
        input_at + nstages * nthreads * ninputs * input_nbytes;
    static constexpr int shared_nbytes =
        coarse_at + nstages * nthreads * coarse_nbytes;
};

/* A thread's input of a step in shared memory: rows by class / 2, a stride of
 * all threads apart, or symbols by class - 1. */
template <typename T> struct march_input {
    struct row<T> *s_rows;
    uint32_t *s_symbols;
    struct both<T> *s_coarse;
};

template <typename tile, typename T>
static __device__ __forceinline__ struct march_input<T>
march_input_of(unsigned stage) {
    unsigned char *s_block = dynamic_shared<unsigned char>();
    unsigned char *s_input =
        s_block + tile::input_at +
        (stage * (unsigned)(tile::ninputs * tile::nthreads) + threadIdx.x) *
            (unsigned)tile::input_nbytes;

    return {(struct row<T> *)s_input, (uint32_t *)s_input,
            (struct both<T> *)(s_block + tile::coarse_at) +
                (stage * (unsigned)tile::nthreads + threadIdx.x)};
}

/* Where a thread's cubes have their even rows of a step, and coarse points. */
template <typename T>
struct march_place {
    const T *src, *coarse;
    T *fine;
};

template <typename T>
static __device__ __forceinline__ void
copy_row_async(struct row<T> *s_to, const T *from)
{
    constexpr int NPIECES = sizeof(struct row<T>) / 16;

#pragma unroll
    for (int i = 0; i < NPIECES; i++)
        copy_async((uint4 *)s_to + i, (const uint4 *)from + i);
}

/* Lets the input of a step's even points come, or of its odd ones, whose cubes
 * are in plane z. */
template <typename tile, bool odd_z, typename T>
static __device__ __forceinline__ void
fetch_half(const struct march_work &work, const struct level_view<T> &view,
           const struct march_thread &thread, const T *src, int z,
           const struct march_input<T> &in)
{
    constexpr int N = tile::nthreads;

    if constexpr (tile::decode) {
        const uint8_t *symbols = symbols_at(work, view, thread, z);
#pragma unroll
        for (int odd = odd_z ? 4 : 1; odd < (odd_z ? 8 : 4); odd++)
            if (!(odd & MARCH_ODD_Y) || thread.in_tile_y)
                copy_async(
                    in.s_symbols + (odd - 1) * N,
                    (const uint32_t *)(symbols + work.class_byte_at[odd]));
    } else {
        struct row<T> *s_rows = in.s_rows + (odd_z ? 2 * N : 0);
        if (odd_z || tile::odd_x_far || thread.is_beside_y)
            copy_row_async(s_rows, src);
        if (thread.in_tile_y)
            copy_row_async(s_rows + N, src + 2 * work.nx);
    }
}

/* Of the step z. */
template <typename tile, typename T>
static __device__ __forceinline__ void
fetch_input(const struct march_work &work, const struct level_view<T> &view,
            const struct march_thread &thread,
            const struct march_place<T> &place, int begin, int z,
            unsigned stage)
{
    const struct march_input<T> in = march_input_of<tile, T>(stage);
    const int odd_z = z - tile::odd_lag;

    if (!thread.exists)
        return;
    if (z + tile::coarse_lead < work.nz)
        copy_async(in.s_coarse, (const struct both<T> *)place.coarse);
    if (z < work.nz)
        fetch_half<tile, false>(work, view, thread, place.src, z, in);
    if (odd_z >= begin)
        fetch_half<tile, true>(work, view, thread,
                               place.src - (2 * tile::odd_lag - 1) *
                                               (int64_t)work.fine_plane,
                               odd_z, in);
}

/* Makes both points of a class, by the step's input. */
template <typename tile, int odd, bool escapes, typename T>
static __device__ __forceinline__ struct both<T>
make_both(const struct march<T> &m, const struct march_input<T> &in,
          const struct both<T> &pred) {
    constexpr int N = tile::nthreads;

    if constexpr (tile::decode)
        return reconstruct_both<odd, escapes>(m, in.s_symbols[(odd - 1) * N],
                                              pred);
    else
        return quantize_both<odd>(m, in.s_rows[odd / 2 * N], pred);
}

/* Values of an even and an odd class to their row. */
template <typename T>
static __device__ __forceinline__ void
store_row(T *at, const struct both<T> &even, const struct both<T> &odd)
{
    *(struct row<T> *)at = {{even.at[0], odd.at[0], even.at[1], odd.at[1]}};
}

/* Stores what a decoding thread owns of a step's even and odd points. */
template <typename tile, typename T>
static __device__ __forceinline__ void
store_step(const struct march<T> &m, T *fine, const struct both<T> even[4],
           const struct both<T> odd[4])
{
    const int64_t row = 2 * (int64_t)m.work.nx;

    if (m.step.owns_even) {
        store_row(fine, even[0], even[1]);
        store_row(fine + row, even[2], even[3]);
    }
    if (m.step.owns_odd) {
        fine -= (2 * tile::odd_lag - 1) * (int64_t)m.work.fine_plane;
        store_row(fine, odd[0], odd[1]);
        store_row(fine + row, odd[2], odd[3]);
    }
}

/* Whether a lane of the warp may have an escape among a step's symbols: also
 * where it has none, but an earlier step has left one. */
template <typename tile, typename T>
static __device__ __forceinline__ bool
warp_has_escapes(const struct march_input<T> &in)
{
    uint32_t zeros = 0;

#pragma unroll
    for (int i = 0; i < MARCH_NCLASSES - 1; i++) {
        const uint32_t two = in.s_symbols[i * tile::nthreads];
        zeros |= (two - 0x00010001u) & ~two;
    }
    return __any_sync(FULL_WARP_MASK, (zeros & 0x80008000u) != 0);
}

/* What a thread does not fetch holds no escape. */
template <typename tile, typename T>
static __device__ __forceinline__ void
clear_symbols(void)
{
    for (unsigned stage = 0; stage < (unsigned)tile::nstages; stage++)
        for (int i = 0; i < MARCH_NCLASSES - 1; i++)
            march_input_of<tile, T>(stage).s_symbols[i * tile::nthreads] =
                UINT32_MAX;
}

/* The thread's cubes among those of the tile and its surroundings: rows of the
 * tile first, then those above it. */
template <typename tile>
static __device__ __forceinline__ struct march_thread
march_thread_of(const struct march_work &work, int x, int y)
{
    const int r = (int)threadIdx.x / tile::ncolumns;
    const int column = (int)threadIdx.x % tile::ncolumns;
    const int row = r < tile::ny + tile::behind_y ? r : r - tile::nrows;
    const int kx = x + (column - tile::before_x) * MARCH_WIDTH, ky = y + row;
    struct march_thread thread = {};

    thread.is_seen = r < tile::nrows;
    thread.in_tile_x = column >= tile::before_x &&
                       column < tile::before_x + tile::nx / MARCH_WIDTH;
    thread.in_tile_y = r < tile::ny;
    thread.is_beside_y = thread.is_seen && row >= -1 && row <= tile::ny;
    thread.exists =
        thread.is_seen && kx >= 0 && kx < work.nx && ky >= 0 && ky < work.ny;
    thread.owns = thread.exists && thread.in_tile_x && thread.in_tile_y;
    if (thread.exists) {
        thread.kx = (uint32_t)kx;
        thread.ky = (uint32_t)ky;
        place_symbols(work, &thread);
    }
    thread.seen_at =
        (unsigned)(tile::nleft +
                   (thread.is_seen
                        ? (row + tile::below) * tile::ncolumns + column
                        : 0));
    return thread;
}

/* Where the thread begins, in step z. */
template <typename tile, typename T>
static __device__ __forceinline__ struct march_place<T>
march_place_of(const struct march_work &work, const struct level_view<T> &view,
               const struct march_thread &thread, int z) {
    const uint64_t in_row = thread.ky * (uint64_t)work.nx;
    const uint64_t fine =
        4 * in_row + 2 * thread.kx + 2 * (uint64_t)z * work.fine_plane;

    return {view.src + fine,
            view.coarse + in_row + thread.kx +
                (uint64_t)(z + tile::coarse_lead) * work.plane_ncubes,
            view.fine + fine};
}

/* Lets the input of step `*next` come, if there is one before `last`. */
template <typename tile, typename T>
static __device__ __forceinline__ void
fetch_next(const struct march_work &work, const struct level_view<T> &view,
           const struct march_thread &thread, int begin, int last, int *next,
           unsigned *stage, struct march_place<T> *place)
{
    if (*next < last)
        fetch_input<tile>(work, view, thread, *place, begin, *next, *stage);
    commit_async();
    place->src += 2 * (int64_t)work.fine_plane;
    place->coarse += work.plane_ncubes;
    *stage = *stage + 1 == tile::nstages ? 0 : *stage + 1;
    (*next)++;
}

/* ---- the launch ---- */

/* A block's part: its tile's first cubes, and its segment's along z. The brick
 * goes to `work` and `view`. */
struct march_part {
    int x, y, begin, end;
};

template <typename tile, typename T>
static __device__ __forceinline__ struct march_part
march_part_of(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
              int l, struct march_work *work, struct level_view<T> *view)
{
    const unsigned tiles = blockIdx.x / work->ntiles_x;
    const int x = (int)(blockIdx.x - tiles * work->ntiles_x) * tile::nx;
    const unsigned segments = tiles / work->ntiles_y;
    const int y = (int)(tiles - segments * work->ntiles_y) * tile::ny;
    const unsigned brick = segments / work->nsegments;
    const int begin =
        (int)(segments - brick * work->nsegments) * work->segment_nz;

    work->brick_at = brick * work->plane_ncubes * (uint32_t)work->nz;
    *view = view_of<T>(batch, chunk);
    view->k = level_constants<T>(chunk, chunk.model.plan[l]);
    view->has_specials = false; /* see values_march */
    view->coarse = view->lattice + work->coarse_at + work->brick_at;
    view->src += (uint64_t)MARCH_NCLASSES * work->brick_at;
    view->fine = (tile::decode ? view->dst : view->work) +
                 (uint64_t)MARCH_NCLASSES * work->brick_at;
    view->symbols += work->brick_at;
    return {x, y, begin, min(begin + work->segment_nz, work->nz)};
}

/* What a block shares, of a chunk whose plan it is, and its part. */
template <typename tile, typename T>
static __device__ __forceinline__ struct march_part
begin_march(const struct cuda_batch &batch, int l, struct march_work *work,
            struct level_view<T> *view, struct march_shared<T> *s_block)
{
    copy_state(batch, threadIdx.x, tile::nthreads, &s_block->chunk);
    const struct march_part part =
        march_part_of<tile>(batch, s_block->chunk, l, work, view);
    if (!tile::decode && threadIdx.x == 0)
        s_block->grid = grid_of<T>(s_block->chunk, view->k.limit);
    if (tile::decode)
        clear_symbols<tile, T>();
    return part;
}

/* How segments are cut: of each, a few planes of cubes are read and half made
 * for the others' sake. One chunk has about so many in each, or fewer where
 * blocks would be few, so that a large device is busy twice over. Of several
 * chunks few may have the plan, for which all others wait: segments are short.
 * The last one has no single plane either: what ends there is predicted by two.
 */
#define MARCH_SEGMENT_NZ 24
#define MARCH_MIN_NZ 2
#ifndef CUDA_MARCH_NBLOCKS
#define CUDA_MARCH_NBLOCKS 512u
#endif

static inline int
march_segment_nz(int nz, int asked_nz, uint64_t ntiles)
{
    const uint64_t wanted = div_up(CUDA_MARCH_NBLOCKS, ntiles);
    const int most = nz / MARCH_MIN_NZ;
    int nsegments = (nz - 1) / asked_nz + 1;

    if (wanted > (uint64_t)nsegments)
        nsegments = wanted > (uint64_t)most ? most : (int)wanted;
    int segment_nz = (nz - 1) / nsegments + 1;
    while (nz % segment_nz > 0 && nz % segment_nz < MARCH_MIN_NZ)
        segment_nz++;
    return segment_nz;
}

/* Of level l; returns the number of blocks for a chunk. */
template <typename tile>
static uint64_t
make_march_work(const struct cuda_batch *batch, int l, struct march_work *work)
{
    const struct terp_layout *layout = batch->h_layout;
    const struct terp_level *level = &layout->level[l];

    *work = {};
    work->nx = (int)level->neven[0];
    work->ny = (int)level->neven[1];
    work->nz = (int)level->neven[2];
    work->ntiles_x = (uint32_t)((work->nx - 1) / tile::nx + 1);
    work->ntiles_y = (uint32_t)((work->ny - 1) / tile::ny + 1);
    const uint64_t ntiles =
        (uint64_t)work->ntiles_x * work->ntiles_y * layout->nbricks;
    work->segment_nz = march_segment_nz(
        work->nz, batch->nchunks > 1 ? tile::batch_nz : MARCH_SEGMENT_NZ,
        ntiles * (uint64_t)batch->nchunks);
    work->nsegments = (uint32_t)((work->nz - 1) / work->segment_nz + 1);
    work->plane_ncubes = (uint32_t)(work->nx * work->ny);
    work->fine_plane = 4 * work->plane_ncubes;
    work->coarse_at = level->lattice_at;
    for (unsigned odd = 1; odd < MARCH_NCLASSES; odd++) {
        work->class_at[odd] = (uint32_t)level->class_at[odd];
        work->class_byte_at[odd] =
            (uint32_t)sizeof(uint16_t) * work->class_at[odd];
    }
    return ntiles * work->nsegments;
}
