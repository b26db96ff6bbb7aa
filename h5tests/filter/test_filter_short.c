/* Files that try to deceive: streams of fewer values than the dataset's chunk
 * has. HDF5 would read beyond the decoded values. Also with the filter in the
 * program (TERP_LINKED), where a table replaces the loader. */
#include <stdlib.h>
#include <string.h>

#include "h5tests/support/cmocka_all.h"

#include "filter/plugin/h5z_terp.h"
#include "h5tests/support/h5_files.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct h5_shape large = {2, {64, 64}, {64, 64}};
static const struct h5_shape small = {2, {2, 2}, {2, 2}};
static const hsize_t beginning[2];

/* The bytes of a file, for the test to change. */
struct image {
    unsigned char *bytes;
    size_t nbytes;
};

static int
begin_hdf5(void **state)
{
    (void)state;
    assert_true(H5open() >= 0);
    assert_true(H5Eset_auto2(H5E_DEFAULT, NULL, NULL) >= 0);
#ifdef TERP_LINKED
    assert_true(H5Z_terp_register() >= 0);
#endif
    return 0;
}

/* Replaces the first words of the one sequence that equals `old`. */
static void
replace_words(const struct image *image, size_t nold, const unsigned *old,
              size_t nnew, const unsigned *new)
{
    size_t nfound = 0;

    for (size_t i = 0; i + nold * sizeof *old <= image->nbytes; i++)
        if (memcmp(image->bytes + i, old, nold * sizeof *old) == 0) {
            memcpy(image->bytes + i, new, nnew * sizeof *new);
            nfound++;
        }
    assert_int_equal(nfound, 1);
}

static hid_t
make_dataset(hid_t file, const char *name, const struct h5_shape *shape,
             unsigned digits)
{
    const unsigned words[] = {H5Z_TERP_ABSOLUTE, 1, digits};
    hid_t dcpl = h5_dcpl_new(shape, 0, COUNT(words), words);
    hid_t dataset = h5_dataset_new(file, name, H5T_IEEE_F32LE, shape, dcpl);

    assert_true(dataset >= 0);
    H5Pclose(dcpl);
    return dataset;
}

/* A file with a complete dataset "small" and a dataset "large" that has the
 * same chunk. With `is_lie`, the cd_values of "large" give that chunk's size;
 * else they give no size. */
static struct image
make_image(bool is_lie)
{
    static const float values[] = {3.25f, 1, 2, 3};
    unsigned flags, words[2][H5Z_TERP_MAX_NWORDS];
    const unsigned untold[] = {H5Z_TERP_ABSOLUTE};
    hid_t file = h5_file_new();
    hid_t whole = make_dataset(file, "small", &small, 3);
    hid_t other = make_dataset(file, "large", &large, 4);
    size_t stream_nbytes;
    bool skipped;

    h5_write(whole, H5T_NATIVE_FLOAT, values);
    void *stream = h5_chunk_bytes(whole, beginning, &stream_nbytes, &skipped);
    assert_true(H5Dwrite_chunk(other, H5P_DEFAULT, 0, beginning, stream_nbytes,
                               stream) >= 0);
    const size_t n = h5_dataset_words(whole, &flags, words[0]);
    assert_int_equal(h5_dataset_words(other, &flags, words[1]), n);
    free(stream);
    H5Dclose(whole);
    H5Dclose(other);
    assert_true(H5Fflush(file, H5F_SCOPE_LOCAL) >= 0);
    const ssize_t nbytes = H5Fget_file_image(file, NULL, 0);
    assert_true(nbytes > 0);
    struct image image = {malloc((size_t)nbytes), (size_t)nbytes};
    assert_non_null(image.bytes);
    assert_int_equal(H5Fget_file_image(file, image.bytes, image.nbytes),
                     nbytes);
    H5Fclose(file);
    replace_words(&image, n, words[1], is_lie ? n : 1,
                  is_lie ? words[0] : untold);
    return image;
}

static hid_t
open_image(const struct image *image)
{
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);

    assert_true(H5Pset_fapl_core(fapl, 1 << 16, 0) >= 0);
    assert_true(H5Pset_file_image(fapl, image->bytes, image->nbytes) >= 0);
    hid_t file = H5Fopen("image.h5", H5F_ACC_RDONLY, fapl);
    assert_true(file >= 0);
    H5Pclose(fapl);
    return file;
}

static void
check_whole(hid_t file)
{
    float values[4];
    hid_t dataset = H5Dopen2(file, "small", H5P_DEFAULT);

    h5_read(dataset, H5T_NATIVE_FLOAT, values);
    assert_true(values[0] >= 3.24f && values[0] <= 3.26f);
    H5Dclose(dataset);
}

static void
check_refused(hid_t file)
{
    float *values = calloc(h5_shape_nvalues(&large), sizeof *values);
    hid_t dataset = H5Dopen2(file, "large", H5P_DEFAULT);

    assert_true(dataset >= 0);
    assert_true(H5Dread(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL,
                        H5P_DEFAULT, values) < 0);
    assert_true(h5_error_says("16 bytes where 16384 are expected"));
    H5Dclose(dataset);
    free(values);
}

static void
check_image(bool is_lie)
{
    const struct image image = make_image(is_lie);
    hid_t file = open_image(&image);

    check_refused(file);
    check_whole(file);
    check_refused(file);
    H5Fclose(file);
    free(image.bytes);
}

static void
chunk_is_refused_where_words_tell_nothing(void **state)
{
    (void)state;
    check_image(false);
}

static void
chunk_is_refused_where_words_tell_its_size(void **state)
{
    (void)state;
    check_image(true);
}

/* HDF5 then numbers datasets from the beginning. */
static void
chunk_is_refused_after_hdf5_was_closed(void **state)
{
    const struct image image = make_image(true);

    for (int i = 0; i < 2; i++) {
        assert_true(H5close() >= 0);
        (void)begin_hdf5(state);
        hid_t file = open_image(&image);
        if (i == 0)
            check_whole(file);
        else
            check_refused(file);
        H5Fclose(file);
    }
    free(image.bytes);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunk_is_refused_where_words_tell_nothing),
        cmocka_unit_test(chunk_is_refused_where_words_tell_its_size),
        cmocka_unit_test(chunk_is_refused_after_hdf5_was_closed),
    };
    return cmocka_run_group_tests(tests, begin_hdf5, NULL);
}
