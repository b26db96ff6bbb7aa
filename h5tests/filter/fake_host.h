/* A library that looks to the plugin like a libhdf5 with one dataset in it.
 * It is built several times: with HDF5's names, with those of VTK, and into a
 * program. Each knows a dataset of its own and counts what it is asked. */
#pragma once

#include <hdf5.h>
#include <stdbool.h>

/* What a test may do with a host, through dlsym("fake_host"). */
struct fake_host {
    /* Calls of the plugin that come from inside the host. */
    herr_t (*set_local)(const H5Z_class2_t *filter);
    size_t (*filter)(const H5Z_class2_t *filter, unsigned flags, size_t nbytes,
                     size_t *buf_size, void **buf);
    void *(*allocate)(size_t nbytes);
    /* What the dataset keeps, and what the plugin has said and done. */
    unsigned words[20];
    size_t nwords;
    int nallocated, nreleased;
    char error[256];
    int nerrors;
    /* As an HDF5 whose program has left automatic printing on, and as one that
     * drops what a filter puts on its error stack. */
    bool prints, drops;
    /* Has no memory; lets nobody change what a dataset keeps. */
    bool lacks_memory, keeps_words;
};
