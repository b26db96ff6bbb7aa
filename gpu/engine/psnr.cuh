/* Encoding for a PSNR: the search for each chunk's bound. */
#pragma once

#include "gpu/engine/call.cuh"

/* Encodes all chunks, of float32 or float64, as codec/compose/psnr.c does. */
enum terp_status
cuda_psnr_encode(struct terp_cuda_device *device,
                 const struct terp_cuda_call *where,
                 const struct cuda_call *call);
