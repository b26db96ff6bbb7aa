/* HDF5 files of each release, kept for ever. Every later plugin must read the
 * same values as the release's own plugin; a dataset has their digest as an
 * attribute.
 *
 * golden_files FILE...: tests the files. golden_files --make FILE: writes this
 * release's file, with a dataset for each type, kind of bound, pipeline and
 * predictor. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hdf5.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "filter/plugin/h5z_terp.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define DIGEST "xxh3_64"

/* The last chunks along each dimension extend beyond the dataset. */
static const hsize_t dims[] = {7, 9, 20}, chunk_dims[] = {4, 5, 16};

/* ---- reading ---- */

static int ndatasets;

static uint64_t
digest_of(hid_t dataset)
{
    hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
    const size_t nbytes =
        (size_t)H5Sget_simple_extent_npoints(space) * H5Tget_size(type);
    void *values = malloc(nbytes);

    assert_non_null(values);
    if (H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0) {
        H5Eprint2(H5E_DEFAULT, stderr);
        fail_msg("a dataset cannot be read");
    }
    const uint64_t digest = XXH3_64bits(values, nbytes);
    free(values);
    H5Sclose(space);
    H5Tclose(type);
    return digest;
}

static herr_t
check_dataset(hid_t file, const char *name, const H5L_info_t *info, void *arg)
{
    uint64_t digest = 0;
    hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
    hid_t attribute = H5Aopen(dataset, DIGEST, H5P_DEFAULT);

    (void)info;
    (void)arg;
    assert_true(H5Aread(attribute, H5T_NATIVE_UINT64, &digest) >= 0);
    if (digest_of(dataset) != digest)
        fail_msg("%s has other values", name);
    H5Aclose(attribute);
    H5Dclose(dataset);
    ndatasets++;
    return 0;
}

static char **files;

static void
every_golden_file_has_its_values(void **state)
{
    (void)state;
    for (char **path = files; *path != NULL; path++) {
        hid_t file = H5Fopen(*path, H5F_ACC_RDONLY, H5P_DEFAULT);
        if (file < 0)
            fail_msg("%s cannot be opened", *path);
        assert_true(H5Literate(file, H5_INDEX_NAME, H5_ITER_INC, NULL,
                               check_dataset, NULL) >= 0);
        H5Fclose(file);
    }
    assert_true(ndatasets > 0);
}

/* ---- making ---- */

/* A 16-bit float with so many exponent bits. */
static hid_t
half_type(size_t exponent_nbits)
{
    hid_t type = H5Tcopy(H5T_IEEE_F32LE);
    const size_t mantissa_nbits = 15 - exponent_nbits;

    if (H5Tset_fields(type, 15, mantissa_nbits, exponent_nbits, 0,
                      mantissa_nbits) < 0 ||
        H5Tset_size(type, 2) < 0 ||
        H5Tset_ebias(type, ((size_t)1 << (exponent_nbits - 1)) - 1) < 0)
        fputs("golden_files: no floats of 16 bits\n", stderr);
    return type;
}

static hid_t
complex_type(hid_t part)
{
    const size_t nbytes = H5Tget_size(part);
    hid_t type = H5Tcreate(H5T_COMPOUND, 2 * nbytes);

    H5Tinsert(type, "r", 0, part);
    H5Tinsert(type, "i", nbytes, part);
    return type;
}

static const struct {
    const char *name;
    enum terp_type type;
    bool big_endian;
} types[] = {{"float32", TERP_FLOAT32, false},
             {"float32be", TERP_FLOAT32, true},
             {"float64", TERP_FLOAT64, false},
             {"float64be", TERP_FLOAT64, true},
             {"float16", TERP_FLOAT16, false},
             {"bfloat16", TERP_BFLOAT16, false},
             {"int8", TERP_INT8, false},
             {"int16", TERP_INT16, false},
             {"int16be", TERP_INT16, true},
             {"int32", TERP_INT32, false},
             {"int64", TERP_INT64, false},
             {"uint8", TERP_UINT8, false},
             {"uint16", TERP_UINT16, false},
             {"uint32be", TERP_UINT32, true},
             {"uint64", TERP_UINT64, false},
             {"complex64", TERP_COMPLEX64, false},
             {"complex128", TERP_COMPLEX128, false}};

static hid_t
type_in_file(size_t i)
{
    const bool big_endian = types[i].big_endian;

    switch (types[i].type) {
    case TERP_FLOAT32:
        return H5Tcopy(big_endian ? H5T_IEEE_F32BE : H5T_IEEE_F32LE);
    case TERP_FLOAT64:
        return H5Tcopy(big_endian ? H5T_IEEE_F64BE : H5T_IEEE_F64LE);
    case TERP_FLOAT16:
        return half_type(5);
    case TERP_BFLOAT16:
        return half_type(8);
    case TERP_INT8:
        return H5Tcopy(H5T_STD_I8LE);
    case TERP_INT16:
        return H5Tcopy(big_endian ? H5T_STD_I16BE : H5T_STD_I16LE);
    case TERP_INT32:
        return H5Tcopy(H5T_STD_I32LE);
    case TERP_INT64:
        return H5Tcopy(H5T_STD_I64LE);
    case TERP_UINT8:
        return H5Tcopy(H5T_STD_U8LE);
    case TERP_UINT16:
        return H5Tcopy(H5T_STD_U16LE);
    case TERP_UINT32:
        return H5Tcopy(H5T_STD_U32BE);
    case TERP_UINT64:
        return H5Tcopy(H5T_STD_U64LE);
    case TERP_COMPLEX64:
        return complex_type(H5T_IEEE_F32LE);
    default:
        return complex_type(H5T_IEEE_F64LE);
    }
}

static const struct {
    const char *name;
    struct H5Z_terp_config config;
} bounds[] = {
    {"absolute", {.bound_mode = H5Z_TERP_ABSOLUTE, .bound = 2}},
    {"relative", {.bound_mode = H5Z_TERP_RELATIVE, .bound = 1e-3}},
    {"pointwise", {.bound_mode = H5Z_TERP_POINTWISE, .bound = 1e-2}},
    {"floor", {.bound_mode = H5Z_TERP_POINTWISE, .bound = 1e-2, .floor = 1e-3}},
    {"psnr", {.bound_mode = H5Z_TERP_PSNR, .bound = 60}},
    {"lossless", {.bound_mode = H5Z_TERP_ABSOLUTE, .bound = 0}},
    {"missing",
     {.bound_mode = H5Z_TERP_RELATIVE,
      .bound = 1e-3,
      .has_missing = 1,
      .missing = 0}},
    {"bricks",
     {.bound_mode = H5Z_TERP_RELATIVE,
      .bound = 1e-3,
      .nlogical = 2,
      .logical = {5, 16},
      .effort = H5Z_TERP_EFFORT_BEST}}};

/* For float32, each of these bounds also with all pipelines and predictors. */
static const struct {
    const char *name;
    unsigned pipeline, predictor;
} ways[] = {
    {"", H5Z_TERP_PIPELINE_AUTO, H5Z_TERP_PREDICTOR_AUTO},
    {" huffman spline", H5Z_TERP_PIPELINE_HUFFMAN, H5Z_TERP_PREDICTOR_SPLINE},
    {" huffman lorenzo", H5Z_TERP_PIPELINE_HUFFMAN, H5Z_TERP_PREDICTOR_LORENZO},
    {" ratio spline", H5Z_TERP_PIPELINE_RATIO, H5Z_TERP_PREDICTOR_SPLINE},
    {" ratio lorenzo", H5Z_TERP_PIPELINE_RATIO, H5Z_TERP_PREDICTOR_LORENZO},
    {" speed", H5Z_TERP_PIPELINE_SPEED, H5Z_TERP_PREDICTOR_AUTO}};

/* Reads a dataset and stores the digest of its values in an attribute. */
static bool
set_digest(hid_t file, const char *name)
{
    hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT); /* no chunk is cached */
    hid_t scalar = H5Screate(H5S_SCALAR);
    const uint64_t digest = digest_of(dataset);
    hid_t attribute = H5Acreate2(dataset, DIGEST, H5T_STD_U64LE, scalar,
                                 H5P_DEFAULT, H5P_DEFAULT);
    const bool is_set = H5Awrite(attribute, H5T_NATIVE_UINT64, &digest) >= 0;

    H5Aclose(attribute);
    H5Sclose(scalar);
    H5Dclose(dataset);
    return is_set;
}

static bool
make_dataset(hid_t file, size_t type_number, size_t bound, size_t way)
{
    const struct terp_chunk chunk = {types[type_number].type,
                                     types[type_number].big_endian,
                                     false,
                                     3,
                                     {dims[0], dims[1], dims[2]}};
    struct H5Z_terp_config config = bounds[bound].config;
    uint8_t *values = malloc(terp_chunk_nbytes(&chunk));
    hid_t type = type_in_file(type_number),
          space = H5Screate_simple(3, dims, NULL),
          dcpl = H5Pcreate(H5P_DATASET_CREATE);
    char name[64];

    config.pipeline = ways[way].pipeline;
    config.predictor = ways[way].predictor;
    snprintf(name, sizeof name, "%s %s%s", types[type_number].name,
             bounds[bound].name, ways[way].name);
    if (values == NULL)
        return false;
    terp_field_make(TERP_FIELD_ROUGH, &chunk, values);
    if (H5Pset_chunk(dcpl, 3, chunk_dims) < 0 ||
        H5Pset_terp(dcpl, &config) < 0 || H5Pset_fletcher32(dcpl) < 0)
        return false;
    hid_t dataset =
        H5Dcreate2(file, name, type, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    bool made = dataset >= 0 && H5Dwrite(dataset, type, H5S_ALL, H5S_ALL,
                                         H5P_DEFAULT, values) >= 0;
    made = made && H5Dclose(dataset) >= 0;
    made = made && set_digest(file, name);
    H5Sclose(space);
    H5Pclose(dcpl);
    H5Tclose(type);
    free(values);
    return made;
}

/* Chunks that hold containers: particles with members of several types, text
 * and padding. */
struct particle {
    float at[3];
    int16_t cell;
    char name[5];
    double energy;
};

static hid_t
particle_type(void)
{
    const hsize_t n = 3;
    hid_t type = H5Tcreate(H5T_COMPOUND, sizeof(struct particle));
    hid_t at = H5Tarray_create2(H5T_IEEE_F32LE, 1, &n);
    hid_t text = H5Tcopy(H5T_C_S1);

    if (H5Tset_size(text, 5) < 0 ||
        H5Tinsert(type, "at", offsetof(struct particle, at), at) < 0 ||
        H5Tinsert(type, "cell", offsetof(struct particle, cell),
                  H5T_STD_I16LE) < 0 ||
        H5Tinsert(type, "name", offsetof(struct particle, name), text) < 0 ||
        H5Tinsert(type, "energy", offsetof(struct particle, energy),
                  H5T_IEEE_F64LE) < 0)
        fputs("golden_files: no compound type\n", stderr);
    H5Tclose(text);
    H5Tclose(at);
    return type;
}

static void
particles_make(uint64_t n, struct particle *particles)
{
    memset(particles, 0, n * sizeof *particles);
    for (uint64_t i = 0; i < n; i++) {
        struct particle *own = &particles[i];
        const uint64_t random = terp_field_mix(i);
        for (int d = 0; d < 3; d++)
            own->at[d] = (float)(i / 16) + (float)(random >> (40 + d)) * 1e-8f;
        own->cell = (int16_t)(i / 16);
        snprintf(own->name, sizeof own->name, "p%d", (int)(random % 8));
        own->energy = (double)(random % 997) / 100;
    }
}

/* Makes a dataset of particles, lossless, or under a bound that is relative to
 * the range of each member. */
static bool
make_particles(hid_t file, const char *name, double bound)
{
    const hsize_t n = 1000, chunk = 400;
    struct H5Z_terp_config config = {
        .bound_mode = bound > 0 ? H5Z_TERP_RELATIVE : H5Z_TERP_ABSOLUTE,
        .bound = bound};
    struct particle *particles = malloc(n * sizeof *particles);
    hid_t type = particle_type(), space = H5Screate_simple(1, &n, NULL),
          dcpl = H5Pcreate(H5P_DATASET_CREATE);

    if (particles == NULL)
        return false;
    particles_make(n, particles);
    bool made =
        H5Pset_chunk(dcpl, 1, &chunk) >= 0 && H5Pset_terp(dcpl, &config) >= 0;
    hid_t dataset =
        H5Dcreate2(file, name, type, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    made = made && dataset >= 0 &&
           H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, particles) >=
               0 &&
           H5Dclose(dataset) >= 0 && set_digest(file, name);
    H5Pclose(dcpl);
    H5Sclose(space);
    H5Tclose(type);
    free(particles);
    return made;
}

static int
make(const char *path)
{
    hid_t file = H5Fcreate(path, H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT);
    bool made = file >= 0;

    for (size_t type = 0; type < COUNT(types); type++)
        for (size_t bound = 0; bound < COUNT(bounds); bound++)
            for (size_t way = 0; made && way < COUNT(ways); way++)
                if (way == 0 || types[type].type == TERP_FLOAT32)
                    made = make_dataset(file, type, bound, way);
    made = made && make_particles(file, "particles lossless", 0) &&
           make_particles(file, "particles relative", 1e-3) &&
           H5Fclose(file) >= 0;
    if (!made)
        H5Eprint2(H5E_DEFAULT, stderr);
    return made ? EXIT_SUCCESS : EXIT_FAILURE;
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_golden_file_has_its_values),
    };

    if (argc == 3 && strcmp(argv[1], "--make") == 0)
        return make(argv[2]);
    files = argv + 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
