/* Encodes symbols to the bytes of tiles and partitions, as
 * cpu/entropy/tiles_encode.c does. The table in steps_of has the stages of each
 * coding. */
#include "gpu/block/concatenate.cuh"
#include "gpu/block/reduce_partition.cuh"
#include "gpu/entropy/tile_encode.cuh"
#include "gpu/entropy/tokens_encode.cuh"
#include "gpu/sections/index.cuh"

/* ---- histogram ---- */

/* Most codes are near 0. The seven symbols from NEAR_FIRST on are counted in
 * registers, eight bits each; others by atomics in shared memory. */
#define NEAR_FIRST (TERP_RADIUS - 3)
#define NEAR_NSYMBOLS 7
static_assert(32 * ENCODE_THREAD_NSYMBOLS <= UINT16_MAX,
              "A warp's count of a symbol has 16 bits.");

/* Adds a thread's symbols to the tile's counts. */
static __device__ void
count_symbols(const struct thread_symbols &symbols, uint32_t *s_counts)
{
    const uint64_t fields = UINT64_C(0x00FF00FF00FF00FF);
    unsigned lane = threadIdx.x % 32;
    uint64_t near = 0;

#pragma unroll
    for (unsigned i = 0; i < ENCODE_THREAD_NSYMBOLS; i++) {
        unsigned symbol = symbol_at(symbols, i), at = symbol - NEAR_FIRST;
        if (at < NEAR_NSYMBOLS)
            near += (uint64_t)1 << (8 * at);
        else
            atomicAdd(&s_counts[symbol], 1u);
    }
    uint64_t even = near & fields, odd = near >> 8 & fields;
    even = warp_sum(even);
    odd = warp_sum(odd);
    if (lane < NEAR_NSYMBOLS) {
        uint32_t n =
            (uint32_t)((lane % 2 != 0 ? odd : even) >> (16 * (lane / 2)) &
                       0xFFFF);
        if (n > 0)
            atomicAdd(&s_counts[NEAR_FIRST + lane], n);
    }
}

/* Bytes of the table of codeword lengths. In small batches it is copied to
 * shared memory while the kernel waits for the one before it. */
#define TABLE_NBYTES (4 * TERP_NSYMBOLS * COST_ROW_NWORDS)
static_assert(TABLE_NBYTES % sizeof(uint4) == 0,
              "The table is loaded in units of 16 bytes.");

/* Words of a bit map of groups of four symbols: a bit is set if a symbol of the
 * group occurs. */
#define GROUPS_NWORDS (TERP_NSYMBOLS / 4 / 32)
static_assert(GROUPS_NWORDS == ENCODE_NTHREADS / 32,
              "A warp must make one word of the map.");

/* Computes the bits of a tile's codewords by entry, and counts the tile for its
 * best entry. Groups of COST_ROW_NWORDS threads take symbols in turn, from the
 * lowest that occurs to the highest; a thread has four entries. `s_rows` is the
 * table in shared memory, or NULL: read it from global memory. */
static __device__ void
cost_tile(const struct cuda_batch &batch, struct cuda_chunk &chunk,
          const uint32_t *s_rows, const uint32_t *s_counts,
          const uint32_t s_groups[GROUPS_NWORDS],
          struct four_costs (*s_costs)[COST_ROW_NWORDS],
          struct cuda_tile_cost *cost)
{
    const uint32_t *rows = (const uint32_t *)batch.tables.d_code_nbits;
    unsigned group = threadIdx.x / COST_ROW_NWORDS,
             at = threadIdx.x % COST_ROW_NWORDS;
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
    for (unsigned i = group; i < nrows && group < COST_NGROUPS;
         i += COST_NGROUPS) {
        unsigned symbol = i == 0 ? TERP_ESCAPE : low + i - 1, nbits = 0;
        uint32_t count = s_counts[symbol];
        if (s_rows != NULL)
            nbits = s_rows[symbol * COST_ROW_NWORDS + at];
        else if (count != 0)
            nbits = __ldg(&rows[symbol * COST_ROW_NWORDS + at]);
        sum.even += count * (nbits & 0x00FF00FF);
        sum.odd += count * (nbits >> 8 & 0x00FF00FF);
    }
    if (group < COST_NGROUPS)
        s_costs[group][at] = sum;
    __syncthreads();
    end_costs(chunk, s_costs, cost);
}

static __host__ __device__ __forceinline__ bool
has_shared_table(const struct cuda_batch &batch)
{
    return batch.coding == TERP_CODING_HUFFMAN && is_small_batch(batch);
}

/* Counts the symbols of tiles: finds whether a tile is zero; huffman: its
 * costs; custom: adds to the chunk's frequencies. Grid: (ntiles, chunks).
 * Thread i loads symbols 8 i and 8 (i + 256) and the seven behind each, and has
 * counts 4 i to 4 i + 3. Shared: 6 KB, and the dynamic table of codeword
 * lengths, 80 KB, in small batches. Barriers separate counting, the map, and
 * summing costs. */
static __global__ void
__launch_bounds__(ENCODE_NTHREADS, 8) count_tiles(const struct cuda_batch batch)
{
    let_next_kernel_come();
    alignas(16) __shared__ uint32_t s_counts[TERP_NSYMBOLS];
    __shared__ struct four_costs s_costs[COST_NGROUPS][COST_ROW_NWORDS];
    __shared__ uint32_t s_groups[GROUPS_NWORDS];
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    unsigned tile = blockIdx.x, i = threadIdx.x;
    unsigned nsymbols = terp_tile_nsymbols(batch.nvalues, tile);
    uint32_t *s_rows =
        has_shared_table(batch) ? dynamic_shared<uint32_t>() : NULL;

    for (unsigned w = i; s_rows != NULL && w < TABLE_NBYTES / sizeof(uint4);
         w += ENCODE_NTHREADS)
        copy_async((uint4 *)s_rows + w,
                   (const uint4 *)batch.tables.d_code_nbits + w);
    static_assert(TERP_NSYMBOLS == 4 * ENCODE_NTHREADS,
                  "A thread has four counts.");
    ((uint4 *)s_counts)[i] = make_uint4(0, 0, 0, 0);
    wait_for_kernels();
    struct thread_symbols symbols =
        load_thread_symbols(region<uint16_t>(batch, batch.at.symbols) +
                                (uint64_t)tile * TERP_TILE_NSYMBOLS,
                            8 * i, 8 * (i + ENCODE_NTHREADS), nsymbols);
    enum terp_coding coding = chunk.coding;
    if (!has_tiles(chunk))
        return;
    uint32_t differs = 0;
#pragma unroll
    for (unsigned k = 0; k < ENCODE_THREAD_NSYMBOLS / 2; k++)
        differs |= symbols.pair[k] ^ ZERO_PAIR;
    bool nonzero = __syncthreads_or(differs != 0) != 0;
    if (i == 0)
        region<uint8_t>(batch, batch.at.nonzero)[tile] = nonzero;
    if (!nonzero)
        return;

    count_symbols(symbols, s_counts);
    __syncthreads();
    if (i == TERP_RADIUS / 4) /* symbols behind the end counted as code 0 */
        s_counts[TERP_RADIUS] -= TERP_TILE_NSYMBOLS - nsymbols;
    const uint4 counts = ((const uint4 *)s_counts)[i];
    const uint32_t count[4] = {counts.x, counts.y, counts.z, counts.w};
    if (coding == TERP_CODING_CUSTOM) {
        unsigned long long *frequency =
            region<unsigned long long>(batch, batch.at.frequency);
        for (unsigned k = 0; k < 4; k++)
            if (count[k] != 0)
                atomicAdd(&frequency[4 * i + k], (unsigned long long)count[k]);
        return;
    }
    static_assert(TERP_ESCAPE == 0, "The escape is the first of its group.");
    const uint32_t groups =
        __ballot_sync(FULL_WARP_MASK, (count[1] | count[2] | count[3] |
                                       (i == 0 ? 0 : count[0])) != 0);
    if (i % 32 == 0)
        s_groups[i / 32] = groups;
    wait_async();
    __syncthreads();
    cost_tile(batch, chunk, s_rows, s_counts, s_groups, s_costs,
              region<struct cuda_tile_cost>(batch, batch.at.cost) + tile);
}

/* ---- codewords ---- */

/* Words for the codewords of a tile. */
#define TILE_MAX_NWORDS (TERP_CODEWORDS_MAX_NBYTES / 4)

/* Encodes tiles of huffman and custom. Grid: (ntiles, chunks). A thread has 16
 * consecutive symbols and writes their codewords to shared memory, by atomicOr
 * since it shares the first and last word with its neighbours; then all threads
 * copy words to the tile's slot. SMALL_BATCH: symbols are loaded before it is
 * known whether the tile is zero, which hides latency. Shared: 7.5 KB, cleared
 * before scan_block's barrier; one barrier before the copy. */
template <bool SMALL_BATCH>
static __global__ void
__launch_bounds__(ENCODE_NTHREADS, SMALL_BATCH ? 4 : 6)
    encode_codewords(const struct cuda_batch batch)
{
    let_next_kernel_come();
    alignas(16) __shared__ uint32_t s_bits[TILE_MAX_NWORDS];
    __shared__ block_scan<unsigned, ENCODE_NTHREADS> s_scan;
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const unsigned tile = blockIdx.x,
                   nsymbols = terp_tile_nsymbols(batch.nvalues, tile);
    const unsigned first = ENCODE_THREAD_NSYMBOLS * threadIdx.x;
    const bool is_huffman = batch.coding == TERP_CODING_HUFFMAN;
    const uint16_t *from = region<uint16_t>(batch, batch.at.symbols) +
                           (uint64_t)tile * TERP_TILE_NSYMBOLS;
    struct thread_symbols symbols;
    uint32_t packed[ENCODE_THREAD_NSYMBOLS], nbits = 0, at, total;
    unsigned entry = 0;

    static_assert(TILE_MAX_NWORDS % 4 == 0,
                  "They are cleared in units of 16 bytes.");
    for (unsigned i = threadIdx.x; i < TILE_MAX_NWORDS / 4;
         i += ENCODE_NTHREADS)
        ((uint4 *)s_bits)[i] = make_uint4(0, 0, 0, 0);
    wait_for_kernels();
    const bool nonzero = region<uint8_t>(batch, batch.at.nonzero)[tile] != 0;
    if (SMALL_BATCH)
        symbols = load_thread_symbols(from, first, first + 8, nsymbols);
    if (is_huffman)
        entry = entry_of_tile(batch, chunk, tile);
    if (!has_tiles(chunk) || !nonzero)
        return;
    if (!SMALL_BATCH)
        symbols = load_thread_symbols(from, first, first + 8, nsymbols);
    const uint32_t *codewords =
        batch.tables.d_codewords + entry * TERP_NSYMBOLS;
    if (!is_huffman)
        codewords =
            region<struct cuda_custom_codebook>(batch, batch.at.codebook)
                ->codeword;
#pragma unroll
    for (unsigned i = 0; i < ENCODE_THREAD_NSYMBOLS; i++) {
        packed[i] =
            first + i < nsymbols ? __ldg(&codewords[symbol_at(symbols, i)]) : 0;
        nbits += terp_codeword_nbits(packed[i]);
    }
    at = scan_block(s_scan, nbits, &total);

    uint32_t *to = s_bits + at / 32;
    unsigned npending = at % 32;
    uint64_t pending = 0; /* the low npending bits are not stored yet */
#pragma unroll
    for (unsigned i = 0; i < ENCODE_THREAD_NSYMBOLS; i++) {
        pending = pending << terp_codeword_nbits(packed[i]) |
                  terp_codeword_bits(packed[i]);
        npending += terp_codeword_nbits(packed[i]);
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

/* Copies whole words to a slot; up to 3 bytes behind the last have no meaning.
 * NTHREADS is the block's size. */
template <int NTHREADS>
static __device__ __forceinline__ void
copy_words(uint8_t *slot, const uint32_t *words, unsigned nbytes)
{
#pragma unroll 1
    for (unsigned i = threadIdx.x; 4 * i < nbytes; i += NTHREADS)
        ((uint32_t *)slot)[i] = words[i];
}

/* ---- partitions ---- */

/* Threads of a block that concatenates a partition: a warp for each tile. */
#define PARTITION_NTHREADS (32 * TERP_PARTITION_NTILES)

/* Dynamic shared memory of a block: three blocks fit on a multiprocessor. A
 * partition that needs more uses the region `work`, whose values are no longer
 * needed; the assertion says that it is large enough for any partition. */
#define PARTITION_SHARED_NBYTES (72 << 10)
static_assert(2 * TERP_CODEWORDS_MAX_NBYTES + 8 <= 4 * TERP_TILE_NSYMBOLS,
              "The work region holds a partition's bytes twice.");

/* Concatenates the tiles of a partition, reduces the result if that makes it
 * smaller, and records the partition's length. The partition's bytes begin at
 * its first tile's slot. Grid: (npartitions, chunks). Warp i copies tile i; all
 * threads reduce. Dynamic shared memory: PARTITION_SHARED_NBYTES, for maps,
 * concatenated bytes and kept bytes. A barrier stands between concatenating and
 * reducing. */
static __global__ void
__launch_bounds__(PARTITION_NTHREADS, 3)
    end_partitions(const struct cuda_batch batch)
{
    let_next_kernel_come();
    __shared__ reduce_counts<PARTITION_NTHREADS> s_counts;
    uint8_t *s_memory = dynamic_shared<uint8_t>();
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const unsigned p = blockIdx.x;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint8_t *to =
        tile_slot(batch, p * TERP_PARTITION_NTILES, TERP_CODEWORDS_MAX_NBYTES);
    const uint8_t *slot = to + warp * TERP_CODEWORDS_MAX_NBYTES;

    wait_for_kernels();
    /* All slots have the same size, so loads need not wait for lengths. */
    const struct five_words five = load_five(slot, lane);
    const unsigned length = tile_length(batch, p);
    if (!has_tiles(chunk))
        return;
    const unsigned end = length_sum(length);
    const unsigned nbytes =
        __shfl_sync(FULL_WARP_MASK, end, TERP_PARTITION_NTILES - 1);
    unsigned reduced = 0;
    if (nbytes > 0) {
        unsigned kept_nbytes = 4 * reduce_kept_nwords(nbytes);
        unsigned maps_nbytes = 4 * reduce_maps_nwords(nbytes);
        uint8_t *words = s_memory + maps_nbytes;
        if (maps_nbytes + 2 * kept_nbytes > PARTITION_SHARED_NBYTES)
            words = region<uint8_t>(batch, batch.at.work) +
                    (uint64_t)p * TERP_PARTITION_NTILES * TERP_TILE_NSYMBOLS *
                        (unsigned)batch.value_nbytes;
        concatenate_bytes(
            words + __shfl_sync(FULL_WARP_MASK, end - length, (int)warp), slot,
            five, __shfl_sync(FULL_WARP_MASK, length, (int)warp), lane, 32);
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
            index_scratch(batch, blockIdx.y).partition[p] = partition;
    }
}

/* ---- steps ---- */

static cudaError_t
launch_count_tiles(const struct cuda_batch *batch, cudaStream_t stream)
{
    return launch_shared(batch, stream, count_tiles, batch->ntiles,
                         ENCODE_NTHREADS,
                         has_shared_table(*batch) ? TABLE_NBYTES : 0);
}

static cudaError_t
launch_codewords(const struct cuda_batch *batch, cudaStream_t stream)
{
    return launch_stage(batch, stream,
                        is_small_batch(*batch) ? encode_codewords<true>
                                               : encode_codewords<false>,
                        batch->ntiles, ENCODE_NTHREADS);
}

static cudaError_t
launch_partitions(const struct cuda_batch *batch, cudaStream_t stream)
{
    return launch_shared(batch, stream, end_partitions, batch->npartitions,
                         PARTITION_NTHREADS, PARTITION_SHARED_NBYTES);
}

/* The stages of a coding, each for all tiles: count symbols, choose codebooks,
 * encode tiles, make partitions. */
struct encode_steps {
    cuda_stage *count;
    cuda_stage *choose;
    cuda_stage *encode;
    cuda_stage *end_partitions;
};

static const struct encode_steps &
steps_of(enum terp_coding coding)
{
    static const struct encode_steps
        huffman = {launch_count_tiles, cuda_entries_select, launch_codewords,
                   launch_partitions},
        custom = {launch_count_tiles, cuda_custom_make, launch_codewords,
                  launch_partitions},
        ratio = {cuda_tokens_histogram, cuda_entries_select, cuda_tokens_encode,
                 cuda_tokens_note};

    return coding == TERP_CODING_RATIO    ? ratio
           : coding == TERP_CODING_CUSTOM ? custom
                                          : huffman;
}

cudaError_t
cuda_tiles_histogram(const struct cuda_batch *batch, cudaStream_t stream)
{
    return steps_of(batch->coding).count(batch, stream);
}

cudaError_t
cuda_tiles_encode(const struct cuda_batch *batch, cudaStream_t stream)
{
    const struct encode_steps &steps = steps_of(batch->coding);

    struct stage_launches launches = {batch, stream};

    launches.add_stage(steps.count, batch);
    launches.add_stage(steps.choose, batch);
    launches.add_stage(steps.encode, batch);
    return launches.error;
}

cudaError_t
cuda_partitions_encode(const struct cuda_batch *batch, cudaStream_t stream)
{
    return steps_of(batch->coding).end_partitions(batch, stream);
}
