/* Writes and reads the section of shifts, as cpu/sections/shifts.c does.
 * Kernels that visit points take them in C order, by segments of rows, a warp
 * each; the number of a point tells its group. Kernels that visit an encoder's
 * differences have a warp for a group. */
#include "gpu/sections/shifts.cuh"

#include "gpu/block/concatenate.cuh"
#include "gpu/block/load_bits.cuh"
#include "gpu/predict/lorenzo_shape.cuh"
#include "gpu/predict/lossless_sample.cuh"

#define NTHREADS LORENZO_NTHREADS
#define NWARPS LORENZO_NWARPS
#define PLACE_NTHREADS 1024
#define LANE_NNUMBERS (TERP_SHIFT_GROUP_NVALUES / 32)

/* ---- writing ---- */

/* The arrays of the block's chunk. T is float or double, the type of its coded
 * values. */
template <typename T> struct shifts_view {
    const word_of<T> *differences;
    uint64_t *groups, *spans;
    uint64_t nvalid, ngroups;
};

template <typename T>
static __device__ __forceinline__ shifts_view<T>
shifts_of(const struct cuda_batch &batch, const struct cuda_chunk &chunk)
{
    const uint64_t nvalid = nvalid_of(valid_points_of(batch, chunk));

    return {region<word_of<T>>(batch, batch.at.differences),
            region<uint64_t>(batch, batch.at.shift_groups),
            region<uint64_t>(batch, batch.at.shift_spans), nvalid,
            shift_ngroups(nvalid)};
}

template <typename T>
static __device__ __forceinline__ int_of<T>
difference_at(const shifts_view<T> &view, uint64_t number)
{
    return (int_of<T>)view.differences[number];
}

/* The width of a difference (terp_width_of_difference). */
template <typename T>
static __device__ __forceinline__ int
width_of(int_of<T> difference)
{
    const word_of<T> bits = (word_of<T>)difference;

    return bit_width(difference < 0 ? 0 - bits : bits);
}

/* Whether storing the zeros of groups saves more bits than the zeros take. */
static __device__ __forceinline__ bool
zeros_pay(const struct cuda_chunk &chunk, uint64_t ngroups, int value_nbytes)
{
    return chunk.zeros_saved >
           ngroups * (unsigned)terp_shift_nbits(value_nbytes);
}

/* Finds the zeros (if has_zeros) and the cheapest shift of a group. A warp
 * calls it; the shared arrays are the warp's own. */
template <typename T>
static __device__ __forceinline__ struct shift_group
measure_group(const shifts_view<T> &view, uint64_t group, bool has_zeros,
              unsigned escape_nbytes, unsigned s_counts[TERP_NWIDTHS],
              uint16_t s_short[TERP_NWIDTHS])
{
    const unsigned n = shift_group_nvalues(view.nvalid, group);
    const unsigned lane = threadIdx.x % 32;
    int_of<T> own[LANE_NNUMBERS];
    word_of<T> all = 0;
    uint64_t cost;

    for (unsigned i = lane; i < TERP_NWIDTHS; i += 32)
        s_counts[i] = 0;
#pragma unroll
    for (unsigned i = 0; i < LANE_NNUMBERS; i++) {
        const uint64_t number =
            group * TERP_SHIFT_GROUP_NVALUES + 32 * i + lane;
        own[i] = 32 * i + lane < n ? difference_at(view, number) : 0;
        all |= (word_of<T>)own[i];
    }
    all = warp_or(all);
    const int nzeros = all == 0 || !has_zeros ? 0 : ctz_of(all);
    __syncwarp();
#pragma unroll
    for (unsigned i = 0; i < LANE_NNUMBERS; i++)
        if (32 * i + lane < n)
            atomicAdd(&s_counts[width_of<T>(own[i] >> nzeros)], 1u);
    __syncwarp();
    for (unsigned i = lane; i < TERP_NWIDTHS; i += 32)
        s_short[i] = (uint16_t)s_counts[i];
    __syncwarp();
    const int shift =
        warp_shift_of_group(s_short, sizeof(T), escape_nbytes, &cost);
    __syncwarp();
    return {0, shift, nzeros};
}

/* Finds shifts and zeros of all groups. It runs twice: first with zeros; then,
 * with `without_zeros`, without zeros, for chunks whose zeros do not pay. Grid:
 * (any number of blocks, chunks). A warp takes groups in turn. Shared: 6 bytes
 * for each width and warp, synchronized within warps alone. */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS)
    measure_groups(const struct cuda_batch batch, bool without_zeros)
{
    __shared__ unsigned s_counts[NWARPS][TERP_NWIDTHS];
    __shared__ uint16_t s_short[NWARPS][TERP_NWIDTHS];
    struct cuda_chunk &chunk = begin_chunk(batch);
    const unsigned warp = threadIdx.x / 32;
    unsigned long long saved = 0;

    if (!chunk_is_lossless(chunk))
        return;
    const shifts_view<T> view = shifts_of<T>(batch, chunk);
    if (without_zeros &&
        (chunk.zeros_saved == 0 || zeros_pay(chunk, view.ngroups, sizeof(T))))
        return;
    for (uint64_t g = warp_of_chunk<NWARPS>(); g < view.ngroups;
         g += warps_of_chunk<NWARPS>()) {
        const struct shift_group group =
            measure_group(view, g, !without_zeros, chunk.escape_nbytes,
                          s_counts[warp], s_short[warp]);
        saved += (unsigned)group.nzeros * shift_group_nvalues(view.nvalid, g);
        if (threadIdx.x % 32 == 0)
            view.groups[g] = shift_group_word(group.shift, group.nzeros);
    }
    if (threadIdx.x % 32 == 0 && saved > 0 && !without_zeros)
        atomicAdd(&chunk.zeros_saved, saved);
}

/* terp_code_above_shift, terp_number_below_shift and terp_join_shift for
 * differences of the type I. Its width is larger than any shift. */
template <typename I>
static __device__ __forceinline__ I
code_above_shift(I difference, int shift)
{
    return shift == 0 ? difference
                      : (difference >> shift) + (difference >> (shift - 1) & 1);
}

template <typename W>
static __device__ __forceinline__ W
number_below_shift(W difference, int shift)
{
    return (difference + ((W)1 << shift >> 1)) & (((W)1 << shift) - 1);
}

template <typename W>
static __device__ __forceinline__ W
join_shift(W code, W number, int shift)
{
    return (code << shift) + number - ((W)1 << shift >> 1);
}

/* The code of a difference. *fits_ret: the code has a symbol. */
template <typename I>
static __device__ __forceinline__ I
code_of(I difference, const struct shift_group &group, bool *fits_ret)
{
    const I code = code_above_shift<I>(difference >> group.nzeros, group.shift);

    *fits_ret = code >= -TERP_MAX_CODE && code <= TERP_MAX_CODE;
    return code;
}

/* Calls visit(at, tiled, valid, number) for each point of the block's segments:
 * its position in C order and in tile order, whether it is valid, and its
 * number. A warp owns segments, and a lane owns every 32nd point of each. Visit
 * is a lambda.
 */
template <typename Visit>
static __device__ __forceinline__ void
for_points(const struct cuda_batch &batch, const struct valid_points &points,
           Visit visit)
{
    const struct terp_layout *layout = batch.d_layout;
    const unsigned lane = threadIdx.x % 32;
    struct segment segment;

    for (uint64_t block = blockIdx.x; find_segment(layout, block, &segment);
         block += gridDim.x) {
        uint64_t number = next_number(points, segment.warp_at);
        for (uint64_t first = 0; first < segment.nx; first += 32) {
            const uint64_t x = segment.x + first + segment.lane;
            const uint64_t at = segment.at + x;
            const bool exists = first + segment.lane < segment.nx;
            const bool valid = exists && is_valid(points, at);
            const unsigned all = __ballot_sync(FULL_WARP_MASK, valid);
            if (exists)
                visit(at,
                      tiled_at(segment.tiled, layout->rank, layout->dims[0], x),
                      valid,
                      number + (unsigned)__popc(all & ((1u << lane) - 1)));
            number += (unsigned)__popc(all);
        }
    }
}

/* Makes symbols in tile order; special points get code 0. Counts escapes in
 * ranges. Grid: (any number of blocks, chunks). A warp takes segments in
 * turn. */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS) make_symbols(const struct cuda_batch batch)
{
    struct cuda_chunk &chunk = begin_chunk(batch);

    if (!chunk_is_lossless(chunk))
        return;
    const shifts_view<T> view = shifts_of<T>(batch, chunk);
    uint16_t *symbols = region<uint16_t>(batch, batch.at.symbols);
    unsigned long long *ranges =
        region<unsigned long long>(batch, batch.at.ranges);
    for_points(batch, valid_points_of(batch, chunk),
               [&](uint64_t at, uint64_t tiled, bool valid, uint64_t number) {
                   int_of<T> code = 0;
                   bool fits = true;
                   if (valid) {
                       const int_of<T> difference = difference_at(view, number);
                       code = code_of(
                           difference,
                           shift_group_of(
                               view.groups[number / TERP_SHIFT_GROUP_NVALUES]),
                           &fits);
                       if (!fits) {
                           atomicAdd(&ranges[at / CUDA_RANGE_NVALUES], 1ull);
                           note_number(&chunk, true, zigzag(difference));
                       }
                   }
                   symbols[tiled] =
                       (uint16_t)(fits ? (int)code + TERP_RADIUS : TERP_ESCAPE);
               });
}

/* Finds where the numbers of groups begin in their spans, and has_shifts. Grid:
 * (any number of blocks, chunks). A warp takes spans in turn. */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS) place_groups(const struct cuda_batch batch)
{
    struct cuda_chunk &chunk = begin_chunk(batch);
    bool any = false;

    if (!chunk_is_lossless(chunk))
        return;
    const shifts_view<T> view = shifts_of<T>(batch, chunk);
    for (uint64_t span = warp_of_chunk<NWARPS>();
         span < shift_nspans(view.ngroups); span += warps_of_chunk<NWARPS>()) {
        const uint64_t g = span * SHIFT_SPAN_NGROUPS + threadIdx.x % 32;
        const uint64_t word = g < view.ngroups ? view.groups[g] : 0;
        any |= shift_group_of(word).shift > 0;
        place_shift_span(view.nvalid, span, word, view.groups, view.spans);
    }
    if (any)
        chunk.has_shifts = true;
}

/* Finds where spans begin, and writes the section's first byte. Grid: (1,
 * chunks). Shared: the sums of a scan. */
template <typename T>
static __global__ void
__launch_bounds__(PLACE_NTHREADS) place_spans(const struct cuda_batch batch)
{
    __shared__ block_scan<unsigned long long, PLACE_NTHREADS> s_scan;
    struct cuda_chunk &chunk = begin_chunk(batch);

    if (__syncthreads_or(!chunk_is_lossless(chunk)))
        return;
    const shifts_view<T> view = shifts_of<T>(batch, chunk);
    const bool has_shifts = chunk.has_shifts;
    const bool has_zeros = zeros_pay(chunk, view.ngroups, sizeof(T));
    const uint64_t nbytes =
        place_shift_spans<PLACE_NTHREADS>(view.ngroups, view.spans, s_scan);
    if (threadIdx.x > 0)
        return;
    /* If the stream does not fit, cuda_escapes_write finds that out. */
    if (chunk.specials_end < batch.raw_nbytes)
        ((uint8_t *)chunk.dst)[chunk.specials_end] =
            (uint8_t)((has_shifts ? TERP_SHIFTS_SHIFTS : 0) |
                      (has_zeros ? TERP_SHIFTS_ZEROS : 0));
    chunk.shifts_at = chunk.specials_end + 1 +
                      packed_nbytes(view.ngroups, terp_shift_nbits(sizeof(T))) *
                          (unsigned)(has_shifts + has_zeros);
    chunk.shift_numbers_at = chunk.specials_end + 1;
    chunk.specials_end = chunk.shifts_at + nbytes;
}

/* One thread writes the shifts, or the zeros, of eight groups from `first` on,
 * which are whole bytes. */
static __device__ __forceinline__ void
write_numbers(const uint64_t *groups, uint64_t ngroups, uint64_t first,
              bool of_zeros, int width, uint8_t *to)
{
    struct bit_writer writer = {to + first / 8 * (unsigned)width, 0, 0};

    for (uint64_t g = first; g < min_u64(ngroups, first + 8); g++) {
        const struct shift_group group = shift_group_of(groups[g]);
        bit_writer_put(
            &writer, (uint64_t)(of_zeros ? group.nzeros : group.shift), width);
    }
    bit_writer_end(&writer);
}

/* A group's numbers, packed: at most the bits of its differences. */
template <typename T> struct packed_group {
    word_of<T> numbers[TERP_SHIFT_GROUP_NVALUES];
    uint32_t words[TERP_SHIFT_GROUP_NVALUES * sizeof(T) / 4 + 1];
};

/* Word i of numbers of `shift` bits that follow each other. */
template <typename W>
static __device__ __forceinline__ uint32_t
word_of_numbers(const W numbers[TERP_SHIFT_GROUP_NVALUES], unsigned n,
                unsigned shift, unsigned i)
{
    unsigned k = 32 * i / shift;
    int at = (int)(k * shift) - (int)(32 * i);
    uint32_t word = 0;

    for (; at < 32 && k < n; k++, at += (int)shift)
        word |=
            at < 0 ? (uint32_t)(numbers[k] >> -at) : (uint32_t)numbers[k] << at;
    return word;
}

/* A warp writes the numbers of a group: the bits of differences below their
 * codes. `s` is the warp's own. */
template <typename T>
static __device__ __forceinline__ void
write_group(const shifts_view<T> &view, uint64_t g, uint8_t *numbers,
            packed_group<T> *s)
{
    const struct shift_group group = shift_group_of(view.groups[g]);
    const unsigned shift = (unsigned)group.shift;
    const unsigned n = shift_group_nvalues(view.nvalid, g);
    const unsigned nbytes = (n * shift + 7) / 8, lane = threadIdx.x % 32;

    if (shift == 0)
        return;
#pragma unroll
    for (unsigned i = 0; i < LANE_NNUMBERS; i++) {
        const unsigned at = 32 * i + lane;
        if (at >= n)
            break;
        const int_of<T> difference =
            difference_at(view, g * TERP_SHIFT_GROUP_NVALUES + at);
        bool fits;
        (void)code_of(difference, group, &fits);
        s->numbers[at] =
            fits ? number_below_shift((word_of<T>)(difference >> group.nzeros),
                                      group.shift)
                 : 0;
    }
    __syncwarp();
    for (unsigned i = lane; i < div_up(n * shift, 32); i += 32)
        s->words[i] = word_of_numbers(s->numbers, n, shift, i);
    __syncwarp();
    copy_bytes(numbers + shift_group_begin(group, view.spans, g),
               (const uint8_t *)s->words, nbytes, lane, 32);
    __syncwarp(); /* the next group overwrites s */
}

/* Writes the section behind its first byte. Grid: (any number of blocks,
 * chunks). A thread takes the fields of eight groups in turn; then a warp takes
 * the numbers of groups in turn. Shared: 2 or 4 KB for each warp, synchronized
 * within warps alone. */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS) write_groups(const struct cuda_batch batch)
{
    __shared__ packed_group<T> s_groups[NWARPS];
    const struct cuda_chunk &chunk = begin_chunk(batch);
    const int width = terp_shift_nbits(sizeof(T));
    uint8_t *dst = (uint8_t *)chunk.dst;

    if (!chunk_is_lossless(chunk) || chunk.specials_end >= batch.raw_nbytes)
        return;
    const shifts_view<T> view = shifts_of<T>(batch, chunk);
    uint8_t *zeros_at =
        dst + chunk.shift_numbers_at +
        (chunk.has_shifts ? packed_nbytes(view.ngroups, width) : 0);
    for (uint64_t first = 8 * line_of_thread(); first < view.ngroups;
         first += 8 * lines_at_once()) {
        if (chunk.has_shifts)
            write_numbers(view.groups, view.ngroups, first, false, width,
                          dst + chunk.shift_numbers_at);
        if (zeros_pay(chunk, view.ngroups, sizeof(T)))
            write_numbers(view.groups, view.ngroups, first, true, width,
                          zeros_at);
    }
    for (uint64_t g = warp_of_chunk<NWARPS>(); g < view.ngroups;
         g += warps_of_chunk<NWARPS>())
        write_group(view, g, dst + chunk.shifts_at,
                    &s_groups[threadIdx.x / 32]);
}

static unsigned
nblocks_of_groups(const struct cuda_batch *batch)
{
    return nblocks_for(
        batch,
        div_up(div_up(batch->nvalues, TERP_SHIFT_GROUP_NVALUES), NWARPS));
}

cudaError_t
cuda_shifts_find(const struct cuda_batch *batch, cudaStream_t stream)
{
    struct stage_launches launches = {batch, stream};

    for (bool without_zeros : {false, true})
        launches.add_typed(CUDA_TYPED(measure_groups), nblocks_of_groups(batch),
                           NTHREADS, without_zeros);
    launches.add_typed(CUDA_TYPED(make_symbols),
                       nblocks_for(batch, nblocks_of_segments(batch->h_layout)),
                       NTHREADS);
    return launches.error;
}

cudaError_t
cuda_shifts_write(const struct cuda_batch *batch, cudaStream_t stream)
{
    const unsigned nblocks = nblocks_of_groups(batch);
    struct stage_launches launches = {batch, stream};

    launches.add_typed(CUDA_TYPED(place_groups), nblocks, NTHREADS);
    launches.add_typed(CUDA_TYPED(place_spans), 1, PLACE_NTHREADS);
    launches.add_typed(CUDA_TYPED(write_groups), nblocks, NTHREADS);
    return launches.error;
}

/* ---- reading ---- */

/* The group of a lane's last point. Its next point, 32 numbers later, mostly
 * has the same. */
#define NO_GROUP UINT64_MAX
struct kept_group {
    uint64_t g;
    struct shift_group group;
};

/* Loads the group of the point with this number, unless it is kept. Returns
 * whether it did. */
static __device__ __forceinline__ bool
keep_group(struct kept_group *kept, uint64_t number, const uint64_t *groups)
{
    if (kept->g == number / TERP_SHIFT_GROUP_NVALUES)
        return false;
    kept->g = number / TERP_SHIFT_GROUP_NVALUES;
    kept->group = shift_group_of(groups[kept->g]);
    return true;
}

/* Writes differences to `work`, where integers will be. Special points and
 * escapes get arbitrary values. Grid: (any number of blocks, chunks). A warp
 * takes segments in turn. */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS) place_shifts(const struct cuda_batch batch)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);

    if (!chunk_is_lossless(chunk))
        return;
    const uint64_t *groups = region<uint64_t>(batch, batch.at.shift_groups);
    const uint64_t *spans = region<uint64_t>(batch, batch.at.shift_spans);
    const uint8_t *end = (const uint8_t *)chunk.src + chunk.src_nbytes;
    const uint16_t *symbols = region<uint16_t>(batch, batch.at.symbols);
    const uint8_t *numbers = (const uint8_t *)chunk.src + chunk.shifts_at;
    word_of<T> *quants = region<word_of<T>>(batch, batch.at.work);
    struct kept_group kept = {NO_GROUP, {}};
    struct packed_words from = {};
    for_points(
        batch, valid_points_of(batch, chunk),
        [&](uint64_t at, uint64_t tiled, bool valid, uint64_t number) {
            if (!valid)
                return;
            if (keep_group(&kept, number, groups))
                from = packed_words_at(
                    numbers + shift_group_begin(kept.group, spans, kept.g),
                    end);
            const int shift = kept.group.shift;
            const word_of<T> code = (word_of<T>)symbols[tiled] - TERP_RADIUS;
            const word_of<T> low = load_number<word_of<T>>(
                from,
                (unsigned)number % TERP_SHIFT_GROUP_NVALUES * (unsigned)shift,
                shift);
            quants[at] = join_shift(code, low, shift) << kept.group.nzeros;
        });
}

cudaError_t
cuda_shifts_place(const struct cuda_batch *batch, cudaStream_t stream)
{
    struct stage_launches launches = {batch, stream};

    launches.add_typed(CUDA_TYPED(place_shifts),
                       nblocks_for(batch, nblocks_of_segments(batch->h_layout)),
                       NTHREADS);
    return launches.error;
}
