/* Chunks of complex values. A portion of them goes through at a time: their
 * values are taken apart into memory of the device, where both parts of each
 * are chunks like any others, of one batch; and their streams are put together.
 * Decoding goes the same way back. */
#include "gpu/engine/parts.cuh"

#include "codec/format/parts.h"
#include "codec/model/carrier.h"
#include "codec/model/coarse.h"
#include "gpu/block/swap.cuh"
#include "gpu/engine/again.cuh"
#include "gpu/engine/places.cuh"
#include "gpu/engine/within.cuh"
#include "gpu/sections/seal.cuh"

#include <new>

/* Values of a portion at most, but for one chunk; and chunks: blockIdx.y. */
#define PORTION_NBYTES (UINT64_C(256) << 20)
#define PORTION_MAX_NCHUNKS 16384

#define NTHREADS 256

/* Blocks of all chunks: more than a large device runs at once. */
#define MAX_NBLOCKS 2048

/* ---- values ---- */

/* A chunk's values: those of parts stand one part behind the other. */
struct joint {
    void *whole;
    void *parts[TERP_NPARTS];
};

/* Grid: x blocks that share the values, y chunks. */
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

/* ---- streams ---- */

/* Bytes that are copied. */
struct piece {
    const uint8_t *src;
    uint8_t *dst;
    uint64_t nbytes;
};
#define MAX_NPIECES 8

/* What a chunk's stream is put together of, or taken apart into. */
struct transfer {
    struct piece piece[MAX_NPIECES];
    unsigned npieces;
};

/* Thread `i` of `n` copies its share of a piece, by words that are aligned at
 * `dst`. No word is read that has none of the piece's bytes. */
static __device__ __forceinline__ void
copy_piece(const struct piece &piece, uint64_t i, uint64_t n)
{
    const uint64_t head =
        min_u64(piece.nbytes, (0 - (uint64_t)(uintptr_t)piece.dst) % 4);
    const uint64_t nfull = (piece.nbytes - head) / 4;
    const uint64_t nwords = nfull > 0 ? nfull - 1 : 0;
    const unsigned shift = 8 * ((uintptr_t)(piece.src + head) % 4);
    const uint32_t *from =
        (const uint32_t *)(piece.src + head - (uintptr_t)shift / 8);
    uint32_t *to = (uint32_t *)(piece.dst + head);

    for (uint64_t w = i; w < nwords; w += n)
        to[w] =
            shift == 0 ? from[w] : __funnelshift_r(from[w], from[w + 1], shift);
    for (uint64_t k = i; k < head; k += n)
        piece.dst[k] = piece.src[k];
    for (uint64_t k = head + 4 * nwords + i; k < piece.nbytes; k += n)
        piece.dst[k] = piece.src[k];
}

/* Grid: x blocks that share the pieces, y chunks. */
static __global__ void
__launch_bounds__(NTHREADS) copy_pieces(const struct transfer *transfers)
{
    begin_kernel();
    const struct transfer &transfer = transfers[blockIdx.y];

    for (unsigned k = 0; k < transfer.npieces; k++)
        copy_piece(transfer.piece[k],
                   (uint64_t)blockIdx.x * NTHREADS + threadIdx.x,
                   (uint64_t)gridDim.x * NTHREADS);
}

/* ---- a portion ---- */

/* Some chunks of a call, and where they are in a block of device memory. What
 * stands on the device at both ends is the caller's. */
struct portion {
    struct terp_cuda_device *device;
    const struct terp_cuda_call *where;
    struct terp_cuda_call inside; /* of what is on the device */
    const struct terp_chunk *chunk;
    struct terp_chunk part;
    uint64_t n;
    uint64_t nvalues, nbytes;    /* of a chunk that is coded, or is wanted */
    uint64_t part_nbytes;        /* half of that */
    uint64_t part_common_nbytes; /* of a part's frame, up to its dims' end */
    struct cuda_block block;
    uint64_t stream_stride, part_stream_stride, value_stride, part_stride;
    uint64_t streams_at, part_streams_at, values_at, parts_at, heads_at;
    uint64_t transfers_at, joints_at, sealed_at;
    /* On the host; [n], heads: HEAD_NBYTES each. */
    struct joint *joints;
    struct transfer *transfers;
    struct cuda_sealed *sealed; /* whose checksums are asked for */
    uint8_t *heads;
    /* Of parts, 2 n. */
    const void **part_src;
    void **part_dst;
    uint64_t *part_stream_nbytes;
    enum terp_status *part_status;
    double *part_bounds;
};

/* First bytes of a stream: its frame, the bound, and how long the first part
 * is; or all of one whose checksum is the host's. */
#define HEAD_NBYTES CUDA_SHORT_NBYTES
static_assert(TERP_FRAME_MAX_NBYTES + TERP_PARTS_HEAD_MAX_NBYTES <= HEAD_NBYTES,
              "A head has room for them.");

static bool
is_on_host(const struct portion *portion)
{
    return portion->where->memory == TERP_MEMORY_HOST;
}

static uint8_t *
part_stream_of(const struct portion *portion, uint64_t i, int k)
{
    return portion->block.at + portion->part_streams_at +
           (TERP_NPARTS * i + (uint64_t)k) * portion->part_stream_stride;
}

static uint8_t *
part_of(const struct portion *portion, uint64_t i, int k)
{
    return portion->block.at + portion->parts_at +
           (TERP_NPARTS * i + (uint64_t)k) * portion->part_stride;
}

static uint8_t *
stream_in_block(const struct portion *portion, uint64_t i)
{
    return portion->block.at + portion->streams_at + i * portion->stream_stride;
}

static uint8_t *
values_in_block(const struct portion *portion, uint64_t i)
{
    return portion->block.at + portion->values_at + i * portion->value_stride;
}

static void
free_portion(struct portion *portion)
{
    if (portion->block.nbytes > 0)
        cuda_block_give(portion->device, portion->block);
    delete[] portion->joints;
    delete[] portion->transfers;
    delete[] portion->sealed;
    delete[] portion->heads;
    delete[] portion->part_src;
    delete[] portion->part_dst;
    delete[] portion->part_stream_nbytes;
    delete[] portion->part_status;
    delete[] portion->part_bounds;
}

/* Bytes of a block for so many chunks, and where it has what. */
static uint64_t
lay_out(struct portion *portion, uint64_t n)
{
    const bool host = is_on_host(portion);
    uint64_t at = 0;

    portion->n = n;
    portion->stream_stride = place_aligned(terp_encode_bound(portion->chunk));
    portion->part_stream_stride =
        place_aligned(terp_encode_bound(&portion->part));
    portion->value_stride = place_aligned(portion->nbytes);
    portion->part_stride = place_aligned(portion->part_nbytes);
    portion->streams_at =
        place_take(&at, host ? n * portion->stream_stride : 0);
    portion->values_at = place_take(&at, host ? n * portion->value_stride : 0);
    portion->part_streams_at =
        place_take(&at, TERP_NPARTS * n * portion->part_stream_stride);
    portion->parts_at = place_take(&at, TERP_NPARTS * n * portion->part_stride);
    portion->heads_at = place_take(&at, (n + 1) * HEAD_NBYTES);
    portion->transfers_at = place_take(&at, n * sizeof(struct transfer));
    portion->joints_at = place_take(&at, n * sizeof(struct joint));
    portion->sealed_at = place_take(&at, n * sizeof(struct cuda_sealed));
    return at;
}

/* With memory for `n` chunks; to be freed in any case. */
static enum terp_status
make_portion(struct portion *portion, uint64_t n)
{
    const size_t nparts = TERP_NPARTS * n;
    const enum terp_status st =
        cuda_block_take(portion->device, lay_out(portion, n), &portion->block);

    portion->joints = new (std::nothrow) struct joint[n]();
    portion->transfers = new (std::nothrow) struct transfer[n]();
    portion->sealed = new (std::nothrow) struct cuda_sealed[n]();
    portion->heads = new (std::nothrow) uint8_t[(n + 1) * HEAD_NBYTES]();
    portion->part_src = new (std::nothrow) const void *[nparts]();
    portion->part_dst = new (std::nothrow) void *[nparts]();
    portion->part_stream_nbytes = new (std::nothrow) uint64_t[nparts]();
    portion->part_status = new (std::nothrow) enum terp_status[nparts]();
    portion->part_bounds = new (std::nothrow) double[nparts]();
    const bool has_all =
        portion->joints != NULL && portion->transfers != NULL &&
        portion->sealed != NULL && portion->heads != NULL &&
        portion->part_src != NULL && portion->part_dst != NULL &&
        portion->part_stream_nbytes != NULL && portion->part_status != NULL &&
        portion->part_bounds != NULL;
    return st == TERP_OK && !has_all ? TERP_ERR_MEMORY : st;
}

/* Chunks that are to be a portion, of those that are left. */
static uint64_t
portion_nchunks(const struct terp_chunk *chunk, uint64_t nleft)
{
    const uint64_t most = PORTION_NBYTES / terp_chunk_nbytes(chunk) + 1;

    return min_u64(nleft, min_u64(most, PORTION_MAX_NCHUNKS));
}

static struct portion
portion_of(struct terp_cuda_device *device, const struct terp_cuda_call *where,
           const struct terp_chunk *chunk, uint64_t step)
{
    struct portion portion = {};
    const struct terp_chunk wanted = terp_coarse_chunk_of(chunk, step);

    portion.device = device;
    portion.where = where;
    portion.inside = *where;
    portion.inside.memory = TERP_MEMORY_DEVICE;
    portion.inside.has_stream = false;
    portion.chunk = chunk;
    portion.part = terp_chunk_of_part(chunk);
    portion.nbytes = terp_chunk_nbytes(&wanted);
    portion.part_nbytes = portion.nbytes / TERP_NPARTS;
    portion.nvalues = portion.nbytes / (uint64_t)terp_value_nbytes(chunk->type);
    portion.part_common_nbytes = terp_part_common_nbytes(&portion.part);
    return portion;
}

/* Whether a portion for which memory was short may be tried again: with fewer
 * chunks, or without what others keep. */
static bool
shrink(struct terp_cuda_device *device, uint64_t *n, bool *is_trimmed)
{
    if (*n > 1) {
        *n /= 2;
        return true;
    }
    if (*is_trimmed)
        return false;
    *is_trimmed = true;
    return cuda_device_do(device, [=](const struct cuda_visit &) {
               return cuda_device_trim(device) ? TERP_OK : TERP_ERR_MEMORY;
           }) == TERP_OK;
}

/* Does work(portion, first) with all chunks, of which portion->n from `first`
 * on are a portion. */
template <typename Work>
static enum terp_status
do_portions(struct terp_cuda_device *device, const struct terp_cuda_call *where,
            const struct terp_chunk *chunk, uint64_t step, uint64_t nchunks,
            Work work)
{
    enum terp_status st = TERP_OK;
    bool is_trimmed = false;

    for (uint64_t first = 0, n; st == TERP_OK && first < nchunks; first += n) {
        n = portion_nchunks(chunk, nchunks - first);
        do {
            struct portion portion = portion_of(device, where, chunk, step);
            st = make_portion(&portion, n);
            if (st == TERP_OK)
                st = work(&portion, first);
            free_portion(&portion);
        } while (st == TERP_ERR_MEMORY && shrink(device, &n, &is_trimmed));
    }
    return st;
}

static uint64_t
nblocks_for(const struct portion *portion, uint64_t nbytes, uint64_t of_block)
{
    return min_u64(div_up(nbytes, of_block), div_up(MAX_NBLOCKS, portion->n));
}

/* Copies the first `n` of an array to the block, or back. */
static cudaError_t
to_block(const struct portion *portion, uint64_t at, const void *from,
         uint64_t nbytes, cudaStream_t stream)
{
    return cudaMemcpyAsync(portion->block.at + at, from, nbytes,
                           cudaMemcpyHostToDevice, stream);
}

static cudaError_t
from_block(const struct portion *portion, void *to, uint64_t at,
           uint64_t nbytes, cudaStream_t stream)
{
    return cudaMemcpyAsync(to, portion->block.at + at, nbytes,
                           cudaMemcpyDeviceToHost, stream);
}

/* Values of `n` chunks, by portion->joints, apart or together. */
static cudaError_t
launch_move(const struct portion *portion, uint64_t n, bool joins,
            cudaStream_t stream)
{
    const bool wide = portion->part.type == TERP_FLOAT64;
    const bool swaps = portion->chunk->big_endian;
    const struct joint *joints =
        (const struct joint *)(portion->block.at + portion->joints_at);
    const dim3 grid(
        (unsigned)nblocks_for(portion, portion->nvalues, 4 * NTHREADS),
        (unsigned)n);
    cudaError_t error = to_block(portion, portion->joints_at, portion->joints,
                                 n * sizeof *joints, stream);

    return error != cudaSuccess
               ? error
               : launch(wide    ? joins ? move_parts<uint64_t, true>
                                        : move_parts<uint64_t, false>
                           : joins ? move_parts<uint32_t, true>
                                : move_parts<uint32_t, false>,
                        grid, dim3(NTHREADS), 0, stream, joints,
                        portion->nvalues, swaps);
}

/* What portion->transfers say of `n` chunks, of which none has more than
 * `most_nbytes`. */
static cudaError_t
launch_copy(const struct portion *portion, uint64_t n, uint64_t most_nbytes,
            cudaStream_t stream)
{
    const struct transfer *transfers =
        (const struct transfer *)(portion->block.at + portion->transfers_at);
    const uint64_t nblocks = nblocks_for(portion, most_nbytes, 16 * NTHREADS);
    cudaError_t error =
        to_block(portion, portion->transfers_at, portion->transfers,
                 n * sizeof *transfers, stream);

    return error == cudaSuccess
               ? launch(copy_pieces, dim3((unsigned)nblocks, (unsigned)n),
                        dim3(NTHREADS), 0, stream, transfers)
               : error;
}

/* Seals or verifies what portion->sealed says, after launch_copy. */
static cudaError_t
launch_sum(const struct portion *portion, bool seals, cudaStream_t stream)
{
    struct cuda_sealed *sealed =
        (struct cuda_sealed *)(portion->block.at + portion->sealed_at);
    cudaError_t error = to_block(portion, portion->sealed_at, portion->sealed,
                                 portion->n * sizeof *sealed, stream);

    return error != cudaSuccess ? error
           : seals              ? cuda_streams_seal(sealed, portion->n, stream)
                   : cuda_streams_verify(sealed, portion->n, stream);
}

static void
add_piece(struct transfer *transfer, const void *src, void *dst,
          uint64_t nbytes)
{
    transfer->piece[transfer->npieces++] = {(const uint8_t *)src,
                                            (uint8_t *)dst, nbytes};
}

/* ---- encoding ---- */

static enum terp_status
take_apart(struct portion *portion, const void *const *src)
{
    return cuda_slot_do(
        portion->device, portion->where, "taking parts of values",
        [=](cudaStream_t stream) {
            cudaError_t error = cudaSuccess;
            for (uint64_t i = 0; i < portion->n; i++) {
                struct joint *joint = &portion->joints[i];
                joint->whole = (void *)src[i];
                if (is_on_host(portion)) {
                    joint->whole = values_in_block(portion, i);
                    if (error == cudaSuccess)
                        error = to_block(portion,
                                         portion->values_at +
                                             i * portion->value_stride,
                                         src[i], portion->nbytes, stream);
                }
                for (int k = 0; k < TERP_NPARTS; k++)
                    joint->parts[k] = part_of(portion, i, k);
            }
            return error == cudaSuccess
                       ? launch_move(portion, portion->n, false, stream)
                       : error;
        });
}

/* The streams of all parts; of what is left to the CPU 0 bytes. The bounds of
 * chunks are in portion->part_bounds then. */
static enum terp_status
encode_parts(struct portion *portion, const struct terp_params *params)
{
    struct terp_params part_params = *params;
    struct cuda_call call = {};

    if (params->bound_mode == TERP_BOUND_ABSOLUTE && is_bound(params->bound))
        part_params.bound = terp_part_bound_of(params->bound);
    call.chunk = &portion->part;
    call.params = &part_params;
    call.caller_bound = part_params.bound;
    call.is_part = true;
    if (params->bound_mode == TERP_BOUND_RELATIVE)
        call.bounds_are = CUDA_BOUNDS_OF_PAIRS;
    call.bounds = portion->part_bounds;
    call.nchunks = TERP_NPARTS * portion->n;
    call.src = portion->part_src;
    call.dst = portion->part_dst;
    call.dst_nbytes = portion->part_stream_nbytes;
    call.allocator = portion->inside.allocator;
    for (uint64_t i = 0; i < call.nchunks; i++) {
        portion->part_src[i] =
            part_of(portion, i / TERP_NPARTS, (int)(i % TERP_NPARTS));
        portion->part_dst[i] =
            part_stream_of(portion, i / TERP_NPARTS, (int)(i % TERP_NPARTS));
        portion->part_bounds[i] = params->bound_mode == TERP_BOUND_POINTWISE ||
                                          is_bound(params->bound)
                                      ? params->bound
                                      : 0;
    }
    return cuda_encode(portion->device, &portion->inside, &call);
}

/* Writes what a chunk's stream begins with, to its head. Returns how many bytes
 * that has. `stored` says that no stream of parts would be shorter. */
static uint64_t
write_head(struct portion *portion, uint64_t i, bool *stored_ret)
{
    const uint64_t *nbytes = &portion->part_stream_nbytes[TERP_NPARTS * i];
    uint8_t *head = portion->heads + i * HEAD_NBYTES;
    struct terp_frame frame = {};

    frame.chunk = *portion->chunk;
    frame.coding = TERP_CODING_PARTS;
    const uint64_t frame_nbytes = (uint64_t)terp_frame_write(&frame, head);
    struct writer writer = {head + frame_nbytes, head + HEAD_NBYTES, false};
    terp_parts_write_bound(&writer, portion->part_bounds[TERP_NPARTS * i]);
    terp_part_write_nbytes(&writer, &portion->part, nbytes[0]);
    uint64_t body_nbytes = (uint64_t)(writer.at - head) - frame_nbytes;
    for (int k = 0; k < TERP_NPARTS; k++)
        body_nbytes +=
            TERP_PART_NKEPT + nbytes[k] - portion->part_common_nbytes;
    *stored_ret = body_nbytes >= portion->nbytes;
    if (!*stored_ret)
        return (uint64_t)(writer.at - head);
    frame.coding = TERP_CODING_RAW;
    return (uint64_t)terp_frame_write(&frame, head);
}

/* Tells how the stream of chunk `i` is put together, at `stream`. Returns how
 * long it is. */
static uint64_t
plan_stream(struct portion *portion, uint64_t i, const void *src,
            uint8_t *stream)
{
    struct transfer *transfer = &portion->transfers[i];
    const uint64_t common_nbytes = portion->part_common_nbytes;
    bool is_stored;
    uint64_t at = write_head(portion, i, &is_stored);

    *transfer = {};
    add_piece(transfer, portion->block.at + portion->heads_at + i * HEAD_NBYTES,
              stream, at);
    if (is_stored) {
        add_piece(transfer,
                  is_on_host(portion) ? values_in_block(portion, i) : src,
                  stream + at, portion->nbytes);
        at += portion->nbytes;
    }
    for (int k = 0; k < TERP_NPARTS && !is_stored; k++) {
        const uint8_t *part = part_stream_of(portion, i, k);
        const uint64_t left_nbytes =
            portion->part_stream_nbytes[TERP_NPARTS * i + (uint64_t)k] -
            common_nbytes;
        add_piece(transfer, part + TERP_FRAME_CODING_AT, stream + at,
                  TERP_PART_NKEPT);
        at += TERP_PART_NKEPT;
        add_piece(transfer, part + common_nbytes, stream + at, left_nbytes);
        at += left_nbytes;
    }
    portion->sealed[i].stream = stream;
    portion->sealed[i].nbytes = at;
    return at;
}

/* The streams, of which the short ones have no checksums yet. */
static enum terp_status
put_together(struct portion *portion, const void *const *src, void *const *dst,
             uint64_t *dst_nbytes)
{
    uint64_t most_nbytes = 1;

    for (uint64_t i = 0; i < portion->n; i++) {
        const uint64_t *nbytes = &portion->part_stream_nbytes[TERP_NPARTS * i];
        uint8_t *stream = is_on_host(portion) ? stream_in_block(portion, i)
                                              : (uint8_t *)dst[i];
        dst_nbytes[i] = 0;
        portion->transfers[i] = {};
        portion->sealed[i] = {};
        if (nbytes[0] != 0 && nbytes[1] != 0)
            dst_nbytes[i] = plan_stream(portion, i, src[i], stream);
        most_nbytes = dst_nbytes[i] > most_nbytes ? dst_nbytes[i] : most_nbytes;
    }
    return cuda_slot_do(
        portion->device, &portion->inside, "putting streams of parts together",
        [=](cudaStream_t stream) {
            cudaError_t error =
                to_block(portion, portion->heads_at, portion->heads,
                         portion->n * HEAD_NBYTES, stream);
            if (error == cudaSuccess)
                error = launch_copy(portion, portion->n, most_nbytes, stream);
            if (error == cudaSuccess)
                error = launch_sum(portion, true, stream);
            for (uint64_t i = 0; is_on_host(portion) && i < portion->n; i++)
                if (error == cudaSuccess && dst_nbytes[i] > 0)
                    error = from_block(portion, dst[i],
                                       portion->streams_at +
                                           i * portion->stream_stride,
                                       dst_nbytes[i], stream);
            return error;
        });
}

/* Checksums of short streams, by way of the host. */
static enum terp_status
seal_short_streams(struct portion *portion, void *const *dst,
                   const uint64_t *dst_nbytes)
{
    const auto is_short = [=](uint64_t i) {
        return dst_nbytes[i] > 0 && dst_nbytes[i] <= CUDA_SHORT_NBYTES;
    };
    uint64_t nshort = 0;

    for (uint64_t i = 0; i < portion->n; i++) {
        if (!is_short(i))
            continue;
        nshort++;
        if (is_on_host(portion))
            terp_frame_seal((uint8_t *)dst[i], dst_nbytes[i]);
    }
    if (is_on_host(portion) || nshort == 0)
        return TERP_OK;
    return cuda_slot_do(
        portion->device, &portion->inside, "sealing streams",
        [=](cudaStream_t stream) {
            cudaError_t error = cudaSuccess;
            for (uint64_t i = 0; error == cudaSuccess && i < portion->n; i++)
                if (is_short(i))
                    error = cudaMemcpyAsync(portion->heads + i * HEAD_NBYTES,
                                            dst[i], dst_nbytes[i],
                                            cudaMemcpyDeviceToHost, stream);
            if (error == cudaSuccess)
                error = cudaStreamSynchronize(stream);
            for (uint64_t i = 0; error == cudaSuccess && i < portion->n; i++) {
                uint8_t *head = portion->heads + i * HEAD_NBYTES;
                if (!is_short(i))
                    continue;
                terp_frame_seal(head, dst_nbytes[i]);
                error =
                    cudaMemcpyAsync((uint8_t *)dst[i] + TERP_FRAME_CHECKSUM_AT,
                                    head + TERP_FRAME_CHECKSUM_AT, 8,
                                    cudaMemcpyHostToDevice, stream);
            }
            return error;
        });
}

enum terp_status
cuda_parts_encode(struct terp_cuda_device *device,
                  const struct terp_cuda_call *where,
                  const struct terp_params *params,
                  const struct terp_chunk *chunk, uint64_t nchunks,
                  const void *const *src, void *const *dst,
                  uint64_t *dst_nbytes_ret)
{
    return do_portions(
        device, where, chunk, 1, nchunks,
        [=](struct portion *portion, uint64_t first) {
            enum terp_status st = take_apart(portion, src + first);
            if (st == TERP_OK)
                st = encode_parts(portion, params);
            if (st == TERP_OK)
                st = put_together(portion, src + first, dst + first,
                                  dst_nbytes_ret + first);
            return st == TERP_OK ? seal_short_streams(portion, dst + first,
                                                      dst_nbytes_ret + first)
                                 : st;
        });
}

/* ---- decoding ---- */

/* Brings the first bytes of streams to portion->heads. */
static enum terp_status
fetch_heads(struct portion *portion, const void *const *src,
            const uint64_t *src_nbytes)
{
    for (uint64_t i = 0; i < portion->n; i++) {
        const uint64_t nbytes = min_u64(src_nbytes[i], HEAD_NBYTES);
        if (is_on_host(portion)) {
            memcpy(portion->heads + i * HEAD_NBYTES, src[i], nbytes);
            continue;
        }
        portion->transfers[i] = {};
        add_piece(&portion->transfers[i], src[i],
                  portion->block.at + portion->heads_at + i * HEAD_NBYTES,
                  nbytes);
    }
    if (is_on_host(portion))
        return TERP_OK;
    return cuda_slot_do(
        portion->device, portion->where, "fetching frames",
        [=](cudaStream_t stream) {
            cudaError_t error =
                launch_copy(portion, portion->n, HEAD_NBYTES, stream);
            return error == cudaSuccess
                       ? from_block(portion, portion->heads, portion->heads_at,
                                    portion->n * HEAD_NBYTES, stream)
                       : error;
        });
}

/* Tells how parts' streams are made of that of chunk `i`, at `stream`: their
 * frames begin like one that stands behind all heads. False: the CPU tells what
 * is wrong. */
static bool
plan_parts(struct portion *portion, uint64_t i, const uint8_t *stream,
           const uint8_t *body, uint64_t body_nbytes)
{
    const uint64_t common_nbytes = portion->part_common_nbytes;
    const uint8_t *common =
        portion->block.at + portion->heads_at + portion->n * HEAD_NBYTES;
    struct terp_parts_places places;

    if (terp_parts_find(body, body_nbytes, &places) != TERP_OK)
        return false;
    for (int k = 0; k < TERP_NPARTS; k++) {
        uint8_t *part = part_stream_of(portion, i, k);
        const uint8_t *kept =
            stream + (body - (portion->heads + i * HEAD_NBYTES)) + places.at[k];
        if (places.nbytes[k] < TERP_PART_NKEPT ||
            places.nbytes[k] - TERP_PART_NKEPT >
                terp_chunk_nbytes(&portion->part))
            return false;
        const uint64_t left_nbytes = places.nbytes[k] - TERP_PART_NKEPT;
        add_piece(&portion->transfers[i], common, part, TERP_FRAME_CODING_AT);
        add_piece(&portion->transfers[i], kept, part + TERP_FRAME_CODING_AT,
                  TERP_PART_NKEPT);
        add_piece(&portion->transfers[i], common + TERP_FRAME_CHECKSUM_AT,
                  part + TERP_FRAME_CHECKSUM_AT,
                  common_nbytes - TERP_FRAME_CHECKSUM_AT);
        add_piece(&portion->transfers[i], kept + TERP_PART_NKEPT,
                  part + common_nbytes, left_nbytes);
        portion->part_stream_nbytes[TERP_NPARTS * i + (uint64_t)k] =
            common_nbytes + left_nbytes;
    }
    return true;
}

/* Tells what is to be done with stream `i`, which lies at `stream`. */
static void
plan_chunk(struct portion *portion, uint64_t i, const uint8_t *stream,
           uint64_t nbytes, uint8_t *dst, enum terp_status *status)
{
    struct transfer *transfer = &portion->transfers[i];
    const uint8_t *head = portion->heads + i * HEAD_NBYTES;
    const uint64_t known_nbytes = min_u64(nbytes, HEAD_NBYTES);
    struct terp_frame frame;
    int frame_nbytes;

    *transfer = {};
    portion->sealed[i] = {};
    if (nbytes > terp_encode_bound(portion->chunk) ||
        terp_frame_read(head, known_nbytes, &frame, &frame_nbytes) != TERP_OK ||
        !terp_chunks_are_alike(&frame.chunk, portion->chunk))
        return;
    const uint64_t body_nbytes = nbytes - (uint64_t)frame_nbytes;
    if (nbytes <= CUDA_SHORT_NBYTES &&
        terp_frame_verify(head, nbytes) != TERP_OK)
        return;
    if (frame.coding == TERP_CODING_PARTS &&
        plan_parts(portion, i, stream, head + frame_nbytes, body_nbytes))
        *status = TERP_OK;
    if (frame.coding == TERP_CODING_RAW && body_nbytes == portion->nbytes &&
        portion->inside.step <= 1) {
        add_piece(transfer, stream + frame_nbytes, dst, body_nbytes);
        *status = TERP_OK;
    }
    if (*status != TERP_OK) {
        transfer->npieces = 0;
        return;
    }
    portion->sealed[i].stream = (uint8_t *)stream;
    portion->sealed[i].nbytes = nbytes;
}

static bool
has_parts(const struct portion *portion, uint64_t i)
{
    return portion->transfers[i].npieces == MAX_NPIECES;
}

/* Streams of parts, stored values, and what checksums say. What is left to the
 * CPU keeps its status. */
static enum terp_status
take_streams_apart(struct portion *portion, const void *const *src,
                   const uint64_t *src_nbytes, void *const *dst,
                   enum terp_status *status)
{
    uint8_t *common = portion->heads + portion->n * HEAD_NBYTES;
    const bool host = is_on_host(portion);
    struct terp_frame frame = {};
    uint64_t most_nbytes = 1;

    frame.chunk = portion->part;
    frame.coding = TERP_CODING_RAW;
    terp_frame_write(&frame, common);
    for (uint64_t i = 0; i < portion->n; i++) {
        plan_chunk(portion, i,
                   host ? stream_in_block(portion, i) : (const uint8_t *)src[i],
                   src_nbytes[i],
                   host ? values_in_block(portion, i) : (uint8_t *)dst[i],
                   &status[i]);
        if (status[i] == TERP_OK && src_nbytes[i] > most_nbytes)
            most_nbytes = src_nbytes[i];
    }
    enum terp_status st = cuda_slot_do(
        portion->device, &portion->inside, "taking streams of parts apart",
        [=](cudaStream_t stream) {
            cudaError_t error =
                to_block(portion, portion->heads_at + portion->n * HEAD_NBYTES,
                         common, HEAD_NBYTES, stream);
            for (uint64_t i = 0; host && i < portion->n; i++)
                if (error == cudaSuccess && status[i] == TERP_OK)
                    error = to_block(portion,
                                     portion->streams_at +
                                         i * portion->stream_stride,
                                     src[i], src_nbytes[i], stream);
            if (error == cudaSuccess)
                error = launch_copy(portion, portion->n, most_nbytes, stream);
            if (error == cudaSuccess)
                error = launch_sum(portion, false, stream);
            return error == cudaSuccess
                       ? from_block(
                             portion, portion->sealed, portion->sealed_at,
                             portion->n * sizeof(struct cuda_sealed), stream)
                       : error;
        });
    for (uint64_t i = 0; st == TERP_OK && i < portion->n; i++)
        if (status[i] == TERP_OK && portion->sealed[i].is_bad)
            status[i] = TERP_ERR_CHECKSUM;
    return st;
}

/* The values of both parts of all chunks that have them; these follow each
 * other in portion->part_status. */
static enum terp_status
decode_parts(struct portion *portion, const enum terp_status *status)
{
    struct cuda_call call = {};

    for (uint64_t i = 0; i < portion->n; i++)
        for (int k = 0; k < TERP_NPARTS; k++) {
            if (status[i] != TERP_OK || !has_parts(portion, i))
                break;
            const uint64_t at = call.nchunks++;
            portion->part_src[at] = part_stream_of(portion, i, k);
            portion->part_dst[at] = part_of(portion, i, k);
            portion->part_stream_nbytes[at] =
                portion->part_stream_nbytes[TERP_NPARTS * i + (uint64_t)k];
            portion->part_status[at] = TERP_ERR_DEVICE;
        }
    if (call.nchunks == 0)
        return TERP_OK;
    call.chunk = &portion->part;
    call.is_part = true;
    call.src = portion->part_src;
    call.src_nbytes = portion->part_stream_nbytes;
    call.dst = portion->part_dst;
    call.status = portion->part_status;
    call.step = portion->inside.step;
    return cuda_decode_all(portion->device, &portion->inside, &call);
}

/* The chunks' values. What is wrong with a part the CPU tells. */
static enum terp_status
join_parts(struct portion *portion, void *const *dst, enum terp_status *status)
{
    const bool host = is_on_host(portion);
    uint64_t njoints = 0, nparts = 0;

    for (uint64_t i = 0; i < portion->n; i++) {
        if (status[i] != TERP_OK || !has_parts(portion, i))
            continue;
        struct joint *joint = &portion->joints[njoints++];
        joint->whole = host ? values_in_block(portion, i) : dst[i];
        for (int k = 0; k < TERP_NPARTS; k++) {
            joint->parts[k] = part_of(portion, i, k);
            if (portion->part_status[nparts++] != TERP_OK)
                status[i] = TERP_ERR_DEVICE;
        }
        if (status[i] != TERP_OK)
            njoints--;
    }
    return cuda_slot_do(
        portion->device, &portion->inside, "putting parts of values together",
        [=](cudaStream_t stream) {
            cudaError_t error =
                njoints > 0 ? launch_move(portion, njoints, true, stream)
                            : cudaSuccess;
            for (uint64_t i = 0; host && i < portion->n; i++)
                if (error == cudaSuccess && status[i] == TERP_OK)
                    error = from_block(portion, dst[i],
                                       portion->values_at +
                                           i * portion->value_stride,
                                       portion->nbytes, stream);
            return error;
        });
}

enum terp_status
cuda_parts_decode(struct terp_cuda_device *device,
                  const struct terp_cuda_call *where,
                  const struct terp_chunk *chunk, uint64_t nchunks,
                  const void *const *src, const uint64_t *src_nbytes,
                  void *const *dst, enum terp_status *status_ret)
{
    return do_portions(device, where, chunk, where->step > 1 ? where->step : 1,
                       nchunks, [=](struct portion *portion, uint64_t first) {
                           enum terp_status *status = status_ret + first;
                           for (uint64_t i = 0; i < portion->n; i++)
                               status[i] = TERP_ERR_DEVICE;
                           enum terp_status st = fetch_heads(
                               portion, src + first, src_nbytes + first);
                           if (st == TERP_OK)
                               st = take_streams_apart(portion, src + first,
                                                       src_nbytes + first,
                                                       dst + first, status);
                           if (st == TERP_OK)
                               st = decode_parts(portion, status);
                           return st == TERP_OK
                                      ? join_parts(portion, dst + first, status)
                                      : st;
                       });
}
