#include <cub/cub.cuh>

#include "gpu/block/concatenate.cuh"
#include "gpu/block/planes.cuh"
#include "gpu/block/reduce_partition.cuh"
#include "gpu/entropy/tile_encode.cuh"
#include "gpu/entropy/tokens_encode.cuh"
#include "gpu/sections/index.cuh"

/* ---- survey ---- */

/* Codes near 0, which are most, are counted in registers: eight bits for each
 * of seven symbols. */
#define NEAR_FIRST (TERP_RADIUS - 3)
#define NEAR_NSYMBOLS 7
static_assert(32 * THREAD_NSYMBOLS <= UINT16_MAX, "a warp's count of a symbol");

static __device__ void
count_symbols(const struct thread_symbols &symbols, uint32_t *s_counts)
{
    const uint64_t fields = UINT64_C(0x00FF00FF00FF00FF);
    unsigned lane = threadIdx.x % 32;
    uint64_t near = 0;

#pragma unroll
    for (unsigned i = 0; i < THREAD_NSYMBOLS; i++) {
        unsigned symbol = symbol_at(symbols, i), at = symbol - NEAR_FIRST;
        if (at < NEAR_NSYMBOLS)
            near += (uint64_t)1 << (8 * at);
        else
            atomicAdd(&s_counts[symbol], 1u);
    }
    uint64_t even = near & fields, odd = near >> 8 & fields;
    for (int step = 16; step > 0; step /= 2) {
        even += __shfl_xor_sync(FULL_WARP, even, step);
        odd += __shfl_xor_sync(FULL_WARP, odd, step);
    }
    if (lane < NEAR_NSYMBOLS) {
        uint32_t n =
            (uint32_t)((lane % 2 != 0 ? odd : even) >> (16 * (lane / 2)) &
                       0xFFFF);
        if (n > 0)
            atomicAdd(&s_counts[NEAR_FIRST + lane], n);
    }
}

/* Few tiles have that table in shared memory, before symbols are there. */
#define TABLE_NBYTES (4 * TERP_NSYMBOLS * ROW_NWORDS)
static_assert(TABLE_NBYTES % sizeof(uint4) == 0, "for wide loads");

/* Groups of four symbols that occur, a bit each. */
#define GROUPS_NWORDS (TERP_NSYMBOLS / 4 / 32)
static_assert(GROUPS_NWORDS == TILE_NTHREADS / 32, "a warp has a word");

/* Bits of a tile's words by entry, and the entry that would take the fewest.
 * Groups of ROW_NWORDS threads take symbols in turn. `s_rows` is not NULL where
 * the table is in shared memory. */
static __device__ void
cost_tile(const struct cuda_batch &batch, struct cuda_chunk &chunk,
          const uint32_t *s_rows, const uint32_t *s_counts,
          const uint32_t s_groups[GROUPS_NWORDS],
          struct four_costs (*s_costs)[ROW_NWORDS], struct cuda_tile_cost *cost)
{
    const uint32_t *rows = (const uint32_t *)batch.tables.d_code_nbits;
    unsigned group = threadIdx.x / ROW_NWORDS, at = threadIdx.x % ROW_NWORDS;
    unsigned low = TERP_NSYMBOLS, high = 0;
    struct four_costs sum = {0, 0};

#pragma unroll
    for (unsigned w = 0; w < GROUPS_NWORDS; w++) {
        const uint32_t groups = s_groups[w];
        if (groups != 0) {
            low = min(low, 128 * w + 4 * (unsigned)(__ffs((int)groups) - 1));
            high = 128 * w + 4 * (31 - (unsigned)__clz((int)groups)) + 3;
        }
    }
    low = max(low, 1u);
    unsigned nrows = low > high ? 1 : high - low + 2; /* the escape's first */
#pragma unroll 4
    for (unsigned i = group; i < nrows && group < NGROUPS; i += NGROUPS) {
        unsigned symbol = i == 0 ? TERP_ESCAPE : low + i - 1, nbits = 0;
        uint32_t count = s_counts[symbol];
        if (s_rows != NULL)
            nbits = s_rows[symbol * ROW_NWORDS + at];
        else if (count != 0)
            nbits = __ldg(&rows[symbol * ROW_NWORDS + at]);
        sum.even += count * (nbits & 0x00FF00FF);
        sum.odd += count * (nbits >> 8 & 0x00FF00FF);
    }
    if (group < NGROUPS)
        s_costs[group][at] = sum;
    __syncthreads();
    end_costs(chunk, s_costs, cost);
}

static __host__ __device__ __forceinline__ bool
has_shared_table(const struct cuda_batch &batch)
{
    return batch.coding == TERP_CODING_HUFFMAN && has_few_tiles(batch);
}

/* Grid: x tiles, y chunks. Whether a tile is zero; huffman: its costs;
 * custom: the chunk's frequencies. Thread i has counts 4 i to 4 i + 3. Dynamic
 * shared memory: the table of words' lengths where tiles are few. */
static __global__ void
__launch_bounds__(TILE_NTHREADS, 8) survey_tiles(const struct cuda_batch batch)
{
    let_next_kernel_come();
    alignas(16) __shared__ uint32_t s_counts[TERP_NSYMBOLS];
    __shared__ struct four_costs s_costs[NGROUPS][ROW_NWORDS];
    __shared__ uint32_t s_groups[GROUPS_NWORDS];
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    unsigned tile = blockIdx.x, i = threadIdx.x;
    unsigned nsymbols = terp_tile_nsymbols(batch.nvalues, tile);
    uint32_t *s_rows =
        has_shared_table(batch) ? dynamic_shared<uint32_t>() : NULL;

    for (unsigned w = i; s_rows != NULL && w < TABLE_NBYTES / sizeof(uint4);
         w += TILE_NTHREADS)
        copy_async((uint4 *)s_rows + w,
                   (const uint4 *)batch.tables.d_code_nbits + w);
    static_assert(TERP_NSYMBOLS == 4 * TILE_NTHREADS, "four counts a thread");
    ((uint4 *)s_counts)[i] = make_uint4(0, 0, 0, 0);
    wait_for_kernels();
    struct thread_symbols symbols = load_thread_symbols(
        region<uint16_t>(batch, blockIdx.y, batch.at.symbols) +
            (uint64_t)tile * TERP_TILE_NSYMBOLS,
        8 * i, 8 * (i + TILE_NTHREADS), nsymbols);
    enum terp_coding coding = chunk.coding;
    if (!has_tiles(chunk))
        return;
    uint32_t differs = 0;
#pragma unroll
    for (unsigned k = 0; k < THREAD_NSYMBOLS / 2; k++)
        differs |= symbols.pair[k] ^ ZERO_PAIR;
    bool nonzero = __syncthreads_or(differs != 0) != 0;
    if (i == 0)
        region<uint8_t>(batch, blockIdx.y, batch.at.nonzero)[tile] = nonzero;
    if (!nonzero || coding == TERP_CODING_SPEED)
        return;

    count_symbols(symbols, s_counts);
    __syncthreads();
    if (i == TERP_RADIUS / 4) /* symbols behind the end were counted too */
        s_counts[TERP_RADIUS] -= TERP_TILE_NSYMBOLS - nsymbols;
    const uint4 counts = ((const uint4 *)s_counts)[i];
    const uint32_t count[4] = {counts.x, counts.y, counts.z, counts.w};
    if (coding == TERP_CODING_CUSTOM) {
        unsigned long long *frequency =
            region<unsigned long long>(batch, blockIdx.y, batch.at.frequency);
        for (unsigned k = 0; k < 4; k++)
            if (count[k] != 0)
                atomicAdd(&frequency[4 * i + k], (unsigned long long)count[k]);
        return;
    }
    static_assert(TERP_ESCAPE == 0, "a group has it first");
    const uint32_t groups =
        __ballot_sync(FULL_WARP, (count[1] | count[2] | count[3] |
                                  (i == 0 ? 0 : count[0])) != 0);
    if (i % 32 == 0)
        s_groups[i / 32] = groups;
    wait_async();
    __syncthreads();
    cost_tile(batch, chunk, s_rows, s_counts, s_groups, s_costs,
              region<struct cuda_tile_cost>(batch, blockIdx.y, batch.at.cost) +
                  tile);
}

/* ---- words ---- */

#define TILE_MAX_NWORDS (TERP_CODEWORDS_MAX_NBYTES / 4)

/* Grid: x tiles, y chunks; huffman and custom. A thread has 16 symbols that
 * follow each other, and puts their words together in shared memory, where
 * it shares the first and last word with its neighbours. FEW: symbols are
 * loaded whether or not all are zero, with what tells that. */
template <bool FEW>
static __global__ void
__launch_bounds__(TILE_NTHREADS, FEW ? 4 : 6)
    encode_words(const struct cuda_batch batch)
{
    let_next_kernel_come();
    alignas(16) __shared__ uint32_t s_bits[TILE_MAX_NWORDS];
    __shared__ scan_storage<TILE_NTHREADS> s_scan;
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const unsigned tile = blockIdx.x,
                   nsymbols = terp_tile_nsymbols(batch.nvalues, tile);
    const unsigned first = THREAD_NSYMBOLS * threadIdx.x;
    const bool is_huffman = batch.coding == TERP_CODING_HUFFMAN;
    const uint16_t *from =
        region<uint16_t>(batch, blockIdx.y, batch.at.symbols) +
        (uint64_t)tile * TERP_TILE_NSYMBOLS;
    struct thread_symbols symbols;
    uint32_t word[THREAD_NSYMBOLS], nbits = 0, at, total;
    unsigned entry = 0;

    static_assert(TILE_MAX_NWORDS % 4 == 0, "cleared by wide stores");
    for (unsigned i = threadIdx.x; i < TILE_MAX_NWORDS / 4; i += TILE_NTHREADS)
        ((uint4 *)s_bits)[i] = make_uint4(0, 0, 0, 0);
    wait_for_kernels();
    const bool nonzero =
        region<uint8_t>(batch, blockIdx.y, batch.at.nonzero)[tile] != 0;
    if (FEW)
        symbols = load_thread_symbols(from, first, first + 8, nsymbols);
    if (is_huffman)
        entry = entry_of_tile(batch, chunk, tile);
    if (!has_tiles(chunk) || !nonzero)
        return;
    if (!FEW)
        symbols = load_thread_symbols(from, first, first + 8, nsymbols);
    const uint32_t *words = batch.tables.d_codewords + entry * TERP_NSYMBOLS;
    if (!is_huffman)
        words =
            region<struct cuda_custom_codebook>(batch, blockIdx.y, batch.at.codebook)
                ->word;
#pragma unroll
    for (unsigned i = 0; i < THREAD_NSYMBOLS; i++) {
        word[i] =
            first + i < nsymbols ? __ldg(&words[symbol_at(symbols, i)]) : 0;
        nbits += word[i] & 15;
    }
    block_scan<TILE_NTHREADS>(s_scan).ExclusiveSum(nbits, at, total);

    uint32_t *to = s_bits + at / 32;
    unsigned npending = at % 32;
    uint64_t pending = 0; /* its low npending bits are not yet stored */
#pragma unroll
    for (unsigned i = 0; i < THREAD_NSYMBOLS; i++) {
        pending = pending << (word[i] & 15) | word[i] >> 4;
        npending += word[i] & 15;
        if (npending >= 32) {
            npending -= 32;
            atomicOr(to++, (uint32_t)(pending >> npending));
        }
    }
    if (npending > 0)
        atomicOr(to, (uint32_t)(pending << (32 - npending)));
    __syncthreads();
    store_tile(batch, tile, TERP_CODEWORDS_MAX_NBYTES, s_bits, total, entry);
}

/* ---- planes ---- */

#define PLANES_TOWER_NWORDS 146
static_assert(level_nwords(TERP_TILE_NSYMBOLS) +
                      level_nwords(TERP_TILE_NSYMBOLS / 8) +
                      level_nwords(TERP_TILE_NSYMBOLS / 64) ==
                  PLANES_TOWER_NWORDS,
              "bit maps of 512, 64 and 8 bytes");
static_assert(TERP_PLANES_MAX_NBYTES <= TERP_CODEWORDS_MAX_NBYTES,
              "planes fit where words do");

/* Copies whole words; the last may have bytes of no meaning. */
template <int NTHREADS>
static __device__ __forceinline__ void
copy_words(uint8_t *slot, const uint32_t *words, unsigned nbytes)
{
#pragma unroll 1
    for (unsigned i = threadIdx.x; 4 * i < nbytes; i += NTHREADS)
        ((uint32_t *)slot)[i] = words[i];
}

/* Grid: x tiles, y chunks; speed. A thread has 16 symbols that follow each
 * other, two bytes of each plane. */
static __global__ void
__launch_bounds__(TILE_NTHREADS, 8) encode_planes(const struct cuda_batch batch)
{
    begin_kernel();
    alignas(8) __shared__ uint8_t s_planes[TERP_TILE_NSYMBOLS];
    alignas(8) __shared__ uint32_t s_tower[2 * PLANES_TOWER_NWORDS];
    __shared__ uint32_t s_bytes[TERP_PLANES_MAX_NBYTES / 4 + 1];
    __shared__ scan_storage<TILE_NTHREADS> s_scan;
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    unsigned tile = blockIdx.x,
             nsymbols = terp_tile_nsymbols(batch.nvalues, tile);
    unsigned first = THREAD_NSYMBOLS * threadIdx.x;
    unsigned plane_nbytes = (nsymbols + 7) / 8;

    if (!has_tiles(chunk) ||
        region<uint8_t>(batch, blockIdx.y, batch.at.nonzero)[tile] == 0)
        return;
    struct thread_symbols symbols = load_thread_symbols(
        region<uint16_t>(batch, blockIdx.y, batch.at.symbols) +
            (uint64_t)tile * TERP_TILE_NSYMBOLS,
        first, first + 8, nsymbols);
#pragma unroll
    for (unsigned half = 0; half < 2; half++) {
        uint64_t codes = 0;
        unsigned at = 2 * threadIdx.x + half;
#pragma unroll
        for (unsigned i = 0; i < 8; i++) {
            unsigned symbol = symbol_at(symbols, 8 * half + i);
            uint8_t code =
                (uint8_t)(symbol == TERP_ESCAPE ? TERP_SPEED_ESCAPE
                                                : (int)symbol - TERP_RADIUS);
            codes |= (uint64_t)code << (8 * i);
        }
        uint64_t planes = planes_of_codes(codes);
        for (unsigned p = 0; p < 8 && at < plane_nbytes; p++)
            s_planes[(7 - p) * plane_nbytes + at] =
                (uint8_t)(planes >> (8 * p));
    }
    __syncthreads();
    uint32_t *memory = s_tower;
    struct cuda_tower tower =
        tower_of(s_planes, 8 * plane_nbytes, false, &memory);
    tower_build<TILE_NTHREADS>(&tower, s_scan);
    tower_store<TILE_NTHREADS>(tower, (uint8_t *)s_bytes);
    __syncthreads();
    copy_words<TILE_NTHREADS>(tile_slot(batch, tile, TERP_CODEWORDS_MAX_NBYTES),
                              s_bytes, tower_nbytes(tower));
    if (threadIdx.x == 0)
        region<uint16_t>(batch, blockIdx.y, batch.at.nbytes)[tile] =
            (uint16_t)tower_nbytes(tower);
}

/* ---- partitions ---- */

/* A warp a tile while a partition is put together. */
#define PARTITION_NTHREADS (32 * TERP_PARTITION_NTILES)

/* Shared memory of a block, three blocks to a multiprocessor. A partition that
 * needs more uses the work region, whose values have served: twice the bytes
 * of its words are less than four bytes a symbol. */
#define PARTITION_SHARED_NBYTES (72 << 10)
static_assert(2 * TERP_CODEWORDS_MAX_NBYTES + 8 <= 4 * TERP_TILE_NSYMBOLS,
              "the work region holds words twice");

/* Grid: x partitions, y chunks. The partition's length; words are put one
 * after another, and reduced where that pays: they then stand from their first
 * tile's slot on. */
static __global__ void
__launch_bounds__(PARTITION_NTHREADS, 3)
    end_partitions(const struct cuda_batch batch)
{
    let_next_kernel_come();
    __shared__ struct reduce_counts<PARTITION_NTHREADS> s_counts;
    uint8_t *s_memory = dynamic_shared<uint8_t>();
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const unsigned p = blockIdx.x;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const bool is_words = batch.coding != TERP_CODING_SPEED;
    uint8_t *to =
        tile_slot(batch, p * TERP_PARTITION_NTILES, TERP_CODEWORDS_MAX_NBYTES);
    const uint8_t *slot = to + warp * TERP_CODEWORDS_MAX_NBYTES;
    struct five_words five = {};

    wait_for_kernels();
    /* A tile that has words has as many bytes, whatever its length. */
    if (is_words)
        five = load_five(slot, lane);
    const unsigned length = tile_length(batch, blockIdx.y, p);
    if (!has_tiles(chunk))
        return;
    const unsigned end = length_sum(length);
    const unsigned nbytes =
        __shfl_sync(FULL_WARP, end, TERP_PARTITION_NTILES - 1);
    unsigned reduced = 0;
    if (nbytes > 0 && is_words) {
        unsigned kept_nbytes = 4 * reduce_kept_nwords(nbytes);
        unsigned maps_nbytes = 4 * reduce_maps_nwords(nbytes);
        uint8_t *words = s_memory + maps_nbytes;
        if (maps_nbytes + 2 * kept_nbytes > PARTITION_SHARED_NBYTES)
            words = region<uint8_t>(batch, blockIdx.y, batch.at.work) +
                    (uint64_t)p * TERP_PARTITION_NTILES * TERP_TILE_NSYMBOLS *
                        (unsigned)batch.value_nbytes;
        join_bytes(words + __shfl_sync(FULL_WARP, end - length, (int)warp),
                   slot, five, __shfl_sync(FULL_WARP, length, (int)warp), lane,
                   32);
        if (threadIdx.x < (0 - nbytes) % 4)
            words[nbytes + threadIdx.x] = 0;
        __syncthreads();
        reduced = reduce_write<PARTITION_NTHREADS>(
            to, (const uint32_t *)words, nbytes,
            (uint32_t *)(words + kept_nbytes), (uint32_t *)s_memory, &s_counts);
        if (reduced == 0)
            copy_words<PARTITION_NTHREADS>(to, (const uint32_t *)words, nbytes);
    }
    if (warp == 0) {
        struct cuda_partition partition = partition_of(batch, p, length, end);
        if (reduced != 0) {
            partition.nbytes = reduced;
            partition.reduced = 1;
        }
        if (lane == 0)
            index_room(batch, blockIdx.y).partition[p] = partition;
    }
}

cudaError_t
cuda_tiles_histogram(const struct cuda_batch *batch, cudaStream_t stream)
{
    dim3 tiles((unsigned)batch->ntiles, (unsigned)batch->nchunks);

    if (batch->coding == TERP_CODING_RATIO)
        return cuda_tokens_histogram(batch, stream);
    cudaError_t error = cudaFuncSetAttribute(
        survey_tiles, cudaFuncAttributeMaxDynamicSharedMemorySize,
        TABLE_NBYTES);
    return error == cudaSuccess
               ? launch(survey_tiles, tiles, TILE_NTHREADS,
                        has_shared_table(*batch) ? TABLE_NBYTES : 0, stream,
                        *batch)
               : error;
}

cudaError_t
cuda_tiles_encode(const struct cuda_batch *batch, cudaStream_t stream)
{
    dim3 tiles((unsigned)batch->ntiles, (unsigned)batch->nchunks);

    cudaError_t error = cuda_tiles_histogram(batch, stream);
    if (error == cudaSuccess && terp_coding_selects_entries(batch->coding))
        error = cuda_entries_select(batch, stream);
    if (error == cudaSuccess && batch->coding == TERP_CODING_CUSTOM)
        error = cuda_custom_make(batch, stream);
    if (error == cudaSuccess && batch->coding == TERP_CODING_RATIO)
        return cuda_tokens_encode(batch, stream);
    if (error == cudaSuccess)
        error = launch(batch->coding == TERP_CODING_SPEED ? encode_planes
                       : has_few_tiles(*batch)            ? encode_words<true>
                                                          : encode_words<false>,
                       tiles, TILE_NTHREADS, 0, stream, *batch);
    return error;
}

cudaError_t
cuda_partitions_encode(const struct cuda_batch *batch, cudaStream_t stream)
{
    dim3 partitions((unsigned)batch->npartitions, (unsigned)batch->nchunks);

    if (batch->coding == TERP_CODING_RATIO)
        return cuda_tokens_note(batch, stream);
    cudaError_t error = cudaFuncSetAttribute(
        end_partitions, cudaFuncAttributeMaxDynamicSharedMemorySize,
        PARTITION_SHARED_NBYTES);
    return error == cudaSuccess
               ? launch(end_partitions, partitions, PARTITION_NTHREADS,
                        PARTITION_SHARED_NBYTES, stream, *batch)
               : error;
}
