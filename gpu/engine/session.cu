/* Sessions: the device during one call of the API, and the device memory of the
 * call. */
#include "gpu/engine/session.cuh"

#include <new>

#include <stdlib.h>

#include "gpu/engine/array.cuh"

/* ---- memory ---- */

/* Makes sure that the list has space for one more block. False: memory is
 * short. */
static bool
make_room(struct terp_session *session)
{
    if (session->nblocks < session->cap_nblocks)
        return true;
    const int cap = session->cap_nblocks == 0 ? 8 : 2 * session->cap_nblocks;
    void *blocks =
        realloc(session->blocks, (size_t)cap * sizeof *session->blocks);
    if (blocks == NULL)
        return false;
    session->blocks = (struct cuda_block *)blocks;
    session->cap_nblocks = cap;
    return true;
}

/* If memory is short, releases everything that the device has kept for later
 * calls, and tries again. */
void *
cuda_session_allocate(struct terp_session *session, uint64_t nbytes)
{
    struct terp_cuda_device *device = session->device;
    struct cuda_block block;

    if (!make_room(session))
        return NULL;
    if (nbytes == 0)
        nbytes = 1;
    enum terp_status st = cuda_block_take(device, nbytes, &block);
    if (st == TERP_ERR_MEMORY) {
        bool is_trimmed = false;
        st =
            cuda_device_do(device, [=, &is_trimmed](const struct cuda_visit &) {
                is_trimmed = cuda_device_trim(device);
                return TERP_OK;
            });
        if (st == TERP_OK)
            st = is_trimmed ? cuda_block_take(device, nbytes, &block)
                            : TERP_ERR_MEMORY;
    }
    if (st != TERP_OK) {
        if (st != TERP_ERR_MEMORY)
            session->failure = st;
        return NULL;
    }
    session->blocks[session->nblocks++] = block;
    return block.at;
}

void
cuda_session_release(struct terp_session *session, void *at)
{
    for (int i = 0; i < session->nblocks; i++) {
        if (session->blocks[i].at != at)
            continue;
        const struct cuda_block block = session->blocks[i];
        session->blocks[i] = session->blocks[--session->nblocks];
        cuda_block_give(session->device, block);
        return;
    }
}

bool
cuda_session_is_host(const struct terp_session *session, const void *at)
{
    const uint8_t *byte = (const uint8_t *)at;

    if (session->where->memory == TERP_MEMORY_DEVICE)
        return false;
    for (int i = 0; i < session->nblocks; i++) {
        const struct cuda_block *block = &session->blocks[i];
        if (byte >= block->at && byte < block->at + block->nbytes)
            return false;
    }
    return true;
}

enum terp_status
cuda_session_copy(struct terp_session *session, uint64_t n, void *const *dst,
                  const void *const *src, const uint64_t *nbytes)
{
    return n == 0 ? TERP_OK
                  : cuda_array_copy(session->device, session->where, n, dst,
                                    src, nbytes);
}

/* ---- the session ---- */

struct terp_session *
cuda_session_open(struct terp_cuda_device *device,
                  const struct terp_cuda_call *where)
{
    struct terp_session *session = new (std::nothrow) struct terp_session();

    if (session != NULL) {
        session->device = device;
        session->where = where;
    }
    return session;
}

void
cuda_session_close(struct terp_session *session)
{
    if (session == NULL)
        return;
    free(session->blocks);
    delete session;
}
