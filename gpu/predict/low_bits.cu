/* If codes may be wide: finds exact quants and, from samples, the number of low
 * bits that codes have below their symbols. */
#include "gpu/block/warp.cuh"
#include "gpu/predict/common_bits.cuh"

/* Threads of a block: one for each sample of interpolations; fewer for
 * differences, so that a thread takes several samples. */
#define NTHREADS TERP_LOW_BITS_NVALUES
#define DIFFERENCES_NTHREADS 512
static_assert(32 % TERP_LOW_BITS_RUN_NVALUES == 0 && NTHREADS % 32 == 0 &&
                  TERP_DIFFERENCES_NVALUES % DIFFERENCES_NTHREADS == 0,
              "Runs do not cross warps, and threads have equally many "
              "samples.");

/* ---- widths to bits ---- */

struct found_costs {
    int most; /* the widest code */
    uint32_t cost[TERP_BELOW_MAX_NBITS + 1];
};

/* Returns the width of the widest code of a sample's run, at least 0. The
 * values of a run are next to each other in a warp. */
static __device__ __forceinline__ int
widest_of_run(int width)
{
    width = max(width, 0);
    for (int distance = 1; distance < TERP_LOW_BITS_RUN_NVALUES; distance *= 2)
        width = max(width, __shfl_xor_sync(FULL_WARP_MASK, width, distance));
    return width;
}

/* A block finds how many bits are below symbols, as terp_nbits_below does, from
 * the widths of all threads' samples. Thread 0 writes them to the model. *s
 * must be zero and visible to the block before the call. Has two barriers. */
template <int NSAMPLES>
static __device__ __forceinline__ void
set_nbits_below(const struct cuda_batch &batch, const int width[NSAMPLES],
                struct found_costs *s, struct cuda_chunk *chunk)
{
    const int most_nbits = terp_below_max_nbits(
        batch.value_nbytes, batch.encoding.params.predictor);
    int of_run[NSAMPLES], nbits_below = 0;

#pragma unroll
    for (int i = 0; i < NSAMPLES; i++) {
        of_run[i] = widest_of_run(width[i]);
        atomicMax(&s->most, of_run[i]);
    }
    __syncthreads();
#pragma unroll 1
    for (int n = 0; n <= most_nbits; n++) {
        uint32_t cost = 0;
#pragma unroll
        for (int i = 0; i < NSAMPLES; i++)
            cost += width[i] < 0
                        ? 0
                        : terp_cost_of_width(width[i], of_run[i], s->most, n,
                                             chunk->escape_nbytes);
        cost = warp_sum(cost);
        if (threadIdx.x % 32 == 0)
            atomicAdd(&s->cost[n], cost);
    }
    __syncthreads();
    if (threadIdx.x > 0)
        return;
    for (int n = 1; n <= most_nbits; n++)
        nbits_below = s->cost[n] < s->cost[nbits_below] ? n : nbits_below;
    chunk->model.wide = terp_low_of(nbits_below) + 1;
    chunk->model.tail_nbits = nbits_below - terp_low_of(nbits_below);
}

/* ---- interpolations ---- */

struct found_widths {
    unsigned sum[TERP_LOW_BITS_NINTERPOLANTS], n[TERP_LOW_BITS_NINTERPOLANTS];
    struct found_costs costs;
};

/* Returns the interpolation whose codes have the fewest bits. */
static __device__ __forceinline__ int
choose_interpolant(const struct found_widths *s)
{
    int best = 0;

    for (int interpolant = 0; interpolant < TERP_LOW_BITS_NINTERPOLANTS;
         interpolant++)
        if (terp_has_fewer_bits(s->sum[interpolant], s->n[interpolant],
                                interpolant == 0 ? 0 : s->sum[best],
                                interpolant == 0 ? 0 : s->n[best]))
            best = interpolant;
    return best;
}

/* Finds the bits of a chunk by interpolations. Grid: x = 1, y = chunks. A
 * thread owns a sample. Shared memory: counts and costs; barriers separate
 * clearing, adding and reading them. */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS) find_low_bits(const struct cuda_batch batch)
{
    __shared__ struct found_widths s;
    __shared__ struct common_bits s_common;
    struct cuda_chunk &chunk = begin_chunk(batch);
    const unsigned lane = threadIdx.x % 32;
    int width[TERP_LOW_BITS_NINTERPOLANTS], own = -1;

    if (chunk.status != TERP_OK || chunk.coding == TERP_CODING_CONSTANT ||
        !terp_may_be_wide(
            terp_nsteps_of(chunk.min, chunk.max, chunk.model.step)))
        return;
    for (unsigned i = threadIdx.x; i < sizeof s / 4; i += NTHREADS)
        ((uint32_t *)&s)[i] = 0;
    const fill_words<T> fills = fills_of<T>(chunk);
    const struct terp_exact exact =
        find_exact<T>(batch, chunk, fills, &s_common);
    const double step = terp_coding_step(chunk.model.step, exact);
    sample_code_widths((const T *)chunk.src, fills.at, batch.d_layout,
                       terp_low_bits_sample_at(
                           batch.nvalues, TERP_LOW_BITS_NRUNS, threadIdx.x),
                       1 / step, exact.nzeros, width);
#pragma unroll
    for (int interpolant = 0; interpolant < TERP_LOW_BITS_NINTERPOLANTS;
         interpolant++) {
        const unsigned sum = warp_sum((unsigned)max(width[interpolant], 0));
        const unsigned any =
            __ballot_sync(FULL_WARP_MASK, width[interpolant] >= 0);
        if (lane == 0) {
            atomicAdd(&s.sum[interpolant], sum);
            atomicAdd(&s.n[interpolant], (unsigned)__popc(any));
        }
    }
    __syncthreads();
    const int best = choose_interpolant(&s);
#pragma unroll
    for (int interpolant = 0; interpolant < TERP_LOW_BITS_NINTERPOLANTS;
         interpolant++)
        own = interpolant == best ? width[interpolant] : own;
    if (threadIdx.x == 0)
        chunk.model.exact = exact;
    set_nbits_below<1>(batch, &own, &s.costs, &chunk);
}

cudaError_t
cuda_low_bits_find(const struct cuda_batch *batch, cudaStream_t stream)
{
    struct stage_launches launches = {batch, stream};

    launches.add_typed(CUDA_TYPED(find_low_bits), 1, NTHREADS);
    return launches.error;
}

/* ---- differences ---- */

/* Finds the bits of Lorenzo's differences. Grid: x = 1, y = chunks. A thread
 * owns every DIFFERENCES_NTHREADS-th sample. Shared memory: costs; barriers as
 * for find_low_bits. */
template <typename T>
static __global__ void
__launch_bounds__(DIFFERENCES_NTHREADS)
    find_bits_of_differences(const struct cuda_batch batch)
{
    begin_kernel();
    const int nsamples = TERP_DIFFERENCES_NVALUES / DIFFERENCES_NTHREADS;
    __shared__ struct found_costs s;
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    int width[nsamples];

    if (chunk.status != TERP_OK ||
        chunk.prediction != TERP_PREDICTION_LORENZO ||
        !terp_may_be_wide(
            terp_nsteps_of(chunk.min, chunk.max, chunk.model.step)))
        return;
    for (unsigned i = threadIdx.x; i < sizeof s / 4; i += DIFFERENCES_NTHREADS)
        ((uint32_t *)&s)[i] = 0;
    const fill_words<T> fills = fills_of<T>(chunk);
    const constants<T> k =
        constants_of<T>(chunk.model.step, chunk.bound, TERP_MAX_CODE);
    const exact_quants<T> of_exact = exact_quants_of<T>(chunk);
#pragma unroll
    for (int i = 0; i < nsamples; i++)
        width[i] = sample_difference_width(
            (const T *)chunk.src, fills.at, batch.d_layout,
            terp_low_bits_sample_at(batch.nvalues, TERP_DIFFERENCES_NRUNS,
                                    (unsigned)i * DIFFERENCES_NTHREADS +
                                        threadIdx.x),
            chunk.model.lorenzo_dims, k, chunk.model.exact, of_exact);
    __syncthreads();
    set_nbits_below<nsamples>(batch, width, &s, &chunk);
}

cudaError_t
cuda_lorenzo_low_bits(const struct cuda_batch *batch, cudaStream_t stream)
{
    struct stage_launches launches = {batch, stream};

    if (batch->encoding.params.predictor != TERP_PREDICTOR_SPLINE)
        launches.add_typed(CUDA_TYPED(find_bits_of_differences), 1,
                           DIFFERENCES_NTHREADS);
    return launches.error;
}
