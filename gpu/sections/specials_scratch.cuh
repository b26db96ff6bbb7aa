/* Where the steps of writing special values keep what they tell each
 * other. For gpu/sections/specials_write.cu alone. */
#ifndef TERP_GPU_SECTIONS_SPECIALS_SCRATCH_CUH
#define TERP_GPU_SECTIONS_SPECIALS_SCRATCH_CUH

#include <cub/cub.cuh>

#include "gpu/sections/specials.cuh"

#define NTHREADS 1024
#define NWARPS (NTHREADS / 32)
#define ALL_LANES 0xFFFFFFFF

/* A thread's values in `find`, bits of the bit maps in `list` and `pack`. */
#define NITEMS 16
#define SEGMENT_NVALUES (NTHREADS * NITEMS)

/* Groups that a block measures or packs at a time. */
#define PACK_NGROUPS 64
#define PACK_NRUNS (PACK_NGROUPS * SPECIALS_GROUP_NNUMBERS)

/* Segments of a chunk that one block does, and blocks of a larger one: what a
 * large device runs at once, so that they are soon gone where nothing is to
 * do. */
#ifndef CUDA_ALONE_MAX_NSEGMENTS
#define CUDA_ALONE_MAX_NSEGMENTS 32
#endif
#define MAX_NBLOCKS 264

/* Colors as a block meets them, and where first. */
struct color_table {
    uint32_t ncolors; /* SPECIALS_MAX_PALETTE + 1: too many */
    uint64_t color[SPECIALS_MAX_PALETTE];
    uint64_t first[SPECIALS_MAX_PALETTE];
};

/* Kinds of runs: of specials, of one color, and with the lag of dimension d
 * KIND_COLOR + d. */
enum {
    KIND_SPECIAL,
    KIND_COLOR,
    NKINDS = KIND_COLOR + 1 + TERP_NDIMS
};

struct segment {
    uint64_t run_at, special_at; /* runs and specials before */
    uint32_t nruns[NKINDS];
    uint32_t nspecials;
};

/* What the steps tell each other. Places are bytes of the stream. */
struct section {
    uint64_t nruns, lag;
    uint32_t lagged; /* the lag's dimension; 0: none */
    uint32_t ncolors;
    uint32_t nfields;
    uint64_t palette[SPECIALS_MAX_PALETTE];
    uint64_t values_at;
};

/* Where they do, in the region `lattice`. */
struct room {
    struct section *section;
    struct color_table *tables;
    struct segment *segments;
    uint16_t *run_bits; /* runs of one color begin */
    uint64_t *batch_at[SPECIALS_NFIELDS];
    uint8_t *width[SPECIALS_NFIELDS];
    uint32_t *run_begin, *run_end;
    uint64_t max_nruns;
    uint64_t nsegments;
};

/* Filled in by the first thread, into shared memory, for all. */
static __device__ void
lay_out(const struct cuda_batch &batch, struct room &room)
{
    uint8_t *at = region<uint8_t>(batch, blockIdx.y, batch.at.lattice);
    uint8_t *end = at + batch.npartitions * CUDA_PARTITION_MAX_NBYTES;

    if (threadIdx.x != 0)
        return;
    room.nsegments = div_up(batch.nvalues, SEGMENT_NVALUES);
    room.section = (struct section *)at;
    at += sizeof *room.section;
    room.tables = (struct color_table *)at;
    at += min_u64(room.nsegments, MAX_NBLOCKS) * sizeof *room.tables;
    room.segments = (struct segment *)at;
    at += room.nsegments * sizeof *room.segments;
    room.run_bits = (uint16_t *)at;
    at += room.nsegments * (SEGMENT_NVALUES / 8);
    /* A run has two places, a share in three widths and in three places. */
    const uint64_t nbytes =
        PACK_NRUNS * 8 + SPECIALS_NFIELDS * (PACK_NGROUPS + 8);
    uint64_t nbatches = (uint64_t)(end - at) / nbytes;
    room.max_nruns = nbatches * PACK_NRUNS;
    for (int field = 0; field < SPECIALS_NFIELDS; field++) {
        room.batch_at[field] = (uint64_t *)at;
        at += nbatches * 8;
    }
    for (int field = 0; field < SPECIALS_NFIELDS; field++) {
        room.width[field] = at;
        at += nbatches * PACK_NGROUPS;
    }
    room.run_begin = (uint32_t *)at;
    room.run_end = room.run_begin + room.max_nruns;
}

/* Sums before each thread's number; `*sum` grows by that of the block. */
static __device__ uint64_t
sum_before(uint64_t number, uint64_t *sum)
{
    typedef cub::BlockScan<unsigned long long, NTHREADS,
                           cub::BLOCK_SCAN_WARP_SCANS>
        scan;
    __shared__ typename scan::TempStorage s_scan;
    unsigned long long before, all;

    __syncthreads();
    scan(s_scan).ExclusiveSum((unsigned long long)number, before, all);
    before += *sum;
    *sum += all;
    return before;
}

/* 16 bits of a bit map of values. */
static __device__ __forceinline__ unsigned
piece_of(const uint16_t *bits, uint64_t i, uint64_t nvalues)
{
    if (i * 16 >= nvalues)
        return 0;
    uint64_t left = nvalues - i * 16;
    return left >= 16 ? bits[i] : bits[i] & ((1u << left) - 1);
}

/* The same of what differs from the bit map itself with a lag. */
static __device__ __forceinline__ unsigned
lagged_piece_of(const uint16_t *bits, uint64_t i, uint64_t nvalues,
                uint64_t lag)
{
    uint64_t nwords = lag / 16, left = nvalues - i * 16;
    unsigned piece = piece_of(bits, i, nvalues), shift = (unsigned)(lag % 16);

    if (lag == 0 || i < nwords || i * 16 >= nvalues)
        return piece;
    piece ^= (unsigned)bits[i - nwords] << shift;
    if (shift > 0 && i > nwords)
        piece ^= (unsigned)bits[i - nwords - 1] >> (16 - shift);
    return piece & (left >= 16 ? 0xFFFF : (1u << left) - 1);
}

#endif
