/* What follows a call in which chunks were coded in their own shape. */
#ifndef TERP_GPU_ENGINE_AGAIN_CUH
#define TERP_GPU_ENGINE_AGAIN_CUH

#include "gpu/engine/call.cuh"

/* Codes the chunks anew for which another domain was found, or whose caller
 * wants all to be tried. */
enum terp_status
cuda_encode_again(struct terp_cuda_device *device,
                  const struct terp_cuda_call *where,
                  const struct cuda_call *call);

/* Decodes what was left because it has another domain. */
enum terp_status
cuda_decode_again(struct terp_cuda_device *device,
                  const struct terp_cuda_call *where,
                  const struct cuda_call *call);

#endif
