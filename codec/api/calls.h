/* The work of the API's functions, called by calls.c in the default
 * floating-point environment. */
#pragma once

#include "codec/api/cd_values.h"
#include "codec/api/inspect.h"
#include "codec/api/run.h"

enum terp_status
terp_do_check_params(const struct terp_params *params, const char **reason_ret);

enum terp_status
terp_do_encode(const struct terp_params *params, const struct terp_chunk *chunk,
               const void *src, void *dst, uint64_t dst_cap_nbytes,
               uint64_t *dst_nbytes_ret, int nthreads);

enum terp_status
terp_do_decode(const void *src, uint64_t src_nbytes, uint64_t step, void *dst,
               uint64_t dst_cap_nbytes, uint64_t *dst_nbytes_ret, int nthreads);

enum terp_status
terp_do_inspect(const struct terp_open_stream *stream, const void *src,
                uint64_t src_nbytes, struct terp_info *info_ret,
                struct terp_stream_facts *facts_ret);

enum terp_status
terp_do_run_encode(struct terp_run *run, const struct terp_params *params,
                   const struct terp_chunk *chunk, uint64_t nchunks,
                   const void *const *src, void *const *dst,
                   uint64_t *dst_nbytes_ret);

enum terp_status
terp_do_run_decode(struct terp_run *run, const struct terp_chunk *chunk,
                   const struct terp_read_frame *frame, uint64_t step,
                   uint64_t nchunks, const void *const *src,
                   const uint64_t *src_nbytes, void *const *dst,
                   enum terp_status *status_ret);

enum terp_status
terp_do_rewrite_encode(struct terp_run *run, const struct terp_params *params,
                       const struct terp_chunk *chunk, const void *stream,
                       uint64_t stream_nbytes, const void *src, void *dst,
                       uint64_t *dst_nbytes_ret, bool *is_rewrite_ret);

enum terp_status
terp_do_cd_parse(size_t cd_nelmts, const unsigned *cd_values,
                 struct terp_cd *cd_ret, const char **reason_ret);

size_t
terp_do_cd_persist(const struct terp_cd *cd, unsigned *words_ret);

size_t
terp_do_cd_write(const struct terp_cd *cd, bool exact, unsigned *words_ret);

bool
terp_do_cd_apply_dims(struct terp_cd *cd, enum terp_type type, bool big_endian,
                      int ndims, const uint64_t *dims);

void
terp_do_cd_apply_compound(struct terp_cd *cd, int ndims, const uint64_t *dims);

struct terp_params
terp_do_cd_member_params(const struct terp_cd *cd,
                         const struct terp_member *member);

bool
terp_do_cd_may_lose(const struct terp_cd *cd);
