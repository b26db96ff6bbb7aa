/* Concatenates pieces of memory to one stream. */
#include "gpu/engine/join.cuh"

#include "codec/format/frame.h"
#include "gpu/engine/state.cuh"

/* Writes the checksum of a stream in device memory. The host computes it for
 * streams of up to CUDA_SHORT_NBYTES. */
static cudaError_t
seal(uint8_t *dst, uint64_t nbytes, struct cuda_sealed *d_sealed,
     cudaStream_t stream)
{
    const struct cuda_sealed sealed = {dst, nbytes, 0, 0, false};
    uint8_t bytes[CUDA_SHORT_NBYTES];
    cudaError_t error;

    if (nbytes > CUDA_SHORT_NBYTES) {
        error = cudaMemcpyAsync(d_sealed, &sealed, sizeof sealed,
                                cudaMemcpyHostToDevice, stream);
        if (error == cudaSuccess)
            error = cuda_streams_seal(d_sealed, 1, stream);
        return error == cudaSuccess ? cudaStreamSynchronize(stream) : error;
    }
    error = cudaMemcpyAsync(bytes, dst, nbytes, cudaMemcpyDeviceToHost, stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(stream);
    if (error != cudaSuccess)
        return error;
    terp_frame_seal(bytes, nbytes);
    error = cudaMemcpyAsync(dst + TERP_FRAME_CHECKSUM_AT,
                            bytes + TERP_FRAME_CHECKSUM_AT, 8,
                            cudaMemcpyHostToDevice, stream);
    return error == cudaSuccess ? cudaStreamSynchronize(stream) : error;
}

cudaError_t
cuda_stream_join(void *dst, bool is_on_host, const struct cuda_piece *pieces,
                 int npieces, struct cuda_sealed *d_sealed, cudaStream_t stream)
{
    uint8_t *at = (uint8_t *)dst;
    cudaError_t error = cudaSuccess;

    for (int i = 0; error == cudaSuccess && i < npieces; i++) {
        error = cudaMemcpyAsync(at, pieces[i].at, pieces[i].nbytes,
                                cudaMemcpyDefault, stream);
        at += pieces[i].nbytes;
    }
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(stream);
    const uint64_t nbytes = (uint64_t)(at - (uint8_t *)dst);
    if (error != cudaSuccess || !is_on_host)
        return error == cudaSuccess
                   ? seal((uint8_t *)dst, nbytes, d_sealed, stream)
                   : error;
    terp_frame_seal((uint8_t *)dst, nbytes);
    return error;
}
