/* A library that the plugin takes for a libhdf5 with one dataset. It is built
 * several times: with HDF5's names, with VTK's names, and into a program. Each
 * has its own dataset and counts the calls that it gets. */
#pragma once

#include <hdf5.h>
#include <stdbool.h>

/* A test's control of a host; dlsym("fake_host") finds it. */
struct fake_host {
    /* Calls of the plugin from inside the host. */
    herr_t (*set_local)(const H5Z_class2_t *filter);
    size_t (*filter)(const H5Z_class2_t *filter, unsigned flags, size_t nbytes,
                     size_t *buf_size, void **buf);
    void *(*allocate)(size_t nbytes);
    /* What the dataset stores, and what the plugin has printed and done. */
    unsigned words[20];
    size_t nwords;
    int nallocated, nreleased;
    char error[256];
    int nerrors;
    /* Acts as an HDF5 whose program left automatic printing on; or as one that
     * drops errors that a filter pushes. */
    bool prints, drops;
    /* Has no memory; refuses changes of what a dataset stores. */
    bool lacks_memory, keeps_words;
};
