/* How much of a thread's stack the filter and terp_h5 functions take beyond
 * HDF5's own use, which a filter that does nothing shows. */
#include <stdlib.h>
#include <string.h>

#include "filter/h5/terp_h5.h"
#include "filter/plugin/h5z_terp.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/h5_files.h"
#include "h5tests/support/painted.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* The promise of terp.h. */
#define MAX_NBYTES (16 << 10)

#define STACK_NBYTES ((uint64_t)1 << 20)

/* A filter id for tests. */
#define FILTER_NOTHING 300

static size_t
do_nothing(unsigned flags, size_t cd_nelmts, const unsigned *cd_values,
           size_t nbytes, size_t *buf_size, void **buf)
{
    (void)flags, (void)cd_nelmts, (void)cd_values, (void)buf_size, (void)buf;
    return nbytes;
}

static const H5Z_class2_t nothing = {
    H5Z_CLASS_T_VERS, FILTER_NOTHING, 1, 1, "nothing", NULL, NULL, do_nothing};

static const struct h5_shape shape = {3, {40, 41, 42}, {20, 21, 22}};

enum operation {
    CREATE,
    WRITE,
    READ,
    H5_WRITE,
    H5_READ,
    H5_READ_STRIDED,
    NOPERATIONS
};

static const char *const operation_names[NOPERATIONS] = {
    "H5Dcreate2",    "H5Dwrite",     "H5Dread",
    "terp_h5_write", "terp_h5_read", "terp_h5_read_strided"};

struct call {
    enum operation operation;
    hid_t file, dcpl, type, dataset;
    void *values;
    bool is_good;
};

static void
do_call(void *arg)
{
    struct call *call = arg;
    const struct terp_run_options options = {.size = sizeof options,
                                             .nthreads = 1};
    const hsize_t stride[] = {2, 2, 2};

    switch (call->operation) {
    case CREATE:
        call->dataset =
            h5_dataset_new(call->file, "d", call->type, &shape, call->dcpl);
        call->is_good = call->dataset >= 0;
        break;
    case WRITE:
        call->is_good = H5Dwrite(call->dataset, call->type, H5S_ALL, H5S_ALL,
                                 H5P_DEFAULT, call->values) >= 0 &&
                        H5Dflush(call->dataset) >= 0;
        break;
    case READ:
        call->is_good = H5Dread(call->dataset, call->type, H5S_ALL, H5S_ALL,
                                H5P_DEFAULT, call->values) >= 0;
        break;
    case H5_WRITE:
        call->is_good = terp_h5_write(&options, call->dataset, NULL, NULL, NULL,
                                      call->values, NULL) == TERP_OK;
        break;
    case H5_READ:
        call->is_good = terp_h5_read(&options, call->dataset, NULL, NULL,
                                     call->values, NULL) == TERP_OK;
        break;
    default:
        call->is_good =
            terp_h5_read_strided(&options, call->dataset, NULL, stride, NULL,
                                 call->values, NULL) == TERP_OK;
    }
}

/* The largest stack of each operation. */
static void
measure(hid_t type, H5Z_filter_t filter, size_t nwords, const unsigned *words,
        const void *values, uint64_t deepest[NOPERATIONS])
{
    const hid_t dcpl = h5_dcpl_new(&shape, 0, 0, NULL);
    const uint64_t nbytes = h5_shape_nvalues(&shape) * H5Tget_size(type);
    struct call call = {.file = h5_file_new(),
                        .dcpl = dcpl,
                        .type = type,
                        .values = terp_case_alloc(nbytes)};

    memcpy(call.values, values, nbytes);
    assert_true(H5Pset_filter(dcpl, filter, 0, nwords, words) >= 0);
    for (int i = 0; i < NOPERATIONS; i++) {
        if (i >= H5_WRITE && filter == FILTER_NOTHING)
            continue;
        call.operation = (enum operation)i;
        const uint64_t depth = painted_run(do_call, &call, STACK_NBYTES);
        if (!call.is_good)
            fail_msg("%s failed", operation_names[i]);
        deepest[i] = depth > deepest[i] ? depth : deepest[i];
        /* The next operation must read the chunks from the file. */
        H5Dclose(call.dataset);
        call.dataset = H5Dopen2(call.file, "d", H5P_DEFAULT);
    }
    free(call.values);
    H5Dclose(call.dataset);
    H5Fclose(call.file);
    H5Pclose(dcpl);
}

static hid_t
complex_type(void)
{
    const hid_t type = H5Tcreate(H5T_COMPOUND, 16);

    H5Tinsert(type, "r", 0, H5T_IEEE_F64LE);
    H5Tinsert(type, "i", 8, H5T_IEEE_F64LE);
    return type;
}

/* Two members, whose values are those of complex numbers. */
static hid_t
pair_type(void)
{
    const hid_t type = H5Tcreate(H5T_COMPOUND, 8);

    H5Tinsert(type, "x", 0, H5T_IEEE_F32LE);
    H5Tinsert(type, "y", 4, H5T_IEEE_F32LE);
    return type;
}

static void
filter_takes_little_of_the_stack(void **state)
{
    const unsigned words[][3] = {{1, 1, 3},  {2, 1, 4}, {3, 1, 2},
                                 {4, 60, 0}, {1, 0, 0}, {2 | 2 << 12, 1, 3}};
    const struct {
        hid_t type;
        enum terp_type of_codec;
    } types[] = {{H5T_IEEE_F32LE, TERP_FLOAT32},
                 {H5T_IEEE_F64BE, TERP_FLOAT64},
                 {H5T_STD_I32LE, TERP_INT32},
                 {complex_type(), TERP_COMPLEX128},
                 {pair_type(), TERP_COMPLEX64}};
    static const enum terp_field fields[] = {
        TERP_FIELD_SMOOTH, TERP_FIELD_ROUGH, TERP_FIELD_GAPS, TERP_FIELD_SINES,
        TERP_FIELD_MIRRORS};
    uint64_t alone[NOPERATIONS] = {0}, deepest[NOPERATIONS] = {0};
    bool is_good = true;

    (void)state;
    assert_true(H5Zregister(&nothing) >= 0);
    for (size_t t = 0; t < COUNT(types); t++)
        for (size_t f = 0; f < COUNT(fields); f++) {
            const struct terp_chunk chunk = {
                types[t].of_codec, t == 1, false, 3, {40, 41, 42}};
            uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
            terp_field_make(fields[f], &chunk, values);
            measure(types[t].type, FILTER_NOTHING, 0, NULL, values, alone);
            for (size_t w = 0; w < COUNT(words); w++)
                if (terp_case_taken(4))
                    measure(types[t].type, H5Z_FILTER_TERP, 3, words[w], values,
                            deepest);
            free(values);
        }
    for (int i = 0; i < NOPERATIONS; i++) {
        const uint64_t of_hdf5 = alone[i == H5_WRITE  ? WRITE
                                       : i > H5_WRITE ? READ
                                                      : i];
        print_message("%s: %d bytes of stack, %d without terp\n",
                      operation_names[i], (int)deepest[i], (int)of_hdf5);
        is_good &= deepest[i] <= of_hdf5 + MAX_NBYTES;
    }
    assert_true(is_good);
    H5Tclose(types[3].type);
    H5Tclose(types[4].type);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filter_takes_little_of_the_stack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
