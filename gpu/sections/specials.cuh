/* Finds the end of the section of special values, by a block: reads its head,
 * walks over its lists, and makes the sums that let other blocks read runs side
 * by side. doc/format.md, "Specials"; cpu/sections/specials.c reads the same.
 */
#pragma once

#include "codec/format/sections.h"
#include "gpu/block/warp.cuh"
#include "gpu/engine/state.cuh"

/* A group's width gives its length, so groups can only be found one after
 * another. For each batch of groups the region `runs` holds the facts from
 * which a block can read the batch alone. */
#define SPECIALS_BATCH_NGROUPS 16
#define SPECIALS_BATCH_NRUNS \
    (SPECIALS_BATCH_NGROUPS * TERP_SPECIALS_GROUP_NNUMBERS)

struct specials_batch {
    uint64_t list_at[TERP_SPECIALS_NFIELDS]; /* of the batch's first group */
    uint64_t end;       /* where the last run before the batch ends */
    uint64_t nspecials; /* special values of all runs before */
    uint8_t width[TERP_SPECIALS_NFIELDS][SPECIALS_BATCH_NGROUPS];
};
/* A chunk has no more runs than values, and the region `runs` has 8 bytes for
 * each 64 values, a multiple of 256 in all. */
static_assert(sizeof(struct specials_batch) * 8 <= SPECIALS_BATCH_NRUNS &&
                  3 * sizeof(struct specials_batch) <=
                      2 * SPECIALS_BATCH_NRUNS / 8 + 8 &&
                  2 * sizeof(struct specials_batch) <= 256,
              "The region `runs` holds the batches of all runs.");

/* Where the section begins: behind the model or, for a constant chunk, the
 * value. */
static __device__ inline uint64_t
specials_begin(const struct cuda_batch &batch, const struct cuda_chunk &chunk)
{
    if (chunk.coding == TERP_CODING_CONSTANT) /* its frame has no bound */
        return batch.dims_end + batch.carrier_head_nbytes +
               cuda_scale_nbytes(batch, chunk) + (uint64_t)batch.carrier_nbytes;
    return batch.model_at + cuda_scale_nbytes(batch, chunk) +
           cuda_prefixes_nbytes(batch, chunk) +
           terp_model_nbytes(
               chunk.prediction, batch.value_nbytes, batch.d_layout->nlevels,
               chunk.model.exact.significand > 0, chunk.model.tail_nbits > 0) +
           (chunk.prediction == TERP_PREDICTION_LOSSLESS &&
                    chunk.model.lossless.center != 0
                ? (uint64_t)batch.value_nbytes
                : 0);
}

/* The head of a section, and the offset of its lists in the stream. */
struct specials_head : terp_specials_head {
    uint64_t lists_at;
};

static __device__ inline bool
specials_read_head(const uint8_t *stream, uint64_t at, uint64_t end,
                   const struct terp_layout *layout,
                   struct specials_head *head_ret)
{
    struct reader reader = {stream + at, stream + end, false};
    bool valid = terp_specials_read_head(&reader, layout, head_ret);

    head_ret->lists_at = (uint64_t)(reader.at - stream);
    return valid;
}

/* Bytes of a group of `n` numbers, with the byte of its width. Like
 * packed_nbytes, but faster, in 32 bits: one thread goes from group to group.
 */
static __device__ inline unsigned
specials_group_nbytes(unsigned n, unsigned width)
{
    return 1 + (n * width + 7) / 8;
}

/* The offset of group `i` of a batch's list. The groups before it are full. */
static __device__ inline uint64_t
specials_group_at(const struct specials_batch &batch, int field, unsigned i)
{
    uint64_t at = batch.list_at[field];
    for (unsigned j = 0; j < i; j++)
        at += specials_group_nbytes(TERP_SPECIALS_GROUP_NNUMBERS,
                                    batch.width[field][j]);
    return at;
}

/* Number `i` of the group that begins at `at`. */
static __device__ inline uint64_t
specials_number(const uint8_t *stream, uint64_t at, int width, unsigned i)
{
    return unpack_bits(stream + at + 1, (uint64_t)i * (unsigned)width, width);
}

/* Bytes of a window, which is the part of a list in shared memory. It must be
 * longer than any group. Two windows are in use. */
#define SPECIALS_WINDOW_NBYTES 4096

/* Threads from number `first` on copy a window of the bytes in [at, end) to
 * shared memory. */
static __device__ inline void
specials_fetch(const uint8_t *stream, uint64_t at, uint64_t end, unsigned first,
               uint8_t *s_window)
{
    for (unsigned i = threadIdx.x - first;
         i < SPECIALS_WINDOW_NBYTES && at + i < end; i += blockDim.x - first)
        s_window[i] = stream[at + i];
}

/* Walks over the list that begins at `at`, and records the places and widths of
 * its groups in `batches`. All threads of a block of at least two warps call
 * it: thread 0 walks over a window while the other warps fetch the next one; a
 * barrier ends each window. Returns where the list ends; 0 if it is not valid
 * or does not end before `end`. */
static __device__ inline uint64_t
specials_walk_list(const uint8_t *stream, uint64_t at, uint64_t end,
                   uint64_t nruns, int field, struct specials_batch *batches)
{
    __shared__ uint8_t s_window[2][SPECIALS_WINDOW_NBYTES];
    __shared__ uint64_t s_at[2], s_left[2];
    uint64_t window = at;
    uint64_t ngroups = div_up(nruns, TERP_SPECIALS_GROUP_NNUMBERS),
             left = ngroups;

    specials_fetch(stream, window, end, 0, s_window[0]);
    __syncthreads();
    for (int k = 0; left > 0 && at < end; k ^= 1) {
        if (threadIdx.x == 0) {
            unsigned next = (unsigned)(at - window), widest = 0;
            unsigned nlast =
                (unsigned)(nruns - 1) % TERP_SPECIALS_GROUP_NNUMBERS;
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
                    left > 1 ? TERP_SPECIALS_GROUP_NNUMBERS : nlast + 1, width);
                widest = width > widest ? width : widest;
                if (++i == SPECIALS_BATCH_NGROUPS) {
                    i = 0;
                    batch++;
                }
            }
            s_at[k] =
                widest > TERP_SPECIALS_MAX_NBITS ? UINT64_MAX : window + next;
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

/* A warp sums up batch `at`: all values up to the end of its last run
 * (batch->end), and special values. False: runs exceed `nvalues`, or a color
 * does not exist. */
static __device__ inline bool
specials_sum_batch(const uint8_t *stream, const struct specials_head &head,
                   uint64_t nvalues, uint64_t at, struct specials_batch *batch)
{
    unsigned lane = threadIdx.x % 32;
    uint64_t left = head.nruns - at * SPECIALS_BATCH_NRUNS;
    unsigned nruns = (unsigned)min_u64(SPECIALS_BATCH_NRUNS, left);
    unsigned long long nwalked = 0, nspecials = 0;
    uint64_t group_at[TERP_SPECIALS_NFIELDS] = {
        batch->list_at[0], batch->list_at[1], batch->list_at[2]};
    bool valid = true;

    for (unsigned group = 0; group * TERP_SPECIALS_GROUP_NNUMBERS < nruns;
         group++) {
        unsigned first = group * TERP_SPECIALS_GROUP_NNUMBERS;
        for (unsigned i = lane; i < TERP_SPECIALS_GROUP_NNUMBERS; i += 32) {
            uint64_t number[TERP_SPECIALS_NFIELDS] = {0, 0, 0};
            if (first + i >= nruns)
                break;
            for (int field = 0; field < TERP_SPECIALS_NFIELDS; field++)
                if (field < head.nfields)
                    number[field] = specials_number(
                        stream, group_at[field], batch->width[field][group], i);
            valid &= number[TERP_SPECIALS_GAP] < nvalues &&
                     number[TERP_SPECIALS_MORE] < nvalues &&
                     (head.ncolors == 0 ||
                      number[TERP_SPECIALS_COLOR] < (uint64_t)head.ncolors);
            nspecials += number[TERP_SPECIALS_MORE] + 1;
            nwalked +=
                number[TERP_SPECIALS_GAP] + number[TERP_SPECIALS_MORE] + 1;
        }
        for (int field = 0; field < TERP_SPECIALS_NFIELDS; field++)
            group_at[field] += specials_group_nbytes(
                TERP_SPECIALS_GROUP_NNUMBERS, batch->width[field][group]);
    }
    nspecials = warp_sum(nspecials);
    nwalked = warp_sum(nwalked);
    valid = __all_sync(FULL_WARP_MASK, valid) && nwalked <= nvalues;
    if (lane == 0) {
        batch->end = nwalked;
        batch->nspecials = nspecials;
    }
    return valid;
}

/* A warp replaces the sums of each batch by the sums of all batches before it,
 * and returns the sums of all. */
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
        unsigned long long sum_end = warp_inclusive_sum(own_end);
        unsigned long long sum_nspecials = warp_inclusive_sum(own_nspecials);
        if (is_there) {
            batch->end = end + sum_end - own_end;
            batch->nspecials = nspecials + sum_nspecials - own_nspecials;
        }
        end += __shfl_sync(FULL_WARP_MASK, sum_end, 31);
        nspecials += __shfl_sync(FULL_WARP_MASK, sum_nspecials, 31);
    }
    *end_ret = end;
    *nspecials_ret = nspecials;
}

/* Walks over the section at `at` of a stream of `end` bytes. All threads of a
 * block of at least two warps call it and get the same result; false: the
 * section is corrupt. Else *nspecials_ret is the number of values in runs,
 * *end_ret the section's end, and `batches` (the region `runs`) are ready for
 * cuda_specials_mask and cuda_specials_read. Shared: 8 KB of windows. */
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
