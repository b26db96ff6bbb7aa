/* Encodes a chunk on the CPU under the bounds that a search for a PSNR tries.
 */
#include "codec/api/psnr.h"

#include <string.h>

#include "codec/api/processor.h"
#include "codec/model/bound.h"
#include "codec/model/psnr.h"

/* What a search works in. */
struct trial {
    terp_cpu_encoder *encode;
    const struct terp_cpu_call *call;
    const struct terp_chunk *chunk;
    const void *src;
    void *decoded;
    struct terp_params params;
};

/* Encodes into `dst` under the bound of the trial; the square of the error. */
static enum terp_status
try_bound(struct trial *trial, uint8_t *dst, uint64_t *nbytes_ret,
          double *square_ret)
{
    struct terp_stream stream;
    struct terp_measure measure;
    enum terp_status st = trial->encode(
        trial->call, &trial->params, trial->chunk, trial->src, dst, nbytes_ret);

    if (st == TERP_OK)
        st = terp_stream_open(dst, *nbytes_ret, 1, &stream);
    if (st == TERP_OK)
        st = terp_stream_decode(trial->call, &stream, 1, trial->decoded);
    if (st == TERP_OK)
        st = terp_processor_engine()->measure(trial->call, &trial->params,
                                              trial->chunk, trial->src,
                                              trial->decoded, &measure);
    *square_ret = st == TERP_OK ? measure.square : 0;
    return st;
}

/* Encodes into `dst` the smallest stream found, by way of `other`. */
static enum terp_status
search_bound(struct trial *trial, double psnr, double half_range, uint8_t *dst,
             uint8_t *other, uint64_t *dst_nbytes_ret)
{
    struct terp_psnr_search search;
    double square;

    terp_psnr_begin(psnr, &search);
    while (!search.is_done) {
        const bool found = search.found;
        uint64_t nbytes = 0;
        trial->params.bound =
            terp_psnr_bound(half_range, terp_psnr_factor(&search));
        if (!is_bound(trial->params.bound))
            break;
        const enum terp_status st =
            try_bound(trial, found ? other : dst, &nbytes, &square);
        if (st != TERP_OK)
            return st;
        const bool suffices = terp_psnr_note(&search, square);
        if (suffices && found && nbytes < *dst_nbytes_ret)
            memcpy(dst, other, nbytes);
        if (suffices && (!found || nbytes < *dst_nbytes_ret))
            *dst_nbytes_ret = nbytes;
    }
    trial->params.bound = 0;
    return search.found
               ? TERP_OK
               : trial->encode(trial->call, &trial->params, trial->chunk,
                               trial->src, dst, dst_nbytes_ret);
}

enum terp_status
terp_psnr_search(terp_cpu_encoder *encode, const struct terp_cpu_call *call,
                 const struct terp_params *params,
                 const struct terp_chunk *chunk, const void *src, uint8_t *dst,
                 uint64_t *dst_nbytes_ret)
{
    struct trial trial = {
        .encode = encode, .call = call, .chunk = chunk, .src = src};
    struct terp_measure measure;
    enum terp_status st = terp_processor_engine()->measure(call, params, chunk,
                                                           src, NULL, &measure);
    uint8_t *other = NULL;

    if (st != TERP_OK)
        return st;
    trial.params = terp_params_without_psnr(params, measure.half_range);
    if (!terp_range_has_psnr(measure.half_range) ||
        params->bound > TERP_MAX_PSNR)
        return encode(call, &trial.params, chunk, src, dst, dst_nbytes_ret);
    other = terp_allocate(call->allocator, terp_encode_bound(chunk));
    trial.decoded = terp_allocate(call->allocator, terp_chunk_nbytes(chunk));
    st = other == NULL || trial.decoded == NULL
             ? TERP_ERR_MEMORY
             : search_bound(&trial, params->bound, measure.half_range, dst,
                            other, dst_nbytes_ret);
    terp_release(call->allocator, trial.decoded);
    terp_release(call->allocator, other);
    return st;
}
