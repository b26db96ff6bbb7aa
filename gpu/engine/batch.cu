/* Lays out a batch in the memory of its slot; grows and releases that memory.
 */
#include "gpu/engine/batch.cuh"

#include "codec/format/types.h"
#include "codec/model/domain.h"
#include "codec/model/low_bits.h"
#include "codec/model/repeats.h"

#include <string.h>

#include "codec/model/coarse.h"
#include "gpu/engine/places.cuh"
#include "gpu/engine/sequence.cuh"
#include "gpu/entropy/contexts.cuh"
#include "gpu/predict/lossless_tuner.cuh"
#include "gpu/predict/references_find.cuh"
#include "gpu/sections/escapes.cuh"
#include "gpu/sections/low_bits.cuh"
#include "gpu/sections/shifts.cuh"
#include "gpu/sections/signs.cuh"

/* The share of the device's memory, free or already in slots and blocks, that
 * the slots together may take: a fifth for each of CUDA_NSLOTS. The rest stays
 * for the host application and other processes. A single chunk may exceed the
 * share. */
#define MEMORY_SHARE 0.8

/* ---- places ---- */

/* Whether coded values have a region of their own. A decoder needs one only if
 * their type differs from the carrier's; else it converts them in place. */
static bool
has_coded_values(const struct cuda_batch *batch)
{
    return batch->decodes ? batch->value_nbytes != batch->carrier_nbytes
                          : cuda_form_is_pointwise(batch->form);
}

static void
lay_out_regions(struct cuda_batch *batch, uint64_t nlattice, int nlevels)
{
    uint64_t value_nbytes = (uint64_t)batch->value_nbytes, at = 0;
    struct cuda_regions *regions = &batch->at;

    regions->ranges = place_take(&at, 8 * (batch->nranges + 1));
    regions->frequency = place_take(&at, 8 * TERP_NSYMBOLS);
    const bool ratio = batch->coding == TERP_CODING_RATIO;
    regions->context_counts =
        place_take(&at, ratio ? cuda_context_counts_nbytes(batch->ntiles) : 0);
    cuda_signs_lay_out_zeroed(batch, &at);
    const bool encodes_losslessly = batch->may_be_lossless && !batch->decodes;
    regions->lossless_tuner = place_take(
        &at, encodes_losslessly ? sizeof(struct cuda_lossless_tuner) : 0);
    regions->zeroed_nbytes = at;
    regions->work = place_take(&at, batch->nvalues * value_nbytes);
    uint64_t staging_nbytes = batch->npartitions * CUDA_PARTITION_MAX_NBYTES;
    uint64_t tiles_nbytes = batch->npartitions * TERP_PARTITION_NTILES *
                            terp_tile_max_nbytes(batch->coding);
    uint64_t lattice_nbytes = nlattice * value_nbytes;
    regions->lattice = place_take(
        &at, lattice_nbytes > staging_nbytes ? lattice_nbytes : staging_nbytes);
    regions->symbols = place_take(&at, 2 * batch->nvalues);
    regions->coded = place_take(&at, ratio ? 2 * batch->nvalues : 0);
    regions->contexts = place_take(&at, ratio ? batch->nvalues : 0);
    regions->mask = place_take(&at, 8 * div_up(batch->nvalues, 64));
    regions->runs = place_take(&at, 8 * div_up(batch->nvalues, 64));
    regions->tune =
        place_take(&at, 8 * CUDA_LEVEL_NCOSTS * ((uint64_t)nlevels + 1));
    regions->cost = place_take(&at, 4 * TERP_NENTRIES * batch->ntiles);
    regions->entry = place_take(&at, batch->ntiles);
    regions->nonzero = place_take(&at, batch->ntiles);
    regions->nbytes = place_take(&at, 2 * batch->ntiles);
    regions->begin = place_take(&at, 8 * (batch->npartitions + 1));
    regions->reduced = place_take(&at, batch->npartitions);
    regions->staging = place_take(&at, tiles_nbytes);
    regions->codebook = place_take(&at, 32 << 10);
    const uint64_t low_ntiles = batch->may_have_low_bits ? batch->ntiles : 0;
    regions->low_tiles =
        place_take(&at, sizeof(struct cuda_low_tile) * low_ntiles);
    regions->low_bits =
        place_take(&at, batch->decodes ? 0 : LOW_SLOT_NBYTES * low_ntiles);
    regions->tail_widths = place_take(&at, TERP_LOW_TILE_NGROUPS * low_ntiles);
    regions->tail_begins = place_take(&at, 8 * low_ntiles);
    const uint64_t lossless_ntiles =
        batch->may_be_lossless ? batch->ntiles + 1 : 0;
    regions->valid_before = place_take(&at, 8 * lossless_ntiles);
    regions->shift_groups =
        place_take(&at, 8 * SHIFT_TILE_NGROUPS * lossless_ntiles);
    regions->shift_spans = place_take(&at, 8 * lossless_ntiles);
    regions->remainders = place_take(&at, 8 * lossless_ntiles);
    regions->differences =
        place_take(&at, encodes_losslessly ? batch->nvalues * value_nbytes : 0);
    regions->samples = place_take(
        &at, encodes_losslessly ? sizeof(struct cuda_repeat_samples) : 0);
    regions->swapped =
        place_take(&at, batch->chunk.big_endian
                            ? batch->nvalues * (uint64_t)batch->own_nbytes
                            : 0);
    regions->carried =
        place_take(&at, batch->carrier_head_nbytes > 0
                            ? batch->nvalues * (uint64_t)batch->carrier_nbytes
                            : 0);
    regions->coded_values = place_take(
        &at, has_coded_values(batch) ? batch->nvalues * value_nbytes : 0);
    regions->unwanted =
        place_take(&at, batch->decoding.wanted_step > 0
                            ? batch->nvalues * (uint64_t)batch->own_nbytes
                            : 0);
    cuda_signs_lay_out(batch, &at);
    const uint64_t bits_nbytes =
        batch->decoding.nskipped > 0
            ? 8 * div_up(batch->decoding.lattice_ntiles * TERP_TILE_NSYMBOLS,
                         64)
            : 0;
    regions->lattice_mask = place_take(&at, bits_nbytes);
    regions->lattice_signs = place_take(
        &at, cuda_form_may_have_signs(batch->form) ? bits_nbytes : 0);
    regions->stride = at;
}

static const struct terp_chunk *
domain_of(const struct cuda_request *request)
{
    return request->call->domain != NULL ? request->call->domain
                                         : request->call->chunk;
}

/* Sets the numbers of values, tiles, partitions and ranges. */
static void
set_counts(uint64_t nvalues, struct cuda_batch *batch)
{
    batch->nvalues = nvalues;
    batch->ntiles = div_up(nvalues, TERP_TILE_NSYMBOLS);
    batch->npartitions = div_up(batch->ntiles, TERP_PARTITION_NTILES);
    batch->nranges = div_up(nvalues, CUDA_RANGE_NVALUES);
}

/* The number of ranges to use when levels are left out. Escapes must then be
 * counted, not listed, since the last tile read may hold escapes of the levels
 * left out; escapes are listed up to CUDA_SINGLE_BLOCK_MAX_NRANGES ranges. */
static uint64_t
counted_nranges(uint64_t nranges)
{
    return nranges > CUDA_SINGLE_BLOCK_MAX_NRANGES
               ? nranges
               : CUDA_SINGLE_BLOCK_MAX_NRANGES + 1;
}

/* If the caller wants every step-th value: leaves levels out if the lattice
 * that remains is exactly the wanted values, else decodes all values and
 * gathers the wanted ones (wanted_step). */
static void
choose_lattice(const struct cuda_request *request,
               const struct terp_frame *frame, struct cuda_batch *batch)
{
    struct terp_coarse coarse;
    const uint64_t prefix_at =
        batch->frame_nbytes +
        TERP_PREFIX_NBYTES * (uint64_t)terp_prefix_number(request->call->step);

    terp_coarse_make(frame, request->call->step, &coarse);
    if (coarse.nskipped == 0 || !coarse.is_all || request->call->decodes_all) {
        batch->decoding.wanted_step = request->call->step;
        return;
    }
    batch->decoding.nskipped = coarse.nskipped;
    batch->decoding.prefix_at = prefix_at;
    batch->decoding.lattice_ntiles = div_up(coarse.nvalues, TERP_TILE_NSYMBOLS);
    batch->nranges = counted_nranges(batch->nranges);
}

/* Takes the parameters that concern integers before they have a carrier. */
static void
take_integers(const struct terp_params *params, struct cuda_batch *batch)
{
    const uint64_t bits = UINT64_MAX >> (64 - 8 * batch->own_nbytes);

    batch->encoding.integer_bound = terp_integer_bound(params);
    if (params->has_fill)
        batch->encoding.fill[batch->encoding.nfills++] =
            params->fill_bits & bits;
    if (params->has_missing)
        batch->encoding.fill[batch->encoding.nfills++] =
            params->missing_bits & bits;
}

/* A batch, without its pointers. */
static struct cuda_batch
describe(const struct cuda_request *request, const struct terp_layout *layout)
{
    const struct cuda_call *call = request->call;
    struct terp_frame frame = {};
    struct cuda_batch batch;

    /* Clears padding too, since batches are compared byte by byte. */
    memset(&batch, 0, sizeof batch);
    batch.nchunks = (int)request->nchunks;
    batch.chunk = *call->chunk;
    batch.own_nbytes = terp_value_nbytes(call->chunk->type);
    batch.carrier_nbytes =
        terp_value_nbytes(cuda_carrier_type(call->form, call->chunk->type));
    batch.form = call->form;
    batch.value_nbytes =
        terp_value_nbytes(cuda_form_type(call->form, call->chunk->type));
    frame.chunk = *call->chunk;
    frame.domain = *domain_of(request);
    frame.coding = TERP_CODING_RAW;
    batch.raw_nbytes =
        (uint64_t)terp_frame_nbytes(&frame) + terp_chunk_nbytes(call->chunk);
    frame.coding = TERP_CODING_HUFFMAN;
    batch.frame_nbytes = (uint64_t)terp_frame_write(&frame, batch.frame);
    batch.carrier_head_nbytes = cuda_carrier_head_nbytes(call->chunk->type);
    batch.model_at = batch.frame_nbytes + batch.carrier_head_nbytes +
                     cuda_form_head_nbytes(batch.form);
    batch.dims_end = batch.raw_nbytes - terp_chunk_nbytes(call->chunk);
    frame.prediction = TERP_PREDICTION_SPLINE;
    if (!call->is_part && terp_may_have_prefixes(&frame))
        batch.encoding.prefixes_nbytes = TERP_PREFIXES_NBYTES;
    for (int i = 0; i < TERP_NPREFIXES; i++)
        batch.encoding.prefix_ntiles[i] = terp_prefix_ntiles(&frame, i);
    batch.has_domain = call->domain != NULL;
    batch.decodes = call->params == NULL;
    batch.is_part = call->is_part;
    batch.encoding.has_markers = call->has_markers;
    batch.encoding.measures = call->measures;
    batch.encoding.has_bounds = call->bounds != NULL;
    if (batch.decodes && request->expects.ratio)
        batch.coding = TERP_CODING_RATIO;
    batch.may_have_low_bits = request->expects.low_bits;
    batch.may_be_lossless = request->expects.lossless;
    if (!batch.decodes) {
        batch.encoding.params = cuda_coded_params(call->params, batch.form);
        batch.encoding.pointwise_bound = call->params->bound;
        batch.encoding.floor = call->params->floor;
        batch.encoding.caller_bound = call->caller_bound;
        if (terp_type_is_integer(batch.chunk.type))
            take_integers(call->params, &batch);
        const bool is_lossless = !cuda_form_is_pointwise(batch.form) &&
                                 terp_is_lossless(&batch.encoding.params);
        batch.may_be_lossless =
            is_lossless || cuda_form_is_of_integers(batch.form);
        /* The CPU engine gets such bounds as absolute ones, so they may have
         * low bits whatever the caller's bound is. */
        batch.may_have_low_bits =
            !is_lossless &&
            (batch.encoding.has_bounds ||
             terp_bound_may_have_low_bits(batch.encoding.params.bound_mode,
                                          batch.encoding.params.bound));
        batch.encoding.params.predictor =
            terp_predictor_of(&batch.encoding.params);
        batch.coding = terp_coding_of(call->params->pipeline);
        batch.encoding.finds_domains =
            call->domain == NULL &&
            terp_domain_is_open(call->chunk, layout->nvalues,
                                &batch.encoding.params);
        batch.encoding.finds_more =
            batch.encoding.finds_domains &&
            !terp_is_lossless(&batch.encoding.params) &&
            terp_is_open_to_more(call->params, call->chunk, layout->nvalues);
    }
    set_counts(layout->nvalues, &batch);
    if (batch.decodes && call->step > 1)
        choose_lattice(request, &frame, &batch);
    lay_out_regions(&batch, layout->nlattice, layout->nlevels);
    return batch;
}

static uint64_t
step_of(const struct cuda_request *request)
{
    return request->call->params == NULL && request->call->step > 1
               ? request->call->step
               : 1;
}

/* Points the batch and the slot to their arrays in the slot's device memory.
 * Returns the bytes of all arrays; to learn them, d_memory may be NULL. */
static uint64_t
lay_out_memory(const struct cuda_request *request, struct cuda_batch *batch,
               struct cuda_slot *slot)
{
    const uint64_t n = request->nchunks;
    uint64_t at = 0;
    const auto take = [&](uint64_t nbytes) {
        return slot->d_memory + place_take(&at, nbytes);
    };

    slot->src_stride = slot->dst_stride = 0;
    if (request->call->host) {
        /* A stream is at most as long as a raw one: frame and values. */
        uint64_t stream =
            place_aligned(terp_encode_bound(request->call->chunk));
        const struct terp_chunk wanted =
            terp_coarse_chunk_of(request->call->chunk, step_of(request));
        uint64_t values = place_aligned(terp_chunk_nbytes(&wanted));
        slot->src_stride = batch->decodes ? stream : values;
        slot->dst_stride = batch->decodes ? values : stream;
    }
    batch->d_layout =
        (const struct terp_layout *)take(2 * sizeof *batch->d_layout);
    batch->d_chunks = (struct cuda_chunk *)take(n * sizeof *batch->d_chunks);
    batch->d_sign_chunks = (struct cuda_chunk *)take(
        cuda_form_may_have_signs(batch->form) ? n * sizeof *batch->d_sign_chunks
                                              : 0);
    slot->d_src = take(n * slot->src_stride);
    slot->d_dst = take(n * slot->dst_stride);
    batch->d_scratch = take(n * batch->at.stride);
    return at;
}

/* The same for the slot's pinned memory. */
static uint64_t
lay_out_pinned(uint64_t nchunks, struct cuda_batch *batch,
               struct cuda_slot *slot)
{
    uint64_t at = 0;
    const auto take = [&](uint64_t nbytes) {
        return slot->h_memory + place_take(&at, nbytes);
    };

    slot->h_layout = (struct terp_layout *)take(2 * sizeof *slot->h_layout);
    batch->h_layout = slot->h_layout;
    batch->h_chunks =
        (struct cuda_chunk *)take(nchunks * sizeof *batch->h_chunks);
    slot->h_short = take(nchunks * CUDA_SHORT_NBYTES);
    batch->h_plans = (struct cuda_plans *)take(sizeof *batch->h_plans);
    return at;
}

/* Bytes of device memory and of pinned memory that a batch needs. */
static uint64_t
batch_nbytes(const struct cuda_request *request, uint64_t *h_nbytes_ret)
{
    struct cuda_slot none = {};
    struct terp_layout layout;

    terp_layout_make(domain_of(request), &layout);
    struct cuda_batch batch = describe(request, &layout);
    *h_nbytes_ret = lay_out_pinned(request->nchunks, &batch, &none);
    return lay_out_memory(request, &batch, &none);
}

/* ---- memory ---- */

/* Sets request->nchunks by the slot's share of the device's memory, or by the
 * memory that the slot has already if that is more. */
static cudaError_t
choose_nchunks(const struct terp_cuda_device *device,
               const struct cuda_slot *slot, struct cuda_request *request)
{
    struct cuda_request one = *request;
    size_t free_nbytes, total_nbytes;
    uint64_t h_nbytes;

    cudaError_t error = cudaMemGetInfo(&free_nbytes, &total_nbytes);
    if (error != cudaSuccess)
        return error;
    uint64_t share_nbytes =
        (uint64_t)((double)(free_nbytes + device->held_nbytes) * MEMORY_SHARE);
    if (device->memory_limit_nbytes > 0)
        share_nbytes = min_u64(share_nbytes, device->memory_limit_nbytes);
    share_nbytes /= CUDA_NSLOTS;
    if (share_nbytes < slot->d_nbytes)
        share_nbytes = slot->d_nbytes;
    one.nchunks = 1;
    uint64_t most = share_nbytes / batch_nbytes(&one, &h_nbytes);
    request->nchunks = most > 0 ? min_u64(most, request->nchunks) : 1;
    return cudaSuccess;
}

/* Replaces the slot's memory by more. The old memory is released first: its
 * contents are not needed, and the device may have no room for both. The new
 * memory may have the old address, so graphs are dropped too. */
static cudaError_t
grow(struct terp_cuda_device *device, struct cuda_slot *slot, uint64_t d_nbytes,
     uint64_t h_nbytes)
{
    d_nbytes = d_nbytes > slot->d_nbytes ? d_nbytes : slot->d_nbytes;
    h_nbytes = h_nbytes > slot->h_nbytes ? h_nbytes : slot->h_nbytes;
    cuda_slot_release(device, slot);
    if (!cuda_device_hold(device, d_nbytes))
        return cudaErrorMemoryAllocation;
    slot->d_nbytes = d_nbytes;
    cudaError_t error = cudaMalloc((void **)&slot->d_memory, d_nbytes);
    if (error == cudaSuccess)
        error = cudaMallocHost((void **)&slot->h_memory, h_nbytes);
    if (error == cudaSuccess)
        slot->h_nbytes = h_nbytes;
    else
        cuda_slot_release(device, slot);
    return error;
}

cudaError_t
cuda_slot_reserve(struct terp_cuda_device *device, struct cuda_slot *slot,
                  struct cuda_request *request)
{
    uint64_t h_nbytes, d_nbytes = batch_nbytes(request, &h_nbytes);

    if (slot->d_nbytes < d_nbytes) {
        cudaError_t error = choose_nchunks(device, slot, request);
        if (error != cudaSuccess)
            return error;
        d_nbytes = batch_nbytes(request, &h_nbytes);
    }
    return slot->d_nbytes >= d_nbytes && slot->h_nbytes >= h_nbytes
               ? cudaSuccess
               : grow(device, slot, d_nbytes, h_nbytes);
}

/* Copies the layouts to the device unless it has the same ones. */
static cudaError_t
prepare_layout(struct cuda_slot *slot, const struct terp_layout layouts[2])
{
    const size_t nbytes = 2 * sizeof *layouts;

    /* If only padding bytes differed, they would be copied again; no harm. */
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison,cert-*)
    bool equal = memcmp(slot->h_layout, layouts, nbytes) == 0;
    if (slot->has_layout && equal)
        return cudaSuccess;
    memcpy(slot->h_layout, layouts, nbytes);
    cudaError_t error =
        cudaMemcpyAsync((void *)slot->batch.d_layout, slot->h_layout, nbytes,
                        cudaMemcpyHostToDevice, slot->stream);
    slot->has_layout = error == cudaSuccess;
    return error;
}

/* If levels are left out: makes slot->tiles and slot->lattice, the batch as
 * stages with TILES and LATTICE see it (sequence.cu). */
static void
describe_lattice(const struct cuda_request *request, struct cuda_slot *slot,
                 struct terp_layout *layout)
{
    const struct cuda_batch &batch = slot->batch;
    struct terp_chunk domain = *domain_of(request);

    for (int i = domain.stack; i < domain.rank; i++)
        domain.dims[i] =
            div_up(domain.dims[i], UINT64_C(1) << batch.decoding.nskipped);
    terp_layout_make(&domain, layout);
    slot->tiles = batch;
    set_counts(min_u64(batch.nvalues,
                       batch.decoding.lattice_ntiles * TERP_TILE_NSYMBOLS),
               &slot->tiles);
    slot->tiles.nranges = batch.nranges;
    slot->lattice = batch;
    set_counts(layout->nvalues, &slot->lattice);
    slot->lattice.nranges = counted_nranges(slot->lattice.nranges);
    slot->lattice.h_layout = batch.h_layout + 1;
    slot->lattice.d_layout = batch.d_layout + 1;
    slot->lattice.at.mask = batch.at.lattice_mask;
    slot->lattice.at.signs = batch.at.lattice_signs;
}

cudaError_t
cuda_slot_prepare(const struct terp_cuda_device *device, struct cuda_slot *slot,
                  const struct cuda_request *request)
{
    struct terp_layout layouts[2] = {};

    terp_layout_make(domain_of(request), &layouts[0]);
    struct cuda_batch batch = describe(request, &layouts[0]);

    lay_out_memory(request, &batch, slot);
    lay_out_pinned(request->nchunks, &batch, slot);
    batch.tables = device->tables;
    slot->batch = batch;
    if (batch.decoding.nskipped > 0)
        describe_lattice(request, slot, &layouts[1]);
    return prepare_layout(slot, layouts);
}
