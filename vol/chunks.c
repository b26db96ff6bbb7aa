/* Chooses chunk dims, and the size of the chunk cache. */
#include "vol/chunks.h"

#include "codec/format/base.h"

/* The most values of a chunk that terp chooses: 64^3, or 1 to 2 MiB. Larger
 * chunks hardly give better ratios. Tests set a smaller number. */
#ifndef VOL_CHUNK_NVALUES
#define VOL_CHUNK_NVALUES ((uint64_t)1 << 18)
#endif

/* Bounds of the chunk cache that a dataset gets. A program that writes one row
 * of the slowest dim after another should find each chunk in the cache until
 * the chunk is full: a chunk that leaves the cache earlier is coded several
 * times, which takes time, and each coding adds its error. The upper bound
 * limits the program's memory (doc/vol.md); the lower one is HDF5's default. */
#define MAX_CACHE_NBYTES ((uint64_t)256 << 20)
#define MIN_CACHE_NBYTES ((uint64_t)1 << 20)

bool
vol_extent_read(const struct vol_library *library, hid_t space,
                struct vol_extent *extent)
{
    extent->rank = library->H5Sget_simple_extent_ndims(space);
    if (library->H5Sget_simple_extent_type(space) != H5S_SIMPLE ||
        extent->rank < 1 || extent->rank > H5S_MAX_RANK ||
        library->H5Sget_simple_extent_dims(space, extent->dims, extent->max) <
            0)
        return false;
    extent->nvalues = 1;
    extent->grows = false;
    for (int d = 0; d < extent->rank; d++) {
        extent->nvalues *= extent->dims[d];
        extent->grows |= extent->max[d] > extent->dims[d];
    }
    return true;
}

/* Halves the longest side until the chunk has at most VOL_CHUNK_NVALUES. */
static void
cut_chunk(int rank, uint64_t nvalues, hsize_t *chunk)
{
    while (nvalues > VOL_CHUNK_NVALUES) {
        int longest = 0;
        for (int d = 1; d < rank; d++)
            if (chunk[d] > chunk[longest])
                longest = d;
        nvalues /= chunk[longest];
        chunk[longest] = div_up(chunk[longest], 2);
        nvalues *= chunk[longest];
    }
}

/* The shortest side that may be doubled; -1: none. */
static int
find_side_to_double(const struct vol_extent *extent, const hsize_t *chunk)
{
    int found = -1;

    for (int d = 0; d < extent->rank; d++)
        if (extent->max[d] > extent->dims[d] &&
            chunk[d] <= extent->max[d] / 2 &&
            (found < 0 || chunk[d] < chunk[found]))
            found = d;
    return found;
}

void
vol_chunks_choose(const struct vol_extent *extent, const hsize_t *wanted,
                  hsize_t chunk[H5S_MAX_RANK])
{
    uint64_t nvalues = 1;

    for (int d = 0; d < extent->rank; d++) {
        chunk[d] = wanted != NULL && extent->max[d] > extent->dims[d]
                       ? wanted[d]
                       : extent->dims[d];
        /* The product overflows only for invalid dims. */
        if (!mul_fits(nvalues, chunk[d], &nvalues))
            nvalues = UINT64_MAX;
    }
    for (int d = find_side_to_double(extent, chunk);
         d >= 0 && nvalues > 0 && nvalues <= VOL_CHUNK_NVALUES / 2;
         d = find_side_to_double(extent, chunk)) {
        chunk[d] *= 2;
        nvalues *= 2;
    }
    cut_chunk(extent->rank, nvalues, chunk);
}

bool
vol_chunks_set_cache(const struct vol_library *library, hid_t dapl,
                     const struct vol_extent *extent, const hsize_t *chunk,
                     unsigned value_nbytes)
{
    uint64_t nbytes = chunk[0] * value_nbytes, nchunks = 1;
    size_t nslots, own_nbytes;
    double priority;

    for (int d = 1; d < extent->rank; d++) {
        uint64_t n = div_up(extent->dims[d], chunk[d]);
        n = n > 0 ? n : 1;
        nchunks *= n;
        nbytes *= n * chunk[d];
    }
    nbytes = min_u64(nbytes, MAX_CACHE_NBYTES);
    if (nbytes < MIN_CACHE_NBYTES)
        nbytes = MIN_CACHE_NBYTES;
    if (library->H5Pget_chunk_cache(dapl, &nslots, &own_nbytes, &priority) < 0)
        return false;
    if (own_nbytes > nbytes)
        nbytes = own_nbytes;
    /* HDF5's manual recommends ten slots per chunk. 1.0: full chunks leave
     * first. */
    return library->H5Pset_chunk_cache(dapl, 10 * nchunks + 521, nbytes, 1.0) >=
           0;
}
