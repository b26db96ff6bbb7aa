#include "h5tests/engine/fake_cuda_engine.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "codec/api/memory.h"
#include "codec/engine.h"
#include "gpu/engine/device.h"

#define EXPORT __attribute__((visibility("default")))
#define RUBBISH 0xDB

EXPORT extern struct fake_cuda fake_cuda;
struct fake_cuda fake_cuda;

/* "Device" memory is the host's. */
static enum terp_status
encode(const struct terp_params *params, const struct terp_chunk *chunk,
       enum terp_memory memory, uint64_t nchunks, const void *const *src,
       void *const *dst, uint64_t *dst_nbytes_ret)
{
    enum terp_status st = fake_cuda.call_status;

    (void)memory;
    fake_cuda.nencodes++;
    for (uint64_t i = 0; i < nchunks; i++) {
        memset(dst[i], RUBBISH, terp_encode_bound(chunk));
        dst_nbytes_ret[i] = RUBBISH;
    }
    for (uint64_t i = 0; st == TERP_OK && i < nchunks; i++)
        st = terp_encode(params, chunk, src[i], dst[i],
                         terp_encode_bound(chunk), &dst_nbytes_ret[i], 1);
    return st;
}

static enum terp_status
decode(const struct terp_chunk *chunk, enum terp_memory memory,
       uint64_t nchunks, const void *const *src, const uint64_t *src_nbytes,
       void *const *dst, enum terp_status *status_ret)
{
    uint64_t nbytes = terp_chunk_nbytes(chunk), got;

    (void)memory;
    fake_cuda.ndecodes++;
    for (uint64_t i = 0; i < nchunks; i++) {
        memset(dst[i], RUBBISH, nbytes);
        status_ret[i] = fake_cuda.stream_status;
        if (fake_cuda.call_status == TERP_OK && status_ret[i] == TERP_OK)
            status_ret[i] =
                terp_decode(src[i], src_nbytes[i], dst[i], nbytes, &got, 1);
    }
    return fake_cuda.call_status;
}

static const char *
reason(void)
{
    return "the fake device was told to fail";
}

static enum terp_status
allocate(uint64_t nbytes, void **at_ret)
{
    *at_ret = malloc(nbytes);
    return *at_ret == NULL ? TERP_ERR_MEMORY : TERP_OK;
}

static enum terp_status
copy(uint64_t n, void *const *dst, const void *const *src,
     const uint64_t *nbytes)
{
    for (uint64_t i = 0; i < n; i++)
        memcpy(dst[i], src[i], nbytes[i]);
    return fake_cuda.call_status;
}

static enum terp_status
move(const struct terp_array *array, uint64_t first, uint64_t n,
     const void *src, void *dst, bool gather)
{
    struct terp_run run = {.memory = TERP_MEMORY_HOST};

    (void)(gather ? terp_array_gather(&run, array, first, n, src, dst)
                  : terp_array_scatter(&run, array, first, n, src, dst));
    return fake_cuda.call_status;
}

static const char *const names[] = {"fake 0", "fake 1"};
static struct terp_cuda_engine engine = {NULL, encode, decode, allocate,
                                         free, copy,   move,   reason};

EXPORT terp_cuda_open_function terp_cuda_open;

enum terp_status
terp_cuda_open(unsigned abi, const struct terp_cuda_engine **engine_ret,
               const char **reason_ret)
{
    fake_cuda.nopens++;
    while (fake_cuda.hold)
        sched_yield();
    if (abi != TERP_CUDA_ABI)
        return TERP_ERR_ARGUMENT;
    engine.device = names[cuda_device_choose(2)];
    *reason_ret = "the fake device is switched off";
    if (fake_cuda.open_status == TERP_OK)
        *engine_ret = &engine;
    return fake_cuda.open_status;
}
