/* Datasets of compound values, which the filter codes by member. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codec/format/base.h"
#include "filter/plugin/h5z_terp.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/h5_files.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const unsigned relative[] = {2, 1, 3}, absolute[] = {1, 1, 2};
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

/* A particle as a C program has it, with padding behind `kind` and `charge`. */
struct particle {
    double position[3];
    char name[11];
    float mass;
    int64_t id;
    struct {
        float x;
        uint16_t cell;
    } inner[2];
    unsigned char kind;
    double charge;
    short spin;
};

/* A type with the given order of members: HDF5 keeps that order, whatever their
 * offsets. */
static hid_t
particle_type(void)
{
    const hsize_t three = 3, two = 2;
    const hid_t vector = H5Tarray_create2(H5T_IEEE_F64LE, 1, &three);
    const hid_t inner = H5Tcreate(H5T_COMPOUND, 8);
    const hid_t name = H5Tcopy(H5T_C_S1);
    const hid_t type = H5Tcreate(H5T_COMPOUND, sizeof(struct particle));

    H5Tset_size(name, 11);
    H5Tinsert(inner, "x", 0, H5T_IEEE_F32LE);
    H5Tinsert(inner, "cell", 4, H5T_STD_U16LE);
    const hid_t both = H5Tarray_create2(inner, 1, &two);
    H5Tinsert(type, "charge", offsetof(struct particle, charge),
              H5T_IEEE_F64LE);
    H5Tinsert(type, "id", offsetof(struct particle, id), H5T_STD_I64LE);
    H5Tinsert(type, "position", offsetof(struct particle, position), vector);
    H5Tinsert(type, "name", offsetof(struct particle, name), name);
    H5Tinsert(type, "mass", offsetof(struct particle, mass), H5T_IEEE_F32LE);
    H5Tinsert(type, "inner", offsetof(struct particle, inner), both);
    H5Tinsert(type, "kind", offsetof(struct particle, kind), H5T_STD_B8LE);
    H5Tinsert(type, "spin", offsetof(struct particle, spin), H5T_STD_I16LE);
    H5Tclose(vector);
    H5Tclose(inner);
    H5Tclose(name);
    H5Tclose(both);
    return type;
}

static void
make_particles(size_t n, struct particle *particles)
{
    memset(particles, 0, n * sizeof *particles);
    for (size_t i = 0; i < n; i++) {
        struct particle *one = &particles[i];
        const double t = (double)i / 50;
        for (int d = 0; d < 3; d++)
            one->position[d] = sin(t + d) * 100;
        snprintf(one->name, sizeof one->name, "star %zu", i % 17);
        one->mass = (float)exp(-t / 9);
        one->id = (int64_t)(1000 + i);
        for (int k = 0; k < 2; k++) {
            one->inner[k].x = (float)cos(t * (k + 1));
            one->inner[k].cell = (uint16_t)(i / 30);
        }
        one->kind = (unsigned char)(i % 5);
        one->charge = (double)(i % 3) - 1;
        one->spin = (short)-(int)(i % 2);
    }
}

static double
largest_error(const struct particle *a, const struct particle *b, size_t n)
{
    double largest = 0;

    for (size_t i = 0; i < n; i++) {
        for (int d = 0; d < 3; d++)
            largest =
                fmax(largest, fabs(a[i].position[d] - b[i].position[d]) / 200);
        largest = fmax(largest, fabs((double)a[i].mass - (double)b[i].mass));
        for (int k = 0; k < 2; k++)
            largest = fmax(
                largest,
                fabs((double)a[i].inner[k].x - (double)b[i].inner[k].x) / 2);
        largest = fmax(largest, fabs(a[i].charge - b[i].charge) / 2);
    }
    return largest;
}

/* Everything but floats is equal, also the padding. */
static void
compare_rest(const struct particle *a, const struct particle *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct particle one = b[i];
        memcpy(one.position, a[i].position, sizeof one.position);
        one.mass = a[i].mass;
        for (int k = 0; k < 2; k++)
            one.inner[k].x = a[i].inner[k].x;
        one.charge = a[i].charge;
        assert_memory_equal(&one, &a[i], sizeof one);
    }
}

#define NPARTICLES 3000
static const struct h5_shape line = {1, {NPARTICLES}, {1024}};
static struct particle particles[NPARTICLES], got[NPARTICLES];

static hid_t
new_dataset(const char *name, hid_t type, const struct h5_shape *shape,
            unsigned flags, size_t nwords, const unsigned *words)
{
    const hid_t dcpl = h5_dcpl_new(shape, flags, nwords, words);
    const hid_t dataset = h5_dataset_new(file, name, type, shape, dcpl);

    H5Pclose(dcpl);
    return dataset;
}

static void
members_keep_their_bounds(void **state)
{
    const hid_t type = particle_type();
    struct terp_cd cd;

    (void)state;
    make_particles(NPARTICLES, particles);
    for (unsigned flags = 0; flags <= H5Z_FLAG_OPTIONAL; flags++) {
        const hid_t dataset = new_dataset(flags ? "optional" : "mandatory",
                                          type, &line, flags, 3, relative);
        assert_true(dataset >= 0);
        h5_dataset_cd(dataset, &cd);
        assert_int_equal(cd.pass, TERP_PASS_BY_MEMBER);
        assert_int_equal(cd.compound.value_nbytes, sizeof(struct particle));
        h5_write(dataset, type, particles);
        memset(got, 0xFF, sizeof got);
        h5_read(dataset, type, got);
        const double error = largest_error(particles, got, NPARTICLES);
        assert_true(error > 0 && error <= 1e-3);
        compare_rest(particles, got, NPARTICLES);
        assert_true(H5Dget_storage_size(dataset) < sizeof particles / 10);
        H5Dclose(dataset);
    }
    H5Tclose(type);
}

/* No words are lossless. Shuffle and fletcher32 before terp go, as for
 * numbers. */
static void
lossless_compounds_keep_every_bit(void **state)
{
    const hid_t type = particle_type();
    const hid_t dcpl = h5_dcpl_new(&line, 0, 0, NULL);

    (void)state;
    make_particles(NPARTICLES, particles);
    for (size_t i = 0; i < NPARTICLES; i++)
        memset((char *)&particles[i] + offsetof(struct particle, kind) + 1,
               (int)i, 7);
    assert_true(H5Pset_shuffle(dcpl) >= 0);
    assert_true(H5Pset_filter(dcpl, H5Z_FILTER_TERP, 0, 0, NULL) >= 0);
    const hid_t dataset = h5_dataset_new(file, "lossless", type, &line, dcpl);
    assert_true(dataset >= 0);
    h5_write(dataset, type, particles);
    h5_read(dataset, type, got);
    assert_memory_equal(particles, got, sizeof got);
    assert_true(H5Dget_storage_size(dataset) < sizeof particles / 3);
    H5Dclose(dataset);
    H5Pclose(dcpl);
    H5Tclose(type);
}

/* Types of HDF5 and the members that terp makes of them. */
static void
types_become_members(void **state)
{
    static const struct {
        enum terp_type type;
        uint32_t at;
        int rank;
    } want[] = {
        {TERP_FLOAT64, 0, 1}, {TERP_UINT64, 24, 0},  {TERP_UINT16, 32, 0},
        {TERP_UINT8, 34, 0},  {TERP_UINT8, 35, 0},   {TERP_FLOAT32, 36, 0},
        {TERP_INT64, 40, 0},  {TERP_FLOAT32, 48, 0}, {TERP_UINT16, 52, 0},
        {TERP_UINT16, 54, 0}, {TERP_FLOAT32, 56, 0}, {TERP_UINT16, 60, 0},
        {TERP_UINT16, 62, 0}, {TERP_UINT8, 64, 0},   {TERP_UINT32, 65, 0},
        {TERP_UINT16, 69, 0}, {TERP_UINT8, 71, 0},   {TERP_FLOAT64, 72, 0},
        {TERP_INT16, 80, 0},  {TERP_UINT32, 82, 0},  {TERP_UINT16, 86, 0},
    };
    const hid_t type = particle_type();
    const hid_t dataset = new_dataset("list", type, &line, 0, 3, relative);
    struct terp_member_walk walk = {.at = 0};
    struct terp_cd cd;

    (void)state;
    h5_dataset_cd(dataset, &cd);
    assert_int_equal(cd.compound.nmembers, COUNT(want));
    for (size_t i = 0; i < COUNT(want); i++) {
        assert_true(terp_member_next(&cd.compound, &walk));
        assert_int_equal(walk.member.type, want[i].type);
        assert_int_equal(walk.at, want[i].at);
        assert_int_equal(walk.member.rank, want[i].rank);
    }
    H5Dclose(dataset);
    H5Tclose(type);
}

/* ---- types with and without members ---- */

static hid_t
half_type(void)
{
    const hid_t type = H5Tcopy(H5T_IEEE_F32LE);

    H5Tset_fields(type, 15, 10, 5, 0, 10);
    H5Tset_precision(type, 16);
    H5Tset_size(type, 2);
    H5Tset_ebias(type, 15);
    return type;
}

/* A pair {r, i} of a type that is closed. */
static hid_t
pair_of(hid_t part)
{
    const size_t nbytes = H5Tget_size(part);
    const hid_t type = H5Tcreate(H5T_COMPOUND, 2 * nbytes);

    H5Tinsert(type, "r", 0, part);
    H5Tinsert(type, "i", nbytes, part);
    H5Tclose(part);
    return type;
}

static hid_t
half_pair(void)
{
    return pair_of(half_type());
}

static hid_t
int_pair(void)
{
    return pair_of(H5Tcopy(H5T_STD_I16BE));
}

static hid_t
array_type(void)
{
    const hsize_t dims[] = {2, 3, 4, 5};

    return H5Tarray_create2(H5T_IEEE_F32BE, 4, dims);
}

static hid_t
text_array(void)
{
    const hsize_t dim = 7;
    const hid_t text = H5Tcopy(H5T_C_S1);

    H5Tset_size(text, 20);
    const hid_t type = H5Tarray_create2(text, 1, &dim);
    H5Tclose(text);
    return type;
}

static hid_t
odd_members(void)
{
    const hid_t type = H5Tcreate(H5T_COMPOUND, 64);
    const hid_t bits = H5Tcopy(H5T_STD_I32LE), tag = H5Tcreate(H5T_OPAQUE, 5);

    H5Tset_precision(bits, 20);
    H5Tinsert(type, "long double", 8, H5T_NATIVE_LDOUBLE);
    H5Tinsert(type, "few bits", 40, bits);
    H5Tinsert(type, "opaque", 1, tag);
    H5Tclose(bits);
    H5Tclose(tag);
    return type;
}

static hid_t
compound_of(hid_t member)
{
    const hid_t type = H5Tcreate(H5T_COMPOUND, 8 + H5Tget_size(member));

    H5Tinsert(type, "number", 0, H5T_IEEE_F64LE);
    H5Tinsert(type, "member", 8, member);
    H5Tclose(member);
    return type;
}

static hid_t
with_text_of_any_length(void)
{
    const hid_t text = H5Tcopy(H5T_C_S1);

    H5Tset_size(text, H5T_VARIABLE);
    return compound_of(text);
}

static hid_t
with_sequence(void)
{
    const hsize_t dim = 2;
    const hid_t sequence = H5Tvlen_create(H5T_IEEE_F32LE);
    const hid_t array = H5Tarray_create2(sequence, 1, &dim);

    H5Tclose(sequence);
    return compound_of(array);
}

static hid_t
with_reference(void)
{
    return compound_of(H5Tcopy(H5T_STD_REF_OBJ));
}

/* Arrays of compounds of arrays of compounds. */
static hid_t
nested(int depth)
{
    const hsize_t dim = 2;
    hid_t type = compound_of(H5Tcopy(H5T_STD_U8LE));

    for (int i = 0; i < depth; i++) {
        const hid_t array = H5Tarray_create2(type, 1, &dim);
        H5Tclose(type);
        type = compound_of(array);
    }
    return type;
}

static hid_t
nested_twice(void)
{
    return nested(2);
}

static hid_t
nested_too_deep(void)
{
    return nested(5);
}

/* More kinds of members than the table has words. */
static hid_t
many_members(void)
{
    const hid_t type = H5Tcreate(H5T_COMPOUND, 6 * 200);
    char name[8];

    for (unsigned i = 0; i < 400; i++) {
        snprintf(name, sizeof name, "%u", i);
        H5Tinsert(type, name, i / 2 * 6 + i % 2 * 4,
                  i % 2 == 0 ? H5T_IEEE_F32LE : H5T_STD_U16LE);
    }
    return type;
}

static const struct {
    hid_t (*make)(void);
    enum terp_pass pass;
    uint32_t nmembers;
} types[] = {
    {half_pair, TERP_PASS_BY_MEMBER, 2},
    {int_pair, TERP_PASS_BY_MEMBER, 2},
    {array_type, TERP_PASS_BY_MEMBER, 1},
    {text_array, TERP_PASS_BY_MEMBER, 2},
    {odd_members, TERP_PASS_BY_MEMBER, 12},
    {nested_twice, TERP_PASS_BY_MEMBER, 11},
    {nested_too_deep, TERP_PASS_NOT_NUMBER, 0},
    {many_members, TERP_PASS_NOT_NUMBER, 0},
    {with_text_of_any_length, TERP_PASS_NOT_NUMBER, 0},
    {with_sequence, TERP_PASS_NOT_NUMBER, 0},
    {with_reference, TERP_PASS_NOT_NUMBER, 0},
};

static void
types_are_coded_by_member_or_pass(void **state)
{
    static const struct h5_shape box = {3, {9, 10, 11}, {4, 5, 11}};

    (void)state;
    for (size_t i = 0; i < COUNT(types); i++) {
        const hid_t type = types[i].make();
        const size_t nbytes =
            h5_shape_nvalues(&box) * (size_t)H5Tget_size(type);
        char name[8];
        struct terp_cd cd;
        snprintf(name, sizeof name, "type %zu", i);
        const hid_t dataset =
            new_dataset(name, type, &box, H5Z_FLAG_OPTIONAL, 3, relative);
        assert_true(dataset >= 0);
        h5_dataset_cd(dataset, &cd);
        if (cd.pass != types[i].pass ||
            cd.compound.nmembers != types[i].nmembers)
            fail_msg("type %zu: pass %d, %u members", i, (int)cd.pass,
                     cd.compound.nmembers);
        if (i < 2 || types[i].pass == TERP_PASS_BY_MEMBER) {
            unsigned char *values = malloc(nbytes), *back = malloc(nbytes);
            for (size_t k = 0; k < nbytes; k++)
                values[k] = (unsigned char)(k * k % 251 / 16);
            h5_write(dataset, type, values);
            h5_read(dataset, type, back);
            if (i == 1 || i == 3 || i == 4)
                assert_memory_equal(values, back, nbytes);
            free(values);
            free(back);
        }
        H5Dclose(dataset);
        H5Tclose(type);
    }
}

/* Chunks without structure take hardly more space than their values. */
static void
noise_is_stored_as_it_is(void **state)
{
    static const hsize_t first[] = {0};
    const hid_t type = particle_type();
    const hid_t dataset = new_dataset("noise", type, &line, 0, 0, NULL);
    const hid_t coded = new_dataset("noise coded", type, &line, 0, 3,
                                    (const unsigned[]){1, 0, 0});
    unsigned char *bytes = (unsigned char *)particles;
    size_t nbytes;
    bool skipped;
    uint64_t word = 1;

    (void)state;
    for (size_t i = 0; i < sizeof particles; i++) {
        word = word * UINT64_C(6364136223846793005) + 1442695040888963407u;
        bytes[i] = (unsigned char)(word >> 56);
    }
    h5_write(coded, type, particles);
    h5_read(coded, type, got);
    assert_memory_equal(particles, got, sizeof got);
    free(h5_chunk_bytes(coded, first, &nbytes, &skipped));
    assert_true(nbytes <= 1024 * sizeof(struct particle) + 64);
    H5Dclose(dataset);
    H5Dclose(coded);
    H5Tclose(type);
}

/* ---- rules ---- */

static const struct {
    const char *name;
    struct H5Z_terp_config config;
} all_rules[] = {{"position", {.bound_mode = H5Z_TERP_ABSOLUTE, .bound = 5}},
                 {"inner.x", {.bound_mode = H5Z_TERP_ABSOLUTE}},
                 {"id", {.bound_mode = H5Z_TERP_ABSOLUTE, .bound = 100}},
                 {"charge", {.bound_mode = H5Z_TERP_POINTWISE, .bound = 0.1}}};

/* Words with the first `n` rules. */
static size_t
words_with_rules(size_t n, unsigned *words)
{
    const struct H5Z_terp_config config = {.bound_mode = H5Z_TERP_ABSOLUTE,
                                           .bound = 0.01};
    size_t nwords = H5Z_terp_cd_values(&config, words);

    for (size_t i = 0; i < n; i++)
        nwords = H5Z_terp_add_member(all_rules[i].name, &all_rules[i].config,
                                     words, nwords);
    assert_int_equal(nwords, 4 + 4 * n);
    return nwords;
}

static void
rules_apply_to_their_members(void **state)
{
    const hid_t type = particle_type();
    unsigned words[H5Z_TERP_MAX_ALL_NWORDS];
    const size_t nwords = words_with_rules(COUNT(all_rules), words);
    const hid_t dataset = new_dataset("rules", type, &line, 0, nwords, words);
    double worst = 0, mass = 0, charge = 0;
    int64_t id = 0;

    (void)state;
    assert_true(dataset >= 0);
    make_particles(NPARTICLES, particles);
    for (size_t i = 0; i < NPARTICLES; i++)
        particles[i].charge = (double)(1 + i % 100);
    h5_write(dataset, type, particles);
    h5_read(dataset, type, got);
    for (size_t i = 0; i < NPARTICLES; i++) {
        for (int d = 0; d < 3; d++)
            worst = fmax(worst,
                         fabs(particles[i].position[d] - got[i].position[d]));
        mass =
            fmax(mass, fabs((double)particles[i].mass - (double)got[i].mass));
        charge = fmax(charge, fabs(particles[i].charge - got[i].charge) /
                                  particles[i].charge);
        const int64_t difference = particles[i].id - got[i].id;
        id = difference > id ? difference : -difference > id ? -difference : id;
        for (int k = 0; k < 2; k++)
            assert_true(particles[i].inner[k].x == got[i].inner[k].x);
    }
    assert_true(worst > 1 && worst <= 5);
    assert_true(mass > 0 && mass <= 0.01);
    assert_true(charge > 0.01 && charge <= 0.1);
    assert_true(id > 0 && id <= 100);
    H5Dclose(dataset);
    H5Tclose(type);
}

/* A file's words hold for another dataset, whose members stand elsewhere. */
static void
stored_words_take_members_from_the_new_type(void **state)
{
    const hid_t type = particle_type(), other = H5Tcreate(H5T_COMPOUND, 16);
    unsigned words[H5Z_TERP_MAX_ALL_NWORDS], stored[TERP_CD_MAX_NWORDS], flags;
    size_t nwords = words_with_rules(1, words);
    hid_t dataset = new_dataset("before", type, &line, 0, nwords, words);
    struct terp_member_walk walk = {.at = 0};
    struct terp_cd cd;

    (void)state;
    nwords = h5_dataset_words(dataset, &flags, stored);
    H5Dclose(dataset);
    H5Tinsert(other, "mass", 0, H5T_IEEE_F64LE);
    H5Tinsert(other, "position", 8, H5T_IEEE_F64LE);
    dataset = new_dataset("after", other, &line, 0, nwords, stored);
    assert_true(dataset >= 0);
    h5_dataset_cd(dataset, &cd);
    assert_int_equal(cd.compound.value_nbytes, 16);
    assert_true(terp_member_next(&cd.compound, &walk));
    assert_int_equal(walk.member.rule, 0);
    assert_true(terp_member_next(&cd.compound, &walk));
    assert_int_equal(walk.member.rule, 1);
    H5Dclose(dataset);
    dataset = new_dataset("number", H5T_IEEE_F32LE, &line, 0, nwords, stored);
    h5_dataset_cd(dataset, &cd);
    assert_int_equal(cd.pass, TERP_PASS_NONE);
    assert_int_equal(cd.chunk.type, TERP_FLOAT32);
    H5Dclose(dataset);
    H5Tclose(type);
    H5Tclose(other);
}

static void
rules_without_a_member_are_refused(void **state)
{
    const hid_t type = particle_type();
    unsigned words[H5Z_TERP_MAX_ALL_NWORDS];
    const size_t nwords = words_with_rules(1, words);

    (void)state;
    words[4]++;
    const hid_t dcpl = h5_dcpl_new(&line, 0, nwords, words);
    assert_true(h5_dataset_new(file, "wrong", type, &line, dcpl) < 0);
    assert_true(h5_error_says("a member that the compound lacks"));
    H5Pclose(dcpl);
    H5Tclose(type);
}

/* Data that terp 1 must read is not coded by member. */
static void
first_format_passes_compounds_through(void **state)
{
    static const unsigned words[] = {2 | TERP_CD_FORMAT_1, 1, 3};
    const hid_t type = particle_type();
    const hid_t dataset = new_dataset("format 1", type, &line, 0, 3, words);
    struct terp_cd cd;

    (void)state;
    h5_dataset_cd(dataset, &cd);
    assert_int_equal(cd.pass, TERP_PASS_NOT_NUMBER);
    H5Dclose(dataset);
    H5Tclose(type);
}

/* ---- values that are written piece by piece ---- */

/* A program appends to a table, and HDF5 decodes and encodes its last chunk
 * each time: values that were written keep their bits. */
static void
appending_adds_no_error(void **state)
{
    static const size_t step = 110;
    static const unsigned modes[] = {1, 2, 3};
    const hid_t type = particle_type();
    char name[16];

    (void)state;
    make_particles(NPARTICLES, particles);
    for (size_t m = 0; m < COUNT(modes); m++) {
        const unsigned words[] = {modes[m], 1, 2};
        snprintf(name, sizeof name, "append %u", modes[m]);
        hid_t dataset = new_dataset(name, type, &line, 0, 3, words);
        for (size_t at = 0; at < NPARTICLES; at += step) {
            const hsize_t offset = at, n = min_u64(step, NPARTICLES - at);
            const hid_t memory = H5Screate_simple(1, &n, NULL);
            const hid_t space = H5Dget_space(dataset);
            H5Sselect_hyperslab(space, H5S_SELECT_SET, &offset, NULL, &n, NULL);
            assert_true(H5Dwrite(dataset, type, memory, space, H5P_DEFAULT,
                                 particles + at) >= 0);
            H5Sclose(memory);
            H5Sclose(space);
            /* The chunk leaves the cache. */
            H5Dclose(dataset);
            dataset = H5Dopen2(file, name, H5P_DEFAULT);
        }
        h5_read(dataset, type, got);
        for (size_t i = 0; i < NPARTICLES; i++) {
            const double error =
                fabs(particles[i].position[0] - got[i].position[0]);
            const double mass =
                fabs((double)particles[i].mass - (double)got[i].mass);
            const double bound = modes[m] == 1 ? 0.01
                                 : modes[m] == 2
                                     ? 2
                                     : 0.01 * fabs(particles[i].position[0]);
            assert_true(error <= bound);
            assert_true(mass <= 0.01);
        }
        compare_rest(particles, got, NPARTICLES);
        H5Dclose(dataset);
    }
    H5Tclose(type);
}

/* ---- damage ---- */

/* Writes `bytes` as the first chunk; returns whether the dataset reads. */
static bool
reads(hid_t dataset, hid_t type, const void *bytes, size_t nbytes)
{
    static const hsize_t first[] = {0};

    assert_true(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, first, nbytes, bytes) >=
                0);
    return H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, got) >= 0;
}

static void
damaged_containers_are_not_read(void **state)
{
    static const hsize_t first[] = {0};
    const hid_t type = particle_type(), small = H5Tcreate(H5T_COMPOUND, 16);
    hid_t dataset = new_dataset("damaged", type, &line, 0, 3, absolute);
    size_t nbytes;
    bool skipped;

    (void)state;
    make_particles(NPARTICLES, particles);
    h5_write(dataset, type, particles);
    H5Fflush(file, H5F_SCOPE_LOCAL);
    unsigned char *bytes = h5_chunk_bytes(dataset, first, &nbytes, &skipped);
    assert_false(skipped);
    assert_true(reads(dataset, type, bytes, nbytes));
    for (size_t at = 0; at < nbytes; at += 1 + at / 7) {
        bytes[at] ^= 0x10;
        H5Dclose(dataset);
        dataset = H5Dopen2(file, "damaged", H5P_DEFAULT);
        assert_false(reads(dataset, type, bytes, nbytes));
        bytes[at] ^= 0x10;
    }
    H5Dclose(dataset);
    dataset = H5Dopen2(file, "damaged", H5P_DEFAULT);
    assert_true(reads(dataset, type, bytes, nbytes));
    H5Dclose(dataset);

    /* The chunk of another dataset, of another size. */
    H5Tinsert(small, "x", 0, H5T_IEEE_F64LE);
    H5Tinsert(small, "y", 8, H5T_IEEE_F64LE);
    dataset = new_dataset("small", small, &line, 0, 3, absolute);
    assert_false(reads(dataset, small, bytes, nbytes));
    assert_true(h5_error_says("bytes where 16384 are expected"));
    H5Dclose(dataset);
    free(bytes);
    H5Tclose(type);
    H5Tclose(small);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_keep_their_bounds),
        cmocka_unit_test(lossless_compounds_keep_every_bit),
        cmocka_unit_test(types_become_members),
        cmocka_unit_test(types_are_coded_by_member_or_pass),
        cmocka_unit_test(noise_is_stored_as_it_is),
        cmocka_unit_test(rules_apply_to_their_members),
        cmocka_unit_test(stored_words_take_members_from_the_new_type),
        cmocka_unit_test(rules_without_a_member_are_refused),
        cmocka_unit_test(first_format_passes_compounds_through),
        cmocka_unit_test(appending_adds_no_error),
        cmocka_unit_test(damaged_containers_are_not_read),
    };
    return cmocka_run_group_tests(tests, open_file, close_file);
}
