/* Marching: a kernel makes all points of a spline level in one launch and reads
 * and writes each point once. This file holds the declarations and functions
 * that all marching kernels share.
 *
 * A *cube* is an even point and the seven points after it, one of each class. A
 * block has the cubes of a tile along x and y and of a segment along z. It
 * marches along z, plane by plane; a thread has two cubes of a row. Step z
 * makes the points with even z of the cubes of plane z. It also makes the
 * points with odd z of the cubes of an earlier plane, because an odd point
 * reads even planes above it. A thread keeps the last planes in registers;
 * along x and y threads exchange points through shared memory. A block computes
 * the cubes around its tile again instead of waiting for other blocks. An odd
 * point reads only even points, so few cubes are computed twice.
 *
 * Only the device knows which plan a chunk has. The host therefore launches all
 * marching kernels of a level, and the blocks of all but one end at once.
 *
 * Tiles are *even* or *ragged*. Even tiles are faster, but they need even
 * extents, values that begin at a multiple of 16 bytes and, when encoding, no
 * special values. Ragged tiles (gpu/predict/spline_march_ragged.cuh) serve all
 * other chunks. Their last cubes may have no odd points. They read and write
 * values, coarse points and unaligned symbols one by one. Linear levels whose
 * dimensions differ in priority are marched through without tiles
 * (gpu/predict/spline_march_linear.cuh). */
#pragma once

#include "gpu/predict/spline_values.cuh"

/* A class is a number of three bits: bit 0 is set if x is odd, bit 1 if y is
 * odd, bit 2 if z is odd. */
#define MARCH_NDIMS 3
#define MARCH_NCLASSES (1 << MARCH_NDIMS)
#define MARCH_ODD_X 1
#define MARCH_ODD_Y 2
#define MARCH_ODD_Z 4

/* The fewest even points along a dimension, see low_of. */
#define MARCH_MIN_NEVEN 3

/* Cubes of a thread, neighbours in a row. Two cubes make a row of four values,
 * 16 bytes of float32, which is the widest load. */
#define MARCH_WIDTH 2

/* ---- which levels and chunks are marched through ---- */

/* The cubes of a level along x, y and z, and how they are cut into tiles and
 * segments. The host fills it, except brick_at, which each block sets. */
struct march_work {
    int nx, ny, nz;
    int odd_nx, odd_ny, odd_nz; /* cubes that have odd points */
    uint32_t ntiles_x, ntiles_y, nsegments;
    int segment_nz;
    /* fine_row, fine_plane: values of a row and of a plane of the chunk */
    uint32_t plane_ncubes, fine_row, fine_plane;
    uint32_t brick_at;  /* cubes of the bricks before the block's brick */
    uint64_t coarse_at; /* in `lattice` */
    uint32_t class_at[MARCH_NCLASSES];
    uint32_t class_byte_at[MARCH_NCLASSES]; /* of its symbols, in bytes */
};

/* Whether the shape of a level allows even tiles: even extents, and rows of
 * whole words of 16 bytes. */
static __host__ __device__ inline bool
shape_is_even(const struct terp_layout *layout, int l)
{
    const struct terp_level *level = &layout->level[l];
    bool even = level->neven[0] % MARCH_WIDTH == 0;

    for (int d = 0; d < MARCH_NDIMS; d++)
        even &= level->neven[d] == level->nodd[d];
    return even;
}

/* Whether the shape of a level allows marching. It must be level 1 of three
 * dimensions with at least three cubes along each. Marching through level 2 as
 * well made calls up to 3 % faster where the plan allowed it, but up to 1.4 %
 * slower elsewhere, by launches that end at once; so only level 1 is marched
 * through. */
static inline bool
shape_marches(const struct terp_layout *layout, int l)
{
    const struct terp_level *level = &layout->level[l];
    bool fits = l == 1 && layout->rank == MARCH_NDIMS;

    for (int d = 0; d < MARCH_NDIMS; d++)
        fits &= level->neven[d] >= MARCH_MIN_NEVEN;
    return fits && layout->nvalues <= INT32_MAX &&
           (layout->nbricks == 1 || shape_is_even(layout, l));
}

/* Whether the values of a chunk allow even tiles. */
template <bool decode>
static __device__ __forceinline__ bool
values_are_even(const struct cuda_chunk &chunk)
{
    const void *values = decode ? chunk.dst : chunk.src;

    return (decode || !chunk.has_specials) && (uintptr_t)values % 16 == 0;
}

/* Whether the plan of a chunk allows marching by the functions of
 * gpu/predict/spline_march.cuh (plan_marches) or of
 * gpu/predict/spline_march_blended.cuh (plan_marches_blended), if the shape of
 * the level does. */
template <typename T>
static __device__ __forceinline__ bool
plan_marches(const struct cuda_chunk &chunk, int l)
{
    const struct terp_level_plan &plan = chunk.model.plan[l];
    /* A thread has no registers for eight planes of 8-byte values: marching
     * took 1094 us where the steps take 935. */
    const bool may_be_long = sizeof(T) == 4;

    return plan.spline != TERP_SPLINE_LINEAR &&
           plan.spline != TERP_SPLINE_MEAN &&
           (plan.spline != TERP_SPLINE_LONG || may_be_long) &&
           terp_blend_order(plan.priorities) == 1 &&
           terp_predicting_dims(MARCH_NCLASSES - 1, plan.priorities) ==
               MARCH_NCLASSES - 1;
}

static __device__ __forceinline__ bool
plan_marches_blended(const struct cuda_chunk &chunk, int l)
{
    const struct terp_level_plan &plan = chunk.model.plan[l];

    return plan.spline == TERP_SPLINE_LONG &&
           terp_blend_order(plan.priorities) == MARCH_NDIMS;
}

static __device__ __forceinline__ unsigned
priority_of(const struct terp_level_plan &plan, int d)
{
    return plan.priorities >> 2 * d & 3u;
}

/* The same for gpu/predict/spline_march_linear.cuh. */
static __device__ __forceinline__ bool
plan_marches_linear(const struct cuda_chunk &chunk, int l)
{
    const struct terp_level_plan &plan = chunk.model.plan[l];
    const unsigned x = priority_of(plan, 0), y = priority_of(plan, 1),
                   z = priority_of(plan, 2);

    return plan.spline == TERP_SPLINE_LINEAR && x != y && x != z && y != z;
}

/* Whether the plan of a chunk may be one in `mask`, of enum cuda_march. */
static inline bool
may_march(const struct cuda_batch *batch, unsigned mask)
{
    return cuda_plans_may_have(batch->plans, batch->plans.marches, mask);
}

/* ---- values and stencils ---- */

/* both: one point of each of a thread's two cubes, of the same class. row: four
 * consecutive values of these cubes, alternately of an even and an odd class.
 */
template <typename T> struct alignas(2 * sizeof(T)) both {
    T at[MARCH_WIDTH];
};

template <typename T> struct alignas(16) row {
    T at[2 * MARCH_WIDTH];
};

/* line: the even points around an odd point, as many below as above it; or the
 * misses at these points (gpu/predict/spline_long.cuh). lines: one line for
 * each of the two cubes. */
template <typename T, int npoints> struct line {
    T at[npoints];
};

template <typename T, int npoints> struct lines {
    line<T, npoints> of[MARCH_WIDTH];
};

/* Gathers the lines along x. `s` points to the thread's own points among the
 * points of its row in shared memory. */
template <typename tile, typename T>
static __device__ __forceinline__ lines<T, tile::npoints>
along_x(const both<T> *s, const both<T> &own)
{
    constexpr int N = tile::npoints;
    lines<T, N> lines;
    T at[N + MARCH_WIDTH];

    static_assert(tile::below % MARCH_WIDTH == 1,
                  "Loads of pairs begin one point before the line.");
#pragma unroll
    for (int i = 0; i < N + MARCH_WIDTH; i += MARCH_WIDTH) {
        const int n = i / MARCH_WIDTH - tile::nleft;
        const both<T> two = n == 0 ? own : s[n];
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

/* Gathers the lines along y. `s` as above; the points of the next row are
 * tile::ncolumns elements further. */
template <typename tile, typename T>
static __device__ __forceinline__ lines<T, tile::npoints>
along_y(const both<T> *s, const both<T> &own)
{
    lines<T, tile::npoints> lines;

#pragma unroll
    for (int n = 0; n < tile::npoints; n++) {
        const both<T> two =
            n == tile::below ? own : s[(n - tile::below) * tile::ncolumns];
        lines.of[0].at[n] = two.at[0];
        lines.of[1].at[n] = two.at[1];
    }
    return lines;
}

/* The neighbours that a point has along a dimension, as reach_at returns them,
 * in the lower MARCH_REACH_NBITS bits. For long splines the bits above hold the
 * stencil. */
#define MARCH_REACH_NBITS 3

template <enum terp_spline spline>
static __device__ __forceinline__ unsigned
march_reach_at(uint32_t i, int neven)
{
    const unsigned reach = reach_at(i, (uint32_t)neven);

    return spline == TERP_SPLINE_LONG
               ? reach | (unsigned)terp_stencil_at(spline, i, (uint64_t)neven)
                             << MARCH_REACH_NBITS
               : reach;
}

/* Returns the result of reach_at for points away from all borders. */
template <enum terp_spline spline>
static __device__ __forceinline__ unsigned
reach_inside(void)
{
    return spline == TERP_SPLINE_LONG
               ? REACHES_ALL | (unsigned)TERP_STENCIL_EIGHT << MARCH_REACH_NBITS
               : REACHES_ALL;
}

/* Whether the spline of a tile finds all its points around even point i. */
template <typename tile>
static __device__ __forceinline__ bool
is_inside(int i, int neven)
{
    return i >= tile::below && i + tile::above < neven;
}

/* The results of reach_at: for each of both cubes along x, and for both
 * together along y and z. */
struct march_reach {
    unsigned x[MARCH_WIDTH], y, z;
};

/* Whether the stencil has a lower order than a cubic stencil. */
static __device__ __forceinline__ bool
is_low(unsigned reach)
{
    return (reach & REACHES_ALL) != REACHES_ALL;
}

/* Whether there is an even point above the odd point. */
static __device__ __forceinline__ bool
has_above(unsigned reach)
{
    return (reach & REACHES_C) != 0;
}

/* Returns the prediction by a stencil of lower order. With three or more even
 * points along a dimension a stencil of lower order is one of two quadratic
 * stencils, which mirror each other, or the extrapolation after the last even
 * point. */
template <typename T, int npoints>
static __device__ __forceinline__ T
low_of(unsigned reach, const line<T, npoints> &line)
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
    return terp_stencil_order(has_above(reach) ? TERP_STENCIL_QUAD_BELOW
                                               : TERP_STENCIL_EXTRAPOLATE);
}

/* Returns the prediction by a stencil of full order. `inside` points have one
 * stencil. For other points all stencils are computed and one is selected,
 * since the lanes of a warp have different stencils. */
template <enum terp_spline spline, bool inside, typename T, int npoints>
static __device__ __forceinline__ T
whole_of(unsigned reach, const line<T, npoints> &line)
{
    const T *b = &line.at[npoints / 2 - 1];

    if constexpr (spline == TERP_SPLINE_LONG) {
        const T eight =
            TERP_EIGHT(b[-3], b[-2], b[-1], b[0], b[1], b[2], b[3], b[4]);
        if (inside)
            return eight;
        const unsigned stencil = reach >> MARCH_REACH_NBITS;
        const T six = TERP_SIX(b[-2], b[-1], b[0], b[1], b[2], b[3]);
        const T cubic = TERP_CUBIC(b[-1], b[0], b[1], b[2]);
        return stencil == TERP_STENCIL_EIGHT ? eight
               : stencil == TERP_STENCIL_SIX ? six
                                             : cubic;
    } else if constexpr (spline == TERP_SPLINE_NATURAL) {
        return TERP_NATURAL(T, b[-1], b[0], b[1], b[2]);
    } else {
        return TERP_CUBIC(b[-1], b[0], b[1], b[2]);
    }
}

/* Returns the prediction by any stencil. */
template <enum terp_spline spline, bool inside, typename T, int npoints>
static __device__ __forceinline__ T
value_of(unsigned reach, const line<T, npoints> &line)
{
    const T whole = whole_of<spline, inside>(reach, line);

    if (inside)
        return whole;
    const T low = low_of(reach, line);
    return is_low(reach) ? low : whole;
}

/* ---- a thread's cubes and points ---- */

/* Where a thread's symbols of a class are, counted in one plane of the class:
 * `before` symbols are in the boxes before the thread's, `box_plane` in its own
 * box. In its own box, `in_box` symbols are before its own. See symbol_at. */
struct alignas(16) symbol_place {
    uint32_t before, box_plane, in_box;
};

struct march_thread {
    bool exists;               /* its cubes are in the lattice */
    bool in_tile_x, in_tile_y; /* its cubes are in the tile, not around it */
    bool owns;                 /* exists, in_tile_x and in_tile_y */
    bool is_beside_y;          /* its row is in the tile, or next to it */
    bool is_seen;              /* it has an element in shared memory, seen_at */
    unsigned seen_at;
    uint32_t kx, ky;           /* cubes before its first cube, if it exists */
    struct symbol_place place; /* even tiles: the same for all classes */
};

/* Returns the number of points of a class along dimension d: x, y or z. */
template <typename tile, int odd, int d>
static __device__ __forceinline__ int
npoints_along(const struct march_work &work)
{
    const int even_n[] = {work.nx, work.ny, work.nz};
    const int odd_n[] = {work.odd_nx, work.odd_ny, work.odd_nz};

    return tile::ragged && odd >> d & 1 ? odd_n[d] : even_n[d];
}

/* Whether the thread's cube i has a point of a class, if the thread exists and
 * the step makes the class. */
template <typename tile, int odd>
static __device__ __forceinline__ bool
has_point(const struct march_work &work, const struct march_thread &thread,
          int i)
{
    return !tile::ragged ||
           ((int)thread.kx + i < npoints_along<tile, odd, 0>(work) &&
            (int)thread.ky < npoints_along<tile, odd, 1>(work));
}

/* Whether the thread's points of a class are correct. Points around the tile
 * lack some neighbours, so points that are odd along x or y are correct only
 * inside the tile along that dimension. The others are not used. */
template <int odd>
static __device__ __forceinline__ bool
is_made(const struct march_thread &thread)
{
    return thread.exists && (!(odd & MARCH_ODD_X) || thread.in_tile_x) &&
           (!(odd & MARCH_ODD_Y) || thread.in_tile_y);
}

/* Returns the extent of the boxes by which symbols are ordered. */
static __device__ __forceinline__ uint32_t
march_box(void)
{
    return 1u << terp_box_extent_log2(MARCH_NDIMS);
}

/* Returns the place of a class's symbols for the thread whose first cube is
 * (kx, ky). */
template <typename tile, int odd>
static __device__ __forceinline__ struct symbol_place
symbol_place_of(const struct march_work &work, uint32_t kx, uint32_t ky)
{
    const uint32_t box = march_box();
    const uint32_t nx = (uint32_t)npoints_along<tile, odd, 0>(work);
    const uint32_t ny = (uint32_t)npoints_along<tile, odd, 1>(work);
    const uint32_t low_x = kx & ~(box - 1), low_y = ky & ~(box - 1);
    const uint32_t width = min_u32(box, nx - low_x);
    const uint32_t height = min_u32(box, ny - low_y);

    return {low_y * nx + low_x * height, height * width,
            (ky - low_y) * width + (kx - low_x)};
}

/* Returns the number of symbols before the thread's of plane z, in its class.
 * tiled_row_at has the same order. */
template <typename tile, int odd>
static __device__ __forceinline__ uint32_t
symbol_at(const struct march_work &work, const struct symbol_place &place,
          int z)
{
    const uint32_t in_layer = (uint32_t)z % march_box();
    const uint32_t low = (uint32_t)z - in_layer;
    const uint32_t depth =
        min_u32(march_box(), (uint32_t)npoints_along<tile, odd, 2>(work) - low);
    const uint32_t plane = tile::ragged
                               ? (uint32_t)npoints_along<tile, odd, 0>(work) *
                                     (uint32_t)npoints_along<tile, odd, 1>(work)
                               : work.plane_ncubes;

    return low * plane + place.before * depth + in_layer * place.box_plane +
           place.in_box;
}

/* Even tiles: returns where the thread's symbols of plane z are, relative to
 * the first symbol of the class. */
template <typename tile, typename T>
static __device__ __forceinline__ uint8_t *
symbols_at(const struct march_work &work, const level_view<T> &view,
           const struct march_thread &thread, int z)
{
    return (uint8_t *)view.symbols +
           (uint32_t)sizeof(uint16_t) *
               symbol_at<tile, 0>(work, thread.place, z);
}

/* Whether a pair of symbols at an index is in two words of 4 bytes. */
static __device__ __forceinline__ bool
is_split(uint32_t at)
{
    return at % MARCH_WIDTH != 0;
}

/* Shared memory of a block, besides points: a copy of the chunk's state, and
 * the grid of escapes (when encoding). */
template <typename T> struct march_shared {
    struct cuda_chunk chunk;
    value_grid<T> grid;
};

/* Handles two points of a class, at least one of them escaped; returns the
 * values that a decoder will have. `ranges` counts the escapes, and `at` is the
 * index of the first point in level order; `ranges` is NULL if another block
 * counts them. s_block->chunk records which sizes of numbers are already noted,
 * so that few threads write to *d_chunk. Not inlined, because escapes are rare.
 */
template <typename T>
static __device__ __noinline__ both<T>
escape_both(march_shared<T> *s_block, struct cuda_chunk *d_chunk,
            unsigned long long *ranges, uint32_t at, uint32_t symbols,
            both<T> values)
{
    const value_grid<T> grid = s_block->grid;

#pragma unroll
    for (int i = 0; i < MARCH_WIDTH; i++) {
        const grid_point<T> point = find_on_grid(grid, values.at[i]);
        if ((symbols >> (16 * i) & 0xFFFF) != TERP_ESCAPE)
            continue;
        values.at[i] = point.fits ? point.value : values.at[i];
        if (ranges == NULL)
            continue;
        const uint64_t number = point.fits ? zigzag((int64_t)point.nsteps) : 0;
        if (note_number(&s_block->chunk, point.fits, number))
            note_number(d_chunk, point.fits, number);
        atomicAdd(&ranges[(at + (uint32_t)i) / CUDA_RANGE_NVALUES], 1ull);
    }
    return values;
}

/* ---- tiles ---- */

/* The constants of a kind of spline. march_tile inherits from one of these
 * structs.
 *
 * blended: points are fully blended. below, above: cubes before and after a
 * tile along x and y that its points read. odd_lag: how many planes the points
 * with odd z are behind the even ones. coarse_lead: how many planes ahead of
 * the even ones coarse points are read. nseen: how many classes are in shared
 * memory. odd_x_far: whether points with odd x are read by other rows than the
 * neighbouring ones. batch_nz: planes of a segment in batches of several
 * chunks. This struct is for the cubic spline: */
struct march_cubic {
    static constexpr bool blended = false;
    static constexpr int below = SPLINE_LEFT, above = SPLINE_RIGHT;
    static constexpr int odd_lag = above, coarse_lead = 0;
    static constexpr int nseen = 6;
    static constexpr bool odd_x_far = true;
    static constexpr int batch_nz = 16;
};

/* The size of a tile and of everything that follows from it, at compile time.
 *
 * T: type of the values. is_decode: direction. spline: one of the structs
 * above. nx_, ny_: cubes of a tile along x and y. nstages_: the number of steps
 * whose input is in shared memory or on its way there. nblocks_: blocks per
 * multiprocessor, for __launch_bounds__. is_whole: the tile is a whole plane of
 * the chunk. Nothing around it is then computed, but shared memory still has
 * elements around it, which hold nothing that a point uses. is_ragged: the tile
 * is ragged, otherwise even.
 *
 * Example: march_tile<float, false, march_cubic, 32, 16, 2, 2> encodes tiles of
 * 32 x 16 cubes. A row has 16 threads of two cubes, and nleft = nright = 1
 * thread on each side, so ncolumns = 18. Rows are 16, one before and two after,
 * so nrows = 19. 18 * 19 = 342 threads round up to nthreads = 352. Six classes
 * of nboth = 18 * 19 + 2 = 344 elements of 8 bytes take 16512 bytes; the input
 * of two steps takes 2 * 352 * 4 rows of 16 bytes = 45056 bytes; coarse points
 * take 2 * 352 * 8 = 5632 bytes. shared_nbytes is therefore 67200, and two
 * blocks fit on a multiprocessor. */
template <typename T, bool is_decode, typename spline, int nx_, int ny_,
          int nstages_, int nblocks_, bool is_whole = false,
          bool is_ragged = false>
struct march_tile : spline {
    static constexpr bool decode = is_decode, whole = is_whole;
    static constexpr bool ragged = is_ragged;
    static constexpr int nx = nx_, ny = ny_, nstages = nstages_;
    static constexpr int nblocks = nblocks_;
    /* nleft, nright: threads of a row on the left and right whose points are
     * read. before_x to behind_y: threads, or rows, around the tile. ncolumns,
     * nrows: threads of a row, and rows. */
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
    /* Elements of a class in shared memory, including those before and after it
     * that the ends of rows read. */
    static constexpr int nboth =
        ncolumns * (spline::below + ny + spline::above) + nleft + nright;
    /* A thread's input of a step: four rows of values, or the symbols of all
     * classes but the coarse one, in ragged tiles two words for each class; and
     * its coarse points. */
    static constexpr int nwords = (MARCH_NCLASSES - 1) * (ragged ? 2 : 1);
    static constexpr int ninputs = decode ? nwords : 4;
    static constexpr int input_nbytes =
        decode ? sizeof(uint32_t) : sizeof(row<T>);
    static constexpr int coarse_nbytes = sizeof(both<T>);
    static constexpr int input_at =
        (spline::nseen * nboth * coarse_nbytes + 15) / 16 * 16;
    static constexpr int coarse_at =
        input_at + nstages * nthreads * ninputs * input_nbytes;
    static constexpr int places_at =
        coarse_at + nstages * nthreads * coarse_nbytes;
    /* ragged tiles: a thread's places of symbols, for classes that differ in
     * their odd dimensions x and y */
    static constexpr int nplaces = ragged ? MARCH_NCLASSES / 2 : 0;
    static constexpr int shared_nbytes =
        places_at + nplaces * nthreads * (int)sizeof(struct symbol_place);
};

/* Ragged tiles: returns a thread's place of the symbols of a class in shared
 * memory. */
template <typename tile, int odd>
static __device__ __forceinline__ struct symbol_place *
shared_place(void)
{
    constexpr int N = (odd & (MARCH_ODD_X | MARCH_ODD_Y)) * tile::nthreads;

    return (struct symbol_place *)(dynamic_shared<unsigned char>() +
                                   tile::places_at) +
           N + threadIdx.x;
}

/* Writes a thread's places of symbols for shared_place. */
template <typename tile>
static __device__ __forceinline__ void
share_places(const struct march_work &work, const struct march_thread &thread)
{
    const uint32_t x = thread.kx, y = thread.ky;

    *shared_place<tile, 0>() = symbol_place_of<tile, 0>(work, x, y);
    *shared_place<tile, 1>() = symbol_place_of<tile, 1>(work, x, y);
    *shared_place<tile, 2>() = symbol_place_of<tile, 2>(work, x, y);
    *shared_place<tile, 3>() = symbol_place_of<tile, 3>(work, x, y);
}

/* ---- points of a class ---- */

/* A step: it makes the even points of the cubes of plane z and the points with
 * odd z of the cubes of plane odd_z. */
struct march_step {
    int z, odd_z;
    bool has_even, has_odd;
    bool owns_even, owns_odd; /* the thread owns the points it makes */
};

/* Everything that a thread needs to make the points of a class. */
template <typename T> struct march {
    const struct march_work &work;
    const level_view<T> &view;
    march_shared<T> *s_block;
    const struct march_thread &thread;
    const struct march_reach &reach;
    const struct march_step &step;
    /* encode, even tiles: the thread's symbols, relative to the first symbol of
     * a class */
    uint8_t *even_symbols, *odd_symbols;
    /* decode, ragged tiles: the classes whose symbols are in two words, one bit
     * each */
    uint32_t split;
};

/* Returns the index in level order of the thread's first point of a class. */
template <typename tile, int odd, typename T>
static __device__ __forceinline__ uint32_t
class_point_at(const march<T> &m)
{
    const uint32_t z = (uint32_t)(odd & MARCH_ODD_Z ? m.step.odd_z : m.step.z);
    const uint32_t nx = (uint32_t)npoints_along<tile, odd, 0>(m.work);
    const uint32_t plane =
        tile::ragged ? nx * (uint32_t)npoints_along<tile, odd, 1>(m.work)
                     : m.work.plane_ncubes;

    return m.work.class_at[odd] + m.work.brick_at + z * plane +
           m.thread.ky * nx + m.thread.kx;
}

/* Stores the symbols of both points of a class. */
template <typename tile, int odd, typename T>
static __device__ __forceinline__ void
store_symbols(const march<T> &m, uint32_t symbols)
{
    if constexpr (tile::ragged) {
        const int z = odd & MARCH_ODD_Z ? m.step.odd_z : m.step.z;
        const uint32_t at =
            m.work.class_at[odd] +
            symbol_at<tile, odd>(m.work, *shared_place<tile, odd>(), z);
        uint16_t *symbol = m.view.symbols + at;
        const bool second = has_point<tile, odd>(m.work, m.thread, 1);
        if (second && !is_split(at)) {
            *(uint32_t *)symbol = symbols;
        } else if (has_point<tile, odd>(m.work, m.thread, 0)) {
            symbol[0] = (uint16_t)symbols;
            if (second)
                symbol[1] = (uint16_t)(symbols >> 16);
        }
    } else {
        uint8_t *at = odd & MARCH_ODD_Z ? m.odd_symbols : m.even_symbols;
        *(uint32_t *)(at + m.work.class_byte_at[odd]) = symbols;
    }
}

/* Quantizes both points of a class. `values`: the row that holds the points.
 * Stores the symbols if the thread owns the points. Returns the values that a
 * decoder will have. */
template <typename tile, int odd, typename T>
static __device__ __forceinline__ both<T>
quantize_both(const march<T> &m, const row<T> &values, const both<T> &pred)
{
    const bool owns = odd & MARCH_ODD_Z ? m.step.owns_odd : m.step.owns_even;
    uint32_t symbol[MARCH_WIDTH];
    both<T> made;

#pragma unroll
    for (int i = 0; i < MARCH_WIDTH; i++) {
        made.at[i] = quantize(values.at[2 * i + (odd & MARCH_ODD_X)],
                              pred.at[i], m.view, &symbol[i]);
        if (!has_point<tile, odd>(m.work, m.thread, i))
            symbol[i] = m.view.radius;
    }
    const uint32_t symbols = symbol[0] | symbol[1] << 16;
    if (__builtin_expect(min_u32(symbol[0], symbol[1]) == TERP_ESCAPE, 0) &&
        is_made<odd>(m.thread))
        made =
            escape_both(m.s_block, m.view.d_chunk, owns ? m.view.ranges : NULL,
                        class_point_at<tile, odd>(m), symbols, made);
    if (owns)
        store_symbols<tile, odd>(m, symbols);
    return made;
}

/* Reconstructs both points of a class from their symbols. With `escapes`,
 * symbols may be escapes. */
template <typename tile, int odd, bool escapes, typename T>
static __device__ __forceinline__ both<T>
reconstruct_both(const march<T> &m, uint32_t symbols, const both<T> &pred)
{
    both<T> made;

#pragma unroll
    for (int i = 0; i < MARCH_WIDTH; i++) {
        const uint32_t symbol = i == 0 ? symbols & 0xFFFF : symbols >> 16;
        made.at[i] = reconstruct(symbol, pred.at[i], m.view);
        if (escapes && symbol == TERP_ESCAPE && is_made<odd>(m.thread) &&
            has_point<tile, odd>(m.work, m.thread, i))
            made.at[i] =
                m.view.work[class_point_at<tile, odd>(m) + (uint32_t)i];
    }
    return made;
}

/* ---- a block ---- */

/* A thread's input of a step in shared memory. The row that holds class c is
 * s_rows[c / 2 * nthreads], the symbols of class c are s_symbols[(c - 1) *
 * nthreads]. In ragged tiles a second word follows MARCH_NCLASSES - 1 elements
 * of nthreads later. */
template <typename T> struct march_input {
    row<T> *s_rows;
    uint32_t *s_symbols;
    both<T> *s_coarse;
};

template <typename tile, typename T>
static __device__ __forceinline__ march_input<T>
march_input_of(unsigned stage)
{
    unsigned char *s_block = dynamic_shared<unsigned char>();
    unsigned char *s_input =
        s_block + tile::input_at +
        (stage * (unsigned)(tile::ninputs * tile::nthreads) + threadIdx.x) *
            (unsigned)tile::input_nbytes;

    return {(row<T> *)s_input, (uint32_t *)s_input,
            (both<T> *)(s_block + tile::coarse_at) +
                (stage * (unsigned)tile::nthreads + threadIdx.x)};
}

/* Addresses of a step: src and fine: the even row of the thread's cubes, in the
 * input and in the output; coarse: its coarse points. */
template <typename T> struct march_place {
    const T *src, *coarse;
    T *fine;
    /* the classes whose symbols are in two words; the last steps that were
     * fetched have 8 bits each */
    uint32_t split;
};

/* Returns the number of values of a row of the chunk. */
template <typename tile>
static __device__ __forceinline__ uint32_t
fine_row_of(const struct march_work &work)
{
    return tile::ragged ? work.fine_row : 2 * (uint32_t)work.nx;
}

template <typename tile, typename T>
static __device__ __forceinline__ void
copy_row_async(const struct march_work &work, const struct march_thread &thread,
               row<T> *s_to, const T *from)
{
    constexpr int NPIECES = sizeof(row<T>) / 16;

    if constexpr (tile::ragged) {
#pragma unroll
        for (int i = 0; i < 2 * MARCH_WIDTH; i++)
            if (2 * thread.kx + (uint32_t)i < work.fine_row)
                copy_async(&s_to->at[i], from + i);
    } else {
#pragma unroll
        for (int i = 0; i < NPIECES; i++)
            copy_async((uint4 *)s_to + i, (const uint4 *)from + i);
    }
}

/* Starts the copy of the symbols of a class, if the thread has such points. A
 * pair in two words of 4 bytes takes two copies and sets the bit of the class.
 */
template <typename tile, int odd, typename T>
static __device__ __forceinline__ uint32_t
copy_symbols_async(const struct march_work &work, const level_view<T> &view,
                   const struct march_thread &thread, int z,
                   uint32_t *s_symbols)
{
    uint32_t *s_to = s_symbols + (odd - 1) * tile::nthreads;

    if (!has_point<tile, odd>(work, thread, 0))
        return 0;
    const uint32_t at =
        work.class_at[odd] +
        symbol_at<tile, odd>(work, *shared_place<tile, odd>(), z);
    const uint32_t *words = (const uint32_t *)view.symbols + at / MARCH_WIDTH;
    copy_async(s_to, words);
    if (!is_split(at))
        return 0;
    if (has_point<tile, odd>(work, thread, 1))
        copy_async(s_to + (MARCH_NCLASSES - 1) * tile::nthreads, words + 1);
    return 1u << odd;
}

/* Returns both symbols of a class from the input of a step. */
template <typename tile, int odd, typename T>
static __device__ __forceinline__ uint32_t
symbols_of(const march<T> &m, const uint32_t *s_symbols)
{
    const uint32_t *s_first = s_symbols + (odd - 1) * tile::nthreads;

    return tile::ragged && m.split >> odd & 1
               ? *s_first >> 16 | s_first[(MARCH_NCLASSES - 1) * tile::nthreads]
                                      << 16
               : *s_first;
}

/* Starts the copies of half of a step's input: of the even points, or with
 * odd_z of the points with odd z. z is the plane of the cubes. Returns the
 * classes whose symbols are in two words. */
template <typename tile, bool odd_z, typename T>
static __device__ __forceinline__ uint32_t
fetch_half(const struct march_work &work, const level_view<T> &view,
           const struct march_thread &thread, const T *src, int z,
           const march_input<T> &in)
{
    constexpr int N = tile::nthreads;
    uint32_t split = 0;

    if constexpr (tile::decode && tile::ragged) {
        constexpr int Z = odd_z ? MARCH_ODD_Z : 0;
        uint32_t *s_to = in.s_symbols;
        if constexpr (odd_z)
            split = copy_symbols_async<tile, Z>(work, view, thread, z, s_to);
        split |= copy_symbols_async<tile, Z | 1>(work, view, thread, z, s_to);
        if (thread.in_tile_y) {
            split |=
                copy_symbols_async<tile, Z | 2>(work, view, thread, z, s_to);
            split |=
                copy_symbols_async<tile, Z | 3>(work, view, thread, z, s_to);
        }
    } else if constexpr (tile::decode) {
        const uint8_t *symbols = symbols_at<tile>(work, view, thread, z);
#pragma unroll
        for (int odd = odd_z ? 4 : 1; odd < (odd_z ? 8 : 4); odd++)
            if (!(odd & MARCH_ODD_Y) || thread.in_tile_y)
                copy_async(
                    in.s_symbols + (odd - 1) * N,
                    (const uint32_t *)(symbols + work.class_byte_at[odd]));
    } else {
        row<T> *s_rows = in.s_rows + (odd_z ? 2 * N : 0);
        if (odd_z || tile::odd_x_far || thread.is_beside_y)
            copy_row_async<tile>(work, thread, s_rows, src);
        if (thread.in_tile_y && has_point<tile, MARCH_ODD_Y>(work, thread, 0))
            copy_row_async<tile>(work, thread, s_rows + N,
                                 src + fine_row_of<tile>(work));
    }
    return split;
}

/* Starts the copy of the thread's coarse points. */
template <typename tile, typename T>
static __device__ __forceinline__ void
copy_coarse_async(const struct march_work &work,
                  const struct march_thread &thread, both<T> *s_to,
                  const T *from)
{
    if constexpr (tile::ragged) {
#pragma unroll
        for (int i = 0; i < MARCH_WIDTH; i++)
            if (has_point<tile, 0>(work, thread, i))
                copy_async(&s_to->at[i], from + i);
    } else {
        copy_async(s_to, (const both<T> *)from);
    }
}

/* Starts the copies of the input of step z, whose segment begins at plane
 * `begin`. Returns the classes whose symbols are in two words. */
template <typename tile, typename T>
static __device__ __forceinline__ uint32_t
fetch_input(const struct march_work &work, const level_view<T> &view,
            const struct march_thread &thread, const march_place<T> &place,
            int begin, int z, unsigned stage)
{
    const march_input<T> in = march_input_of<tile, T>(stage);
    const int odd_z = z - tile::odd_lag;
    uint32_t split = 0;

    if (!thread.exists)
        return 0;
    if (z + tile::coarse_lead < work.nz)
        copy_coarse_async<tile>(work, thread, in.s_coarse, place.coarse);
    if (z < work.nz)
        split = fetch_half<tile, false>(work, view, thread, place.src, z, in);
    if (odd_z >= begin)
        split |= fetch_half<tile, true>(
            work, view, thread,
            place.src - (2 * tile::odd_lag - 1) * (int64_t)work.fine_plane,
            odd_z, in);
    return split;
}

/* Makes both points of a class from the step's input: quantizes or reconstructs
 * them. */
template <typename tile, int odd, bool escapes, typename T>
static __device__ __forceinline__ both<T>
make_both(const march<T> &m, const march_input<T> &in, const both<T> &pred)
{
    constexpr int N = tile::nthreads;

    if constexpr (tile::decode)
        return reconstruct_both<tile, odd, escapes>(
            m, symbols_of<tile, odd>(m, in.s_symbols), pred);
    else
        return quantize_both<tile, odd>(m, in.s_rows[odd / 2 * N], pred);
}

/* Stores values of an even and an odd class in the order of their row. odd_y:
 * whether it is a row with odd y, which the thread's cubes may lack. */
template <typename tile, bool odd_y, typename T>
static __device__ __forceinline__ void
store_row(const march<T> &m, T *at, const both<T> &even, const both<T> &odd)
{
    constexpr int ODD = odd_y ? MARCH_ODD_Y : 0;
    const T four[] = {even.at[0], odd.at[0], even.at[1], odd.at[1]};

    if constexpr (!tile::ragged) {
        *(row<T> *)at = {{four[0], four[1], four[2], four[3]}};
    } else if (has_point<tile, ODD>(m.work, m.thread, 0)) {
#pragma unroll
        for (int i = 0; i < 2 * MARCH_WIDTH; i++)
            if (2 * m.thread.kx + (uint32_t)i < m.work.fine_row)
                at[i] = four[i];
    }
}

/* A decoding thread stores the points that it owns of a step. */
template <typename tile, typename T>
static __device__ __forceinline__ void
store_step(const march<T> &m, T *fine, const both<T> even[4],
           const both<T> odd[4])
{
    const int64_t row = fine_row_of<tile>(m.work);

    if (m.step.owns_even) {
        store_row<tile, false>(m, fine, even[0], even[1]);
        store_row<tile, true>(m, fine + row, even[2], even[3]);
    }
    if (m.step.owns_odd) {
        fine -= (2 * tile::odd_lag - 1) * (int64_t)m.work.fine_plane;
        store_row<tile, false>(m, fine, odd[0], odd[1]);
        store_row<tile, true>(m, fine + row, odd[2], odd[3]);
    }
}

/* Whether a lane of the warp may have an escape among a step's symbols. True
 * also if a lane has not fetched symbols in this step and an earlier step left
 * an escape in their place. */
template <typename tile, typename T>
static __device__ __forceinline__ bool
warp_has_escapes(const march_input<T> &in)
{
    uint32_t zeros = 0;

#pragma unroll
    for (int i = 0; i < tile::nwords; i++) {
        const uint32_t two = in.s_symbols[i * tile::nthreads];
        zeros |= (two - 0x00010001u) & ~two;
    }
    return __any_sync(FULL_WARP_MASK, (zeros & 0x80008000u) != 0);
}

/* Fills the symbols of all stages with a value that is not an escape, for
 * threads that do not fetch symbols. */
template <typename tile, typename T>
static __device__ __forceinline__ void
clear_symbols(void)
{
    for (unsigned stage = 0; stage < (unsigned)tile::nstages; stage++)
        for (int i = 0; i < tile::nwords; i++)
            march_input_of<tile, T>(stage).s_symbols[i * tile::nthreads] =
                UINT32_MAX;
}

/* Returns the thread's cubes. Threads are numbered row by row: rows of the tile
 * and after it first, then rows before it. x, y: first cube of the tile. */
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
        if constexpr (tile::ragged)
            share_places<tile>(work, thread);
        else
            thread.place = symbol_place_of<tile, 0>(work, thread.kx, thread.ky);
    }
    thread.seen_at =
        (unsigned)(tile::nleft +
                   (thread.is_seen
                        ? (row + tile::below) * tile::ncolumns + column
                        : 0));
    return thread;
}

/* Returns the addresses of step z. */
template <typename tile, typename T>
static __device__ __forceinline__ march_place<T>
march_place_of(const struct march_work &work, const level_view<T> &view,
               const struct march_thread &thread, int z)
{
    const uint64_t in_row = thread.ky * (uint64_t)work.nx;
    const uint64_t fine = 2 * thread.ky * (uint64_t)fine_row_of<tile>(work) +
                          2 * thread.kx + 2 * (uint64_t)z * work.fine_plane;

    return {view.src + fine,
            view.coarse + in_row + thread.kx +
                (uint64_t)(z + tile::coarse_lead) * work.plane_ncubes,
            view.fine + fine, 0};
}

/* Starts the copies of step `*next` if it is before `last`, and moves on to the
 * next step and stage. */
template <typename tile, typename T>
static __device__ __forceinline__ void
fetch_next(const struct march_work &work, const level_view<T> &view,
           const struct march_thread &thread, int begin, int last, int *next,
           unsigned *stage, march_place<T> *place)
{
    place->split <<= MARCH_NCLASSES;
    if (*next < last)
        place->split |=
            fetch_input<tile>(work, view, thread, *place, begin, *next, *stage);
    commit_async();
    place->src += 2 * (int64_t)work.fine_plane;
    place->coarse += work.plane_ncubes;
    *stage = *stage + 1 == tile::nstages ? 0 : *stage + 1;
    (*next)++;
}

/* Returns how far the points of a thread's cubes reach along x and y. Threads
 * without cubes take points inside, whose values are not used. */
template <typename tile, enum terp_spline spline>
static __device__ __forceinline__ struct march_reach
march_reach_of(const struct march_work &work, const struct march_thread &thread)
{
    const unsigned inside = reach_inside<spline>();
    struct march_reach reach = {{inside, inside}, inside, inside};

    if (thread.exists && thread.in_tile_x)
        for (int i = 0; i < MARCH_WIDTH; i++)
            if (has_point<tile, MARCH_ODD_X>(work, thread, i))
                reach.x[i] =
                    march_reach_at<spline>(thread.kx + (uint32_t)i, work.nx);
    if (thread.exists && thread.in_tile_y)
        reach.y = march_reach_at<spline>(thread.ky, work.ny);
    return reach;
}

/* Runs the steps of a block from plane `first` on, for the cubes of a segment
 * along z from `begin` to `end`. place: the addresses of the first step.
 * make_points(m, in, fine) makes a thread's points of a step; `fine` is its
 * even row in the output. */
template <typename tile, typename T, typename Make>
static __device__ __forceinline__ void
march_steps(const struct march_work &work, const level_view<T> &view,
            march_shared<T> *s_block, const struct march_thread &thread,
            const struct march_reach &reach, march_place<T> place, int first,
            int begin, int end, const Make &make_points)
{
    const int odd_end = tile::ragged ? min(end, work.odd_nz) : end;
    const int last = odd_end + tile::odd_lag;
    unsigned stage = 0, to_fetch = 0;
    int next = first;

    for (int i = 0; i + 1 < tile::nstages; i++)
        fetch_next<tile>(work, view, thread, begin, last, &next, &to_fetch,
                         &place);
#pragma unroll 1
    for (int z = first; z < last; z++) {
        const int odd_z = z - tile::odd_lag;
        const bool has_odd = odd_z >= begin;
        const struct march_step step = {z,
                                        odd_z,
                                        z < work.nz,
                                        has_odd,
                                        thread.owns && z >= begin && z < end,
                                        thread.owns && has_odd};
        const march_input<T> in = march_input_of<tile, T>(stage);
        march<T> m = {work, view, s_block, thread, reach, step, NULL, NULL, 0};

        wait_async_but<tile::nstages - 2>();
        fetch_next<tile>(work, view, thread, begin, last, &next, &to_fetch,
                         &place);
        m.split = place.split >> MARCH_NCLASSES * (tile::nstages - 1);
        if (!tile::decode && !tile::ragged) {
            m.even_symbols = symbols_at<tile>(work, view, thread, z);
            m.odd_symbols = symbols_at<tile>(work, view, thread, odd_z);
        }
        make_points(m, in, place.fine);
        stage = stage + 1 == tile::nstages ? 0 : stage + 1;
        place.fine += 2 * (int64_t)work.fine_plane;
    }
}

/* ---- launch ---- */

/* The work of a block: the first cubes of its tile, and the begin and end of
 * its segment along z. march_part_of also sets the brick in `work` and `view`.
 */
struct march_part {
    int x, y, begin, end;
};

template <typename tile, typename T>
static __device__ __forceinline__ struct march_part
march_part_of(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
              int l, struct march_work *work, level_view<T> *view)
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
    if (!tile::ragged)
        view->has_specials = false; /* values_are_even has checked that */
    view->coarse = view->lattice + work->coarse_at + work->brick_at;
    view->src += (uint64_t)MARCH_NCLASSES * work->brick_at;
    view->fine = (tile::decode ? view->dst : view->work) +
                 (uint64_t)MARCH_NCLASSES * work->brick_at;
    view->symbols += work->brick_at;
    return {x, y, begin, min(begin + work->segment_nz, work->nz)};
}

/* Fills the memory that a block shares and returns its work. The chunk's plan
 * must be the kernel's. */
template <typename tile, typename T>
static __device__ __forceinline__ struct march_part
begin_march(const struct cuda_batch &batch, int l, struct march_work *work,
            level_view<T> *view, march_shared<T> *s_block)
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

/* How segments are cut. Each segment reads a few planes of cubes beyond its own
 * and computes half of their points again.
 *
 * MARCH_SEGMENT_NZ: planes of a segment of a lone chunk; segments of 20 to 26
 * planes were measured to be best. In batches tile::batch_nz takes its place:
 * few chunks of a batch may have the plan, all others wait for them, and
 * shorter segments finish sooner.
 *
 * CUDA_MARCH_NBLOCKS: segments are cut shorter if a launch would have fewer
 * blocks, so that a large device is busy twice over. Tests set a smaller
 * number.
 *
 * MARCH_MIN_NZ: planes that a segment has at least, the last segment too,
 * because two planes predict the points that end there. */
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

/* Fills `work` for level l. Returns the number of blocks for a chunk. */
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
    work->odd_nx = (int)level->nodd[0];
    work->odd_ny = (int)level->nodd[1];
    work->odd_nz = (int)level->nodd[2];
    work->ntiles_x = (uint32_t)((work->nx - 1) / tile::nx + 1);
    work->ntiles_y = (uint32_t)((work->ny - 1) / tile::ny + 1);
    const uint64_t ntiles =
        (uint64_t)work->ntiles_x * work->ntiles_y * layout->nbricks;
    work->segment_nz = march_segment_nz(
        work->nz, batch->nchunks > 1 ? tile::batch_nz : MARCH_SEGMENT_NZ,
        ntiles * (uint64_t)batch->nchunks);
    work->nsegments = (uint32_t)((work->nz - 1) / work->segment_nz + 1);
    work->plane_ncubes = (uint32_t)(work->nx * work->ny);
    work->fine_row = (uint32_t)(work->nx + work->odd_nx);
    work->fine_plane = work->fine_row * (uint32_t)(work->ny + work->odd_ny);
    work->coarse_at = level->lattice_at;
    for (unsigned odd = 1; odd < MARCH_NCLASSES; odd++) {
        work->class_at[odd] = (uint32_t)level->class_at[odd];
        work->class_byte_at[odd] =
            (uint32_t)sizeof(uint16_t) * work->class_at[odd];
    }
    return ntiles * work->nsegments;
}
