/* A CUDA engine that works on the CPU, or fails as a test wants. */
#include "h5tests/engine/fake_cuda_engine.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "codec/api/memory.h"
#include "codec/engine.h"
#include "codec/model/bound.h"
#include "codec/model/coarse.h"
#include "gpu/engine/device.h"

#define EXPORT __attribute__((visibility("default")))
#define RUBBISH 0xDB

EXPORT extern struct fake_cuda fake_cuda;
struct fake_cuda fake_cuda;

/* Each call of `open` allocates one, so that leak checkers find devices that
 * are not closed. */
struct terp_cuda_device {
    int ordinal;
};

static enum terp_status
device_open(const struct terp_cuda_options *options,
            struct terp_cuda_device **device_ret, const char **name_ret,
            const char **reason_ret)
{
    static const char *const names[] = {"fake 0", "fake 1"};
    static struct terp_cuda_device devices[] = {{0}, {1}};

    fake_cuda.nopens++;
    while (fake_cuda.hold)
        sched_yield();
    *reason_ret = "the fake device is switched off";
    if (fake_cuda.open_status != TERP_OK)
        return fake_cuda.open_status;
    const int ordinal =
        options->device < 0 ? cuda_device_choose(2) : options->device % 2;
    *device_ret = &devices[ordinal];
    fake_cuda.device = options->device;
    fake_cuda.memory_limit_nbytes = options->memory_limit_nbytes;
    *name_ret = names[ordinal];
    return TERP_OK;
}

static void
device_trim(struct terp_cuda_device *device)
{
    (void)device;
    fake_cuda.ntrims++;
}

static void
device_close(struct terp_cuda_device *device)
{
    fake_cuda.ncloses += device != NULL;
}

static bool
device_is_lost(const struct terp_cuda_device *device)
{
    (void)device;
    return fake_cuda.is_lost;
}

/* Whether this call must fail. */
static bool
must_fail(void)
{
    return ++fake_cuda.ncalls == fake_cuda.fail_at;
}

/* "Device" memory is host memory. */
static enum terp_status
encode(struct terp_cuda_device *device, const struct terp_cuda_call *call,
       const struct terp_params *params, const struct terp_chunk *chunk,
       uint64_t nchunks, const void *const *src, void *const *dst,
       uint64_t *dst_nbytes_ret)
{
    enum terp_status st = fake_cuda.call_status;

    (void)device;
    if (must_fail())
        return fake_cuda.fail_status;
    fake_cuda.nencodes++;
    fake_cuda.stream = call->has_stream ? call->stream : NULL;
    for (uint64_t i = 0; i < nchunks; i++) {
        memset(dst[i], RUBBISH, terp_encode_bound(chunk));
        dst_nbytes_ret[i] = RUBBISH;
    }
    for (uint64_t i = 0; st == TERP_OK && i < nchunks; i++)
        if (terp_is_the_cpus(chunk->type, params) ||
            (fake_cuda.leaves_odd_chunks && i % 2 == 1))
            dst_nbytes_ret[i] = 0;
        else
            st = terp_encode(params, chunk, src[i], dst[i],
                             terp_encode_bound(chunk), &dst_nbytes_ret[i], 1);
    return st;
}

static enum terp_status
decode(struct terp_cuda_device *device, const struct terp_cuda_call *call,
       const struct terp_chunk *chunk, uint64_t nchunks, const void *const *src,
       const uint64_t *src_nbytes, void *const *dst,
       enum terp_status *status_ret)
{
    const uint64_t step = call->step > 1 ? call->step : 1;
    const struct terp_chunk coarse = terp_coarse_chunk_of(chunk, step);
    uint64_t nbytes = terp_chunk_nbytes(&coarse), got;

    (void)device;
    if (must_fail())
        return fake_cuda.fail_status;
    fake_cuda.ndecodes++;
    fake_cuda.stream = call->has_stream ? call->stream : NULL;
    for (uint64_t i = 0; i < nchunks; i++) {
        memset(dst[i], RUBBISH, nbytes);
        status_ret[i] = fake_cuda.leaves_odd_chunks && i % 2 == 1
                            ? TERP_ERR_DEVICE
                            : fake_cuda.stream_status;
        if (fake_cuda.call_status == TERP_OK && status_ret[i] == TERP_OK)
            status_ret[i] = terp_decode_coarse(src[i], src_nbytes[i], step,
                                               dst[i], nbytes, &got, 1);
    }
    return fake_cuda.call_status;
}

static const char *
reason(void)
{
    return "the fake device was told to fail";
}

/* The memory of this device is the host's: none of it, or what a test says. */
static bool
has(struct terp_cuda_device *device, const void *at)
{
    const unsigned char *byte = at;

    (void)device;
    return fake_cuda.begin != NULL && byte >= fake_cuda.begin &&
           byte < fake_cuda.end;
}

static enum terp_status
allocate(struct terp_cuda_device *device, uint64_t nbytes, void **at_ret)
{
    (void)device;
    if (must_fail())
        return fake_cuda.fail_status;
    if (fake_cuda.allocates_nothing)
        return TERP_ERR_MEMORY;
    *at_ret = malloc(nbytes);
    fake_cuda.nheld += *at_ret != NULL;
    return *at_ret == NULL ? TERP_ERR_MEMORY : TERP_OK;
}

static void
release(struct terp_cuda_device *device, void *at)
{
    (void)device;
    fake_cuda.nheld -= at != NULL;
    free(at);
}

/* The fake device refuses pinned memory, so callers use ordinary memory. */
static enum terp_status
allocate_pinned(struct terp_cuda_device *device, uint64_t *nbytes,
                void **at_ret)
{
    (void)device;
    (void)nbytes;
    *at_ret = NULL;
    return TERP_ERR_MEMORY;
}

static void
release_pinned(struct terp_cuda_device *device, void *at, uint64_t nbytes)
{
    (void)device;
    (void)at;
    (void)nbytes;
}

/* Device work continues after a failing encode or decode, unless the device is
 * lost. */
static enum terp_status
copy(struct terp_cuda_device *device, const struct terp_cuda_call *call,
     uint64_t n, void *const *dst, const void *const *src,
     const uint64_t *nbytes)
{
    (void)device;
    (void)call;
    if (must_fail())
        return fake_cuda.fail_status;
    fake_cuda.ncopies++;
    for (uint64_t i = 0; i < n; i++)
        memcpy(dst[i], src[i], nbytes[i]);
    return fake_cuda.is_lost ? TERP_ERR_DEVICE : TERP_OK;
}

static enum terp_status
move(struct terp_cuda_device *device, const struct terp_cuda_call *call,
     const struct terp_array *array, uint64_t first, uint64_t n,
     const void *src, void *dst, bool gather)
{
    struct terp_run run;

    (void)device;
    (void)call;
    if (must_fail())
        return fake_cuda.fail_status;
    (void)terp_run_begin(NULL, NULL, &run);
    (void)(gather ? terp_array_gather(&run, array, first, n, src, dst)
                  : terp_array_scatter(&run, array, first, n, src, dst));
    return fake_cuda.call_status;
}

static const struct terp_cuda_engine engine = {
    device_open,    device_trim, device_close, device_is_lost, encode,
    decode,         has,         allocate,     release,        allocate_pinned,
    release_pinned, copy,        move,         reason};

EXPORT terp_cuda_open_function terp_cuda_open;

enum terp_status
terp_cuda_open(unsigned abi, const struct terp_cuda_engine **engine_ret)
{
    if (abi != TERP_CUDA_ABI)
        return TERP_ERR_ARGUMENT;
    *engine_ret = &engine;
    return fake_cuda.library_status;
}
