/* terp repack: creates a dataset with the filter, and writes its chunks. */
#include "tools/repack/compress.h"

#include <stdio.h>
#include <string.h>

#include "codec/model/bound.h"
#include "filter/plugin/h5z_terp.h"
#include "tools/common/chunk_shape.h"
#include "tools/common/copies.h"
#include "tools/common/members.h"
#include "tools/common/text.h"
#include "tools/repack/bounds.h"
#include "tools/repack/dataset_list.h"
#include "tools/repack/plan.h"
#include "tools/repack/types.h"
#include "tools/repack/warn.h"

/* Sets the filter's parameters. The dataset has one bound in the file, the
 * largest of all components: no value exceeds the bound that the file states.
 */
static void
set_config(const struct repack_job *job, struct H5Z_terp_config *config)
{
    const struct terp_params *largest = &job->params[0];

    for (uint64_t c = 1; c < job->ncomponents; c++)
        if (job->params[c].bound_mode < largest->bound_mode ||
            (job->params[c].bound_mode == largest->bound_mode &&
             job->params[c].bound > largest->bound))
            largest = &job->params[c];
    config->bound_mode = largest->bound_mode;
    config->bound = largest->bound;
    config->floor = largest->floor;
    config->has_missing =
        tool_second_fill(&job->in, job->wide, &config->missing);
    if (job->has_kept) {
        config->has_missing = true;
        config->missing = tool_value_at(job->wide, &job->kept_bits, 0);
    }
    config->pipeline = job->repack->request.pipeline;
    config->effort = job->repack->request.effort;
    config->format = job->repack->request.format;
    config->keep_sign = largest->keep_sign;
    config->has_valid_range = largest->has_valid_range;
    config->valid_min = largest->valid_min;
    config->valid_max = largest->valid_max;
    if (job->level != NULL)
        config->nlogical = amrex_level_brick(job->level, config->logical);
}

/* Whether each component has its own bound. A flag in the cd_values says so,
 * and the filter, which does not know components, encodes new chunks without
 * loss. terp 1 does not know such datasets. */
static bool
has_own_bounds(const struct repack_job *job)
{
    return job->level != NULL && job->ncomponents > 1 &&
           job->params[0].format != 1;
}

/* Sets the filter, with the bounds of the members that the user has named. */
static bool
set_filter(const struct repack_job *job, hid_t dcpl,
           const struct H5Z_terp_config *config)
{
    const struct repack_request *request = &job->repack->request;
    unsigned words[H5Z_TERP_MAX_ALL_NWORDS];
    size_t nwords = H5Z_terp_cd_values(config, words);

    if (has_own_bounds(job))
        words[0] |= TERP_CD_OWN_BOUNDS;
    for (int i = 0; nwords > 0 && i < request->nmembers; i++) {
        const struct repack_member *member = &request->members[i];
        const struct terp_params params =
            repack_params(request, &member->bound);
        const struct H5Z_terp_config own = {.bound_mode = params.bound_mode,
                                            .bound = params.bound,
                                            .pipeline = request->pipeline,
                                            .effort = request->effort};
        if (tool_is_by_member(job->in.type, member->name))
            nwords = H5Z_terp_add_member(member->name, &own, words, nwords);
    }
    return nwords > 0 && H5Pset_filter(dcpl, H5Z_FILTER_TERP, config->flags,
                                       nwords, words) >= 0;
}

/* Creates the dataset like the input, except for layout and filters. The
 * dataset has no name yet: HDF5 deletes it if it gets none. */
static bool
create(struct repack_job *job, hid_t parent)
{
    hid_t type = -1, space = -1;
    struct H5Z_terp_config config = {0};

    repack_warn_of_lossy(job);
    repack_warn_of_fields(job);
    set_config(job, &config);
    hid_t dcpl = repack_dataset_list(job->repack, job->object->path, &job->in,
                                     REPACK_LIST_WITHOUT_STORAGE);
    if (dcpl >= 0 &&
        H5Pset_chunk(dcpl, job->in.rank, job->object->plan.chunk_dims) >= 0 &&
        H5Pset_alloc_time(dcpl, H5D_ALLOC_TIME_INCR) >= 0 &&
        set_filter(job, dcpl, &config))
        type = repack_type(job->repack, job->object->path, job->in.type);
    space = type < 0 ? -1 : tool_space_copy(job->in.space);
    if (space >= 0)
        job->out = H5Dcreate_anon(parent, type, space, dcpl, H5P_DEFAULT);
    tool_close(space);
    tool_close(type);
    tool_close(dcpl);
    return job->out >= 0 || repack_job_fails(job, TERP_ERR_HDF5);
}

/* Says once why the GPU does not compress, where the user requested it. */
static void
warn_of_engine(struct repack *repack, const struct terp_run *run)
{
    if (repack->request.engine != TERP_ENGINE_CUDA ||
        run->result.used == TERP_ENGINE_CUDA || repack->engine_warned)
        return;
    repack->engine_warned = true;
    tool_progress_end(&repack->progress);
    fprintf(stderr, "terp repack: the CPU replaces the GPU: %s\n",
            run->result.reason != NULL ? run->result.reason : "unknown reason");
}

/* Finds the position of a slab in the output. Notes an error in slab->status.
 */
static bool
begin_coding(struct repack_job *job, struct repack_slab *slab)
{
    const struct terp_run_options options = {.nthreads = job->split.nthreads};

    (void)terp_run_begin(&options, NULL, &slab->run);
    slab->batch = (struct terp_h5_batch){.run = &slab->run};
    /* This is the last use of the native values: convert them in place. */
    if (job->has_all && H5Tequal(job->in.type, job->native) <= 0 &&
        H5Tconvert(job->native, job->in.type, slab->box.nvalues, slab->values,
                   NULL, H5P_DEFAULT) < 0)
        return repack_job_fails(job, TERP_ERR_HDF5);
    slab->status = terp_h5_block_open(job->out, slab->box.at, slab->box.count,
                                      &slab->block);
    return true;
}

/* Chooses the engine: the GPU once it is open. Then allocates the batch, which
 * finish_coding frees; for the GPU it is pinned, and parts of the slab are cut
 * into chunks there. */
static bool
takes_coded_parts(struct repack_job *job, struct repack_slab *slab)
{
    const struct terp_h5_block *block = &slab->block;

    if (slab->status != TERP_OK || block->reason != NULL)
        return false;
    if (atomic_load(&job->repack->device) == REPACK_DEVICE_OPEN)
        slab->run.engine = TERP_ENGINE_CUDA;
    slab->status = terp_h5_batch_make(&slab->run, block, UINT64_MAX, UINT64_MAX,
                                      &slab->batch);
    if (slab->status == TERP_OK &&
        slab->batch.cap_nchunks < terp_array_nchunks(&block->array))
        slab->status = TERP_ERR_MEMORY;
    return slab->status == TERP_OK && job->level == NULL &&
           terp_h5_batch_takes_slices(&slab->batch, block, slab->part_dim);
}

/* Replaces masked values that no step before has replaced. */
static void
replace_masked(const struct repack_job *job, struct repack_slab *slab)
{
    const size_t nbytes = job->in.value_nbytes;

    if (job->mask_fill == NULL || job->has_all)
        return;
    for (uint64_t i = 0; i < slab->part.nvalues; i++)
        if (slab->masked[i])
            memcpy((uint8_t *)slab->values + i * nbytes, job->mask_fill,
                   nbytes);
}

static void
take_values(struct repack_job *job, struct repack_slab *slab)
{
    const int d = slab->part_dim;

    replace_masked(job, slab);
    if (!slab->in_parts)
        return;
    const uint64_t begin = slab->part.at[d] - slab->box.at[d];
    terp_h5_batch_take_slice(&slab->batch, &slab->block, d, begin,
                             begin + slab->part.count[d], slab->values);
}

static enum terp_status
encode_slab(const struct repack_job *job, struct repack_slab *slab)
{
    const struct terp_h5_block *block = &slab->block;
    const struct terp_params *params = &block->cd.params;

    return job->level != NULL
               ? amrex_level_encode(job->level, &slab->batch, block,
                                    job->params, slab->values)
               : terp_h5_batch_encode(&slab->batch, block, params, 0,
                                      terp_array_nchunks(&block->array),
                                      slab->in_parts ? NULL : slab->values);
}

static void
end_coding(struct repack_job *job, struct repack_slab *slab)
{
    const struct terp_h5_block *block = &slab->block;

    if (slab->status == TERP_OK && block->reason == NULL)
        slab->status = encode_slab(job, slab);
    if (slab->status == TERP_OK && block->reason == NULL)
        terp_h5_batch_unpin(&slab->batch, terp_array_nchunks(&block->array));
}

/* Whether HDF5 can create a dataset with the filters of the input. Some builds
 * have only the decoder of szip. */
static bool
has_encoders(const struct tool_dataset *in)
{
    unsigned flags, config;

    for (int i = 0; i < in->nfilters; i++) {
        const H5Z_filter_t filter = H5Pget_filter2(
            in->dcpl, (unsigned)i, &flags, NULL, NULL, 0, NULL, NULL);
        if (filter < 0 || H5Zget_filter_info(filter, &config) < 0 ||
            (config & H5Z_FILTER_CONFIG_ENCODE_ENABLED) == 0)
            return false;
    }
    return true;
}

/* Whether the input may be copied where terp's streams are not smaller. Streams
 * of terp are always replaced: the user may want another pipeline. Tiny chunks
 * are always replaced: HDF5's index takes more than their values. */
static bool
may_stay(const struct tool_dataset *in)
{
    return !in->has_terp && !tool_chunk_is_tiny(in) && has_encoders(in);
}

/* Counts the bytes of a slab's streams. */
static void
count_streams(struct repack_job *job, const struct terp_h5_batch *batch,
              uint64_t nchunks)
{
    for (uint64_t i = 0; i < nchunks; i++)
        job->out_nbytes += batch->stream_nbytes[i];
    job->is_larger = job->may_stay && job->out_nbytes >= job->in_nbytes;
}

static bool
finish_coding(struct repack_job *job, struct repack_slab *slab)
{
    const struct terp_h5_block *block = &slab->block;
    enum terp_status st = terp_budget_status(slab->run.budget, slab->status);

    if (st == TERP_OK && block->reason != NULL) {
        st = terp_h5_block_transfer(&slab->run, block, slab->values, NULL);
    } else if (st == TERP_OK) {
        const uint64_t nchunks = terp_array_nchunks(&block->array);
        warn_of_engine(job->repack, &slab->run);
        job->ndevice += slab->run.result.used == TERP_ENGINE_CUDA;
        count_streams(job, &slab->batch, nchunks);
        if (!job->is_larger)
            st = terp_h5_batch_store(&slab->batch, block, nchunks);
    }
    terp_h5_batch_free(&slab->batch);
    terp_h5_block_close(&slab->block);
    return st == TERP_OK ? !job->is_larger : repack_job_fails(job, st);
}

static bool
write_values(struct repack_job *job)
{
    static const struct repack_steps steps = {begin_coding,  takes_coded_parts,
                                              take_values,   end_coding,
                                              finish_coding, NULL};

    return !job->written || repack_job_do(job, job->in.type, &steps);
}

/* Whether the output became smaller, where HDF5 has called the filter. */
static bool
is_smaller(struct repack_job *job)
{
    if (!job->may_stay || !job->written || job->has_range ||
        tool_coded_type(job->in.type) != TERP_BYTES)
        return true;
    if (H5Dflush(job->out) < 0)
        return repack_job_fails(job, TERP_ERR_HDF5);
    job->is_larger = H5Dget_storage_size(job->out) >= job->in_nbytes;
    return !job->is_larger;
}

static void
print_bounds(const struct repack_job *job)
{
    char name[AMREX_MAX_NAME_NBYTES];

    for (uint64_t c = 0; c < job->ncomponents; c++) {
        printf("%s", c == 0 ? "" : ", ");
        if (job->level != NULL) {
            amrex_component_name(job->repack->in, job->level, c, name);
            printf("%s: ", tool_shown(name));
        }
        printf("%s bound %g", terp_bound_mode_name(job->params[c].bound_mode),
               job->params[c].bound);
        if (job->params[c].floor > 0)
            printf(", floor %g", job->params[c].floor);
    }
}

/* Prints limits of values; whether the dataset has values below 0 is not known
 * here. */
static void
print_limits(const struct terp_params *params)
{
    if (params->has_valid_range)
        printf(", valid range %g to %g", params->valid_min, params->valid_max);
    if (params->keep_sign == TERP_KEEP_SIGN_OF_VALUES)
        printf(", signs kept");
}

/* Prints the bounds of members. */
static void
print_members(const struct repack_job *job)
{
    const struct repack_request *request = &job->repack->request;

    for (int i = 0; i < request->nmembers; i++) {
        const struct repack_member *member = &request->members[i];
        const struct terp_params params =
            repack_params(request, &member->bound);
        if (tool_is_by_member(job->in.type, member->name))
            printf(", %s: %s bound %g", tool_shown(member->name),
                   terp_bound_mode_name(params.bound_mode), params.bound);
    }
}

/* Prints a line of --verbose. */
static void
print_dataset(const struct repack_job *job)
{
    uint64_t stored_nbytes = H5Dget_storage_size(job->out);
    uint64_t nbytes = job->in.nvalues * job->in.value_nbytes;

    printf("%s: ", tool_shown(job->object->path));
    if (terp_is_lossless(&job->params[0]))
        printf("lossless");
    else
        print_bounds(job);
    print_limits(&job->params[0]);
    if (job->mask != NULL)
        printf(", masked by %s", tool_shown(job->mask->rule->variable));
    print_members(job);
    printf(", chunks ");
    tool_dims_print(job->in.rank, job->object->plan.chunk_dims);
    if (tool_chunk_is_tiny(&job->in)) {
        printf(" in place of ");
        tool_dims_print(job->in.rank, job->in.chunk_dims);
    }
    if (stored_nbytes > 0)
        printf(", ratio %.2f", tool_ratio(nbytes, stored_nbytes));
    if (job->ndevice > 0)
        printf(", %.0f %% by the GPU",
               100.0 * (double)job->ndevice / (double)job->split.nslabs);
    printf("\n");
}

/* Changes the plan: the dataset is copied. */
static void
keep_filters(const struct repack_job *job, struct repack_object *object)
{
    const bool has_filters = job->in.nfilters > 0;

    object->plan.bound.mode = REPACK_KEEP;
    object->plan.unwanted = has_filters;
    object->plan.reason = has_filters ? "its own filters make it smaller"
                                      : "terp does not make it smaller";
}

hid_t
repack_compress(struct repack *repack, struct repack_object *object,
                hid_t parent, const char *name, hid_t lcpl)
{
    struct repack_job job;

    bool ok = repack_job_open(repack, object, &job);
    job.may_stay = ok && may_stay(&job.in) &&
                   (job.mask == NULL || !repack->request.fills_masked);
    ok = ok && repack_find_bounds(&job) && create(&job, parent) &&
         write_values(&job) && is_smaller(&job) &&
         (H5Olink(job.out, parent, name, lcpl, H5P_DEFAULT) >= 0 ||
          repack_job_fails(&job, TERP_ERR_HDF5));
    if (ok && repack->request.verbose)
        print_dataset(&job);
    if (!ok && job.out >= 0) {
        H5Dclose(job.out);
        job.out = -1;
        if (job.is_larger && repack->error[0] == '\0')
            keep_filters(&job, object);
    }
    repack_job_close(&job);
    return job.out;
}
