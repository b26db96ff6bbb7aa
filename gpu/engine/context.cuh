/* An opened device, its stream slots, and how a call enters and leaves the
 * device.
 *
 * All memory and streams live in the device's primary context. A call makes
 * this context current in its thread and restores the caller's context before
 * it returns, so the host application's own contexts do not change. */
#pragma once

#include <atomic>
#include <new>

#include <pthread.h>

#include "codec/engine.h"
#include "gpu/engine/driver.cuh"
#include "gpu/engine/state.cuh"

/* Stream slots of a device: this many threads are served at once, and further
 * threads wait. One call from host memory uses up to three, for upload, kernels
 * and download (NSTEPS in call.cu). A slot may take a fifth of the device's
 * memory (MEMORY_SHARE in batch.cu), so more slots would make batches smaller.
 */
#define CUDA_NSLOTS 4

/* Which kernels of a batch are launched: all; those that need no plans; or,
 * later, those that need them (gpu/engine/sequence.cu). */
enum cuda_launches {
    CUDA_LAUNCH_ALL,
    CUDA_LAUNCH_EARLY,
    CUDA_LAUNCH_LATER
};

/* All or some kernels of an earlier batch in a slot, as a graph if the batch
 * came twice. */
struct cuda_sequence {
    cudaGraphExec_t graph; /* NULL until the same batch comes again */
    bool seen;             /* these kernels of `batch` have been launched */
    enum cuda_launches which;
    struct cuda_batch batch;
};

/* How many kinds of plans a slot keeps graphs for: those of some fields that a
 * program writes in turns. */
#define CUDA_NLATER 4

/* The kernels of a slot in one direction. first: all kernels of a batch, or
 * those that need no plans. later: the other kernels, by plans; nlater counts
 * all plans so far. */
struct cuda_sequences {
    struct cuda_sequence first, later[CUDA_NLATER];
    unsigned nlater;
};

/* A side stream of a slot. Its kernels run after the event `forked` of the
 * slot's own stream, which waits for `joined`. */
struct cuda_side {
    cudaStream_t stream;
    cudaEvent_t forked, joined;
};

/* Side streams of a slot: SIDE and APART in sequence.cu. One has the sections
 * beside the tiles, the other the search for domains or the checksum. */
#define CUDA_NSIDES 2

/* Kinds of streams that need kernels of their own: a batch launches them only
 * if such streams may occur. */
struct cuda_stream_kinds {
    bool ratio, low_bits, lossless;
};

/* Bytes of a slot's pinned memory for lists that sessions upload
 * (gpu/engine/session.cuh). They hold the lists of some hundred chunks; a list
 * for which they do not suffice costs one more wait. */
#define CUDA_LISTS_NBYTES (UINT64_C(64) << 10)

/* A CUDA stream with the memory of one batch of chunks. */
struct cuda_slot {
    bool busy;
    cudaStream_t stream;
    struct cuda_side side[CUDA_NSIDES];
    uint8_t *h_lists;             /* pinned; CUDA_LISTS_NBYTES */
    uint8_t *d_memory, *h_memory; /* h_: pinned */
    uint64_t d_nbytes, h_nbytes;
    /* The batch at work, whose arrays lie in d_memory and h_memory. */
    struct cuda_batch batch;
    /* decode, if levels are left out: the same batch for the stages that decode
     * tiles (fewer tiles), and for the stages behind them (the lattice as a
     * smaller chunk). */
    struct cuda_batch tiles, lattice;
    uint8_t *h_short;       /* [nchunks][CUDA_SHORT_NBYTES] */
    uint8_t *d_src, *d_dst; /* calls from host memory: copies on the device */
    uint64_t src_stride, dst_stride;
    struct terp_layout *h_layout; /* [2], the second one of a lattice */
    bool has_layout;              /* the device has a copy of h_layout */
    struct cuda_stream_kinds
        last_kinds; /* kinds in the last batch that was decoded */
    struct cuda_sequences sequences[2]; /* by batch.decodes */
};

/* Blocks of device memory that a device keeps for later calls. It is the most
 * that a call needs at a time: complex values need two, their trials one more,
 * and references three. */
#define CUDA_NSPARES 4

/* Blocks of pinned memory that a device keeps for later calls, and most bytes
 * of all. A call that moves a dataset from host memory takes two blocks of
 * about 64 MiB (filter/h5/batch.c); each thread of terp repack takes one of
 * about 16 MiB. */
#define CUDA_NPINNED 16
#define CUDA_MAX_PINNED_NBYTES (UINT64_C(512) << 20)

/* Device memory, or pinned memory. */
struct cuda_block {
    uint8_t *at;
    uint64_t nbytes;
};

struct terp_cuda_device {
    char name[256 + sizeof " at 12345678:12:12.0"];
    struct cuda_driver driver;
    CUdevice handle;
    CUcontext context;
    bool kernels_wait; /* see gpu/engine/platform.cuh */
    struct cuda_tables tables;
    uint8_t *d_tables;
    unsigned long long d_tables_id; /* the driver's unique number of d_tables */
    uint64_t memory_limit_nbytes;   /* 0: no limit */

    /* Device memory that slots and blocks hold. */
    std::atomic<uint64_t> held_nbytes;
    /* By type: the form of streams in device memory for which a batch was last
     * decoded a second time, and of integers for which one was last encoded a
     * second time. The next batch tries this form first. */
    std::atomic<enum cuda_form> last_form[TERP_NTYPES];
    /* Whether the streams that were last decoded have coding SPEED: the next
     * batch is taken for such streams first. */
    std::atomic<bool> last_had_speed;

    /* Protects the members below. A thread that has taken a slot uses it
     * without the mutex, except `busy`; is_lost is read without it. */
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t slot_is_free = PTHREAD_COND_INITIALIZER;
    struct cuda_block spare[CUDA_NSPARES];  /* kept from earlier calls */
    struct cuda_block pinned[CUDA_NPINNED]; /* the same on the host */
    struct cuda_slot slot[CUDA_NSLOTS];
    std::atomic<bool> is_lost;
    char loss[128]; /* why the device was lost */
};

/* Holds a mutex until the end of the scope. std::lock_guard does so too, but
 * every file that includes this one would then parse <mutex>. */
struct cuda_lock {
    pthread_mutex_t *mutex;

    explicit cuda_lock(pthread_mutex_t *held) : mutex(held)
    {
        pthread_mutex_lock(mutex);
    }
    ~cuda_lock()
    {
        pthread_mutex_unlock(mutex);
    }
    cuda_lock(const cuda_lock &) = delete;
    cuda_lock &operator=(const cuda_lock &) = delete;
};

/* The state of the host's thread that a call restores when it leaves the
 * device. */
struct cuda_visit {
    CUcontext caller; /* the thread's current context; NULL: none */
    cudaStreamCaptureMode mode;
};

/* The type of the function to which a member of a table of functions points. */
template <typename Pointer>
using table_function = std::remove_pointer_t<Pointer>;

/* struct terp_cuda_engine describes these functions. */
table_function<decltype(terp_cuda_engine::open)> cuda_device_open;
table_function<decltype(terp_cuda_engine::close)> cuda_device_close;

/* Makes the device's context current in the calling thread. TERP_ERR_DEVICE:
 * the device is lost. */
enum terp_status
cuda_device_enter(struct terp_cuda_device *device, struct cuda_visit *visit);
void
cuda_device_leave(struct terp_cuda_device *device,
                  const struct cuda_visit *visit);

/* Enters the device, calls work(visit), leaves the device, and returns the
 * result of `work` or the error of entering. Work is any callable, such as a
 * lambda: cuda_device_do(device, [=](const struct cuda_visit &) { cudaFree(at);
 * return TERP_OK; }). */
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

/* Waits for the slot's streams. Returns their first error. */
cudaError_t
cuda_slot_await(const struct cuda_slot *slot);

/* Releases the slot's memory, and the graphs whose kernels work in it. */
void
cuda_slot_release(struct terp_cuda_device *device, struct cuda_slot *slot);

/* Takes a free slot. If none is free, waits for one, or returns NULL if
 * `optional`. */
struct cuda_slot *
cuda_slot_take(struct terp_cuda_device *device, bool optional);
void
cuda_slot_give(struct terp_cuda_device *device, struct cuda_slot *slot);

/* Lets further work in the slot wait for the caller's stream, if the call has
 * one. TERP_ERR_ARGUMENT: the stream is being captured or is not valid. */
enum terp_status
cuda_slot_follow(struct terp_cuda_device *device,
                 const struct cuda_visit *visit, struct cuda_slot *slot,
                 const struct terp_cuda_call *call);

/* Adds `nbytes` to held_nbytes. False: that would exceed the limit; nothing is
 * added. */
bool
cuda_device_hold(struct terp_cuda_device *device, uint64_t nbytes);

/* Device memory for a call beside its slots: the smallest spare block that
 * is large enough, else a new one. TERP_ERR_MEMORY: there is too little memory.
 */
enum terp_status
cuda_block_take(struct terp_cuda_device *device, uint64_t nbytes,
                struct cuda_block *block_ret);
void
cuda_block_give(struct terp_cuda_device *device, struct cuda_block block);

/* Releases the memory of free slots, and the spare blocks. False: there was
 * nothing to release. */
bool
cuda_device_trim(struct terp_cuda_device *device);

/* Converts an error that has not lost the device to a status, and stores its
 * text for cuda_reason. */
enum terp_status
cuda_status_of(const char *action, cudaError_t error);

/* Converts an error of a call's work in a slot to a status, and stores its text
 * for cuda_reason. After an error it waits for the slot, and marks the device
 * as lost if the slot's stream no longer works. */
enum terp_status
cuda_device_judge(struct terp_cuda_device *device, struct cuda_slot *slot,
                  const char *action, cudaError_t error);

/* An array on the host that is released at the end of the scope. It equals NULL
 * if the allocation failed. */
template <typename T> class cuda_host_array
{
    T *at;

  public:
    explicit cuda_host_array(uint64_t n) : at(new (std::nothrow) T[(size_t)n]())
    {
    }
    ~cuda_host_array()
    {
        delete[] at;
    }
    cuda_host_array(const cuda_host_array &) = delete;
    cuda_host_array &operator=(const cuda_host_array &) = delete;
    operator T *() const
    {
        return at;
    }
};

/* The reason why the last call of the thread failed. */
const char *
cuda_reason(void);
