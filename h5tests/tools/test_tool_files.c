/* Writes an HDF5 file for h5tests/tools/test_tool.py:
 *
 *   test_tool_files FILE INSTRUCTION...
 *
 *   "new PATH TYPE DIMS CHUNK FILTERS EDITS"  creates a dataset
 *   "flip PATH BYTE"  damages a byte of the dataset's first stored chunk
 *   "plain PATH"      stores its first chunk without filters
 *
 * TYPE is f32, f64, f64be, i32 or text; DIMS 20x10, scalar or null; CHUNK like
 * DIMS, or -; FILTERS such as terp=2,1,3+fletcher32+gzip+fill=-1, or
 * terp?=2,1,3+nbit (an optional filter), or -; EDITS
 * such as 7=nan,9=-0.0 (value 7, value 9), maps=64@100 (unrelated maps of 64x64
 * values from value 100 on), all=7 (every value), decades=4@-8 (from 1e-8 on,
 * four values a decade), or only=N (writes only the first N values of a 1-D
 * dataset), or -. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "filter/plugin/h5z_terp.h"

enum {
    MAX_RANK = 8,
    MAX_NVALUES = 1 << 16,
    MAX_NWORDS = 32
};

static double values[MAX_NVALUES];

static _Noreturn void
fail(const char *what)
{
    fprintf(stderr, "test_tool_files: failed: %s\n", what);
    exit(1);
}

static hid_t
need(long long id, const char *what)
{
    if (id < 0)
        fail(what);
    return (hid_t)id;
}
#define NEED(call) need(call, #call)

static int
parse_dims(const char *text, hsize_t dims[MAX_RANK])
{
    int rank = 0;
    char *end;
    for (; rank < MAX_RANK; text = end + 1) {
        dims[rank++] = strtoull(text, &end, 10);
        if (*end != 'x')
            break;
    }
    return rank;
}

static hid_t
type_of(const char *name)
{
    if (strcmp(name, "f32") == 0)
        return H5Tcopy(H5T_IEEE_F32LE);
    if (strcmp(name, "f64") == 0)
        return H5Tcopy(H5T_IEEE_F64LE);
    if (strcmp(name, "f64be") == 0)
        return H5Tcopy(H5T_IEEE_F64BE);
    if (strcmp(name, "i32") == 0)
        return H5Tcopy(H5T_STD_I32LE);
    hid_t text = H5Tcopy(H5T_C_S1);
    NEED(H5Tset_size(text, H5T_VARIABLE));
    return text;
}

static void
add_filter(hid_t dcpl, char *filter)
{
    char *argument = strchr(filter, '=');
    unsigned words[MAX_NWORDS];
    size_t nwords = 0;

    if (strcmp(filter, "fletcher32") == 0) {
        NEED(H5Pset_fletcher32(dcpl));
    } else if (strcmp(filter, "gzip") == 0) {
        NEED(H5Pset_deflate(dcpl, 1));
    } else if (strcmp(filter, "nbit") == 0) {
        NEED(H5Pset_nbit(dcpl));
    } else if (strncmp(filter, "fill=", 5) == 0) {
        double fill = strtod(argument + 1, NULL);
        NEED(H5Pset_fill_value(dcpl, H5T_NATIVE_DOUBLE, &fill));
    } else if (strncmp(filter, "terp=", 5) == 0 ||
               strncmp(filter, "terp?=", 6) == 0) {
        do
            words[nwords++] = (unsigned)strtoul(argument + 1, &argument, 10);
        while (*argument == ',' && nwords < MAX_NWORDS);
        NEED(H5Pset_filter(dcpl, H5Z_FILTER_TERP,
                           filter[4] == '?' ? H5Z_FLAG_OPTIONAL
                                            : H5Z_FLAG_MANDATORY,
                           nwords, words));
    } else {
        fail(filter);
    }
}

/* Smooth maps of width x width values from a value on, each with its own
 * waves. */
static void
make_maps(unsigned long width, unsigned long at)
{
    for (unsigned long i = 0; at + i < MAX_NVALUES; i++) {
        unsigned long map = i / width / width;
        double x = (double)(i % width), y = (double)(i / width % width);
        double turn = 2.4 * (double)map; /* nearly the golden angle */
        values[at + i] = sin(0.11 * x + turn) * cos(0.07 * y + turn * turn) +
                         cos((double)(map * map));
    }
}

/* Fills `values`. Returns how many of them to write, 0 for all. */
static hsize_t
make_values(char *edits)
{
    char *rest = NULL;

    for (int i = 0; i < MAX_NVALUES; i++)
        values[i] = sin(i * 0.01) + 0.3 * cos(i * 0.002);
    for (char *edit = strtok_r(edits, ",", &rest); edit != NULL;
         edit = strtok_r(NULL, ",", &rest)) {
        if (strncmp(edit, "only=", 5) == 0)
            return strtoull(edit + 5, NULL, 10);
        char *value = strchr(edit, '=');
        unsigned long width, at;
        double number, first;
        if (sscanf(edit, "maps=%lu@%lu", &width, &at) == 2)
            make_maps(width, at);
        else if (sscanf(edit, "all=%lf", &number) == 1)
            for (int i = 0; i < MAX_NVALUES; i++)
                values[i] = number;
        else if (sscanf(edit, "decades=%lf@%lf", &number, &first) == 2)
            for (int i = 0; i < MAX_NVALUES; i++)
                values[i] = pow(10, i / number + first);
        else if (value != NULL)
            values[strtoul(edit, NULL, 10)] = strtod(value + 1, NULL);
    }
    return 0;
}

static void
create_dataset(hid_t file, char *words)
{
    char path[256], type_name[16], dims_text[64], chunk_text[64];
    char filters[256], edits[256], *rest = NULL;
    hsize_t dims[MAX_RANK], chunk[MAX_RANK], start = 0;

    if (sscanf(words, "%255s %15s %63s %63s %255s %255s", path, type_name,
               dims_text, chunk_text, filters, edits) != 6)
        fail(words);
    hid_t type = NEED(type_of(type_name));
    hid_t lcpl = NEED(H5Pcreate(H5P_LINK_CREATE));
    hid_t dcpl = NEED(H5Pcreate(H5P_DATASET_CREATE));
    hid_t space, in_memory = H5S_ALL;

    NEED(H5Pset_create_intermediate_group(lcpl, 1));
    if (strcmp(dims_text, "null") == 0)
        space = NEED(H5Screate(H5S_NULL));
    else if (strcmp(dims_text, "scalar") == 0)
        space = NEED(H5Screate(H5S_SCALAR));
    else
        space = NEED(H5Screate_simple(parse_dims(dims_text, dims), dims, NULL));
    if (H5Sget_simple_extent_npoints(space) > MAX_NVALUES)
        fail("no more than MAX_NVALUES values");
    if (*chunk_text != '-')
        NEED(H5Pset_chunk(dcpl, parse_dims(chunk_text, chunk), chunk));
    for (char *filter = strtok_r(filters, "+", &rest);
         filter != NULL && *filter != '-'; filter = strtok_r(NULL, "+", &rest))
        add_filter(dcpl, filter);

    hid_t dataset =
        NEED(H5Dcreate2(file, path, type, space, lcpl, dcpl, H5P_DEFAULT));
    hsize_t nwritten = make_values(edits);
    if (nwritten > 0) {
        in_memory = NEED(H5Screate_simple(1, &nwritten, NULL));
        NEED(H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &nwritten,
                                 NULL));
    }
    const char *word = "word";
    if (H5Tget_class(type) == H5T_STRING)
        NEED(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, &word));
    else
        NEED(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, in_memory, space, H5P_DEFAULT,
                      values));
    if (in_memory != H5S_ALL)
        H5Sclose(in_memory);
    H5Dclose(dataset);
    H5Sclose(space);
    H5Pclose(dcpl);
    H5Pclose(lcpl);
    H5Tclose(type);
}

static void
flip_byte(hid_t file, const char *words)
{
    static unsigned char bytes[8 * MAX_NVALUES];
    const hsize_t at[MAX_RANK] = {0};
    char path[256];
    unsigned byte;
    hsize_t nbytes;
    uint32_t mask;

    if (sscanf(words, "%255s %u", path, &byte) != 2)
        fail(words);
    hid_t dataset = NEED(H5Dopen2(file, path, H5P_DEFAULT));
    NEED(H5Dget_chunk_storage_size(dataset, at, &nbytes));
    if (nbytes > sizeof bytes || byte >= nbytes)
        fail(words);
    NEED(H5Dread_chunk(dataset, H5P_DEFAULT, at, &mask, bytes));
    bytes[byte] ^= 4;
    NEED(H5Dwrite_chunk(dataset, H5P_DEFAULT, mask, at, nbytes, bytes));
    H5Dclose(dataset);
}

/* For a 1-D dataset of float32 in this machine's byte order. */
static void
store_plain(hid_t file, const char *path)
{
    static float plain[MAX_NVALUES];
    const hsize_t at[1] = {0};
    hsize_t nvalues;
    hid_t dataset = NEED(H5Dopen2(file, path, H5P_DEFAULT));
    hid_t dcpl = NEED(H5Dget_create_plist(dataset));

    NEED(H5Pget_chunk(dcpl, 1, &nvalues));
    make_values((char[]){"-"});
    for (hsize_t i = 0; i < nvalues; i++)
        plain[i] = (float)values[i];
    NEED(H5Dwrite_chunk(dataset, H5P_DEFAULT, UINT32_MAX, at,
                        nvalues * sizeof *plain, plain));
    H5Pclose(dcpl);
    H5Dclose(dataset);
}

int
main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    hid_t file =
        NEED(H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    for (int i = 2; i < argc; i++) {
        char *rest = strchr(argv[i], ' ');
        if (rest == NULL)
            fail(argv[i]);
        *rest++ = '\0';
        if (strcmp(argv[i], "new") == 0)
            create_dataset(file, rest);
        else if (strcmp(argv[i], "flip") == 0)
            flip_byte(file, rest);
        else if (strcmp(argv[i], "plain") == 0)
            store_plain(file, rest);
        else
            fail(argv[i]);
    }
    NEED(H5Fclose(file));
    return 0;
}
