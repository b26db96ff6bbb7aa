/* Decodes tiles of codewords in batches of few tiles: a block of many threads
 * decodes each tile.
 *
 * A thread has a subsequence of the tile's bits and must find where its first
 * codeword begins. Large batches rely on self-synchronization
 * (gpu/entropy/decode_codewords.cuh), which takes many rounds if codewords are
 * long and of similar length; with few tiles the slowest block decides. So here
 * each thread makes a transition table of its subsequence: for each bit at
 * which a codeword may begin, where the codewords from there on leave the
 * subsequence. Following the tables of the threads before it, each thread finds
 * its first codeword. The threads then list where codewords begin, and each
 * decodes eight symbols. */
#pragma once

#include "gpu/entropy/decode_bits.cuh"

/* Threads of a block: one for each unit of eight symbols of a tile. */
#define SMALL_BATCH_NTHREADS 512
static_assert(SMALL_BATCH_NTHREADS * DECODE_UNIT_NSYMBOLS == TERP_TILE_NSYMBOLS,
              "Each thread has a unit of symbols.");

/* A transition table is a 64-bit word with four bits for each of the first 16
 * bits of a subsequence. Its entry i is the offset, from the subsequence's end,
 * of the first codeword behind it, if a codeword begins at bit i. Codewords
 * have up to 15 bits, so the offset is below 15. Example: in a subsequence of
 * one unit of 16 bits with codewords of 5 bits, entry 0 is 4 (codewords at 0,
 * 5, 10 and 15 end at 20), and entry 1 is 0. Groups of subsequences have such a
 * table too, composed of their members'. */
#define SMALL_BATCH_GROUP_NSUBSEQUENCES 16
#define SMALL_BATCH_NGROUPS \
    (SMALL_BATCH_NTHREADS / SMALL_BATCH_GROUP_NSUBSEQUENCES)
static_assert(SMALL_BATCH_NGROUPS == 32, "Each lane of a warp has a group.");

/* Bits by which s.length is looked up: 4096 bytes, eight for each thread to
 * make. Longer codewords are told apart by comparing with table.end. */
#define SMALL_BATCH_LOOKUP_NBITS 12
static_assert(SMALL_BATCH_LOOKUP_NBITS == 12 && TERP_MAX_CODE_NBITS == 15,
              "Codewords of 14 and of 15 bits are told apart by their ends.");

struct small_batch_codewords {
    uint32_t bits[TILE_BITS_NWORDS];
    struct cuda_codeword_table table;
    /* By the next 12 bits: 4 * (length of the codeword - 1). Codewords of more
     * than 12 bits count as 13 bits long. */
    alignas(8) uint8_t length[1 << SMALL_BATCH_LOOKUP_NBITS];
    uint64_t transitions[SMALL_BATCH_NTHREADS]; /* of subsequences */
    alignas(8) uint32_t group[SMALL_BATCH_NGROUPS][2];
    union {
        uint16_t at[TERP_TILE_NSYMBOLS];
        uint2 four[TERP_TILE_NSYMBOLS / 4];
    } begin; /* of codewords */
};

/* Starts to copy the members of the table that decode single codewords. The
 * copy is complete after wait_async. */
static __device__ __forceinline__ void
stage_codeword_table(struct small_batch_codewords &s,
                     const struct cuda_decode_table *table)
{
    const unsigned nunits = sizeof s.table / 16;

    static_assert(sizeof s.table % 16 == 0 && nunits <= SMALL_BATCH_NTHREADS,
                  "A thread copies one unit at most.");
    if (threadIdx.x < nunits)
        copy_async((uint4 *)&s.table + threadIdx.x,
                   (const uint4 *)table->end + threadIdx.x);
}

/* Makes s.length from the table in shared memory; each thread makes eight
 * entries. */
static __device__ __forceinline__ void
make_lengths(struct small_batch_codewords &s)
{
    const unsigned below = TERP_MAX_CODE_NBITS - SMALL_BATCH_LOOKUP_NBITS;
    const unsigned first = 8 * threadIdx.x;
    uint64_t lengths = 0;

    static_assert(8 * SMALL_BATCH_NTHREADS == 1 << SMALL_BATCH_LOOKUP_NBITS,
                  "Each thread makes eight entries.");
#pragma unroll
    for (unsigned l = 1; l <= SMALL_BATCH_LOOKUP_NBITS; l++) {
        const unsigned end = s.table.end[l] >> below;
        const unsigned n = end > first ? end - first : 0;
        lengths += n < 8 ? UINT64_C(0x0404040404040404) << (8 * n) : 0;
    }
    ((uint64_t *)s.length)[threadIdx.x] = lengths;
}

/* Entry `i` of a transition table. */
static __device__ __forceinline__ unsigned
follow_transition(uint64_t transitions, unsigned i)
{
    return (unsigned)(transitions >> (4 * i)) & 15;
}

static __device__ __forceinline__ uint64_t
group_transitions(const struct small_batch_codewords &s, unsigned group)
{
    return (uint64_t)s.group[group][1] << 32 | s.group[group][0];
}

/* The transition table of the units of 16 bits [first, end). It is made from
 * the last bit to the first: at each bit, `transitions` is the table of the 16
 * bits behind it. Bits that are not a codeword count as a long codeword, so
 * that every entry has a value; walk_codewords later finds out whether decoding
 * really meets them. */
static __device__ __forceinline__ uint64_t
transitions_of_units(const struct small_batch_codewords &s, unsigned first,
                     unsigned end)
{
    const unsigned left = 32 - TERP_MAX_CODE_NBITS;
    const uint32_t all = UINT32_MAX, over = 1u << TERP_MAX_CODE_NBITS;
    const uint32_t end13 = s.table.end[13], end14 = s.table.end[14];
    const uint32_t from14 = end13 < over ? end13 << left : all;
    const uint32_t from15 = end14 < over ? end14 << left : all;
    uint64_t transitions = UINT64_C(0xFEDCBA9876543210);

#pragma unroll 1
    for (unsigned u = end; u-- > first;) {
        /* Never all ones, since from14 and from15 may be that. */
        const uint32_t bits = bits_at(s.bits, 16 * u) & ~1u;
#pragma unroll 8
        for (unsigned i = 0; i < 16; i++) {
            const uint32_t next = bits << (15 - i);
            const unsigned by =
                s.length[next >> (32 - SMALL_BATCH_LOOKUP_NBITS)] +
                (next >= from14 ? 4 : 0) + (next >= from15 ? 4 : 0);
            transitions = transitions << 4 | (transitions >> by & 15);
        }
    }
    return transitions;
}

/* The offset of the first codeword in the thread's subsequence, given the
 * offset `first` of the tile's first codeword. The 16 threads of a group follow
 * the group's tables from one entry each, record the offsets in each
 * subsequence, and so make the group's table. In most groups all 16 entries
 * lead to the same exit. Then each thread follows the tables of the groups
 * before its own. It starts at the last group whose entries all lead to one
 * exit, because the entry does not matter there. One barrier, between the
 * tables of groups and their use. */
static __device__ __forceinline__ unsigned
find_entry(struct small_batch_codewords &s, uint64_t transitions,
           unsigned first)
{
    const unsigned lane = threadIdx.x % 32;
    const unsigned i = lane % SMALL_BATCH_GROUP_NSUBSEQUENCES;
    const unsigned group = threadIdx.x / SMALL_BATCH_GROUP_NSUBSEQUENCES;
    const uint64_t *tables =
        &s.transitions[group * SMALL_BATCH_GROUP_NSUBSEQUENCES];
    uint32_t entries[2] = {0, 0};
    unsigned at = i;

    s.transitions[threadIdx.x] = transitions;
    __syncwarp();
#pragma unroll
    for (unsigned k = 0; k < SMALL_BATCH_GROUP_NSUBSEQUENCES; k++) {
        entries[k / 8] |= at << (4 * (k % 8));
        at = follow_transition(tables[k], at);
    }
    uint32_t half = at << (4 * (i % 8));
#pragma unroll
    for (int distance = 1; distance < 8; distance *= 2)
        half |= __shfl_xor_sync(FULL_WARP_MASK, half, distance);
    if (i % 8 == 0)
        s.group[group][i / 8] = half;
    __syncthreads();
    const uint64_t of_lane = group_transitions(s, lane);
    const uint64_t ones = UINT64_C(0x0111111111111111);
    const unsigned has_one = __ballot_sync(
        FULL_WARP_MASK, (of_lane & 15 * ones) == (of_lane & 15) * ones);
    const unsigned before = has_one & ((1u << group) - 1);
    unsigned g = 0;
    at = first;
    if (before != 0) {
        g = 31 - (unsigned)__clz((int)before);
        at = 0; /* any entry leads to the same exit */
    }
#pragma unroll 1
    for (; g < group; g++)
        at = follow_transition(group_transitions(s, g), at);
    const unsigned from = lane / 16 * 16 + at;
    const uint32_t low = __shfl_sync(FULL_WARP_MASK, entries[0], (int)from);
    const uint32_t high = __shfl_sync(FULL_WARP_MASK, entries[1], (int)from);
    return (i < 8 ? low : high) >> (4 * (i % 8)) & 15;
}

/* Bits of the codeword that `next` begins with; TERP_MAX_CODE_NBITS + 1 if it
 * does not begin with a codeword. */
static __device__ __forceinline__ unsigned
codeword_nbits(const struct small_batch_codewords &s, uint32_t next)
{
    const unsigned bits15 = next >> (32 - TERP_MAX_CODE_NBITS);

    return s.length[next >> (32 - SMALL_BATCH_LOOKUP_NBITS)] / 4 + 1 +
           (bits15 >= s.table.end[13]) + (bits15 >= s.table.end[14]) +
           (bits15 >= s.table.end[15]);
}

/* The codewords that begin in bits [at, end) of a tile. */
struct subsequence {
    unsigned at, end;
    unsigned ncodewords;
    bool is_cut;       /* behind them follow bits that are not a codeword, or a
                          codeword that leaves the tile */
    unsigned last_end; /* where the last codeword ends */
};

/* Counts the codewords of a subsequence, up to `max_ncodewords`, and sets
 * is_cut and last_end. Lists where they begin unless begin_ret is NULL. */
static __device__ __forceinline__ void
walk_codewords(const struct small_batch_codewords &s, struct subsequence &own,
               unsigned tile_end, unsigned max_ncodewords, uint16_t *begin_ret)
{
    unsigned at = own.at, n = 0;

    own.is_cut = false;
#pragma unroll 1
    while (at < own.end && n < max_ncodewords && !own.is_cut) {
        /* Codewords that begin in the first 50 of 64 bits end in the 64. */
        const unsigned stop = min(own.end, at + 50);
        uint32_t high = bits_at(s.bits, at), low = bits_at(s.bits, at + 32);
#pragma unroll 1
        while (at < stop && n < max_ncodewords) {
            const unsigned nbits = codeword_nbits(s, high);
            if (nbits > TERP_MAX_CODE_NBITS) {
                own.is_cut = true;
                break;
            }
            if (begin_ret != nullptr)
                begin_ret[n] = (uint16_t)at;
            high = __funnelshift_l(low, high, nbits);
            low <<= nbits;
            at += nbits;
            n++;
        }
    }
    if (at > tile_end && n > 0) {
        own.is_cut = true;
        n--;
    }
    own.ncodewords = n;
    own.last_end = at;
}

/* Finds the thread's subsequence and counts its codewords. */
static __device__ __forceinline__ struct subsequence
find_codewords(struct small_batch_codewords &s, const struct tile_bits &bits)
{
    const unsigned n = SMALL_BATCH_NTHREADS;
    const unsigned base = bits.begin / 16;
    const unsigned nunits = (bits.end + 15) / 16 - base;
    const unsigned share = (nunits + n - 1) / n;
    const unsigned first = min(threadIdx.x * share, nunits);
    const unsigned end = min(first + share, nunits);
    struct subsequence own;

    const uint64_t transitions =
        transitions_of_units(s, base + first, base + end);
    own.at = 16 * (base + first) + find_entry(s, transitions, bits.begin % 16);
    own.end = min(16 * (base + end), bits.end);
    walk_codewords(s, own, bits.end, UINT32_MAX, nullptr);
    return own;
}

/* Decodes the thread's unit of eight symbols. Returns a bit for each escape. */
static __device__ __forceinline__ unsigned
decode_unit(const struct small_batch_codewords &s, uint16_t *symbols,
            unsigned nsymbols)
{
    unsigned escapes = 0;

#pragma unroll 1
    for (unsigned half = 0; half < 2; half++) {
        const unsigned at = DECODE_UNIT_NSYMBOLS * threadIdx.x + 4 * half;
        const uint2 begins = s.begin.four[at / 4];
        unsigned symbol[4];
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            const unsigned two = i < 2 ? begins.x : begins.y;
            const unsigned begin =
                at + i < nsymbols ? two >> (16 * (i % 2)) & 0xFFFF : 0;
            const uint32_t next = bits_at(s.bits, begin);
            symbol[i] =
                symbol_of_codeword(&s.table, next >> (32 - TERP_MAX_CODE_NBITS),
                                   codeword_nbits(s, next));
            if (at + i >= nsymbols)
                symbol[i] = TERP_RADIUS;
            escapes |= (unsigned)(symbol[i] == TERP_ESCAPE) << (4 * half + i);
        }
        *(uint2 *)&symbols[at] = make_uint2(symbol[1] << 16 | symbol[0],
                                            symbol[3] << 16 | symbol[2]);
    }
    return escapes;
}

/* Decodes a tile. All threads of a block call it when the tile's bits and the
 * table are in shared memory. *escapes_ret gets a bit for each escape among the
 * thread's unit of symbols. False: the bytes are not exactly `nsymbols`
 * codewords. */
static __device__ __forceinline__ bool
decode_small_batch_codewords(struct small_batch_codewords &s,
                             block_scan<unsigned, SMALL_BATCH_NTHREADS> &s_scan,
                             const struct tile_bits &bits, uint16_t *symbols,
                             unsigned nsymbols, unsigned *escapes_ret)
{
    unsigned first, nall;

    __syncthreads();
    struct subsequence own = find_codewords(s, bits);
    first = scan_block(s_scan, own.ncodewords, &nall);
    const unsigned end = first + own.ncodewords;
    bool valid = nall >= nsymbols && (!own.is_cut || end >= nsymbols);
    if (valid && first < nsymbols) {
        walk_codewords(s, own, bits.end, min(own.ncodewords, nsymbols - first),
                       &s.begin.at[first]);
        /* The last codeword must end in the last byte. */
        if (end >= nsymbols)
            valid = bits.end - own.last_end < 8;
    }
    if (__syncthreads_or(!valid))
        return false;
    if (DECODE_UNIT_NSYMBOLS * threadIdx.x < nsymbols)
        *escapes_ret = decode_unit(s, symbols, nsymbols);
    return true;
}
