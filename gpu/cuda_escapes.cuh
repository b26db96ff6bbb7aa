/* Floor 3: how decoded tiles tell the stage of escapes where escapes are. */
#ifndef TERP_CUDA_ESCAPES_CUH
#define TERP_CUDA_ESCAPES_CUH

#include "cuda_state.cuh"

/* One block does all escapes of a chunk of so many ranges. */
#ifndef CUDA_ALONE_MAX_NRANGES
#define CUDA_ALONE_MAX_NRANGES 256
#endif

/* If it is to decode no more escapes than this, their places in tile order are
 * listed, in any order, in the region `tune`; progress tells how many are. Else
 * they are counted in ranges. */
#define CUDA_MAX_NLISTED 512
static_assert(CUDA_MAX_NLISTED <= 3 * 256, "one level's costs");

static __device__ __forceinline__ bool
escapes_are_listed(const struct cuda_batch &batch,
                   const struct cuda_chunk &chunk)
{
    return batch.nranges <= CUDA_ALONE_MAX_NRANGES &&
           chunk.nescapes <= CUDA_MAX_NLISTED;
}

static __device__ __forceinline__ uint64_t *
listed_escapes(const struct cuda_batch &batch)
{
    return region<uint64_t>(batch, blockIdx.y, batch.at.tune);
}

#endif
