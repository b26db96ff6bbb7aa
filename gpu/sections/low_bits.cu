/* Splits codes of tiles into symbols and low bits, and joins them. A warp has a
 * group, of which each lane has eight numbers: these take as many bytes as a
 * number has bits. */
#include "gpu/sections/low_bits.cuh"

#include "gpu/block/warp.cuh"
#include "gpu/entropy/contexts.cuh"

#define NTHREADS 256
#define NWARPS (NTHREADS / 32)
#define LANE_NNUMBERS (TERP_LOW_GROUP_NNUMBERS / 32)
static_assert(LANE_NNUMBERS == 8, "A lane's numbers are whole bytes.");
static_assert(LOW_TILE_NGROUPS % NWARPS == 0,
              "A warp has as many groups of a tile as the others.");
#define WARP_NGROUPS (LOW_TILE_NGROUPS / NWARPS)

/* Blocks of a launch take tiles in turns: chunks without low bits should cost
 * few blocks that have nothing to do. */
#define MAX_NBLOCKS 2048

#define PLACE_NTHREADS 1024

static uint64_t
nblocks_for(const struct cuda_batch *batch)
{
    const uint64_t most = MAX_NBLOCKS / (unsigned)batch->nchunks;
    return min_u64(batch->ntiles, most > 1 ? most : 1);
}

/* ---- eight numbers ---- */

/* The bytes of eight numbers, or of their bit fields. */
struct eight_numbers {
    uint64_t low, high;
};

static __device__ __forceinline__ struct eight_numbers
pack_eight(const unsigned number[LANE_NNUMBERS], int width)
{
    uint64_t half[2] = {0, 0};

#pragma unroll
    for (int i = 0; i < LANE_NNUMBERS; i++)
        half[i / 4] |= (uint64_t)number[i] << (i % 4 * width);
    return {half[0] | half[1] << (4 * width),
            width > 0 ? half[1] >> (64 - 4 * width) : 0};
}

static __device__ __forceinline__ void
unpack_eight(const struct eight_numbers &packed, int width,
             unsigned number_ret[LANE_NNUMBERS])
{
    const unsigned mask = (1u << width) - 1;
    const uint64_t high =
        width > 0 ? packed.low >> (4 * width) | packed.high << (64 - 4 * width)
                  : 0;

#pragma unroll
    for (int i = 0; i < LANE_NNUMBERS; i++)
        number_ret[i] =
            (unsigned)((i < 4 ? packed.low : high) >> (i % 4 * width)) & mask;
}

/* ---- eight symbols ---- */

/* Loads up to eight symbols, of which there are n; others are 0 codes. */
static __device__ __forceinline__ void
load_eight(const uint16_t *at, unsigned n, unsigned symbol_ret[LANE_NNUMBERS])
{
    if (n >= LANE_NNUMBERS) {
        const uint4 all = *(const uint4 *)at;
        const uint32_t pair[4] = {all.x, all.y, all.z, all.w};
#pragma unroll
        for (unsigned i = 0; i < LANE_NNUMBERS; i++)
            symbol_ret[i] = pair[i / 2] >> (16 * (i % 2)) & 0xFFFF;
        return;
    }
#pragma unroll
    for (unsigned i = 0; i < LANE_NNUMBERS; i++)
        symbol_ret[i] = i < n ? at[i] : TERP_WIDE_RADIUS;
}

static __device__ __forceinline__ void
store_eight(uint16_t *at, unsigned n, const unsigned symbol[LANE_NNUMBERS])
{
    if (n >= LANE_NNUMBERS) {
        *(uint4 *)at = make_uint4(
            symbol[0] | symbol[1] << 16, symbol[2] | symbol[3] << 16,
            symbol[4] | symbol[5] << 16, symbol[6] | symbol[7] << 16);
        return;
    }
#pragma unroll
    for (unsigned i = 0; i < LANE_NNUMBERS; i++)
        if (i < n)
            at[i] = (uint16_t)symbol[i];
}

/* How many of a lane's symbols there are, of those from `at` on. */
static __device__ __forceinline__ unsigned
count_symbols(const struct low_bits_view &view, uint64_t at)
{
    return at < view.nvalues
               ? (unsigned)min_u64(LANE_NNUMBERS, view.nvalues - at)
               : 0;
}

/* The number in its tile of the warp's group i. */
static __device__ __forceinline__ unsigned
group_of_warp(unsigned i)
{
    return WARP_NGROUPS * (threadIdx.x / 32) + i;
}

/* Where the chunk has this lane's symbols of that group. */
static __device__ __forceinline__ uint64_t
symbols_at(uint64_t tile, unsigned i)
{
    return tile * TERP_TILE_NSYMBOLS +
           group_of_warp(i) * TERP_LOW_GROUP_NNUMBERS +
           threadIdx.x % 32 * LANE_NNUMBERS;
}

/* ---- splitting ---- */

struct split_shared {
    alignas(16) uint8_t bytes[LOW_TILE_MAX_NBYTES];
    uint8_t width[LOW_TILE_NGROUPS];
};

/* Splits a tile's symbols in place. Its low bits go together in shared memory,
 * and then to their place in scratch memory. */
static __device__ __forceinline__ void
split_tile(const struct low_bits_view &view, int low_nbits, uint64_t tile,
           uint16_t *symbols, struct split_shared *s)
{
    unsigned number[WARP_NGROUPS][LANE_NNUMBERS];
    uint64_t widths = 0;

#pragma unroll
    for (unsigned i = 0; i < WARP_NGROUPS; i++) {
        const uint64_t at = symbols_at(tile, i);
        const unsigned n = count_symbols(view, at);
        unsigned symbol[LANE_NNUMBERS], any = 0;
        load_eight(symbols + at, n, symbol);
#pragma unroll
        for (unsigned k = 0; k < LANE_NNUMBERS; k++) {
            symbol[k] = terp_low_split(symbol[k], low_nbits, &number[i][k]);
            any |= number[i][k];
        }
        store_eight(symbols + at, n, symbol);
        any = warp_or(any);
        if (threadIdx.x % 32 == 0)
            s->width[group_of_warp(i)] = (uint8_t)bit_width(any);
    }
    __syncthreads();
#pragma unroll
    for (unsigned g = 0; g < LOW_TILE_NGROUPS; g++)
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
    copy_bytes(view.slots + tile * LOW_TILE_MAX_NBYTES, s->bytes,
               low_tile_nbytes(view, tile, widths), threadIdx.x, NTHREADS);
    if (threadIdx.x == 0)
        view.tiles[tile].widths = widths;
    __syncthreads(); /* the next tile may take the storage */
}

/* Grid: (nblocks_for, chunks), whose blocks take tiles in turns. Other stages
 * that look at symbols meanwhile ask which are escapes, and no symbol becomes
 * one here, or ceases to be one. */
static __global__ void
__launch_bounds__(NTHREADS) split_low_bits(const struct cuda_batch batch)
{
    begin_kernel();
    __shared__ struct split_shared s;
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const int low_nbits = chunk.model.low_nbits;

    if (!has_tiles(chunk) || low_nbits == 0)
        return;
    const struct low_bits_view view = low_bits_of(batch);
    uint16_t *symbols = coded_symbols(batch, chunk);
#pragma unroll 1
    for (uint64_t tile = blockIdx.x; tile < view.ntiles; tile += gridDim.x)
        split_tile(view, low_nbits, tile, symbols, &s);
}

/* Grid: (1, chunks). Finds where tiles' low bits are to begin. */
static __global__ void
__launch_bounds__(PLACE_NTHREADS) place_low_bits(const struct cuda_batch batch)
{
    begin_kernel();
    __shared__ typename low_tile_scan<PLACE_NTHREADS>::TempStorage s_scan;
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const struct low_bits_view view = low_bits_of(batch);

    if (!has_tiles(chunk) || chunk.model.low_nbits == 0)
        return;
    const uint64_t nbytes = place_low_tiles<PLACE_NTHREADS>(
        view, s_scan, [&](uint64_t tile) { return view.tiles[tile].widths; });
    if (threadIdx.x == 0)
        chunk.low_bits_nbytes = low_widths_nbytes(view) + nbytes;
}

cudaError_t
cuda_low_bits_split(const struct cuda_batch *batch, cudaStream_t stream)
{
    if (!batch->may_have_low_bits)
        return cudaSuccess;
    cudaError_t error = launch_stage(batch, stream, split_low_bits,
                                     nblocks_for(batch), NTHREADS);
    return error == cudaSuccess
               ? launch_stage(batch, stream, place_low_bits, 1, PLACE_NTHREADS)
               : error;
}

/* Grid as of split_low_bits; a warp takes a tile. */
static __global__ void
__launch_bounds__(NTHREADS) write_sections(const struct cuda_batch batch)
{
    begin_kernel();
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];

    if (!has_tiles(chunk) || chunk.low_bits_nbytes == 0)
        return;
    const struct low_bits_view view = low_bits_of(batch);
    uint8_t *section = (uint8_t *)chunk.dst + chunk.escapes_end;
#pragma unroll 1
    for (uint64_t tile = (uint64_t)blockIdx.x * NWARPS + threadIdx.x / 32;
         tile < view.ntiles; tile += (uint64_t)gridDim.x * NWARPS)
        write_low_bits(view, tile, section);
}

cudaError_t
cuda_low_bits_write(const struct cuda_batch *batch, cudaStream_t stream)
{
    return batch->may_have_low_bits
               ? launch_stage(batch, stream, write_sections, nblocks_for(batch),
                              NTHREADS)
               : cudaSuccess;
}

/* ---- joining ---- */

/* Loads a lane's numbers, of which a stream has `nbytes` from its group's begin
 * on, `at`. */
static __device__ __forceinline__ void
load_numbers(const uint8_t *at, unsigned nbytes, int width,
             unsigned number_ret[LANE_NNUMBERS])
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

/* Joins a tile's symbols with the low bits at `low_bits`, in place. */
static __device__ __forceinline__ void
join_tile(const struct low_bits_view &view, int low_nbits, uint64_t tile,
          const uint8_t *low_bits, uint16_t *symbols)
{
    const uint64_t widths = view.tiles[tile].widths;

#pragma unroll
    for (unsigned i = 0; i < WARP_NGROUPS; i++) {
        const uint64_t at = symbols_at(tile, i);
        const unsigned n = count_symbols(view, at), g = group_of_warp(i);
        const int width = low_width_at(widths, g);
        unsigned symbol[LANE_NNUMBERS], number[LANE_NNUMBERS];
        if (n == 0)
            continue;
        load_eight(symbols + at, n, symbol);
        load_numbers(low_bits + low_group_begin(widths, g),
                     (unsigned)terp_low_group_nbytes(
                         view.nvalues, tile * LOW_TILE_NGROUPS + g, width),
                     width, number);
#pragma unroll
        for (unsigned k = 0; k < LANE_NNUMBERS; k++)
            symbol[k] = terp_low_join(symbol[k], number[k], low_nbits);
        store_eight(symbols + at, n, symbol);
    }
}

/* Grid as of split_low_bits. */
static __global__ void
__launch_bounds__(NTHREADS) join_low_bits(const struct cuda_batch batch)
{
    begin_kernel();
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const int low_nbits = chunk.model.low_nbits;

    if (!has_tiles(chunk) || low_nbits == 0)
        return;
    const struct low_bits_view view = low_bits_of(batch);
    const uint8_t *low_bits = (const uint8_t *)chunk.src + chunk.escapes_end +
                              low_widths_nbytes(view);
    uint16_t *symbols = coded_symbols(batch, chunk);
#pragma unroll 1
    for (uint64_t tile = blockIdx.x; tile < view.ntiles; tile += gridDim.x)
        join_tile(view, low_nbits, tile, low_bits + view.tiles[tile].begin,
                  symbols);
}

cudaError_t
cuda_low_bits_join(const struct cuda_batch *batch, cudaStream_t stream)
{
    return batch->may_have_low_bits ? launch_stage(batch, stream, join_low_bits,
                                                   nblocks_for(batch), NTHREADS)
                                    : cudaSuccess;
}
