/* The section of low bits: the places of each tile's numbers and list of codes,
 * and how a block writes them. A tile's numbers are the low bits of its codes;
 * its list has codes that escape from the tile but not from the predictor. */
#pragma once

#include "gpu/block/scan.cuh"

#include "gpu/block/concatenate.cuh"
#include "gpu/engine/state.cuh"
#include "gpu/entropy/codebooks.cuh"

/* The low bits of a tile. */
struct alignas(16) cuda_low_tile {
    uint64_t widths;    /* of the groups, TERP_LOW_WIDTH_NBITS each */
    uint64_t record_at; /* from the first record on */
    uint64_t begin;     /* of the numbers, from the end of all records on; the
                           list follows them */
    uint32_t list_nbytes;
    uint32_t low_nbits;
};

/* The most bytes of a tile's numbers. */
#define LOW_TILE_MAX_NBYTES (TERP_TILE_NSYMBOLS * TERP_LOW_MAX_NBITS / 8)
static_assert(TERP_LOW_TILE_NGROUPS * TERP_LOW_WIDTH_NBITS == 64,
              "The widths of a tile's groups fill a word.");

/* encode: a tile's slot in the region `low_bits`, which holds numbers and list
 * until their place in the stream is known. */
#define LOW_LIST_SLOT_NBYTES ((TERP_LIST_MAX_NBYTES + 31) / 16 * 16)
#define LOW_SLOT_NBYTES (LOW_TILE_MAX_NBYTES + LOW_LIST_SLOT_NBYTES)
static_assert(LOW_TILE_MAX_NBYTES % 16 == 0,
              "Numbers and lists are aligned, and some bytes behind them are "
              "readable.");

/* A warp has a group, of low bits or of tails, and each lane consecutive
 * numbers of it, which take as many bytes as one number has bits. */
#define LOW_LANE_NNUMBERS (TERP_LOW_GROUP_NNUMBERS / 32)
static_assert(LOW_LANE_NNUMBERS == 8, "A lane's numbers are whole bytes.");

/* How many of a lane's numbers from position `at` on exist. */
static __device__ __forceinline__ unsigned
low_lane_nnumbers(uint64_t nvalues, uint64_t at)
{
    return at < nvalues ? (unsigned)min_u64(LOW_LANE_NNUMBERS, nvalues - at)
                        : 0;
}

/* The low bits of a block's chunk. */
struct low_bits_view {
    uint64_t nvalues, ntiles;
    struct cuda_low_tile *tiles;
    uint8_t *slots; /* encode: LOW_SLOT_NBYTES a tile */
};

static __device__ __forceinline__ struct low_bits_view
low_bits_of(const struct cuda_batch &batch)
{
    return {batch.nvalues, batch.ntiles,
            region<struct cuda_low_tile>(batch, batch.at.low_tiles),
            region<uint8_t>(batch, batch.at.low_bits)};
}

/* ---- records ---- */

static __device__ __forceinline__ uint64_t
low_kinds_nbytes(const struct low_bits_view &view)
{
    return packed_nbytes(view.ntiles, TERP_LOW_KIND_NBITS);
}

static __device__ __forceinline__ unsigned
low_kind_of(const struct cuda_low_tile &tile)
{
    return (tile.low_nbits > 0 ? TERP_LOW_HAS_BITS : 0u) |
           (tile.list_nbytes > 0 ? TERP_LOW_HAS_LIST : 0u);
}

static __device__ __forceinline__ unsigned
load_low_kind(const uint8_t *kinds, uint64_t tile)
{
    const unsigned per_byte = 8 / TERP_LOW_KIND_NBITS;

    return kinds[tile / per_byte] >>
               (TERP_LOW_KIND_NBITS * (unsigned)(tile % per_byte)) &
           ((1u << TERP_LOW_KIND_NBITS) - 1);
}

static __device__ __forceinline__ int
low_width_at(uint64_t widths, unsigned group)
{
    return (int)(widths >> (TERP_LOW_WIDTH_NBITS * group) &
                 ((1u << TERP_LOW_WIDTH_NBITS) - 1));
}

/* The number of groups of a tile. */
static __device__ __forceinline__ unsigned
low_tile_ngroups(const struct low_bits_view &view, uint64_t tile)
{
    return (unsigned)min_u64(TERP_LOW_TILE_NGROUPS,
                             terp_low_ngroups(view.nvalues) -
                                 tile * TERP_LOW_TILE_NGROUPS);
}

/* Reads a record to tile->widths, low_nbits and list_nbytes. False: the record
 * is not valid. */
static __device__ __forceinline__ bool
load_low_record(const uint8_t *at, unsigned kind, unsigned ngroups,
                struct cuda_low_tile *tile)
{
    bool valid = true;

    tile->widths = 0;
    tile->low_nbits = tile->list_nbytes = 0;
    if (kind & TERP_LOW_HAS_BITS) {
        const unsigned nbits = ngroups * TERP_LOW_WIDTH_NBITS;
        tile->low_nbits = *at++;
        valid = tile->low_nbits >= 1 && tile->low_nbits <= TERP_LOW_MAX_NBITS;
        tile->widths = load_le(at, (int)terp_low_widths_nbytes(ngroups)) &
                       UINT64_MAX >> (64 - nbits);
        at += terp_low_widths_nbytes(ngroups);
#pragma unroll
        for (unsigned g = 0; g < TERP_LOW_TILE_NGROUPS; g++)
            valid &= (unsigned)low_width_at(tile->widths, g) <= tile->low_nbits;
    }
    if (kind & TERP_LOW_HAS_LIST) {
        tile->list_nbytes = (uint32_t)load_le(at, TERP_LOW_LIST_LENGTH_NBYTES);
        valid &= tile->list_nbytes > 0;
    }
    return valid;
}

/* ---- places ---- */

/* The offset of a group from the tile's first one. Groups before it are full:
 * only the chunk's last group may have fewer numbers. */
static __device__ __forceinline__ unsigned
low_group_begin(uint64_t widths, unsigned group)
{
    const uint64_t nibbles = UINT64_C(0x0F0F0F0F0F0F0F0F);
    const uint64_t before =
        widths & ((UINT64_C(1) << (TERP_LOW_WIDTH_NBITS * group)) - 1);
    const uint64_t pairs = (before & nibbles) + (before >> 4 & nibbles);

    static_assert(TERP_LOW_TILE_NGROUPS * TERP_LOW_MAX_NBITS < 256,
                  "A byte holds the sum of a tile's widths.");
    return (unsigned)(pairs * UINT64_C(0x0101010101010101) >> 56) *
           (TERP_LOW_GROUP_NNUMBERS / 8);
}

/* Bytes of a tile's low numbers. */
static __device__ __forceinline__ unsigned
low_numbers_nbytes(const struct low_bits_view &view, uint64_t tile,
                   uint64_t widths)
{
    const unsigned last = low_tile_ngroups(view, tile) - 1;

    return low_group_begin(widths, last) +
           (unsigned)terp_low_group_nbytes(view.nvalues,
                                           tile * TERP_LOW_TILE_NGROUPS + last,
                                           low_width_at(widths, last));
}

/* Bytes of all records, and of all numbers and lists behind them. */
struct low_sizes {
    uint64_t records_nbytes, nbytes;
};

/* Finds where the records and low bits of tiles begin, and writes view.tiles.
 * kind_of(tile) returns the kind of a record, and load(tile, &low) fills in
 * widths, low_nbits and list_nbytes; low.record_at is set before. F and G are
 * lambdas: low_bits.cu passes ones that read view.tiles, stream_read.cu ones
 * that read a stream. A block of NTHREADS threads calls it, a thread a tile;
 * barriers protect s_scan. */
template <unsigned NTHREADS, typename F, typename G>
static __device__ __forceinline__ struct low_sizes
place_low_tiles(const struct low_bits_view &view,
                block_scan<unsigned long long, NTHREADS> &s_scan,
                const F &kind_of, const G &load)
{
    struct low_sizes sizes = {0, 0};

#pragma unroll 1
    for (uint64_t first = 0; first < view.ntiles; first += NTHREADS) {
        const uint64_t tile = first + threadIdx.x;
        const bool exists = tile < view.ntiles;
        unsigned long long nbytes = 0, before, all;
        struct cuda_low_tile low = {};
        if (exists)
            nbytes = terp_low_record_nbytes(kind_of(tile),
                                            low_tile_ngroups(view, tile));
        __syncthreads(); /* no thread still reads s_scan */
        before = scan_block(s_scan, nbytes, &all);
        low.record_at = sizes.records_nbytes + before;
        sizes.records_nbytes += all;
        nbytes = 0;
        if (exists) {
            load(tile, &low);
            nbytes =
                low_numbers_nbytes(view, tile, low.widths) + low.list_nbytes;
        }
        __syncthreads();
        before = scan_block(s_scan, nbytes, &all);
        low.begin = sizes.nbytes + before;
        sizes.nbytes += all;
        if (exists)
            view.tiles[tile] = low;
    }
    return sizes;
}

/* ---- writing ---- */

/* A warp writes the kind, record, numbers and list of a tile to the section at
 * `section`. */
static __device__ __forceinline__ void
write_low_bits(const struct low_bits_view &view, uint64_t records_nbytes,
               uint64_t tile, uint8_t *section)
{
    const unsigned lane = threadIdx.x % 32;
    const unsigned per_byte = 8 / TERP_LOW_KIND_NBITS;
    const struct cuda_low_tile low = view.tiles[tile];
    const unsigned kind = low_kind_of(low);
    const unsigned ngroups = low_tile_ngroups(view, tile);
    const unsigned widths_nbytes =
        kind & TERP_LOW_HAS_BITS ? terp_low_widths_nbytes(ngroups) : 0;
    const unsigned numbers_nbytes = low_numbers_nbytes(view, tile, low.widths);
    const uint8_t *slot = view.slots + tile * LOW_SLOT_NBYTES;
    uint8_t *record = section + low_kinds_nbytes(view) + low.record_at;
    uint8_t *to = section + low_kinds_nbytes(view) + records_nbytes + low.begin;

    if (tile % per_byte == 0 && lane == 0) {
        unsigned kinds = 0;
        for (unsigned i = 0; i < per_byte && tile + i < view.ntiles; i++)
            kinds |= low_kind_of(view.tiles[tile + i])
                     << (TERP_LOW_KIND_NBITS * i);
        section[tile / per_byte] = (uint8_t)kinds;
    }
    if ((kind & TERP_LOW_HAS_BITS) && lane == 0)
        *record = (uint8_t)low.low_nbits;
    if (kind & TERP_LOW_HAS_BITS)
        record++;
    if (lane < widths_nbytes)
        record[lane] = (uint8_t)(low.widths >> (8 * lane));
    if ((kind & TERP_LOW_HAS_LIST) && lane < TERP_LOW_LIST_LENGTH_NBYTES)
        record[widths_nbytes + lane] = (uint8_t)(low.list_nbytes >> (8 * lane));
    copy_bytes(to, slot, numbers_nbytes, lane, 32);
    copy_bytes(to + numbers_nbytes, slot + LOW_TILE_MAX_NBYTES, low.list_nbytes,
               lane, 32);
}
