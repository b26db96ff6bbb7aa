#include "gpu/engine/pieces.cuh"

#include <string.h>

#include "gpu/engine/array.cuh"
#include "gpu/engine/pinned.cuh"

#define NTHREADS 256

/* Pinned memory through which small blocks go between host and device. A
 * transfer of this size takes some 80 us. */
#define PACKED_NBYTES (UINT64_C(4) << 20)

/* A larger block goes alone: a transfer of 64 KiB takes about as long as its
 * start, some 2 to 10 us. */
#define SMALL_NBYTES (UINT64_C(64) << 10)

/* ---- on the device ---- */

/* Copies a piece with n threads; the calling thread is number i. Words are
 * aligned in `dst`; a source of another alignment is read by aligned words and
 * shifted. Every word that is read contains bytes of the piece. */
static __device__ __forceinline__ void
copy_piece(const struct cuda_piece &piece, uint64_t i, uint64_t n)
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

/* Grid: (any number of blocks, streams). The blocks of a stream share each of
 * its pieces. */
static __global__ void
__launch_bounds__(NTHREADS) copy_pieces(const struct cuda_transfer *transfers,
                                        const struct cuda_piece *pieces)
{
    begin_kernel();
    struct cuda_transfer transfer = {blockIdx.y, 1};

    if (transfers != NULL)
        transfer = transfers[blockIdx.y];

    for (unsigned k = 0; k < transfer.npieces; k++)
        copy_piece(pieces[transfer.first + k],
                   (uint64_t)blockIdx.x * NTHREADS + threadIdx.x,
                   (uint64_t)gridDim.x * NTHREADS);
}

cudaError_t
cuda_pieces_copy(uint64_t n, uint64_t most_nbytes,
                 const struct cuda_transfer *transfers,
                 const struct cuda_piece *pieces, cudaStream_t stream)
{
    return launch(copy_pieces, cuda_session_grid(n, most_nbytes, 16 * NTHREADS),
                  dim3(NTHREADS), 0, stream, transfers, pieces);
}

/* ---- between host and device ---- */

/* Blocks to copy, all from the host to the device or all back. */
struct copies {
    uint64_t n;
    void *const *dst;
    const void *const *src;
    const uint64_t *nbytes;
    bool to_host;
    uint8_t *pinned; /* PACKED_NBYTES */
};

/* How many blocks from block i on go through pinned memory together. */
static uint64_t
count_packed(const struct copies *it, uint64_t i)
{
    uint64_t n = 0, nbytes = 0;

    while (i + n < it->n && n < CUDA_LAUNCH_MAX_NROWS &&
           it->nbytes[i + n] <= SMALL_NBYTES &&
           nbytes + it->nbytes[i + n] <= PACKED_NBYTES)
        nbytes += it->nbytes[i + n++];
    return n;
}

/* Copies blocks [first, first + n) to pinned memory, one behind the other, or
 * back from there. */
static void
pack(const struct copies *it, uint64_t first, uint64_t n)
{
    uint8_t *at = it->pinned;

    for (uint64_t i = first; i < first + n; i++) {
        if (it->to_host)
            memcpy(it->dst[i], at, it->nbytes[i]);
        else
            memcpy(at, it->src[i], it->nbytes[i]);
        at += it->nbytes[i];
    }
}

static enum terp_status
copy_packed(struct terp_session *session, const struct copies *it,
            uint64_t first, uint64_t n)
{
    uint64_t nbytes = 0;

    for (uint64_t i = first; i < first + n; i++)
        nbytes += it->nbytes[i];
    const cuda_session_list<struct cuda_piece> list(session, n, nbytes);
    if (!list.is_made())
        return TERP_ERR_MEMORY;
    uint8_t *packed = list.more();
    for (uint64_t i = 0; i < n; i++) {
        list.items[i] = it->to_host
                            ? cuda_piece{(const uint8_t *)it->src[first + i],
                                         packed, it->nbytes[first + i]}
                            : cuda_piece{packed, (uint8_t *)it->dst[first + i],
                                         it->nbytes[first + i]};
        packed += it->nbytes[first + i];
    }
    if (!it->to_host)
        pack(it, first, n);
    const enum terp_status st =
        cuda_session_do(session, "copying", [&](struct cuda_work &work) {
            list.upload(work);
            if (!it->to_host)
                work.copy(list.more(), it->pinned, nbytes);
            work.add(cuda_pieces_copy, n, SMALL_NBYTES,
                     (const struct cuda_transfer *)NULL, list.on_device());
            if (it->to_host)
                work.copy(it->pinned, list.more(), nbytes);
        });
    if (st == TERP_OK && it->to_host)
        pack(it, first, n);
    return st;
}

/* Copies small blocks together, and others, or all where memory is short, one
 * by one. */
static enum terp_status
copy_all(struct terp_session *session, const struct copies *it)
{
    enum terp_status st = TERP_OK;

    for (uint64_t i = 0, n; st == TERP_OK && i < it->n; i += n) {
        n = it->pinned == NULL ? it->n : count_packed(it, i);
        n = n == 0 ? 1 : n;
        st = it->pinned != NULL && n > 1 ? copy_packed(session, it, i, n)
                                         : TERP_ERR_MEMORY;
        if (st == TERP_ERR_MEMORY)
            st = cuda_session_fetch(session, n, it->dst + i, it->src + i,
                                    it->nbytes + i);
    }
    return st;
}

/* Whether blocks are copied between device memory and the host; the first block
 * shows it. */
static bool
is_between(struct terp_cuda_device *device, struct copies *it)
{
    it->to_host = !cuda_array_has(device, it->dst[0]);
    return cuda_array_has(device, it->src[0]) == it->to_host;
}

enum terp_status
cuda_pieces_copy_all(struct terp_cuda_device *device,
                     const struct terp_cuda_call *call, uint64_t n,
                     void *const *dst, const void *const *src,
                     const uint64_t *nbytes)
{
    struct copies it = {n, dst, src, nbytes, false, NULL};
    uint64_t pinned_nbytes = PACKED_NBYTES;
    void *pinned = NULL;
    struct terp_session *session;

    if (count_packed(&it, 0) > 1 && is_between(device, &it) &&
        cuda_pinned_allocate(device, &pinned_nbytes, &pinned) == TERP_OK)
        it.pinned = (uint8_t *)pinned;
    enum terp_status st = cuda_session_open(device, call, &session);
    if (st == TERP_OK)
        st = cuda_session_close(session, copy_all(session, &it));
    if (pinned != NULL)
        cuda_pinned_release(device, pinned, pinned_nbytes);
    return st;
}
