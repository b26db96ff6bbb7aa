/* Calls in which chunks are coded more than once. */
#ifndef TERP_GPU_ENGINE_AGAIN_CUH
#define TERP_GPU_ENGINE_AGAIN_CUH

#include "gpu/engine/call.cuh"

/* The form of the first stream in host memory that is coded; that of streams
 * in device memory is taken to be like that of others before. */
enum cuda_form
cuda_form_of_streams(const struct terp_cuda_device *device,
                     const struct cuda_call *call, bool on_host);

/* Codes all chunks, each in the form, domain and way that suits it. */
enum terp_status
cuda_encode(struct terp_cuda_device *device, const struct terp_cuda_call *where,
            struct cuda_call *call);

/* Decodes what was left because it has another form or domain. */
enum terp_status
cuda_decode_again(struct terp_cuda_device *device,
                  const struct terp_cuda_call *where,
                  const struct cuda_call *call);

#endif
