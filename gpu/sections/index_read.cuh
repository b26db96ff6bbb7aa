/* The index of tiles as a block reads it. Of a short index each warp
 * finds out all that it needs by itself, without waiting for others: it takes
 * longer to come together, and to fetch more code, than to do it again. The
 * warps then share the tiles. Of a long one each thread has some partitions. */
#ifndef TERP_GPU_SECTIONS_INDEX_READ_CUH
#define TERP_GPU_SECTIONS_INDEX_READ_CUH

#include <type_traits>

#include "codec/format/bytes.h"
#include "gpu/block/staged_reader.cuh"
#include "gpu/engine/state.cuh"
#include "gpu/entropy/codebooks.cuh"
#include "gpu/entropy/decode_table.cuh"

#define ALL_LANES 0xFFFFFFFFu

/* Threads of a block: few for so few partitions that a warp has a lane for
 * each; else all that a block can have. */
#define MANY_NTHREADS 1024
#define FEW_NTHREADS 256
#ifndef CUDA_MANY_PARTITIONS
#define CUDA_MANY_PARTITIONS 33
#endif
static_assert(CUDA_MANY_PARTITIONS <= 33, "a lane a partition");

/* Tiles' bit maps that fit in shared memory. Longer ones are expanded in the
 * region `staging`. */
#define BITMAP_NBYTES 8192

/* Of a short index: bit maps, either codebook and tiles' numbers, controls,
 * offsets and lengths of tiles. */
#define SHORT_NPARTITIONS (CUDA_MANY_PARTITIONS - 1)
#define SHORT_NTILES (SHORT_NPARTITIONS * TERP_PARTITION_NTILES)
static_assert(8 + SHORT_NTILES / 8 + 4 + TERP_NSYMBOLS / 2 + 256 +
                      SHORT_NTILES + SHORT_NPARTITIONS * (1 + 8) +
                      SHORT_NTILES * 2 <=
                  STAGED_NBYTES / 2,
              "see go_on_at");

/* Control byte of a partition: width of its lengths, and whether reduced. */
#define CONTROL_REDUCED 0x80
#define MAX_LENGTH_NBITS 16

template <unsigned NTHREADS>
static constexpr bool is_short = NTHREADS == FEW_NTHREADS;

/* Holds two sums at once, half of its bits each. */
template <unsigned NTHREADS>
using share_sum =
    std::conditional_t<is_short<NTHREADS>, uint32_t, unsigned long long>;
template <unsigned NTHREADS>
static constexpr int half_nbits = 4 * sizeof(share_sum<NTHREADS>);

template <unsigned NTHREADS>
using wide_sum = cub::BlockScan<unsigned long long, (int)NTHREADS,
                                cub::BLOCK_SCAN_WARP_SCANS>;

template <unsigned NTHREADS> struct read_shared {
    __align__(16) uint8_t staged[STAGED_NBYTES];
    __align__(16) uint8_t bitmap[BITMAP_NBYTES];
    __align__(16) uint8_t above[BITMAP_NBYTES / 8];
    uint64_t host[CUDA_HOST_NBYTES / 8]; /* of the chunk's state */
    typename wide_sum<NTHREADS>::TempStorage scan;
    /* custom codebook, by length */
    uint32_t nbefore[TERP_NSYMBOLS / 32][TERP_MAX_CODE_NBITS + 1];
    uint32_t nwords[TERP_MAX_CODE_NBITS + 1];
    bool fits;
};

/* What all threads know of the index, once it was read. */
struct tile_index {
    const uint8_t *bitmap;    /* of a long one */
    unsigned nnonzero, nfull; /* tiles, and partitions that have some */
    /* huffman, ratio */
    const uint8_t *used;
    unsigned nused;
    const uint8_t *numbers;
    int number_width;
    /* places */
    const uint8_t *controls;
    const uint8_t *offsets;
    int offset_nbytes;
    const uint8_t *lengths;
    uint64_t payload_nbytes;
};

/* A thread has `count` partitions from `first` on, and before these there are
 * so many tiles, full partitions and bytes of lengths. */
struct partition_share {
    unsigned first, count;
    unsigned bits; /* short: of the partition, if there is one */
    unsigned ntiles, nfull, lengths_nbytes;
};

/* Of a partition whose tiles are read. */
struct partition {
    unsigned bits, control;
    unsigned ntiles, lengths_nbytes; /* before it */
    unsigned nbytes;                 /* of its payload */
};

template <unsigned NTHREADS>
using index_reader =
    std::conditional_t<is_short<NTHREADS>, struct staged_reader,
                       struct block_reader>;

/* ---- shares ---- */

/* Whether it holds for all shares. */
template <unsigned NTHREADS>
static __device__ __forceinline__ bool
for_all_shares(bool valid)
{
    return is_short<NTHREADS> ? __all_sync(ALL_LANES, valid) != 0
                              : !__syncthreads_or(!valid);
}

/* The sum over the shares before, and in *all_ret over all. */
template <unsigned NTHREADS>
static __device__ __forceinline__ share_sum<NTHREADS>
sum_before(share_sum<NTHREADS> n, read_shared<NTHREADS> &s,
           share_sum<NTHREADS> *all_ret)
{
    share_sum<NTHREADS> sum = n;

    if constexpr (is_short<NTHREADS>) {
#pragma unroll 1
        for (unsigned distance = 1; distance < 32; distance *= 2) {
            uint32_t below = __shfl_up_sync(ALL_LANES, sum, distance);
            sum += threadIdx.x % 32 >= distance ? below : 0;
        }
        *all_ret = __shfl_sync(ALL_LANES, sum, 31);
        return sum - n;
    } else {
        __syncthreads(); /* nobody needs the storage any more */
        wide_sum<NTHREADS>(s.scan).ExclusiveSum(n, sum, *all_ret);
        return sum;
    }
}

/* Sixteen bits: the tiles of a partition that are not zero. */
static __device__ __forceinline__ unsigned
partition_bits(const struct cuda_batch &batch, const uint8_t *bitmap,
               uint64_t p)
{
    unsigned bits = bitmap[2 * p];
    if (16 * p + 8 < batch.ntiles)
        bits |= (unsigned)bitmap[2 * p + 1] << 8;
    return bits;
}

/* Of a share's partition `i`. */
template <unsigned NTHREADS>
static __device__ __forceinline__ unsigned
share_bits(const struct cuda_batch &batch, const struct tile_index &index,
           const struct partition_share &share, unsigned i)
{
    return is_short<NTHREADS>
               ? share.bits
               : partition_bits(batch, index.bitmap, share.first + i);
}

/* ---- tiles that are not zero ---- */

/* Those of the lane's partition. A short bit map is stored, or its own bit map
 * is. False for all lanes where it is not valid. */
static __device__ __forceinline__ bool
read_short_bitmap(const struct cuda_batch &batch, struct staged_reader *reader,
                  unsigned *bits_ret)
{
    static_assert(SHORT_NTILES / 8 <= 64, "a bit a byte");
    const unsigned ntiles = (unsigned)batch.ntiles, nbytes = (ntiles + 7) / 8;
    const unsigned lane = threadIdx.x % 32;
    const bool stored = nbytes <= 8;
    const unsigned map_nbytes = stored ? nbytes : (nbytes + 7) / 8;
    const uint8_t *bytes = take_bytes(reader, map_nbytes);
    uint64_t map = 0;
    unsigned bits = 0;

    if (reader->underflow)
        return false;
    if (!stored) {
        map = load_few(bytes, map_nbytes) & UINT64_MAX >> (64 - nbytes);
        bytes = take_bytes(reader, (unsigned)__popcll(map));
        if (reader->underflow)
            return false;
    }
#pragma unroll
    for (unsigned k = 0; k < 2; k++) {
        const unsigned i = 2 * lane + k;
        /* Of the bytes that are kept, the last up to this one. */
        const unsigned nth =
            stored ? i + 1 : (unsigned)__popcll(map & ((UINT64_C(2) << i) - 1));
        if (i < nbytes && nth > 0)
            bits |= (unsigned)bytes[nth - 1] << (8 * k);
    }
    *bits_ret = bits;
    const unsigned left = ntiles - TERP_PARTITION_NTILES * lane;
    return __all_sync(ALL_LANES,
                      left >= TERP_PARTITION_NTILES || bits >> left == 0) != 0;
}

/* All of them. */
template <unsigned NTHREADS>
static __device__ bool
read_long_bitmap(const struct cuda_batch &batch, struct block_reader *reader,
                 read_shared<NTHREADS> &s, struct tile_index *index)
{
    unsigned nbytes = (unsigned)div_up(batch.ntiles, 8);
    uint8_t *bitmap = s.bitmap, *above = s.above;

    if (nbytes > BITMAP_NBYTES) {
        bitmap = region<uint8_t>(batch, blockIdx.y, batch.at.staging);
        above = bitmap + div_up(nbytes, 8) * 8;
    }
    expand_bitmap<NTHREADS>(reader, bitmap, nbytes, above);
    index->bitmap = bitmap;
    return !reader->underflow &&
           (batch.ntiles % 8 == 0 ||
            bitmap[nbytes - 1] >> (batch.ntiles % 8) == 0);
}

/* Which tiles are not zero, and how many in each thread's share. */
template <unsigned NTHREADS>
static __device__ __forceinline__ bool
read_nonzero(const struct cuda_batch &batch, index_reader<NTHREADS> *reader,
             read_shared<NTHREADS> &s, struct tile_index *index,
             struct partition_share *share)
{
    const unsigned npartitions = (unsigned)batch.npartitions;
    const unsigned most =
        is_short<NTHREADS> ? 1 : (npartitions + NTHREADS - 1) / NTHREADS;
    const unsigned thread = is_short<NTHREADS> ? threadIdx.x % 32 : threadIdx.x;
    share_sum<NTHREADS> all, ntiles = 0, nfull = 0;

    if constexpr (is_short<NTHREADS>) {
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

/* Those of the dictionary: which, and the number of each tile's. */
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

/* Bits of a symbol's word by the stored codebook; 0: none. */
static __device__ __forceinline__ unsigned
custom_length(const uint8_t *lengths, unsigned low, unsigned high,
              unsigned symbol)
{
    unsigned i = symbol == TERP_ESCAPE ? 0 : symbol - low + 1;

    if (symbol != TERP_ESCAPE && (symbol < low || symbol > high))
        return 0;
    return lengths[i / 2] >> (4 * (i % 2)) & 15;
}

/* The chunk's own codebook, made ready to decode. */
template <unsigned NTHREADS>
static __device__ __attribute__((noinline)) bool
read_custom(struct cuda_decode_table *book, index_reader<NTHREADS> *reader,
            read_shared<NTHREADS> &s)
{
    static_assert(TERP_NSYMBOLS % NTHREADS == 0 &&
                      CUDA_LOOKUP_NENTRIES % NTHREADS == 0,
                  "threads have as many symbols and look-ups");
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
        /* Symbols of the same length, in each 32 symbols; then before them. */
        unsigned same = __match_any_sync(ALL_LANES, length);
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
        unsigned same = __match_any_sync(ALL_LANES, length);
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

/* ---- places ---- */

/* Controls and offsets; leaves the reader at the payload. */
template <unsigned NTHREADS>
static __device__ __forceinline__ bool
read_places(const struct cuda_batch &batch, index_reader<NTHREADS> *reader,
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
        unsigned width = index->controls[full++] & ~(unsigned)CONTROL_REDUCED;
        valid &= width <= MAX_LENGTH_NBITS;
        own_nbytes += ((unsigned)__popc(bits) * width + 7) / 8;
    }
    if (!for_all_shares<NTHREADS>(valid))
        return false;
    share->lengths_nbytes =
        (unsigned)sum_before<NTHREADS>(own_nbytes, s, &lengths_nbytes);
    index->offset_nbytes = (int)take_byte(reader);
    if (index->offset_nbytes < 1 || index->offset_nbytes > 8)
        return false;
    index->offsets =
        take_bytes(reader, (index->nfull - 1) * (uint64_t)index->offset_nbytes);
    index->lengths = take_bytes(reader, lengths_nbytes);
    index->payload_nbytes = reader->end - place_of(*reader);
    return !reader->underflow;
}

/* Where in the payload the full partition of this number begins. */
static __device__ __forceinline__ uint64_t
full_begin(const struct tile_index &index, unsigned full)
{
    if (full == 0)
        return 0;
    if (full >= index.nfull)
        return index.payload_nbytes;
    return load_few(index.offsets + (full - 1) * (uint64_t)index.offset_nbytes,
                    (unsigned)index.offset_nbytes);
}

/* ---- partitions ---- */

/* A number of up to 16 bits from any bit on. Reads no byte but its own. */
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

/* What the index says of one tile; false where that is not valid. `rank`: how
 * many tiles of the partition have words and stand before. */
static __device__ __forceinline__ bool
read_tile(const struct cuda_batch &batch, enum terp_coding coding,
          const struct tile_index &index, uint64_t tile, unsigned rank,
          const struct partition &partition, unsigned *nbytes_ret,
          unsigned *entry_ret)
{
    const unsigned width = partition.control & ~(unsigned)CONTROL_REDUCED;
    const unsigned least =
        terp_tile_min_nbytes(coding, terp_tile_nsymbols(batch.nvalues, tile));
    const unsigned nbytes =
        least + number_at(index.lengths + partition.lengths_nbytes,
                          rank * width, width);
    unsigned entry = 0;
    bool valid = nbytes <= terp_tile_max_nbytes(coding);

    if (terp_coding_selects_entries(coding)) {
        const unsigned nbits = (unsigned)index.number_width;
        unsigned number = number_at(
            index.numbers, (uint64_t)(partition.ntiles + rank) * nbits, nbits);
        valid &= number < index.nused;
        entry = number < index.nused ? index.used[number] : 0;
        valid &= entry < TERP_NENTRIES;
    }
    *nbytes_ret = nbytes;
    *entry_ret = entry;
    return valid;
}

/* Tiles of the partitions that a warp's lanes have, by two partitions, a lane
 * a tile: from partition `first` on, every `step`. False where a number is not
 * valid, or a partition's tiles have not the bytes that it has. */
static __device__ __forceinline__ bool
read_tiles(const struct cuda_batch &batch, enum terp_coding coding,
           const struct tile_index &index, unsigned p,
           const struct partition &own, unsigned npartitions, unsigned first,
           unsigned step)
{
    static_assert(TERP_PARTITION_NTILES == 16, "a lane a tile, two halves");
    uint8_t *nonzero = region<uint8_t>(batch, blockIdx.y, batch.at.nonzero);
    uint8_t *entries = region<uint8_t>(batch, blockIdx.y, batch.at.entry);
    uint16_t *sizes = region<uint16_t>(batch, blockIdx.y, batch.at.nbytes);
    const unsigned lane = threadIdx.x % 32, i = lane % 16;
    bool valid = true;

#pragma unroll 1
    for (; first < npartitions; first += step) {
        const int owner = (int)(first + lane / 16);
        const uint64_t tile =
            (uint64_t)__shfl_sync(ALL_LANES, p, owner) * 16 + i;
        const struct partition partition = {
            __shfl_sync(ALL_LANES, own.bits, owner),
            __shfl_sync(ALL_LANES, own.control, owner),
            __shfl_sync(ALL_LANES, own.ntiles, owner),
            __shfl_sync(ALL_LANES, own.lengths_nbytes, owner),
            __shfl_sync(ALL_LANES, own.nbytes, owner)};
        unsigned nbytes = 0, entry = 0;
        if (partition.bits >> i & 1)
            valid &=
                read_tile(batch, coding, index, tile,
                          (unsigned)__popc(partition.bits & ((1u << i) - 1)),
                          partition, &nbytes, &entry);
        /* Regions are multiples of 256 bytes: whole partitions fit. */
        if (owner < (int)npartitions) {
            nonzero[tile] = partition.bits >> i & 1;
            entries[tile] = (uint8_t)entry;
            sizes[tile] = (uint16_t)nbytes;
        }
#pragma unroll 1
        for (int distance = 8; distance > 0; distance /= 2)
            nbytes += __shfl_xor_sync(ALL_LANES, nbytes, distance);
        valid &= (partition.control & CONTROL_REDUCED) != 0 ||
                 nbytes == partition.nbytes;
    }
    return valid;
}

/* What the index says of each partition and its tiles. False in a thread that
 * finds something that is not valid. */
template <unsigned NTHREADS>
static __device__ __forceinline__ bool
read_partitions(const struct cuda_batch &batch, enum terp_coding coding,
                const struct tile_index &index, struct partition_share share)
{
    uint64_t *begin = region<uint64_t>(batch, blockIdx.y, batch.at.begin);
    uint8_t *reduced = region<uint8_t>(batch, blockIdx.y, batch.at.reduced);
    const unsigned warp = threadIdx.x / 32;
    const unsigned most =
        is_short<NTHREADS> ? 1 : (unsigned)div_up(batch.npartitions, NTHREADS);
    bool valid = true;

#pragma unroll 1
    for (unsigned i = 0; i < most; i++) {
        const unsigned p = share.first + i;
        const bool is_there = i < share.count;
        const unsigned npartitions =
            (unsigned)__popc(__ballot_sync(ALL_LANES, is_there));
        struct partition own = {0, 0, share.ntiles, share.lengths_nbytes, 0};
        uint64_t at = 0;
        if (is_there) {
            own.bits = share_bits<NTHREADS>(batch, index, share, i);
            at = full_begin(index, share.nfull);
        }
        if (own.bits != 0) {
            own.control = index.controls[share.nfull++];
            const unsigned width = own.control & ~(unsigned)CONTROL_REDUCED;
            const unsigned ntiles = (unsigned)__popc(own.bits);
            share.ntiles += ntiles;
            share.lengths_nbytes += (ntiles * width + 7) / 8;
            const uint64_t end = full_begin(index, share.nfull);
            valid &= at <= end;
            own.nbytes = (unsigned)min_u64(end - at, UINT32_MAX);
        }
        if (is_there && (!is_short<NTHREADS> || warp == 0)) {
            begin[p] = at;
            reduced[p] = (own.control & CONTROL_REDUCED) != 0;
        }
        valid &= read_tiles(batch, coding, index, p, own, npartitions,
                            is_short<NTHREADS> ? 2 * warp : 0,
                            is_short<NTHREADS> ? NTHREADS / 16 : 2);
    }
    if (threadIdx.x == 0)
        begin[batch.npartitions] = index.payload_nbytes;
    return valid;
}

/* Reads all up to the payload, whose place it returns. False in some threads,
 * or in all, where it is not valid. */
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
        if (place_of(*reader) != reader->end)
            return false;
    } else {
        if (terp_coding_selects_entries(coding) &&
            !read_entries(reader, &index))
            return false;
        if (coding == TERP_CODING_CUSTOM) {
            index_reader<NTHREADS> copy = *reader; /* that has an address */
            if (!read_custom<NTHREADS>(
                    region<struct cuda_decode_table>(batch, blockIdx.y,
                                                     batch.at.codebook),
                    &copy, s))
                return false;
            *reader = copy;
        }
        if (!read_places<NTHREADS>(batch, reader, s, &index, &share))
            return false;
    }
    *payload_at_ret = place_of(*reader);
    return read_partitions<NTHREADS>(batch, coding, index, share);
}

#endif
