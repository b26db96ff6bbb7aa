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
    uint32_t brick_ncubes;
    uint64_t coarse_at; /* in `lattice` */
    uint32_t class_at[MARCH_NCLASSES];
};

/* Whether a level's shape allows it: level 1 of three dimensions, whose extents
 * are even, and rows that are read by 16 bytes. */
static inline bool
shape_marches(const struct terp_layout *layout, int l)
{
    const struct terp_level *level = &layout->level[l];
    bool even = true;

    for (int d = 0; d < MARCH_NDIMS; d++)
        even &= level->neven[d] == level->nodd[d];
    return l == 1 && layout->rank == MARCH_NDIMS && even &&
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

/* The forms of a thread's points: of both cubes along x, along y and z. */
struct march_forms {
    enum terp_form x[MARCH_WIDTH], y, z;
};

static __device__ __forceinline__ bool
is_low(enum terp_form form)
{
    return form != TERP_FORM_CUBIC;
}

/* By forms of lower order only; out of the way, as few points are. */
template <typename T>
static __device__ __noinline__ T
predict_low(enum terp_form form, T a, T b, T c, T d)
{
    return combine(form, a, b, c, d);
}

/* The forms of highest order, of dimensions in `odd`, all low. */
template <typename T>
static __device__ __noinline__ T
predict_corner(int odd, enum terp_form form_z, enum terp_form form_y,
               enum terp_form form_x, struct around<T> z, struct around<T> y,
               struct around<T> x)
{
    const int order_z = odd & MARCH_ODD_Z ? terp_form_order(form_z) : -1;
    const int order_y = odd & MARCH_ODD_Y ? terp_form_order(form_y) : -1;
    const int order_x = odd & MARCH_ODD_X ? terp_form_order(form_x) : -1;
    const int best = max(order_z, max(order_y, order_x));
    T sum = (T)-0.0;
    int n = 0;

    if (order_z == best) {
        sum += combine(form_z, z.a, z.b, z.c, z.d);
        n++;
    }
    if (order_y == best) {
        sum += combine(form_y, y.a, y.b, y.c, y.d);
        n++;
    }
    if (order_x == best) {
        sum += combine(form_x, x.a, x.b, x.c, x.d);
        n++;
    }
    return sum * TERP_SHARE(T, n);
}

template <typename T>
static __device__ __forceinline__ T
cubic_of(const struct around<T> &p)
{
    return TERP_CUBIC(p.a, p.b, p.c, p.d);
}

/* The prediction of a point of the class. Beside a cubic form none of lower
 * order counts: -0 takes its place, which changes no sum. */
template <int odd, int borders, typename T>
static __device__ __forceinline__ T
predict_marched(const struct march_forms &forms, enum terp_form form_x,
                const struct around<T> &z, const struct around<T> &y,
                const struct around<T> &x)
{
    constexpr int N = (odd & 1) + (odd >> 1 & 1) + (odd >> 2);
    constexpr bool ANY = borders == MARCH_BORDER_ANY;
    const bool low_x = borders != MARCH_INSIDE && odd & MARCH_ODD_X &&
                       is_low(form_x);
    const bool low_y = ANY && odd & MARCH_ODD_Y && is_low(forms.y);
    const bool low_z = ANY && odd & MARCH_ODD_Z && is_low(forms.z);
    const int n = N - (int)low_x - (int)low_y - (int)low_z;
    T sum = (T)-0.0;

    if constexpr (N == 1) {
        const struct around<T> &p = odd == MARCH_ODD_X   ? x
                                    : odd == MARCH_ODD_Y ? y
                                                         : z;
        if (n == 0)
            return predict_low(odd == MARCH_ODD_X   ? form_x
                               : odd == MARCH_ODD_Y ? forms.y
                                                    : forms.z,
                               p.a, p.b, p.c, p.d);
        return cubic_of(p);
    }
    if (ANY && n == 0)
        return predict_corner(odd, forms.z, forms.y, form_x, z, y, x);
    if (odd & MARCH_ODD_Z)
        sum += low_z ? (T)-0.0 : cubic_of(z);
    if (odd & MARCH_ODD_Y)
        sum += low_y ? (T)-0.0 : cubic_of(y);
    if (odd & MARCH_ODD_X)
        sum += low_x ? (T)-0.0 : cubic_of(x);
    return sum * TERP_SHARE(T, n);
}

/* ---- a thread's place and points ---- */

struct march_thread {
    bool exists;            /* its cubes are in the lattice */
    bool in_tile_x, in_tile_y; /* of the block's, not of its surroundings */
    bool is_seen;           /* has a place in shared memory */
    int kx, ky;             /* of the first cube */
    uint32_t brick_at;      /* cubes of the bricks before */
    /* Where its symbols stand, see march_symbol_at. */
    uint32_t before, box_plane, in_box;
};

static __device__ __forceinline__ bool
owns(const struct march_thread &thread)
{
    return thread.exists && thread.in_tile_x && thread.in_tile_y;
}

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
    const uint32_t x = (uint32_t)thread->kx, y = (uint32_t)thread->ky;
    const uint32_t low_x = x & ~(box - 1), low_y = y & ~(box - 1);
    const uint32_t width = min_u32(box, (uint32_t)work.nx - low_x);
    const uint32_t height = min_u32(box, (uint32_t)work.ny - low_y);

    thread->before = low_y * (uint32_t)work.nx + low_x * height;
    thread->box_plane = height * width;
    thread->in_box = (y - low_y) * width + (x - low_x);
}

/* Of the thread's cube in plane z of a class: what tiled_row_at says. */
static __device__ __forceinline__ uint32_t
march_symbol_at(const struct march_work &work,
                const struct march_thread &thread, int z)
{
    const uint32_t box = march_box();
    const uint32_t low = (uint32_t)z & ~(box - 1);
    const uint32_t depth = min_u32(box, (uint32_t)work.nz - low);

    return low * (uint32_t)(work.ny * work.nx) + thread.before * depth +
           ((uint32_t)z - low) * thread.box_plane + thread.in_box;
}

/* The same in level order. */
static __device__ __forceinline__ uint32_t
march_point_at(const struct march_work &work, const struct march_thread &thread,
               int z)
{
    return (uint32_t)((z * work.ny + thread.ky) * work.nx + thread.kx);
}

/* What the decoder makes of a value that has escaped. `range` counts it; NULL
 * where another thread does that. */
template <typename T>
static __device__ __noinline__ T
escape_marched(const struct cuda_chunk *s_chunk, struct cuda_chunk *d_chunk,
               unsigned long long *range, T limit, T value)
{
    const struct grid_point<T> point =
        find_on_grid(grid_of<T>(*s_chunk, limit), value);

    if (range != NULL) {
        atomicAdd(range, 1ull);
        note_number(d_chunk, point.fits,
                    point.fits ? zigzag((int64_t)point.nsteps) : 0);
    }
    return point.fits ? point.value : value;
}

/* A step: of even planes of cubes z, of odd ones of cubes z - 2. */
struct march_step {
    int z;
    bool has_even, has_odd;
    bool owns_even; /* these are not of the surroundings */
    uint32_t even_at, odd_at; /* the thread's symbols, in a class */
};

/* All that points of a class are made of. */
template <typename T> struct march {
    const struct march_work &work;
    const struct level_view<T> &view;
    const struct march_thread &thread;
    const struct march_forms &forms;
    const struct march_step &step;
};

template <int odd, typename T>
static __device__ __forceinline__ uint32_t
class_point_at(const struct march<T> &m)
{
    return m.work.class_at[odd] + m.thread.brick_at +
           march_point_at(m.work, m.thread,
                          odd & MARCH_ODD_Z ? m.step.z - SPLINE_RIGHT
                                            : m.step.z);
}

/* Both points of the class from what they are predicted by and, encode, their
 * values among those of their row. */
template <int odd, int borders, typename T>
static __device__ __forceinline__ struct both<T>
quantize_both(const struct march<T> &m, const struct row<T> &values,
              const struct line<T> &z, const struct line<T> &y,
              const struct line<T> &x)
{
    uint32_t symbol[MARCH_WIDTH];
    struct both<T> made;
    const bool is_owned =
        owns(m.thread) && (odd & MARCH_ODD_Z || m.step.owns_even);

#pragma unroll
    for (int i = 0; i < MARCH_WIDTH; i++)
        made.at[i] = quantize(
            values.at[2 * i + (odd & MARCH_ODD_X)],
            predict_marched<odd, borders>(m.forms, m.forms.x[i], z.of[i],
                                          y.of[i], x.of[i]),
            m.view, &symbol[i]);
    if (__builtin_expect(min_u32(symbol[0], symbol[1]) == TERP_ESCAPE, 0) &&
        is_made<odd>(m.thread)) {
#pragma unroll
        for (int i = 0; i < MARCH_WIDTH; i++) {
            const uint32_t at = class_point_at<odd>(m) + (uint32_t)i;
            if (symbol[i] == TERP_ESCAPE)
                made.at[i] = escape_marched(
                    m.view.s_chunk, m.view.d_chunk,
                    is_owned ? &m.view.ranges[at / CUDA_RANGE_NVALUES] : NULL,
                    m.view.k.limit, made.at[i]);
        }
    }
    if (is_owned) {
        const uint32_t at =
            m.work.class_at[odd] +
            (odd & MARCH_ODD_Z ? m.step.odd_at : m.step.even_at);
        *(uint32_t *)(m.view.symbols + at) = symbol[0] | symbol[1] << 16;
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
            predict_marched<odd, borders>(m.forms, m.forms.x[i], z.of[i],
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
    static constexpr int input_nbytes =
        decode ? 4 * (MARCH_NCLASSES - 1) : 4 * (int)sizeof(struct row<T>);
    static constexpr int coarse_nbytes = sizeof(struct both<T>);
    static constexpr int input_at =
        (nseen * nboth * coarse_nbytes + 15) / 16 * 16;
    static constexpr int coarse_at =
        input_at + nstages * nthreads * input_nbytes;
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
    const unsigned at = stage * (unsigned)tile::nthreads;

    return {(struct row<T> *)(s_block + tile::input_at) + 4 * at + threadIdx.x,
            (uint32_t *)(s_block + tile::input_at) +
                (MARCH_NCLASSES - 1) * at + threadIdx.x,
            (struct both<T> *)(s_block + tile::coarse_at) + at + threadIdx.x};
}

/* Where the chunk's rows of the cubes' points stand. */
static __device__ __forceinline__ uint32_t
march_row_at(const struct march_work &work, const struct march_thread &thread,
             int z, int odd_y)
{
    const uint32_t nrows = 2 * (uint32_t)work.ny;

    return (((uint32_t)z * nrows) + (uint32_t)(2 * thread.ky + odd_y)) * 2 *
               (uint32_t)work.nx +
           2 * (uint32_t)thread.kx;
}

template <typename T>
static __device__ __forceinline__ void
copy_row_async(struct row<T> *s_to, const T *from)
{
    constexpr int NPIECES = sizeof(struct row<T>) / 16;

#pragma unroll
    for (int i = 0; i < NPIECES; i++)
        copy_async((uint4 *)s_to + i, (const uint4 *)from + i);
}

/* Lets a step's input come. */
template <typename tile, typename T>
static __device__ __forceinline__ void
fetch_input(const struct march_work &work, const struct level_view<T> &view,
            const struct march_thread &thread, const struct march_step &step,
            unsigned stage)
{
    constexpr int N = tile::nthreads;
    const struct march_input<T> in = march_input_of<tile, T>(stage);

    if (!thread.exists)
        return;
    if (step.has_even)
        copy_async(in.s_coarse, (const struct both<T> *)(view.coarse +
                                                         march_point_at(
                                                             work, thread,
                                                             step.z)));
    if constexpr (tile::decode) {
#pragma unroll
        for (int odd = 1; odd < MARCH_NCLASSES; odd++) {
            const bool odd_z = (odd & MARCH_ODD_Z) != 0;
            if ((odd_z ? step.has_odd : step.has_even) &&
                (!(odd & MARCH_ODD_Y) || thread.in_tile_y))
                copy_async(in.s_symbols + (odd - 1) * N,
                           (const uint32_t *)(view.symbols +
                                              (work.class_at[odd] +
                                               (odd_z ? step.odd_at
                                                      : step.even_at))));
        }
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int z = i >= 2 ? 2 * step.z - 3 : 2 * step.z;
            if ((i >= 2 ? step.has_odd : step.has_even) &&
                (i % 2 == 0 || thread.in_tile_y))
                copy_row_async(in.s_rows + i * N,
                               view.src +
                                   march_row_at(work, thread, z, i % 2));
        }
    }
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
 * oldest first; `s` its place in shared memory. Has two barriers: what is
 * written to before the first is read before the second, and what is written
 * between them is read before the next step's first. */
template <typename tile, int borders, typename T>
static __device__ __forceinline__ void
make_step(const struct march<T> &m, const struct march_input<T> &in,
          struct both<T> (&old)[3][4], struct both<T> *s)
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
    if (tile::decode && owns(m.thread)) {
        const int z = 2 * m.step.z;
        T *to = m.view.fine;
        if (even && m.step.owns_even) {
            store_row(to + march_row_at(m.work, m.thread, z, 0), e[0], e[1]);
            store_row(to + march_row_at(m.work, m.thread, z, 1), e[2], e[3]);
        }
        if (odd) {
            store_row(to + march_row_at(m.work, m.thread, z - 3, 0), o[0],
                      o[1]);
            store_row(to + march_row_at(m.work, m.thread, z - 3, 1), o[2],
                      o[3]);
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        old[0][i] = old[1][i];
        old[1][i] = old[2][i];
        old[2][i] = e[i];
    }
}

/* Whether a lane of the warp has an escape among a step's symbols. */
template <typename tile, typename T>
static __device__ __forceinline__ bool
warp_has_escapes(const struct march_thread &thread,
                 const struct march_step &step, const struct march_input<T> &in)
{
    uint32_t zeros = 0;

#pragma unroll
    for (int odd = 1; odd < MARCH_NCLASSES; odd++) {
        const uint32_t two = in.s_symbols[(odd - 1) * tile::nthreads];
        const bool has = odd & MARCH_ODD_Z ? step.has_odd : step.has_even;
        if (has && (!(odd & MARCH_ODD_Y) || thread.in_tile_y))
            zeros |= (two - 0x00010001u) & ~two;
    }
    return __any_sync(FULL_WARP_MASK,
                      thread.exists && (zeros & 0x80008000u) != 0);
}

/* The thread's cubes among those of the tile and its surroundings: the tile's
 * own rows first. */
template <typename tile>
static __device__ __forceinline__ struct march_thread
march_thread_of(const struct march_work &work, int x, int y, uint32_t brick_at)
{
    const int r = (int)threadIdx.x / tile::ncolumns;
    const int column = (int)threadIdx.x % tile::ncolumns;
    const int row = r < tile::ny ? r : r == tile::ny ? -1 : r - 1;
    struct march_thread thread = {};

    thread.kx = x + (column - 1) * MARCH_WIDTH;
    thread.ky = y + row;
    thread.brick_at = brick_at;
    thread.is_seen = r < tile::nrows;
    thread.in_tile_x = column >= 1 && column <= tile::nx / MARCH_WIDTH;
    thread.in_tile_y = r < tile::ny;
    thread.exists = thread.is_seen && thread.kx >= 0 && thread.kx < work.nx &&
                    thread.ky >= 0 && thread.ky < work.ny;
    if (thread.exists)
        place_symbols(work, &thread);
    return thread;
}

static __device__ __forceinline__ struct march_step
march_step_at(const struct march_work &work, const struct march_thread &thread,
              int z, int begin, int end)
{
    return {z,
            z < work.nz,
            z - SPLINE_RIGHT >= begin,
            z >= begin && z < end,
            march_symbol_at(work, thread, z),
            march_symbol_at(work, thread, z - SPLINE_RIGHT)};
}

/* All steps of a block, for the cubes of a segment along z from `begin` on. */
template <typename tile, typename T>
static __device__ __forceinline__ void
march_along_z(const struct march_work &work, const struct level_view<T> &view,
              const struct march_thread &thread, int begin, int end,
              struct both<T> *s)
{
    const uint64_t nx = (uint64_t)work.nx, ny = (uint64_t)work.ny;
    const uint64_t kx = (uint64_t)thread.kx;
    const int first = begin > 0 ? begin - SPLINE_LEFT : 0;
    const int last = end + SPLINE_RIGHT;
    struct march_forms forms = {
        {terp_form_at(TERP_SPLINE_CUBIC, kx, nx),
         terp_form_at(TERP_SPLINE_CUBIC, kx + 1, nx)},
        terp_form_at(TERP_SPLINE_CUBIC, (uint64_t)thread.ky, ny),
        TERP_FORM_CUBIC};
    if (!thread.exists) {
        forms.x[0] = forms.x[1] = TERP_FORM_CUBIC;
        forms.y = TERP_FORM_CUBIC;
    }
    const bool border_x = __any_sync(FULL_WARP_MASK, is_low(forms.x[0]) ||
                                                         is_low(forms.x[1]));
    const bool border_y = __any_sync(FULL_WARP_MASK, is_low(forms.y));
    struct both<T> old[3][4] = {};
    unsigned stage = 0, to_fetch = 0;

    for (int i = 0; i + 1 < tile::nstages; i++) {
        if (first + i < last)
            fetch_input<tile>(work, view, thread,
                              march_step_at(work, thread, first + i, begin,
                                            end),
                              to_fetch++);
        commit_async();
    }
#pragma unroll 1
    for (int z = first; z < last; z++) {
        const struct march_step step =
            march_step_at(work, thread, z, begin, end);
        const struct march_input<T> in = march_input_of<tile, T>(stage);
        const struct march<T> m = {work, view, thread, forms, step};
        const int next = z + tile::nstages - 1;

        wait_async_but<tile::nstages - 2>();
        if (next < last)
            fetch_input<tile>(work, view, thread,
                              march_step_at(work, thread, next, begin, end),
                              to_fetch);
        commit_async();
        forms.z = terp_form_at(TERP_SPLINE_CUBIC, (uint64_t)(z - SPLINE_RIGHT),
                               (uint64_t)work.nz);
        bool any = border_y || !step.has_even || !step.has_odd ||
                   is_low(forms.z);
        if constexpr (tile::decode)
            any |= warp_has_escapes<tile>(thread, step, in);
        if (any)
            make_step<tile, MARCH_BORDER_ANY>(m, in, old, s);
        else if (border_x)
            make_step<tile, MARCH_BORDER_X>(m, in, old, s);
        else
            make_step<tile, MARCH_INSIDE>(m, in, old, s);
        stage = stage + 1 == tile::nstages ? 0 : stage + 1;
        to_fetch = to_fetch + 1 == tile::nstages ? 0 : to_fetch + 1;
    }
}

/* Grid: (tiles along x, then y, then segments, then bricks; chunks). Block:
 * tile::nthreads. Shared: tile::shared_nbytes: points of the classes that others
 * reach for along x or y, then input on its way. */
template <typename T, typename tile>
static __global__ void
__launch_bounds__(tile::nthreads, sizeof(T) == 4 ? 2 : 1)
    spline_march(const __grid_constant__ struct cuda_batch batch,
                 const __grid_constant__ struct march_work work, int l)
{
    begin_kernel();
    __shared__ struct cuda_chunk chunk;

    const struct cuda_chunk &state = batch.d_chunks[blockIdx.y];
    if (!chunk_applies(state) || !plan_marches<T, tile::decode>(state, l))
        return;
    copy_state(batch, threadIdx.x, tile::nthreads, &chunk);
    uint32_t block = blockIdx.x;
    const int x = (int)(block % work.ntiles_x) * tile::nx;
    block /= work.ntiles_x;
    const int y = (int)(block % work.ntiles_y) * tile::ny;
    block /= work.ntiles_y;
    const int begin = (int)(block % work.nsegments) * work.segment_nz;
    const uint32_t brick_at = block / work.nsegments * work.brick_ncubes;
    struct level_view<T> view = view_of<T>(batch, chunk);
    view.k = level_constants<T>(batch, chunk, chunk.model.plan[l]);
    view.has_specials = false; /* see plan_marches */
    view.coarse = view.lattice + work.coarse_at + brick_at;
    view.src += (uint64_t)MARCH_NCLASSES * brick_at;
    view.fine = view.dst + (uint64_t)MARCH_NCLASSES * brick_at;
    view.symbols += brick_at;
    const struct march_thread thread =
        march_thread_of<tile>(work, x, y, brick_at);
    const int row = thread.is_seen ? thread.ky - y + SPLINE_LEFT : 0;
    const int column = (thread.kx - x) / MARCH_WIDTH + 1;
    march_along_z<tile>(work, view, thread, begin,
                        min(begin + work.segment_nz, work.nz),
                        dynamic_shared<struct both<T>>() + 1 +
                            (row * tile::ncolumns + column));
}

/* Cubes of a segment along z, at most: of those around it three more are read
 * and half made. */
#define MARCH_MAX_NZ 20

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
    work.nsegments = (uint32_t)((work.nz - 1) / MARCH_MAX_NZ + 1);
    work.segment_nz = (work.nz - 1) / (int)work.nsegments + 1;
    work.nsegments = (uint32_t)((work.nz - 1) / work.segment_nz + 1);
    work.brick_ncubes = (uint32_t)(work.nx * work.ny * work.nz);
    work.coarse_at = level->lattice_at;
    for (unsigned odd = 1; odd < MARCH_NCLASSES; odd++)
        work.class_at[odd] = (uint32_t)level->class_at[odd];
    return launch_shared(batch, stream, spline_march<T, tile>,
                         (uint64_t)work.ntiles_x * work.ntiles_y *
                             work.nsegments * layout->nbricks,
                         tile::nthreads, tile::shared_nbytes, work, l);
}

/* Cubes of a tile by type and direction, and stages; a narrow tile where that
 * holds a row. */
template <typename T, bool decode>
static cudaError_t
launch_march(const struct cuda_batch *batch, int l, cudaStream_t stream)
{
    if constexpr (sizeof(T) == 8)
        return launch_march_by<T, march_tile<T, decode, 32, 8, 2>>(batch, l,
                                                                   stream);
    else if constexpr (decode)
        return launch_march_by<T, march_tile<T, decode, 32, 16, 3>>(batch, l,
                                                                    stream);
    else if (batch->h_layout->level[l].neven[0] <= 32)
        return launch_march_by<T, march_tile<T, decode, 32, 16, 2>>(batch, l,
                                                                    stream);
    else
        return launch_march_by<T, march_tile<T, decode, 64, 8, 2>>(batch, l,
                                                                   stream);
}

#endif
