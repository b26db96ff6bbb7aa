/* Registers host memory with the device, and keeps it: registering takes longer
 * than copying. */
#include "gpu/engine/pinned.cuh"

#include <stdlib.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

/* The size of large pages, which are registered in two thirds of the time. */
#define ALIGNMENT ((uint64_t)2 << 20)

/* Takes the smallest kept block of `nbytes` to twice as many; else one of 0
 * bytes. */
static struct cuda_block
take_kept(struct terp_cuda_device *device, uint64_t nbytes)
{
    const cuda_lock lock(&device->mutex);
    struct cuda_block none = {}, *best = &none;

    for (struct cuda_block &kept : device->pinned)
        if (kept.nbytes >= nbytes && kept.nbytes / 2 <= nbytes &&
            (best->nbytes == 0 || kept.nbytes < best->nbytes))
            best = &kept;
    const struct cuda_block block = *best;
    *best = {};
    return block;
}

/* Keeps a block. False: enough bytes are kept. */
static bool
keep(struct terp_cuda_device *device, struct cuda_block block)
{
    const cuda_lock lock(&device->mutex);
    struct cuda_block *empty = NULL;
    uint64_t nbytes = block.nbytes;

    for (struct cuda_block &kept : device->pinned) {
        nbytes += kept.nbytes;
        if (kept.nbytes == 0)
            empty = &kept;
    }
    if (empty == NULL || nbytes > CUDA_MAX_PINNED_NBYTES)
        return false;
    *empty = block;
    return true;
}

static cudaError_t
make_block(uint64_t nbytes, struct cuda_block *block_ret)
{
    /* CUDA's own memory would vanish if the process reset the device. */
    void *at = aligned_alloc(ALIGNMENT, nbytes);

    if (at == NULL)
        return cudaErrorMemoryAllocation;
#ifdef MADV_HUGEPAGE
    (void)madvise(at, nbytes, MADV_HUGEPAGE);
#endif
    const cudaError_t error =
        cudaHostRegister(at, nbytes, cudaHostRegisterPortable);
    if (error == cudaSuccess) {
        *block_ret = {(uint8_t *)at, nbytes};
        return error;
    }
    cudaGetLastError();
    free(at);
    return error;
}

enum terp_status
cuda_pinned_allocate(struct terp_cuda_device *device, uint64_t *nbytes,
                     void **at_ret)
{
    struct cuda_block block = {};

    if (*nbytes == 0 || *nbytes > CUDA_MAX_PINNED_NBYTES)
        return TERP_ERR_MEMORY;
    const enum terp_status st =
        cuda_device_do(device, [&](const struct cuda_visit &) {
            block = take_kept(device, *nbytes);
            return block.nbytes > 0
                       ? TERP_OK
                       : cuda_status_of(
                             "pinning memory",
                             make_block(div_up(*nbytes, ALIGNMENT) * ALIGNMENT,
                                        &block));
        });
    *nbytes = block.nbytes;
    *at_ret = block.at;
    return st;
}

/* With a lost device the registration has ended already. */
static void
free_block(struct terp_cuda_device *device, struct cuda_block block)
{
    cuda_device_do(device, [=](const struct cuda_visit &) {
        if (cudaHostUnregister(block.at) != cudaSuccess)
            cudaGetLastError();
        return TERP_OK;
    });
    free(block.at);
}

void
cuda_pinned_release(struct terp_cuda_device *device, void *at, uint64_t nbytes)
{
    const struct cuda_block block = {(uint8_t *)at, nbytes};

    if (!keep(device, block))
        free_block(device, block);
}

void
cuda_pinned_trim(struct terp_cuda_device *device)
{
    struct cuda_block blocks[CUDA_NPINNED];

    {
        const cuda_lock lock(&device->mutex);
        for (int i = 0; i < CUDA_NPINNED; i++) {
            blocks[i] = device->pinned[i];
            device->pinned[i] = {};
        }
    }
    for (const struct cuda_block &block : blocks)
        if (block.nbytes > 0)
            free_block(device, block);
}
