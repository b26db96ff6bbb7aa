/* What HDF5 reads from floating-point datasets that terp has written. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "filter/plugin/h5z_terp.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/h5_files.h"
#include "h5tests/support/values.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static hid_t file;

static int
open_file(void **state)
{
    (void)state;
    file = h5_file_new();
    return 0;
}

static int
close_file(void **state)
{
    (void)state;
    return H5Fclose(file) < 0;
}

static double *
values_new(size_t nvalues)
{
    double *values = calloc(nvalues, sizeof *values);
    assert_non_null(values);
    return values;
}

/* A smooth field of float32 values, as doubles, in [0, 4]. */
static double *
smooth_new(const struct h5_shape *shape)
{
    size_t nvalues = (size_t)h5_shape_nvalues(shape);
    double *values = values_new(nvalues);

    for (size_t i = 0; i < nvalues; i++) {
        size_t left = i;
        double value = 0;
        for (int d = shape->rank - 1; d >= 0; d--) {
            double x = (double)(left % shape->dims[d]) / 16 - 1;
            value += x * x / (1 + x * x);
            left /= (size_t)shape->dims[d];
        }
        values[i] = (float)value;
    }
    return values;
}

/* The same bits, or a finite value within the bound of a finite one. */
static void
check_values(const double *want, const double *got, size_t nvalues,
             double bound)
{
    for (size_t i = 0; i < nvalues; i++) {
        if (double_bits(want[i]) == double_bits(got[i]))
            continue;
        assert_true(isfinite(want[i]) && isfinite(got[i]));
        assert_true(is_within(want[i], got[i], bound));
    }
}

static hid_t
create_abs(const char *name, hid_t type, const struct h5_shape *shape,
           double bound)
{
    hid_t dcpl = h5_dcpl_new(shape, 0, 0, NULL);

    assert_true((bound == 0 ? H5Pset_terp_lossless(dcpl)
                            : H5Pset_terp_abs(dcpl, bound)) >= 0);
    hid_t dataset = h5_dataset_new(file, name, type, shape, dcpl);
    assert_true(dataset >= 0);
    H5Pclose(dcpl);
    return dataset;
}

/* `type` is that of the file. The program writes and reads doubles. */
static void
each_rank_type_and_order_keeps_the_bound(void **state)
{
    static const struct h5_shape shapes[] = {
        {1, {1}, {1}},
        {1, {5000}, {1024}},
        {2, {70, 90}, {32, 64}},
        {3, {40, 41, 42}, {16, 32, 42}},
        {4, {3, 20, 18, 22}, {2, 16, 16, 16}},
        {5, {2, 3, 20, 18, 22}, {1, 2, 16, 16, 16}},
    };
    const hid_t types[] = {H5T_IEEE_F32LE, H5T_IEEE_F32BE, H5T_IEEE_F64LE,
                           H5T_IEEE_F64BE};
    const double bound = 1e-3;
    char name[32];

    (void)state;
    for (size_t s = 0; s < COUNT(shapes); s++) {
        size_t nvalues = (size_t)h5_shape_nvalues(&shapes[s]);
        double *want = smooth_new(&shapes[s]), *got = values_new(nvalues);
        for (size_t t = 0; t < COUNT(types); t++) {
            struct terp_cd cd;
            snprintf(name, sizeof name, "%zu %zu", s, t);
            hid_t dataset = create_abs(name, types[t], &shapes[s], bound);
            h5_write(dataset, H5T_NATIVE_DOUBLE, want);
            h5_read(dataset, H5T_NATIVE_DOUBLE, got);
            check_values(want, got, nvalues, bound);
            h5_dataset_cd(dataset, &cd);
            assert_int_equal(cd.pass, TERP_PASS_NONE);
            assert_int_equal(cd.chunk.type,
                             t < 2 ? TERP_FLOAT32 : TERP_FLOAT64);
            assert_int_equal(cd.chunk.big_endian, t % 2);
            H5Dclose(dataset);
        }
        free(want);
        free(got);
    }
}

/* From 1e-30 to 1e30, with both signs, and zeros. */
static double *
magnitudes_new(size_t nvalues)
{
    double *values = values_new(nvalues);

    for (size_t i = 0; i < nvalues; i++) {
        double value = 1 + (double)(i % 17) / 16;
        for (size_t n = i % 199; n > 100; n--)
            value *= 2;
        for (size_t n = i % 199; n < 100; n++)
            value /= 2;
        values[i] = i % 31 == 0        ? 0
                    : i / 100 % 3 == 0 ? -(float)value
                                       : (float)value;
    }
    return values;
}

static void
pointwise_bound_is_of_each_value(void **state)
{
    static const struct h5_shape shape = {3, {40, 41, 42}, {16, 32, 42}};
    const hid_t types[] = {H5T_IEEE_F32LE, H5T_IEEE_F32BE, H5T_IEEE_F64LE,
                           H5T_IEEE_F64BE};
    const double bounds[] = {1e-2, 1e-6};
    size_t nvalues = (size_t)h5_shape_nvalues(&shape);
    double *want = magnitudes_new(nvalues), *got = values_new(nvalues);

    (void)state;
    for (size_t t = 0; t < 2 * COUNT(types); t++) {
        const double bound = bounds[t / COUNT(types)];
        const hid_t type = types[t % COUNT(types)];
        hid_t dcpl = h5_dcpl_new(&shape, 0, 0, NULL);
        struct terp_cd cd;
        char name[32];
        snprintf(name, sizeof name, "pointwise %zu", t);
        assert_true(H5Pset_terp_pwr(dcpl, bound) >= 0);
        hid_t dataset = h5_dataset_new(file, name, type, &shape, dcpl);
        h5_write(dataset, H5T_NATIVE_DOUBLE, want);
        h5_read(dataset, H5T_NATIVE_DOUBLE, got);
        for (size_t i = 0; i < nvalues; i++)
            assert_true(is_within_pointwise(want[i], got[i], bound));
        h5_dataset_cd(dataset, &cd);
        assert_int_equal(cd.params.bound_mode, TERP_BOUND_POINTWISE);
        assert_true(cd.params.bound == bound);
        H5Dclose(dataset);
        H5Pclose(dcpl);
    }
    free(want);
    free(got);
}

static void
psnr_is_that_of_each_chunk(void **state)
{
    static const struct h5_shape shape = {3, {40, 41, 42}, {40, 41, 42}};
    size_t nvalues = (size_t)h5_shape_nvalues(&shape);
    double *want = magnitudes_new(nvalues), *got = values_new(nvalues);
    double min = want[0], max = want[0], squares = 0;
    hid_t dcpl = h5_dcpl_new(&shape, 0, 0, NULL);
    struct terp_cd cd;

    (void)state;
    assert_true(H5Pset_terp_psnr(dcpl, 60) >= 0);
    hid_t dataset = h5_dataset_new(file, "psnr", H5T_IEEE_F64LE, &shape, dcpl);
    h5_write(dataset, H5T_NATIVE_DOUBLE, want);
    h5_read(dataset, H5T_NATIVE_DOUBLE, got);
    for (size_t i = 0; i < nvalues; i++) {
        min = want[i] < min ? want[i] : min;
        max = want[i] > max ? want[i] : max;
        squares += (want[i] - got[i]) * (want[i] - got[i]);
    }
    const double psnr =
        20 * log10((max - min) / sqrt(squares / (double)nvalues));
    assert_true(psnr >= 60 && psnr < 61);
    h5_dataset_cd(dataset, &cd);
    assert_int_equal(cd.params.bound_mode, TERP_BOUND_PSNR);
    assert_true(cd.params.bound == 60);
    H5Dclose(dataset);
    H5Pclose(dcpl);
    free(want);
    free(got);
}

/* The meaning that netCDF's quantize gives them. */
static void
digits_and_bits_are_pointwise_bounds(void **state)
{
    static const double of_digits[] = {5e-2,  5e-3,  5e-4,  5e-5,  5e-6,
                                       5e-7,  5e-8,  5e-9,  5e-10, 5e-11,
                                       5e-12, 5e-13, 5e-14, 5e-15, 5e-16};
    static const struct h5_shape shape = {1, {64}, {64}};
    double values[64];
    hid_t dcpl = h5_dcpl_new(&shape, 0, 0, NULL);

    (void)state;
    for (unsigned i = 0; i < COUNT(of_digits); i++)
        assert_true(H5Z_terp_bound_of_digits(i + 1) == of_digits[i]);
    assert_true(H5Z_terp_bound_of_bits(1) == 0.25);
    assert_true(H5Z_terp_bound_of_bits(52) == 0x1p-53);
    assert_true(H5Z_terp_bound_of_digits(0) == 0);
    assert_true(H5Z_terp_bound_of_digits(16) == 0);
    assert_true(H5Z_terp_bound_of_bits(0) == 0);
    assert_true(H5Z_terp_bound_of_bits(53) == 0);

    assert_true(H5Pset_terp_digits(dcpl, 3) >= 0);
    hid_t dataset =
        h5_dataset_new(file, "digits", H5T_IEEE_F64LE, &shape, dcpl);
    for (int i = 0; i < 64; i++)
        values[i] = 9.87654321 - i * 0.137;
    h5_write(dataset, H5T_NATIVE_DOUBLE, values);
    h5_read(dataset, H5T_NATIVE_DOUBLE, values);
    for (int i = 0; i < 64; i++)
        assert_true(
            is_within_pointwise(9.87654321 - i * 0.137, values[i], 5e-4));
    H5Dclose(dataset);
    H5Pclose(dcpl);
}

static void
pointwise_bound_has_a_floor(void **state)
{
    static const struct h5_shape shape = {3, {40, 41, 42}, {16, 32, 42}};
    const double bound = 1e-3, floor = 1e-5;
    size_t nvalues = (size_t)h5_shape_nvalues(&shape);
    double *want = magnitudes_new(nvalues), *got = values_new(nvalues);
    hid_t dcpl = h5_dcpl_new(&shape, 0, 0, NULL);
    struct terp_cd cd;

    (void)state;
    assert_true(H5Pset_terp_pwr_floor(dcpl, bound, floor) >= 0);
    hid_t dataset = h5_dataset_new(file, "floor", H5T_IEEE_F64LE, &shape, dcpl);
    h5_write(dataset, H5T_NATIVE_DOUBLE, want);
    h5_read(dataset, H5T_NATIVE_DOUBLE, got);
    for (size_t i = 0; i < nvalues; i++)
        assert_true(is_within(want[i], got[i], floor) ||
                    is_within_pointwise(want[i], got[i], bound));
    h5_dataset_cd(dataset, &cd);
    assert_int_equal(cd.params.bound_mode, TERP_BOUND_POINTWISE);
    assert_true(cd.params.bound == bound && cd.params.floor == floor);
    H5Dclose(dataset);
    H5Pclose(dcpl);
    free(want);
    free(got);
}

static void
special_values_come_back_bit_for_bit(void **state)
{
    static const struct h5_shape shape = {3, {32, 32, 32}, {32, 32, 32}};
    const hid_t types[] = {H5T_IEEE_F64LE, H5T_IEEE_F64BE};
    const double payload = double_of_bits(UINT64_C(0xFFF8000000ABCDEF));
    const double specials[] = {payload, NAN, INFINITY, -INFINITY, -0.0, 0.0};
    size_t nvalues = (size_t)h5_shape_nvalues(&shape);

    (void)state;
    for (size_t t = 0; t < COUNT(types); t++) {
        double *want = smooth_new(&shape), *got = values_new(nvalues);
        for (size_t i = 0; i < nvalues; i += 7)
            want[i] = specials[i / 7 % COUNT(specials)];
        hid_t dataset =
            create_abs(t == 0 ? "le" : "be", types[t], &shape, 1e-2);
        h5_write(dataset, H5T_NATIVE_DOUBLE, want);
        h5_read(dataset, H5T_NATIVE_DOUBLE, got);
        check_values(want, got, nvalues, 1e-2);
        for (size_t i = 0; i < nvalues; i += 7)
            if (specials[i / 7 % COUNT(specials)] != 0)
                assert_true(double_bits(want[i]) == double_bits(got[i]));
        H5Dclose(dataset);
        free(want);
        free(got);
    }
}

static void
absolute_bound_of_nothing_brings_every_bit_back(void **state)
{
    static const struct h5_shape shape = {2, {50, 60}, {32, 40}};
    const hid_t types[] = {H5T_IEEE_F64LE, H5T_IEEE_F64BE};
    const double payload = double_of_bits(UINT64_C(0x7FF8000000ABCDEF));
    const double odd[] = {payload, -INFINITY, -0.0, 0x1p-1074, 1e308, 0.1};
    size_t nvalues = (size_t)h5_shape_nvalues(&shape);
    double *want = smooth_new(&shape), *got = values_new(nvalues);

    (void)state;
    for (size_t i = 0; i < nvalues; i += 7)
        want[i] = odd[i / 7 % COUNT(odd)];
    for (size_t t = 0; t < COUNT(types); t++) {
        struct terp_cd cd;
        hid_t dataset = create_abs(t == 0 ? "lossless" : "lossless, swapped",
                                   types[t], &shape, 0);
        h5_dataset_cd(dataset, &cd);
        assert_int_equal(cd.pass, TERP_PASS_NONE);
        assert_true(cd.params.bound == 0);
        h5_write(dataset, H5T_NATIVE_DOUBLE, want);
        H5Dclose(dataset);
        dataset = H5Dopen2(file, t == 0 ? "lossless" : "lossless, swapped",
                           H5P_DEFAULT);
        memset(got, 0, nvalues * sizeof *got);
        h5_read(dataset, H5T_NATIVE_DOUBLE, got);
        assert_memory_equal(want, got, nvalues * sizeof *got);
        assert_true(H5Dget_storage_size(dataset) < nvalues * sizeof *got);
        H5Dclose(dataset);
    }
    free(want);
    free(got);
}

static void
relative_bound_is_of_each_chunks_range(void **state)
{
    static const struct h5_shape shape = {1, {8192}, {4096}};
    size_t nvalues = (size_t)h5_shape_nvalues(&shape);
    double *want = values_new(nvalues), *got = values_new(nvalues);
    hid_t dcpl = h5_dcpl_new(&shape, 0, 0, NULL);

    (void)state;
    /* Chunks with ranges of 1 and of 1000. */
    for (size_t i = 0; i < nvalues; i++) {
        double x = (double)(i % 4096) / 4095;
        want[i] = (float)(i < 4096 ? x * x : 1000 * x * x);
    }
    assert_true(H5Pset_terp_rel(dcpl, 1e-2) >= 0);
    hid_t dataset =
        h5_dataset_new(file, "relative", H5T_IEEE_F32LE, &shape, dcpl);
    h5_write(dataset, H5T_NATIVE_DOUBLE, want);
    h5_read(dataset, H5T_NATIVE_DOUBLE, got);
    check_values(want, got, 4096, 1e-2);
    check_values(want + 4096, got + 4096, 4096, 10);
    H5Dclose(dataset);
    H5Pclose(dcpl);
    free(want);
    free(got);
}

static void
typed_and_exact_words_give_the_same_stream(void **state)
{
    static const struct h5_shape shape = {2, {64, 64}, {64, 64}};
    static const unsigned typed[] = {1, 25, 4};
    static const hsize_t offset[2];
    double *want = smooth_new(&shape);
    void *streams[2];
    size_t nbytes[2];
    bool skipped;

    (void)state;
    for (int exact = 0; exact < 2; exact++) {
        hid_t dcpl = h5_dcpl_new(&shape, 0, exact ? 0 : COUNT(typed), typed);
        if (exact)
            assert_true(H5Pset_terp_abs(dcpl, 25e-4) >= 0);
        hid_t dataset = h5_dataset_new(file, exact ? "exact" : "typed",
                                       H5T_IEEE_F32LE, &shape, dcpl);
        h5_write(dataset, H5T_NATIVE_DOUBLE, want);
        streams[exact] =
            h5_chunk_bytes(dataset, offset, &nbytes[exact], &skipped);
        assert_false(skipped);
        H5Dclose(dataset);
        H5Pclose(dcpl);
    }
    assert_int_equal(nbytes[0], nbytes[1]);
    assert_memory_equal(streams[0], streams[1], nbytes[0]);
    free(streams[0]);
    free(streams[1]);
    free(want);
}

static void
stored_chunk_is_a_stream_for_the_codec(void **state)
{
    static const struct h5_shape shape = {3, {32, 32, 32}, {32, 32, 32}};
    static const hsize_t offset[3];
    size_t nvalues = (size_t)h5_shape_nvalues(&shape), stream_nbytes;
    double *want = smooth_new(&shape), *got = values_new(nvalues);
    double *decoded = values_new(nvalues);
    struct terp_info info = {.size = sizeof info};
    uint64_t nbytes;
    bool skipped;

    (void)state;
    hid_t dataset = create_abs("stream", H5T_NATIVE_DOUBLE, &shape, 1e-3);
    h5_write(dataset, H5T_NATIVE_DOUBLE, want);
    h5_read(dataset, H5T_NATIVE_DOUBLE, got);
    void *stream = h5_chunk_bytes(dataset, offset, &stream_nbytes, &skipped);
    assert_false(skipped);
    assert_int_equal(terp_inspect(stream, stream_nbytes, &info), TERP_OK);
    assert_int_equal(info.chunk.type, TERP_FLOAT64);
    assert_int_equal(info.chunk.rank, 3);
    assert_true(info.chunk_nbytes >= 10 * info.stream_nbytes);
    assert_int_equal(terp_decode(stream, stream_nbytes, decoded,
                                 nvalues * sizeof *decoded, &nbytes, 1),
                     TERP_OK);
    assert_int_equal(nbytes, nvalues * sizeof *decoded);
    assert_memory_equal(decoded, got, nbytes);
    H5Dclose(dataset);
    free(stream);
    free(want);
    free(got);
    free(decoded);
}

static void
fill_value_of_the_user_is_kept_exactly(void **state)
{
    static const struct h5_shape shape = {2, {50, 50}, {32, 32}};
    const hid_t types[] = {H5T_IEEE_F32LE, H5T_IEEE_F32BE, H5T_IEEE_F64LE,
                           H5T_IEEE_F64BE};
    const double fill = (float)9.96921e36;
    size_t nvalues = (size_t)h5_shape_nvalues(&shape);
    double *want = smooth_new(&shape), *got = values_new(nvalues);
    char name[32];

    (void)state;
    for (size_t i = 0; i < nvalues; i += 3)
        want[i] = fill;
    for (size_t t = 0; t < COUNT(types); t++) {
        struct terp_cd cd;
        hid_t dcpl = h5_dcpl_new(&shape, 0, 0, NULL);
        assert_true(H5Pset_fill_value(dcpl, H5T_NATIVE_DOUBLE, &fill) >= 0);
        assert_true(H5Pset_terp_abs(dcpl, 1e-2) >= 0);
        snprintf(name, sizeof name, "fill %zu", t);
        hid_t dataset = h5_dataset_new(file, name, types[t], &shape, dcpl);
        h5_write(dataset, H5T_NATIVE_DOUBLE, want);
        h5_read(dataset, H5T_NATIVE_DOUBLE, got);
        check_values(want, got, nvalues, 1e-2);
        for (size_t i = 0; i < nvalues; i += 3)
            assert_true(got[i] == fill);
        h5_dataset_cd(dataset, &cd);
        assert_true(cd.params.has_fill);
        assert_true(cd.params.fill_bits ==
                    value_to_bits(t < 2 ? TERP_FLOAT32 : TERP_FLOAT64, fill));
        H5Dclose(dataset);
        H5Pclose(dcpl);
    }
    free(want);
    free(got);
}

static void
logical_dims_make_a_stack_where_they_fit(void **state)
{
    static const struct h5_shape fits = {1, {32768}, {16384}};
    static const struct h5_shape not = {1, {33000}, {16500}};
    struct H5Z_terp_config config = {.bound_mode = H5Z_TERP_ABSOLUTE,
                                     .bound = 1e-3,
                                     .nlogical = 3,
                                     .logical = {16, 16, 16}};

    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct h5_shape *shape = i == 0 ? &fits : &not ;
        size_t nvalues = (size_t)h5_shape_nvalues(shape);
        double *want = smooth_new(shape), *got = values_new(nvalues);
        struct terp_cd cd;
        hid_t dcpl = h5_dcpl_new(shape, 0, 0, NULL);
        assert_true(H5Pset_terp(dcpl, &config) >= 0);
        hid_t dataset = h5_dataset_new(file, i == 0 ? "fits" : "not",
                                       H5T_IEEE_F32LE, shape, dcpl);
        h5_dataset_cd(dataset, &cd);
        assert_int_equal(cd.chunk.stack, i == 0);
        assert_int_equal(cd.chunk.rank, i == 0 ? 4 : 1);
        assert_int_equal(cd.chunk.dims[0], i == 0 ? 4 : 16500);
        h5_write(dataset, H5T_NATIVE_DOUBLE, want);
        h5_read(dataset, H5T_NATIVE_DOUBLE, got);
        check_values(want, got, nvalues, 1e-3);
        H5Dclose(dataset);
        H5Pclose(dcpl);
        free(want);
        free(got);
    }
}

static void
flags_and_config_reach_the_file(void **state)
{
    static const struct h5_shape shape = {1, {100}, {100}};
    struct H5Z_terp_config config = {.bound_mode = H5Z_TERP_RELATIVE,
                                     .bound = 0.1,
                                     .pipeline = H5Z_TERP_PIPELINE_SPEED,
                                     .predictor = H5Z_TERP_PREDICTOR_LORENZO,
                                     .effort = H5Z_TERP_EFFORT_BEST};
    const unsigned both[] = {H5Z_FLAG_MANDATORY, H5Z_FLAG_OPTIONAL};

    (void)state;
    for (size_t i = 0; i < COUNT(both); i++) {
        unsigned words[TERP_CD_MAX_NWORDS], flags;
        struct terp_cd cd;
        hid_t dcpl = h5_dcpl_new(&shape, 0, 0, NULL);
        config.flags = both[i];
        assert_true(H5Pset_terp(dcpl, &config) >= 0);
        hid_t dataset = h5_dataset_new(file, i == 0 ? "mandatory" : "optional",
                                       H5T_IEEE_F64LE, &shape, dcpl);
        h5_dataset_words(dataset, &flags, words);
        assert_int_equal(flags, both[i]);
        h5_dataset_cd(dataset, &cd);
        assert_int_equal(cd.params.bound_mode, TERP_BOUND_RELATIVE);
        assert_true(cd.params.bound == 0.1);
        assert_int_equal(cd.params.pipeline, TERP_PIPELINE_SPEED);
        assert_int_equal(cd.params.predictor, TERP_PREDICTOR_LORENZO);
        assert_int_equal(cd.params.effort, TERP_EFFORT_BEST);
        H5Dclose(dataset);
        H5Pclose(dcpl);
    }
}

/* Like h5repack and h5py: the property list of one dataset creates the next. */
static void
list_of_another_dataset_is_adapted(void **state)
{
    static const struct h5_shape shapes[] = {{2, {40, 40}, {20, 20}},
                                             {3, {12, 14, 16}, {12, 7, 16}}};
    const double fill = 7;
    struct terp_cd cd;

    (void)state;
    hid_t dcpl = h5_dcpl_new(&shapes[0], 0, 0, NULL);
    assert_true(H5Pset_fill_value(dcpl, H5T_NATIVE_DOUBLE, &fill) >= 0);
    assert_true(H5Pset_terp_abs(dcpl, 0.1) >= 0);
    hid_t first = h5_dataset_new(file, "1", H5T_IEEE_F32BE, &shapes[0], dcpl);
    hid_t copy = H5Dget_create_plist(first);
    assert_true(H5Pset_chunk(copy, shapes[1].rank, shapes[1].chunk) >= 0);
    hid_t second = h5_dataset_new(file, "2", H5T_STD_I16LE, &shapes[1], copy);
    h5_dataset_cd(second, &cd);
    assert_int_equal(cd.pass, TERP_PASS_NONE);
    assert_int_equal(cd.chunk.type, TERP_INT16);
    assert_true(cd.params.fill_bits == (uint64_t)fill);
    H5Pclose(copy);

    copy = H5Dget_create_plist(second);
    hid_t third = h5_dataset_new(file, "3", H5T_IEEE_F64LE, &shapes[1], copy);
    h5_dataset_cd(third, &cd);
    assert_int_equal(cd.pass, TERP_PASS_NONE);
    assert_int_equal(cd.chunk.type, TERP_FLOAT64);
    assert_false(cd.chunk.big_endian);
    assert_int_equal(cd.chunk.rank, 3);
    assert_int_equal(cd.chunk.dims[1], 7);
    assert_true(cd.params.bound == 0.1);
    assert_true(cd.params.fill_bits == double_bits(fill));

    double *want = smooth_new(&shapes[1]);
    double *got = values_new((size_t)h5_shape_nvalues(&shapes[1]));
    h5_write(third, H5T_NATIVE_DOUBLE, want);
    h5_read(third, H5T_NATIVE_DOUBLE, got);
    check_values(want, got, (size_t)h5_shape_nvalues(&shapes[1]), 0.1);
    free(want);
    free(got);
    H5Dclose(first);
    H5Dclose(second);
    H5Dclose(third);
    H5Pclose(dcpl);
    H5Pclose(copy);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rank_type_and_order_keeps_the_bound),
        cmocka_unit_test(pointwise_bound_is_of_each_value),
        cmocka_unit_test(psnr_is_that_of_each_chunk),
        cmocka_unit_test(digits_and_bits_are_pointwise_bounds),
        cmocka_unit_test(pointwise_bound_has_a_floor),
        cmocka_unit_test(special_values_come_back_bit_for_bit),
        cmocka_unit_test(absolute_bound_of_nothing_brings_every_bit_back),
        cmocka_unit_test(relative_bound_is_of_each_chunks_range),
        cmocka_unit_test(typed_and_exact_words_give_the_same_stream),
        cmocka_unit_test(stored_chunk_is_a_stream_for_the_codec),
        cmocka_unit_test(fill_value_of_the_user_is_kept_exactly),
        cmocka_unit_test(logical_dims_make_a_stack_where_they_fit),
        cmocka_unit_test(flags_and_config_reach_the_file),
        cmocka_unit_test(list_of_another_dataset_is_adapted),
    };
    return cmocka_run_group_tests(tests, open_file, close_file);
}
