/* A session of the CUDA engine: the device during one call of the API, and the
 * device memory that codec/compose has allocated for the call.
 *
 * Values and streams are either in the session's memory, which is device
 * memory, or in the caller's memory. If the caller's memory is host memory, the
 * session tells the two apart by its list of blocks. */
#pragma once

#include "gpu/engine/context.cuh"

struct terp_session {
    struct terp_cuda_device *device;
    const struct terp_cuda_call *where; /* the call of the API */
    /* TERP_ERR_DEVICE: CUDA failed in allocate(), which can only return NULL.
     */
    enum terp_status failure;
    int nblocks, cap_nblocks;
    struct cuda_block *blocks;
};

/* Returns NULL if memory is short. */
struct terp_session *
cuda_session_open(struct terp_cuda_device *device,
                  const struct terp_cuda_call *where);

/* NULL is allowed. */
void
cuda_session_close(struct terp_session *session);

/* Whether `at` points to the caller's host memory. */
bool
cuda_session_is_host(const struct terp_session *session, const void *at);

/* ---- functions of the table ---- */

void *
cuda_session_allocate(struct terp_session *session, uint64_t nbytes);

void
cuda_session_release(struct terp_session *session, void *at);

enum terp_status
cuda_session_copy(struct terp_session *session, uint64_t n, void *const *dst,
                  const void *const *src, const uint64_t *nbytes);

/* Device memory that is released at the end of a function's scope. `at` is NULL
 * if memory was short. */
struct cuda_session_memory {
    struct terp_session *session;
    uint8_t *at;

    cuda_session_memory(struct terp_session *session_of, uint64_t nbytes)
        : session(session_of),
          at((uint8_t *)cuda_session_allocate(session_of, nbytes))
    {
    }
    ~cuda_session_memory()
    {
        if (at != NULL)
            cuda_session_release(session, at);
    }
    cuda_session_memory(const cuda_session_memory &) = delete;
    cuda_session_memory &operator=(const cuda_session_memory &) = delete;
};

/* Calls work(stream) in a slot of the device and waits for its end, as
 * cuda_slot_do does. Work is any callable that returns a cudaError_t. `what`
 * names the work in messages. Example: cuda_session_do(session, "copying",
 * [=](cudaStream_t stream) { return cudaMemcpyAsync(to, from, n,
 * cudaMemcpyDefault, stream); }). */
template <typename Work>
static inline enum terp_status
cuda_session_do(struct terp_session *session, const char *what, Work work)
{
    return cuda_slot_do(session->device, session->where, what, work);
}

/* encode.cu */
enum terp_status
cuda_encoding_begin(struct terp_session *session,
                    const struct terp_source *source,
                    struct terp_encoding **encoding_ret);

enum terp_status
cuda_encoding_encode(struct terp_encoding *encoding,
                     const struct terp_plan *plan, uint64_t n,
                     const uint64_t *at, void *const *dst,
                     const uint64_t *cap_nbytes, uint64_t *nbytes_ret,
                     struct terp_facts *facts_ret);

void
cuda_encoding_end(struct terp_encoding *encoding);

/* values.cu */
enum terp_status
cuda_values_measure(struct terp_session *session,
                    const struct terp_params *params,
                    const struct terp_chunk *chunk, uint64_t n,
                    const void *const *src, struct terp_measure *measures_ret);

enum terp_status
cuda_values_compare(struct terp_session *session,
                    const struct terp_params *params,
                    const struct terp_chunk *chunk, uint64_t n,
                    const void *const *src, void *const *others,
                    struct terp_measure *measures);

enum terp_status
cuda_values_split(struct terp_session *session, const struct terp_chunk *chunk,
                  uint64_t n, const void *const *src, void *const *parts);

enum terp_status
cuda_values_join(struct terp_session *session, const struct terp_chunk *chunk,
                 uint64_t n, const void *const *parts, void *const *dst);

enum terp_status
cuda_values_leave_out(struct terp_session *session,
                      const struct terp_chunk *chunk, unsigned dims, uint64_t n,
                      const void *const *src, void *const *left);

enum terp_status
cuda_values_put_back(struct terp_session *session,
                     const struct terp_chunk *chunk, unsigned dims, uint64_t n,
                     void *const *values);

enum terp_status
cuda_values_gather(struct terp_session *session,
                   const struct terp_coarse *coarse, int value_nbytes,
                   uint64_t n, const void *const *src, void *const *dst);

enum terp_status
cuda_values_follow(struct terp_session *session, const struct terp_chunk *chunk,
                   uint64_t n, const struct terp_followed *followed,
                   enum terp_status *status_ret);

/* Finds the dimensions along which all values are copies. Bit d of *dims_ret
 * stands for dimension d. */
enum terp_status
cuda_values_find_copies(struct terp_session *session,
                        const struct terp_chunk *chunk, const void *src,
                        unsigned *dims_ret);

/* ranks.cu */
enum terp_status
cuda_ranks_sample(struct terp_session *session, const struct terp_chunk *chunk,
                  uint64_t n, const void *const *src, uint64_t *keys_ret,
                  bool *maybe_ret);

enum terp_status
cuda_ranks_follow(struct terp_session *session, const struct terp_chunk *chunk,
                  uint64_t n, const struct terp_ranked *ranked,
                  enum terp_status *status_ret);

/* search.cu */
enum terp_status
cuda_search(struct terp_session *session, const struct terp_chunk *chunk,
            const struct terp_params *params, struct terp_reference_bound bound,
            const void *src, uint64_t stream_nbytes,
            struct terp_found_references *found_ret);

enum terp_status
cuda_search_differ(struct terp_session *session,
                   const struct terp_found_references *found,
                   const void *decoded);

void
cuda_search_forget(struct terp_session *session,
                   const struct terp_found_references *found);

/* streams.cu */
enum terp_status
cuda_streams_assemble(struct terp_session *session, uint64_t n,
                      const struct terp_assembly *assemblies);

enum terp_status
cuda_streams_look(struct terp_session *session, uint64_t n,
                  const void *const *at, const uint64_t *nbytes, uint8_t *room,
                  const uint8_t **seen_ret);

enum terp_status
cuda_streams_decode_whole(struct terp_session *session,
                          const struct terp_chunk *chunk, uint64_t step,
                          uint64_t n, const void *const *src,
                          const uint64_t *nbytes, void *const *dst,
                          enum terp_status *status_ret);

enum terp_status
cuda_streams_verify_whole(struct terp_session *session, uint64_t n,
                          const void *const *streams, const uint64_t *nbytes,
                          enum terp_status *status_ret);

enum terp_status
cuda_streams_decode(struct terp_session *session, uint64_t step, uint64_t n,
                    const struct terp_open_stream *streams, void *const *dst,
                    enum terp_status *status_ret);
