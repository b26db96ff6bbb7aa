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
    const enum cuda_form seen = device->last_form[type].load();

    return cuda_form_is_of_integers(seen) ? seen
           : terp_part_nbytes(type) <= 4  ? CUDA_INTS_F32
                                          : CUDA_INTS_F64;
}

/* A call for some of the streams of another call, the whole. `at` has the
 * streams' numbers in the whole. */
struct cuda_part {
    struct cuda_call call;
    cuda_host_array<uint64_t> at, src_nbytes;
    cuda_host_array<const void *> src;
    cuda_host_array<void *> dst;
    cuda_host_array<enum terp_status> status;

    explicit cuda_part(const struct cuda_call &whole)
        : call(whole), at(whole.nchunks), src_nbytes(whole.nchunks),
          src(whole.nchunks), dst(whole.nchunks), status(whole.nchunks)
    {
        call.nchunks = 0;
        call.src = src;
        call.src_nbytes = src_nbytes;
        call.dst = dst;
        call.status = status;
    }
    /* False: an allocation failed. */
    bool is_made() const
    {
        return at != NULL && src_nbytes != NULL && src != NULL && dst != NULL &&
               status != NULL;
    }
    void add(const struct cuda_call &whole, uint64_t i)
    {
        const uint64_t k = call.nchunks++;

        at[k] = i;
        src[k] = whole.src[i];
        src_nbytes[k] = whole.src_nbytes[i];
        dst[k] = whole.dst[i];
        status[k] = TERP_ERR_DEVICE;
    }
    void return_status(const struct cuda_call &whole) const
    {
        for (uint64_t k = 0; k < call.nchunks; k++)
            whole.status[at[k]] = status[k];
    }
};

/* Decodes all streams, each in the form and domain that the stream states.
 * Streams with inner streams are left. */
enum terp_status
cuda_decode(struct terp_session *session, struct cuda_call *call);
