/* The functions of the API that read or compare floating-point numbers. Each
 * does its work in the default floating-point environment and then restores the
 * host's. */
#include "codec/api/calls.h"

#include "codec/api/inspect.h"
#include "codec/api/rewrite.h"
#include "codec/compose/stream.h"
#include "codec/format/environment.h"

enum terp_status
terp_params_check(const struct terp_params *params, const char **reason_ret)
{
    struct terp_environment host;

    terp_environment_enter(&host);
    const enum terp_status result = terp_do_check_params(params, reason_ret);
    terp_environment_leave(&host);
    return result;
}

enum terp_status
terp_encode(const struct terp_params *params, const struct terp_chunk *chunk,
            const void *src, void *dst, uint64_t dst_cap_nbytes,
            uint64_t *dst_nbytes_ret, int nthreads)
{
    struct terp_environment host;

    terp_environment_enter(&host);
    const enum terp_status result = terp_do_encode(
        params, chunk, src, dst, dst_cap_nbytes, dst_nbytes_ret, nthreads);
    terp_environment_leave(&host);
    return result;
}

enum terp_status
terp_decode_coarse(const void *src, uint64_t src_nbytes, uint64_t step,
                   void *dst, uint64_t dst_cap_nbytes, uint64_t *dst_nbytes_ret,
                   int nthreads)
{
    struct terp_environment host;

    terp_environment_enter(&host);
    const enum terp_status result = terp_do_decode(
        src, src_nbytes, step, dst, dst_cap_nbytes, dst_nbytes_ret, nthreads);
    terp_environment_leave(&host);
    return result;
}

enum terp_status
terp_decode(const void *src, uint64_t src_nbytes, void *dst,
            uint64_t dst_cap_nbytes, uint64_t *dst_nbytes_ret, int nthreads)
{
    return terp_decode_coarse(src, src_nbytes, 1, dst, dst_cap_nbytes,
                              dst_nbytes_ret, nthreads);
}

/* ---- batches ---- */

enum terp_status
terp_run_encode(struct terp_run *run, const struct terp_params *params,
                const struct terp_chunk *chunk, uint64_t nchunks,
                const void *const *src, void *const *dst,
                uint64_t *dst_nbytes_ret)
{
    struct terp_environment host;

    terp_environment_enter(&host);
    const enum terp_status result = terp_do_run_encode(
        run, params, chunk, nchunks, src, dst, dst_nbytes_ret);
    terp_environment_leave(&host);
    return result;
}

enum terp_status
terp_run_decode(struct terp_run *run, const struct terp_chunk *chunk,
                const struct terp_read_frame *frame, uint64_t step,
                uint64_t nchunks, const void *const *src,
                const uint64_t *src_nbytes, void *const *dst,
                enum terp_status *status_ret)
{
    struct terp_environment host;

    terp_environment_enter(&host);
    const enum terp_status result = terp_do_run_decode(
        run, chunk, frame, step, nchunks, src, src_nbytes, dst, status_ret);
    terp_environment_leave(&host);
    return result;
}

enum terp_status
terp_encode_batch(const struct terp_run_options *options,
                  const struct terp_params *params,
                  const struct terp_chunk *chunk, uint64_t nchunks,
                  const void *const *src, void *const *dst,
                  uint64_t *dst_nbytes_ret, struct terp_run_result *result)
{
    struct terp_run run;
    enum terp_status st = terp_run_begin(options, result, &run);

    if (st == TERP_OK)
        st = terp_run_encode(&run, params, chunk, nchunks, src, dst,
                             dst_nbytes_ret);
    return terp_run_end(&run, st, result);
}

enum terp_status
terp_decode_coarse_batch(const struct terp_run_options *options,
                         const struct terp_chunk *chunk, uint64_t step,
                         uint64_t nchunks, const void *const *src,
                         const uint64_t *src_nbytes, void *const *dst,
                         enum terp_status *status_ret,
                         struct terp_run_result *result)
{
    struct terp_run run;
    enum terp_status st = terp_run_begin(options, result, &run);

    for (uint64_t i = 0; st != TERP_OK && i < nchunks; i++)
        status_ret[i] = st;
    if (st == TERP_OK)
        st = terp_run_decode(&run, chunk, NULL, step, nchunks, src, src_nbytes,
                             dst, status_ret);
    return terp_run_end(&run, st, result);
}

enum terp_status
terp_decode_batch(const struct terp_run_options *options,
                  const struct terp_chunk *chunk, uint64_t nchunks,
                  const void *const *src, const uint64_t *src_nbytes,
                  void *const *dst, enum terp_status *status_ret,
                  struct terp_run_result *result)
{
    return terp_decode_coarse_batch(options, chunk, 1, nchunks, src, src_nbytes,
                                    dst, status_ret, result);
}

enum terp_status
terp_rewrite_encode(struct terp_run *run, const struct terp_params *params,
                    const struct terp_chunk *chunk, const void *stream,
                    uint64_t stream_nbytes, const void *src, void *dst,
                    uint64_t *dst_nbytes_ret, bool *is_rewrite_ret)
{
    struct terp_environment host;

    terp_environment_enter(&host);
    const enum terp_status result =
        terp_do_rewrite_encode(run, params, chunk, stream, stream_nbytes, src,
                               dst, dst_nbytes_ret, is_rewrite_ret);
    terp_environment_leave(&host);
    return result;
}

/* ---- cd_values ---- */

enum terp_status
terp_cd_parse(size_t cd_nelmts, const unsigned *cd_values,
              struct terp_cd *cd_ret, const char **reason_ret)
{
    struct terp_environment host;

    terp_environment_enter(&host);
    const enum terp_status result =
        terp_do_cd_parse(cd_nelmts, cd_values, cd_ret, reason_ret);
    terp_environment_leave(&host);
    return result;
}

size_t
terp_cd_persist(const struct terp_cd *cd, unsigned *words_ret)
{
    struct terp_environment host;

    terp_environment_enter(&host);
    const size_t result = terp_do_cd_persist(cd, words_ret);
    terp_environment_leave(&host);
    return result;
}

size_t
terp_cd_write(const struct terp_cd *cd, bool exact, unsigned *words_ret)
{
    struct terp_environment host;

    terp_environment_enter(&host);
    const size_t result = terp_do_cd_write(cd, exact, words_ret);
    terp_environment_leave(&host);
    return result;
}

bool
terp_cd_apply_dims(struct terp_cd *cd, enum terp_type type, bool big_endian,
                   int ndims, const uint64_t *dims)
{
    struct terp_environment host;

    terp_environment_enter(&host);
    const bool result =
        terp_do_cd_apply_dims(cd, type, big_endian, ndims, dims);
    terp_environment_leave(&host);
    return result;
}

void
terp_cd_apply_compound(struct terp_cd *cd, int ndims, const uint64_t *dims)
{
    struct terp_environment host;

    terp_environment_enter(&host);
    terp_do_cd_apply_compound(cd, ndims, dims);
    terp_environment_leave(&host);
}

struct terp_params
terp_cd_member_params(const struct terp_cd *cd,
                      const struct terp_member *member)
{
    struct terp_environment host;

    terp_environment_enter(&host);
    const struct terp_params result = terp_do_cd_member_params(cd, member);
    terp_environment_leave(&host);
    return result;
}

bool
terp_cd_may_lose(const struct terp_cd *cd)
{
    struct terp_environment host;

    terp_environment_enter(&host);
    const bool result = terp_do_cd_may_lose(cd);
    terp_environment_leave(&host);
    return result;
}

/* ---- what streams tell ---- */

enum terp_status
terp_inspect_facts(const void *src, uint64_t src_nbytes,
                   struct terp_info *info_ret,
                   struct terp_stream_facts *facts_ret)
{
    struct terp_open_stream stream;
    struct terp_environment host;

    if (!terp_size_is_known(info_ret->size, sizeof *info_ret))
        return TERP_ERR_ARGUMENT;
    terp_environment_enter(&host);
    enum terp_status st = terp_stream_open(src, src_nbytes, 1, &stream);
    if (st == TERP_OK)
        st = terp_do_inspect(&stream, src, src_nbytes, info_ret, facts_ret);
    terp_environment_leave(&host);
    return st;
}

enum terp_status
terp_inspect(const void *src, uint64_t src_nbytes, struct terp_info *info_ret)
{
    struct terp_stream_facts facts;

    return terp_inspect_facts(src, src_nbytes, info_ret, &facts);
}

enum terp_status
terp_inspect_decoded(const struct terp_read_frame *frame, const void *src,
                     uint64_t src_nbytes, struct terp_info *info_ret)
{
    const struct terp_open_stream stream = {
        frame->frame, (const uint8_t *)src + frame->nbytes,
        src_nbytes - (uint64_t)frame->nbytes, (const uint8_t *)src};
    struct terp_stream_facts facts;
    struct terp_environment host;

    terp_environment_enter(&host);
    const enum terp_status st =
        terp_do_inspect(&stream, src, src_nbytes, info_ret, &facts);
    terp_environment_leave(&host);
    return st;
}
