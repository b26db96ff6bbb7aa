/* terp repack: registers substitutes for missing filters. */
#include "tools/repack/filters.h"

#include <stdio.h>

/* HDF5 has at most 32 filters in a pipeline. */
#define MAX_NSTAND_INS 32

/* Longer names of filters are cut in messages. */
#define NAME_NBYTES 64

/* HDF5 keeps pointers to the names. */
static struct {
    H5Z_filter_t filter;
    char name[NAME_NBYTES];
} stand_ins[MAX_NSTAND_INS];
static int nstand_ins;

/* The number of a dataset's filter, and its name in the file. */
static H5Z_filter_t
name_filter(const struct tool_dataset *dataset, int i, char *name,
            size_t name_cap)
{
    unsigned flags, config;
    size_t nwords = 0;

    name[0] = '\0';
    const H5Z_filter_t filter =
        H5Pget_filter2(dataset->dcpl, (unsigned)i, &flags, &nwords, NULL,
                       name_cap, name, &config);
    name[name_cap - 1] = '\0';
    return filter;
}

void
repack_missing_filter(const struct tool_dataset *dataset, char *text_ret,
                      size_t text_cap)
{
    char name[NAME_NBYTES];

    text_ret[0] = '\0';
    for (int i = 0; i < dataset->nfilters; i++) {
        const H5Z_filter_t filter = name_filter(dataset, i, name, sizeof name);
        if (H5Zfilter_avail(filter) > 0)
            continue;
        if (name[0] != '\0')
            snprintf(text_ret, text_cap, "'%s' (%d)", name, filter);
        else
            snprintf(text_ret, text_cap, "%d", filter);
        return;
    }
}

/* HDF5 filters fill values when it creates a dataset with early allocation;
 * repack overwrites these chunks. Reading fails. */
static size_t
pass_through(unsigned flags, size_t nwords, const unsigned *words,
             size_t nbytes, size_t *cap_nbytes, void **bytes)
{
    (void)nwords;
    (void)words;
    (void)cap_nbytes;
    (void)bytes;
    return flags & H5Z_FLAG_REVERSE ? 0 : nbytes;
}

/* Registers a substitute for one filter; `name` is its name in the file. */
static bool
stand_in_for(H5Z_filter_t filter, const char *name)
{
    if (nstand_ins == MAX_NSTAND_INS)
        return false;
    char *kept = stand_ins[nstand_ins].name;
    const H5Z_class2_t class = {.version = H5Z_CLASS_T_VERS,
                                .id = filter,
                                .encoder_present = 1,
                                .decoder_present = 1,
                                .name = name[0] != '\0' ? kept : NULL,
                                .filter = pass_through};

    snprintf(kept, NAME_NBYTES, "%s", name);
    if (H5Zregister(&class) < 0)
        return false;
    stand_ins[nstand_ins++].filter = filter;
    return true;
}

bool
repack_stand_in(const struct tool_dataset *dataset)
{
    char name[NAME_NBYTES];

    for (int i = 0; i < dataset->nfilters; i++) {
        const H5Z_filter_t filter = name_filter(dataset, i, name, sizeof name);
        if (H5Zfilter_avail(filter) <= 0 && !stand_in_for(filter, name))
            return false;
    }
    return true;
}

void
repack_stand_in_end(void)
{
    while (nstand_ins > 0)
        (void)H5Zunregister(stand_ins[--nstand_ins].filter);
}
