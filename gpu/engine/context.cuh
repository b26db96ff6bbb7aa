/* The device, its tables, and lanes: a stream with the memory of one
 * wave of chunks. A context lives as long as the process. */
#ifndef TERP_GPU_ENGINE_CONTEXT_CUH
#define TERP_GPU_ENGINE_CONTEXT_CUH

#include "gpu/engine/state.cuh"

/* What runs again and again between upload and download. */
enum cuda_direction {
    CUDA_ENCODE,
    CUDA_DECODE,
    CUDA_NDIRECTIONS
};

/* A captured sequence and what it was captured for. */
struct cuda_sequence {
    cudaGraphExec_t graph; /* NULL until the same batch came twice */
    bool seen;
    struct cuda_batch batch;
};

struct cuda_lane {
    bool busy;
    cudaStream_t stream;
    cudaStream_t side; /* from `forked` to `joined` beside the other */
    cudaEvent_t forked, joined;
    uint8_t *d_memory, *h_memory; /* h_: pinned */
    uint64_t d_nbytes, h_nbytes;
    /* Of the wave at work, in these memories. */
    struct cuda_batch batch;
    uint8_t *h_short;       /* [nchunks][CUDA_SHORT_NBYTES] */
    uint8_t *d_src, *d_dst; /* of calls from host memory */
    uint64_t src_stride, dst_stride;
    struct terp_layout *h_layout;
    bool has_layout; /* the device's memory has what h_layout has */
    bool saw_ratio;  /* among the streams that were last decoded */
    struct cuda_sequence sequence[CUDA_NDIRECTIONS];
};

/* Chunks of a wave and what they need beside the stages' memory. */
struct cuda_wave {
    const struct terp_chunk *chunk;
    const struct terp_params *params; /* NULL: decode */
    uint64_t nchunks;
    bool host;  /* the caller's memory */
    bool ratio; /* decode: there may be ratio streams */
};

/* Opens the device that TERP_DEVICE or the local rank names. NULL, and why. */
enum terp_status
cuda_context_open(const char **device_ret, const char **reason_ret);

/* Makes the context's device the calling thread's, and back again. */
cudaError_t
cuda_context_enter(int *previous_ret);
void
cuda_context_leave(int previous);

/* A lane that no other thread has; waits for one, or with `optional` returns
 * NULL. */
struct cuda_lane *
cuda_lane_take(bool optional);
void
cuda_lane_give(struct cuda_lane *lane);

/* Bytes of device memory that a wave takes. */
uint64_t
cuda_wave_nbytes(const struct cuda_wave *wave);

/* The most that waves may take. */
uint64_t
cuda_wave_max_nbytes(void);

/* Describes the wave in lane->batch; its memory grows where it must. */
cudaError_t
cuda_lane_prepare(struct cuda_lane *lane, const struct cuda_wave *wave);

#endif
