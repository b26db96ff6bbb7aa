/* Compresses the values of a dataset, block by block. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"
#include "h5z_terp.h"
#include "range.h"
#include "repack.h"
#include "terp_h5.h"

/* Room for input chunks that several blocks touch. */
#define CHUNK_CACHE_NBYTES ((size_t)64 << 20)
#define MAX_NFILLS 3
/* Values that are looked at together. */
#define PIECE_NVALUES ((uint64_t)1024)

/* One dataset at work. */
struct job {
    struct repack *repack;
    const struct repack_object *object;
    hid_t in, out;
    hid_t type;   /* in both files */
    hid_t native; /* the same in this machine's byte order */
    hid_t space, dcpl;
    struct tool_grid grid;
    uint64_t value_nbytes;
    bool written; /* the input holds values at all */
    void *values; /* a block, native */
    bool has_all; /* the only block is in `values` */
    uint64_t fills[MAX_NFILLS];
    int nfills;
    /* A level of boxes has a bound for each of its components, other data has
     * one. */
    const struct amrex_level *level;
    uint64_t ncomponents;
    struct terp_params *params;
};

static bool
job_fails(const struct job *job)
{
    return repack_fail(job->repack, job->object->path, NULL);
}

bool
repack_select(hid_t dataset, const struct tool_grid *grid, hid_t *in_file_ret,
              hid_t *in_memory_ret)
{
    hid_t in_file = H5Dget_space(dataset);

    *in_file_ret = in_file;
    if (grid->rank == 0) {
        *in_memory_ret = H5Scopy(in_file);
        return *in_memory_ret >= 0;
    }
    *in_memory_ret = H5Screate_simple(grid->rank, grid->count, NULL);
    return in_file >= 0 && *in_memory_ret >= 0 &&
           H5Sselect_hyperslab(in_file, H5S_SELECT_SET, grid->at, NULL,
                               grid->count, NULL) >= 0;
}

static uint64_t
block_nvalues(const struct job *job)
{
    uint64_t nvalues = 1;
    for (int i = 0; i < job->grid.rank; i++)
        nvalues *= job->grid.count[i];
    return nvalues;
}

static bool
read_block(struct job *job)
{
    hid_t in_file, in_memory;
    bool ok = repack_select(job->in, &job->grid, &in_file, &in_memory) &&
              H5Dread(job->in, job->native, in_memory, in_file, H5P_DEFAULT,
                      job->values) >= 0;
    if (in_file >= 0)
        H5Sclose(in_file);
    if (in_memory >= 0)
        H5Sclose(in_memory);
    if (ok)
        tool_progress_add(&job->repack->progress,
                          block_nvalues(job) * job->value_nbytes);
    return ok || job_fails(job);
}

static uint64_t
bits_at(const struct job *job, uint64_t i)
{
    uint64_t wide;
    uint32_t narrow;

    if (job->value_nbytes == 8) {
        memcpy(&wide, (const double *)job->values + i, 8);
        return wide;
    }
    memcpy(&narrow, (const float *)job->values + i, 4);
    return narrow;
}

static void
add_fill(struct job *job, const void *value)
{
    uint32_t narrow;

    if (job->value_nbytes == 8) {
        memcpy(&job->fills[job->nfills++], value, 8);
        return;
    }
    memcpy(&narrow, value, 4);
    job->fills[job->nfills++] = narrow;
}

/* The fill value that the filter keeps, and those that netCDF's conventions
 * name: none of them counts for the range. */
static void
find_fills(struct job *job)
{
    static const char *const names[] = {"_FillValue", "missing_value"};
    H5D_fill_value_t defined;
    double value;

    if (H5Pfill_value_defined(job->dcpl, &defined) >= 0 &&
        defined == H5D_FILL_VALUE_USER_DEFINED &&
        H5Pget_fill_value(job->dcpl, job->native, &value) >= 0)
        add_fill(job, &value);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (H5Aexists(job->in, names[i]) <= 0)
            continue;
        hid_t attribute = H5Aopen(job->in, names[i], H5P_DEFAULT);
        hid_t space = H5Aget_space(attribute);
        hid_t type = H5Aget_type(attribute);
        if (H5Sget_simple_extent_npoints(space) == 1 &&
            H5Tget_class(type) == H5T_FLOAT &&
            H5Aread(attribute, job->native, &value) >= 0)
            add_fill(job, &value);
        H5Tclose(type);
        H5Sclose(space);
        H5Aclose(attribute);
    }
}

static double
value_at(const struct job *job, uint64_t i)
{
    return job->value_nbytes == 8 ? ((const double *)job->values)[i]
                                  : (double)((const float *)job->values)[i];
}

static bool
is_valid(const struct job *job, uint64_t i)
{
    bool valid = isfinite(value_at(job, i));
    for (int j = 0; j < job->nfills; j++)
        valid &= bits_at(job, i) != job->fills[j];
    return valid;
}

/* Whether a piece of the values lies within what is known of the range, so
 * that none of them need be looked at singly. Comparisons with NaN are false,
 * as they should be here. */
static bool
is_within(const struct job *job, uint64_t at, uint64_t n,
          const struct tool_range *range)
{
    const double low = range->low.next, high = range->high.next;
    int outside = 0;

    if (job->value_nbytes == 8)
        for (uint64_t i = at; i < at + n; i++)
            outside |= (((const double *)job->values)[i] <= low) |
                       (((const double *)job->values)[i] >= high);
    else
        for (uint64_t i = at; i < at + n; i++)
            outside |= (((const float *)job->values)[i] <= (float)low) |
                       (((const float *)job->values)[i] >= (float)high);
    return outside == 0;
}

static void
add_values(const struct job *job, uint64_t begin, uint64_t end,
           struct tool_range *range)
{
    for (uint64_t at = begin; at < end; at += PIECE_NVALUES) {
        uint64_t n = min_u64(PIECE_NVALUES, end - at);
        if (is_within(job, at, n, range))
            continue;
        for (uint64_t i = at; i < at + n; i++)
            if (is_valid(job, i))
                tool_range_add(range, value_at(job, i), false);
    }
}

/* Adds the block to the ranges of its components. */
static void
add_block(const struct job *job, struct tool_range *ranges)
{
    uint64_t nvalues = block_nvalues(job), at = 0;

    if (job->level == NULL)
        add_values(job, 0, nvalues, ranges);
    while (job->level != NULL && at < nvalues) {
        struct amrex_piece piece =
            amrex_level_piece(job->level, job->grid.at[0] + at, nvalues - at);
        add_values(job, at, at + piece.nvalues, &ranges[piece.component]);
        at += piece.nvalues;
    }
}

/* Looks at all values. The only block stays in memory. */
static bool
find_ranges(struct job *job, struct tool_range *ranges)
{
    find_fills(job);
    while (tool_grid_next(&job->grid)) {
        if (!read_block(job))
            return false;
        add_block(job, ranges);
    }
    job->grid.started = false;
    job->has_all = repack_grid_is_single(&job->grid);
    return true;
}

/* A relative bound is that part of the range of all valid values. Where these
 * are all the same, no absolute bound says so, and the relative one remains. */
static void
settle_bound(const struct repack_bound *bound, const struct tool_range *range,
             struct terp_params *params)
{
    double min, max;
    uint64_t nleft_out;

    params->bound = bound->number;
    params->bound_mode =
        bound->mode == REPACK_ABS ? TERP_BOUND_ABSOLUTE : TERP_BOUND_RELATIVE;
    if (bound->mode == REPACK_ABS)
        return;
    tool_range_trim(range, &min, &max, &nleft_out);
    if (!(min < max))
        return;
    double absolute = isfinite(max - min)
                          ? bound->number * (max - min)
                          : bound->number * max - bound->number * min;
    if (absolute > 0 && isfinite(absolute)) {
        params->bound = absolute;
        params->bound_mode = TERP_BOUND_ABSOLUTE;
    }
}

/* What the filter is told: the largest bound of all components, so that it
 * holds for each value. */
static void
set_config(const struct job *job, struct H5Z_terp_config *config)
{
    const struct terp_params *largest = &job->params[0];

    for (uint64_t c = 1; c < job->ncomponents; c++)
        if (job->params[c].bound_mode < largest->bound_mode ||
            (job->params[c].bound_mode == largest->bound_mode &&
             job->params[c].bound > largest->bound))
            largest = &job->params[c];
    config->bound_mode = largest->bound_mode;
    config->bound = largest->bound;
    config->pipeline = job->repack->request->pipeline;
    if (job->level != NULL)
        config->nlogical = amrex_level_brick(job->level, config->logical);
}

static bool
find_bounds(struct job *job, struct H5Z_terp_config *config)
{
    const struct repack_bound *bound = &job->object->plan.bound;

    job->ncomponents = job->level != NULL ? job->level->ncomponents : 1;
    struct tool_range *ranges = calloc(job->ncomponents, sizeof *ranges);
    job->params = calloc(job->ncomponents, sizeof *job->params);
    if (ranges == NULL || job->params == NULL) {
        free(ranges);
        return repack_fail(job->repack, job->object->path, "not enough memory");
    }
    for (uint64_t c = 0; c < job->ncomponents; c++)
        ranges[c] = TOOL_RANGE_EMPTY;
    bool ok =
        bound->mode != REPACK_REL || !job->written || find_ranges(job, ranges);
    for (uint64_t c = 0; c < job->ncomponents; c++) {
        job->params[c].pipeline = job->repack->request->pipeline;
        settle_bound(bound, &ranges[c], &job->params[c]);
    }
    free(ranges);
    set_config(job, config);
    return ok;
}

/* A lossy copy of a lossy copy is allowed, but seldom meant. */
static void
warn_of_lossy(struct job *job)
{
    unsigned words[TERP_CD_MAX_NWORDS], flags;
    struct terp_cd cd;

    for (int i = 0; i < H5Pget_nfilters(job->dcpl); i++) {
        size_t nwords = TERP_CD_MAX_NWORDS;
        H5Z_filter_t filter = H5Pget_filter2(job->dcpl, (unsigned)i, &flags,
                                             &nwords, words, 0, NULL, NULL);
        if (filter != H5Z_FILTER_TERP ||
            terp_cd_parse(min_u64(nwords, TERP_CD_MAX_NWORDS), words, &cd,
                          NULL) != TERP_OK ||
            cd.pass != TERP_PASS_NO)
            continue;
        tool_progress_end(&job->repack->progress);
        fprintf(stderr,
                "terp repack: %s: compressed by terp before, with %s bound of "
                "%g; errors add up\n",
                job->object->path,
                cd.params.bound_mode == TERP_BOUND_ABSOLUTE ? "an absolute"
                                                            : "a relative",
                cd.params.bound);
        return;
    }
}

/* As the input is created, but for layout and filters. */
static bool
create(struct job *job, const struct H5Z_terp_config *config, hid_t parent,
       const char *name, hid_t lcpl)
{
    const char *path = job->object->path;

    warn_of_lossy(job);
    bool ok = H5Pset_layout(job->dcpl, H5D_CHUNKED) >= 0 &&
              H5Pset_chunk(job->dcpl, job->grid.rank,
                           job->object->plan.chunk_dims) >= 0 &&
              H5Pset_chunk_opts(job->dcpl, 0) >= 0 &&
              H5Premove_filter(job->dcpl, H5Z_FILTER_ALL) >= 0 &&
              H5Pset_alloc_time(job->dcpl, H5D_ALLOC_TIME_INCR) >= 0 &&
              H5Pset_terp(job->dcpl, config) >= 0;
    if (!ok)
        return job_fails(job);
    hid_t type = repack_type(job->repack, path, job->type);
    if (type < 0)
        return job_fails(job);
    job->out = H5Dcreate2(parent, name, type, job->space, lcpl, job->dcpl,
                          H5P_DEFAULT);
    H5Tclose(type);
    return job->out >= 0 || job_fails(job);
}

/* Says once why the GPU that was asked for does not code. */
static void
warn_of_engine(struct repack *repack, const struct terp_run *run)
{
    if (run->engine != TERP_ENGINE_CUDA || run->used == TERP_ENGINE_CUDA ||
        repack->engine_told)
        return;
    repack->engine_told = true;
    tool_progress_end(&repack->progress);
    fprintf(stderr, "terp repack: the CPU compresses: %s\n",
            run->reason != NULL ? run->reason : "no reason is known");
}

static bool
write_block(struct job *job)
{
    const struct repack_request *request = job->repack->request;
    struct terp_run run = {.engine = request->engine,
                           .memory = TERP_MEMORY_HOST,
                           .nthreads = request->nthreads};
    const char *path = job->object->path;

    /* In place; the values are not needed again. */
    if (H5Tequal(job->type, job->native) <= 0 &&
        H5Tconvert(job->native, job->type, block_nvalues(job), job->values,
                   NULL, H5P_DEFAULT) < 0)
        return job_fails(job);
    enum terp_status st =
        job->level != NULL ? amrex_level_write(job->level, &run, job->params,
                                               job->out, job->grid.at[0],
                                               job->grid.count[0], job->values)
                           : terp_h5_write(&run, job->out, job->grid.at,
                                           job->grid.count, NULL, job->values);
    if (st == TERP_ERR_HDF5)
        return job_fails(job);
    if (st != TERP_OK)
        return repack_fail(job->repack, path, "%s", terp_status_text(st));
    warn_of_engine(job->repack, &run);
    return true;
}

static bool
write_values(struct job *job)
{
    while (job->written && tool_grid_next(&job->grid))
        if ((!job->has_all && !read_block(job)) || !write_block(job))
            return false;
    return true;
}

static void
say(const struct job *job)
{
    uint64_t stored_nbytes = H5Dget_storage_size(job->out);
    char chunk_text[21 * H5S_MAX_RANK];
    uint64_t nbytes = job->value_nbytes;

    for (int i = 0; i < job->grid.rank; i++)
        nbytes *= job->grid.dims[i];
    tool_dims_text(job->grid.rank, job->object->plan.chunk_dims, chunk_text,
                   sizeof chunk_text);
    printf("%s: ", job->object->path);
    for (uint64_t c = 0; c < job->ncomponents; c++)
        printf("%s%s bound %g", c == 0 ? "" : ", ",
               job->params[c].bound_mode == TERP_BOUND_ABSOLUTE ? "absolute"
                                                                : "relative",
               job->params[c].bound);
    printf(", chunks %s", chunk_text);
    if (stored_nbytes > 0)
        printf(", ratio %.2f", (double)nbytes / (double)stored_nbytes);
    printf("\n");
}

static bool
open_in(struct job *job)
{
    hid_t dapl = H5Pcreate(H5P_DATASET_ACCESS);
    hsize_t dims[H5S_MAX_RANK];
    uint64_t nvalues = 1;

    H5Pset_chunk_cache(dapl, H5D_CHUNK_CACHE_NSLOTS_DEFAULT, CHUNK_CACHE_NBYTES,
                       H5D_CHUNK_CACHE_W0_DEFAULT);
    job->in = H5Dopen2(job->repack->in, job->object->path, dapl);
    H5Pclose(dapl);
    if (job->in < 0)
        return job_fails(job);
    job->type = H5Dget_type(job->in);
    job->space = H5Dget_space(job->in);
    job->dcpl = H5Dget_create_plist(job->in);
    if (job->type < 0 || job->space < 0 || job->dcpl < 0)
        return job_fails(job);
    job->value_nbytes = H5Tget_size(job->type);
    job->native = job->value_nbytes == 8 ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT;
    job->written = H5Dget_storage_size(job->in) > 0;
    int rank = H5Sget_simple_extent_dims(job->space, dims, NULL);
    repack_grid(rank, dims, job->object->plan.unit_dims, job->value_nbytes,
                &job->grid);
    for (int i = 0; i < rank; i++)
        nvalues *= min_u64(job->grid.step[i], dims[i]);
    job->values = malloc(nvalues * job->value_nbytes);
    return job->values != NULL ||
           repack_fail(job->repack, job->object->path, "not enough memory");
}

hid_t
repack_compress(struct repack *repack, const struct repack_object *object,
                hid_t parent, const char *name, hid_t lcpl)
{
    struct job job = {.repack = repack,
                      .object = object,
                      .level = object->plan.level,
                      .in = -1,
                      .out = -1,
                      .type = -1,
                      .space = -1,
                      .dcpl = -1};
    struct H5Z_terp_config config = {0};

    bool ok = open_in(&job) && find_bounds(&job, &config) &&
              create(&job, &config, parent, name, lcpl) && write_values(&job);
    if (ok && repack->request->verbose)
        say(&job);
    free(job.values);
    free(job.params);
    if (job.type >= 0)
        H5Tclose(job.type);
    if (job.space >= 0)
        H5Sclose(job.space);
    if (job.dcpl >= 0)
        H5Pclose(job.dcpl);
    if (job.in >= 0)
        H5Dclose(job.in);
    if (!ok && job.out >= 0) {
        H5Dclose(job.out);
        return -1;
    }
    return job.out;
}
