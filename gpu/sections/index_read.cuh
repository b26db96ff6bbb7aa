/* Reads the index of tiles, by two algorithms.
 *
 * A short index has at most as many partitions as a warp has lanes. Each warp
 * of the block reads all of it, since reading it again takes less time than
 * waiting for another warp. Then the warps share the tiles.
 *
 * In a long index each thread has some partitions, and records the facts from
 * which their tiles can be read. A second kernel, read_index_tiles, reads the
 * tiles with many blocks: one block would take as long for them as for all
 * else.
 *
 * Most functions have the template parameter NTHREADS, the block's size, which
 * also selects the algorithm: SHORT_INDEX_NTHREADS or LONG_INDEX_NTHREADS.
 * Example: read_index<256> reads a short index, and share_sum<256> is uint32_t.
 * A thread's share is its partition, or partitions. */
#pragma once

#include "gpu/block/scan.cuh"
#include <type_traits>

#include "codec/format/sections.h"
#include "gpu/block/staged_reader.cuh"
#include "gpu/engine/state.cuh"
#include "gpu/entropy/codebooks.cuh"
#include "gpu/entropy/decode_table.cuh"

/* Threads of a block by algorithm, and partitions from which an index is long:
 * one more than a warp has lanes. Tests use 1. */
#define LONG_INDEX_NTHREADS 1024
#define SHORT_INDEX_NTHREADS 256
#ifndef CUDA_LONG_INDEX_NPARTITIONS
#define CUDA_LONG_INDEX_NPARTITIONS 33
#endif
static_assert(CUDA_LONG_INDEX_NPARTITIONS <= 33,
              "A warp has a lane for each partition of a short index.");

/* The most bytes of a bit map of tiles that is expanded in shared memory: 65536
 * tiles. A longer one is expanded in the region `staging`. */
#define INDEX_BITMAP_NBYTES 8192

/* The most partitions and tiles of a short index. The assertion adds up the
 * bytes of its arrays: bit maps, codebook and entry numbers of either coding,
 * controls, offsets, lengths. */
#define SHORT_INDEX_NPARTITIONS (CUDA_LONG_INDEX_NPARTITIONS - 1)
#define SHORT_INDEX_NTILES (SHORT_INDEX_NPARTITIONS * TERP_PARTITION_NTILES)
static_assert(8 + SHORT_INDEX_NTILES / 8 + 4 + TERP_NSYMBOLS / 2 + 256 +
                      SHORT_INDEX_NTILES + SHORT_INDEX_NPARTITIONS * (1 + 8) +
                      SHORT_INDEX_NTILES * 2 <=
                  STAGED_READER_NBYTES / 2,
              "A short index is staged as a whole by advance_to.");

template <unsigned NTHREADS>
static constexpr bool is_short_index = NTHREADS == SHORT_INDEX_NTHREADS;

/* An integer that holds two sums, each in half of its bits, so that one scan
 * adds both. half_nbits: the bits of a half. */
template <unsigned NTHREADS>
using share_sum =
    std::conditional_t<is_short_index<NTHREADS>, uint32_t, unsigned long long>;
template <unsigned NTHREADS>
static constexpr int half_nbits = 4 * sizeof(share_sum<NTHREADS>);

template <unsigned NTHREADS> struct read_shared {
    __align__(16) uint8_t staged[STAGED_READER_NBYTES];
    __align__(16) uint8_t bitmap[INDEX_BITMAP_NBYTES];
    __align__(16) uint8_t above[INDEX_BITMAP_NBYTES / 8];
    uint64_t host[CUDA_HOST_NBYTES / 8]; /* of the chunk's state */
    block_scan<unsigned long long, NTHREADS> scan;
    /* coding custom: counts of codewords by length */
    uint32_t nbefore[TERP_NSYMBOLS / 32][TERP_MAX_CODE_NBITS + 1];
    uint32_t nwords[TERP_MAX_CODE_NBITS + 1];
    bool fits;
};

/* The index, as all threads know it after it is read. */
struct tile_index {
    const uint8_t *bitmap;    /* long index: of tiles */
    unsigned nnonzero, nfull; /* tiles that are not zero, and partitions that
                                 have such tiles */
    /* huffman, ratio: entries in use, and the number of each tile's entry */
    const uint8_t *used;
    unsigned nused;
    const uint8_t *numbers;
    int number_width;
    /* lengths and offsets */
    const uint8_t *controls;
    const uint8_t *offsets;
    int offset_nbytes;
    const uint8_t *lengths;
    uint64_t lengths_nbytes;
    uint64_t payload_nbytes; /* of the payload in the bytes that are read */
    uint64_t end; /* of the last partition; UINT64_MAX if levels are left out */
};

/* A thread's share: `count` partitions from `first` on. */
struct partition_share {
    unsigned first, count;
    unsigned bits; /* short index: the partition's bits of the bit map */
    /* Sums over the partitions before the share: tiles that are not zero,
     * partitions that have such tiles, and bytes of lengths. */
    unsigned ntiles, nfull, lengths_nbytes;
};

/* A partition whose tiles are read. PARTITION_MAY_BE_CUT, in `control` above
 * the stream's control byte: a decoder that leaves levels out read a prefix of
 * the stream, which may end inside the partition. */
#define PARTITION_MAY_BE_CUT 0x100u
struct partition {
    unsigned bits;    /* of the bit map of tiles */
    unsigned control; /* the control byte, and PARTITION_MAY_BE_CUT */
    unsigned ntiles, lengths_nbytes; /* of the partitions before it */
    unsigned nbytes;                 /* of its payload that are read */
};

/* A short index is staged whole in shared memory; a long one goes through it
 * window by window. */
template <unsigned NTHREADS>
using index_reader =
    std::conditional_t<is_short_index<NTHREADS>, struct staged_reader,
                       struct block_reader>;

/* ---- shares ---- */

/* Whether `valid` is true for all shares: a result for all lanes of a warp
 * (short index) or all threads of the block. */
template <unsigned NTHREADS>
static __device__ __forceinline__ bool
for_all_shares(bool valid)
{
    return is_short_index<NTHREADS> ? __all_sync(FULL_WARP_MASK, valid) != 0
                                    : !__syncthreads_or(!valid);
}

/* The sum over the shares before this thread's; *all_ret is the sum over all.
 */
template <unsigned NTHREADS>
static __device__ __forceinline__ share_sum<NTHREADS>
sum_before(share_sum<NTHREADS> n, read_shared<NTHREADS> &s,
           share_sum<NTHREADS> *all_ret)
{
    share_sum<NTHREADS> sum = n;

    if constexpr (is_short_index<NTHREADS>) {
#pragma unroll 1
        for (unsigned distance = 1; distance < 32; distance *= 2) {
            uint32_t below = __shfl_up_sync(FULL_WARP_MASK, sum, distance);
            sum += threadIdx.x % 32 >= distance ? below : 0;
        }
        *all_ret = __shfl_sync(FULL_WARP_MASK, sum, 31);
        return sum - n;
    } else {
        __syncthreads(); /* no thread still reads s.scan */
        sum = scan_block(s.scan, n, all_ret);
        return sum;
    }
}

/* The bits of partition `p`: bit i says that its tile i is not zero. */
static __device__ __forceinline__ unsigned
partition_bits(const struct cuda_batch &batch, const uint8_t *bitmap,
               uint64_t p)
{
    unsigned bits = bitmap[2 * p];
    if (16 * p + 8 < batch.ntiles)
        bits |= (unsigned)bitmap[2 * p + 1] << 8;
    return bits;
}

/* The bits of partition `i` of a share. */
template <unsigned NTHREADS>
static __device__ __forceinline__ unsigned
share_bits(const struct cuda_batch &batch, const struct tile_index &index,
           const struct partition_share &share, unsigned i)
{
    return is_short_index<NTHREADS>
               ? share.bits
               : partition_bits(batch, index.bitmap, share.first + i);
}

/* ---- tiles that are not zero ---- */

/* Reads the bit map of a short index; each lane gets its partition's bits. The
 * bit map is stored directly, or compressed by one level above it. False, in
 * all lanes: it is not valid. */
static __device__ __forceinline__ bool
read_short_bitmap(const struct cuda_batch &batch, struct staged_reader *reader,
                  unsigned *bits_ret)
{
    static_assert(SHORT_INDEX_NTILES / 8 <= 64,
                  "The bit map above has a bit for each byte.");
    const unsigned ntiles = (unsigned)batch.ntiles, nbytes = (ntiles + 7) / 8;
    const unsigned lane = threadIdx.x % 32;
    const bool stored = nbytes <= TERP_BITMAP_STORED_NBYTES;
    const unsigned map_nbytes = stored ? nbytes : (nbytes + 7) / 8;
    const uint8_t *bytes = take_bytes(reader, map_nbytes);
    uint64_t map = 0;
    unsigned bits = 0;

    if (reader->underflow)
        return false;
    if (!stored) {
        map = load_le_loop(bytes, map_nbytes) & UINT64_MAX >> (64 - nbytes);
        bytes = take_bytes(reader, (unsigned)__popcll(map));
        if (reader->underflow)
            return false;
    }
#pragma unroll
    for (unsigned k = 0; k < 2; k++) {
        const unsigned i = 2 * lane + k;
        /* A byte that was left out equals the last one kept before it. */
        const unsigned nth =
            stored ? i + 1 : (unsigned)__popcll(map & ((UINT64_C(2) << i) - 1));
        if (i < nbytes && nth > 0)
            bits |= (unsigned)bytes[nth - 1] << (8 * k);
    }
    *bits_ret = bits;
    const unsigned left = ntiles - TERP_PARTITION_NTILES * lane;
    return __all_sync(FULL_WARP_MASK,
                      left >= TERP_PARTITION_NTILES || bits >> left == 0) != 0;
}

/* Reads the bit map of a long index. All threads call it together. */
template <unsigned NTHREADS>
static __device__ bool
read_long_bitmap(const struct cuda_batch &batch, struct block_reader *reader,
                 read_shared<NTHREADS> &s, struct tile_index *index)
{
    unsigned nbytes = (unsigned)div_up(batch.ntiles, 8);
    uint8_t *bitmap = s.bitmap, *above = s.above;

    if (nbytes > INDEX_BITMAP_NBYTES) {
        bitmap = region<uint8_t>(batch, batch.at.staging);
        above = bitmap + div_up(nbytes, 8) * 8;
    }
    expand_bitmap<NTHREADS>(reader, bitmap, nbytes, above);
    index->bitmap = bitmap;
    return !reader->underflow &&
           (batch.ntiles % 8 == 0 ||
            bitmap[nbytes - 1] >> (batch.ntiles % 8) == 0);
}

/* Reads the bit map of tiles, and counts tiles that are not zero in the shares.
 */
template <unsigned NTHREADS>
static __device__ __forceinline__ bool
read_nonzero(const struct cuda_batch &batch, index_reader<NTHREADS> *reader,
             read_shared<NTHREADS> &s, struct tile_index *index,
             struct partition_share *share)
{
    const unsigned npartitions = (unsigned)batch.npartitions;
    const unsigned most =
        is_short_index<NTHREADS> ? 1 : (npartitions + NTHREADS - 1) / NTHREADS;
    const unsigned thread =
        is_short_index<NTHREADS> ? threadIdx.x % 32 : threadIdx.x;
    share_sum<NTHREADS> all, ntiles = 0, nfull = 0;

    if constexpr (is_short_index<NTHREADS>) {
        if (!read_short_bitmap(batch, reader, &share->bits))
            return false;
    } else if (!read_long_bitmap<NTHREADS>(batch, reader, s, index)) {
        return false;
    }
    share->first = min(most * thread, npartitions);
    share->count = min(most, npartitions - share->first);
#pragma unroll 1
    for (unsigned i = 0; i < share->count; i++) {
        unsigned bits = share_bits<NTHREADS>(batch, *index, *share, i);
        ntiles += (unsigned)__popc(bits);
        nfull += bits != 0;
    }
    const share_sum<NTHREADS> before =
        sum_before<NTHREADS>(nfull << half_nbits<NTHREADS> | ntiles, s, &all);
    const share_sum<NTHREADS> low =
        ((share_sum<NTHREADS>)1 << half_nbits<NTHREADS>)-1;
    share->ntiles = (unsigned)(before & low);
    share->nfull = (unsigned)(before >> half_nbits<NTHREADS>);
    index->nnonzero = (unsigned)(all & low);
    index->nfull = (unsigned)(all >> half_nbits<NTHREADS>);
    return true;
}

/* ---- codebooks ---- */

/* Reads the entries in use, and finds the array of entry numbers. R is an
 * index_reader. */
template <typename R>
static __device__ __forceinline__ bool
read_entries(R *reader, struct tile_index *index)
{
    unsigned nused = take_byte(reader);
    const uint8_t *used = take_bytes(reader, nused);

    if (reader->underflow || nused < 1 || nused > TERP_NENTRIES)
        return false;
    index->used = used;
    index->nused = nused;
    index->number_width = bit_width(nused - 1);
    index->numbers =
        take_bytes(reader, packed_nbytes(index->nnonzero, index->number_width));
    return !reader->underflow;
}

/* The length of a symbol's codeword in a stored custom codebook; 0: the symbol
 * has no codeword. */
static __device__ __forceinline__ unsigned
custom_length(const uint8_t *lengths, unsigned low, unsigned high,
              unsigned symbol)
{
    unsigned i = symbol == TERP_ESCAPE ? 0 : symbol - low + 1;

    if (symbol != TERP_ESCAPE && (symbol < low || symbol > high))
        return 0;
    return lengths[i / 2] >> (4 * (i % 2)) & 15;
}

/* Reads a custom codebook and makes its decode table. Symbols are sorted by
 * (length, symbol): a warp counts the lengths of 32 symbols at a time, and sums
 * of the counts give each symbol its place. All threads call it together. Few
 * streams have such a codebook, so it is not inlined. */
template <unsigned NTHREADS>
static __device__ __attribute__((noinline)) bool
read_custom(struct cuda_decode_table *book, index_reader<NTHREADS> *reader,
            read_shared<NTHREADS> &s)
{
    static_assert(TERP_NSYMBOLS % NTHREADS == 0 &&
                      CUDA_LOOKUP_NENTRIES % NTHREADS == 0,
                  "All threads must have as many symbols and table entries.");
    const unsigned lane = threadIdx.x % 32;
    const uint8_t *range = take_bytes(reader, 4);
    unsigned low, high;

    if (reader->underflow)
        return false;
    low = (unsigned)load_le(range, 2);
    high = (unsigned)load_le(range + 2, 2);

    if (low < 1 || low > high || high >= TERP_NSYMBOLS)
        return false;
    const uint8_t *at = take_bytes(reader, packed_nbytes(high - low + 2, 4));
    if (reader->underflow)
        return false;
#pragma unroll 1
    for (unsigned symbol = threadIdx.x; symbol < TERP_NSYMBOLS;
         symbol += NTHREADS) {
        unsigned length = custom_length(at, low, high, symbol);
        if (lane <= TERP_MAX_CODE_NBITS)
            s.nbefore[symbol / 32][lane] = 0;
        __syncwarp();
        /* Counts of each length among these 32 symbols; the loop below replaces
         * them by counts among all symbols before. */
        unsigned same = __match_any_sync(FULL_WARP_MASK, length);
        if ((same & ((1u << lane) - 1)) == 0)
            s.nbefore[symbol / 32][length] = (uint32_t)__popc(same);
    }
    __syncthreads();
    if (threadIdx.x <= TERP_MAX_CODE_NBITS) {
        unsigned sum = 0;
        for (int w = 0; w < TERP_NSYMBOLS / 32; w++) {
            unsigned n = s.nbefore[w][threadIdx.x];
            s.nbefore[w][threadIdx.x] = sum;
            sum += n;
        }
        s.nwords[threadIdx.x] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0)
        s.fits = cuda_decode_table_fill_ends(s.nwords, book);
#pragma unroll 1
    for (unsigned symbol = threadIdx.x; symbol < TERP_NSYMBOLS;
         symbol += NTHREADS) {
        unsigned length = custom_length(at, low, high, symbol);
        unsigned same = __match_any_sync(FULL_WARP_MASK, length);
        unsigned place = s.nbefore[symbol / 32][length] +
                         (unsigned)__popc(same & ((1u << lane) - 1));
        for (unsigned shorter = 1; shorter < length; shorter++)
            place += s.nwords[shorter];
        if (length > 0)
            book->sorted[place] = (uint16_t)symbol;
    }
    __syncthreads();
    if (!s.fits)
        return false;
#pragma unroll 1
    for (unsigned bits = threadIdx.x; bits < CUDA_LOOKUP_NENTRIES;
         bits += NTHREADS)
        cuda_decode_table_fill_lookup(book, bits);
    return true;
}

/* ---- lengths and offsets ---- */

/* Finds the arrays of controls, offsets and lengths, checks the widths in
 * controls, and leaves the reader at the payload. */
template <unsigned NTHREADS>
static __device__ __forceinline__ bool
read_lengths(const struct cuda_batch &batch, index_reader<NTHREADS> *reader,
             read_shared<NTHREADS> &s, struct tile_index *index,
             struct partition_share *share)
{
    unsigned own_nbytes = 0, full = share->nfull;
    share_sum<NTHREADS> lengths_nbytes;
    bool valid = true;

    index->controls = take_bytes(reader, index->nfull);
    if (reader->underflow)
        return false;
#pragma unroll 1
    for (unsigned i = 0; i < share->count; i++) {
        unsigned bits = share_bits<NTHREADS>(batch, *index, *share, i);
        if (bits == 0)
            continue;
        unsigned width = index->controls[full++] & TERP_CONTROL_WIDTH;
        valid &= width <= TERP_LENGTH_MAX_NBITS;
        own_nbytes += ((unsigned)__popc(bits) * width + 7) / 8;
    }
    if (!for_all_shares<NTHREADS>(valid))
        return false;
    share->lengths_nbytes =
        (unsigned)sum_before<NTHREADS>(own_nbytes, s, &lengths_nbytes);
    index->offset_nbytes = (int)take_byte(reader);
    if (index->offset_nbytes < 1 ||
        index->offset_nbytes > TERP_OFFSET_MAX_NBYTES)
        return false;
    index->offsets =
        take_bytes(reader, (index->nfull - 1) * (uint64_t)index->offset_nbytes);
    index->lengths = take_bytes(reader, lengths_nbytes);
    index->lengths_nbytes = lengths_nbytes;
    index->payload_nbytes = reader->end - position_of(*reader);
    index->end =
        batch.decoding.nskipped > 0 ? UINT64_MAX : index->payload_nbytes;
    return !reader->underflow;
}

/* The offset in the payload of the partition that is number `full` among those
 * with tiles. */
static __device__ __forceinline__ uint64_t
full_begin(const struct tile_index &index, unsigned full)
{
    if (full == 0)
        return 0;
    if (full >= index.nfull)
        return index.end;
    return load_le_loop(index.offsets +
                            (full - 1) * (uint64_t)index.offset_nbytes,
                        (unsigned)index.offset_nbytes);
}

/* ---- partitions ---- */

/* A number of up to 16 bits that begins at bit `bit`. Reads only its own
 * bytes. */
static __device__ __forceinline__ unsigned
number_at(const uint8_t *bytes, uint64_t bit, unsigned width)
{
    const uint8_t *at = bytes + bit / 8;
    const unsigned skipped = (unsigned)(bit % 8), end = skipped + width;
    unsigned bits = width > 0 ? at[0] : 0;

    bits |= end > 8 ? (unsigned)at[1] << 8 : 0;
    bits |= end > 16 ? (unsigned)at[2] << 16 : 0;
    return bits >> skipped & ((1u << width) - 1);
}

/* Reads the length and the entry of a tile that is not zero. `nbefore`: how
 * many such tiles the partition has before it. False: they are not valid. */
static __device__ __forceinline__ bool
read_tile(const struct cuda_batch &batch, enum terp_coding coding,
          const struct tile_index &index, uint64_t tile, unsigned nbefore,
          const struct partition &partition, unsigned *nbytes_ret,
          unsigned *entry_ret)
{
    const unsigned width = partition.control & TERP_CONTROL_WIDTH;
    const unsigned nbytes =
        terp_tile_min_nbytes(coding, terp_tile_nsymbols(batch.nvalues, tile)) +
        number_at(index.lengths + partition.lengths_nbytes, nbefore * width,
                  width);
    unsigned entry = 0;
    bool valid = nbytes <= terp_tile_max_nbytes(coding);

    if (terp_coding_selects_entries(coding)) {
        const unsigned nbits = (unsigned)index.number_width;
        unsigned number =
            number_at(index.numbers,
                      (uint64_t)(partition.ntiles + nbefore) * nbits, nbits);
        valid &= number < index.nused;
        entry = number < index.nused ? index.used[number] : 0;
        valid &= entry < TERP_NENTRIES;
    }
    *nbytes_ret = nbytes;
    *entry_ret = entry;
    return valid;
}

/* Sets the partition's bytes, from `at` to `end` in the payload as far as they
 * are read, and whether it may be cut. False: `at` is behind `end`. */
static __device__ __forceinline__ bool
place_partition(const struct cuda_batch &batch, const struct tile_index &index,
                uint64_t at, uint64_t end, struct partition *partition)
{
    if (batch.decoding.nskipped > 0 && end >= index.payload_nbytes)
        partition->control |= PARTITION_MAY_BE_CUT;
    partition->nbytes = (unsigned)min_u64(min_u64(end, index.payload_nbytes) -
                                              min_u64(at, index.payload_nbytes),
                                          UINT32_MAX);
    return at <= end;
}

/* Reads the tiles of a partition: half a warp has the partition, and each of
 * its lanes a tile. Writes the regions nonzero, entry and nbytes. False: a
 * number is not valid, or the partition's bytes do not fit its tiles. A
 * partition that is not reduced must have as many bytes as its tiles; one that
 * may be cut, at least those of the tiles to decode. */
static __device__ __forceinline__ bool
read_tile_of_lane(const struct cuda_batch &batch, enum terp_coding coding,
                  const struct tile_index &index, uint64_t p,
                  const struct partition &partition, bool is_there)
{
    static_assert(TERP_PARTITION_NTILES == 16,
                  "Two partitions have a lane for each tile.");
    const unsigned i = threadIdx.x % 16;
    const uint64_t tile = p * TERP_PARTITION_NTILES + i;
    const bool is_nonzero = (partition.bits >> i & 1) != 0;
    const bool may_be_cut = (partition.control & PARTITION_MAY_BE_CUT) != 0;
    unsigned nbytes = 0, entry = 0;
    bool valid = true;

    if (is_nonzero)
        valid = read_tile(batch, coding, index, tile,
                          (unsigned)__popc(partition.bits & ((1u << i) - 1)),
                          partition, &nbytes, &entry);
    /* Regions are multiples of 256 bytes, so all 16 tiles of the last partition
     * may be written. */
    if (is_there) {
        region<uint8_t>(batch, batch.at.nonzero)[tile] = is_nonzero;
        region<uint8_t>(batch, batch.at.entry)[tile] = (uint8_t)entry;
        region<uint16_t>(batch, batch.at.nbytes)[tile] = (uint16_t)nbytes;
    }
    unsigned sum =
        may_be_cut && tile >= batch.decoding.lattice_ntiles ? 0 : nbytes;
#pragma unroll 1
    for (int distance = 8; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(FULL_WARP_MASK, sum, distance);
    return valid &&
           ((partition.control & TERP_CONTROL_REDUCED) != 0 ||
            (may_be_cut ? sum <= partition.nbytes : sum == partition.nbytes));
}

/* Writes the regions begin and reduced of partition `p`. */
static __device__ __forceinline__ void
write_place(const struct cuda_batch &batch, const struct tile_index &index,
            uint64_t p, const struct partition &partition, uint64_t at)
{
    region<uint64_t>(batch, batch.at.begin)[p] =
        min_u64(at, index.payload_nbytes);
    region<uint8_t>(batch, batch.at.reduced)[p] =
        (partition.control & TERP_CONTROL_REDUCED) != 0;
}

/* ---- short index ---- */

/* Reads partitions and tiles of a short index: a lane has a partition, then a
 * warp takes the tiles of two partitions at a time. False, in a thread that
 * finds the error: the index is not valid. */
static __device__ __forceinline__ bool
read_short_partitions(const struct cuda_batch &batch, enum terp_coding coding,
                      const struct tile_index &index,
                      const struct partition_share &share)
{
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const bool is_there = share.count > 0;
    const unsigned npartitions = (unsigned)batch.npartitions;
    struct partition own = {0, 0, share.ntiles, share.lengths_nbytes, 0};
    uint64_t at = 0;
    bool valid = true;

    if (is_there) {
        own.bits = share.bits;
        at = full_begin(index, share.nfull);
    }
    if (own.bits != 0) {
        own.control = index.controls[share.nfull];
        valid = place_partition(batch, index, at,
                                full_begin(index, share.nfull + 1), &own);
    }
    if (is_there && warp == 0)
        write_place(batch, index, share.first, own, at);
#pragma unroll 1
    for (unsigned first = 2 * warp; first < npartitions;
         first += SHORT_INDEX_NTHREADS / 16) {
        const int p = (int)(first + lane / 16);
        const struct partition partition = {
            __shfl_sync(FULL_WARP_MASK, own.bits, p),
            __shfl_sync(FULL_WARP_MASK, own.control, p),
            __shfl_sync(FULL_WARP_MASK, own.ntiles, p),
            __shfl_sync(FULL_WARP_MASK, own.lengths_nbytes, p),
            __shfl_sync(FULL_WARP_MASK, own.nbytes, p)};
        valid &= read_tile_of_lane(batch, coding, index, (uint64_t)p, partition,
                                   p < (int)npartitions);
    }
    return valid;
}

/* ---- long index ---- */

/* The facts of a long index, for read_index_tiles, in the region `staging`
 * behind the bit map. `_at` are offsets in the stream. */
struct noted_index {
    uint64_t numbers_at, offsets_at, lengths_at, payload_nbytes, end;
    uint32_t nfull, nused, number_width, offset_nbytes;
    uint8_t used[(TERP_NENTRIES + 7) / 8 * 8];
};
struct alignas(16) noted_partition {
    uint16_t bits, control;                 /* as in struct partition */
    uint32_t ntiles, nfull, lengths_nbytes; /* of the partitions before it */
};

static __device__ __forceinline__ struct noted_index *
noted_index_of(const struct cuda_batch &batch)
{
    return region<struct noted_index>(batch, batch.at.staging +
                                                 16 * batch.npartitions);
}

static __device__ __forceinline__ struct noted_partition *
noted_partitions_of(const struct cuda_batch &batch)
{
    return region<struct noted_partition>(
        batch, batch.at.staging + 16 * batch.npartitions +
                   div_up(sizeof(struct noted_index), 16) * 16);
}

/* Records the facts for read_index_tiles. `reader` stands at the payload. */
template <unsigned NTHREADS>
static __device__ __forceinline__ void
note_index(const struct cuda_batch &batch, const struct tile_index &index,
           const struct block_reader &reader, struct partition_share share)
{
    struct noted_index *noted = noted_index_of(batch);
    struct noted_partition *partitions = noted_partitions_of(batch);

    static_assert(16 * 2 + sizeof *noted + 16 + sizeof *partitions <=
                      CUDA_PARTITION_MAX_NBYTES,
                  "The region must hold bit map and recorded facts.");
#pragma unroll 1
    for (unsigned i = 0; i < share.count; i++) {
        struct noted_partition partition = {};
        partition.bits =
            (uint16_t)partition_bits(batch, index.bitmap, share.first + i);
        partition.ntiles = share.ntiles;
        partition.nfull = share.nfull;
        partition.lengths_nbytes = share.lengths_nbytes;
        if (partition.bits != 0) {
            const unsigned ntiles = (unsigned)__popc(partition.bits);
            partition.control = index.controls[share.nfull++];
            share.ntiles += ntiles;
            share.lengths_nbytes +=
                (ntiles * (partition.control & TERP_CONTROL_WIDTH) + 7) / 8;
        }
        partitions[share.first + i] = partition;
    }
    for (unsigned i = threadIdx.x; i < index.nused; i += NTHREADS)
        noted->used[i] = index.used[i];
    if (threadIdx.x != 0)
        return;
    noted->lengths_at = reader.at - index.lengths_nbytes;
    noted->offsets_at =
        noted->lengths_at -
        (index.nfull > 0 ? (index.nfull - 1) * (uint64_t)index.offset_nbytes
                         : 0);
    noted->numbers_at = noted->offsets_at - 1 - index.nfull -
                        packed_nbytes(index.nnonzero, index.number_width);
    noted->payload_nbytes = index.payload_nbytes;
    noted->end = index.end;
    noted->nfull = index.nfull;
    noted->nused = index.nused;
    noted->number_width = (uint32_t)index.number_width;
    noted->offset_nbytes = (uint32_t)index.offset_nbytes;
}

/* full_begin, with all bytes loaded at once, to hide latency. */
static __device__ __forceinline__ uint64_t
load_full_begin(const struct tile_index &index, unsigned full)
{
    const unsigned nbytes =
        full > 0 && full < index.nfull ? (unsigned)index.offset_nbytes : 0;
    const uint8_t *at = index.offsets + (full - 1) * (uint64_t)nbytes;
    uint64_t begin = 0;

#pragma unroll
    for (unsigned i = 0; i < TERP_OFFSET_MAX_NBYTES; i++)
        begin |= i < nbytes ? (uint64_t)at[i] << (8 * i) : 0;
    return full >= index.nfull && full > 0 ? index.end : begin;
}

/* Reads partitions and tiles of long indexes, of lossless streams (of_lossless)
 * or of all others. Grid: (npartitions / 16 rounded up, chunks). 16 lanes have
 * a partition, a tile each. No shared memory. */
#define INDEX_TILES_NTHREADS 256
#define INDEX_TILES_NPARTITIONS (INDEX_TILES_NTHREADS / TERP_PARTITION_NTILES)
static __global__ void
__launch_bounds__(INDEX_TILES_NTHREADS)
    read_index_tiles(const struct cuda_batch batch, bool of_lossless)
{
    struct cuda_chunk &chunk = begin_chunk(batch);
    const unsigned p = blockIdx.x * INDEX_TILES_NPARTITIONS +
                       threadIdx.x / TERP_PARTITION_NTILES;
    const bool is_there = p < batch.npartitions;
    /* Both loads start before the code waits for one of them. */
    const struct noted_index &noted = *noted_index_of(batch);
    struct noted_partition of = {};
    if (is_there)
        of = noted_partitions_of(batch)[p];

    /* has_tiles makes all threads of the block agree on the status, which other
     * blocks of this launch may set meanwhile. */
    if (!has_tiles(chunk) || chunk_is_lossless(chunk) != of_lossless)
        return;
    const uint8_t *src = (const uint8_t *)chunk.src;
    struct tile_index index = {};
    index.nfull = noted.nfull;
    index.used = noted.used;
    index.nused = noted.nused;
    index.numbers = src + noted.numbers_at;
    index.number_width = (int)noted.number_width;
    index.offsets = src + noted.offsets_at;
    index.offset_nbytes = (int)noted.offset_nbytes;
    index.lengths = src + noted.lengths_at;
    index.payload_nbytes = noted.payload_nbytes;
    index.end = noted.end;

    struct partition partition = {of.bits, of.control, of.ntiles,
                                  of.lengths_nbytes, 0};
    const uint64_t at = is_there ? load_full_begin(index, of.nfull) : 0;
    bool valid = true;
    if (partition.bits != 0)
        valid = place_partition(
            batch, index, at, load_full_begin(index, of.nfull + 1), &partition);
    if (is_there && threadIdx.x % TERP_PARTITION_NTILES == 0)
        write_place(batch, index, p, partition, at);
    valid &=
        read_tile_of_lane(batch, chunk.coding, index, p, partition, is_there);
    if (!valid)
        chunk.status = TERP_ERR_CORRUPT;
}

/* Launches the kernel that reads long or short indexes of the tiles of
 * `indexed`. Its first parameter is `batch`, and `arguments` follow. Then
 * launches read_index_tiles if indexes are long. */
template <typename... Expected, typename... Actual>
static inline cudaError_t
launch_index(const struct cuda_batch *batch, const struct cuda_batch *indexed,
             bool of_lossless, cudaStream_t stream,
             void (*of_long)(Expected...), void (*of_short)(Expected...),
             Actual... arguments)
{
    const bool is_long = indexed->npartitions >= CUDA_LONG_INDEX_NPARTITIONS;
    const cudaError_t error = launch_stage(
        batch, stream, is_long ? of_long : of_short, 1,
        is_long ? LONG_INDEX_NTHREADS : SHORT_INDEX_NTHREADS, arguments...);

    return error == cudaSuccess && is_long
               ? launch_stage(
                     indexed, stream, read_index_tiles,
                     div_up(indexed->npartitions, INDEX_TILES_NPARTITIONS),
                     INDEX_TILES_NTHREADS, of_lossless)
               : error;
}

/* ---- the whole index ---- */

/* Reads the index and codebooks; *payload_at_ret is where the payload begins.
 * False, in some threads or in all: they are not valid. The tiles of a long
 * index are left to read_index_tiles. All threads of the block call it
 * together. */
template <unsigned NTHREADS>
static __device__ __forceinline__ bool
read_index(const struct cuda_batch &batch, enum terp_coding coding,
           index_reader<NTHREADS> *reader, read_shared<NTHREADS> &s,
           uint64_t *payload_at_ret)
{
    struct tile_index index = {};
    struct partition_share share = {};

    if (!read_nonzero<NTHREADS>(batch, reader, s, &index, &share))
        return false;
    if (index.nnonzero == 0) {
        if (position_of(*reader) != reader->end)
            return false;
    } else {
        if (terp_coding_selects_entries(coding) &&
            !read_entries(reader, &index))
            return false;
        if (coding == TERP_CODING_CUSTOM) {
            /* Only the copy's address is taken: *reader stays in registers. */
            index_reader<NTHREADS> copy = *reader;
            if (!read_custom<NTHREADS>(
                    region<struct cuda_decode_table>(batch, batch.at.codebook),
                    &copy, s))
                return false;
            *reader = copy;
        }
        if (!read_lengths<NTHREADS>(batch, reader, s, &index, &share))
            return false;
    }
    *payload_at_ret = position_of(*reader);
    if (threadIdx.x == 0)
        region<uint64_t>(batch, batch.at.begin)[batch.npartitions] =
            index.payload_nbytes;
    if constexpr (is_short_index<NTHREADS>)
        return read_short_partitions(batch, coding, index, share);
    else
        note_index<NTHREADS>(batch, index, *reader, share);
    return true;
}
