/* Encodes tiles of the coding ratio: tokens, their costs, and their bytes. A
 * block has a tile. */
#include "gpu/entropy/tokens_encode.cuh"

#include "gpu/block/reduce.cuh"
#include "gpu/entropy/contexts.cuh"
#include "gpu/entropy/tile_encode.cuh"
#include "gpu/sections/index.cuh"

/* ---- tokens ---- */

/* Words for a list of a tile's codes that are not 0, in order: place << 16 |
 * symbol. An unused word follows every 16 words, so that threads which write or
 * read 16 consecutive words each access different banks. */
#define CODES_NWORDS (TERP_TILE_NSYMBOLS + TERP_TILE_NSYMBOLS / 16)

static __device__ __forceinline__ uint32_t &
code_at(uint32_t *s_codes, unsigned i)
{
    return s_codes[i + i / 16];
}

/* Lists the codes of a tile that are not 0. A thread has 16 consecutive
 * symbols. Returns the number of codes. It ends with a barrier: all threads may
 * then read the list. */
static __device__ __forceinline__ unsigned
list_codes(const struct thread_symbols &symbols, uint32_t *s_codes,
           block_scan<unsigned, ENCODE_NTHREADS> &s_scan)
{
    uint32_t first = ENCODE_THREAD_NSYMBOLS * threadIdx.x, mask = 0, at, n;

#pragma unroll
    for (unsigned i = 0; i < ENCODE_THREAD_NSYMBOLS; i++)
        if (symbol_at(symbols, i) != TERP_RADIUS)
            mask |= 1u << i;
    at = scan_block(s_scan, (uint32_t)__popc(mask), &n);
    if (mask != 0) {
#pragma unroll
        for (unsigned i = 0; i < ENCODE_THREAD_NSYMBOLS; i++)
            if (mask >> i & 1)
                code_at(s_codes, at++) =
                    (first + i) << 16 | symbol_at(symbols, i);
    }
    __syncthreads();
    return n;
}

/* A token in 32 bits, from the highest: its number, the number of its plain
 * bits (PLAIN_WIDTH bits), and the plain bits. */
#define PLAIN_WIDTH 5
static_assert(TERP_NTOKENS <=
                      1 << (32 - PLAIN_WIDTH - TERP_TOKEN_PLAIN_MAX_NBITS) &&
                  TERP_TOKEN_PLAIN_MAX_NBITS < 1 << PLAIN_WIDTH,
              "A token fits in 32 bits.");

static __device__ __forceinline__ unsigned
token_number(uint32_t token)
{
    return token >> (TERP_TOKEN_PLAIN_MAX_NBITS + PLAIN_WIDTH);
}

static __device__ __forceinline__ unsigned
token_nbits(uint32_t token)
{
    return token >> TERP_TOKEN_PLAIN_MAX_NBITS & bits_below(PLAIN_WIDTH);
}

static uint32_t
pack_token(unsigned number, unsigned nbits, uint32_t bits)
{
    return (number << PLAIN_WIDTH | nbits) << TERP_TOKEN_PLAIN_MAX_NBITS | bits;
}

/* A packed token is the sum of two summands, one for its code and one for its
 * run. Each summand has a share of the token's number, a share of the count of
 * plain bits, and its own plain bits; the run's plain bits stand above the
 * code's. Looking up both summands is much faster than finding the classes of
 * code and run. */
void
cuda_token_parts_fill(uint32_t parts[TOKEN_NPARTS])
{
    const struct terp_token one = terp_token_of(0, TERP_RADIUS + 1);

    for (unsigned symbol = 0; symbol < TERP_NSYMBOLS; symbol++) {
        const struct terp_token token =
            terp_token_of(0, symbol == TERP_RADIUS ? TERP_ESCAPE : symbol);
        parts[symbol] = pack_token(token.number, token.nbits, token.bits);
    }
    for (unsigned run = 0; run < TERP_TILE_NSYMBOLS; run++) {
        const struct terp_token token = terp_token_of(run, TERP_RADIUS + 1);
        parts[TERP_NSYMBOLS + run] =
            pack_token(token.number - one.number, token.nbits - one.nbits,
                       token.bits >> one.nbits);
    }
}

/* The packed token of a listed code and of the run of zeros from `begin` to
 * it. */
static __device__ __forceinline__ uint32_t
token_of(const uint32_t *parts, unsigned begin, uint32_t code)
{
    const uint32_t plain = bits_below(TERP_TOKEN_PLAIN_MAX_NBITS);
    const uint32_t of_code = __ldg(&parts[code & 0xFFFF]);
    const uint32_t of_run =
        __ldg(&parts[TERP_NSYMBOLS + ((code >> 16) - begin)]);

    return of_code + (of_run & ~plain) +
           ((of_run & plain) << token_nbits(of_code));
}

/* Where the run of zeros before code `i` begins. */
static __device__ __forceinline__ unsigned
run_begin(uint32_t *s_codes, unsigned i)
{
    return i == 0 ? 0 : (code_at(s_codes, i - 1) >> 16) + 1;
}

/* ---- histogram ---- */

/* Bytes of the table of codeword lengths. In small batches it is copied to
 * shared memory while the kernel waits for the one before it. */
#define TABLE_NBYTES (4 * TERP_NTOKENS * COST_ROW_NWORDS)
static_assert(TABLE_NBYTES % sizeof(uint4) == 0,
              "The table is loaded in units of 16 bytes.");

/* Counts of a tile's tokens, and a list of the counts that are not 0: number <<
 * 16 | count. */
struct token_counts {
    uint2 count[ENCODE_NTHREADS]; /* two tokens each */
    uint32_t occurring[TERP_NTOKENS];
    unsigned noccurring;
};
static_assert(TERP_NTOKENS <= 2 * ENCODE_NTHREADS,
              "A thread counts two tokens.");
static_assert(TERP_TILE_NSYMBOLS < 1 << 16, "A count has 16 bits.");

/* Lists the tokens that occur, in any order: costs are sums. */
static __device__ __forceinline__ void
list_occurring(struct token_counts *s)
{
    const unsigned lane = threadIdx.x % 32;
    const uint2 count = s->count[threadIdx.x];
    const uint32_t even = __ballot_sync(FULL_WARP_MASK, count.x != 0);
    const uint32_t odd = __ballot_sync(FULL_WARP_MASK, count.y != 0);
    unsigned at = 0;

    if (lane == 0 && (even | odd) != 0)
        at = atomicAdd(&s->noccurring, (unsigned)(__popc(even) + __popc(odd)));
    at = __shfl_sync(FULL_WARP_MASK, at, 0) +
         (unsigned)(__popc(even & bits_below(lane)) +
                    __popc(odd & bits_below(lane)));
    if (count.x != 0)
        s->occurring[at++] = 2 * threadIdx.x << 16 | count.x;
    if (count.y != 0)
        s->occurring[at] = (2 * threadIdx.x + 1) << 16 | count.y;
}

/* Computes the bits of a tile's tokens by entry. COST_NGROUPS groups of
 * COST_ROW_NWORDS threads take the tokens that occur in turn; each thread has
 * four entries. SMALL_BATCH: `rows` is in shared memory. */
template <bool SMALL_BATCH>
static __device__ __forceinline__ void
cost_tokens(const struct token_counts &s_counts, const uint32_t *rows,
            struct four_costs (*s_costs)[COST_ROW_NWORDS])
{
    const unsigned group = threadIdx.x / COST_ROW_NWORDS;
    const unsigned at = threadIdx.x % COST_ROW_NWORDS;
    struct four_costs sum = {0, 0};

#pragma unroll 4
    for (unsigned i = group; i < s_counts.noccurring && group < COST_NGROUPS;
         i += COST_NGROUPS) {
        const uint32_t occurring = s_counts.occurring[i];
        const uint32_t count = occurring & 0xFFFF;
        const uint32_t *row = &rows[(occurring >> 16) * COST_ROW_NWORDS + at];
        const uint32_t nbits = SMALL_BATCH ? *row : __ldg(row);
        sum.even += count * (nbits & 0x00FF00FF);
        sum.odd += count * (nbits >> 8 & 0x00FF00FF);
    }
    if (group < COST_NGROUPS)
        s_costs[group][at] = sum;
}

/* Finds whether a tile is zero, and its costs. Grid: (ntiles, chunks). A thread
 * has 16 consecutive symbols, then codes in turn, then two tokens' counts.
 * SMALL_BATCH: the table of codeword lengths is in dynamic shared memory, where
 * it arrives by asynchronous copies; else the kernel reads it from global
 * memory and has none. Static shared memory: about 23 KB, most of it the list
 * of codes. Barriers separate listing, counting, listing counts, and summing
 * costs. */
template <bool SMALL_BATCH>
static __global__ void
__launch_bounds__(ENCODE_NTHREADS, SMALL_BATCH ? 3 : 6)
    count_token_tiles(const struct cuda_batch batch)
{
    let_next_kernel_come();
    __shared__ uint32_t s_codes[CODES_NWORDS];
    __shared__ struct token_counts s_counts;
    __shared__ struct four_costs s_costs[COST_NGROUPS][COST_ROW_NWORDS];
    __shared__ block_scan<unsigned, ENCODE_NTHREADS> s_scan;
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const unsigned tile = blockIdx.x,
                   nsymbols = terp_tile_nsymbols(batch.nvalues, tile);
    const unsigned first = ENCODE_THREAD_NSYMBOLS * threadIdx.x;
    const uint32_t *rows = (const uint32_t *)batch.tables.d_token_nbits;

    if (SMALL_BATCH) {
        uint32_t *s_rows = dynamic_shared<uint32_t>();
        for (unsigned w = threadIdx.x; w < TABLE_NBYTES / sizeof(uint4);
             w += ENCODE_NTHREADS)
            copy_async((uint4 *)s_rows + w, (const uint4 *)rows + w);
        rows = s_rows;
    }
    s_counts.count[threadIdx.x] = make_uint2(0, 0);
    if (threadIdx.x == 0)
        s_counts.noccurring = 0;
    wait_for_kernels();
    const struct thread_symbols symbols = load_thread_symbols(
        coded_symbols(batch, chunk) + (uint64_t)tile * TERP_TILE_NSYMBOLS,
        first, first + 8, nsymbols);
    if (!has_tiles(chunk))
        return;
    const unsigned n = list_codes(symbols, s_codes, s_scan);
    if (threadIdx.x == 0)
        region<uint8_t>(batch, batch.at.nonzero)[tile] = n != 0;
    if (n == 0)
        return;
#pragma unroll(SMALL_BATCH ? 4 : 1)
    for (unsigned i = threadIdx.x; i < n; i += ENCODE_NTHREADS) {
        const uint32_t token =
            token_of(batch.tables.d_token_parts, run_begin(s_codes, i),
                     code_at(s_codes, i));
        atomicAdd((uint32_t *)s_counts.count + token_number(token), 1u);
    }
    __syncthreads();
    list_occurring(&s_counts);
    wait_async();
    __syncthreads();
    cost_tokens<SMALL_BATCH>(s_counts, rows, s_costs);
    __syncthreads();
    end_costs(chunk, s_costs,
              region<struct cuda_tile_cost>(batch, batch.at.cost) + tile);
}

cudaError_t
cuda_tokens_histogram(const struct cuda_batch *batch, cudaStream_t stream)
{
    return is_small_batch(*batch)
               ? launch_shared(batch, stream, count_token_tiles<true>,
                               batch->ntiles, ENCODE_NTHREADS, TABLE_NBYTES)
               : launch_stage(batch, stream, count_token_tiles<false>,
                              batch->ntiles, ENCODE_NTHREADS);
}

/* ---- bytes ---- */

#define BITS_NWORDS (TERP_TOKENS_MAX_NBYTES / 4)
static_assert(TERP_TOKENS_MAX_NBYTES % 16 == 0,
              "Tiles' slots are aligned to 16 bytes.");

/* Replaces a thread's codes [begin, end) in the list by their tokens; the run
 * before the first begins at `run_at`. Returns the bits of the tokens. NLOADS:
 * how many codes are read before their tokens are looked up, 4 in small batches
 * to hide latency, else 1. */
template <unsigned NLOADS>
static __device__ __forceinline__ uint32_t
make_tokens(uint32_t *s_codes, unsigned begin, unsigned end, unsigned run_at,
            const uint32_t *parts, const uint32_t *codewords)
{
    uint32_t nbits = 0;

#pragma unroll 1
    for (unsigned i = begin; i < end; i += NLOADS) {
        uint32_t code[NLOADS];
#pragma unroll
        for (unsigned k = 0; k < NLOADS; k++)
            code[k] = i + k < end ? code_at(s_codes, i + k) : 0;
#pragma unroll
        for (unsigned k = 0; k < NLOADS; k++) {
            if (i + k >= end)
                continue;
            const uint32_t token = token_of(parts, run_at, code[k]);
            run_at = (code[k] >> 16) + 1;
            code_at(s_codes, i + k) = token;
            nbits += terp_codeword_nbits(codewords[token_number(token)]) +
                     token_nbits(token);
        }
    }
    return nbits;
}

/* Writes a thread's tokens from bit `at` on. Words are written by atomicOr,
 * since the thread shares the first and the last one with its neighbours.
 * NLOADS: as in make_tokens. */
template <unsigned NLOADS>
static __device__ __forceinline__ void
write_tokens(uint32_t *s_tokens, unsigned begin, unsigned end,
             const uint32_t *codewords, uint32_t *s_bits, uint32_t at)
{
    uint32_t *to = s_bits + at / 32;
    unsigned npending = at % 32;
    uint64_t pending = 0; /* the low npending bits are not stored yet */
    static_assert(31 + TERP_MAX_CODE_NBITS + TERP_TOKEN_PLAIN_MAX_NBITS <= 64,
                  "Pending bits and a token must fit in 64 bits.");
#pragma unroll 1
    for (unsigned i = begin; i < end; i += NLOADS) {
        uint32_t token[NLOADS], packed[NLOADS];
#pragma unroll
        for (unsigned k = 0; k < NLOADS; k++)
            token[k] = i + k < end ? code_at(s_tokens, i + k) : 0;
#pragma unroll
        for (unsigned k = 0; k < NLOADS; k++)
            packed[k] = i + k < end ? codewords[token_number(token[k])] : 0;
#pragma unroll
        for (unsigned k = 0; k < NLOADS; k++) {
            pending = (pending << terp_codeword_nbits(packed[k]) |
                       terp_codeword_bits(packed[k]))
                          << token_nbits(token[k]) |
                      (token[k] & bits_below(TERP_TOKEN_PLAIN_MAX_NBITS));
            npending += terp_codeword_nbits(packed[k]) + token_nbits(token[k]);
            while (npending >= 32) {
                npending -= 32;
                atomicOr(to++, (uint32_t)(pending >> npending));
            }
        }
    }
    if (npending > 0 && begin < end)
        atomicOr(to, (uint32_t)(pending << (32 - npending)));
}

/* Encodes tiles. Grid: (ntiles, chunks). A thread has 16 consecutive symbols,
 * then an equal share of consecutive codes, whose bits it writes to shared
 * memory; then all threads copy words to the tile's slot. SMALL_BATCH trades
 * work for latency: symbols are loaded before it is known whether the tile is
 * zero, codewords are in shared memory, and NLOADS is 4. Shared: about 30 KB
 * (bits and list of codes). Barriers separate list, tokens, bits and copy. */
template <bool SMALL_BATCH>
static __global__ void
__launch_bounds__(ENCODE_NTHREADS, SMALL_BATCH ? 3 : 7)
    encode_tokens(const struct cuda_batch batch)
{
    let_next_kernel_come();
    constexpr unsigned NLOADS = SMALL_BATCH ? 4 : 1;
    alignas(16) __shared__ uint32_t s_codewords[SMALL_BATCH ? TERP_NTOKENS : 4];
    alignas(16) __shared__ uint32_t s_bits[BITS_NWORDS];
    __shared__ uint32_t s_codes[CODES_NWORDS];
    __shared__ block_scan<unsigned, ENCODE_NTHREADS> s_scan;
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const unsigned tile = blockIdx.x,
                   nsymbols = terp_tile_nsymbols(batch.nvalues, tile);
    const unsigned first = ENCODE_THREAD_NSYMBOLS * threadIdx.x;
    struct thread_symbols symbols;
    uint32_t at, total;

    for (unsigned i = threadIdx.x; i < BITS_NWORDS / 4; i += ENCODE_NTHREADS)
        ((uint4 *)s_bits)[i] = make_uint4(0, 0, 0, 0);
    wait_for_kernels();
    const uint16_t *from =
        coded_symbols(batch, chunk) + (uint64_t)tile * TERP_TILE_NSYMBOLS;
    const bool nonzero = region<uint8_t>(batch, batch.at.nonzero)[tile] != 0;
    if (SMALL_BATCH)
        symbols = load_thread_symbols(from, first, first + 8, nsymbols);
    /* A tile of zeros has no entry: min keeps its value inside the table. */
    const unsigned entry =
        min(entry_of_tile(batch, chunk, tile), (unsigned)TERP_NENTRIES - 1);
    const uint32_t *codewords =
        batch.tables.d_token_codewords + entry * TERP_NTOKENS;
    if (SMALL_BATCH) {
        static_assert(TERP_NTOKENS % 4 == 0,
                      "The table is loaded in units of 16 bytes.");
        if (threadIdx.x < TERP_NTOKENS / 4)
            copy_async((uint4 *)s_codewords + threadIdx.x,
                       (const uint4 *)codewords + threadIdx.x);
        codewords = s_codewords;
    }
    if (!has_tiles(chunk) || !nonzero)
        return;
    if (!SMALL_BATCH)
        symbols = load_thread_symbols(from, first, first + 8, nsymbols);
    const unsigned n = list_codes(symbols, s_codes, s_scan);
    const unsigned share = (n + ENCODE_NTHREADS - 1) / ENCODE_NTHREADS;
    const unsigned begin = min(share * threadIdx.x, n);
    const unsigned end = min(begin + share, n);
    unsigned run_at = run_begin(s_codes, begin);
    wait_async();
    __syncthreads(); /* tokens take the place of codes */
    const uint32_t nbits = make_tokens<NLOADS>(
        s_codes, begin, end, run_at, batch.tables.d_token_parts, codewords);
    at = scan_block(s_scan, nbits, &total);

    write_tokens<NLOADS>(s_codes, begin, end, codewords, s_bits, at);
    /* Pads the last byte with ones. */
    if (threadIdx.x == 0 && total % 8 != 0)
        atomicOr(&s_bits[total / 32], bits_below(8 - total % 8)
                                          << (24 - total % 32 / 8 * 8));
    __syncthreads();
    store_tile(batch, tile, TERP_TOKENS_MAX_NBYTES, s_bits, total, entry);
}

cudaError_t
cuda_tokens_encode(const struct cuda_batch *batch, cudaStream_t stream)
{
    return launch_stage(batch, stream,
                        is_small_batch(*batch) ? encode_tokens<true>
                                               : encode_tokens<false>,
                        batch->ntiles, ENCODE_NTHREADS);
}

/* ---- partitions ---- */

/* Threads of a block of note_partitions: four warps, each for a partition. */
#define NOTE_NTHREADS 128

/* Records partitions. Grid: (npartitions / 4 rounded up, chunks). A warp has a
 * partition, and its lane i the partition's tile i. */
static __global__ void
__launch_bounds__(NOTE_NTHREADS) note_partitions(const struct cuda_batch batch)
{
    begin_kernel();
    const unsigned p = blockIdx.x * (NOTE_NTHREADS / 32) + threadIdx.x / 32;

    if (!has_tiles(batch.d_chunks[blockIdx.y]) || p >= batch.npartitions)
        return;
    const unsigned length = tile_length(batch, p);
    const struct cuda_partition partition =
        partition_of(batch, p, length, length_sum(length));
    if (threadIdx.x % 32 == 0)
        index_scratch(batch, blockIdx.y).partition[p] = partition;
}

cudaError_t
cuda_tokens_note(const struct cuda_batch *batch, cudaStream_t stream)
{
    return batch->npartitions <= CUDA_SMALL_CHUNK_NPARTITIONS
               ? cudaSuccess
               : launch_stage(batch, stream, note_partitions,
                              div_up(batch->npartitions, NOTE_NTHREADS / 32),
                              NOTE_NTHREADS);
}
