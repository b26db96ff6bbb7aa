/* load_files [--seconds N] [--seed N] [--first N] FILE
 *
 * Writes FILE over and over: a dataset of random dims, chunks and bound through
 * the filter, and the same dataset by terp_h5_write with several threads.
 * Chunks of both must have the same bytes. HDF5 and terp_h5_read, whole and
 * strided, must read the same values within the bound from both. Exits with 1
 * if not, or if memory has grown, or if TERP_ENGINE=cuda wants a device that is
 * not used. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "filter/h5/terp_h5.h"
#include "filter/plugin/h5z_terp.h"

#include "h5tests/support/cases.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/load.h"
#include "h5tests/support/values.h"

#define MAX_NBITS 19 /* bits of the number of values */

static struct load_options options;

struct load_file {
    uint64_t number;
    struct load_random random;
    struct terp_params params;
    struct terp_chunk array; /* all values of the dataset */
    hsize_t dims[TERP_MAX_RANK], chunk[TERP_MAX_RANK];
    uint64_t nbytes;
    uint8_t *values, *read, *other;
    hid_t type, file, by_filter, by_blocks;
};

static void
need(const struct load_file *it, bool ok, const char *what)
{
    if (!ok)
        load_fail(it->number, what);
}

static void
choose(struct load_file *it, uint64_t number)
{
    struct load_random *random = &it->random;
    uint64_t dims[TERP_MAX_RANK];

    *it = (struct load_file){
        .number = number, .random = {options.seed + terp_field_mix(number), 0}};
    const int rank = (int)load_below(random, TERP_MAX_RANK) + 1;
    const bool wide = load_once_in(random, 3);
    load_dims(random, rank, load_size(random, MAX_NBITS), dims);
    it->array = terp_case_chunk(wide ? TERP_FLOAT64 : TERP_FLOAT32, rank, dims);
    it->type = wide ? H5T_IEEE_F64LE : H5T_IEEE_F32LE;
    it->nbytes = terp_chunk_nbytes(&it->array);
    for (int d = 0; d < rank; d++) {
        it->dims[d] = dims[d];
        it->chunk[d] = 1 + load_below(random, dims[d]);
        /* Limits the number of chunks to a few thousand. */
        if (it->chunk[d] * 8 < dims[d])
            it->chunk[d] = (dims[d] + 7) / 8;
    }
    it->params = (struct terp_params){
        .bound_mode = load_once_in(random, 2) ? TERP_BOUND_ABSOLUTE
                                              : TERP_BOUND_POINTWISE,
        .bound = ldexp(1, -1 - (int)load_below(random, 20))};
    it->values = terp_case_alloc(it->nbytes);
    it->read = terp_case_alloc(it->nbytes);
    it->other = terp_case_alloc(it->nbytes);
    terp_field_make((enum terp_field)load_below(random, TERP_NFIELDS),
                    &it->array, it->values);
}

static hid_t
create(const struct load_file *it, const char *name)
{
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    hid_t space = H5Screate_simple(it->array.rank, it->dims, NULL);

    need(it, H5Pset_chunk(dcpl, it->array.rank, it->chunk) >= 0, "chunks");
    need(it,
         (it->params.bound_mode == TERP_BOUND_ABSOLUTE
              ? H5Pset_terp_abs(dcpl, it->params.bound)
              : H5Pset_terp_pwr(dcpl, it->params.bound)) >= 0,
         "the filter");
    hid_t dataset = H5Dcreate2(it->file, name, it->type, space, H5P_DEFAULT,
                               dcpl, H5P_DEFAULT);
    need(it, dataset >= 0, "creating a dataset");
    H5Pclose(dcpl);
    H5Sclose(space);
    return dataset;
}

static void
write_file(struct load_file *it)
{
    const struct terp_run_options run = {
        .size = sizeof run,
        .engine = load_engine(),
        .nthreads = 1 + (int)load_below(&it->random, 4)};
    struct terp_run_result result = {.size = sizeof result};
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);

    if (load_once_in(&it->random, 2))
        H5Pset_libver_bounds(fapl, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    it->file = H5Fcreate(options.path, H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
    H5Pclose(fapl);
    need(it, it->file >= 0, "creating the file");
    it->by_filter = create(it, "filter");
    it->by_blocks = create(it, "blocks");
    need(it,
         H5Dwrite(it->by_filter, it->type, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                  it->values) >= 0,
         "H5Dwrite");
    need(it,
         terp_h5_write(&run, it->by_blocks, NULL, NULL, NULL, it->values,
                       &result) == TERP_OK,
         "terp_h5_write");
    load_note(&result);
    H5Dclose(it->by_filter);
    H5Dclose(it->by_blocks);
    need(it, H5Fclose(it->file) >= 0, "closing the file");
    it->file = H5Fopen(options.path, H5F_ACC_RDONLY, H5P_DEFAULT);
    it->by_filter = H5Dopen2(it->file, "filter", H5P_DEFAULT);
    it->by_blocks = H5Dopen2(it->file, "blocks", H5P_DEFAULT);
    need(it, it->by_filter >= 0 && it->by_blocks >= 0, "opening the file");
}

static void
compare_chunk(const struct load_file *it, const hsize_t *at)
{
    hsize_t nbytes = 0, other = 0;
    uint32_t mask, other_mask;

    need(it,
         H5Dget_chunk_storage_size(it->by_filter, at, &nbytes) >= 0 &&
             H5Dget_chunk_storage_size(it->by_blocks, at, &other) >= 0 &&
             nbytes == other && nbytes > 0,
         "a chunk has another size");
    uint8_t *bytes = terp_case_alloc(2 * nbytes);
    need(it,
         H5Dread_chunk(it->by_filter, H5P_DEFAULT, at, &mask, bytes) >= 0 &&
             H5Dread_chunk(it->by_blocks, H5P_DEFAULT, at, &other_mask,
                           bytes + nbytes) >= 0 &&
             mask == other_mask && memcmp(bytes, bytes + nbytes, nbytes) == 0,
         "a chunk has other bytes");
    free(bytes);
}

static void
compare_chunks(const struct load_file *it)
{
    hsize_t at[TERP_MAX_RANK];
    uint64_t nchunks = 1;

    for (int d = 0; d < it->array.rank; d++)
        nchunks *= (it->dims[d] + it->chunk[d] - 1) / it->chunk[d];
    for (uint64_t i = 0; i < nchunks; i++) {
        uint64_t left = i;
        for (int d = it->array.rank - 1; d >= 0; d--) {
            const uint64_t n = (it->dims[d] + it->chunk[d] - 1) / it->chunk[d];
            at[d] = left % n * it->chunk[d];
            left /= n;
        }
        compare_chunk(it, at);
    }
}

static void
read_strided(struct load_file *it, const struct terp_run_options *run)
{
    const uint64_t step = UINT64_C(1) << load_below(&it->random, 4);
    hsize_t stride[TERP_MAX_RANK], count[TERP_MAX_RANK];
    uint8_t *expected = terp_case_alloc(it->nbytes);

    for (int d = 0; d < it->array.rank; d++) {
        stride[d] = step;
        count[d] = (it->dims[d] + step - 1) / step;
    }
    const uint64_t nbytes =
        terp_case_take(&it->array, it->read, step, expected);
    need(it,
         terp_h5_read_strided(run, it->by_filter, NULL, stride, count,
                              it->other, NULL) == TERP_OK,
         "terp_h5_read_strided");
    need(it, memcmp(it->other, expected, nbytes) == 0, "other strided values");
    free(expected);
}

static void
read_file(struct load_file *it)
{
    const struct terp_run_options run = {
        .size = sizeof run,
        .engine = load_engine(),
        .nthreads = 1 + (int)load_below(&it->random, 4)};
    struct terp_run_result result = {.size = sizeof result};
    char name[64];

    need(it,
         H5Dread(it->by_blocks, it->type, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                 it->read) >= 0,
         "H5Dread");
    need(it,
         terp_h5_read(&run, it->by_filter, NULL, NULL, it->other, &result) ==
             TERP_OK,
         "terp_h5_read");
    load_note(&result);
    need(it, memcmp(it->read, it->other, it->nbytes) == 0, "other values");
    snprintf(name, sizeof name, "case %llu", (unsigned long long)it->number);
    terp_case_compare(name, &it->params, &it->array, it->values, it->read,
                      terp_case_bound(&it->params, &it->array, it->values));
    read_strided(it, &run);
}

static void *
work(void *unused)
{
    struct load_file it;

    for (uint64_t number = options.first; !load_is_over(); number++) {
        choose(&it, number);
        write_file(&it);
        compare_chunks(&it);
        read_file(&it);
        H5Dclose(it.by_filter);
        H5Dclose(it.by_blocks);
        need(&it, H5Fclose(it.file) >= 0, "closing the file");
        need(&it, H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL) == 0,
             "something is left open");
        free(it.values);
        free(it.read);
        free(it.other);
        load_count(1, it.nbytes / (uint64_t)value_nbytes(it.array.type));
    }
    remove(options.path);
    return unused;
}

int
main(int argc, char **argv)
{
    pthread_t thread;

    options = load_options_of(argc, argv);
    if (options.path == NULL || options.nthreads != 1)
        load_fail(0, "a file is needed, and one thread");
    /* Only this thread calls HDF5; the watch does not. */
    if (pthread_create(&thread, NULL, work, NULL) != 0)
        load_fail(0, "no thread");
    load_watch(&options);
    pthread_join(thread, NULL);
    if (!load_memory_is_flat())
        load_fail(0, "memory grows");
    if (!load_engine_is_used())
        load_fail(0, "no device is used");
    return 0;
}
