/* Chooses, by estimates on samples, the step of the lossless prediction, the
 * dimensions along which it takes differences, and how often.
 * cpu/predict/lossless_tuner.c does the same. A block handles one run of
 * samples for one step. */
#include "gpu/predict/common_bits.cuh"
#include "gpu/predict/lorenzo_shape.cuh"
#include "gpu/predict/lossless_sample.cuh"
#include "gpu/predict/lossless_tuner.cuh"

/* Threads of a block: of find_steps, one per sampled value; of
 * count_unpredictable; of choose_model, one warp. */
#define STEPS_NTHREADS TERP_COMMON_VALUE_NRUNS
#define COUNT_NTHREADS 256
#define WARP_NTHREADS 32

/* Blocks that price runs, of a multiprocessor: the loop over the runs of a
 * sparse chunk would take more registers. */
#define PRICE_MIN_NBLOCKS 8

/* Whether the lossless prediction is tuned: under the bound 0, and for integers
 * under a bound below 1 if there are more integers than symbols.
 * cpu/survey.c, is_lossless, decides the same. */
static __device__ __forceinline__ bool
is_tuned(const struct cuda_chunk &chunk)
{
    return chunk.status == TERP_OK && chunk.coding != TERP_CODING_CONSTANT &&
           (is_zero_bound(chunk.bound) ||
            (chunk.bound < 1 && terp_may_be_wide(terp_nsteps_of(
                                    chunk.min, chunk.max, chunk.model.step))));
}

/* Whether splines may predict a chunk that is tuned. */
static __host__ __device__ __forceinline__ bool
may_be_splines(const struct cuda_batch &batch)
{
    return terp_may_take_losslessly(batch.encoding.params.predictor,
                                    TERP_PREDICTION_SPLINE) &&
           !terp_is_lossless(&batch.encoding.params);
}

static __device__ __forceinline__ bool
is_sparse(const struct cuda_batch &batch, const struct cuda_chunk &chunk)
{
    return terp_lossless_is_sparse(batch.nvalues, chunk.nspecials,
                                   batch.encoding.has_markers);
}

static __device__ __forceinline__ struct cuda_lossless_tuner *
tuner_of(const struct cuda_batch &batch)
{
    return region<struct cuda_lossless_tuner>(batch, batch.at.lossless_tuner);
}

/* ---- steps and centers ---- */

/* Finds the median of the quants of sampled values. A block calls it; each
 * thread has a value and counts the smaller ones. Has a barrier. */
template <typename T>
static __device__ __forceinline__ void
find_center(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
            const struct terp_lossless_step &step, int64_t *center_ret)
{
    __shared__ int_of<T> s_quants[STEPS_NTHREADS];
    __shared__ bool s_valid[STEPS_NTHREADS];
    const unsigned own = threadIdx.x;
    const T value =
        ((const T *)chunk.src)[terp_common_value_run_at(batch.nvalues, own)];
    word_of<T> remainder;
    unsigned before = 0;
    bool fits;

    const bool valid = !is_special(value, fills_of<T>(chunk));
    s_valid[own] = valid;
    s_quants[own] =
        valid ? lossless_quant_of(value,
                                  lossless_quants_of<T>(step.exact, step.form),
                                  &remainder, &fits)
              : 0;
    const unsigned n = (unsigned)__syncthreads_count(valid);
    for (unsigned i = 0; i < STEPS_NTHREADS; i++)
        before += s_valid[i] && (s_quants[i] < s_quants[own] ||
                                 (s_quants[i] == s_quants[own] && i < own));
    if (own == 0 && n == 0)
        *center_ret = 0;
    if (valid && before == n / 2)
        *center_ret = terp_lossless_center_of(s_quants[own]);
}

/* Finds the steps to try, and the center of each. Grid: x =
 * TERP_LOSSLESS_MAX_NSTEPS, y = chunks. A block owns a step, a thread one
 * sampled value. Shared memory: the samples' common bits, quants and flags;
 * barriers separate writing and reading them. */
template <typename T>
static __global__ void
__launch_bounds__(STEPS_NTHREADS) find_steps(const struct cuda_batch batch)
{
    __shared__ struct common_bits s_common;
    const struct cuda_chunk &chunk = begin_chunk(batch);
    struct cuda_lossless_tuner *tuner = tuner_of(batch);
    struct terp_lossless_step steps[TERP_LOSSLESS_MAX_NSTEPS], own = {};

    if (!is_tuned(chunk))
        return;
    const struct common_bits common =
        find_common_bits<T>(batch, chunk, fills_of<T>(chunk), &s_common);
    /* The carrier CUDA_INTS_BITS holds bits of integers, not floats, so its
     * range does not say which steps to try. */
    const int n_of_floats = terp_lossless_steps(
        chunk.min, chunk.max, sizeof(T), common.exponent, common.nzeros, steps);
    const int n = batch.form == CUDA_INTS_BITS ? 1 : n_of_floats;
    if (blockIdx.x == 0 && threadIdx.x == 0)
        tuner->nsteps = n;
    for (int i = 0; i < TERP_LOSSLESS_MAX_NSTEPS; i++)
        own = i == (int)blockIdx.x && i < n ? steps[i] : own;
    if (blockIdx.x >= (unsigned)n)
        return;
    if (threadIdx.x == 0)
        tuner->trial[blockIdx.x].step = own;
    find_center<T>(batch, chunk, own, &tuner->trial[blockIdx.x].center);
}

/* ---- orders of differences ---- */

/* Adds up the bits that the differences of a run take under every order. A
 * block calls it. */
template <typename T>
static __device__ __forceinline__ void
weigh_run(const lossless_source<T> &source, uint64_t run, uint64_t nruns,
          lossless_sample<T> *s, struct cuda_order_weights *weights)
{
    if (!take_sample(source, terp_lossless_run_at(source.layout, run, nruns),
                     s))
        return;
    for (int row = (int)(threadIdx.x / 32); row < SAMPLE_NROWS;
         row += SAMPLE_NWARPS) {
        if (row % 3 > s->run.most[1] || row / 3 % 3 > s->run.most[2] ||
            row / 9 > s->run.most[3])
            continue;
        for (int order = 0; order <= s->run.most[0]; order++) {
            const uint64_t nbits = sum_of_widths(*s, s->rows[row], order);
            if (threadIdx.x % 32 == 0)
                atomicAdd(&weights->nbits[3 * row + order],
                          (unsigned long long)nbits);
        }
    }
    if (threadIdx.x > 0)
        return;
    atomicAdd(&weights->nsampled, (unsigned long long)s->ncounted);
}

/* Weighs a block's runs: every `nblocks`-th one from `first` on, of as many
 * blocks and more if the chunk is sparse. Barriers separate runs. */
template <typename T>
static __device__ __forceinline__ void
weigh_runs(const struct lossless_source<T> &source, uint64_t first,
           uint64_t nblocks, bool is_sparse, struct lossless_sample<T> *s,
           struct cuda_order_weights *weights)
{
    const uint64_t nruns = terp_lossless_nruns(nblocks, is_sparse);

#pragma unroll 1
    for (uint64_t run = first; run < nruns; run += nblocks) {
        if (run > first)
            __syncthreads();
        weigh_run(source, run, nruns, s, weights);
    }
}

/* Weighs every step. Grid: x = TERP_LOSSLESS_MAX_NSTEPS *
 * TERP_LOSSLESS_FEW_NRUNS, y = chunks. A block owns some runs of samples for
 * one step. Shared memory: struct lossless_sample; barriers see take_sample.
 * Blocks add their results by atomics. */
template <typename T>
static __global__ void
__launch_bounds__(SAMPLE_NTHREADS) weigh_steps(const struct cuda_batch batch)
{
    __shared__ lossless_sample<T> s;
    const struct cuda_chunk &chunk = begin_chunk(batch);
    const int i = (int)(blockIdx.x / TERP_LOSSLESS_FEW_NRUNS);
    struct cuda_lossless_tuner *tuner = tuner_of(batch);

    if (!is_tuned(chunk) || i >= tuner->nsteps)
        return;
    struct cuda_lossless_trial *trial = &tuner->trial[i];
    weigh_runs(lossless_source_of<T>(batch, chunk, trial->step, trial->center),
               blockIdx.x % TERP_LOSSLESS_FEW_NRUNS, TERP_LOSSLESS_FEW_NRUNS,
               is_sparse(batch, chunk), &s, &trial->weights);
}

/* Returns the dimensions of the order whose differences take the fewest bits;
 * of equal ones the lower order wins. *more_nbits_ret is the number of bits
 * that the borders of the chunk add to the bits of the samples. A warp calls
 * it.
 */
static __device__ unsigned
choose_dims(const struct terp_layout *layout,
            const struct cuda_order_weights *weights, uint64_t *more_nbits_ret)
{
    __shared__ uint64_t s_nbits[TERP_LOSSLESS_NORDERS];
    const int lane = (int)(threadIdx.x % 32);
    unsigned long long least = ~0ull;
    unsigned dims = 0;
    int best = 0;

    for (int i = lane; i < TERP_LOSSLESS_NORDERS; i += 32)
        s_nbits[i] = weights->nbits[i];
    __syncwarp();
    for (int d = 0, step = 1; d < TERP_NDIMS; d++, step *= 3) {
        if (lane < TERP_LOSSLESS_NORDERS / 3)
            terp_lossless_add_border(
                layout->dims[d], step,
                &s_nbits[lane / step * 3 * step + lane % step]);
        __syncwarp();
    }
    for (int i = lane; i < TERP_LOSSLESS_NORDERS; i += 32)
        if (terp_lossless_dims_of(layout, i, &dims) && s_nbits[i] < least) {
            least = s_nbits[i];
            best = i;
        }
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        const unsigned long long other =
            __shfl_xor_sync(FULL_WARP_MASK, least, distance);
        const int of_other = __shfl_xor_sync(FULL_WARP_MASK, best, distance);
        if (other < least || (other == least && of_other < best)) {
            least = other;
            best = of_other;
        }
    }
    const uint64_t sampled = weights->nbits[best];
    *more_nbits_ret = least > sampled ? least - sampled : 0;
    terp_lossless_dims_of(layout, best, &dims);
    return dims;
}

/* ---- costs ---- */

/* Adds up the costs of the differences of a run. A block calls it; a thread has
 * one difference. Barriers separate the steps. */
template <typename T>
static __device__ __forceinline__ void
price_run(const lossless_source<T> &source, unsigned dims, uint64_t run,
          uint64_t nruns, lossless_sample<T> *s, unsigned long long *cost)
{
    __shared__ unsigned s_counts[TERP_NWIDTHS];
    __shared__ uint16_t s_short[TERP_NWIDTHS];
    __shared__ unsigned long long s_all;
    struct terp_lossless_run own =
        terp_lossless_run_at(source.layout, run, nruns);

    terp_lossless_order_of(dims, own.most);
    if (threadIdx.x < TERP_NWIDTHS)
        s_counts[threadIdx.x] = 0;
    if (threadIdx.x == 0)
        s_all = 0;
    if (!take_sample(source, own, s))
        return;
    const word_of<T> *row =
        s->rows[own.most[1] + 3 * (own.most[2] + 3 * own.most[3])];
    const unsigned i = threadIdx.x;
    const bool counts = i < own.n && sample_counts(*s, i);
    const word_of<T> d = counts ? last_difference<T>(row, i, own.most[0]) : 0;
    if (d != 0)
        atomicOr(&s_all, (unsigned long long)d);
    __syncthreads();
    const int nzeros = s_all == 0 ? 0 : ctz_of(s_all);
    const word_of<T> opposite = 0 - d;
    if (counts)
        atomicAdd(&s_counts[bit_width((d < opposite ? d : opposite) >> nzeros)],
                  1u);
    __syncthreads();
    if (threadIdx.x < TERP_NWIDTHS)
        s_short[threadIdx.x] = (uint16_t)s_counts[threadIdx.x];
    __syncthreads();
    if (threadIdx.x >= 32)
        return;
    uint64_t of_shift;
    const int shift =
        warp_shift_of_group(s_short, sizeof(T), sizeof(T), &of_shift);
    const unsigned long long all = 16 * (unsigned long long)s->remainder_nbits +
                                   terp_cost_of_group(s_short, shift, of_shift);
    if (threadIdx.x == 0)
        atomicAdd(cost, all);
}

/* Prices a block's runs, as weigh_runs. */
template <typename T>
static __device__ __forceinline__ void
price_runs(const struct lossless_source<T> &source, unsigned dims,
           uint64_t first, uint64_t nblocks, bool is_sparse,
           struct lossless_sample<T> *s, unsigned long long *cost)
{
    const uint64_t nruns = terp_lossless_nruns(nblocks, is_sparse);

#pragma unroll 1
    for (uint64_t run = first; run < nruns; run += nblocks) {
        if (run > first)
            __syncthreads();
        price_run(source, dims, run, nruns, s, cost);
    }
}

/* Returns the step that costs least. A step that relies on a grid or on zero
 * bits that all samples have may not fit other values:
 * terp_lossless_needs_check says that such a step needs further tests.
 * Without may_need_check such steps are left out. */
static __device__ int
choose_step(const struct cuda_lossless_tuner *tuner, int value_nbytes,
            bool may_need_check)
{
    uint64_t least = UINT64_MAX;
    int best = 0;

    for (int i = 0; i < tuner->nsteps; i++) {
        const struct cuda_lossless_trial *trial = &tuner->trial[i];
        const uint64_t cost =
            *(const volatile unsigned long long *)&trial->cost +
            16 * *(const volatile uint64_t *)&trial->more_nbits;
        if ((may_need_check ||
             !terp_lossless_needs_check(&trial->step, value_nbytes)) &&
            cost < least) {
            least = cost;
            best = i;
        }
    }
    return best;
}

/* Prices every step; the last block chooses one. Grid and ownership as for
 * weigh_steps. Shared memory: struct lossless_sample, and the dimensions that
 * the first warp has chosen; a barrier follows their choice. */
template <typename T>
static __global__ void
__launch_bounds__(SAMPLE_NTHREADS, PRICE_MIN_NBLOCKS)
    price_steps(const struct cuda_batch batch)
{
    __shared__ lossless_sample<T> s;
    __shared__ unsigned s_dims;
    struct cuda_chunk &chunk = begin_chunk(batch);
    const int i = (int)(blockIdx.x / TERP_LOSSLESS_FEW_NRUNS);
    struct cuda_lossless_tuner *tuner = tuner_of(batch);

    if (!is_tuned(chunk))
        return;
    if (i < tuner->nsteps) {
        struct cuda_lossless_trial *trial = &tuner->trial[i];
        if (threadIdx.x < 32) {
            uint64_t more_nbits;
            const unsigned dims =
                choose_dims(batch.d_layout, &trial->weights, &more_nbits);
            if (threadIdx.x == 0) {
                s_dims = dims;
                trial->more_nbits = more_nbits;
            }
        }
        __syncthreads();
        price_runs(
            lossless_source_of<T>(batch, chunk, trial->step, trial->center),
            s_dims, blockIdx.x % TERP_LOSSLESS_FEW_NRUNS,
            TERP_LOSSLESS_FEW_NRUNS, is_sparse(batch, chunk), &s, &trial->cost);
    }
    if (is_last_block(&chunk.prices_progress, gridDim.x) && threadIdx.x == 0)
        tuner->best = choose_step(tuner, sizeof(T), true);
}

/* ---- choice ---- */

/* Counts the values that the best step does not reproduce, if that step needs
 * further tests. Grid: x = shares of values, y = chunks. A thread takes every
 * gridDim.x * COUNT_NTHREADS-th value. No shared memory; warps add their counts
 * by atomics. */
template <typename T>
static __global__ void
__launch_bounds__(COUNT_NTHREADS)
    count_unpredictable(const struct cuda_batch batch)
{
    struct cuda_chunk &chunk = begin_chunk(batch);
    const T *values = (const T *)chunk.src;
    unsigned n = 0;

    if (!is_tuned(chunk))
        return;
    const struct cuda_lossless_tuner *tuner = tuner_of(batch);
    const struct terp_lossless_step step = tuner->trial[tuner->best].step;
    if (!terp_lossless_needs_check(&step, sizeof(T)))
        return;
    const lossless_quants<T> k = lossless_quants_of<T>(step.exact, step.form);
    const fill_words<T> fills = fills_of<T>(chunk);
    for (uint64_t i = (uint64_t)blockIdx.x * COUNT_NTHREADS + threadIdx.x;
         i < batch.nvalues; i += (uint64_t)gridDim.x * COUNT_NTHREADS) {
        const T value = values[i];
        word_of<T> remainder;
        bool fits = true;
        if (!is_special(value, fills))
            (void)lossless_quant_of(value, k, &remainder, &fits);
        n += !fits;
    }
    n = warp_sum(n);
    if (threadIdx.x % 32 == 0 && n > 0)
        atomicAdd(&chunk.nunpredictable, (unsigned long long)n);
}

/* Returns the step that is used. */
static __device__ __forceinline__ const struct cuda_lossless_trial *
final_trial(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
            const struct cuda_lossless_tuner *tuner)
{
    const bool may_need_check =
        chunk.nunpredictable <=
        terp_lossless_max_unpredictable(batch.nvalues, chunk.nspecials);

    return &tuner->trial[may_need_check
                             ? tuner->best
                             : choose_step(tuner, batch.value_nbytes, false)];
}

/* Weighs this step on more runs, with its center and without a center. Grid: x
 * = 2 * TERP_LOSSLESS_MANY_NRUNS, y = chunks. A block owns some runs. Shared
 * memory: struct lossless_sample. */
template <typename T>
static __global__ void
__launch_bounds__(SAMPLE_NTHREADS) weigh_choice(const struct cuda_batch batch)
{
    __shared__ lossless_sample<T> s;
    const struct cuda_chunk &chunk = begin_chunk(batch);
    const bool of_zero = blockIdx.x >= TERP_LOSSLESS_MANY_NRUNS;
    struct cuda_lossless_tuner *tuner = tuner_of(batch);

    if (!is_tuned(chunk))
        return;
    const struct cuda_lossless_trial *trial = final_trial(batch, chunk, tuner);
    if (of_zero && trial->center == 0)
        return;
    weigh_runs(lossless_source_of<T>(batch, chunk, trial->step,
                                     of_zero ? 0 : trial->center),
               blockIdx.x % TERP_LOSSLESS_MANY_NRUNS, TERP_LOSSLESS_MANY_NRUNS,
               is_sparse(batch, chunk), &s,
               of_zero ? &tuner->of_zero : &tuner->choice);
}

/* Prices the differences of this step, if splines may cost less. Grid: x =
 * TERP_LOSSLESS_MANY_NRUNS, y = chunks. A block owns some runs. Shared memory
 * as for price_steps. */
template <typename T>
static __global__ void
__launch_bounds__(SAMPLE_NTHREADS, PRICE_MIN_NBLOCKS)
    price_choice(const struct cuda_batch batch)
{
    __shared__ lossless_sample<T> s;
    __shared__ unsigned s_dims;
    const struct cuda_chunk &chunk = begin_chunk(batch);
    struct cuda_lossless_tuner *tuner = tuner_of(batch);

    if (!is_tuned(chunk))
        return;
    const struct cuda_lossless_trial *trial = final_trial(batch, chunk, tuner);
    if (threadIdx.x < 32) {
        uint64_t more_nbits;
        const unsigned dims =
            choose_dims(batch.d_layout, &tuner->choice, &more_nbits);
        if (threadIdx.x == 0)
            s_dims = dims;
    }
    __syncthreads();
    price_runs(lossless_source_of<T>(batch, chunk, trial->step, trial->center),
               s_dims, blockIdx.x, TERP_LOSSLESS_MANY_NRUNS,
               is_sparse(batch, chunk), &s, &tuner->choice_cost);
}

/* Whether splines cost less. Otherwise finds whether they are tried, too. */
static __device__ __forceinline__ bool
prefers_spline(const struct cuda_batch &batch, struct cuda_chunk &chunk,
               const struct cuda_lossless_tuner *tuner, uint64_t more_nbits)
{
    const uint64_t cost = terp_lossless_cost_of_samples(
        tuner->choice_cost + 16 * more_nbits, tuner->choice.nsampled,
        batch.nvalues - chunk.nspecials);

    if (!may_be_splines(batch))
        return false;
    chunk.facts.may_be_splines =
        terp_may_be_splines(chunk.spline_cost, cost,
                            terp_unit_nbits(chunk.model.wide), batch.nvalues);
    return chunk.spline_cost < cost;
}

/* Writes the model. Grid: x = 1, y = chunks; one warp. The kernel triggers the
 * next launch only after previous kernels have ended. The next kernel may
 * therefore read their results before it waits itself, see `choose` in
 * tuner_plan.cuh. */
static __global__ void
__launch_bounds__(WARP_NTHREADS) choose_model(const struct cuda_batch batch)
{
    wait_for_kernels();
    let_next_kernel_come();
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const struct cuda_lossless_tuner *tuner = tuner_of(batch);
    uint64_t more_nbits;

    if (!is_tuned(chunk))
        return;
    const struct cuda_lossless_trial *trial = final_trial(batch, chunk, tuner);
    const unsigned dims =
        choose_dims(batch.d_layout, &tuner->choice, &more_nbits);
    if (threadIdx.x > 0)
        return;
    if (prefers_spline(batch, chunk, tuner, more_nbits)) {
        chunk.prediction = TERP_PREDICTION_SPLINE;
        chunk.lorenzo_cost = UINT64_MAX; /* no trial of Lorenzo */
        return;
    }
    const bool drops_center = terp_lossless_drops_center(
        dims, tuner->choice.nbits[0], tuner->of_zero.nbits[0],
        tuner->choice.nsampled, is_sparse(batch, chunk));
    chunk.prediction = TERP_PREDICTION_LOSSLESS;
    chunk.model.wide = chunk.model.tail_nbits = 0; /* shifts take their place */
    chunk.model.exact = trial->step.exact;
    chunk.model.lossless = {drops_center ? 0 : trial->center, trial->step.form,
                            dims};
}

cudaError_t
cuda_lossless_tune(const struct cuda_batch *batch, cudaStream_t stream)
{
    const unsigned nruns = TERP_LOSSLESS_MAX_NSTEPS * TERP_LOSSLESS_FEW_NRUNS;
    struct stage_launches launches = {batch, stream};

    if (!terp_may_take_losslessly(batch->encoding.params.predictor,
                                  TERP_PREDICTION_LOSSLESS))
        return cudaSuccess;
    launches.add_typed(CUDA_TYPED(find_steps), TERP_LOSSLESS_MAX_NSTEPS,
                       STEPS_NTHREADS);
    launches.add_typed(CUDA_TYPED(weigh_steps), nruns, SAMPLE_NTHREADS);
    launches.add_typed(CUDA_TYPED(price_steps), nruns, SAMPLE_NTHREADS);
    launches.add_typed(
        CUDA_TYPED(count_unpredictable),
        nblocks_for(batch, div_up(batch->nvalues, 8 * COUNT_NTHREADS)),
        COUNT_NTHREADS);
    launches.add_typed(CUDA_TYPED(weigh_choice), 2 * TERP_LOSSLESS_MANY_NRUNS,
                       SAMPLE_NTHREADS);
    if (may_be_splines(*batch))
        launches.add_typed(CUDA_TYPED(price_choice), TERP_LOSSLESS_MANY_NRUNS,
                           SAMPLE_NTHREADS);
    launches.add(choose_model, 1, WARP_NTHREADS);
    return launches.error;
}
