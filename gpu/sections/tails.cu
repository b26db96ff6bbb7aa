/* Writes and reads the section of tails. A warp has a group. */
#include "gpu/sections/tails.cuh"

#include "gpu/block/warp.cuh"
#include "gpu/predict/lorenzo_model.cuh"

#define NTHREADS 256
#define NWARPS (NTHREADS / 32)

/* The most blocks of a launch, for all its chunks together. Warps take groups
 * in turn; chunks without tails then cost few blocks. */
#define MAX_NBLOCKS 2048

static uint64_t
nblocks_for(const struct cuda_batch *batch)
{
    return cuda_nblocks(batch, div_up(terp_low_ngroups(batch->nvalues), NWARPS),
                        MAX_NBLOCKS);
}

static __device__ __forceinline__ bool
chunk_applies(const struct cuda_chunk &chunk)
{
    return is_predicted_by(chunk, TERP_PREDICTION_LORENZO) &&
           chunk.model.tail_nbits > 0;
}

/* The position of a lane's first value in a group. */
static __device__ __forceinline__ uint64_t
values_at(uint64_t group)
{
    return group * TERP_LOW_GROUP_NNUMBERS +
           threadIdx.x % 32 * LOW_LANE_NNUMBERS;
}

/* ---- writing ---- */

/* The tail of the difference at `position`, as zigzag; 0 if its code escapes.
 */
template <typename T>
static __device__ __forceinline__ uint64_t
number_at(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
          uint64_t position)
{
    const int nbits = chunk.model.tail_nbits;
    const word_of<T> difference =
        lorenzo_raw(batch.d_layout, chunk,
                    region<const word_of<T>>(batch, batch.at.work), position);
    const int_of<T> code = code_above_tail<T>(difference, nbits);
    const int max_code = terp_max_code_of(chunk.model.wide);
    const word_of<T> tail = difference - ((word_of<T>)code << nbits);

    return code < -max_code || code > max_code
               ? 0
               : zigzag((int64_t)(int_of<T>)tail);
}

/* Finds the widths of groups. Grid: (some blocks, chunks). A warp takes groups
 * in turn; the last block then finds where the tails of tiles begin. Shared:
 * the sums of that block's scan. */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS) measure_tails(const struct cuda_batch batch)
{
    __shared__ block_scan<unsigned long long, NTHREADS> s_scan;
    struct cuda_chunk &chunk = begin_chunk(batch);
    const struct tails_view view = tails_of(batch);
    const uint64_t ngroups = terp_low_ngroups(batch.nvalues);

    if (!chunk_applies(chunk))
        return;
    for (uint64_t g = warp_of_chunk<NWARPS>(); g < ngroups;
         g += warps_of_chunk<NWARPS>()) {
        const uint64_t at = values_at(g);
        const unsigned n = low_lane_nnumbers(view.nvalues, at);
        uint64_t all = 0;
        for (unsigned i = 0; i < n; i++)
            all |= number_at<T>(batch, chunk, at + i);
        all = warp_or(all);
        if (threadIdx.x % 32 == 0)
            view.widths[g] = (uint8_t)bit_width(all);
    }
    if (!is_last_block(&chunk.progress[CUDA_PROGRESS_TAILS], gridDim.x))
        return;
    const uint64_t nbytes = place_tail_tiles<NTHREADS>(view, s_scan);
    if (threadIdx.x > 0)
        return;
    chunk.tails_at = chunk.specials_end + ngroups;
    chunk.specials_end += ngroups + nbytes;
}

/* Writes widths and tails. Grid: (some blocks, chunks). A warp takes groups in
 * turn. It computes tails from the differences again, which are not kept. */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS) write_tails(const struct cuda_batch batch)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);
    const struct tails_view view = tails_of(batch);
    const uint64_t ngroups = terp_low_ngroups(batch.nvalues);
    uint8_t *tails = (uint8_t *)chunk.dst + chunk.tails_at;

    /* If the stream does not fit, cuda_escapes_write finds that out. */
    if (!chunk_applies(chunk) || chunk.specials_end >= batch.raw_nbytes)
        return;
    for (uint64_t g = warp_of_chunk<NWARPS>(); g < ngroups;
         g += warps_of_chunk<NWARPS>()) {
        const uint64_t at = values_at(g);
        const unsigned n = low_lane_nnumbers(view.nvalues, at);
        const int width = view.widths[g];
        uint8_t *to = tails + tail_group_begin(view, g) +
                      threadIdx.x % 32 * (unsigned)width;
        uint64_t bits = 0;
        int nbits = 0;
        if (threadIdx.x % 32 == 0)
            tails[g - ngroups] = (uint8_t)width;
        for (unsigned i = 0; i < n; i++) {
            bits |= number_at<T>(batch, chunk, at + i) << nbits;
            for (nbits += width; nbits >= 8; nbits -= 8, bits >>= 8)
                *to++ = (uint8_t)bits;
        }
        if (nbits > 0)
            *to = (uint8_t)bits;
    }
}

cudaError_t
cuda_tails_write(const struct cuda_batch *batch, cudaStream_t stream)
{
    struct stage_launches launches = {batch, stream};

    if (batch->encoding.params.predictor == TERP_PREDICTOR_SPLINE)
        return cudaSuccess;
    launches.add_typed(CUDA_TYPED(measure_tails), nblocks_for(batch), NTHREADS);
    launches.add_typed(CUDA_TYPED(write_tails), nblocks_for(batch), NTHREADS);
    return launches.error;
}

/* ---- reading ---- */

/* Writes tails to `work`, where differences will be. Grid: (some blocks,
 * chunks). A warp takes groups in turn. */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS) place_tails(const struct cuda_batch batch)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);
    const struct tails_view view = tails_of(batch);
    const uint8_t *tails = (const uint8_t *)chunk.src + chunk.tails_at;
    word_of<T> *quants = region<word_of<T>>(batch, batch.at.work);

    if (!chunk_applies(chunk))
        return;
    for (uint64_t g = warp_of_chunk<NWARPS>();
         g < terp_low_ngroups(batch.nvalues); g += warps_of_chunk<NWARPS>()) {
        const uint64_t at = values_at(g);
        const unsigned n = low_lane_nnumbers(view.nvalues, at);
        const int width = view.widths[g];
        const uint8_t *from = tails + tail_group_begin(view, g) +
                              threadIdx.x % 32 * (unsigned)width;
        uint64_t bits = 0;
        int nbits = 0;
        for (unsigned i = 0; i < n; i++) {
            for (; nbits < width; nbits += 8)
                bits |= (uint64_t)*from++ << nbits;
            const uint64_t number = bits & ((UINT64_C(1) << width) - 1);
            quants[at + i] = (word_of<T>)unzigzag(number);
            bits >>= width;
            nbits -= width;
        }
    }
}

cudaError_t
cuda_tails_place(const struct cuda_batch *batch, cudaStream_t stream)
{
    struct stage_launches launches = {batch, stream};

    launches.add_typed(CUDA_TYPED(place_tails), nblocks_for(batch), NTHREADS);
    return launches.error;
}
