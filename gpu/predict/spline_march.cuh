/* A level of a cubic spline whose points are averages over all their odd
 * dimensions: what most smooth chunks have at their finest level. All its
 * points are made in one launch, which reads and writes each of them once.
 *
 * A cube is an even point and the seven points behind it, one of each class. A
 * block has the cubes of a tile along x and y and of a segment along z, and
 * marches along z, two cubes of a row a thread. In step m it makes the points
 * of even z of cubes m, and those of odd z of cubes m - 2, which reach for the
 * even planes m - 3 to m: a thread has the last three of these in registers.
 * Along x and y points see each other through shared memory. What a tile needs
 * of its surroundings, a cube below and two above, it makes itself: an odd
 * point reaches for even ones only, however many classes there are.
 *
 * Which chunks have such levels is known on the device alone: a level's other
 * kernels leave it to this one, whose blocks end at once where there is nothing
 * to do. Other splines, other plans, special values, odd extents and chunks
 * that do not begin at a multiple of 16 bytes are theirs. */
#ifndef TERP_GPU_PREDICT_SPLINE_MARCH_CUH
#define TERP_GPU_PREDICT_SPLINE_MARCH_CUH

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
    uint32_t brick_at;                 /* cubes of the bricks before a block's */
    uint64_t coarse_at;                /* in `lattice` */
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

/* Whether a chunk's plan does, where the shape of its level does. */
template <typename T, bool decode>
static __device__ __forceinline__ bool
plan_marches(const struct cuda_chunk &chunk, int l)
{
    const struct terp_level_plan &plan = chunk.model.plan[l];
    const void *values = decode ? chunk.dst : chunk.src;

    return plan.spline == TERP_SPLINE_CUBIC &&
           terp_blend_order(plan.priorities) == 1 &&
           terp_predicting_dims(MARCH_NCLASSES - 1, plan.priorities) ==
               MARCH_NCLASSES - 1 &&
           (decode || !chunk.has_specials) && (uintptr_t)values % 16 == 0;
}

/* ---- values ---- */

/* Both cubes' points of a class; a row of both, which takes turns between two
 * classes. */
template <typename T> struct alignas(2 * sizeof(T)) both {
    T at[MARCH_WIDTH];
};

template <typename T> struct alignas(16) row {
    T at[2 * MARCH_WIDTH];
};

/* The even points around an odd one: two below, b the nearer, and two above. */
template <typename T> struct around {
    T a, b, c, d;
};

/* Of both odd points. */
template <typename T> struct line {
    struct around<T> of[MARCH_WIDTH];
};

/* Along x, where `s_even` has the thread's even points among others. */
template <typename T>
static __device__ __forceinline__ struct line<T>
line_along_x(const struct both<T> *s_even, const struct both<T> &own)
{
    const T below = s_even[-1].at[1];
    const struct both<T> above = s_even[1];

    return {
        {{below, own.at[0], own.at[1], above.at[0]},
         {own.at[0], own.at[1], above.at[0], above.at[1]}}
    };
}

template <typename T>
static __device__ __forceinline__ struct line<T>
line_of(const struct both<T> &a, const struct both<T> &b,
        const struct both<T> &c, const struct both<T> &d)
{
    return {
        {{a.at[0], b.at[0], c.at[0], d.at[0]},
         {a.at[1], b.at[1], c.at[1], d.at[1]}}
    };
}

/* Along y, where rows stand so many threads apart. */
template <int ncolumns, typename T>
static __device__ __forceinline__ struct line<T>
line_along_y(const struct both<T> *s_even, const struct both<T> &own)
{
    return line_of(s_even[-ncolumns], own, s_even[ncolumns],
                   s_even[2 * ncolumns]);
}

/* ---- prediction ---- */

/* Of which borders of the chunk some thread of the warp has points, whose forms
 * are of lower order. */
enum march_borders { MARCH_INSIDE, MARCH_BORDER_X, MARCH_BORDER_ANY };

/* What a thread's points reach for: of both cubes along x, along y and z; see
 * reach_at. */
struct march_reach {
    unsigned x[MARCH_WIDTH], y, z;
};

/* Whether the form is of lower order than a cubic one. */
static __device__ __forceinline__ bool
is_low(unsigned reach)
{
    return reach != (REACHES_A | REACHES_C | REACHES_D);
}

template <typename T>
static __device__ __forceinline__ T
cubic_of(const struct around<T> &p)
{
    return TERP_CUBIC(p.a, p.b, p.c, p.d);
}

/* By one of the forms of lower order that three or more even points have: the
 * quadratic ones, which mirror each other, and behind the last even point. */
template <typename T>
static __device__ __forceinline__ T
low_of(unsigned reach, const struct around<T> &p)
{
    const bool above = !(reach & REACHES_A);
    const T quad = TERP_QUAD_BELOW(above ? p.d : p.a, above ? p.c : p.b,
                                   above ? p.b : p.c);

    return reach & REACHES_C ? quad : TERP_EXTRAPOLATE(p.a, p.b);
}

static __device__ __forceinline__ int
order_of_low(unsigned reach)
{
    return terp_form_order(reach & REACHES_C ? TERP_FORM_QUAD_BELOW
                                             : TERP_FORM_EXTRAPOLATE);
}

/* Where all odd dimensions have forms of lower order. Out of the way: few
 * points do. */
template <int odd, typename T>
static __device__ __noinline__ T
predict_corner(unsigned reach_z, unsigned reach_y, unsigned reach_x,
               struct around<T> z, struct around<T> y, struct around<T> x)
{
    const int order_z = odd & MARCH_ODD_Z ? order_of_low(reach_z) : -1;
    const int order_y = odd & MARCH_ODD_Y ? order_of_low(reach_y) : -1;
    const int order_x = odd & MARCH_ODD_X ? order_of_low(reach_x) : -1;
    const int best = max(order_z, max(order_y, order_x));
    T sum = (T)-0.0;

    sum += order_z == best ? low_of(reach_z, z) : (T)-0.0;
    sum += order_y == best ? low_of(reach_y, y) : (T)-0.0;
    sum += order_x == best ? low_of(reach_x, x) : (T)-0.0;
    const int n = (order_z == best) + (order_y == best) + (order_x == best);
    return sum * TERP_SHARE(T, n);
}

/* The prediction of a point of the class. Beside a cubic form none of lower
 * order counts: -0 takes its place, which changes no sum. */
template <int odd, int borders, typename T>
static __device__ __forceinline__ T
predict_marched(const struct march_reach &reach, unsigned reach_x,
                const struct around<T> &z, const struct around<T> &y,
                const struct around<T> &x)
{
    constexpr int N = (odd & 1) + (odd >> 1 & 1) + (odd >> 2);
    constexpr bool ANY = borders == MARCH_BORDER_ANY;
    const bool low_x =
        borders != MARCH_INSIDE && odd & MARCH_ODD_X && is_low(reach_x);
    const bool low_y = ANY && odd & MARCH_ODD_Y && is_low(reach.y);
    const bool low_z = ANY && odd & MARCH_ODD_Z && is_low(reach.z);
    const int n = N - (int)low_x - (int)low_y - (int)low_z;
    T sum = (T)-0.0;

    if constexpr (N == 1) {
        const struct around<T> &p = odd == MARCH_ODD_X   ? x
                                    : odd == MARCH_ODD_Y ? y
                                                         : z;
        const unsigned own = odd == MARCH_ODD_X   ? reach_x
                             : odd == MARCH_ODD_Y ? reach.y
                                                  : reach.z;
        return n == 0 ? low_of(own, p) : cubic_of(p);
    } else {
        if (ANY && n == 0)
            return predict_corner<odd>(reach.z, reach.y, reach_x, z, y, x);
        if (odd & MARCH_ODD_Z)
            sum += low_z ? (T)-0.0 : cubic_of(z);
        if (odd & MARCH_ODD_Y)
            sum += low_y ? (T)-0.0 : cubic_of(y);
        if (odd & MARCH_ODD_X)
            sum += low_x ? (T)-0.0 : cubic_of(x);
        return sum * TERP_SHARE(T, n);
    }
}

/* ---- a thread's place and points ---- */

struct march_thread {
    bool exists;               /* its cubes are in the lattice */
    bool in_tile_x, in_tile_y; /* of the block's, not of its surroundings */
    bool owns;                 /* all of these */
    bool is_seen;              /* has a place in shared memory */
    uint32_t kx, ky;           /* of the first cube, if it exists */
    struct march_reach reach;  /* that along z is a step's */
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

/* Both points of a class, of which one has escaped or both: what the decoder
 * makes of these. `range` counts them; NULL where another thread does that. The
 * block's copy of the state tells which numbers it has noted. */
template <typename T>
static __device__ __noinline__ struct both<T>
escape_both(struct cuda_chunk *s_chunk, struct cuda_chunk *d_chunk,
            unsigned long long *range, T limit, uint32_t symbols,
            struct both<T> values)
{
    const struct value_grid<T> grid = grid_of<T>(*s_chunk, limit);
    unsigned n = 0;

#pragma unroll
    for (int i = 0; i < MARCH_WIDTH; i++) {
        const struct grid_point<T> point = find_on_grid(grid, values.at[i]);
        const uint64_t number = point.fits ? zigzag((int64_t)point.nsteps) : 0;
        if ((symbols >> (16 * i) & 0xFFFF) != TERP_ESCAPE)
            continue;
        n++;
        values.at[i] = point.fits ? point.value : values.at[i];
        if (range != NULL && note_number(s_chunk, point.fits, number))
            note_number(d_chunk, point.fits, number);
    }
    if (range != NULL)
        atomicAdd(range, (unsigned long long)n);
    return values;
}

/* A step: of even planes of cubes z, of odd ones of cubes z - 2. */
struct march_step {
    int z;
    bool has_even, has_odd;
    bool owns_even, owns_odd; /* by the thread */
};

/* All that points of a class are made of. */
template <typename T> struct march {
    const struct march_work &work;
    const struct level_view<T> &view;
    struct cuda_chunk *s_chunk; /* encode: the block's copy of the state */
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
    const int z = odd & MARCH_ODD_Z ? m.step.z - SPLINE_RIGHT : m.step.z;

    return m.work.class_at[odd] + m.work.brick_at +
           (uint32_t)z * m.work.plane_ncubes +
           m.thread.ky * (uint32_t)m.work.nx + m.thread.kx;
}

/* Both points of the class from what they are predicted by and, encode, their
 * values among those of their row. */
template <int odd, int borders, typename T>
static __device__ __forceinline__ struct both<T>
quantize_both(const struct march<T> &m, const struct row<T> &values,
              const struct line<T> &z, const struct line<T> &y,
              const struct line<T> &x)
{
    const bool owns = odd & MARCH_ODD_Z ? m.step.owns_odd : m.step.owns_even;
    uint32_t symbol[MARCH_WIDTH];
    struct both<T> made;

#pragma unroll
    for (int i = 0; i < MARCH_WIDTH; i++)
        made.at[i] = quantize(
            values.at[2 * i + (odd & MARCH_ODD_X)],
            predict_marched<odd, borders>(m.reach, m.reach.x[i], z.of[i],
                                          y.of[i], x.of[i]),
            m.view, &symbol[i]);
    const uint32_t symbols = symbol[0] | symbol[1] << 16;
    if (__builtin_expect(min_u32(symbol[0], symbol[1]) == TERP_ESCAPE, 0) &&
        is_made<odd>(m.thread))
        made = escape_both(
            m.s_chunk, m.view.d_chunk,
            owns ? &m.view.ranges[class_point_at<odd>(m) / CUDA_RANGE_NVALUES]
                 : NULL,
            m.view.k.limit, symbols, made);
    if (owns) {
        uint8_t *at = odd & MARCH_ODD_Z ? m.odd_symbols : m.even_symbols;
        *(uint32_t *)(at + m.work.class_byte_at[odd]) = symbols;
    }
    return made;
}

/* The same from both symbols. */
template <int odd, int borders, typename T>
static __device__ __forceinline__ struct both<T>
reconstruct_both(const struct march<T> &m, uint32_t symbols,
                 const struct line<T> &z, const struct line<T> &y,
                 const struct line<T> &x)
{
    struct both<T> made;

#pragma unroll
    for (int i = 0; i < MARCH_WIDTH; i++) {
        const uint32_t symbol = i == 0 ? symbols & 0xFFFF : symbols >> 16;
        made.at[i] = reconstruct(
            symbol,
            predict_marched<odd, borders>(m.reach, m.reach.x[i], z.of[i],
                                          y.of[i], x.of[i]),
            m.view);
        if (borders == MARCH_BORDER_ANY && symbol == TERP_ESCAPE &&
            is_made<odd>(m.thread))
            made.at[i] = m.view.work[class_point_at<odd>(m) + (uint32_t)i];
    }
    return made;
}

/* ---- a block ---- */

/* How many cubes a tile has, and how many steps' input is on its way. */
template <typename T, bool is_decode, int nx_, int ny_, int nstages_>
struct march_tile {
    static constexpr bool decode = is_decode;
    static constexpr int nx = nx_, ny = ny_, nstages = nstages_;
    /* Threads of a row: one for the cube below and one for those above. */
    static constexpr int ncolumns = nx / MARCH_WIDTH + 2;
    static constexpr int nrows = ny + SPLINE_LEFT + SPLINE_RIGHT;
    static constexpr int nthreads = (ncolumns * nrows + 31) / 32 * 32;
    /* Points of a class, with what rows' ends see before and behind it. */
    static constexpr int nboth = ncolumns * nrows + 2;
    static constexpr int nseen = 6; /* classes */
    /* A thread's input of a step: four rows, or symbols of all classes; and its
     * coarse points. */
    static constexpr int ninputs = decode ? MARCH_NCLASSES - 1 : 4;
    static constexpr int input_nbytes =
        decode ? sizeof(uint32_t) : sizeof(struct row<T>);
    static constexpr int coarse_nbytes = sizeof(struct both<T>);
    static constexpr int input_at =
        (nseen * nboth * coarse_nbytes + 15) / 16 * 16;
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
march_input_of(unsigned stage)
{
    unsigned char *s_block = dynamic_shared<unsigned char>();
    unsigned char *s_input =
        s_block + tile::input_at +
        (stage * (unsigned)(tile::ninputs * tile::nthreads) + threadIdx.x) *
            (unsigned)tile::input_nbytes;

    return {(struct row<T> *)s_input, (uint32_t *)s_input,
            (struct both<T> *)(s_block + tile::coarse_at) +
                (stage * (unsigned)tile::nthreads + threadIdx.x)};
}

/* Where a thread's cubes of a plane have their even rows and coarse points. */
template <typename T> struct march_place {
    const T *src, *coarse;
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
                copy_async(in.s_symbols + (odd - 1) * N,
                           (const uint32_t *)(symbols +
                                              work.class_byte_at[odd]));
    } else {
        struct row<T> *s_rows = in.s_rows + (odd_z ? 2 * N : 0);
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
    const int odd_z = z - SPLINE_RIGHT;

    if (!thread.exists)
        return;
    if (z < work.nz) {
        copy_async(in.s_coarse, (const struct both<T> *)place.coarse);
        fetch_half<tile, false>(work, view, thread, place.src, z, in);
    }
    if (odd_z >= begin)
        fetch_half<tile, true>(work, view, thread,
                               place.src - 3 * (int64_t)work.fine_plane, odd_z,
                               in);
}

/* Makes both points of a class, by the step's input. */
template <typename tile, int odd, int borders, typename T>
static __device__ __forceinline__ struct both<T>
make_both(const struct march<T> &m, const struct march_input<T> &in,
          const struct line<T> &z, const struct line<T> &y,
          const struct line<T> &x)
{
    constexpr int N = tile::nthreads;

    if constexpr (tile::decode)
        return reconstruct_both<odd, borders>(m, in.s_symbols[(odd - 1) * N], z,
                                              y, x);
    else
        return quantize_both<odd, borders>(m, in.s_rows[odd / 2 * N], z, y, x);
}

/* Values of an even and an odd class to their row. */
template <typename T>
static __device__ __forceinline__ void
store_row(T *at, const struct both<T> &even, const struct both<T> &odd)
{
    *(struct row<T> *)at = {
        {even.at[0], odd.at[0], even.at[1], odd.at[1]}
    };
}

/* A step of a thread. `old` has its even points of the three planes before, the
 * oldest first; `s` its place in shared memory; `fine` its even row. Has two
 * barriers: what is written to before the first is read before the second, and
 * what is written between them is read before the next step's first. */
template <typename tile, int borders, typename T>
static __device__ __forceinline__ void
make_step(const struct march<T> &m, const struct march_input<T> &in,
          struct both<T> (&old)[3][4], struct both<T> *s, T *fine)
{
    constexpr int W = tile::ncolumns, N = tile::nboth;
    /* Steps of one half alone are at ends of a segment. */
    const bool even = borders != MARCH_BORDER_ANY || m.step.has_even;
    const bool odd = borders != MARCH_BORDER_ANY || m.step.has_odd;
    const struct line<T> none = {};
    struct both<T> e[4] = {}, o[4] = {};

#define MARCH_Z(i) line_of(old[0][i], old[1][i], old[2][i], e[i])
#define MARCH_MAKE(class, z, y, x) \
    make_both<tile, class, borders>(m, in, z, y, x)
    if (even) {
        e[0] = *in.s_coarse;
        if (m.thread.is_seen)
            s[0] = e[0];
    }
    if (odd) {
        o[0] = MARCH_MAKE(4, MARCH_Z(0), none, none);
        if (m.thread.is_seen)
            s[N] = o[0];
    }
    __syncthreads();
    if (even) {
        e[1] = MARCH_MAKE(1, none, none, line_along_x(s, e[0]));
        if (m.thread.is_seen)
            s[2 * N] = e[1];
    }
    if (odd) {
        o[1] = MARCH_MAKE(5, MARCH_Z(1), none, line_along_x(s + N, o[0]));
        if (m.thread.is_seen)
            s[3 * N] = o[1];
    }
    if (m.thread.in_tile_y) {
        if (even)
            s[4 * N] = e[2] =
                MARCH_MAKE(2, none, line_along_y<W>(s, e[0]), none);
        if (odd)
            s[5 * N] = o[2] =
                MARCH_MAKE(6, MARCH_Z(2), line_along_y<W>(s + N, o[0]), none);
    }
    __syncthreads();
    if (m.thread.in_tile_y) {
        if (even)
            e[3] = MARCH_MAKE(3, none, line_along_y<W>(s + 2 * N, e[1]),
                              line_along_x(s + 4 * N, e[2]));
        if (odd)
            o[3] = MARCH_MAKE(7, MARCH_Z(3), line_along_y<W>(s + 3 * N, o[1]),
                              line_along_x(s + 5 * N, o[2]));
    }
#undef MARCH_MAKE
#undef MARCH_Z
    if (tile::decode && m.step.owns_even) {
        store_row(fine, e[0], e[1]);
        store_row(fine + 2 * m.work.nx, e[2], e[3]);
    }
    if (tile::decode && m.step.owns_odd) {
        fine -= 3 * (int64_t)m.work.fine_plane;
        store_row(fine, o[0], o[1]);
        store_row(fine + 2 * m.work.nx, o[2], o[3]);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        old[0][i] = old[1][i];
        old[1][i] = old[2][i];
        old[2][i] = e[i];
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

/* The thread's cubes among those of the tile and its surroundings: the tile's
 * own rows first. */
template <typename tile>
static __device__ __forceinline__ struct march_thread
march_thread_of(const struct march_work &work, int r, int column, int kx,
                int ky)
{
    struct march_thread thread = {};

    thread.is_seen = r < tile::nrows;
    thread.in_tile_x = column >= 1 && column <= tile::nx / MARCH_WIDTH;
    thread.in_tile_y = r < tile::ny;
    thread.exists = thread.is_seen && kx >= 0 && kx < work.nx && ky >= 0 &&
                    ky < work.ny;
    thread.owns = thread.exists && thread.in_tile_x && thread.in_tile_y;
    /* The others reach for anything. */
    for (int i = 0; i < MARCH_WIDTH; i++)
        thread.reach.x[i] = reach_at(
            thread.exists ? (uint32_t)(kx + i) : 1,
            thread.exists ? (uint32_t)work.nx : 4);
    thread.reach.y = reach_at(thread.exists ? (uint32_t)ky : 1,
                              thread.exists ? (uint32_t)work.ny : 4);
    if (thread.exists) {
        thread.kx = (uint32_t)kx;
        thread.ky = (uint32_t)ky;
        place_symbols(work, &thread);
    }
    return thread;
}

/* All steps of a block, for the cubes of a segment along z from `begin` on. */
template <typename tile, typename T>
static __device__ __forceinline__ void
march_along_z(const struct march_work &work, const struct level_view<T> &view,
              struct cuda_chunk *s_chunk, const struct march_thread &thread,
              int begin, int end, struct both<T> *s)
{
    const int first = begin > 0 ? begin - SPLINE_LEFT : 0;
    const int last = end + SPLINE_RIGHT;
    const int64_t fine_planes = 2 * (int64_t)work.fine_plane;
    const uint64_t in_fine =
        4 * (uint64_t)thread.ky * (uint64_t)work.nx + 2 * thread.kx;
    struct march_place<T> place = {
        view.src + in_fine + first * fine_planes,
        view.coarse + (uint64_t)thread.ky * (uint64_t)work.nx + thread.kx +
            (uint64_t)first * work.plane_ncubes};
    T *fine = view.fine + in_fine + first * fine_planes;
    const bool border_x = __any_sync(
        FULL_WARP_MASK, is_low(thread.reach.x[0]) || is_low(thread.reach.x[1]));
    const bool border_y =
        __any_sync(FULL_WARP_MASK, thread.in_tile_y && is_low(thread.reach.y));
    const bool escapes = tile::decode && s_chunk->nescapes > 0;
    struct march_reach reach = thread.reach;
    struct both<T> old[3][4] = {};
    unsigned stage = 0, to_fetch = 0;
    int next = first;

    const auto fetch_next = [&] {
        if (next < last)
            fetch_input<tile>(work, view, thread, place, begin, next, to_fetch);
        commit_async();
        place.src += fine_planes;
        place.coarse += work.plane_ncubes;
        to_fetch = to_fetch + 1 == tile::nstages ? 0 : to_fetch + 1;
        next++;
    };
    for (int i = 0; i + 1 < tile::nstages; i++)
        fetch_next();
#pragma unroll 1
    for (int z = first; z < last; z++) {
        const bool has_odd = z - SPLINE_RIGHT >= begin;
        const struct march_step step = {z, z < work.nz, has_odd,
                                        thread.owns && z >= begin && z < end,
                                        thread.owns && has_odd};
        const struct march_input<T> in = march_input_of<tile, T>(stage);
        struct march<T> m = {work,  view, s_chunk, thread,
                             reach, step, NULL,    NULL};

        wait_async_but<tile::nstages - 2>();
        fetch_next();
        if (!tile::decode) {
            m.even_symbols = symbols_at(work, view, thread, z);
            m.odd_symbols = symbols_at(work, view, thread, z - SPLINE_RIGHT);
        }
        reach.z = reach_at((uint32_t)(z - SPLINE_RIGHT), (uint32_t)work.nz);
        bool any =
            border_y || !step.has_even || !has_odd || is_low(reach.z);
        if (escapes)
            any |= warp_has_escapes<tile>(in);
        if (any)
            make_step<tile, MARCH_BORDER_ANY>(m, in, old, s, fine);
        else if (border_x)
            make_step<tile, MARCH_BORDER_X>(m, in, old, s, fine);
        else
            make_step<tile, MARCH_INSIDE>(m, in, old, s, fine);
        stage = stage + 1 == tile::nstages ? 0 : stage + 1;
        fine += fine_planes;
    }
}

/* Grid: (tiles along x, then y, then segments, then bricks; chunks). Block:
 * tile::nthreads. Shared: tile::shared_nbytes: points of the classes that others
 * reach for along x or y, then input on its way. */
template <typename T, typename tile>
static __global__ void
__launch_bounds__(tile::nthreads, sizeof(T) == 4 ? 2 : 1)
    spline_march(const __grid_constant__ struct cuda_batch batch,
                 const __grid_constant__ struct march_work shape, int l)
{
    begin_kernel();
    __shared__ struct cuda_chunk chunk;

    const struct cuda_chunk &state = batch.d_chunks[blockIdx.y];
    if (!chunk_applies(state) || !plan_marches<T, tile::decode>(state, l))
        return;
    copy_state(batch, threadIdx.x, tile::nthreads, &chunk);
    const unsigned tiles = blockIdx.x / shape.ntiles_x;
    const int x = (int)(blockIdx.x - tiles * shape.ntiles_x) * tile::nx;
    const unsigned segments = tiles / shape.ntiles_y;
    const int y = (int)(tiles - segments * shape.ntiles_y) * tile::ny;
    const unsigned brick = segments / shape.nsegments;
    const int begin =
        (int)(segments - brick * shape.nsegments) * shape.segment_nz;
    struct march_work work = shape;
    work.brick_at = brick * shape.plane_ncubes * (uint32_t)shape.nz;
    struct level_view<T> view = view_of<T>(batch, chunk);
    view.k = level_constants<T>(batch, chunk, chunk.model.plan[l]);
    view.has_specials = false; /* see plan_marches */
    view.coarse = view.lattice + shape.coarse_at + work.brick_at;
    view.src += (uint64_t)MARCH_NCLASSES * work.brick_at;
    view.fine = view.dst + (uint64_t)MARCH_NCLASSES * work.brick_at;
    view.symbols += work.brick_at;
    const int r = (int)threadIdx.x / tile::ncolumns;
    const int column = (int)threadIdx.x % tile::ncolumns;
    const int row = r < tile::ny ? r : r == tile::ny ? -1 : r - 1;
    if (tile::decode)
        clear_symbols<tile, T>();
    const struct march_thread thread = march_thread_of<tile>(
        work, r, column, x + (column - 1) * MARCH_WIDTH, y + row);
    march_along_z<tile>(
        work, view, &chunk, thread, begin, min(begin + shape.segment_nz, shape.nz),
        dynamic_shared<struct both<T>>() + 1 +
            (thread.is_seen ? (row + SPLINE_LEFT) * tile::ncolumns + column
                            : 0));
}

/* How segments are cut: of each, three planes of cubes are read and half made
 * for the others' sake. All planes if they are few, else about so many; fewer
 * where blocks would be, so that a large device is busy twice over. */
#define MARCH_WHOLE_NZ 32
#define MARCH_SEGMENT_NZ 24
#define MARCH_MIN_NZ 2
#ifndef CUDA_MARCH_NBLOCKS
#define CUDA_MARCH_NBLOCKS 512u
#endif

static inline int
march_segment_nz(int nz, uint64_t ntiles)
{
    const uint64_t wanted = div_up(CUDA_MARCH_NBLOCKS, ntiles);
    const int segment_nz = nz <= MARCH_WHOLE_NZ ? nz : MARCH_SEGMENT_NZ;
    const int nsegments = (nz - 1) / segment_nz + 1;
    const int most = nz / MARCH_MIN_NZ;
    const int more = wanted > (uint64_t)most ? most : (int)wanted;

    return (nz - 1) / (nsegments > more ? nsegments : more) + 1;
}

template <typename T, typename tile>
static cudaError_t
launch_march_by(const struct cuda_batch *batch, int l, cudaStream_t stream)
{
    const struct terp_layout *layout = batch->h_layout;
    const struct terp_level *level = &layout->level[l];
    struct march_work work = {};

    work.nx = (int)level->neven[0];
    work.ny = (int)level->neven[1];
    work.nz = (int)level->neven[2];
    work.ntiles_x = (uint32_t)((work.nx - 1) / tile::nx + 1);
    work.ntiles_y = (uint32_t)((work.ny - 1) / tile::ny + 1);
    const uint64_t ntiles =
        (uint64_t)work.ntiles_x * work.ntiles_y * layout->nbricks;
    work.segment_nz =
        march_segment_nz(work.nz, ntiles * (uint64_t)batch->nchunks);
    work.nsegments = (uint32_t)((work.nz - 1) / work.segment_nz + 1);
    work.plane_ncubes = (uint32_t)(work.nx * work.ny);
    work.fine_plane = 4 * work.plane_ncubes;
    work.coarse_at = level->lattice_at;
    for (unsigned odd = 1; odd < MARCH_NCLASSES; odd++) {
        work.class_at[odd] = (uint32_t)level->class_at[odd];
        work.class_byte_at[odd] =
            (uint32_t)sizeof(uint16_t) * work.class_at[odd];
    }
    return launch_shared(batch, stream, spline_march<T, tile>,
                         ntiles * work.nsegments, tile::nthreads,
                         tile::shared_nbytes, work, l);
}

/* Cubes of a tile, and stages. */
template <typename T, bool decode>
static cudaError_t
launch_march(const struct cuda_batch *batch, int l, cudaStream_t stream)
{
    return launch_march_by<T, march_tile<T, decode, 32, 16, decode ? 3 : 2>>(
        batch, l, stream);
}

#endif
