/* Functions of the engine's table that measure, split, join, gather or restore
 * values. */
#include "codec/format/copies.h"
#include "codec/format/parts.h"
#include "codec/format/types.h"
#include "codec/model/bound.h"
#include "codec/model/coarse.h"
#include "codec/model/psnr.h"
#include "gpu/block/swap.cuh"
#include "gpu/engine/call.cuh"
#include "gpu/engine/places.cuh"
#include "gpu/engine/session.cuh"
#include "gpu/predict/measure.cuh"
#include "gpu/predict/repeats.cuh"

#define NTHREADS 256

/* ---- memory ---- */

/* Bytes of device memory for a copy of each chunk, if the chunks at `src` are
 * in host memory; else 0. */
static uint64_t
upload_stride(const struct terp_session *session, const void *src,
              uint64_t nbytes)
{
    return cuda_session_is_host(session, src) ? place_aligned(nbytes) : 0;
}

/* The device address of chunk k: src[k], or its copy in the memory at `at`. */
static const void *
on_device(const void *const *src, uint8_t *at, uint64_t stride, uint64_t k)
{
    return stride > 0 ? at + k * stride : src[k];
}

/* Copies n chunks to device memory at `at`. Copies nothing if `stride` is 0:
 * the chunks are in device memory already. */
static void
upload(struct cuda_work &work, const void *const *src, uint64_t n, uint8_t *at,
       uint64_t stride, uint64_t nbytes)
{
    for (uint64_t k = 0; stride > 0 && k < n; k++)
        work.copy(at + k * stride, src[k], nbytes);
}

static void
download(struct cuda_work &work, void *const *dst, uint64_t n,
         const uint8_t *at, uint64_t stride, uint64_t nbytes)
{
    for (uint64_t k = 0; stride > 0 && k < n; k++)
        work.copy(dst[k], at + k * stride, nbytes);
}

/* ---- ranges and errors ---- */

enum terp_status
cuda_values_measure(struct terp_session *session,
                    const struct terp_params *params,
                    const struct terp_chunk *chunk, uint64_t n,
                    const void *const *src, struct terp_measure *measures_ret)
{
    const struct terp_params any = terp_params_under(params, 1);
    const cuda_host_array<struct cuda_found_domain> found(n);
    const cuda_host_array<uint64_t> nbytes(n);
    enum terp_status st = TERP_ERR_MEMORY;
    struct cuda_call call = {};

    call.chunk = chunk;
    call.params = &any;
    call.is_part = true;
    call.nchunks = n;
    call.src = src;
    call.dst_nbytes = nbytes;
    call.found = found;
    call.src_on_host = cuda_session_is_host(session, src[0]);
    call.measures = true;
    if (found != NULL && nbytes != NULL)
        st = cuda_call_do(session, &call);
    for (uint64_t k = 0; st == TERP_OK && k < n; k++) {
        struct terp_measure *measure = &measures_ret[k];
        *measure = {};
        const struct terp_bound_range *range = &found[k].bound_range;
        measure->min = range->min;
        measure->max = range->max;
        measure->half_range = found[k].min < found[k].max
                                  ? terp_half_range(range->min, range->max)
                                  : 0;
        measure->nspecials =
            found[k].device.nscanned_specials - range->nguessed;
        for (int i = 0; i < TERP_NFILLS; i++)
            measure->fill_bits[i] = found[k].fills[i];
    }
    return st;
}

static enum terp_status
compare(struct terp_session *session, const struct terp_chunk *chunk,
        uint64_t n, const void *const *src, void *const *others,
        struct terp_measure *measures)
{
    const uint64_t nvalues = terp_chunk_nvalues(chunk);
    const uint64_t nbytes = terp_chunk_nbytes(chunk);
    const uint64_t stride = upload_stride(session, src[0], nbytes);
    const uint64_t sums_stride =
        place_aligned(8 * div_up(nvalues, TERP_SQUARES_BLOCK_NVALUES));
    const cuda_session_list<struct cuda_measured> list(
        session, n, n * (sums_stride + stride));
    uint8_t *sums = list.more(), *values = sums + n * sums_stride;

    if (!list.is_made())
        return TERP_ERR_MEMORY;
    for (uint64_t k = 0; k < n; k++) {
        struct cuda_measured *measured = &list.items[k];
        *measured = {};
        measured->values = on_device(src, values, stride, k);
        measured->decoded = others[k];
        for (int i = 0; i < TERP_NFILLS; i++)
            measured->fills[i] = measures[k].fill_bits[i];
        measured->half_range = measures[k].half_range;
        measured->sums = (double *)(sums + k * sums_stride);
    }
    const enum terp_status st =
        cuda_session_do(session, "measuring errors", [&](cuda_work &work) {
            upload(work, src, n, values, stride, nbytes);
            list.upload(work);
            work.add(cuda_measure, list.on_device(), n, chunk);
            list.download(work);
        });
    for (uint64_t k = 0; st == TERP_OK && k < n; k++)
        measures[k].square =
            measures[k].half_range == 0
                ? 0
                : list.items[k].sum / (double)(nvalues - measures[k].nspecials);
    return st;
}

/* The kernels swap bytes while they read, so `others` do not change. */
enum terp_status
cuda_values_compare(struct terp_session *session,
                    const struct terp_params *params,
                    const struct terp_chunk *chunk, uint64_t n,
                    const void *const *src, void *const *others,
                    struct terp_measure *measures)
{
    (void)params;
    return cuda_session_portions(n, [=](uint64_t first, uint64_t nchunks) {
        return compare(session, chunk, nchunks, src + first, others + first,
                       measures + first);
    });
}

/* ---- complex values ---- */

/* A chunk's complex values, and its real and imaginary parts. */
struct joint {
    void *whole;
    void *parts[TERP_NPARTS];
};

/* Copies complex values to their parts, or with `joins` parts to complex
 * values. W is the unsigned integer of a part's size: move_parts<uint32_t,
 * true> joins complex64. `swaps`: also reverses the bytes of each part. Grid:
 * (any number of blocks, chunks); the blocks of a chunk share its values. */
template <typename W, bool joins>
static __global__ void
__launch_bounds__(NTHREADS)
    move_parts(const struct joint *joints, uint64_t nvalues, bool swaps)
{
    begin_kernel();
    const struct joint &joint = joints[blockIdx.y];
    W *whole = (W *)joint.whole;

    for (uint64_t i = (uint64_t)blockIdx.x * NTHREADS + threadIdx.x;
         i < nvalues; i += (uint64_t)gridDim.x * NTHREADS) {
        W words[TERP_NPARTS];
#pragma unroll
        for (int k = 0; k < TERP_NPARTS; k++)
            words[k] = joins ? ((const W *)joint.parts[k])[i]
                             : whole[TERP_NPARTS * i + k];
#pragma unroll
        for (int k = 0; k < TERP_NPARTS; k++) {
            const W word = swaps ? swapped(words[k]) : words[k];
            if (joins)
                whole[TERP_NPARTS * i + k] = word;
            else
                ((W *)joint.parts[k])[i] = word;
        }
    }
}

/* Splits n chunks, or joins them. */
static enum terp_status
move_chunks(struct terp_session *session, const struct terp_chunk *chunk,
            uint64_t n, void *const *whole, void *const *parts, bool joins)
{
    const uint64_t nbytes = terp_chunk_nbytes(chunk);
    const uint64_t stride = upload_stride(session, whole[0], nbytes);
    const cuda_session_list<struct joint> list(session, n, n * stride);

    if (!list.is_made())
        return TERP_ERR_MEMORY;
    for (uint64_t k = 0; k < n; k++) {
        list.items[k].whole = stride > 0 ? list.more() + k * stride : whole[k];
        for (uint64_t p = 0; p < TERP_NPARTS; p++)
            list.items[k].parts[p] =
                (uint8_t *)parts[k] + p * (nbytes / TERP_NPARTS);
    }
    return cuda_session_start_or_do(
        session, stride == 0, "moving parts of values", [&](cuda_work &work) {
            const bool wide = terp_value_nbytes(chunk->type) == 16;
            const uint64_t nvalues = terp_chunk_nvalues(chunk);
            list.upload(work);
            if (!joins)
                upload(work, whole, n, list.more(), stride, nbytes);
            work.run(wide    ? joins ? move_parts<uint64_t, true>
                                     : move_parts<uint64_t, false>
                        : joins ? move_parts<uint32_t, true>
                             : move_parts<uint32_t, false>,
                     cuda_session_grid(n, nvalues, 4 * NTHREADS), NTHREADS,
                     list.on_device(), nvalues, chunk->big_endian);
            if (joins)
                download(work, whole, n, list.more(), stride, nbytes);
        });
}

enum terp_status
cuda_values_split(struct terp_session *session, const struct terp_chunk *chunk,
                  uint64_t n, const void *const *src, void *const *parts)
{
    return cuda_session_portions(n, [=](uint64_t first, uint64_t nchunks) {
        return move_chunks(session, chunk, nchunks, (void *const *)src + first,
                           parts + first, false);
    });
}

enum terp_status
cuda_values_join(struct terp_session *session, const struct terp_chunk *chunk,
                 uint64_t n, const void *const *parts, void *const *dst)
{
    return cuda_session_portions(n, [=](uint64_t first, uint64_t nchunks) {
        return move_chunks(session, chunk, nchunks, dst + first,
                           (void *const *)parts + first, true);
    });
}

/* ---- copies and lattices ---- */

/* Spreads values of n chunks. Chunks of `from` are copied to device memory
 * first if from_nbytes is above 0, and chunks of `to` are copied to the host
 * last if to_nbytes is; at least one of the two is 0. */
static enum terp_status
spread(struct terp_session *session, const char *action, bool starts,
       const struct cuda_spread_shape *shape, uint64_t n,
       const void *const *from, uint64_t from_nbytes, void *const *to,
       uint64_t to_nbytes)
{
    const uint64_t from_stride = place_aligned(from_nbytes);
    const uint64_t to_stride = place_aligned(to_nbytes);
    const cuda_session_list<struct cuda_spread> list(
        session, n, n * (from_stride + to_stride));

    if (!list.is_made())
        return TERP_ERR_MEMORY;
    for (uint64_t k = 0; k < n; k++)
        list.items[k] = {on_device(from, list.more(), from_stride, k),
                         (void *)on_device(to, list.more(), to_stride, k)};
    return cuda_session_start_or_do(
        session, starts, action, [&](cuda_work &work) {
            upload(work, from, n, list.more(), from_stride, from_nbytes);
            list.upload(work);
            work.add(cuda_copies_spread, list.on_device(), n, shape);
            download(work, to, n, list.more(), to_stride, to_nbytes);
        });
}

static struct cuda_spread_shape
shape_of_values(int value_nbytes)
{
    static_assert(TERP_MAX_RANK == 4, "Each dimension has one value.");
    return {value_nbytes, {1, 1, 1, 1}, {0, 0, 0, 0}};
}

enum terp_status
cuda_values_find_copies(struct terp_session *session,
                        const struct terp_chunk *chunk, const void *src,
                        unsigned *dims_ret)
{
    const uint64_t nbytes = terp_chunk_nbytes(chunk);
    const uint64_t stride = upload_stride(session, src, nbytes);
    const cuda_session_memory memory(session, 256 + stride);
    struct cuda_spread_shape shape =
        shape_of_values(terp_value_nbytes(chunk->type));
    unsigned differs = 0;

    *dims_ret = 0;
    if (memory.at == NULL)
        return TERP_ERR_MEMORY;
    for (int d = 0; d < chunk->rank; d++)
        shape.dims[d] = terp_extent_of(chunk, d);
    const enum terp_status st =
        cuda_session_do(session, "looking for copies", [&](cuda_work &work) {
            unsigned *d_differs = (unsigned *)memory.at;
            upload(work, &src, 1, memory.at + 256, stride, nbytes);
            work.zero(d_differs, sizeof differs);
            work.add(cuda_copies_find,
                     on_device(&src, memory.at + 256, stride, 0), &shape,
                     d_differs);
            work.copy(&differs, d_differs, sizeof differs);
        });
    for (int d = 0; st == TERP_OK && d < chunk->rank; d++)
        if (terp_extent_of(chunk, d) > 1 && (differs >> d & 1) == 0)
            *dims_ret |= 1u << d;
    return st;
}

/* Copies from the chunk's values: each dimension in `dims` keeps only its first
 * value. */
enum terp_status
cuda_values_leave_out(struct terp_session *session,
                      const struct terp_chunk *chunk, unsigned dims, uint64_t n,
                      const void *const *src, void *const *left)
{
    struct cuda_spread_shape shape =
        shape_of_values(terp_value_nbytes(chunk->type));
    const bool on_host = cuda_session_is_host(session, src[0]);
    const uint64_t nbytes = on_host ? terp_chunk_nbytes(chunk) : 0;
    uint64_t stride = 1;

    for (int d = 0, k = 0; d < chunk->rank; d++) {
        if ((dims >> d & 1) == 0) {
            shape.dims[k] = terp_extent_of(chunk, d);
            shape.stride[k++] = stride;
        }
        stride *= terp_extent_of(chunk, d);
    }
    return cuda_session_portions(n, [&](uint64_t first, uint64_t nchunks) {
        return spread(session, "leaving copies out", !on_host, &shape, nchunks,
                      src + first, nbytes, left + first, 0);
    });
}

/* Reads from a copy of the remaining values, because a block may overwrite a
 * value before another block has read it. */
enum terp_status
cuda_values_put_back(struct terp_session *session,
                     const struct terp_chunk *chunk, unsigned dims, uint64_t n,
                     void *const *values)
{
    const struct terp_chunk left = terp_copies_chunk(chunk, dims);
    struct cuda_spread_shape shape =
        shape_of_values(terp_value_nbytes(chunk->type));
    uint64_t stride = 1;

    for (int d = 0; d < chunk->rank; d++) {
        shape.dims[d] = terp_extent_of(chunk, d);
        if (dims >> d & 1)
            continue;
        shape.stride[d] = stride;
        stride *= shape.dims[d];
    }
    return cuda_session_portions(n, [&](uint64_t first, uint64_t nchunks) {
        return spread(session, "putting copies back", true, &shape, nchunks,
                      values + first, terp_chunk_nbytes(&left), values + first,
                      0);
    });
}

enum terp_status
cuda_values_gather(struct terp_session *session,
                   const struct terp_coarse *coarse, int value_nbytes,
                   uint64_t n, const void *const *src, void *const *dst)
{
    struct cuda_spread_shape shape = shape_of_values(value_nbytes);
    const bool on_host = cuda_session_is_host(session, dst[0]);
    uint64_t stride = 1, nbytes = on_host ? (uint64_t)value_nbytes : 0;

    for (int d = 0; d < coarse->rank; d++) {
        const int i = coarse->rank - 1 - d;
        shape.dims[d] = coarse->count[i];
        shape.stride[d] = coarse->stride[i] * stride;
        stride *= coarse->dims[i];
        nbytes *= coarse->count[i];
    }
    return cuda_session_portions(n, [&](uint64_t first, uint64_t nchunks) {
        return spread(session, "gathering values", !on_host, &shape, nchunks,
                      src + first, 0, dst + first, nbytes);
    });
}

/* ---- references ---- */

/* Reads from a copy of the values, as put_back does. */
static enum terp_status
follow(struct terp_session *session, const struct terp_chunk *chunk, uint64_t n,
       const struct terp_followed *followed, enum terp_status *status_ret)
{
    const int value_nbytes = terp_value_nbytes(chunk->type);
    const uint64_t nbytes = terp_chunk_nbytes(chunk);
    const struct cuda_follow_kind kind = {
        terp_chunk_nvalues(chunk), value_nbytes,
        !terp_type_is_integer(chunk->type), chunk->big_endian};
    const uint64_t stride = place_aligned(nbytes);
    const uint64_t ranks_stride = place_aligned(
        8 * div_up(terp_chunk_nvalues(chunk), CUDA_FOLLOW_NVALUES));
    const cuda_session_list<struct cuda_follow> list(
        session, n, n * (stride + ranks_stride));
    uint8_t *values = list.more(), *ranks = values + n * stride;

    if (!list.is_made())
        return TERP_ERR_MEMORY;
    for (uint64_t k = 0; k < n; k++)
        list.items[k] = {values + k * stride,
                         (const uint32_t *)followed[k].distances,
                         (const uint64_t *)followed[k].differences,
                         followed[k].values,
                         followed[k].marker,
                         followed[k].nreferences,
                         (uint64_t *)(ranks + k * ranks_stride),
                         0};
    const enum terp_status st =
        cuda_session_do(session, "following references", [&](cuda_work &work) {
            list.upload(work);
            for (uint64_t k = 0; k < n; k++)
                work.copy(values + k * stride, followed[k].values, nbytes);
            work.add(cuda_references_follow, list.on_device(), n, &kind);
            list.download(work);
        });
    for (uint64_t k = 0; st == TERP_OK && k < n; k++)
        status_ret[k] = list.items[k].is_bad ? TERP_ERR_CORRUPT : TERP_OK;
    return st;
}

enum terp_status
cuda_values_follow(struct terp_session *session, const struct terp_chunk *chunk,
                   uint64_t n, const struct terp_followed *followed,
                   enum terp_status *status_ret)
{
    return cuda_session_portions(n, [=](uint64_t first, uint64_t nchunks) {
        return follow(session, chunk, nchunks, followed + first,
                      status_ret + first);
    });
}
