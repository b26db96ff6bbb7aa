/* Plain streams back to values. */
#pragma once

#include "gpu/engine/call.cuh"

/* The form that integers of a type are taken to have: as the integers that were
 * last coded a second time. */
static inline enum cuda_form
cuda_form_of_integers(const struct terp_cuda_device *device,
                      enum terp_type type)
{
    const enum cuda_form seen = device->form_seen[type].load();

    return cuda_form_is_of_integers(seen) ? seen
           : terp_part_nbytes(type) <= 4  ? CUDA_INTS_F32
                                          : CUDA_INTS_F64;
}

/* Decodes all streams, each in the form and domain that it tells. Streams that
 * hold others are left. */
enum terp_status
cuda_decode(struct terp_cuda_device *device, const struct terp_cuda_call *where,
            struct cuda_call *call);
