/* The functions in the CPU engine's table. codec/engine.h describes each. */
#pragma once

#include "codec/engine.h"
#include "cpu/pool/pool.h"

/* The CPU's session is a pool. */
static inline struct cpu_pool *
cpu_pool_of(struct terp_session *session)
{
    return (struct cpu_pool *)session;
}

struct terp_session *
terp_cpu_open(const struct terp_cpu_call *call, uint64_t nvalues);

void
terp_cpu_close(struct terp_session *session);

void *
terp_cpu_allocate(struct terp_session *session, uint64_t nbytes);

void
terp_cpu_release(struct terp_session *session, void *at);

enum terp_status
terp_cpu_copy(struct terp_session *session, uint64_t n, void *const *dst,
              const void *const *src, const uint64_t *nbytes);

enum terp_status
terp_cpu_begin(struct terp_session *session, const struct terp_source *source,
               struct terp_encoding **encoding_ret);

enum terp_status
terp_cpu_encode(struct terp_encoding *encoding, const struct terp_plan *plan,
                uint64_t n, const uint64_t *at, void *const *dst,
                const uint64_t *cap_nbytes, uint64_t *nbytes_ret,
                struct terp_facts *facts_ret);

void
terp_cpu_end(struct terp_encoding *encoding);

enum terp_status
terp_cpu_speed_encode(struct terp_session *session,
                      const struct terp_source *source, void *const *dst,
                      uint64_t *nbytes_ret);

enum terp_status
terp_cpu_peek(struct terp_session *session, uint64_t n, const void *const *at,
              const uint64_t *nbytes, uint8_t *buffer,
              const uint8_t **seen_ret);

enum terp_status
terp_cpu_decode(struct terp_session *session, uint64_t step, uint64_t n,
                const struct terp_open_stream *streams, void *const *dst,
                enum terp_status *status_ret);

enum terp_status
terp_cpu_inspect(const struct terp_frame *frame, const uint8_t *body,
                 uint64_t body_nbytes, struct terp_info *info,
                 struct terp_usual_fills *fills);

enum terp_status
terp_cpu_encode_changed(struct terp_session *session,
                        const struct terp_source *source,
                        const struct terp_open_stream *before, uint8_t *dst,
                        uint64_t *dst_nbytes_ret);

enum terp_status
terp_cpu_measure(struct terp_session *session, const struct terp_params *params,
                 const struct terp_chunk *chunk, uint64_t n,
                 const void *const *src, struct terp_measure *measures_ret);

enum terp_status
terp_cpu_compare(struct terp_session *session, const struct terp_params *params,
                 const struct terp_chunk *chunk, uint64_t n,
                 const void *const *src, void *const *others,
                 struct terp_measure *measures);

enum terp_status
terp_cpu_split(struct terp_session *session, const struct terp_chunk *chunk,
               uint64_t n, const void *const *src, void *const *parts);

enum terp_status
terp_cpu_join(struct terp_session *session, const struct terp_chunk *chunk,
              uint64_t n, const void *const *parts, void *const *dst);

enum terp_status
terp_cpu_gather(struct terp_session *session, const struct terp_coarse *coarse,
                int value_nbytes, uint64_t n, const void *const *src,
                void *const *dst);

enum terp_status
terp_cpu_copies_leave_out(struct terp_session *session,
                          const struct terp_chunk *chunk, unsigned dims,
                          uint64_t n, const void *const *src,
                          void *const *left);

enum terp_status
terp_cpu_copies_put_back(struct terp_session *session,
                         const struct terp_chunk *chunk, unsigned dims,
                         uint64_t n, void *const *values);

enum terp_status
terp_cpu_references_search(struct terp_session *session,
                           const struct terp_chunk *chunk,
                           const struct terp_params *params,
                           struct terp_reference_bound bound, const void *src,
                           uint64_t stream_nbytes,
                           struct terp_found_references *found_ret);

enum terp_status
terp_cpu_references_differ(struct terp_session *session,
                           const struct terp_found_references *found,
                           const void *decoded);

void
terp_cpu_references_forget(struct terp_session *session,
                           const struct terp_found_references *found);

enum terp_status
terp_cpu_references_follow(struct terp_session *session,
                           const struct terp_chunk *chunk, uint64_t n,
                           const struct terp_followed *followed,
                           enum terp_status *status_ret);

enum terp_status
terp_cpu_ranks_sample(struct terp_session *session,
                      const struct terp_chunk *chunk, uint64_t n,
                      const void *const *src, uint64_t *keys_ret,
                      bool *maybe_ret);

enum terp_status
terp_cpu_ranks_find(struct terp_session *session,
                    const struct terp_chunk *chunk, const void *src,
                    struct terp_found_ranks *found_ret);

enum terp_status
terp_cpu_grid_sample(struct terp_session *session,
                     const struct terp_chunk *chunk, uint64_t n,
                     const void *const *src, uint64_t *keys_ret);

enum terp_status
terp_cpu_grid_number(struct terp_session *session,
                     const struct terp_chunk *chunk, const void *src,
                     struct terp_found_ranks *found_ret);

enum terp_status
terp_cpu_ranks_follow(struct terp_session *session,
                      const struct terp_chunk *chunk, uint64_t n,
                      const struct terp_ranked *ranked,
                      enum terp_status *status_ret);

enum terp_status
terp_cpu_columns_sample(struct terp_session *session,
                        const struct terp_chunk *chunk, uint64_t n,
                        const void *const *src, uint64_t *keys_ret);

enum terp_status
terp_cpu_columns_take_apart(struct terp_session *session,
                            const struct terp_chunk *chunk, const void *src,
                            void *columns);

enum terp_status
terp_cpu_columns_put_together(struct terp_session *session,
                              const struct terp_chunk *chunk, uint64_t n,
                              const void *const *columns, void *const *dst);

enum terp_status
terp_cpu_assemble(struct terp_session *session, uint64_t n,
                  const struct terp_assembly *assemblies);
