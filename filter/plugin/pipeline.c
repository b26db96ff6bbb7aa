/* Checks the filters before and after terp, and removes useless ones.
 *
 * HDF5 calls each filter's set_local in the pipeline's order. It counts the
 * filters once, before the first call, and uses the list as it is after the
 * last call. So terp may remove filters before it only where terp is the last
 * one: no other filter is then skipped or called twice. This holds in HDF5 1.8
 * to 2.2, whose H5Premove_filter changes the list in place. */
#include "filter/plugin/pipeline.h"

#include <stdio.h>

#include "filter/plugin/h5z_terp.h"

/* HDF5's own limit, H5Z_MAX_NFILTERS: a pipeline has no more filters. */
#define MAX_NFILTERS 32

struct pipeline {
    int nfilters, terp_at;
    H5Z_filter_t filter[MAX_NFILTERS];
    unsigned flags[MAX_NFILTERS];
    char name[MAX_NFILTERS][TERP_PIPELINE_NAME_NBYTES];
};

/* Filters that treat their input as numbers of the dataset's type, so that they
 * do not preserve a stream's bytes. By registered number; any other filter is
 * expected to preserve bytes. */
static const struct {
    H5Z_filter_t filter;
    const char *name;
} numeric_filters[] = {
    {H5Z_FILTER_NBIT, "nbit"},
    {H5Z_FILTER_SCALEOFFSET, "scaleoffset"},
    {32013, "zfp"},
    {32014, "fpzip"},
    {32016, "B3D"},
    {32017, "SZ"},
    {32018, "fcidecomp"},
    {32019, "JPEG"},
    {32022, "BitGroom"},
    {32023, "Granular BitRound"},
    {32024, "SZ3"},
    {32028, "SPERR"},
    {32033, "HTJ2K"},
    {H5Z_FILTER_TERP, "a second terp"},
};

/* False where the host does not tell every filter. */
static bool
read_pipeline(const struct terp_host *host, hid_t dcpl,
              struct pipeline *pipeline)
{
    int (*count)(hid_t);
    H5Z_filter_t (*get_filter)(hid_t, unsigned, unsigned *, size_t *,
                               unsigned *, size_t, char *, unsigned *);
    unsigned config;

    if (!terp_host_find(host, "H5Pget_filter2", &get_filter))
        return false;
    /* A program that is linked with libhdf5.a may lack H5Pget_nfilters. */
    pipeline->nfilters =
        terp_host_find(host, "H5Pget_nfilters", &count) ? count(dcpl) : 1;
    pipeline->terp_at = -1;
    if (pipeline->nfilters < 0 || pipeline->nfilters > MAX_NFILTERS)
        return false;
    for (int i = 0; i < pipeline->nfilters; i++) {
        size_t nwords = 0;
        pipeline->name[i][0] = '\0';
        pipeline->filter[i] =
            get_filter(dcpl, (unsigned)i, &pipeline->flags[i], &nwords, NULL,
                       sizeof pipeline->name[i], pipeline->name[i], &config);
        pipeline->name[i][sizeof pipeline->name[i] - 1] = '\0';
        if (pipeline->filter[i] < 0)
            return false;
        if (pipeline->filter[i] == H5Z_FILTER_TERP && pipeline->terp_at < 0)
            pipeline->terp_at = i;
    }
    return pipeline->terp_at >= 0;
}

/* Functions that change a pipeline. */
struct tools {
    herr_t (*remove)(hid_t, H5Z_filter_t);
    herr_t (*set)(hid_t, H5Z_filter_t, unsigned, size_t, const unsigned *);
    herr_t (*modify)(hid_t, H5Z_filter_t, unsigned, size_t, const unsigned *);
};

static bool
find_tools(const struct terp_host *host, struct tools *tools)
{
    return terp_host_find(host, "H5Premove_filter", &tools->remove) &&
           terp_host_find(host, "H5Pset_filter", &tools->set) &&
           terp_host_find(host, "H5Pmodify_filter", &tools->modify);
}

/* The first filter before terp that cannot be removed or made harmless; -1:
 * none. Where terp is not the last filter, one shuffle may stay before it and
 * is made to do nothing. */
static int
find_in_the_way(const struct pipeline *pipeline)
{
    const bool is_last = pipeline->terp_at == pipeline->nfilters - 1;

    for (int i = 0; i < pipeline->terp_at; i++) {
        const H5Z_filter_t filter = pipeline->filter[i];
        const bool can_go =
            is_last ? filter == H5Z_FILTER_SHUFFLE ||
                          filter == H5Z_FILTER_FLETCHER32
                    : filter == H5Z_FILTER_SHUFFLE && pipeline->terp_at == 1;
        if (!can_go)
            return i;
    }
    return -1;
}

static const char *
find_behind(const struct pipeline *pipeline)
{
    for (int i = pipeline->terp_at + 1; i < pipeline->nfilters; i++)
        for (size_t k = 0; k < sizeof numeric_filters / sizeof *numeric_filters;
             k++)
            if (pipeline->filter[i] == numeric_filters[k].filter)
                return numeric_filters[k].name;
    return NULL;
}

static void
set_name(const char *name, char name_ret[TERP_PIPELINE_NAME_NBYTES])
{
    snprintf(name_ret, TERP_PIPELINE_NAME_NBYTES, "%s", name);
}

enum terp_pass
terp_pipeline_check(const struct terp_host *host, hid_t dcpl,
                    char name_ret[TERP_PIPELINE_NAME_NBYTES])
{
    struct pipeline pipeline;

    name_ret[0] = '\0';
    if (!read_pipeline(host, dcpl, &pipeline))
        return TERP_PASS_UNKNOWN_LAYOUT;
    const char *behind = find_behind(&pipeline);
    if (behind != NULL) {
        set_name(behind, name_ret);
        return TERP_PASS_BEHIND;
    }
    struct tools tools;
    int at = find_in_the_way(&pipeline);
    if (at < 0 && pipeline.terp_at > 0 && !find_tools(host, &tools))
        at = 0;
    if (at < 0)
        return TERP_PASS_NONE;
    set_name(pipeline.name[at][0] != '\0' ? pipeline.name[at] : "a filter",
             name_ret);
    return TERP_PASS_NOT_FIRST;
}

/* Removes all filters before terp, and adds a checksum again after terp. */
static bool
remove_before(const struct tools *tools, hid_t dcpl,
              const struct pipeline *pipeline)
{
    int fletcher_at = -1;

    for (int i = 0; i < pipeline->terp_at; i++) {
        if (tools->remove(dcpl, pipeline->filter[i]) < 0)
            return false;
        if (pipeline->filter[i] == H5Z_FILTER_FLETCHER32)
            fletcher_at = i;
    }
    return fletcher_at < 0 ||
           tools->set(dcpl, H5Z_FILTER_FLETCHER32, pipeline->flags[fletcher_at],
                      0, NULL) >= 0;
}

bool
terp_pipeline_clear(const struct terp_host *host, hid_t dcpl)
{
    /* A shuffle of 1-byte values moves no byte, in any version of HDF5. */
    static const unsigned value_nbytes = 1;
    struct pipeline pipeline;
    struct tools tools;

    if (!read_pipeline(host, dcpl, &pipeline))
        return false;
    if (pipeline.terp_at == 0)
        return true;
    if (find_in_the_way(&pipeline) >= 0 || !find_tools(host, &tools))
        return false;
    return pipeline.terp_at == pipeline.nfilters - 1
               ? remove_before(&tools, dcpl, &pipeline)
               : tools.modify(dcpl, H5Z_FILTER_SHUFFLE, pipeline.flags[0], 1,
                              &value_nbytes) >= 0;
}
