/* Splits wide codes into symbols of tiles and low bits, and joins them. A block
 * has a tile, and a warp groups of it. */
#include "gpu/sections/low_bits.cuh"

#include "codec/model/low_bits.h"
#include "gpu/block/warp.cuh"
#include "gpu/entropy/contexts.cuh"
#include "gpu/entropy/decode_bits.cuh"
#include "gpu/sections/low_list.cuh"

#define NTHREADS 256
#define NWARPS (NTHREADS / 32)
static_assert(TERP_LOW_TILE_NGROUPS % NWARPS == 0,
              "All warps must have as many groups of a tile.");
#define WARP_NGROUPS (TERP_LOW_TILE_NGROUPS / NWARPS)

/* The most blocks of a launch, for all its chunks together. Blocks take tiles
 * in turn; chunks whose codes are not wide then cost few blocks. */
#define MAX_NBLOCKS 2048

/* Threads of the one block that places the low bits of all tiles. */
#define PLACE_NTHREADS 1024

static uint64_t
nblocks_for(const struct cuda_batch *batch)
{
    return cuda_nblocks(batch, batch->ntiles, MAX_NBLOCKS);
}

/* ---- eight numbers ---- */

/* The bit fields of eight numbers: the first 64 bits, and the rest. */
struct eight_numbers {
    uint64_t low, high;
};

static __device__ __forceinline__ struct eight_numbers
pack_eight(const unsigned number[LOW_LANE_NNUMBERS], int width)
{
    uint64_t half[2] = {0, 0};

#pragma unroll
    for (int i = 0; i < LOW_LANE_NNUMBERS; i++)
        half[i / 4] |= (uint64_t)number[i] << (i % 4 * width);
    return {half[0] | half[1] << (4 * width),
            width > 0 ? half[1] >> (64 - 4 * width) : 0};
}

static __device__ __forceinline__ void
unpack_eight(const struct eight_numbers &packed, int width,
             unsigned number_ret[LOW_LANE_NNUMBERS])
{
    const unsigned mask = (1u << width) - 1;
    const uint64_t high =
        width > 0 ? packed.low >> (4 * width) | packed.high << (64 - 4 * width)
                  : 0;

#pragma unroll
    for (int i = 0; i < LOW_LANE_NNUMBERS; i++)
        number_ret[i] =
            (unsigned)((i < 4 ? packed.low : high) >> (i % 4 * width)) & mask;
}

/* ---- eight symbols ---- */

/* Loads eight symbols; n of them exist, and the others become code 0. */
static __device__ __forceinline__ void
load_eight(const uint16_t *at, unsigned n,
           unsigned symbol_ret[LOW_LANE_NNUMBERS])
{
    if (n >= LOW_LANE_NNUMBERS) {
        const uint4 all = *(const uint4 *)at;
        const uint32_t pair[4] = {all.x, all.y, all.z, all.w};
#pragma unroll
        for (unsigned i = 0; i < LOW_LANE_NNUMBERS; i++)
            symbol_ret[i] = pair[i / 2] >> (16 * (i % 2)) & 0xFFFF;
        return;
    }
#pragma unroll
    for (unsigned i = 0; i < LOW_LANE_NNUMBERS; i++)
        symbol_ret[i] = i < n ? at[i] : TERP_WIDE_RADIUS;
}

static __device__ __forceinline__ void
store_eight(uint16_t *at, unsigned n, const unsigned symbol[LOW_LANE_NNUMBERS])
{
    if (n >= LOW_LANE_NNUMBERS) {
        *(uint4 *)at = make_uint4(
            symbol[0] | symbol[1] << 16, symbol[2] | symbol[3] << 16,
            symbol[4] | symbol[5] << 16, symbol[6] | symbol[7] << 16);
        return;
    }
#pragma unroll
    for (unsigned i = 0; i < LOW_LANE_NNUMBERS; i++)
        if (i < n)
            at[i] = (uint16_t)symbol[i];
}

/* The number, in the tile, of the warp's group i. */
static __device__ __forceinline__ unsigned
group_of_warp(unsigned i)
{
    return WARP_NGROUPS * (threadIdx.x / 32) + i;
}

/* The position in the chunk of the lane's symbols of the warp's group i. */
static __device__ __forceinline__ uint64_t
symbols_at(uint64_t tile, unsigned i)
{
    return tile * TERP_TILE_NSYMBOLS +
           group_of_warp(i) * TERP_LOW_GROUP_NNUMBERS +
           threadIdx.x % 32 * LOW_LANE_NNUMBERS;
}

/* ---- the number of low bits ---- */

/* The sizes of a tile's codes: half octaves of their magnitudes
 * (codec/model/low_bits.h). */
struct tile_sizes {
    uint32_t count[TERP_TILE_NSIZES];
    uint32_t of_group[TERP_LOW_TILE_NGROUPS]; /* bit i: size i occurs */
    uint64_t cost[TERP_LOW_MAX_NBITS + 1];    /* of the tile, by low bits */
};

/* The size of a code, from the exponent and the highest mantissa bit of its
 * magnitude as a float. */
static __device__ __forceinline__ int
size_of_wide(unsigned symbol)
{
    const int code = (int)symbol - TERP_WIDE_RADIUS;
    const unsigned bits = __float_as_uint((float)(code < 0 ? -code : code));

    return symbol == TERP_ESCAPE ? TERP_TILE_SIZE_ESCAPE
           : code == 0           ? 0
                                 : (int)(bits >> 22) - 2 * 127 + 1;
}

/* Counts the sizes of a group's symbols; this lane has n of them. A warp calls
 * it together, and counts one size after another. */
static __device__ __forceinline__ void
count_sizes(const unsigned symbol[LOW_LANE_NNUMBERS], unsigned n,
            unsigned group, struct tile_sizes *s)
{
    int size[LOW_LANE_NNUMBERS];
    uint32_t all = 0;

#pragma unroll
    for (unsigned k = 0; k < LOW_LANE_NNUMBERS; k++) {
        size[k] = k < n ? size_of_wide(symbol[k]) : -1;
        all |= k < n ? 1u << size[k] : 0;
    }
    all = warp_or(all);
    if (threadIdx.x % 32 == 0)
        s->of_group[group] = all;
#pragma unroll 1
    for (uint32_t left = all; left != 0; left &= left - 1) {
        const int present = __ffs((int)left) - 1;
        unsigned count = 0;
#pragma unroll
        for (unsigned k = 0; k < LOW_LANE_NNUMBERS; k++)
            count += (unsigned)__popc(
                __ballot_sync(FULL_WARP_MASK, size[k] == present));
        if (threadIdx.x % 32 == 0)
            atomicAdd(&s->count[present], count);
    }
}

/* The estimated cost of the tile with `low_nbits` low bits: of its numbers, its
 * list, and its symbols under the best entry. A warp calls it together; each
 * lane has some entries. */
static __device__ __forceinline__ uint64_t
cost_of_low_bits(const struct tile_sizes *s, unsigned nsymbols,
                 const uint16_t *d_half_octave_cost, int low_nbits)
{
    const unsigned lane = threadIdx.x % 32;
    uint32_t cost[TERP_ENTRY_STRIDE / 32 + 1] = {};
    uint32_t least = UINT32_MAX;
    uint64_t nbits = 0, of_tokens = 0;

#pragma unroll 1
    for (int size = 0; size < TERP_TILE_NSIZES; size++) {
        const uint32_t n = s->count[size];
        const int row = terp_half_octave_of_size(size, low_nbits);
        if (n == 0)
            continue;
        if (row == TERP_HALF_OCTAVE_ESCAPE && size < TERP_TILE_SIZE_ESCAPE)
            nbits += n * terp_listed_nbits(terp_width_of_size(size));
        of_tokens += row > 0 ? n * TERP_PRICE_OF_TOKEN : 0;
#pragma unroll
        for (unsigned i = 0; i < TERP_ENTRY_STRIDE / 32 + 1; i++)
            if (lane + 32 * i < TERP_NENTRIES)
                cost[i] +=
                    n *
                    d_half_octave_cost[row * TERP_ENTRY_STRIDE + lane + 32 * i];
    }
#pragma unroll
    for (unsigned i = 0; i < TERP_ENTRY_STRIDE / 32 + 1; i++)
        if (lane + 32 * i < TERP_NENTRIES)
            least = min(least, cost[i]);
    least = warp_min(least);
    for (unsigned g = 0; g < terp_low_ngroups(nsymbols); g++)
        nbits += terp_low_group_nbits(
            s->of_group[g], (unsigned)terp_low_group_nnumbers(nsymbols, g),
            low_nbits);
    return (nbits << TERP_COST_FRACTION_NBITS) + of_tokens + least;
}

/* The number of low bits with the least cost. The block calls it together; a
 * warp takes every NWARPS-th number. Has a barrier. */
static __device__ __forceinline__ int
choose_low_nbits(const struct cuda_batch &batch, unsigned nsymbols,
                 struct tile_sizes *s)
{
    uint32_t all = 0;
    int best = 0;

    for (unsigned g = 0; g < terp_low_ngroups(nsymbols); g++)
        all |= s->of_group[g];
    const int widest = terp_width_of_sizes(all);
    if (widest < TERP_TILE_MIN_WIDTH)
        return 0;
    const int most = min(widest, TERP_LOW_MAX_NBITS);
    for (int n = (int)(threadIdx.x / 32); n <= most; n += NWARPS) {
        const uint64_t cost =
            cost_of_low_bits(s, nsymbols, batch.tables.d_half_octave_cost, n);
        if (threadIdx.x % 32 == 0)
            s->cost[n] = cost;
    }
    __syncthreads();
    for (int n = 1; n <= most; n++)
        best = s->cost[n] < s->cost[best] ? n : best;
    return best;
}

/* ---- splitting ---- */

struct split_shared {
    alignas(16) uint8_t bytes[LOW_TILE_MAX_NBYTES];
    uint8_t width[TERP_LOW_TILE_NGROUPS];
    struct tile_sizes sizes;
    struct low_list_shared list;
};

/* The symbols of a thread. */
struct low_symbols {
    unsigned n[WARP_NGROUPS];
    unsigned symbol[WARP_NGROUPS][LOW_LANE_NNUMBERS];
};

static __device__ __forceinline__ void
load_symbols(const struct low_bits_view &view, uint64_t tile,
             const uint16_t *symbols, struct low_symbols *own)
{
#pragma unroll
    for (unsigned i = 0; i < WARP_NGROUPS; i++) {
        const uint64_t at = symbols_at(tile, i);
        own->n[i] = low_lane_nnumbers(view.nvalues, at);
        load_eight(symbols + at, own->n[i], own->symbol[i]);
    }
}

/* Bit k: symbol k of the thread's group i is an escape. */
static __device__ __forceinline__ uint32_t
escapes_among(const struct low_symbols &own, unsigned i)
{
    uint32_t escapes = 0;

#pragma unroll
    for (unsigned k = 0; k < LOW_LANE_NNUMBERS; k++)
        escapes |= (uint32_t)(k < own.n[i] && own.symbol[i][k] == TERP_ESCAPE)
                   << k;
    return escapes;
}

/* How many set bits of the tile (escapes, or listed codes) precede the thread's
 * own `bits` of group i. of_group has the counts of all groups. A warp calls it
 * together. */
static __device__ __forceinline__ unsigned
nbits_before(const uint32_t of_group[TERP_LOW_TILE_NGROUPS], unsigned i,
             uint32_t bits)
{
    const unsigned own = (unsigned)__popc(bits);

    return sum_of_groups(of_group, group_of_warp(i)) + warp_inclusive_sum(own) -
           own;
}

/* Lists the codes that escape from the tile but not from the predictor in
 * s->number, and sets their bits among the tile's escapes in s->is_listed.
 * `wide` are the predictor's symbols, `split` the tile's. Ends with a barrier.
 */
static __device__ __forceinline__ void
gather_list(const struct low_symbols &wide, const struct low_symbols &split,
            struct low_list_shared *s)
{
    const unsigned lane = threadIdx.x % 32;
    uint32_t escapes[WARP_NGROUPS], listed[WARP_NGROUPS];

    for (unsigned w = threadIdx.x; w < TERP_TILE_NSYMBOLS / 32; w += NTHREADS)
        s->is_listed[w] = 0;
#pragma unroll
    for (unsigned i = 0; i < WARP_NGROUPS; i++) {
        escapes[i] = escapes_among(split, i);
        listed[i] = escapes[i] & ~escapes_among(wide, i);
        const unsigned nescapes = warp_sum((unsigned)__popc(escapes[i]));
        const unsigned nlisted = warp_sum((unsigned)__popc(listed[i]));
        if (lane == 0) {
            s->nescapes[group_of_warp(i)] = nescapes;
            s->nlisted[group_of_warp(i)] = nlisted;
        }
    }
    __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < WARP_NGROUPS; i++) {
        unsigned e = nbits_before(s->nescapes, i, escapes[i]);
        unsigned l = nbits_before(s->nlisted, i, listed[i]);
#pragma unroll
        for (unsigned k = 0; k < LOW_LANE_NNUMBERS; k++) {
            if (listed[i] >> k & 1) {
                atomicOr(&s->is_listed[e / 32], 1u << (e % 32));
                s->number[l++] =
                    (uint16_t)zigzag((int)wide.symbol[i][k] - TERP_WIDE_RADIUS);
            }
            e += escapes[i] >> k & 1;
        }
    }
    __syncthreads();
}

/* Packs a tile's low bits in s->bytes. Returns the widths of groups. Ends with
 * a barrier. */
static __device__ __forceinline__ uint64_t
pack_numbers(const unsigned number[WARP_NGROUPS][LOW_LANE_NNUMBERS],
             struct split_shared *s)
{
    uint64_t widths = 0;

#pragma unroll
    for (unsigned i = 0; i < WARP_NGROUPS; i++) {
        unsigned any = 0;
#pragma unroll
        for (unsigned k = 0; k < LOW_LANE_NNUMBERS; k++)
            any |= number[i][k];
        any = warp_or(any);
        if (threadIdx.x % 32 == 0)
            s->width[group_of_warp(i)] = (uint8_t)bit_width(any);
    }
    __syncthreads();
#pragma unroll
    for (unsigned g = 0; g < TERP_LOW_TILE_NGROUPS; g++)
        widths |= (uint64_t)s->width[g] << (TERP_LOW_WIDTH_NBITS * g);
#pragma unroll
    for (unsigned i = 0; i < WARP_NGROUPS; i++) {
        const int width = low_width_at(widths, group_of_warp(i));
        const struct eight_numbers packed = pack_eight(number[i], width);
        uint8_t *to = s->bytes + low_group_begin(widths, group_of_warp(i)) +
                      threadIdx.x % 32 * (unsigned)width;
        store_le(to, packed.low, min(width, 8));
        if (width > 8)
            store_le(to + 8, packed.high, width - 8);
    }
    __syncthreads();
    return widths;
}

/* Splits a tile's symbols in place. Packs its low bits in shared memory and
 * copies them to the tile's slot; writes its list there too. Ends with a
 * barrier. */
static __device__ __forceinline__ void
split_tile(const struct cuda_batch &batch, const struct low_bits_view &view,
           uint64_t tile, uint16_t *symbols, struct split_shared *s)
{
    uint8_t *slot = view.slots + tile * LOW_SLOT_NBYTES;
    unsigned number[WARP_NGROUPS][LOW_LANE_NNUMBERS];
    struct low_symbols wide, split;
    struct cuda_low_tile low = {};
    bool any_listed = false;

    if (threadIdx.x < TERP_TILE_NSIZES)
        s->sizes.count[threadIdx.x] = 0;
    __syncthreads();
    load_symbols(view, tile, symbols, &wide);
#pragma unroll
    for (unsigned i = 0; i < WARP_NGROUPS; i++)
        count_sizes(wide.symbol[i], wide.n[i], group_of_warp(i), &s->sizes);
    __syncthreads();
    const int low_nbits = choose_low_nbits(
        batch, (unsigned)terp_tile_nsymbols(view.nvalues, tile), &s->sizes);
    split = wide;
#pragma unroll
    for (unsigned i = 0; i < WARP_NGROUPS; i++) {
#pragma unroll
        for (unsigned k = 0; k < LOW_LANE_NNUMBERS; k++) {
            split.symbol[i][k] =
                terp_low_split(wide.symbol[i][k], low_nbits, &number[i][k]);
            any_listed |= k < wide.n[i] && split.symbol[i][k] == TERP_ESCAPE &&
                          wide.symbol[i][k] != TERP_ESCAPE;
        }
        store_eight(symbols + symbols_at(tile, i), wide.n[i], split.symbol[i]);
    }
    low.low_nbits = (uint32_t)low_nbits;
    if (low_nbits > 0)
        low.widths = pack_numbers(number, s);
    if (__syncthreads_or(any_listed)) {
        gather_list(wide, split, &s->list);
        low.list_nbytes = write_low_list<NTHREADS>(
            sum_of_groups(s->list.nescapes, TERP_LOW_TILE_NGROUPS),
            sum_of_groups(s->list.nlisted, TERP_LOW_TILE_NGROUPS), &s->list,
            slot + LOW_TILE_MAX_NBYTES);
    }
    copy_bytes(slot, s->bytes, low_numbers_nbytes(view, tile, low.widths),
               threadIdx.x, NTHREADS);
    if (threadIdx.x == 0)
        view.tiles[tile] = low;
    __syncthreads(); /* the next tile may use `s` */
}

/* Splits wide codes. Grid: (some blocks, chunks). Blocks take tiles in turn.
 * Shared: struct split_shared, 16 KB. */
static __global__ void
__launch_bounds__(NTHREADS) split_low_bits(const struct cuda_batch batch)
{
    __shared__ struct split_shared s;
    const struct cuda_chunk &chunk = begin_chunk(batch);

    if (!has_tiles(chunk) || chunk.model.wide == 0)
        return;
    const struct low_bits_view view = low_bits_of(batch);
    uint16_t *symbols = coded_symbols(batch, chunk);
#pragma unroll 1
    for (uint64_t tile = blockIdx.x; tile < view.ntiles; tile += gridDim.x)
        split_tile(batch, view, tile, symbols, &s);
}

/* Finds where the records and low bits of tiles begin. Grid: (1, chunks). A
 * thread has a tile at a time. Shared: the sums of a scan. */
static __global__ void
__launch_bounds__(PLACE_NTHREADS) place_low_bits(const struct cuda_batch batch)
{
    __shared__ block_scan<unsigned long long, PLACE_NTHREADS> s_scan;
    struct cuda_chunk &chunk = begin_chunk(batch);
    const struct low_bits_view view = low_bits_of(batch);

    if (!has_tiles(chunk) || chunk.model.wide == 0)
        return;
    const struct low_sizes sizes = place_low_tiles<PLACE_NTHREADS>(
        view, s_scan,
        [&](uint64_t tile) { return low_kind_of(view.tiles[tile]); },
        [&](uint64_t tile, struct cuda_low_tile *low) {
            const uint64_t record_at = low->record_at;
            *low = view.tiles[tile];
            low->record_at = record_at;
        });
    if (threadIdx.x > 0)
        return;
    chunk.low_records_nbytes = sizes.records_nbytes;
    chunk.low_bits_nbytes =
        low_kinds_nbytes(view) + sizes.records_nbytes + sizes.nbytes;
}

cudaError_t
cuda_low_bits_split(const struct cuda_batch *batch, cudaStream_t stream)
{
    return launch_stage(batch, stream, split_low_bits, nblocks_for(batch),
                        NTHREADS);
}

cudaError_t
cuda_low_bits_place(const struct cuda_batch *batch, cudaStream_t stream)
{
    return launch_stage(batch, stream, place_low_bits, 1, PLACE_NTHREADS);
}

/* Writes the section. Grid: (some blocks, chunks). Warps take tiles in turn. */
static __global__ void
__launch_bounds__(NTHREADS) write_sections(const struct cuda_batch batch)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);

    if (!has_tiles(chunk) || chunk.low_bits_nbytes == 0)
        return;
    const struct low_bits_view view = low_bits_of(batch);
    uint8_t *section = (uint8_t *)chunk.dst + chunk.escapes_end;
#pragma unroll 1
    for (uint64_t tile = warp_of_chunk<NWARPS>(); tile < view.ntiles;
         tile += warps_of_chunk<NWARPS>())
        write_low_bits(view, chunk.low_records_nbytes, tile, section);
}

cudaError_t
cuda_low_bits_write(const struct cuda_batch *batch, cudaStream_t stream)
{
    return launch_stage(batch, stream, write_sections, nblocks_for(batch),
                        NTHREADS);
}

/* ---- joining ---- */

/* Loads a lane's numbers of a group, which takes `nbytes` bytes at `at`. */
static __device__ __forceinline__ void
load_numbers(const uint8_t *at, unsigned nbytes, int width,
             unsigned number_ret[LOW_LANE_NNUMBERS])
{
    const unsigned first = threadIdx.x % 32 * (unsigned)width;
    struct eight_numbers packed = {0, 0};

#pragma unroll
    for (unsigned b = 0; b < TERP_LOW_MAX_NBITS; b++) {
        if (b >= (unsigned)width || first + b >= nbytes)
            continue;
        const uint64_t byte = at[first + b];
        if (b < 8)
            packed.low |= byte << (8 * b);
        else
            packed.high |= byte << (8 * (b - 8));
    }
    unpack_eight(packed, width, number_ret);
}

/* Replaces escapes by the codes of the list at `from`. Returns the same in all
 * threads; false: the list is not valid. All threads call it together. */
static __device__ __forceinline__ bool
place_list(const uint8_t *from, unsigned nbytes, struct low_symbols *own,
           struct low_list_shared *s)
{
    uint32_t escapes[WARP_NGROUPS];

#pragma unroll
    for (unsigned i = 0; i < WARP_NGROUPS; i++) {
        escapes[i] = escapes_among(*own, i);
        const unsigned sum = warp_sum((unsigned)__popc(escapes[i]));
        if (threadIdx.x % 32 == 0)
            s->nescapes[group_of_warp(i)] = sum;
    }
    __syncthreads();
    if (!read_low_list<NTHREADS>(
            from, nbytes, sum_of_groups(s->nescapes, TERP_LOW_TILE_NGROUPS), s))
        return false;
#pragma unroll
    for (unsigned i = 0; i < WARP_NGROUPS; i++) {
        unsigned e = nbits_before(s->nescapes, i, escapes[i]);
#pragma unroll
        for (unsigned k = 0; k < LOW_LANE_NNUMBERS; k++)
            if (escapes[i] >> k & 1)
                own->symbol[i][k] = listed_symbol(s, e++);
    }
    return true;
}

/* Joins a tile's symbols, in place, with its low bits and its list at `from` in
 * the stream. *own gets the thread's symbols. Returns the same in all threads;
 * false: the list is not valid. */
static __device__ __forceinline__ bool
join_tile(const struct low_bits_view &view, uint64_t tile, const uint8_t *from,
          uint16_t *symbols, struct low_list_shared *s, struct low_symbols *own)
{
    const struct cuda_low_tile low = view.tiles[tile];
    bool valid = true;

    load_symbols(view, tile, symbols, own);
#pragma unroll
    for (unsigned i = 0; i < WARP_NGROUPS; i++) {
        const unsigned g = group_of_warp(i);
        const int width = low_width_at(low.widths, g);
        unsigned number[LOW_LANE_NNUMBERS];
        if (own->n[i] == 0)
            continue;
        load_numbers(from + low_group_begin(low.widths, g),
                     (unsigned)terp_low_group_nbytes(
                         view.nvalues, tile * TERP_LOW_TILE_NGROUPS + g, width),
                     width, number);
#pragma unroll
        for (unsigned k = 0; k < LOW_LANE_NNUMBERS; k++)
            own->symbol[i][k] =
                terp_low_join(own->symbol[i][k], number[k], (int)low.low_nbits);
    }
    if (low.list_nbytes > 0) {
        __syncthreads(); /* no thread still reads `s` */
        valid = place_list(from + low_numbers_nbytes(view, tile, low.widths),
                           low.list_nbytes, own, s);
    }
#pragma unroll
    for (unsigned i = 0; i < WARP_NGROUPS; i++)
        store_eight(symbols + symbols_at(tile, i), own->n[i], own->symbol[i]);
    return valid;
}

/* Counts or lists the escapes that remain among a thread's symbols, which are
 * in tile order. */
static __device__ __forceinline__ void
note_left_escapes(const struct cuda_batch &batch, struct cuda_chunk &chunk,
                  uint64_t tile, const struct low_symbols &own)
{
    const bool listed = escapes_are_listed(batch, chunk);

#pragma unroll
    for (unsigned i = 0; i < WARP_NGROUPS; i++) {
        const unsigned escapes = escapes_among(own, i);
        if (escapes != 0)
            note_escapes(batch, chunk, listed, symbols_at(tile, i), escapes);
    }
}

/* Joins symbols and low bits. Grid: (some blocks, chunks). Blocks take tiles in
 * turn. Shared: struct low_list_shared, 10 KB. */
static __global__ void
__launch_bounds__(NTHREADS) join_low_bits(const struct cuda_batch batch)
{
    __shared__ struct low_list_shared s;
    struct cuda_chunk &chunk = begin_chunk(batch);
    struct low_symbols own;

    /* Other blocks of this launch may set the status meanwhile, so all threads
     * agree on it. */
    if (__syncthreads_or(!has_tiles(chunk)) || chunk.model.wide == 0)
        return;
    const struct low_bits_view view = low_bits_of(batch);
    const uint8_t *from = (const uint8_t *)chunk.src + chunk.escapes_end +
                          low_kinds_nbytes(view) + chunk.low_records_nbytes;
    uint16_t *symbols = coded_symbols(batch, chunk);
#pragma unroll 1
    for (uint64_t tile = blockIdx.x; tile < view.ntiles; tile += gridDim.x) {
        if (!join_tile(view, tile, from + view.tiles[tile].begin, symbols, &s,
                       &own) &&
            threadIdx.x == 0)
            chunk.status = TERP_ERR_CORRUPT;
        if (!is_in_context_order(chunk))
            note_left_escapes(batch, chunk, tile, own);
    }
}

cudaError_t
cuda_low_bits_join(const struct cuda_batch *batch, cudaStream_t stream)
{
    return launch_stage(batch, stream, join_low_bits, nblocks_for(batch),
                        NTHREADS);
}
