/* Gives new datasets chunks and the filter, by rules. */
#include "vol/create.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/format/base.h"
#include "filter/plugin/call.h"
#include "vol/rules.h"

/* Fewer values are hardly worth a chunk's place in the file's index. */
#ifndef VOL_CREATE_MIN_NVALUES
#define VOL_CREATE_MIN_NVALUES 4096
#endif

/* Of a chunk: 64^3, from where on ratios hardly grow; 1 to 2 MiB. */
#ifndef VOL_CHUNK_NVALUES
#define VOL_CHUNK_NVALUES ((uint64_t)1 << 18)
#endif

/* A program that writes one row of the slowest dim after the other must find
 * each chunk in the cache until it is full: coded more than once, it takes its
 * time as often, and its error grows. */
#define MAX_CACHE_NBYTES ((uint64_t)256 << 20)
#define MIN_CACHE_NBYTES ((uint64_t)1 << 20) /* HDF5's own */

struct extent {
    int rank;
    hsize_t dims[H5S_MAX_RANK];
    uint64_t nvalues;
};

/* The dataset's path, which the caller frees; NULL where it has no name yet. */
static char *
read_path(const struct vol_creation *creation)
{
    const struct vol_library *library = creation->parent->library;
    const struct vol_loc self = {.obj_type = creation->loc->obj_type,
                                 .type = VOL_BY_SELF};
    size_t length = 0;
    struct vol_object_get get = {VOL_OBJECT_GET_NAME,
                                 {.name = {.nbytes_ret = &length}}};

    if (creation->name == NULL)
        return NULL;
    if (*creation->name != '/' &&
        library->H5VLobject_get(creation->parent->under, &self,
                                creation->parent->vol, &get, creation->dxpl,
                                NULL) < 0)
        length = 0;
    char *path = calloc(1, length + strlen(creation->name) + 2);
    if (path == NULL)
        return NULL;
    get.args.name.buf = path;
    get.args.name.buf_nbytes = length + 1;
    if (length > 0 && library->H5VLobject_get(creation->parent->under, &self,
                                              creation->parent->vol, &get,
                                              creation->dxpl, NULL) < 0)
        *path = '\0';
    length = strlen(path);
    if (*creation->name != '/' && (length == 0 || path[length - 1] != '/'))
        path[length++] = '/';
    strcpy(path + length, creation->name);
    return path;
}

static bool
read_extent(const struct vol_library *library, hid_t space,
            struct extent *extent)
{
    extent->rank = library->H5Sget_simple_extent_ndims(space);
    if (library->H5Sget_simple_extent_type(space) != H5S_SIMPLE ||
        extent->rank < 1 || extent->rank > H5S_MAX_RANK ||
        library->H5Sget_simple_extent_dims(space, extent->dims, NULL) < 0)
        return false;
    extent->nvalues = 1;
    for (int d = 0; d < extent->rank; d++)
        extent->nvalues *= extent->dims[d];
    return true;
}

/* 4 or 8; 0 of a type that terp does not compress. */
static unsigned
read_value_nbytes(const void *caller, const struct vol_library *library,
                  hid_t type)
{
    static const char *const variables[] = {
        "H5T_IEEE_F32LE_g", "H5T_IEEE_F32BE_g", "H5T_IEEE_F64LE_g",
        "H5T_IEEE_F64BE_g"};
    unsigned nbytes = 0;
    struct terp_host host;
    hid_t known;

    terp_host_open(caller, &host);
    for (unsigned i = 0; nbytes == 0 && i < 4; i++)
        if (terp_host_find_id(&host, variables[i], &known) &&
            library->H5Tequal(type, known) > 0)
            nbytes = i < 2 ? 4 : 8;
    terp_host_close(&host);
    return nbytes;
}

/* The longest side is halved until a chunk has no more values than wanted. */
static void
choose_chunk(const struct extent *extent, hsize_t *chunk_ret)
{
    uint64_t nvalues = extent->nvalues;

    memcpy(chunk_ret, extent->dims, sizeof extent->dims);
    while (nvalues > VOL_CHUNK_NVALUES) {
        int longest = 0;
        for (int d = 1; d < extent->rank; d++)
            if (chunk_ret[d] > chunk_ret[longest])
                longest = d;
        nvalues /= chunk_ret[longest];
        chunk_ret[longest] = div_up(chunk_ret[longest], 2);
        nvalues *= chunk_ret[longest];
    }
}

/* A cache for all chunks with the same place in the slowest dim. */
static bool
set_cache(const struct vol_library *library, hid_t dapl,
          const struct extent *extent, const hsize_t *chunk,
          unsigned value_nbytes)
{
    uint64_t nbytes = chunk[0] * value_nbytes, nchunks = 1;

    for (int d = 1; d < extent->rank; d++) {
        uint64_t n = div_up(extent->dims[d], chunk[d]);
        nchunks *= n;
        nbytes *= n * chunk[d];
    }
    nbytes = min_u64(nbytes, MAX_CACHE_NBYTES);
    if (nbytes < MIN_CACHE_NBYTES)
        nbytes = MIN_CACHE_NBYTES;
    /* Ten slots for each chunk, as HDF5 advises; full chunks go first. */
    return library->H5Pset_chunk_cache(dapl, 10 * nchunks + 521, nbytes, 1.0) >=
           0;
}

/* Of a chunk, where there are chunks: such a dataset may have no values yet. */
static uint64_t
count_values(const struct vol_library *library, hid_t dcpl,
             const struct extent *extent)
{
    hsize_t chunk[H5S_MAX_RANK];
    uint64_t nvalues = 1;

    if (library->H5Pget_layout(dcpl) != H5D_CHUNKED)
        return extent->nvalues;
    if (library->H5Pget_chunk(dcpl, H5S_MAX_RANK, chunk) != extent->rank)
        return 0;
    for (int d = 0; d < extent->rank; d++)
        nvalues *= chunk[d];
    return nvalues;
}

/* Why the dataset stays as it is; NULL where it need not. */
static const char *
reason_to_leave(const struct vol_library *library,
                const struct vol_creation *creation,
                const struct extent *extent, unsigned value_nbytes)
{
    H5D_layout_t layout = library->H5Pget_layout(creation->dcpl);

    if (value_nbytes == 0)
        return "its type has no bound: it is neither float32 nor float64";
    if (count_values(library, creation->dcpl, extent) < VOL_CREATE_MIN_NVALUES)
        return "it has few values";
    if (layout != H5D_CHUNKED &&
        (layout != H5D_CONTIGUOUS ||
         library->H5Pget_external_count(creation->dcpl) != 0))
        return "its layout has no chunks";
    if (library->H5Pget_nfilters(creation->dcpl) != 0)
        return "it has filters already";
    if (vol_object_is_shared(creation->parent, creation->loc->obj_type,
                             creation->dxpl))
        return "several processes may have its file open";
    return NULL;
}

/* The lists with the rule in them; false where HDF5 refuses that. */
static bool
make_lists(const struct vol_library *library,
           const struct H5Z_terp_config *config, const struct extent *extent,
           unsigned value_nbytes, struct vol_creation *creation)
{
    unsigned words[H5Z_TERP_MAX_NWORDS];
    size_t nwords = H5Z_terp_cd_values(config, words);
    hid_t dcpl = library->H5Pcopy(creation->dcpl);
    hid_t dapl = library->H5Pcopy(creation->dapl);
    hsize_t chunk[H5S_MAX_RANK];
    bool works = dcpl >= 0 && dapl >= 0;

    if (works && library->H5Pget_layout(dcpl) == H5D_CONTIGUOUS) {
        choose_chunk(extent, chunk);
        works = library->H5Pset_chunk(dcpl, extent->rank, chunk) >= 0 &&
                set_cache(library, dapl, extent, chunk, value_nbytes);
    }
    if (works && library->H5Pset_filter(dcpl, H5Z_FILTER_TERP, config->flags,
                                        nwords, words) >= 0) {
        creation->dcpl = dcpl;
        creation->dapl = dapl;
        return true;
    }
    if (dcpl >= 0)
        library->H5Pclose(dcpl);
    if (dapl >= 0)
        library->H5Pclose(dapl);
    return false;
}

/* Wrong rules are told once, since every dataset would tell of them. */
static void
say_wrong(const struct terp_call *call, const char *reason)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;

    if (!call->quiet && (!atomic_flag_test_and_set(&said) || call->verbose))
        fprintf(stderr, "H5Z-TERP: TERP_RULES: %s; no rule is used\n", reason);
}

/* Applies a rule to the dataset at `path`, for which there is one. */
static bool
apply(const void *caller, const struct terp_call *call, const char *path,
      const struct H5Z_terp_config *config, struct vol_creation *creation)
{
    const struct vol_library *library = creation->parent->library;
    unsigned value_nbytes = read_value_nbytes(caller, library, creation->type);
    struct extent extent;

    const char *reason =
        read_extent(library, creation->space, &extent)
            ? reason_to_leave(library, creation, &extent, value_nbytes)
            : "it is no array";
    if (reason == NULL &&
        !make_lists(library, config, &extent, value_nbytes, creation))
        reason = "HDF5 does not find the filter";
    if (reason != NULL)
        terp_call_say(call, "rules: %s is not compressed: %s",
                      path == NULL ? "(no name)" : path, reason);
    else
        terp_call_say(call, "rules: %s is compressed, mode %u, bound %g",
                      path == NULL ? "(no name)" : path, config->bound_mode,
                      config->bound);
    return reason == NULL;
}

bool
vol_create_apply(const void *caller, struct vol_creation *creation)
{
    const char *rules = getenv("TERP_RULES");
    char reason[VOL_REASON_NBYTES];
    struct H5Z_terp_config config;
    struct terp_call call;
    bool applied = false;

    if (rules == NULL || *rules == '\0')
        return false;
    char *path = read_path(creation);
    terp_call_begin(caller, &call);
    enum vol_rule rule = vol_rules_find(rules, path, &config, reason);
    if (rule == VOL_RULE_WRONG)
        say_wrong(&call, reason);
    if (rule == VOL_RULE_LEAVE && path == NULL)
        terp_call_say(&call, "rules: a dataset without name is not compressed");
    if (rule == VOL_RULE_APPLY)
        applied = apply(caller, &call, path, &config, creation);
    terp_host_close(&call.host);
    free(path);
    return applied;
}

void
vol_create_close(const struct vol_creation *creation)
{
    const struct vol_library *library = creation->parent->library;

    library->H5Pclose(creation->dcpl);
    library->H5Pclose(creation->dapl);
}

void
vol_create_give_up(const void *caller, const char *name)
{
    struct terp_call call;

    terp_call_begin(caller, &call);
    terp_call_say(&call, "rules: %s is not compressed: HDF5 failed",
                  name == NULL ? "(no name)" : name);
    terp_host_close(&call.host);
}
