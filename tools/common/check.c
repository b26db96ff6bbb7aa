/* Checks chunks: reads them in order, decodes them in parallel, and reports
 * them in order. */
#include "tools/common/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "codec/api/budget.h"
#include "codec/api/terp.h"
#include "codec/format/base.h"
#include "filter/container.h"
#include "tools/common/stored.h"
#include "tools/common/workers.h"

/* Longer reasons are cut; HDF5's messages and the codec's are shorter. */
#define MAX_REASON_NBYTES 256

/* A chunk. The main thread reads it, a worker decodes it, and the main thread
 * reports it in the order of the grid. */
struct slot {
    struct tool_work work; /* first member: both have the same address */
    struct tool_grid box;
    struct tool_chunk chunk;
    const struct tool_dataset *dataset;
    int nthreads;
    uint8_t *values;
    uint64_t values_cap_nbytes;
    enum tool_check_kind kind;
    char reason[MAX_REASON_NBYTES]; /* of damage, or of a missing check */
};

struct tool_checker {
    int nthreads;
    enum tool_check_rest rest;
    struct tool_workers *workers;
    struct slot *slots;
    uint64_t nslots;
};

static void
set_reason(struct slot *slot, const char *reason)
{
    snprintf(slot->reason, sizeof slot->reason, "%s", reason);
}

static void
set_damage(struct slot *slot, const char *reason)
{
    slot->kind = TOOL_CHECK_DAMAGED;
    set_reason(slot, reason);
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

/* The size of the decoded values. It is checked before a damaged frame makes
 * the decoder allocate memory, and before HDF5, which does not compare sizes,
 * gets less than a chunk. */
static enum terp_status
read_size(const struct slot *slot, uint64_t *nbytes_ret)
{
    const struct tool_chunk *chunk = &slot->chunk;
    struct terp_container container;
    enum terp_status st;

    if (terp_container_is(chunk->bytes, chunk->nbytes)) {
        st = terp_container_read(chunk->bytes, chunk->nbytes, &container);
        if (st == TERP_OK)
            *nbytes_ret = terp_container_chunk_nbytes(&container);
    } else {
        st = terp_decoded_nbytes(chunk->bytes, chunk->nbytes, nbytes_ret);
    }
    return st == TERP_OK && !tool_stream_fits(slot->dataset, *nbytes_ret)
               ? TERP_ERR_CORRUPT
               : st;
}

/* Whether each member of a container in a dataset of numbers has their type.
 * The decoder compares the members of compound values with the dataset. */
static bool
has_numbers_of(const struct tool_dataset *dataset,
               const struct terp_container *container)
{
    const struct terp_chunk *chunk = &dataset->cd.chunk;
    struct terp_container_walk walk = {.next = 0};
    struct terp_chunk member;

    while (terp_container_next(container, &walk))
        if (terp_decoded_chunk(walk.stream, walk.stream_nbytes, &member) ==
                TERP_OK &&
            (member.type != chunk->type ||
             member.big_endian != chunk->big_endian))
            return false;
    return true;
}

/* Decodes a container whose head was read. */
static enum terp_status
decode_members(struct slot *slot)
{
    const struct terp_run_options options = {.nthreads = slot->nthreads};
    const struct terp_cd *cd = &slot->dataset->cd;
    struct terp_container container;
    struct terp_run run;
    enum terp_status st =
        terp_container_read(slot->chunk.bytes, slot->chunk.nbytes, &container);

    if (st == TERP_OK && cd->persisted && cd->pass == TERP_PASS_NONE &&
        !has_numbers_of(slot->dataset, &container))
        st = TERP_ERR_CORRUPT;
    if (st == TERP_OK)
        st = terp_run_begin(&options, NULL, &run);
    if (st != TERP_OK)
        return st;
    st = terp_container_decode(
        &run, &container,
        cd->pass == TERP_PASS_BY_MEMBER ? &cd->compound : NULL, slot->values);
    return terp_run_end(&run, st, NULL);
}

static enum terp_status
decode(struct slot *slot)
{
    const struct tool_chunk *chunk = &slot->chunk;
    uint64_t nbytes;
    enum terp_status st = read_size(slot, &nbytes);

    if (st != TERP_OK)
        return st;
    st = terp_budget_check(nbytes);
    if (st != TERP_OK)
        return st;
    if (!reserve_values(slot, nbytes))
        return TERP_ERR_MEMORY;
    if (terp_container_is(chunk->bytes, chunk->nbytes))
        return decode_members(slot);
    return terp_decode(chunk->bytes, chunk->nbytes, slot->values,
                       slot->values_cap_nbytes, &nbytes, slot->nthreads);
}

static void
check_stream(void *arg, struct tool_work *work)
{
    struct slot *slot = (struct slot *)work;

    (void)arg;
    if (slot->kind != TOOL_CHECK_UNTRIED ||
        slot->chunk.kind != TOOL_CHUNK_STREAM)
        return;
    const enum terp_status st = decode(slot);
    if (st == TERP_OK)
        slot->kind = TOOL_CHECK_WHOLE;
    else if (st == TERP_ERR_MEMORY || st == TERP_ERR_LIMIT)
        set_reason(slot, terp_status_text(st));
    else
        set_damage(slot, terp_status_text(st));
}

/* Upper limit, in chunks, of the memory that one call of the codec takes
 * (h5tests/codec/test_limit.c). Less memory than this may explain a failure. */
#define MAX_WORKING_NCHUNKS 40

/* Typical memory, in chunks, for decoding a chunk, including values and stream.
 * It decides how many chunks are decoded at once. */
#define DECODING_NCHUNKS 4

/* HDF5 from 1.14.5 on, before 2.2, drops the error messages of filters. */
static bool
hdf5_keeps_errors(void)
{
    unsigned major, minor, release;

    return H5get_libversion(&major, &minor, &release) >= 0 &&
           (major < 2 ? major * 10000 + minor * 100 + release < 11405
                      : major > 2 || minor >= 2);
}

/* Why a chunk that HDF5 could not read may be undamaged: memory was too short,
 * as HDF5 reports (`lacks`) or cannot report. NULL if memory sufficed. A
 * doubtful case counts as a lack of memory: a verdict of damage is final. */
static const char *
lack_of(struct slot *slot, bool lacks)
{
    const struct tool_dataset *dataset = slot->dataset;
    const bool knows = hdf5_keeps_errors();
    const bool is_limited =
        dataset->has_terp &&
        (dataset->chunk_nbytes > UINT64_MAX / MAX_WORKING_NCHUNKS ||
         terp_budget_check(MAX_WORKING_NCHUNKS * dataset->chunk_nbytes) !=
             TERP_OK);

    if ((lacks || !knows) && is_limited)
        return terp_status_text(TERP_ERR_LIMIT);
    return lacks || (!knows && !reserve_values(slot, dataset->chunk_nbytes))
               ? terp_status_text(TERP_ERR_MEMORY)
               : NULL;
}

/* HDF5 reads and checks the whole chunk to get its first value. A readable
 * chunk is of kind `whole`. */
static void
check_by_hdf5(struct slot *slot, enum tool_check_kind whole)
{
    const struct tool_dataset *dataset = slot->dataset;
    struct tool_grid first = slot->box;
    const hsize_t one = 1;

    if (!reserve_values(slot, dataset->value_nbytes)) {
        slot->kind = TOOL_CHECK_UNTRIED;
        set_reason(slot, terp_status_text(TERP_ERR_MEMORY));
        return;
    }
    for (int i = 0; i < first.rank; i++)
        first.count[i] = 1;
    if (!tool_box_read(dataset, dataset->type, &first, NULL, slot->values)) {
        tool_hdf5_reason(slot->reason, sizeof slot->reason);
        const char *lack = lack_of(slot, tool_hdf5_lacks_memory());
        slot->kind = lack != NULL ? TOOL_CHECK_UNTRIED : TOOL_CHECK_DAMAGED;
        if (lack != NULL)
            set_reason(slot, lack);
        return;
    }
    slot->kind = whole;
    hid_t space = H5Screate_simple(1, &one, NULL);
    H5Dvlen_reclaim(dataset->type, space, H5P_DEFAULT, slot->values);
    H5Sclose(space);
}

/* Reads the chunk at slot->box. A stream stays TOOL_CHECK_UNTRIED until a
 * worker decodes it. HDF5, which admits one thread, checks chunks that have its
 * checksum or are behind another filter. */
static void
read_chunk(const struct tool_checker *checker, struct slot *slot,
           bool has_filters)
{
    const struct tool_dataset *dataset = slot->dataset;
    struct tool_chunk *chunk = &slot->chunk;
    enum terp_status st = TERP_OK;
    uint64_t nbytes;

    tool_chunk_read(dataset, &slot->box, chunk);
    if (chunk->kind == TOOL_CHUNK_STREAM)
        st = read_size(slot, &nbytes);
    const bool by_hdf5 =
        has_filters && (chunk->kind == TOOL_CHUNK_HIDDEN ||
                        (dataset->fletcher_mask & ~chunk->unused_mask) != 0);
    if (chunk->kind == TOOL_CHUNK_UNREADABLE)
        set_damage(slot, "its bytes cannot be read");
    else if (chunk->kind == TOOL_CHUNK_MISFIT)
        set_damage(slot, "it holds a chunk of another size");
    else if (st != TERP_OK)
        set_damage(slot, terp_status_text(st));
    else if (chunk->kind == TOOL_CHUNK_ABSENT)
        slot->kind = TOOL_CHECK_ABSENT;
    else if (by_hdf5)
        check_by_hdf5(slot, TOOL_CHECK_WHOLE);
    else if (chunk->kind == TOOL_CHUNK_STREAM)
        slot->kind = TOOL_CHECK_UNTRIED;
    else if (has_filters && checker->rest == TOOL_CHECK_READS_REST)
        check_by_hdf5(slot, TOOL_CHECK_UNCHECKED);
    else
        slot->kind = TOOL_CHECK_UNCHECKED;
}

static void
finish_chunk(struct tool_checker *checker, struct slot *slot,
             tool_check_report *report, void *context)
{
    tool_workers_await(checker->workers, &slot->work);
    report(context, &slot->box, slot->kind,
           slot->kind == TOOL_CHECK_DAMAGED || slot->kind == TOOL_CHECK_UNTRIED
               ? slot->reason
               : NULL);
}

/* The number of chunks that may be decoded at once within TERP_MAX_MEMORY. At
 * least 1; then this chunk has all of it. */
static uint64_t
count_fitting(const struct tool_dataset *dataset)
{
    uint64_t limit_nbytes;

    (void)terp_budget_limit(&limit_nbytes);
    const uint64_t n = limit_nbytes / DECODING_NCHUNKS / dataset->chunk_nbytes;
    return n > 0 ? n : 1;
}

/* Chunks use the slots in turn. If there are fewer chunks than threads, several
 * threads decode each chunk. */
uint64_t
tool_check_chunks(struct tool_checker *checker,
                  const struct tool_dataset *dataset, tool_check_report *report,
                  void *context)
{
    struct tool_grid grid = tool_grid_of(dataset, dataset->chunk_dims);
    const bool has_filters = tool_has_filters(dataset);
    const uint64_t nthreads =
        checker->nthreads > 0 ? (uint64_t)checker->nthreads : 1;
    const uint64_t nslots = min_u64(checker->nslots, count_fitting(dataset));
    uint64_t ngiven = 0, ndone = 0;

    if (!dataset->chunked)
        return 0;
    struct tool_stored stored = tool_stored_find(dataset);
    const uint64_t nabsent = tool_stored_nabsent(&stored);
    const uint64_t nchunks = stored.nchunks - nabsent;
    for (; tool_stored_next(&stored, &grid); ngiven++) {
        struct slot *slot = &checker->slots[ngiven % nslots];
        if (ngiven - ndone == nslots)
            finish_chunk(checker, &checker->slots[ndone++ % nslots], report,
                         context);
        slot->box = grid;
        slot->dataset = dataset;
        slot->nthreads =
            (int)(nthreads / min_u64(nthreads, min_u64(nchunks, nslots)));
        read_chunk(checker, slot, has_filters);
        tool_workers_give(checker->workers, &slot->work);
    }
    for (; ndone < ngiven; ndone++)
        finish_chunk(checker, &checker->slots[ndone % nslots], report, context);
    tool_stored_free(&stored);
    return nabsent;
}

/* The extra slot is for the chunk that is read while all threads decode. */
struct tool_checker *
tool_checker_start(int nthreads, enum tool_check_rest rest)
{
    struct tool_checker *checker = calloc(1, sizeof *checker);

    if (checker == NULL)
        return NULL;
    checker->nthreads = nthreads;
    checker->rest = rest;
    checker->nslots = (uint64_t)nthreads + 1;
    checker->slots = calloc(checker->nslots, sizeof *checker->slots);
    checker->workers = tool_workers_start(nthreads, check_stream, NULL);
    if (checker->slots == NULL || checker->workers == NULL) {
        tool_checker_end(checker);
        return NULL;
    }
    return checker;
}

void
tool_checker_end(struct tool_checker *checker)
{
    if (checker == NULL)
        return;
    tool_workers_end(checker->workers);
    for (uint64_t i = 0; checker->slots != NULL && i < checker->nslots; i++) {
        tool_chunk_free(&checker->slots[i].chunk);
        free(checker->slots[i].values);
    }
    free(checker->slots);
    free(checker);
}
