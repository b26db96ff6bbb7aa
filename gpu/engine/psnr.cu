/* The search for each chunk's bound goes in rounds: all chunks that are not
 * done are encoded, decoded and measured, each under a bound of its own. Which
 * bounds are tried, and how errors are added up, is the CPU's
 * (codec/model/psnr.h). Without a first scan: a bound is told as a part of the
 * range, which the encoder finds. */
#include "gpu/engine/psnr.cuh"

#include <stdlib.h>

#include "codec/format/types.h"
#include "codec/model/psnr.h"
#include "gpu/engine/again.cuh"
#include "gpu/engine/array.cuh"
#include "gpu/engine/places.cuh"
#include "gpu/engine/within.cuh"
#include "gpu/predict/measure.cuh"

/* Values that are searched for at once, at most, but for one chunk; and chunks:
 * blockIdx.y. */
#define PORTION_NBYTES (UINT64_C(256) << 20)
#define PORTION_MAX_NCHUNKS 16384

static const struct terp_cuda_call on_device = {TERP_MEMORY_DEVICE, false, NULL,
                                                0, NULL};

/* A chunk. */
struct quest {
    struct terp_psnr_search search;
    bool is_left;  /* to the CPU */
    bool is_known; /* what follows */
    double half_range;
    uint64_t nspecials;
    uint64_t fills[TERP_NFILLS];
    uint64_t nbytes; /* of the smallest stream that suffices */
    int best;        /* which of the two it is */
};

/* Chunks [first, first + n) of a call. The arrays after `quests` are of those
 * that a step is for: `at` tells which. */
struct portion {
    struct terp_cuda_device *device;
    const struct terp_cuda_call *where;
    const struct cuda_call *call;
    uint64_t first, n, nvalues, nblocks;
    struct cuda_block block;
    uint64_t values_at, streams_at[2], decoded_at, sums_at, measured_at;
    uint64_t value_stride, stream_stride, sums_stride;
    uint8_t *host; /* memory of what follows */
    struct quest *quests;
    uint64_t nlisted, *at, *nbytes;
    const void **src;
    void **dst;
    double *factors;
    enum terp_status *status;
    struct cuda_found_domain *found;
    struct cuda_measured *measured;
};

static bool
is_on_host(const struct portion *portion)
{
    return portion->where->memory == TERP_MEMORY_HOST;
}

/* ---- memory ---- */

static enum terp_status
take_memory(struct portion *portion)
{
    const uint64_t n = portion->n;
    uint64_t at = 0;

    portion->value_stride =
        place_aligned(terp_chunk_nbytes(portion->call->chunk));
    portion->stream_stride =
        place_aligned(terp_encode_bound(portion->call->chunk));
    portion->sums_stride = place_aligned(8 * portion->nblocks);
    portion->values_at =
        place_take(&at, is_on_host(portion) ? n * portion->value_stride : 0);
    for (uint64_t &streams_at : portion->streams_at)
        streams_at = place_take(&at, n * portion->stream_stride);
    portion->decoded_at = place_take(&at, n * portion->value_stride);
    portion->sums_at = place_take(&at, n * portion->sums_stride);
    portion->measured_at = place_take(&at, n * sizeof(struct cuda_measured));
    const enum terp_status st =
        cuda_block_take(portion->device, at, &portion->block);
    if (st != TERP_OK)
        return st;

    at = 0;
    const uint64_t quests_at = place_take(&at, n * sizeof *portion->quests);
    const uint64_t at_at = place_take(&at, n * sizeof *portion->at);
    const uint64_t nbytes_at = place_take(&at, n * sizeof *portion->nbytes);
    const uint64_t src_at = place_take(&at, n * sizeof *portion->src);
    const uint64_t dst_at = place_take(&at, n * sizeof *portion->dst);
    const uint64_t factors_at = place_take(&at, n * sizeof *portion->factors);
    const uint64_t status_at = place_take(&at, n * sizeof *portion->status);
    const uint64_t found_at = place_take(&at, n * sizeof *portion->found);
    const uint64_t measured_at = place_take(&at, n * sizeof *portion->measured);
    uint8_t *host = portion->host =
        (uint8_t *)terp_allocate(portion->call->allocator, at);
    if (host == NULL)
        return TERP_ERR_MEMORY;
    memset(host, 0, at);
    portion->quests = (struct quest *)(host + quests_at);
    portion->at = (uint64_t *)(host + at_at);
    portion->nbytes = (uint64_t *)(host + nbytes_at);
    portion->src = (const void **)(host + src_at);
    portion->dst = (void **)(host + dst_at);
    portion->factors = (double *)(host + factors_at);
    portion->status = (enum terp_status *)(host + status_at);
    portion->found = (struct cuda_found_domain *)(host + found_at);
    portion->measured = (struct cuda_measured *)(host + measured_at);
    return TERP_OK;
}

static void
give_memory(struct portion *portion)
{
    if (portion->block.at != NULL)
        cuda_block_give(portion->device, portion->block);
    terp_release(portion->call->allocator, portion->host);
}

static const void *
values_of(const struct portion *portion, uint64_t i)
{
    return is_on_host(portion) ? portion->block.at + portion->values_at +
                                     i * portion->value_stride
                               : portion->call->src[portion->first + i];
}

static uint8_t *
stream_of(const struct portion *portion, uint64_t i, int which)
{
    return portion->block.at + portion->streams_at[which] +
           i * portion->stream_stride;
}

static uint8_t *
decoded_of(const struct portion *portion, uint64_t i)
{
    return portion->block.at + portion->decoded_at + i * portion->value_stride;
}

/* Values that come from the host. */
static enum terp_status
upload_values(const struct portion *portion)
{
    if (!is_on_host(portion))
        return TERP_OK;
    return cuda_slot_do(
        portion->device, &on_device, "taking values", [=](cudaStream_t stream) {
            cudaError_t error = cudaSuccess;
            for (uint64_t i = 0; error == cudaSuccess && i < portion->n; i++)
                error = cudaMemcpyAsync((void *)values_of(portion, i),
                                        portion->call->src[portion->first + i],
                                        terp_chunk_nbytes(portion->call->chunk),
                                        cudaMemcpyHostToDevice, stream);
            return error;
        });
}

/* ---- a round ---- */

/* Whether a chunk has another bound to be tried. */
static bool
goes_on(const struct quest *quest)
{
    return !quest->is_left && !quest->search.is_done &&
           (!quest->is_known ||
            (terp_range_has_psnr(quest->half_range) &&
             is_bound(terp_psnr_bound(quest->half_range,
                                      terp_psnr_factor(&quest->search)))));
}

/* Encodes those that are listed into the streams that they have not found yet.
 * Those of which nothing comes are left to the CPU. */
static enum terp_status
encode_listed(struct portion *portion, const struct terp_params *params,
              enum cuda_bounds bounds)
{
    struct cuda_call call = {};

    for (uint64_t k = 0; k < portion->nlisted; k++) {
        const uint64_t i = portion->at[k];
        const struct quest *quest = &portion->quests[i];
        portion->src[k] = values_of(portion, i);
        portion->dst[k] =
            stream_of(portion, i, quest->search.found ? 1 - quest->best : 0);
        portion->factors[k] = terp_psnr_factor(&quest->search);
    }
    call.chunk = portion->call->chunk;
    call.params = params;
    call.caller_bound = params->bound;
    call.bounds_are = bounds;
    call.bounds = portion->factors;
    call.nchunks = portion->nlisted;
    call.src = portion->src;
    call.dst = portion->dst;
    call.dst_nbytes = portion->nbytes;
    call.found = portion->found;
    call.allocator = portion->call->allocator;
    const enum terp_status st =
        cuda_encode(portion->device,
                    is_on_host(portion) ? &on_device : portion->where, &call);
    for (uint64_t k = 0; st == TERP_OK && k < portion->nlisted; k++)
        portion->quests[portion->at[k]].is_left = portion->nbytes[k] == 0;
    return st;
}

/* Learns the ranges, and goes on with those that were encoded under a bound.
 */
static void
keep_encoded(struct portion *portion)
{
    uint64_t n = 0;

    for (uint64_t k = 0; k < portion->nlisted; k++) {
        const struct cuda_found_domain *found = &portion->found[k];
        struct quest *quest = &portion->quests[portion->at[k]];
        quest->is_known = true;
        quest->half_range = terp_half_range(found->min, found->max);
        quest->nspecials = found->nspecials;
        for (int f = 0; f < TERP_NFILLS; f++)
            quest->fills[f] = found->fills[f];
        if (!goes_on(quest))
            continue;
        portion->at[n] = portion->at[k];
        portion->nbytes[n++] = portion->nbytes[k];
    }
    portion->nlisted = n;
}

static enum terp_status
decode_listed(struct portion *portion)
{
    struct cuda_call call = {};

    for (uint64_t k = 0; k < portion->nlisted; k++) {
        const uint64_t i = portion->at[k];
        const struct quest *quest = &portion->quests[i];
        portion->src[k] =
            stream_of(portion, i, quest->search.found ? 1 - quest->best : 0);
        portion->dst[k] = decoded_of(portion, i);
        portion->status[k] = TERP_ERR_DEVICE;
    }
    call.chunk = portion->call->chunk;
    call.nchunks = portion->nlisted;
    call.src = portion->src;
    call.src_nbytes = portion->nbytes;
    call.dst = portion->dst;
    call.status = portion->status;
    return cuda_decode_all(portion->device, &on_device, &call);
}

static cudaError_t
measure(const struct portion *portion, cudaStream_t stream)
{
    struct cuda_measured *d_measured =
        (struct cuda_measured *)(portion->block.at + portion->measured_at);
    const size_t nbytes = portion->nlisted * sizeof *d_measured;

    cudaError_t error = cudaMemcpyAsync(d_measured, portion->measured, nbytes,
                                        cudaMemcpyHostToDevice, stream);
    if (error == cudaSuccess)
        error = cuda_measure(d_measured, portion->nlisted, portion->call->chunk,
                             stream);
    return error == cudaSuccess
               ? cudaMemcpyAsync(portion->measured, d_measured, nbytes,
                                 cudaMemcpyDeviceToHost, stream)
               : error;
}

static enum terp_status
measure_listed(struct portion *portion)
{
    for (uint64_t k = 0; k < portion->nlisted; k++) {
        const uint64_t i = portion->at[k];
        const struct quest *quest = &portion->quests[i];
        struct cuda_measured *measured = &portion->measured[k];
        measured->values = values_of(portion, i);
        measured->decoded = decoded_of(portion, i);
        for (int f = 0; f < TERP_NFILLS; f++)
            measured->fills[f] = quest->fills[f];
        measured->half_range = quest->half_range;
        measured->sums = (double *)(portion->block.at + portion->sums_at +
                                    i * portion->sums_stride);
    }
    return cuda_slot_do(
        portion->device, &on_device, "measuring errors",
        [=](cudaStream_t stream) { return measure(portion, stream); });
}

/* Tells the search of a chunk what its listed stream has given. */
static void
note_listed(struct portion *portion, uint64_t k)
{
    struct quest *quest = &portion->quests[portion->at[k]];
    const uint64_t nvalid = portion->nvalues - quest->nspecials;
    const bool found = quest->search.found;

    if (portion->status[k] != TERP_OK) {
        quest->is_left = true;
        return;
    }
    if (!terp_psnr_note(&quest->search,
                        portion->measured[k].sum / (double)nvalid) ||
        (found && portion->nbytes[k] >= quest->nbytes))
        return;
    quest->best = found ? 1 - quest->best : 0;
    quest->nbytes = portion->nbytes[k];
}

/* False in *more_ret: there is nothing left to be tried. */
static enum terp_status
do_round(struct portion *portion, bool *more_ret)
{
    struct terp_params params = *portion->call->params;

    /* Each chunk has a bound of its own, above 0. */
    params.bound_mode = TERP_BOUND_ABSOLUTE;
    params.bound = 1;
    portion->nlisted = 0;
    for (uint64_t i = 0; i < portion->n; i++)
        if (goes_on(&portion->quests[i]))
            portion->at[portion->nlisted++] = i;
    *more_ret = portion->nlisted > 0;
    if (!*more_ret)
        return TERP_OK;
    enum terp_status st =
        encode_listed(portion, &params, CUDA_BOUNDS_OF_RANGES);
    if (st == TERP_OK)
        keep_encoded(portion);
    if (st != TERP_OK || portion->nlisted == 0)
        return st;
    st = decode_listed(portion);
    if (st == TERP_OK)
        st = measure_listed(portion);
    for (uint64_t k = 0; st == TERP_OK && k < portion->nlisted; k++)
        note_listed(portion, k);
    return st;
}

/* ---- the end ---- */

/* Encodes the chunks for which no bound was found: those of a range, or those
 * without one. */
static enum terp_status
encode_others(struct portion *portion, bool have_range)
{
    const struct terp_params params =
        terp_params_without_psnr(portion->call->params, have_range ? 1 : 0);

    portion->nlisted = 0;
    for (uint64_t i = 0; i < portion->n; i++) {
        const struct quest *quest = &portion->quests[i];
        if (!quest->is_left && !quest->search.found &&
            (quest->half_range != 0) == have_range)
            portion->at[portion->nlisted++] = i;
    }
    if (portion->nlisted == 0)
        return TERP_OK;
    const enum terp_status st =
        encode_listed(portion, &params, CUDA_BOUNDS_OWN);
    for (uint64_t k = 0; st == TERP_OK && k < portion->nlisted; k++)
        portion->quests[portion->at[k]].nbytes = portion->nbytes[k];
    return st;
}

static enum terp_status
copy_streams(struct portion *portion)
{
    uint64_t n = 0;

    for (uint64_t i = 0; i < portion->n; i++) {
        const struct quest *quest = &portion->quests[i];
        const uint64_t nbytes = quest->is_left ? 0 : quest->nbytes;
        portion->call->dst_nbytes[portion->first + i] = nbytes;
        if (nbytes == 0)
            continue;
        portion->src[n] = stream_of(portion, i, quest->best);
        portion->dst[n] = portion->call->dst[portion->first + i];
        portion->nbytes[n++] = nbytes;
    }
    return cuda_slot_do(
        portion->device, &on_device, "copying streams",
        [=](cudaStream_t stream) {
            cudaError_t error = cudaSuccess;
            for (uint64_t k = 0; error == cudaSuccess && k < n; k++)
                error = cudaMemcpyAsync(portion->dst[k], portion->src[k],
                                        portion->nbytes[k], cudaMemcpyDefault,
                                        stream);
            return error;
        });
}

static enum terp_status
encode_portion(struct portion *portion)
{
    bool more = true;

    enum terp_status st = take_memory(portion);
    if (st == TERP_OK)
        st = upload_values(portion);
    for (uint64_t i = 0; st == TERP_OK && i < portion->n; i++)
        terp_psnr_begin(portion->call->params->bound,
                        &portion->quests[i].search);
    while (st == TERP_OK && more)
        st = do_round(portion, &more);
    if (st == TERP_OK)
        st = encode_others(portion, true);
    if (st == TERP_OK)
        st = encode_others(portion, false);
    if (st == TERP_OK)
        st = copy_streams(portion);
    give_memory(portion);
    return st;
}

enum terp_status
cuda_psnr_encode(struct terp_cuda_device *device,
                 const struct terp_cuda_call *where,
                 const struct cuda_call *call)
{
    const uint64_t nbytes = terp_chunk_nbytes(call->chunk);
    const uint64_t nvalues =
        nbytes / (uint64_t)terp_value_nbytes(call->chunk->type);
    uint64_t most = min_u64(PORTION_NBYTES / nbytes + 1, PORTION_MAX_NCHUNKS);
    enum terp_status st = TERP_OK;

    for (uint64_t first = 0; st == TERP_OK && first < call->nchunks;) {
        struct portion portion = {};
        portion.device = device;
        portion.where = where;
        portion.call = call;
        portion.first = first;
        portion.n = min_u64(most, call->nchunks - first);
        portion.nvalues = nvalues;
        portion.nblocks = div_up(nvalues, TERP_SQUARES_BLOCK_NVALUES);
        st = encode_portion(&portion);
        if (st == TERP_OK)
            first += portion.n;
        else if (st == TERP_ERR_MEMORY && portion.n > 1) {
            most = portion.n / 2;
            st = TERP_OK;
        }
    }
    return st;
}
