/* An opened device, its stream slots, and how a call enters and leaves it.
 *
 * Everything of a device lives in its primary context, which is current while
 * a thread is in a call and at no other time: the host's own contexts neither
 * see it nor take it with them. */
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "codec/engine.h"
#include "gpu/engine/driver.cuh"
#include "gpu/engine/state.cuh"

/* Threads that are served at once; others wait. */
#define CUDA_NSLOTS 4

/* A sequence of kernels as a graph, and the batch that it is for. */
struct cuda_sequence {
    cudaGraphExec_t graph; /* NULL until the same batch came twice */
    bool seen;
    struct cuda_batch batch;
};

/* A stream that works beside a slot's own, from `forked` to `joined`. */
struct cuda_side {
    cudaStream_t stream;
    cudaEvent_t forked, joined;
};
#define CUDA_NSIDES 2

/* Kinds of streams for which kernels are launched that others do without. */
struct cuda_stream_kinds {
    bool ratio, low_bits, lossless;
};

/* A stream with the memory of one batch of chunks. */
struct cuda_slot {
    bool busy;
    cudaStream_t stream;
    struct cuda_side side[CUDA_NSIDES];
    uint8_t *d_memory, *h_memory; /* h_: pinned */
    uint64_t d_nbytes, h_nbytes;
    /* Of the batch at work, in these memories. */
    struct cuda_batch batch;
    /* decode, of every step-th value: the same batch as what reads its tiles
     * sees it, and what makes their values. */
    struct cuda_batch tiles, lattice;
    uint8_t *h_short;       /* [nchunks][CUDA_SHORT_NBYTES] */
    uint8_t *d_src, *d_dst; /* of calls from host memory */
    uint64_t src_stride, dst_stride;
    struct terp_layout *h_layout; /* [2], the second one of a lattice */
    bool has_layout; /* the device's memory has what h_layout has */
    struct cuda_stream_kinds saw;     /* among streams that were last decoded */
    struct cuda_sequence sequence[2]; /* by batch.decode */
};

/* Device memory. */
struct cuda_block {
    uint8_t *at;
    uint64_t nbytes;
};

struct terp_cuda_device {
    char name[256 + sizeof " at 12345678:12:12.0"];
    struct cuda_driver driver;
    CUdevice handle;
    CUcontext context;
    bool kernels_wait;            /* see gpu/engine/platform.cuh, */
    unsigned max_cluster_nblocks; /* and this one */
    struct cuda_tables tables;
    uint8_t *d_tables;
    unsigned long long d_tables_id; /* of the allocation: no other has it */
    uint64_t memory_limit_nbytes;   /* 0: none */

    /* by slots and blocks, of the device's memory */
    std::atomic<uint64_t> held_nbytes;
    /* By type, of streams in device memory that were last decoded again, and
     * of integers that were last encoded again: others are taken to be like
     * them. */
    std::atomic<enum cuda_form> form_seen[TERP_NTYPES];

    std::mutex mutex; /* for all that follows */
    std::condition_variable slot_is_free;
    struct cuda_block spare;            /* that the last call had */
    struct cuda_slot slot[CUDA_NSLOTS]; /* but for what its thread uses */
    std::atomic<bool> is_lost;          /* but for reading */
    char loss[128];
};

/* A call that is in the device: what the host's thread gets back after it. */
struct cuda_visit {
    CUcontext caller; /* the thread's own; NULL: it has none */
    cudaStreamCaptureMode mode;
};

/* As struct terp_cuda_engine says of them. */
enum terp_status
cuda_device_open(const struct terp_cuda_options *options,
                 struct terp_cuda_device **device_ret, const char **name_ret,
                 const char **reason_ret);
void
cuda_device_close(struct terp_cuda_device *device);

/* Makes the device's context the calling thread's. TERP_ERR_DEVICE: it is
 * lost. */
enum terp_status
cuda_device_enter(struct terp_cuda_device *device, struct cuda_visit *visit);
void
cuda_device_leave(struct terp_cuda_device *device,
                  const struct cuda_visit *visit);

/* Does work(visit) in the device, if that can be entered. */
template <typename Work>
static inline enum terp_status
cuda_device_do(struct terp_cuda_device *device, Work work)
{
    struct cuda_visit visit;

    enum terp_status st = cuda_device_enter(device, &visit);
    if (st != TERP_OK)
        return st;
    st = work(visit);
    cuda_device_leave(device, &visit);
    return st;
}

/* Waits for all that the slot's streams have to do; the first error of theirs.
 */
cudaError_t
cuda_slot_await(const struct cuda_slot *slot);

/* A slot that no other thread has; waits for one, or with `optional` returns
 * NULL. */
struct cuda_slot *
cuda_slot_take(struct terp_cuda_device *device, bool optional);
void
cuda_slot_give(struct terp_cuda_device *device, struct cuda_slot *slot);

/* Lets what comes next in the slot wait for the caller's stream, if the call
 * has one. TERP_ERR_ARGUMENT: that cannot be. */
enum terp_status
cuda_slot_follow(struct terp_cuda_device *device,
                 const struct cuda_visit *visit, struct cuda_slot *slot,
                 const struct terp_cuda_call *call);

/* Counts `nbytes` more as held. False: that is beyond the limit. */
bool
cuda_device_hold(struct terp_cuda_device *device, uint64_t nbytes);

/* Memory that a call works in beside slots: what the last call had, if that is
 * large enough. TERP_ERR_MEMORY: there is not as much. */
enum terp_status
cuda_block_take(struct terp_cuda_device *device, uint64_t nbytes,
                struct cuda_block *block_ret);
void
cuda_block_give(struct terp_cuda_device *device, struct cuda_block block);

/* Releases the memory of slots that no thread has, and the spare block. False:
 * there was none. */
bool
cuda_device_trim(struct terp_cuda_device *device);

/* Keeps the reason of an error that is not the device's loss, and tells what it
 * means for the call. */
enum terp_status
cuda_status_of(const char *what, cudaError_t error);

/* What an error means for the call that met it in a slot, whose work it waits
 * for; the device is lost if its stream no longer works. Keeps the reason. */
enum terp_status
cuda_device_judge(struct terp_cuda_device *device, struct cuda_slot *slot,
                  const char *what, cudaError_t error);

/* Runs work(stream) on a slot's stream, after the caller's, and waits for it.
 */
template <typename Work>
static inline enum terp_status
cuda_slot_do(struct terp_cuda_device *device, const struct terp_cuda_call *call,
             const char *what, Work work)
{
    return cuda_device_do(device, [&](const struct cuda_visit &visit) {
        struct cuda_slot *slot = cuda_slot_take(device, false);
        enum terp_status st = cuda_slot_follow(device, &visit, slot, call);
        if (st == TERP_OK) {
            cudaError_t error = work(slot->stream);
            if (error == cudaSuccess)
                error = cudaStreamSynchronize(slot->stream);
            st = cuda_device_judge(device, slot, what, error);
        }
        cuda_slot_give(device, slot);
        return st;
    });
}

/* Why the thread's last call failed. */
void
cuda_reason_set(const char *what, const char *why);
const char *
cuda_reason(void);
