/* terp verify: looks for damage in the chunks of files. One thread reads them,
 * others decode; a chunk is whole when its checksum is right and its stream
 * decodes to as many bytes as a chunk has. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>

#include "codec/api/processor.h"
#include "codec/api/terp.h"
#include "codec/format/base.h"
#include "tools/common/options.h"
#include "tools/common/tool.h"
#include "tools/common/workers.h"
#include "tools/verify/verify.h"

const char *const verify_kind_names[VERIFY_NKINDS] = {
    [VERIFY_WHOLE] = "whole",
    [VERIFY_DAMAGED] = "damaged",
    [VERIFY_ABSENT] = "not written",
    [VERIFY_UNCHECKED] = "not checked",
    [VERIFY_UNTRIED] = "not checked for want of memory"};

#define MAX_REASON_NBYTES 256

/* A chunk on its way: read by the main thread, decoded by a worker, and then
 * reported by the main thread, in the order of the grid. */
struct slot {
    struct tool_work work; /* first, so that one is the other's address */
    struct tool_grid box;
    struct tool_chunk chunk;
    const struct tool_dataset *dataset;
    int nthreads;
    uint8_t *values;
    uint64_t values_cap_nbytes;
    enum verify_kind kind;
    char reason[MAX_REASON_NBYTES]; /* of damage */
};

/* What the command line asks for, and what has come of it so far. */
struct request {
    int nfiles;
    char **files;
    int nthreads;
    const struct verify_report *report;
    void *state; /* of the report */
    struct tool_workers *workers;
    struct slot *slots;
    uint64_t nslots;
    bool in_trouble, damaged;
};

static void
set_damage(struct slot *slot, const char *reason)
{
    slot->kind = VERIFY_DAMAGED;
    snprintf(slot->reason, sizeof slot->reason, "%s", reason);
}

static bool
reserve_values(struct slot *slot, uint64_t nbytes)
{
    if (nbytes <= slot->values_cap_nbytes)
        return true;
    free(slot->values);
    slot->values = nbytes <= SIZE_MAX ? malloc((size_t)nbytes) : NULL;
    slot->values_cap_nbytes = slot->values != NULL ? nbytes : 0;
    return slot->values != NULL;
}

static enum terp_status
decode(struct slot *slot)
{
    const struct tool_chunk *chunk = &slot->chunk;
    uint64_t nbytes;
    enum terp_status st =
        terp_decoded_nbytes(chunk->bytes, chunk->nbytes, &nbytes);

    if (st != TERP_OK)
        return st;
    /* Before memory is taken for as much as a damaged frame may announce. */
    if (nbytes != slot->dataset->chunk_nbytes &&
        slot->dataset->cd.pass != TERP_PASS_NOT_FIRST)
        return TERP_ERR_CORRUPT;
    if (!reserve_values(slot, nbytes))
        return TERP_ERR_MEMORY;
    return terp_decode(chunk->bytes, chunk->nbytes, slot->values,
                       slot->values_cap_nbytes, &nbytes, slot->nthreads);
}

static void
check_stream(void *arg, struct tool_work *work)
{
    struct slot *slot = (struct slot *)work;

    (void)arg;
    if (slot->kind != VERIFY_UNTRIED || slot->chunk.kind != TOOL_CHUNK_STREAM)
        return;
    const enum terp_status st = decode(slot);
    if (st == TERP_OK)
        slot->kind = VERIFY_WHOLE;
    else if (st != TERP_ERR_MEMORY)
        set_damage(slot, terp_status_text(st));
}

/* Whether HDF5 has all filters that the dataset needs. H5Pall_filters_avail of
 * HDF5 1.10 looks for no plugin. */
static bool
has_filters(const struct tool_dataset *dataset)
{
    const int nfilters = H5Pget_nfilters(dataset->dcpl);
    unsigned flags, config;

    for (int i = 0; i < nfilters; i++) {
        size_t nwords = 0;
        const H5Z_filter_t filter =
            H5Pget_filter2(dataset->dcpl, (unsigned)i, &flags, &nwords, NULL, 0,
                           NULL, &config);
        if (H5Zfilter_avail(filter) <= 0)
            return false;
    }
    return true;
}

/* HDF5 reads and checks the whole chunk for its first value. */
static void
check_by_hdf5(struct slot *slot)
{
    const struct tool_dataset *dataset = slot->dataset;
    struct tool_grid first = slot->box;
    const hsize_t one = 1;

    if (!reserve_values(slot, dataset->value_nbytes)) {
        slot->kind = VERIFY_UNTRIED;
        return;
    }
    for (int i = 0; i < first.rank; i++)
        first.count[i] = 1;
    if (!tool_box_read(dataset->id, dataset->type, &first, NULL,
                       slot->values)) {
        tool_hdf5_reason(slot->reason, sizeof slot->reason);
        slot->kind = VERIFY_DAMAGED;
        return;
    }
    slot->kind = VERIFY_WHOLE;
    hid_t space = H5Screate_simple(1, &one, NULL);
    H5Dvlen_reclaim(dataset->type, space, H5P_DEFAULT, slot->values);
    H5Sclose(space);
}

/* Reads the chunk at slot->box. Streams, which are left to the workers, are
 * VERIFY_UNTRIED then. HDF5, which lets one thread in, has chunks with
 * checksums of its own and those that other filters hide. */
static void
read_chunk(struct slot *slot, bool has_all_filters)
{
    const struct tool_dataset *dataset = slot->dataset;
    struct tool_chunk *chunk = &slot->chunk;

    tool_chunk_read(dataset, &slot->box, chunk);
    const bool by_hdf5 = has_all_filters &&
                         (chunk->kind == TOOL_CHUNK_HIDDEN ||
                          (dataset->fletcher_mask & ~chunk->unused_mask) != 0);
    if (chunk->kind == TOOL_CHUNK_UNREADABLE)
        set_damage(slot, "its bytes cannot be read");
    else if (chunk->kind == TOOL_CHUNK_ABSENT)
        slot->kind = VERIFY_ABSENT;
    else if (by_hdf5)
        check_by_hdf5(slot);
    else if (chunk->kind == TOOL_CHUNK_STREAM)
        slot->kind = VERIFY_UNTRIED;
    else
        slot->kind = VERIFY_UNCHECKED;
}

static void
finish_chunk(struct request *request, const char *path, struct slot *slot,
             struct verify_sums *sums)
{
    tool_workers_await(request->workers, &slot->work);
    sums->nchunks++;
    sums->nof_kind[slot->kind]++;
    request->damaged |= slot->kind == VERIFY_DAMAGED;
    request->in_trouble |= slot->kind == VERIFY_UNTRIED;
    if (slot->kind == VERIFY_DAMAGED)
        request->report->damage(request->state, path, &slot->box, slot->reason);
}

/* Chunks take turns in the slots. Where there are fewer of them than threads,
 * these share each. */
static void
check_chunks(struct request *request, const char *path,
             const struct tool_dataset *dataset, struct verify_sums *sums)
{
    struct tool_grid grid = tool_grid_of(dataset, dataset->chunk_dims);
    const bool has_all_filters = has_filters(dataset);
    const uint64_t nchunks = tool_grid_nboxes(&grid);
    const uint64_t nthreads = (uint64_t)request->nthreads;
    uint64_t ngiven = 0, ndone = 0;

    for (; tool_grid_next(&grid); ngiven++) {
        struct slot *slot = &request->slots[ngiven % request->nslots];
        if (ngiven - ndone == request->nslots)
            finish_chunk(request, path,
                         &request->slots[ndone++ % request->nslots], sums);
        slot->box = grid;
        slot->dataset = dataset;
        slot->nthreads = (int)(nthreads / min_u64(nthreads, nchunks));
        read_chunk(slot, has_all_filters);
        tool_workers_give(request->workers, &slot->work);
    }
    for (; ndone < ngiven; ndone++)
        finish_chunk(request, path, &request->slots[ndone % request->nslots],
                     sums);
}

static void
check_dataset(const char *path, const struct tool_dataset *dataset,
              const char *damage, void *context)
{
    struct request *request = context;
    struct verify_sums sums = {0};

    if (damage == NULL && dataset->has_terp)
        damage = dataset->params_error;
    request->report->dataset(request->state, path, damage);
    if (damage != NULL) {
        request->damaged = true;
        return;
    }
    if (dataset->chunked)
        check_chunks(request, path, dataset, &sums);
    request->report->sums(request->state, path, &sums);
}

static void
check_file(struct request *request, const char *path)
{
    const struct verify_report *report = request->report;
    hid_t file = tool_file_open("verify", path);

    report->file(request->state, path, file >= 0);
    if (file < 0) {
        request->in_trouble = true;
    } else if (!tool_file_visit(file, check_dataset, request)) {
        report->damaged_file(request->state,
                             "the file's structure cannot be followed");
        request->damaged = true;
    }
    tool_close(file);
}

static const struct argp_option options[] = {
    {"json", 'j', NULL, 0, "Print JSON; `man terp` has the keys", 0},
    {"threads", 't', "N", 0,
     "Threads that decode; as many as there are CPUs "
     "if not given",
     0},
    {0}};

static error_t
parse_option(int key, char *arg, struct argp_state *state)
{
    struct request *request = state->input;

    switch (key) {
    case 'j':
#ifdef TERP_HAVE_JANSSON
        request->report = &verify_report_json;
#else
        tool_option_missing(state, "--json", "jansson");
#endif
        return 0;
    case 't':
        request->nthreads = tool_option_nthreads(state, arg);
        return 0;
    case ARGP_KEY_ARGS:
        request->files = state->argv + state->next;
        request->nfiles = state->argc - state->next;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "a file is needed");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* One slot is read while all threads decode. */
static bool
begin(struct request *request)
{
    request->nslots = (uint64_t)request->nthreads + 1;
    request->slots = calloc(request->nslots, sizeof *request->slots);
    request->workers =
        tool_workers_start(request->nthreads, check_stream, NULL);
    return request->slots != NULL && request->workers != NULL;
}

static void
end(struct request *request)
{
    tool_workers_end(request->workers);
    for (uint64_t i = 0; request->slots != NULL && i < request->nslots; i++) {
        tool_chunk_free(&request->slots[i].chunk);
        free(request->slots[i].values);
    }
    free(request->slots);
}

static void
check_files(struct request *request)
{
    if (request->report->begin != NULL)
        request->state = request->report->begin();
    for (int i = 0; i < request->nfiles; i++)
        check_file(request, request->files[i]);
    if (request->report->end != NULL)
        request->report->end(request->state);
}

int
tool_verify(int argc, char **argv)
{
    static const struct argp parser = {
        .options = options,
        .parser = parse_option,
        .args_doc = "FILE...",
        .doc = "Looks for damage in the datasets of HDF5 files, without their "
               "originals."
               "\v"
               "Examples:\n"
               "  terp verify out.h5\n"
               "  terp verify --json run*.h5 | jq '.files[].datasets[] | "
               "select(.damaged > 0) | [.path, .damaged_chunks]'\n"
               "\n"
               "Every chunk that terp compressed is decoded; others are "
               "checked where they have HDF5's fletcher32.\n"
               "\n"
               "Exit codes: 0 all is whole; 1 something is damaged; 2 wrong "
               "usage, or a file cannot be opened or checked."};
    struct request request = {.report = &verify_report_text,
                              .nthreads = terp_processor_count()};

    argp_parse(&parser, argc, argv, 0, NULL, &request);
    tool_plugin_dirs_add();
    if (begin(&request)) {
        check_files(&request);
    } else {
        fprintf(stderr, "terp verify: %s\n", terp_status_text(TERP_ERR_MEMORY));
        request.in_trouble = true;
    }
    end(&request);
    return request.in_trouble ? TOOL_TROUBLE
           : request.damaged  ? TOOL_FOUND
                              : TOOL_OK;
}
