/* Encodes the chunks of a collective write, and lets HDF5 write marks. */
#include "vol/marks.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "filter/h5/batch.h"
#include "filter/plugin/call.h"
#include "filter/plugin/marks.h"
#include "vol/mapping.h"
#include "vol/plan.h"

struct vol_marks {
    struct terp_marks marks;
    struct terp_h5_block block;
    struct terp_run_options options;
    struct terp_run run;
    struct terp_h5_batch batch;
    uint8_t *values; /* [nchunks][TERP_MARK_NBYTES] */
    hid_t memory, file;
    void **stream; /* [nchunks] */
    uint64_t *stream_nbytes;
    uint64_t held_nbytes; /* of streams */
};

bool
vol_marks_are_wanted(void)
{
    const char *text = getenv("TERP_MPI_WRITES");

    return text != NULL && strcmp(text, "disjoint") == 0;
}

/* A number that other calls, of this and of other processes, hardly have. */
static uint32_t
make_name(void)
{
    static _Atomic uint32_t ncalls;
    struct timespec now = {0};

    (void)timespec_get(&now, TIME_UTC);
    const uint64_t seed =
        (uint64_t)now.tv_nsec + ((uint64_t)getpid() << 32) +
        UINT64_C(0x9e3779b97f4a7c15) * atomic_fetch_add(&ncalls, 1);
    return (uint32_t)(seed * UINT64_C(0xd1342543de82ef95) >> 32);
}

static void
say(const void *caller, const struct vol_marks *marks)
{
    struct terp_call call;

    terp_call_begin(caller, &call);
    terp_call_say(&call,
                  "connector: %u chunks were encoded ahead, and HDF5 gets none "
                  "of their values, %d threads%s",
                  marks->marks.nchunks, marks->options.nthreads,
                  marks->run.engine == TERP_ENGINE_CPU ? "" : ", CUDA");
    terp_host_close(&call.host);
}

/* ---- encoding ---- */

static bool
keep_streams(const struct vol_library *library, struct vol_marks *marks,
             uint64_t first, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t nbytes = marks->batch.stream_nbytes[i];
        void *stream = library->H5allocate_memory(nbytes, false);
        if (stream == NULL)
            return false;
        memcpy(stream, marks->batch.host_stream[i], nbytes);
        marks->stream[first + i] = stream;
        marks->stream_nbytes[first + i] = nbytes;
        marks->held_nbytes += nbytes;
    }
    return true;
}

/* Encodes all chunks, window after window. */
static bool
encode(const struct vol_library *library, struct vol_marks *marks,
       const struct terp_params *params, const void *src, uint64_t nchunks)
{
    const uint64_t cap_nbytes = vol_batches_held_cap();
    bool good = true;

    for (uint64_t first = 0, n; good && first < nchunks; first += n) {
        n = min_u64(marks->batch.cap_nchunks, nchunks - first);
        good = terp_h5_batch_encode(&marks->batch, &marks->block, params, first,
                                    n, src) == TERP_OK &&
               keep_streams(library, marks, first, n) &&
               marks->held_nbytes <= cap_nbytes;
    }
    return good;
}

/* ---- marks ---- */

/* The values of a mark in a chunk's first row; 0: the rows of some chunks are
 * shorter. */
static uint64_t
mark_nvalues(const struct terp_array *array)
{
    const int d = array->rank - 1;
    const uint64_t n = TERP_MARK_NBYTES / (uint64_t)array->value_nbytes;
    const uint64_t rest = array->dims[d] % array->chunk[d];

    return array->chunk[d] < n || (rest > 0 && rest < n) ? 0 : n;
}

/* Selects the places of the marks. */
static bool
select_marks(const struct vol_transfer *transfer, struct vol_marks *marks,
             uint64_t nchunks, uint64_t nvalues)
{
    const struct vol_library *library = transfer->dataset->library;
    const struct terp_h5_block *block = &marks->block;
    const hsize_t n = nchunks * nvalues;
    hsize_t count[H5S_MAX_RANK], mark[H5S_MAX_RANK];

    for (int d = 0; d < block->rank; d++) {
        count[d] = div_up(block->count[d], block->chunk[d]);
        mark[d] = d == block->rank - 1 ? nvalues : 1;
    }
    marks->memory = library->H5Screate_simple(1, &n, NULL);
    marks->file = vol_dataset_id(transfer->dataset, VOL_DATASET_GET_SPACE,
                                 transfer->dxpl);
    return marks->memory >= 0 && marks->file >= 0 &&
           library->H5Sselect_hyperslab(marks->file, H5S_SELECT_SET,
                                        block->offset, block->chunk, count,
                                        mark) >= 0;
}

static void
close_spaces(const struct vol_library *library, struct vol_marks *marks)
{
    if (marks->memory >= 0)
        library->H5Sclose(marks->memory);
    if (marks->file >= 0)
        library->H5Sclose(marks->file);
    marks->memory = marks->file = H5I_INVALID_HID;
}

/* Frees the memory and the spaces of marks. No mark is left. */
static void
clear(const struct vol_library *library, struct vol_marks *marks)
{
    if (marks->batch.run != NULL)
        terp_h5_batch_free(&marks->batch);
    marks->batch.run = NULL;
    if (marks->stream != NULL)
        for (uint64_t i = 0; i < marks->marks.nchunks; i++)
            if (marks->stream[i] != NULL)
                library->H5free_memory(marks->stream[i]);
    free((void *)marks->stream);
    free(marks->stream_nbytes);
    free(marks->values);
    marks->stream = NULL;
    marks->stream_nbytes = NULL;
    marks->values = NULL;
    marks->marks.nchunks = 0;
    marks->held_nbytes = 0;
    close_spaces(library, marks);
}

static bool
allocate(uint64_t nchunks, struct vol_marks *marks)
{
    marks->stream = (void **)calloc(nchunks, sizeof *marks->stream);
    marks->stream_nbytes = calloc(nchunks, sizeof *marks->stream_nbytes);
    marks->values = malloc(nchunks * TERP_MARK_NBYTES);
    return marks->stream != NULL && marks->stream_nbytes != NULL &&
           marks->values != NULL;
}

/* Makes the marks. False: HDF5 must get the values, and where it does,
 * vol_ahead_add says why. */
static bool
make(const void *caller, const struct vol_transfer *transfer,
     struct vol_marks *marks)
{
    const struct vol_library *library = transfer->dataset->library;
    struct vol_selection selection;
    const struct vol_plan *plan = vol_plan_of(caller, transfer);

    if (plan == NULL || vol_plan_block(plan, transfer, false, &marks->block,
                                       &selection) != NULL)
        return false;
    /* HDF5 must call the filter of the connector, which knows the marks. */
    if (library->H5Zregister(terp_filter_class()) < 0)
        return false;
    const uint64_t nchunks = terp_array_nchunks(&marks->block.array);
    const uint64_t nvalues = mark_nvalues(&marks->block.array);
    if (nvalues == 0 || nchunks > UINT32_MAX)
        return false;
    const uint64_t skipped_nbytes =
        selection.at * (uint64_t)marks->block.array.value_nbytes;
    struct terp_params params = terp_cd_new_params(&plan->cd);
    terp_cd_copy_fills(&plan->cd, &params);
    marks->marks.name = make_name();
    marks->marks.nchunks = (uint32_t)nchunks;
    if (!allocate(nchunks, marks))
        return false;
    for (uint64_t i = 0; i < nchunks; i++)
        terp_marks_write(&marks->marks, (uint32_t)i,
                         marks->values + i * TERP_MARK_NBYTES);
    if (!select_marks(transfer, marks, nchunks, nvalues) ||
        vol_batches_start(caller, transfer, &marks->block, &marks->options,
                          &marks->run, &marks->batch) != TERP_OK ||
        !encode(library, marks, &params,
                (const uint8_t *)transfer->src + skipped_nbytes, nchunks))
        return false;
    terp_h5_batch_free(&marks->batch);
    marks->batch.run = NULL;
    return true;
}

struct vol_marks *
vol_marks_make(const void *caller, const struct vol_transfer *transfer)
{
    struct vol_marks *marks = calloc(1, sizeof *marks);

    if (marks == NULL)
        return NULL;
    marks->memory = marks->file = H5I_INVALID_HID;
    marks->marks.replace_all = make(caller, transfer, marks);
    if (marks->marks.replace_all)
        say(caller, marks);
    else
        clear(transfer->dataset->library, marks);
    marks->marks.stream = marks->stream;
    marks->marks.stream_nbytes = marks->stream_nbytes;
    marks->marks.result = &marks->run.result;
    return marks;
}

const void *
vol_marks_values(const struct vol_marks *marks, hid_t *memory_ret,
                 hid_t *file_ret)
{
    if (marks == NULL || marks->values == NULL)
        return NULL;
    *memory_ret = marks->memory;
    *file_ret = marks->file;
    return marks->values;
}

uint64_t
vol_marks_begin(struct vol_marks *marks)
{
    if (marks == NULL)
        return 0;
    vol_mapping_begin(marks->marks.nchunks,
                      terp_array_chunk_nvalues(&marks->block.array) *
                          (uint64_t)marks->block.array.value_nbytes);
    terp_marks_offer(&marks->marks);
    return marks->held_nbytes;
}

enum vol_marked
vol_marks_end(const void *caller, const struct vol_library *library,
              bool is_written, bool is_collective, struct vol_marks *marks)
{
    enum vol_marked marked = VOL_MARKED;

    if (marks == NULL)
        return VOL_MARKED;
    terp_marks_offer(NULL);
    vol_mapping_end();
    const bool all_taken = marks->marks.ntaken == marks->marks.nchunks;
    if (is_written && marks->marks.nforeign == 0 && !all_taken &&
        !is_collective) {
        marked = VOL_UNMARKED;
    } else if (is_written && (marks->marks.nforeign > 0 || !all_taken)) {
        vol_library_push(caller, __func__, __LINE__,
                         "processes have written to the same chunk, whose "
                         "values are lost; TERP_MPI_WRITES=disjoint says that "
                         "they do not");
        marked = VOL_OVERLAPPED;
    }
    clear(library, marks);
    free(marks);
    return marked;
}
