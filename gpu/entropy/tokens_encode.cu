#include "gpu/entropy/tokens_encode.cuh"

#include <cub/cub.cuh>

#include "gpu/block/reduce.cuh"
#include "gpu/entropy/contexts.cuh"
#include "gpu/entropy/tile_encode.cuh"
#include "gpu/sections/index.cuh"
#include "gpu/sections/stream_small.cuh"

/* ---- tokens ---- */

/* A tile's codes that are not zero, in order: place << 16 | symbol. Groups of
 * 16 are a word apart, so that neither threads that write their own codes nor
 * threads that read as many each meet in a bank. */
#define CODES_NWORDS (TERP_TILE_NSYMBOLS + TERP_TILE_NSYMBOLS / 16)

static __device__ __forceinline__ uint32_t &
code_at(uint32_t *s_codes, unsigned i)
{
    return s_codes[i + i / 16];
}

/* A thread has 16 symbols that follow each other. Returns how many codes there
 * are; these, and the storage, may be used when it returns. */
static __device__ __forceinline__ unsigned
list_codes(const struct thread_symbols &symbols, uint32_t *s_codes,
           scan_storage<TILE_NTHREADS> &s_scan)
{
    uint32_t first = THREAD_NSYMBOLS * threadIdx.x, mask = 0, at, n;

#pragma unroll
    for (unsigned i = 0; i < THREAD_NSYMBOLS; i++)
        if (symbol_at(symbols, i) != TERP_RADIUS)
            mask |= 1u << i;
    block_scan<TILE_NTHREADS>(s_scan).ExclusiveSum((uint32_t)__popc(mask), at,
                                                   n);
    if (mask != 0) {
#pragma unroll
        for (unsigned i = 0; i < THREAD_NSYMBOLS; i++)
            if (mask >> i & 1)
                code_at(s_codes, at++) =
                    (first + i) << 16 | symbol_at(symbols, i);
    }
    __syncthreads();
    return n;
}

/* A token: its number, then how many plain bits it has, then these: those of
 * the longest run, a sign, and those of the largest magnitude. */
#define PLAIN_WIDTH 5
static_assert(TERP_NTOKENS <=
                      1 << (32 - PLAIN_WIDTH - TERP_TOKEN_PLAIN_MAX_NBITS) &&
                  TERP_TOKEN_PLAIN_MAX_NBITS < 1 << PLAIN_WIDTH,
              "a token fits in a word");

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

/* Of a code, behind the place where the run begins. */
static __device__ __forceinline__ uint32_t
token_of(unsigned begin, uint32_t code)
{
    const struct terp_token token =
        terp_token_of((code >> 16) - begin, code & 0xFFFF);

    return (token.number << PLAIN_WIDTH | token.nbits)
               << TERP_TOKEN_PLAIN_MAX_NBITS |
           token.bits;
}

/* Where the run before code `i` begins. */
static __device__ __forceinline__ unsigned
run_begin(uint32_t *s_codes, unsigned i)
{
    return i == 0 ? 0 : (code_at(s_codes, i - 1) >> 16) + 1;
}

/* ---- survey ---- */

/* Few tiles have the table of words' lengths in shared memory, before symbols
 * are there. */
#define TABLE_NBYTES (4 * TERP_NTOKENS * ROW_NWORDS)
static_assert(TABLE_NBYTES % sizeof(uint4) == 0, "for wide loads");

/* Counts of tokens, and those that are not 0: number << 16 | count. */
struct token_counts {
    uint2 count[TILE_NTHREADS]; /* of two tokens each */
    uint32_t occurring[TERP_NTOKENS];
    unsigned noccurring;
};
static_assert(TERP_NTOKENS <= 2 * TILE_NTHREADS, "a thread two tokens");
static_assert(TERP_TILE_NSYMBOLS < 1 << 16, "a count has 16 bits");

/* Lists tokens that occur, in any order: costs are sums. */
static __device__ __forceinline__ void
list_occurring(struct token_counts *s)
{
    const unsigned lane = threadIdx.x % 32;
    const uint2 count = s->count[threadIdx.x];
    const uint32_t even = __ballot_sync(FULL_WARP, count.x != 0);
    const uint32_t odd = __ballot_sync(FULL_WARP, count.y != 0);
    unsigned at = 0;

    if (lane == 0 && (even | odd) != 0)
        at = atomicAdd(&s->noccurring, (unsigned)(__popc(even) + __popc(odd)));
    at = __shfl_sync(FULL_WARP, at, 0) +
         (unsigned)(__popc(even & bits_below(lane)) +
                    __popc(odd & bits_below(lane)));
    if (count.x != 0)
        s->occurring[at++] = 2 * threadIdx.x << 16 | count.x;
    if (count.y != 0)
        s->occurring[at] = (2 * threadIdx.x + 1) << 16 | count.y;
}

/* Grid: x tiles, y chunks. Whether a tile is zero, and its costs: groups of
 * ROW_NWORDS threads take tokens that occur in turn. FEW: the table of words'
 * lengths is in dynamic shared memory. */
template <bool FEW>
static __global__ void
__launch_bounds__(TILE_NTHREADS, FEW ? 3 : 6)
    survey_tokens(const struct cuda_batch batch)
{
    let_next_kernel_come();
    __shared__ uint32_t s_codes[CODES_NWORDS];
    __shared__ struct token_counts s_counts;
    __shared__ struct four_costs s_costs[NGROUPS][ROW_NWORDS];
    __shared__ scan_storage<TILE_NTHREADS> s_scan;
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const unsigned tile = blockIdx.x,
                   nsymbols = terp_tile_nsymbols(batch.nvalues, tile);
    const unsigned first = THREAD_NSYMBOLS * threadIdx.x;
    const unsigned group = threadIdx.x / ROW_NWORDS;
    const unsigned at = threadIdx.x % ROW_NWORDS;
    const uint32_t *rows = (const uint32_t *)batch.tables.d_token_nbits;
    struct four_costs sum = {0, 0};

    if (FEW) {
        uint32_t *s_rows = dynamic_shared<uint32_t>();
        for (unsigned w = threadIdx.x; w < TABLE_NBYTES / sizeof(uint4);
             w += TILE_NTHREADS)
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
        region<uint8_t>(batch, blockIdx.y, batch.at.nonzero)[tile] = n != 0;
    if (n == 0)
        return;
#pragma unroll(FEW ? 4 : 1)
    for (unsigned i = threadIdx.x; i < n; i += TILE_NTHREADS) {
        const uint32_t token =
            token_of(run_begin(s_codes, i), code_at(s_codes, i));
        atomicAdd((uint32_t *)s_counts.count + token_number(token), 1u);
    }
    __syncthreads();
    list_occurring(&s_counts);
    wait_async();
    __syncthreads();
#pragma unroll 4
    for (unsigned i = group; i < s_counts.noccurring && group < NGROUPS;
         i += NGROUPS) {
        const uint32_t occurring = s_counts.occurring[i];
        const uint32_t count = occurring & 0xFFFF;
        const uint32_t *row = &rows[(occurring >> 16) * ROW_NWORDS + at];
        const uint32_t nbits = FEW ? *row : __ldg(row);
        sum.even += count * (nbits & 0x00FF00FF);
        sum.odd += count * (nbits >> 8 & 0x00FF00FF);
    }
    if (group < NGROUPS)
        s_costs[group][at] = sum;
    __syncthreads();
    end_costs(chunk, s_costs,
              region<struct cuda_tile_cost>(batch, blockIdx.y, batch.at.cost) +
                  tile);
}

cudaError_t
cuda_tokens_histogram(const struct cuda_batch *batch, cudaStream_t stream)
{
    const dim3 tiles((unsigned)batch->ntiles, (unsigned)batch->nchunks);

    if (!has_few_tiles(*batch))
        return launch(survey_tokens<false>, tiles, TILE_NTHREADS, 0, stream,
                      *batch);
    cudaError_t error = cudaFuncSetAttribute(
        survey_tokens<true>, cudaFuncAttributeMaxDynamicSharedMemorySize,
        TABLE_NBYTES);
    return error == cudaSuccess
               ? launch(survey_tokens<true>, tiles, TILE_NTHREADS, TABLE_NBYTES,
                        stream, *batch)
               : error;
}

/* ---- bytes ---- */

#define BITS_NWORDS (TERP_TOKENS_MAX_NBYTES / 4)
static_assert(TERP_TOKENS_MAX_NBYTES % 16 == 0, "tiles are aligned to 16");

/* Grid: x tiles, y chunks. A thread has tokens that follow each other, and puts
 * their bits together in shared memory, where it shares the first and last word
 * with its neighbours. FEW: symbols are loaded whether or not all are zero,
 * with what tells that; the words' table is in shared memory; what a token
 * needs is loaded for several at once. */
template <bool FEW>
static __global__ void
__launch_bounds__(TILE_NTHREADS, FEW ? 3 : 7)
    encode_tokens(const struct cuda_batch batch)
{
    let_next_kernel_come();
    constexpr unsigned NLOADS = FEW ? 4 : 1;
    alignas(16) __shared__ uint32_t s_words[FEW ? TERP_NTOKENS : 4];
    alignas(16) __shared__ uint32_t s_bits[BITS_NWORDS];
    __shared__ uint32_t s_codes[CODES_NWORDS];
    __shared__ scan_storage<TILE_NTHREADS> s_scan;
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const unsigned tile = blockIdx.x,
                   nsymbols = terp_tile_nsymbols(batch.nvalues, tile);
    const unsigned first = THREAD_NSYMBOLS * threadIdx.x;
    struct thread_symbols symbols;
    uint32_t nbits = 0, at, total;

    for (unsigned i = threadIdx.x; i < BITS_NWORDS / 4; i += TILE_NTHREADS)
        ((uint4 *)s_bits)[i] = make_uint4(0, 0, 0, 0);
    wait_for_kernels();
    const uint16_t *from =
        coded_symbols(batch, chunk) + (uint64_t)tile * TERP_TILE_NSYMBOLS;
    const bool nonzero =
        region<uint8_t>(batch, blockIdx.y, batch.at.nonzero)[tile] != 0;
    if (FEW)
        symbols = load_thread_symbols(from, first, first + 8, nsymbols);
    /* A tile of zeros has none: any, as long as there is one. */
    const unsigned entry =
        min(entry_of_tile(batch, chunk, tile), (unsigned)TERP_NENTRIES - 1);
    const uint32_t *words = batch.tables.d_token_codewords + entry * TERP_NTOKENS;
    if (FEW) {
        static_assert(TERP_NTOKENS % 4 == 0, "for wide loads");
        if (threadIdx.x < TERP_NTOKENS / 4)
            copy_async((uint4 *)s_words + threadIdx.x,
                       (const uint4 *)words + threadIdx.x);
        words = s_words;
    }
    if (!has_tiles(chunk) || !nonzero)
        return;
    if (!FEW)
        symbols = load_thread_symbols(from, first, first + 8, nsymbols);
    const unsigned n = list_codes(symbols, s_codes, s_scan);
    const unsigned share = (n + TILE_NTHREADS - 1) / TILE_NTHREADS;
    const unsigned begin = min(share * threadIdx.x, n);
    const unsigned end = min(begin + share, n);
    unsigned run_at = run_begin(s_codes, begin);
    wait_async();
    __syncthreads(); /* tokens take the place of codes */
#pragma unroll 1
    for (unsigned i = begin; i < end; i += NLOADS) {
        uint32_t code[NLOADS];
#pragma unroll
        for (unsigned k = 0; k < NLOADS; k++)
            code[k] = i + k < end ? code_at(s_codes, i + k) : 0;
#pragma unroll
        for (unsigned k = 0; k < NLOADS; k++) {
            const uint32_t token = token_of(run_at, code[k]);
            run_at = (code[k] >> 16) + 1;
            if (i + k < end) {
                code_at(s_codes, i + k) = token;
                nbits += (words[token_number(token)] & 15) + token_nbits(token);
            }
        }
    }
    block_scan<TILE_NTHREADS>(s_scan).ExclusiveSum(nbits, at, total);

    uint32_t *to = s_bits + at / 32;
    unsigned npending = at % 32;
    uint64_t pending = 0; /* its low npending bits are not yet stored */
    static_assert(31 + TERP_MAX_CODE_NBITS + TERP_TOKEN_PLAIN_MAX_NBITS <= 64,
                  "it has room");
#pragma unroll 1
    for (unsigned i = begin; i < end; i += NLOADS) {
        uint32_t token[NLOADS], word[NLOADS];
#pragma unroll
        for (unsigned k = 0; k < NLOADS; k++)
            token[k] = i + k < end ? code_at(s_codes, i + k) : 0;
#pragma unroll
        for (unsigned k = 0; k < NLOADS; k++)
            word[k] = i + k < end ? words[token_number(token[k])] : 0;
#pragma unroll
        for (unsigned k = 0; k < NLOADS; k++) {
            pending = (pending << (word[k] & 15) | word[k] >> 4)
                          << token_nbits(token[k]) |
                      (token[k] & bits_below(TERP_TOKEN_PLAIN_MAX_NBITS));
            npending += (word[k] & 15) + token_nbits(token[k]);
            while (npending >= 32) {
                npending -= 32;
                atomicOr(to++, (uint32_t)(pending >> npending));
            }
        }
    }
    if (npending > 0 && begin < end)
        atomicOr(to, (uint32_t)(pending << (32 - npending)));
    /* The last byte is filled up with ones. */
    if (threadIdx.x == 0 && total % 8 != 0)
        atomicOr(&s_bits[total / 32], bits_below(8 - total % 8)
                                          << (24 - total % 32 / 8 * 8));
    __syncthreads();
    store_tile(batch, tile, TERP_TOKENS_MAX_NBYTES, s_bits, total, entry);
}

cudaError_t
cuda_tokens_encode(const struct cuda_batch *batch, cudaStream_t stream)
{
    return launch(has_few_tiles(*batch) ? encode_tokens<true>
                                        : encode_tokens<false>,
                  dim3((unsigned)batch->ntiles, (unsigned)batch->nchunks),
                  TILE_NTHREADS, 0, stream, *batch);
}

/* ---- partitions ---- */

#define NOTE_NTHREADS 128

/* Grid: x warps, a partition each; y chunks. */
static __global__ void
__launch_bounds__(NOTE_NTHREADS) note_partitions(const struct cuda_batch batch)
{
    begin_kernel();
    const unsigned p = blockIdx.x * (NOTE_NTHREADS / 32) + threadIdx.x / 32;

    if (!has_tiles(batch.d_chunks[blockIdx.y]) || p >= batch.npartitions)
        return;
    const unsigned length = tile_length(batch, blockIdx.y, p);
    const struct cuda_partition partition =
        partition_of(batch, p, length, length_sum(length));
    if (threadIdx.x % 32 == 0)
        index_room(batch, blockIdx.y).partition[p] = partition;
}

cudaError_t
cuda_tokens_note(const struct cuda_batch *batch, cudaStream_t stream)
{
    return batch->npartitions <= CUDA_FEW_PARTITIONS
               ? cudaSuccess
               : launch(note_partitions,
                        dim3((unsigned)div_up(batch->npartitions,
                                              NOTE_NTHREADS / 32),
                             (unsigned)batch->nchunks),
                        NOTE_NTHREADS, 0, stream, *batch);
}
