/* Encodes and decodes one chunk on the CPU, and checks the caller's
 * parameters. */
#include "codec/api/terp.h"

#include <stdlib.h>
#include <string.h>

#include "codec/api/calls.h"
#include "codec/api/context.h"
#include "codec/api/processor.h"
#include "codec/compose/stream.h"
#include "codec/format/base.h"
#include "codec/format/frame.h"
#include "codec/model/bound.h"
#include "codec/model/coarse.h"

const char *
terp_version(void)
{
    return TERP_VERSION;
}

const char *
terp_cpu_instructions(void)
{
    return terp_processor_instructions();
}

/* The size of the struct of version 1.0. */
#define PARAMS_1_0_NBYTES offsetof(struct terp_params, keep_sign)
_Static_assert(PARAMS_1_0_NBYTES % _Alignof(struct terp_params) == 0,
               "the struct of version 1.0 ended without padding");

/* Whether the environment forbids what terp 1 does not read. */
static bool
is_first_format_set(void)
{
    const char *text = getenv("TERP_FORMAT");

    return text != NULL && strcmp(text, "1") == 0;
}

bool
terp_params_copy(const struct terp_params *params, struct terp_params *own_ret)
{
    const size_t nbytes = params->size == 0 ? PARAMS_1_0_NBYTES : params->size;

    if (nbytes != PARAMS_1_0_NBYTES && nbytes != sizeof *params)
        return false;
    memset(own_ret, 0, sizeof *own_ret);
    memcpy(own_ret, params, nbytes);
    own_ret->size = sizeof *own_ret;
    if (own_ret->format == 0 && is_first_format_set())
        own_ret->format = TERP_FORMAT_FIRST_VERSION;
    return true;
}

static const char *
unknown_member(const struct terp_params *params)
{
    if (params->bound_mode < TERP_BOUND_ABSOLUTE ||
        params->bound_mode >= TERP_NBOUND_MODES)
        return "terp_params.bound_mode is unknown";
    if (terp_pipeline_name(params->pipeline) == NULL)
        return "terp_params.pipeline is unknown";
    if ((unsigned)params->predictor >= TERP_NPREDICTORS)
        return "terp_params.predictor is unknown";
    if ((unsigned)params->effort >= TERP_NEFFORTS)
        return "terp_params.effort is unknown";
    if ((unsigned)params->keep_sign >= TERP_NKEEP_SIGNS)
        return "terp_params.keep_sign is unknown";
    if (params->format < 0 || params->format > TERP_FORMAT_VERSION)
        return "terp_params.format is unknown";
    return NULL;
}

enum terp_status
terp_do_check_params(const struct terp_params *caller, const char **reason_ret)
{
    struct terp_params own;
    const struct terp_params *params = &own;
    const char *reason =
        terp_params_copy(caller, &own)
            ? unknown_member(params)
            : "terp_params.size does not match a known version";
    enum terp_status st = reason == NULL ? TERP_OK : TERP_ERR_ARGUMENT;

    if (reason == NULL && !is_bound(params->bound) &&
        !terp_is_lossless(params)) {
        st = TERP_ERR_BOUND;
        reason = "terp_params.bound must be finite and positive (0 is allowed "
                 "in absolute mode only)";
    }
    if (st == TERP_OK && params->bound_mode == TERP_BOUND_POINTWISE &&
        !(params->bound < 1)) {
        st = TERP_ERR_BOUND;
        reason = "terp_params.bound must be below 1 in pointwise mode";
    }
    if (st == TERP_OK && params->floor != 0 &&
        (!is_bound(params->floor) ||
         params->bound_mode != TERP_BOUND_POINTWISE)) {
        st = TERP_ERR_BOUND;
        reason = "terp_params.floor must be finite and positive, and needs a "
                 "pointwise bound";
    }
    if (st == TERP_OK && params->has_valid_range &&
        !(params->valid_min <= params->valid_max)) {
        st = TERP_ERR_ARGUMENT;
        reason = "terp_params.valid_min must not be above valid_max";
    }
    if (reason_ret != NULL)
        *reason_ret = reason;
    return st;
}

enum terp_status
terp_do_encode(const struct terp_params *params, const struct terp_chunk *chunk,
               const void *src, void *dst, uint64_t dst_cap_nbytes,
               uint64_t *dst_nbytes_ret, int nthreads)
{
    struct terp_budget budget;
    struct terp_params own;
    const struct terp_cpu_call call =
        terp_context_cpu_call(terp_context_of(NULL), nthreads, &budget);

    if (terp_chunk_nbytes(chunk) == 0 || nthreads < 1)
        return TERP_ERR_ARGUMENT;
    enum terp_status st = chunk->type == TERP_BYTES
                              ? TERP_OK
                              : terp_do_check_params(params, NULL);
    if (st != TERP_ERR_ARGUMENT && dst_cap_nbytes < terp_encode_bound(chunk))
        return TERP_ERR_CAPACITY;
    if (st == TERP_OK)
        st = terp_budget_check(terp_chunk_nbytes(chunk));
    if (st == TERP_OK && chunk->type != TERP_BYTES)
        terp_params_copy(params, &own);
    if (st == TERP_OK)
        st = terp_stream_encode(&call, &own, chunk, src, dst, dst_nbytes_ret);
    return terp_budget_status(&budget, st);
}

enum terp_status
terp_decoded_chunk(const void *src, uint64_t src_nbytes,
                   struct terp_chunk *chunk_ret)
{
    struct terp_frame frame;
    int frame_nbytes;
    enum terp_status st =
        terp_frame_read(src, src_nbytes, &frame, &frame_nbytes);

    if (st == TERP_OK)
        *chunk_ret = frame.chunk;
    return st;
}

enum terp_status
terp_decoded_nbytes(const void *src, uint64_t src_nbytes, uint64_t *nbytes_ret)
{
    struct terp_chunk chunk;
    enum terp_status st = terp_decoded_chunk(src, src_nbytes, &chunk);

    if (st == TERP_OK)
        *nbytes_ret = terp_chunk_nbytes(&chunk);
    return st;
}

/* ---- every step-th value ---- */

enum terp_status
terp_coarse_chunk(const struct terp_chunk *chunk, uint64_t step,
                  struct terp_chunk *coarse_ret)
{
    if (terp_chunk_nbytes(chunk) == 0 || !terp_step_is_valid(step))
        return TERP_ERR_ARGUMENT;
    *coarse_ret = terp_coarse_chunk_of(chunk, step);
    return TERP_OK;
}

enum terp_status
terp_do_decode(const void *src, uint64_t src_nbytes, uint64_t step, void *dst,
               uint64_t dst_cap_nbytes, uint64_t *dst_nbytes_ret, int nthreads)
{
    struct terp_budget budget;
    const struct terp_cpu_call call =
        terp_context_cpu_call(terp_context_of(NULL), nthreads, &budget);
    struct terp_open_stream stream;

    if (nthreads < 1 || !terp_step_is_valid(step))
        return TERP_ERR_ARGUMENT;
    enum terp_status st = terp_stream_open(src, src_nbytes, step, &stream);
    if (st != TERP_OK)
        return st;
    const struct terp_chunk coarse =
        terp_coarse_chunk_of(&stream.frame.chunk, step);
    uint64_t dst_nbytes = terp_chunk_nbytes(&coarse);
    if (dst_nbytes > dst_cap_nbytes)
        return TERP_ERR_CAPACITY;
    st = terp_budget_check(terp_chunk_nbytes(&stream.frame.chunk));
    if (st == TERP_OK)
        st = terp_stream_decode(&call, &stream, step, dst);
    if (st == TERP_OK)
        *dst_nbytes_ret = dst_nbytes;
    return terp_budget_status(&budget, st);
}

enum terp_status
terp_coarse_nbytes(const void *src, uint64_t src_nbytes, uint64_t step,
                   uint64_t *nbytes_ret)
{
    struct terp_frame frame;
    int frame_nbytes;

    if (!terp_step_is_valid(step))
        return TERP_ERR_ARGUMENT;
    enum terp_status st =
        terp_frame_read(src, src_nbytes, &frame, &frame_nbytes);
    if (st != TERP_OK)
        return st;
    const struct terp_prefix *prefix = terp_prefix_of(&frame, step);
    *nbytes_ret = prefix == NULL ? UINT64_MAX : prefix->nbytes;
    return TERP_OK;
}
