/* Makes datasets in files that exist in memory only. */
#define _POSIX_C_SOURCE 200809L
#include "fuzz/datasets.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "codec/api/cd_values.h"
#include "codec/format/base.h"
#include "codec/format/frame.h"
#include "codec/format/types.h"
#include "filter/plugin/h5z_terp.h"
#include "filter/plugin/host.h"
#include "fuzz/dataset_types.h"
#include "fuzz/target.h"

/* ---- files and the filter ---- */

/* New files replace the files after so many datasets, because HDF5 need not
 * reuse the space of deleted objects. */
#define MAX_NMADE 4096
#define FILE_STEP_NBYTES ((size_t)1 << 20)

/* The memory limit of a call; terp refuses chunks that need more. */
#define MAX_MEMORY "4M"

/* The largest number of chunks in a grid that the tool tries one by one, and
 * the number from which on the tool asks HDF5 for a list
 * (tools/common/stored.c). */
#define MAX_NCHUNKS 24
#define MIN_NSPARSE 4096

static hid_t files[2]; /* in the earliest and in the latest format */
static int nmade;

static void
make_files(void)
{
    static const char *const names[2] = {"fuzz-old.h5", "fuzz-new.h5"};

    for (int i = 0; i < 2; i++) {
        if (files[i] > 0)
            CHECK(H5Fclose(files[i]) >= 0);
        hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
        CHECK(H5Pset_fapl_core(fapl, FILE_STEP_NBYTES, false) >= 0);
        CHECK(H5Pset_libver_bounds(
                  fapl, i == 0 ? H5F_LIBVER_EARLIEST : H5F_LIBVER_LATEST,
                  H5F_LIBVER_LATEST) >= 0);
        /* Deleted space is not reused: HDF5 1.10.8 may write metadata of
         * earlier datasets over chunks that lie in such space. */
        hid_t fcpl = H5Pcreate(H5P_FILE_CREATE);
        CHECK(H5Pset_file_space_strategy(fcpl, H5F_FSPACE_STRATEGY_NONE, false,
                                         1) >= 0);
        /* A table of few slots, because HDF5 makes and clears one for each
         * dataset. */
        CHECK(H5Pset_cache(fapl, 0, 7, 1 << 16, 0.75) >= 0);
        files[i] = H5Fcreate(names[i], H5F_ACC_TRUNC, fcpl, fapl);
        CHECK(files[i] >= 0);
        H5Pclose(fcpl);
        H5Pclose(fapl);
    }
    nmade = 0;
}

void
fuzz_datasets_begin(void)
{
    /* terp's filter class without its callbacks at dataset creation, so that
     * the file gets the input's cd_values unchecked. */
    static H5Z_class2_t filter;

    setenv("TERP_MAX_MEMORY", MAX_MEMORY, 1);
    setenv("HDF5_PLUGIN_PRELOAD", "::", 1); /* no plugins */
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    filter = *(const H5Z_class2_t *)terp_filter_class();
    filter.set_local = NULL;
    filter.can_apply = NULL;
    CHECK(H5Zregister(&filter) >= 0);
    fuzz_types_begin();
    make_files();
    if (getenv("FUZZ_PRINTS") != NULL) /* for debugging a single input */
        setvbuf(stdout, NULL, _IONBF, 0);
    else
        CHECK(freopen("/dev/null", "w", stdout) != NULL);
}

/* ---- the dataset's shape ---- */

struct shape {
    int rank; /* -1: a null dataspace */
    hid_t type;
    hsize_t dims[H5S_MAX_RANK], chunk[H5S_MAX_RANK];
};

static hsize_t
extent_of(uint8_t choice)
{
    static const hsize_t large[] = {0,
                                    1,
                                    255,
                                    4096,
                                    65537,
                                    1u << 20,
                                    1u << 24,
                                    1u << 31,
                                    (hsize_t)1 << 32,
                                    (hsize_t)1 << 40,
                                    (hsize_t)1 << 62};
    const size_t nlarge = sizeof large / sizeof *large;

    return choice < 256 - nlarge ? choice & 31 : large[255 - choice];
}

static uint64_t
count_chunks(const struct shape *shape)
{
    uint64_t nchunks = 1;

    for (int i = 0; i < shape->rank; i++) {
        const uint64_t n = div_up(shape->dims[i], shape->chunk[i]);
        if (n > 0 && nchunks > UINT64_MAX / n)
            return UINT64_MAX;
        nchunks *= n;
    }
    return nchunks;
}

/* Limits the number of chunks: visiting each must not take long, and in the
 * latest format, which FUZZ_EDGES also needs, the chunk index must not reserve
 * space for a huge grid. */
static void
limit_chunks(struct shape *shape, bool is_new)
{
    for (int i = 0; i < shape->rank; i++) {
        const uint64_t nchunks = count_chunks(shape);
        if (nchunks <= MAX_NCHUNKS || (nchunks >= MIN_NSPARSE && !is_new))
            return;
        if (is_new && shape->dims[i] > UINT16_MAX)
            shape->dims[i] = 1;
        shape->chunk[i] = shape->dims[i] > 0 ? shape->dims[i] : 1;
    }
}

static void
choose_shape(const uint8_t *choices, struct shape *shape)
{
    const uint8_t rank = choices[FUZZ_RANK];

    shape->type = fuzz_type(choices[FUZZ_TYPE]);
    shape->rank = rank == 255                  ? -1
                  : rank >= 255 - H5S_MAX_RANK ? 255 - rank
                                               : 1 + rank % TERP_MAX_RANK;
    for (int i = 0; i < shape->rank; i++) {
        const uint8_t chunk = choices[FUZZ_CHUNK + i % 8];
        shape->dims[i] = extent_of(choices[FUZZ_EXTENT + i % 8]);
        shape->chunk[i] = chunk > 0 ? extent_of(chunk) : shape->dims[i];
        if (shape->chunk[i] == 0 || shape->chunk[i] > UINT16_MAX)
            shape->chunk[i] = 1;
    }
    limit_chunks(shape, choices[FUZZ_FLAGS] & (FUZZ_NEW_FORMAT | FUZZ_EDGES));
}

/* Gives the dataset the stream's type, and a few chunks of the stream's
 * shape. */
static bool
shape_from_stream(const uint8_t *choices, const struct fuzz_stream *stream,
                  struct shape *shape)
{
    struct terp_chunk chunk;

    if (terp_decoded_chunk(stream->bytes, stream->nbytes, &chunk) != TERP_OK ||
        terp_chunk_nbytes(&chunk) > stream->max_chunk_nbytes)
        return false;
    shape->type = fuzz_coded_type(chunk.type, chunk.big_endian);
    shape->rank = chunk.rank;
    for (int i = 0; i < chunk.rank; i++) {
        const uint8_t extent = choices[FUZZ_EXTENT + i];
        const hsize_t all = chunk.dims[i] * (1 + (extent & 3));
        shape->chunk[i] = chunk.dims[i];
        shape->dims[i] = all - (extent >> 2) % chunk.dims[i];
    }
    for (int i = 0; i < chunk.rank && count_chunks(shape) > MAX_NCHUNKS; i++)
        shape->dims[i] = chunk.dims[i];
    return true;
}

/* ---- the dataset's properties ---- */

enum {
    MAX_NFILTERS = 3
};
enum kind {
    NO_FILTER,
    TERP,
    SHUFFLE,
    DEFLATE,
    FLETCHER,
    NBIT,
    SCALEOFFSET,
    UNKNOWN
};

/* Most inputs get terp alone. HDF5 1.10.8 crashes when a filter behind
 * fletcher32 hands it less than a checksum, so no pipeline can do that. */
static const uint8_t pipelines[][MAX_NFILTERS] = {
    {TERP},
    {TERP, FLETCHER},
    {TERP, DEFLATE},
    {NO_FILTER},
    {SHUFFLE, TERP},
    {TERP, UNKNOWN},
    {DEFLATE, SHUFFLE, TERP},
    {TERP, SHUFFLE},
    {TERP, TERP},
    {TERP, FLETCHER, FLETCHER},
    {TERP, DEFLATE, FLETCHER},
    {TERP, DEFLATE, DEFLATE},
    {DEFLATE, TERP},
    {NBIT, TERP},
    {SCALEOFFSET, TERP},
    {SHUFFLE, DEFLATE},
    {FLETCHER},
    {UNKNOWN},
};
#define NPIPELINES (sizeof pipelines / sizeof *pipelines)

static const uint8_t *
pipeline_of(const uint8_t *choices)
{
    return pipelines[choices[FUZZ_FILTERS] < NPIPELINES ? choices[FUZZ_FILTERS]
                                                        : 0];
}

/* The input's cd_values, or those that the filter makes of them if they are
 * valid. */
static size_t
make_words(const uint8_t *choices, const uint8_t *data, size_t nwords,
           const struct shape *shape, unsigned *words)
{
    struct terp_chunk chunk;
    struct terp_cd cd;
    uint64_t dims[TERP_MAX_RANK];

    for (size_t i = 0; i < nwords; i++)
        words[i] = (unsigned)load_le(data + 4 * i, 4);
    if (!(choices[FUZZ_FLAGS] & FUZZ_LOCAL_WORDS) || shape->rank < 1 ||
        shape->rank > TERP_MAX_RANK)
        return nwords;
    if (terp_cd_parse(nwords, words, &cd, NULL) != TERP_OK) {
        static const unsigned relative[] = {TERP_BOUND_RELATIVE, 1, 3};
        CHECK(terp_cd_parse(3, relative, &cd, NULL) == TERP_OK);
    }
    for (int i = 0; i < shape->rank; i++)
        dims[i] = shape->chunk[i];
    for (int i = 0; i < TERP_NTYPES; i++)
        for (int big = 0; big < 2; big++)
            if (shape->type == fuzz_coded_type((enum terp_type)i, big) &&
                terp_chunk_make((enum terp_type)i, shape->rank, dims, &chunk) ==
                    TERP_OK) {
                cd.pass = TERP_PASS_NONE;
                terp_cd_apply_dims(&cd, (enum terp_type)i, big, shape->rank,
                                   dims);
                return terp_cd_persist(&cd, words);
            }
    cd.pass = TERP_PASS_NOT_NUMBER;
    return terp_cd_persist(&cd, words);
}

static void
add_filter(hid_t dcpl, enum kind kind, size_t nwords, const unsigned *words)
{
    enum {
        UNKNOWN_ID = 31000
    };

    switch (kind) {
    case TERP:
        H5Pset_filter(dcpl, H5Z_FILTER_TERP, H5Z_FLAG_MANDATORY, nwords, words);
        break;
    case SHUFFLE:
        H5Pset_shuffle(dcpl);
        break;
    case DEFLATE:
        H5Pset_deflate(dcpl, 1);
        break;
    case FLETCHER:
        H5Pset_fletcher32(dcpl);
        break;
    case NBIT:
        H5Pset_nbit(dcpl);
        break;
    case SCALEOFFSET:
        H5Pset_scaleoffset(dcpl, H5Z_SO_INT, 0);
        break;
    case UNKNOWN:
        H5Pset_filter(dcpl, UNKNOWN_ID, H5Z_FLAG_OPTIONAL, 0, NULL);
        break;
    default:
        break;
    }
}

static void
set_fill(const uint8_t *choices, hid_t type, hid_t dcpl)
{
    static const H5D_fill_time_t times[] = {
        H5D_FILL_TIME_IFSET, H5D_FILL_TIME_ALLOC, H5D_FILL_TIME_NEVER};
    uint8_t value[1024];

    if (choices[FUZZ_FILL] >> 4 < 3 && choices[FUZZ_FILL] >> 4 > 0)
        H5Pset_fill_time(dcpl, times[choices[FUZZ_FILL] >> 4]);
    switch (choices[FUZZ_FILL] & 15) {
    case 1:
        H5Pset_fill_value(dcpl, type, NULL);
        break;
    case 2:
    case 3:
        if (H5Tget_size(type) > sizeof value ||
            H5Tdetect_class(type, H5T_VLEN) > 0 || H5Tis_variable_str(type) > 0)
            break;
        for (size_t i = 0; i < sizeof value; i++)
            value[i] = choices[i % FUZZ_NCHOICES];
        H5Pset_fill_value(dcpl, type, value);
        break;
    default:
        break;
    }
}

bool
fuzz_dataset_has_fill(const struct fuzz_dataset *dataset)
{
    const uint8_t fill = dataset->choices[FUZZ_FILL];

    return fill >> 4 != 2 && (fill & 15) != 1;
}

static hid_t
make_dcpl(const uint8_t *choices, const uint8_t *data, size_t nwords,
          const struct shape *shape)
{
    unsigned words[FUZZ_MAX_NWORDS];
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    const uint8_t *filters = pipeline_of(choices);

    set_fill(choices, shape->type, dcpl);
    if (choices[FUZZ_LAYOUT] == 255)
        H5Pset_layout(dcpl, H5D_COMPACT);
    if (choices[FUZZ_LAYOUT] >= 253 || shape->rank < 1)
        return dcpl;
    H5Pset_chunk(dcpl, shape->rank, shape->chunk);
    if (choices[FUZZ_FLAGS] & FUZZ_EDGES)
        H5Pset_chunk_opts(dcpl, H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS);
    nwords = make_words(choices, data, nwords, shape, words);
    for (int i = 0; i < MAX_NFILTERS; i++)
        add_filter(dcpl, (enum kind)filters[i], nwords, words);
    return dcpl;
}

static hid_t
make_space(const uint8_t *choices, const struct shape *shape)
{
    hsize_t unlimited[H5S_MAX_RANK];

    if (shape->rank < 0)
        return H5Screate(H5S_NULL);
    for (int i = 0; i < shape->rank; i++)
        unlimited[i] =
            i == 0 || choices[FUZZ_LAYOUT] & 1 ? H5S_UNLIMITED : shape->dims[i];
    return H5Screate_simple(shape->rank, shape->dims,
                            choices[FUZZ_FLAGS] & FUZZ_UNLIMITED ? unlimited
                                                                 : NULL);
}

/* ---- the dataset's chunks ---- */

/* HDF5 1.10.8 reads beyond the end of a chunk that is too short. Where neither
 * terp nor the tool compares sizes, chunks are therefore made long enough, or
 * are not stored. */
#define MAX_PLAIN_NBYTES 4096

static bool
compares_sizes(const uint8_t *choices, uint32_t mask)
{
    const uint8_t *filters = pipeline_of(choices);
    bool keep_sizes = true;

    for (int i = 0; i < MAX_NFILTERS; i++) {
        if (filters[i] == NO_FILTER || (mask >> i & 1))
            continue;
        if (filters[i] == TERP)
            return true;
        keep_sizes &= filters[i] == SHUFFLE || filters[i] == FLETCHER;
    }
    return filters[0] != NO_FILTER && keep_sizes;
}

static size_t
chunk_nbytes_of(const struct shape *shape)
{
    uint64_t nbytes = H5Tget_size(shape->type);

    for (int i = 0; i < shape->rank && nbytes <= MAX_PLAIN_NBYTES; i++)
        nbytes *= shape->chunk[i];
    return nbytes;
}

/* Modulo 65535, but 65535 for multiples of it above 0, like HDF5. */
static uint64_t
folded(uint64_t sum)
{
    return sum == 0 ? 0 : (sum - 1) % 65535 + 1;
}

/* HDF5's Fletcher-32, over big-endian words of 16 bits. */
static uint32_t
fletcher32(const uint8_t *bytes, size_t nbytes)
{
    uint64_t sum = 0, sum_of_sums = 0;

    for (size_t i = 0; i < nbytes; i += 2) {
        sum += (uint32_t)bytes[i] << 8 | (i + 1 < nbytes ? bytes[i + 1] : 0);
        sum = folded(sum);
        sum_of_sums = folded(sum_of_sums + sum);
    }
    return (uint32_t)(sum_of_sums << 16 | sum);
}

bool
fuzz_dataset_is_plain(const struct fuzz_dataset *dataset)
{
    const uint8_t *filters = pipeline_of(dataset->choices);

    return filters[0] == TERP && filters[1] == NO_FILTER;
}

bool
fuzz_dataset_begins_with_terp(const struct fuzz_dataset *dataset)
{
    const uint8_t *filters = pipeline_of(dataset->choices);

    for (int i = 1; i < MAX_NFILTERS; i++)
        if (filters[i] != NO_FILTER && filters[i] != DEFLATE &&
            filters[i] != FLETCHER)
            return false;
    return filters[0] == TERP;
}

static enum kind
last_filter(const uint8_t *choices, uint32_t mask)
{
    const uint8_t *filters = pipeline_of(choices);
    enum kind last = NO_FILTER;

    for (int i = 0; i < MAX_NFILTERS; i++)
        if (filters[i] != NO_FILTER && !(mask >> i & 1))
            last = (enum kind)filters[i];
    return last;
}

static void
deflate_stream(uint8_t **bytes, size_t *nbytes)
{
    uLongf less_nbytes = compressBound((uLong)*nbytes);
    uint8_t *less = malloc(less_nbytes + 4);

    CHECK(less != NULL);
    CHECK(compress2(less, &less_nbytes, *bytes, (uLong)*nbytes, 1) == Z_OK);
    free(*bytes);
    *bytes = less;
    *nbytes = less_nbytes;
}

/* Replaces a stream by the output of the filters behind terp. The buffer has
 * space for their checksums. */
static void
apply_filters(const uint8_t *choices, uint32_t mask, uint8_t **bytes,
              size_t *nbytes)
{
    const uint8_t *filters = pipeline_of(choices);
    bool behind = false;

    for (int i = 0; i < MAX_NFILTERS; i++) {
        if (behind && filters[i] == FLETCHER && !(mask >> i & 1)) {
            store_le(*bytes + *nbytes, fletcher32(*bytes, *nbytes), 4);
            *nbytes += 4;
        }
        if (behind && filters[i] == DEFLATE && !(mask >> i & 1))
            deflate_stream(bytes, nbytes);
        behind |= filters[i] == TERP;
    }
}

/* How the bytes stored for a chunk differ from the stream. */
enum change {
    AS_IT_IS,
    ABSENT,
    SHORTER,
    CHANGED,
    LONGER,
    CHANGED_BEHIND, /* after the filters behind terp */
    ONE_BYTE,
    NCHANGES
};

/* The bytes of a chunk before the filters behind terp, with space for their
 * checksums. */
static uint8_t *
make_stream(const struct fuzz_dataset *dataset, enum change change,
            size_t min_nbytes, size_t *nbytes_ret)
{
    const uint8_t *choices = dataset->choices;
    const size_t place = choices[FUZZ_PLACE];
    size_t nbytes = dataset->stream.nbytes;
    uint8_t *bytes = calloc(1, nbytes + min_nbytes + 32);

    CHECK(bytes != NULL);
    if (nbytes > 0)
        memcpy(bytes, dataset->stream.bytes, nbytes);
    if (change == SHORTER)
        nbytes -= place < nbytes ? place : nbytes;
    else if (change == CHANGED && nbytes > 0)
        bytes[place % nbytes] ^= choices[FUZZ_CHANGE];
    else if (change == LONGER)
        nbytes += place % 16;
    if (nbytes == 0 || change == ONE_BYTE)
        nbytes = 1;
    *nbytes_ret = nbytes < min_nbytes ? min_nbytes : nbytes;
    return bytes;
}

static void
store_chunk(struct fuzz_dataset *dataset, const hsize_t *at, int nth)
{
    const uint8_t *choices = dataset->choices;
    struct fuzz_stored *stored = &dataset->stored[dataset->nstored];
    const uint32_t mask =
        choices[FUZZ_MASK + nth] < 8 ? choices[FUZZ_MASK + nth] : 0;
    const enum kind last = last_filter(choices, mask);
    const size_t min_nbytes =
        compares_sizes(choices, mask) ? 0 : dataset->chunk_nbytes;
    enum change change = (enum change)(choices[FUZZ_STORED + nth] % NCHANGES);
    size_t nbytes;

    if (change == ABSENT || min_nbytes > MAX_PLAIN_NBYTES)
        return;
    if (change == CHANGED_BEHIND && last == TERP)
        change = CHANGED;
    uint8_t *bytes = make_stream(dataset, change, min_nbytes, &nbytes);
    *stored = (struct fuzz_stored){
        .mask = mask, .stream = malloc(nbytes), .stream_nbytes = nbytes};
    CHECK(stored->stream != NULL);
    memcpy(stored->stream, bytes, nbytes);
    memcpy(stored->at, at, sizeof stored->at);
    apply_filters(choices, mask, &bytes, &nbytes);
    if (change == CHANGED_BEHIND && choices[FUZZ_CHANGE] != 0) {
        bytes[choices[FUZZ_PLACE] % nbytes] ^= choices[FUZZ_CHANGE];
        stored->behind =
            last == FLETCHER ? FUZZ_BEHIND_NOTICES : FUZZ_BEHIND_UNKNOWN;
    }
    if (H5Dwrite_chunk(dataset->id, H5P_DEFAULT, mask, at, nbytes, bytes) >= 0)
        dataset->nstored++;
    else
        free(stored->stream);
    free(bytes);
}

/* HDF5 1.10.8 caches the chunk that it looked up last, with the filter mask
 * from before the chunk was written, until the file is reopened. So look up
 * another chunk. If there is no other chunk, take the mask that HDF5 reports;
 * it may undo filters that were not applied. */
static void
forget_last(struct fuzz_dataset *dataset, const hsize_t *other)
{
    struct fuzz_stored *stored = &dataset->stored[0];
    const uint32_t written = stored->mask;
    uint8_t bytes[4096];
    hsize_t nbytes;

    if (dataset->nstored != 1)
        return;
    if (other != NULL)
        H5Dget_chunk_storage_size(dataset->id, other, &nbytes);
    else if (H5Dget_chunk_storage_size(dataset->id, stored->at, &nbytes) >= 0 &&
             nbytes <= sizeof bytes)
        H5Dread_chunk(dataset->id, H5P_DEFAULT, stored->at, &stored->mask,
                      bytes);
    if (stored->mask != written)
        stored->behind = FUZZ_BEHIND_UNKNOWN;
}

/* HDF5 1.10.8 crashes when it makes chunks of an array whose number of values
 * exceeds 64 bits. */
static bool
may_have_chunks(const struct shape *shape)
{
    uint64_t nvalues = 1;

    for (int i = 0; i < shape->rank; i++) {
        if (shape->dims[i] == 0 || nvalues > UINT64_MAX / shape->dims[i])
            return false;
        nvalues *= shape->dims[i];
    }
    return shape->rank > 0;
}

static void
store_chunks(struct fuzz_dataset *dataset, const struct shape *shape)
{
    hsize_t at[H5S_MAX_RANK] = {0}, last[H5S_MAX_RANK];

    if (!may_have_chunks(shape))
        return;
    for (int nth = 0; nth < FUZZ_MAX_NSTORED; nth++) {
        store_chunk(dataset, at, nth);
        memcpy(last, at, sizeof last);
        int d = shape->rank - 1;
        while (d >= 0 && at[d] + shape->chunk[d] >= shape->dims[d])
            at[d--] = 0;
        if (d < 0) {
            forget_last(dataset, nth > 0 ? last : NULL);
            return;
        }
        at[d] += shape->chunk[d];
    }
    forget_last(dataset, at);
}

/* ---- a whole input ---- */

bool
fuzz_dataset_make(const uint8_t *data, size_t nbytes, const char *name,
                  struct fuzz_dataset *dataset_ret)
{
    struct fuzz_dataset *dataset = dataset_ret;
    const uint8_t *end = data + nbytes;
    struct shape shape = {0};

    if (nbytes < FUZZ_NCHOICES)
        return false;
    if (nmade++ == MAX_NMADE)
        make_files();
    *dataset = (struct fuzz_dataset){.choices = data};
    const uint8_t *words = data + FUZZ_NCHOICES;
    size_t nwords = data[FUZZ_NWORDS] % (FUZZ_MAX_NWORDS + 1);
    nwords = min_u64(nwords, (uint64_t)(end - words) / 4);
    const uint8_t *attributes = words + 4 * nwords, *at = attributes;
    const int nattributes = data[FUZZ_NATTRIBUTES] % (FUZZ_MAX_NATTRIBUTES + 1);
    for (int i = 0; i < nattributes && end - at > FUZZ_ATTRIBUTE_NBYTES; i++) {
        at += FUZZ_ATTRIBUTE_NBYTES + at[3];
        at = at < end ? at : end;
    }
    dataset->stream = fuzz_stream_make(at, (size_t)(end - at));

    if (!(data[FUZZ_FLAGS] & FUZZ_FROM_STREAM) ||
        !shape_from_stream(data, &dataset->stream, &shape))
        choose_shape(data, &shape);
    dataset->file = files[(data[FUZZ_FLAGS] & FUZZ_NEW_FORMAT) != 0];
    hid_t dcpl = make_dcpl(data, words, nwords, &shape);
    hid_t space = make_space(data, &shape);
    dataset->id = name == NULL
                      ? H5Dcreate_anon(dataset->file, shape.type, space, dcpl,
                                       H5P_DEFAULT)
                      : H5Dcreate2(dataset->file, name, shape.type, space,
                                   H5P_DEFAULT, dcpl, H5P_DEFAULT);
    H5Sclose(space);
    H5Pclose(dcpl);
    if (dataset->id < 0)
        return true;
    for (int i = 0; i < nattributes && end - attributes > FUZZ_ATTRIBUTE_NBYTES;
         i++) {
        const uint8_t *value = attributes + FUZZ_ATTRIBUTE_NBYTES;
        const size_t n = min_u64(attributes[3], (uint64_t)(end - value));
        fuzz_attribute_make(dataset->id, attributes, value, n);
        attributes = value + n;
    }
    dataset->chunk_nbytes = chunk_nbytes_of(&shape);
    store_chunks(dataset, &shape);
    return true;
}

void
fuzz_dataset_free(struct fuzz_dataset *dataset)
{
    if (dataset->id >= 0) {
        H5Dclose(dataset->id);
        CHECK(H5Fget_obj_count(dataset->file, H5F_OBJ_ALL) == 1);
    }
    for (int i = 0; i < dataset->nstored; i++)
        free(dataset->stored[i].stream);
    free(dataset->stream.bytes);
}
