/* Decodes plain streams. */
#pragma once

#include "gpu/engine/call.cuh"

/* The form to try first for integers of a type: the form for which such
 * integers were last coded a second time. Until then, the type's size decides.
 */
static inline enum cuda_form
cuda_form_of_integers(const struct terp_cuda_device *device,
                      enum terp_type type)
{
    const enum cuda_form seen = device->form_seen[type].load();

    return cuda_form_is_of_integers(seen) ? seen
           : terp_part_nbytes(type) <= 4  ? CUDA_INTS_F32
                                          : CUDA_INTS_F64;
}

/* Decodes all streams, each in the form and domain that the stream states.
 * Streams with inner streams are left. */
enum terp_status
cuda_decode(struct terp_session *session, struct cuda_call *call);
