/* The section of special values as blocks of threads walk over it.
 * doc/format.md, "Specials"; the same as in cpu/sections/specials.c. */
#ifndef TERP_GPU_SECTIONS_SPECIALS_CUH
#define TERP_GPU_SECTIONS_SPECIALS_CUH

#include "codec/format/bytes.h"
#include "gpu/engine/state.cuh"

#define SPECIALS_MAX_PALETTE 15
#define SPECIALS_LAG_SHIFT 4
#define SPECIALS_GROUP_NNUMBERS 64
#define SPECIALS_MAX_WIDTH 56

enum specials_field {
    SPECIALS_GAP,
    SPECIALS_MORE,
    SPECIALS_COLOR,
    SPECIALS_NFIELDS
};

/* Groups are found one after another, since each tells its own length. While
 * decoding, `runs` holds what was found of every so many of them, a batch, so
 * that batches are read side by side. */
#define SPECIALS_BATCH_NGROUPS 16
#define SPECIALS_BATCH_NRUNS (SPECIALS_BATCH_NGROUPS * SPECIALS_GROUP_NNUMBERS)

struct specials_batch {
    uint64_t list_at[SPECIALS_NFIELDS]; /* first group, in the stream */
    uint64_t end;                       /* of the last run before */
    uint64_t nspecials;                 /* before */
    uint8_t width[SPECIALS_NFIELDS][SPECIALS_BATCH_NGROUPS];
};
/* A chunk has no more runs than values, and the region has 8 bytes for each 64
 * of these. */
static_assert(sizeof(struct specials_batch) * 8 <= SPECIALS_BATCH_NRUNS &&
                  3 * sizeof(struct specials_batch) <=
                      2 * SPECIALS_BATCH_NRUNS / 8 + 8 &&
                  2 * sizeof(struct specials_batch) <= 256,
              "batches of all runs fit");

/* Where a coded chunk's section begins: behind its model, or its value. */
static __device__ inline uint64_t
specials_begin(const struct cuda_batch &batch, const struct cuda_chunk &chunk)
{
    uint64_t value_nbytes = (uint64_t)batch.value_nbytes;

    if (chunk.coding == TERP_CODING_CONSTANT) /* its frame has no bound */
        return batch.frame_nbytes - sizeof chunk.bound + value_nbytes;
    return batch.frame_nbytes + 1 +
           (chunk.prediction == TERP_PREDICTION_LORENZO
                ? 1
                : value_nbytes + 2 * (uint64_t)batch.d_layout->nlevels);
}

/* The head of a section. */
struct specials_head {
    uint64_t nruns, lag;
    int ncolors;
    int nfields;
    uint64_t lists_at;
};

static __device__ inline bool
specials_read_head(const uint8_t *stream, uint64_t at, uint64_t end,
                   const struct terp_layout *layout,
                   struct specials_head *head_ret)
{
    struct reader reader = {stream + at, stream + end, false};
    uint64_t nruns = read_uleb(&reader);
    unsigned byte = (unsigned)read_le(&reader, 1);
    unsigned ncolors = byte & SPECIALS_MAX_PALETTE;
    unsigned lagged = byte >> SPECIALS_LAG_SHIFT;
    bool valid =
        !reader.underflow && nruns <= layout->nvalues && lagged <= TERP_NDIMS;

    head_ret->nruns = nruns;
    head_ret->lag = 0;
    head_ret->ncolors = (int)ncolors;
    head_ret->nfields = ncolors > 1 ? SPECIALS_NFIELDS : SPECIALS_COLOR;
    head_ret->lists_at = (uint64_t)(reader.at - stream);
    if (valid && lagged > 0) {
        head_ret->lag = terp_mask_delta_distance(layout, (int)lagged);
        valid = ncolors == 1 && head_ret->lag > 0;
    }
    return valid;
}

/* Bytes of a group of `n` numbers. */
static __device__ inline unsigned
specials_group_nbytes(unsigned n, unsigned width)
{
    return 1 + (n * width + 7) / 8;
}

/* Where group `i` of a batch's list begins: those before it are full. */
static __device__ inline uint64_t
specials_group_at(const struct specials_batch &batch, int field, unsigned i)
{
    uint64_t at = batch.list_at[field];
    for (unsigned j = 0; j < i; j++)
        at += specials_group_nbytes(SPECIALS_GROUP_NNUMBERS,
                                    batch.width[field][j]);
    return at;
}

/* Number `i` of the group at `at`. */
static __device__ inline uint64_t
specials_number(const uint8_t *stream, uint64_t at, int width, unsigned i)
{
    return unpack_bits(stream + at + 1, (uint64_t)i * (unsigned)width, width);
}

/* Fetches a window of the bytes in [at, end), by threads from `first` on. */
#define SPECIALS_WINDOW_NBYTES 4096
static __device__ inline void
specials_fetch(const uint8_t *stream, uint64_t at, uint64_t end, unsigned first,
               uint8_t *s_window)
{
    for (unsigned i = threadIdx.x - first;
         i < SPECIALS_WINDOW_NBYTES && at + i < end; i += blockDim.x - first)
        s_window[i] = stream[at + i];
}

/* Walks over one list by the bytes in [at, end). For all threads of a block of
 * two warps or more: the first thread walks over a window, which no group is
 * longer than, while the other warps fetch the next. Returns where the list
 * ends, or 0 if it does not. */
static __device__ inline uint64_t
specials_walk_list(const uint8_t *stream, uint64_t at, uint64_t end,
                   uint64_t nruns, int field, struct specials_batch *batches)
{
    __shared__ uint8_t s_window[2][SPECIALS_WINDOW_NBYTES];
    __shared__ uint64_t s_at[2], s_left[2];
    uint64_t window = at;
    uint64_t ngroups = div_up(nruns, SPECIALS_GROUP_NNUMBERS), left = ngroups;

    specials_fetch(stream, window, end, 0, s_window[0]);
    __syncthreads();
    for (int k = 0; left > 0 && at < end; k ^= 1) {
        if (threadIdx.x == 0) {
            unsigned next = (unsigned)(at - window), widest = 0;
            unsigned nlast = (unsigned)(nruns - 1) % SPECIALS_GROUP_NNUMBERS;
            unsigned i = (unsigned)(ngroups - left) % SPECIALS_BATCH_NGROUPS;
            struct specials_batch *batch =
                &batches[(ngroups - left) / SPECIALS_BATCH_NGROUPS];
            unsigned nbytes =
                (unsigned)min_u64(SPECIALS_WINDOW_NBYTES, end - window);
            for (; left > 0 && next < nbytes; left--) {
                unsigned width = s_window[k][next];
                if (i == 0)
                    batch->list_at[field] = window + next;
                batch->width[field][i] = (uint8_t)width;
                next += specials_group_nbytes(
                    left > 1 ? SPECIALS_GROUP_NNUMBERS : nlast + 1, width);
                widest = width > widest ? width : widest;
                if (++i == SPECIALS_BATCH_NGROUPS) {
                    i = 0;
                    batch++;
                }
            }
            s_at[k] = widest > SPECIALS_MAX_WIDTH ? UINT64_MAX : window + next;
            s_left[k] = left;
        } else if (threadIdx.x >= 32) {
            specials_fetch(stream, window + SPECIALS_WINDOW_NBYTES, end, 32,
                           s_window[k ^ 1]);
        }
        __syncthreads();
        at = s_at[k];
        left = s_left[k];
        window += SPECIALS_WINDOW_NBYTES;
    }
    return left == 0 && at <= end ? at : 0;
}

/* Sums of a batch, by a warp: values up to the end of its last run (`end`)
 * and specials. False where they exceed `nvalues` or a color does not exist. */
static __device__ inline bool
specials_sum_batch(const uint8_t *stream, const struct specials_head &head,
                   uint64_t nvalues, uint64_t at, struct specials_batch *batch)
{
    unsigned lane = threadIdx.x % 32;
    uint64_t left = head.nruns - at * SPECIALS_BATCH_NRUNS;
    unsigned nruns = (unsigned)min_u64(SPECIALS_BATCH_NRUNS, left);
    unsigned long long nwalked = 0, nspecials = 0;
    uint64_t group_at[SPECIALS_NFIELDS] = {batch->list_at[0], batch->list_at[1],
                                           batch->list_at[2]};
    bool valid = true;

    for (unsigned group = 0; group * SPECIALS_GROUP_NNUMBERS < nruns; group++) {
        unsigned first = group * SPECIALS_GROUP_NNUMBERS;
        for (unsigned i = lane; i < SPECIALS_GROUP_NNUMBERS; i += 32) {
            uint64_t number[SPECIALS_NFIELDS] = {0, 0, 0};
            if (first + i >= nruns)
                break;
            for (int field = 0; field < SPECIALS_NFIELDS; field++)
                if (field < head.nfields)
                    number[field] = specials_number(
                        stream, group_at[field], batch->width[field][group], i);
            valid &= number[SPECIALS_GAP] < nvalues &&
                     number[SPECIALS_MORE] < nvalues &&
                     (head.ncolors == 0 ||
                      number[SPECIALS_COLOR] < (uint64_t)head.ncolors);
            nspecials += number[SPECIALS_MORE] + 1;
            nwalked += number[SPECIALS_GAP] + number[SPECIALS_MORE] + 1;
        }
        for (int field = 0; field < SPECIALS_NFIELDS; field++)
            group_at[field] += specials_group_nbytes(
                SPECIALS_GROUP_NNUMBERS, batch->width[field][group]);
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        nspecials += __shfl_xor_sync(0xFFFFFFFF, nspecials, distance);
        nwalked += __shfl_xor_sync(0xFFFFFFFF, nwalked, distance);
    }
    valid = __all_sync(0xFFFFFFFF, valid) && nwalked <= nvalues;
    if (lane == 0) {
        batch->end = nwalked;
        batch->nspecials = nspecials;
    }
    return valid;
}

/* Turns sums of batches into sums of those before, by a warp. */
static __device__ inline void
specials_add_up(struct specials_batch *batches, uint64_t nbatches,
                unsigned long long *end_ret, unsigned long long *nspecials_ret)
{
    unsigned lane = threadIdx.x % 32;
    unsigned long long end = 0, nspecials = 0;

    for (uint64_t first = 0; first < nbatches; first += 32) {
        bool is_there = first + lane < nbatches;
        struct specials_batch *batch = &batches[is_there ? first + lane : 0];
        unsigned long long own_end = is_there ? batch->end : 0;
        unsigned long long own_nspecials = is_there ? batch->nspecials : 0;
        unsigned long long sum_end = own_end, sum_nspecials = own_nspecials;
        for (unsigned distance = 1; distance < 32; distance *= 2) {
            unsigned long long before_end =
                __shfl_up_sync(0xFFFFFFFF, sum_end, distance);
            unsigned long long before_nspecials =
                __shfl_up_sync(0xFFFFFFFF, sum_nspecials, distance);
            sum_end += lane >= distance ? before_end : 0;
            sum_nspecials += lane >= distance ? before_nspecials : 0;
        }
        if (is_there) {
            batch->end = end + sum_end - own_end;
            batch->nspecials = nspecials + sum_nspecials - own_nspecials;
        }
        end += __shfl_sync(0xFFFFFFFF, sum_end, 31);
        nspecials += __shfl_sync(0xFFFFFFFF, sum_nspecials, 31);
    }
    *end_ret = end;
    *nspecials_ret = nspecials;
}

/* Walks over the section at `at` of a stream of `end` bytes, for all threads
 * of a block (whole warps, at least two). False, for all of them, where it is
 * corrupt. Else the number of values in runs and where the section ends;
 * `batches` (the chunk's region `runs`) are then ready for cuda_specials_mask
 * and cuda_specials_read. */
static __device__ inline bool
specials_skip(const uint8_t *stream, uint64_t at, uint64_t end,
              const struct terp_layout *layout, int value_nbytes,
              struct specials_batch *batches, unsigned long long *nspecials_ret,
              uint64_t *end_ret)
{
    const uint64_t nvalues = layout->nvalues;
    __shared__ unsigned long long s_end, s_nspecials;
    struct specials_head head;
    unsigned warp = threadIdx.x / 32, nwarps = blockDim.x / 32;
    bool valid = true;

    if (!specials_read_head(stream, at, end, layout, &head))
        return false;
    at = head.lists_at;
    for (int field = 0; field < head.nfields; field++) {
        at = specials_walk_list(stream, at, end, head.nruns, field, batches);
        if (at == 0)
            return false;
    }
    uint64_t nbatches = div_up(head.nruns, SPECIALS_BATCH_NRUNS);
    for (uint64_t i = warp; i < nbatches; i += nwarps)
        valid &= specials_sum_batch(stream, head, nvalues, i, &batches[i]);
    if (__syncthreads_or(!valid))
        return false;
    if (warp == 0) {
        unsigned long long sum_end, sum_nspecials;
        specials_add_up(batches, nbatches, &sum_end, &sum_nspecials);
        s_end = sum_end;
        s_nspecials = sum_nspecials;
    }
    __syncthreads();
    uint64_t nvalues_stored =
        head.ncolors == 0 ? s_nspecials : (uint64_t)head.ncolors;
    *nspecials_ret = s_nspecials;
    *end_ret = at + nvalues_stored * (uint64_t)value_nbytes;
    return s_end <= nvalues &&
           nvalues_stored <= (end - at) / (uint64_t)value_nbytes;
}

#endif
