/* Makes files, datasets and their properties for tests of the filter. */
#include "h5tests/support/h5_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "filter/plugin/h5z_terp.h"
#include "h5tests/support/cmocka_all.h"

hid_t
h5_file_new(void)
{
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);

    assert_true(H5Eset_auto2(H5E_DEFAULT, NULL, NULL) >= 0);
    assert_true(H5Pset_fapl_core(fapl, 1 << 20, 0) >= 0);
    /* Without a chunk cache, each write and read runs the filter. */
    assert_true(H5Pset_cache(fapl, 0, 0, 0, 0) >= 0);
    hid_t file = H5Fcreate("memory.h5", H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
    assert_true(file >= 0);
    H5Pclose(fapl);
    return file;
}

hsize_t
h5_shape_nvalues(const struct h5_shape *shape)
{
    hsize_t nvalues = 1;
    for (int i = 0; i < shape->rank; i++)
        nvalues *= shape->dims[i];
    return nvalues;
}

hid_t
h5_dcpl_new(const struct h5_shape *shape, unsigned flags, size_t nwords,
            const unsigned *words)
{
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);

    assert_true(H5Pset_chunk(dcpl, shape->rank, shape->chunk) >= 0);
    if (nwords > 0)
        assert_true(
            H5Pset_filter(dcpl, H5Z_FILTER_TERP, flags, nwords, words) >= 0);
    return dcpl;
}

hid_t
h5_dataset_new(hid_t file, const char *name, hid_t type,
               const struct h5_shape *shape, hid_t dcpl)
{
    hid_t space = H5Screate_simple(shape->rank, shape->dims, NULL);

    assert_true(space >= 0);
    hid_t dataset =
        H5Dcreate2(file, name, type, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    /* HDF5 prints an error for the id of a closed space, but a successful close
     * would clear the error stack. */
    if (dataset >= 0)
        H5Sclose(space);
    return dataset;
}

void
h5_write(hid_t dataset, hid_t type, const void *values)
{
    assert_true(
        H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
}

void
h5_read(hid_t dataset, hid_t type, void *values_ret)
{
    assert_true(
        H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values_ret) >= 0);
}

size_t
h5_dataset_words(hid_t dataset, unsigned *flags_ret, unsigned *words_ret)
{
    hid_t dcpl = H5Dget_create_plist(dataset);
    size_t nwords = TERP_CD_MAX_NWORDS;

    assert_true(H5Pget_filter_by_id2(dcpl, H5Z_FILTER_TERP, flags_ret, &nwords,
                                     words_ret, 0, NULL, NULL) >= 0);
    H5Pclose(dcpl);
    return nwords;
}

void
h5_dataset_cd(hid_t dataset, struct terp_cd *cd_ret)
{
    unsigned words[TERP_CD_MAX_NWORDS], flags;
    size_t nwords = h5_dataset_words(dataset, &flags, words);
    const char *reason;

    assert_int_equal(terp_cd_parse(nwords, words, cd_ret, &reason), TERP_OK);
    assert_true(cd_ret->persisted);
}

void *
h5_chunk_bytes(hid_t dataset, const hsize_t *offset, size_t *nbytes_ret,
               bool *skipped_ret)
{
    hsize_t nbytes;
    uint32_t mask;

    assert_true(H5Dget_chunk_storage_size(dataset, offset, &nbytes) >= 0);
    void *bytes = malloc(nbytes);
    assert_non_null(bytes);
    assert_true(H5Dread_chunk(dataset, H5P_DEFAULT, offset, &mask, bytes) >= 0);
    *nbytes_ret = (size_t)nbytes;
    *skipped_ret = mask != 0;
    return bytes;
}

static herr_t
append_message(unsigned n, const H5E_error2_t *error, void *text)
{
    size_t used = strlen(text);

    (void)n;
    snprintf((char *)text + used, 4096 - used, "%s\n", error->desc);
    return 0;
}

bool
h5_error_says(const char *text)
{
    char messages[4096] = "";

    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, append_message, messages);
    if (strstr(messages, text) != NULL)
        return true;
    fprintf(stderr, "\"%s\" is not said in:\n%s", text, messages);
    return false;
}
