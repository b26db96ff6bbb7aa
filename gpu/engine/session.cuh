/* A session of the CUDA engine: the device during one call of the API, and the
 * device memory that codec/compose has allocated for the call.
 *
 * A session holds one slot of the device, and starts its work in the slot's
 * stream, in order. It waits for the work only where the host needs a result,
 * and when it ends.
 *
 * Values and streams are either in the session's memory, which is device
 * memory, or in the caller's memory. If the caller's memory is host memory, the
 * session tells the two apart by its list of blocks. */
#pragma once

#include <new>
#include <string.h>
#include <type_traits>

#include "gpu/engine/context.cuh"
#include "gpu/engine/places.cuh"

/* Work in progress may still use a released block. The session keeps the block
 * until it has waited, or allocates it again: later work starts after the work
 * in progress. */
struct cuda_session_block {
    struct cuda_block block;
    bool is_released;
};

struct terp_session {
    struct terp_cuda_device *device;
    const struct terp_cuda_call *where; /* the call of the API */
    struct cuda_visit visit;
    struct cuda_slot *slot;
    bool has_work;         /* work was started that may not have ended */
    int nlists;            /* in scope: see cuda_session_list */
    uint64_t lists_nbytes; /* bytes of slot->h_lists that are in use */
    /* The error of a function that could not return it. */
    enum terp_status failure;
    int nblocks, cap_nblocks;
    struct cuda_session_block *blocks;
};

/* Enters the device, takes a slot, and lets its work wait for the caller's
 * stream. TERP_ERR_ARGUMENT: see cuda_slot_follow. */
enum terp_status
cuda_session_open(struct terp_cuda_device *device,
                  const struct terp_cuda_call *where,
                  struct terp_session **session_ret);

/* Waits for the session's work. Returns `st`, the status of the call, or the
 * error of work that failed after its function had returned. */
enum terp_status
cuda_session_close(struct terp_session *session, enum terp_status st);

/* Whether `at` points to the caller's host memory. */
bool
cuda_session_is_host(const struct terp_session *session, const void *at);

/* Ends a wait for the slot's stream, which returned `error`. `action` names the
 * work in messages. */
enum terp_status
cuda_session_settle(struct terp_session *session, const char *action,
                    cudaError_t error);

/* Waits for all work that was started. */
enum terp_status
cuda_session_await(struct terp_session *session);

/* Waits, and releases all memory of the device that no call uses, also the
 * slot's. False: there was none. */
bool
cuda_session_trim(struct terp_session *session);

/* Starts work(cuda_work &) in the session's stream. Work is any callable. What
 * it starts may use device memory and pinned memory, but no other memory of the
 * host. `action` names the work in messages. Example:
 * cuda_session_start(session, "copying", [=](cuda_work &work) { work.copy(to,
 * from, n); }). */
template <typename Work>
static inline enum terp_status
cuda_session_start(struct terp_session *session, const char *action, Work work)
{
    struct cuda_work started = {session->slot->stream};

    work(started);
    session->has_work = true;
    return started.error == cudaSuccess
               ? TERP_OK
               : cuda_session_settle(session, action, started.error);
}

/* Starts work(cuda_work &) and waits until it is done. */
template <typename Work>
static inline enum terp_status
cuda_session_do(struct terp_session *session, const char *action, Work work)
{
    struct cuda_work started = {session->slot->stream};

    work(started);
    started.add(cudaStreamSynchronize);
    return cuda_session_settle(session, action, started.error);
}

/* Does work(cuda_work &) in a session of its own. array.cu has examples. */
template <typename Work>
static inline enum terp_status
cuda_session_do_alone(struct terp_cuda_device *device,
                      const struct terp_cuda_call *where, const char *action,
                      Work work)
{
    struct terp_session *session;
    const enum terp_status st = cuda_session_open(device, where, &session);

    return st == TERP_OK ? cuda_session_close(
                               session, cuda_session_do(session, action, work))
                         : st;
}

/* Starts work(cuda_work &). Waits until it is done unless `starts`, which is
 * for work as in cuda_session_start. */
template <typename Work>
static inline enum terp_status
cuda_session_start_or_do(struct terp_session *session, bool starts,
                         const char *action, Work work)
{
    return starts ? cuda_session_start(session, action, work)
                  : cuda_session_do(session, action, work);
}

/* Limits of a launch. A chunk or stream has a row of blocks, blockIdx.y, and
 * CUDA limits gridDim.y to 65535. All rows together have about MAX_NBLOCKS
 * blocks at most: even a large device runs fewer at once, so more would not
 * help. */
#define CUDA_LAUNCH_MAX_NROWS 16384
#define CUDA_LAUNCH_MAX_NBLOCKS 2048

/* Calls work(first, n) for portions of at most CUDA_LAUNCH_MAX_NROWS of n
 * chunks or streams. Work is any callable that returns a status; after an
 * error, later portions are skipped. */
template <typename Work>
static inline enum terp_status
cuda_session_portions(uint64_t n, Work work)
{
    enum terp_status st = TERP_OK;

    for (uint64_t i = 0; st == TERP_OK && i < n; i += CUDA_LAUNCH_MAX_NROWS)
        st = work(i, min_u64(CUDA_LAUNCH_MAX_NROWS, n - i));
    return st;
}

/* The grid of a launch for n chunks or streams of `nitems` items. A block takes
 * `block_nitems` at a time, and loops over the items that remain. */
static inline dim3
cuda_session_grid(uint64_t n, uint64_t nitems, uint64_t block_nitems)
{
    return dim3((unsigned)min_u64(div_up(nitems, block_nitems),
                                  div_up(CUDA_LAUNCH_MAX_NBLOCKS, n)),
                (unsigned)n);
}

/* ---- functions of the table ---- */

table_function<decltype(terp_engine::allocate)> cuda_session_allocate;
table_function<decltype(terp_engine::release)> cuda_session_release;
table_function<decltype(terp_engine::copy)> cuda_session_copy;

/* Copies n blocks, and waits. */
enum terp_status
cuda_session_fetch(struct terp_session *session, uint64_t n, void *const *dst,
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

/* Makes the pinned memory of lists free once nothing uses it. */
static inline void
cuda_session_free_lists(struct terp_session *session)
{
    if (session->nlists == 0 && !session->has_work)
        session->lists_nbytes = 0;
}

/* A list of n items on the host and in device memory, followed by `nbytes` of
 * device memory for other uses. If memory was short, is_made() is false. The
 * items of a short list are in pinned memory. The scope of a longer list ends
 * with a wait. */
template <typename Item> class cuda_session_list
{
    struct terp_session *session;
    uint64_t list_nbytes;
    Item *own; /* items that are not pinned */
    cuda_session_memory memory;

  public:
    const uint64_t n;
    Item *items;

    cuda_session_list(struct terp_session *session_of, uint64_t nitems,
                      uint64_t nbytes = 0)
        : session(session_of),
          list_nbytes(place_aligned(nitems * sizeof(Item))), own(NULL),
          memory(session_of, list_nbytes + nbytes), n(nitems), items(NULL)
    {
        session->nlists++;
        if (list_nbytes <= CUDA_LISTS_NBYTES - session->lists_nbytes) {
            items = (Item *)(session->slot->h_lists + session->lists_nbytes);
            session->lists_nbytes += list_nbytes;
        } else {
            items = own = new (std::nothrow) Item[(size_t)n];
        }
    }
    ~cuda_session_list()
    {
        session->nlists--;
        if (own != NULL) {
            const enum terp_status st = cuda_session_await(session);
            if (st != TERP_OK)
                session->failure = st;
            delete[] own;
        }
        cuda_session_free_lists(session);
    }
    cuda_session_list(const cuda_session_list &) = delete;
    cuda_session_list &operator=(const cuda_session_list &) = delete;

    bool is_made() const
    {
        return items != NULL && memory.at != NULL;
    }
    Item *on_device() const
    {
        return (Item *)memory.at;
    }
    /* The items where kernels can write them; NULL: they are not pinned. */
    Item *pinned() const
    {
        return own == NULL ? items : NULL;
    }
    uint8_t *more() const
    {
        return memory.at + list_nbytes;
    }
    void upload(struct cuda_work &work) const
    {
        work.copy(memory.at, items, n * sizeof(Item));
    }
    void download(struct cuda_work &work) const
    {
        work.copy(items, memory.at, n * sizeof(Item));
    }
};

/* Samples n chunks in device memory and copies the samples to `keys_ret`.
 * run(work, d_src, keys) starts a kernel that reads the chunks at d_src and
 * writes `nkeys` keys of each. Waits until all is done. */
template <typename Run>
static inline enum terp_status
cuda_session_sample(struct terp_session *session, const char *action,
                    uint64_t n, const void *const *src, uint64_t nkeys,
                    uint64_t *keys_ret, Run run)
{
    const uint64_t keys_nbytes = n * nkeys * sizeof *keys_ret;
    const cuda_session_list<const void *> list(session, n, keys_nbytes);

    if (!list.is_made())
        return TERP_ERR_MEMORY;
    memcpy(list.items, src, n * sizeof *src);
    return cuda_session_do(session, action, [&](cuda_work &work) {
        list.upload(work);
        run(work, list.on_device(), (uint64_t *)list.more());
        work.copy(keys_ret, list.more(), keys_nbytes);
    });
}

/* ---- functions of the table in other files ---- */

/* encode.cu */
table_function<decltype(terp_engine::begin)> cuda_encoding_begin;
table_function<decltype(terp_engine::encode)> cuda_encoding_encode;
table_function<decltype(terp_engine::end)> cuda_encoding_end;

/* values.cu */
table_function<decltype(terp_engine::measure)> cuda_values_measure;
table_function<decltype(terp_engine::compare)> cuda_values_compare;
table_function<decltype(terp_engine::split)> cuda_values_split;
table_function<decltype(terp_engine::join)> cuda_values_join;
table_function<decltype(terp_engine::leave_out)> cuda_values_leave_out;
table_function<decltype(terp_engine::put_back)> cuda_values_put_back;
table_function<decltype(terp_engine::gather)> cuda_values_gather;
table_function<decltype(terp_engine::follow)> cuda_values_follow;

/* Not in the table. Finds the dimensions along which all values are copies. Bit
 * d of *dims_ret stands for dimension d. */
enum terp_status
cuda_values_find_copies(struct terp_session *session,
                        const struct terp_chunk *chunk, const void *src,
                        unsigned *dims_ret);

/* ranks.cu, columns.cu */
table_function<decltype(terp_engine::sample)> cuda_ranks_sample;
table_function<decltype(terp_engine::unrank)> cuda_ranks_follow;
table_function<decltype(terp_engine::sample_grid)> cuda_grid_sample;
table_function<decltype(terp_engine::sample_rows)> cuda_columns_sample;
table_function<decltype(terp_engine::put_together)> cuda_columns_put_together;

/* search.cu */
table_function<decltype(terp_engine::search)> cuda_search;
table_function<decltype(terp_engine::differ)> cuda_search_differ;
table_function<decltype(terp_engine::forget)> cuda_search_forget;

/* streams.cu */
table_function<decltype(terp_engine::assemble)> cuda_streams_assemble;
table_function<decltype(terp_engine::peek)> cuda_streams_peek;
table_function<decltype(terp_engine::decode)> cuda_streams_decode;
table_function<decltype(terp_engine::decode_whole)> cuda_streams_decode_whole;
table_function<decltype(terp_engine::verify)> cuda_streams_verify_whole;
