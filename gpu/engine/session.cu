/* Sessions: the device during one call of the API, and the device memory of the
 * call. */
#include "gpu/engine/session.cuh"

#include <stdlib.h>

/* ---- work ---- */

/* Gives released blocks back to the device. */
static void
give_released(struct terp_session *session)
{
    int n = 0;

    for (int i = 0; i < session->nblocks; i++) {
        const struct cuda_session_block kept = session->blocks[i];
        if (kept.is_released)
            cuda_block_give(session->device, kept.block);
        else
            session->blocks[n++] = kept;
    }
    session->nblocks = n;
}

enum terp_status
cuda_session_settle(struct terp_session *session, const char *action,
                    cudaError_t error)
{
    const enum terp_status st =
        cuda_device_judge(session->device, session->slot, action, error);

    session->has_work = false;
    cuda_session_free_lists(session);
    give_released(session);
    return st;
}

enum terp_status
cuda_session_await(struct terp_session *session)
{
    return session->has_work ? cuda_session_settle(
                                   session, "finishing",
                                   cudaStreamSynchronize(session->slot->stream))
                             : TERP_OK;
}

bool
cuda_session_trim(struct terp_session *session)
{
    const enum terp_status st = cuda_session_await(session);
    const bool is_released = session->slot->d_nbytes > 0;

    if (st != TERP_OK)
        session->failure = st;
    cuda_slot_release(session->device, session->slot);
    return cuda_device_trim(session->device) || is_released;
}

/* ---- memory ---- */

/* Makes sure that the list has space for one more block. False: memory is
 * short. */
static bool
reserve_block(struct terp_session *session)
{
    if (session->nblocks < session->cap_nblocks)
        return true;
    const int cap = session->cap_nblocks == 0 ? 8 : 2 * session->cap_nblocks;
    void *blocks =
        realloc(session->blocks, (size_t)cap * sizeof *session->blocks);
    if (blocks == NULL)
        return false;
    session->blocks = (struct cuda_session_block *)blocks;
    session->cap_nblocks = cap;
    return true;
}

/* The smallest released block of at least `nbytes` bytes; NULL: there is none.
 */
static struct cuda_session_block *
find_released(struct terp_session *session, uint64_t nbytes)
{
    struct cuda_session_block *best = NULL;

    for (int i = 0; i < session->nblocks; i++) {
        struct cuda_session_block *kept = &session->blocks[i];
        if (kept->is_released && kept->block.nbytes >= nbytes &&
            (best == NULL || kept->block.nbytes < best->block.nbytes))
            best = kept;
    }
    return best;
}

/* If memory is short, releases everything that the device has kept for later
 * calls, and tries again. */
void *
cuda_session_allocate(struct terp_session *session, uint64_t nbytes)
{
    struct cuda_session_block *kept = find_released(session, nbytes);
    struct cuda_block block;

    if (kept != NULL) {
        kept->is_released = false;
        return kept->block.at;
    }
    if (!reserve_block(session))
        return NULL;
    if (nbytes == 0)
        nbytes = 1;
    enum terp_status st = cuda_block_take(session->device, nbytes, &block);
    if (st == TERP_ERR_MEMORY && cuda_session_trim(session))
        st = cuda_block_take(session->device, nbytes, &block);
    if (st != TERP_OK) {
        if (st != TERP_ERR_MEMORY)
            session->failure = st;
        return NULL;
    }
    session->blocks[session->nblocks++] = {block, false};
    return block.at;
}

void
cuda_session_release(struct terp_session *session, void *at)
{
    for (int i = 0; i < session->nblocks; i++)
        if (session->blocks[i].block.at == at)
            session->blocks[i].is_released = true;
    if (!session->has_work)
        give_released(session);
}

bool
cuda_session_is_host(const struct terp_session *session, const void *at)
{
    const uint8_t *byte = (const uint8_t *)at;

    if (session->where->memory == TERP_MEMORY_DEVICE)
        return false;
    for (int i = 0; i < session->nblocks; i++) {
        const struct cuda_block *block = &session->blocks[i].block;
        if (byte >= block->at && byte < block->at + block->nbytes)
            return false;
    }
    return true;
}

/* Copies n blocks. `is_start`: the function does not wait for the copies. */
static enum terp_status
copy(struct terp_session *session, bool is_start, uint64_t n, void *const *dst,
     const void *const *src, const uint64_t *nbytes)
{
    return cuda_session_start_or_do(
        session, is_start, "copying", [=](struct cuda_work &work) {
            for (uint64_t i = 0; i < n; i++)
                work.copy(dst[i], src[i], nbytes[i]);
        });
}

enum terp_status
cuda_session_copy(struct terp_session *session, uint64_t n, void *const *dst,
                  const void *const *src, const uint64_t *nbytes)
{
    return n == 0 ? TERP_OK
                  : copy(session, session->where->memory == TERP_MEMORY_DEVICE,
                         n, dst, src, nbytes);
}

enum terp_status
cuda_session_fetch(struct terp_session *session, uint64_t n, void *const *dst,
                   const void *const *src, const uint64_t *nbytes)
{
    return copy(session, false, n, dst, src, nbytes);
}

/* ---- the session ---- */

enum terp_status
cuda_session_open(struct terp_cuda_device *device,
                  const struct terp_cuda_call *where,
                  struct terp_session **session_ret)
{
    struct terp_session *session = new (std::nothrow) struct terp_session();

    if (session == NULL)
        return TERP_ERR_MEMORY;
    session->device = device;
    session->where = where;
    enum terp_status st = cuda_device_enter(device, &session->visit);
    if (st == TERP_OK) {
        session->slot = cuda_slot_take(device, false);
        st = cuda_slot_follow(device, &session->visit, session->slot, where);
        if (st == TERP_OK) {
            *session_ret = session;
            return TERP_OK;
        }
        cuda_slot_give(device, session->slot);
        cuda_device_leave(device, &session->visit);
    }
    delete session;
    return st;
}

enum terp_status
cuda_session_close(struct terp_session *session, enum terp_status st)
{
    const enum terp_status ended = cuda_session_await(session);

    if (session->failure != TERP_OK)
        st = session->failure;
    else if (st == TERP_OK)
        st = ended;
    cuda_slot_give(session->device, session->slot);
    cuda_device_leave(session->device, &session->visit);
    free(session->blocks);
    delete session;
    return st;
}
