/* The search for values that repeat others, in one chunk.
 * cpu/predict/references_find.c does the same by the same rules
 * (codec/model/reference_search.h). */
#pragma once

#include "codec/model/reference_search.h"
#include "gpu/engine/platform.cuh"

/* A chunk's values. */
struct cuda_referring {
    const void *original; /* in the chunk's byte order */
    uint64_t nvalues;
    enum terp_type type;
    int value_nbytes;
    bool is_float, big_endian;
    uint64_t infinity; /* its bits, for floats */
    uint64_t fill[2];
    bool has_fill[2];
};

/* The results of the search, in device memory. The caller sets them to
 * CUDA_SEEN_NOTHING before. */
struct cuda_seen {
    unsigned long long nusable, most; /* most: the largest usable word */
    unsigned long long missing;       /* an integer that does not occur */
    unsigned has_marker;              /* a value equals the marker of floats */
    uint64_t saved;                   /* in 1/16 bit */
    uint64_t nreferences;
};
#define CUDA_SEEN_NOTHING         \
    {                             \
        0, 0, UINT64_MAX, 0, 0, 0 \
    }

/* Values in which a block counts points that refer: 256 threads of 8 values. */
#define CUDA_LIST_NVALUES 2048

/* The memory of the search, all of it on the device. */
struct cuda_search {
    struct cuda_seen *seen;
    void *values;    /* [nvalues] little-endian; in the end with markers */
    uint64_t *words; /* [nvalues] */
    uint8_t *usable; /* [nvalues] */
    uint32_t *keys, *hints; /* [nvalues] */
    uint32_t *table;        /* 2 [1 << table_nbits]: keys, points */
    int table_nbits;        /* cuda_search_table_nbits */
    struct terp_reference_tile *tiles;
    uint32_t *changed; /* [32] */
    uint64_t *nbefore; /* [nvalues / CUDA_LIST_NVALUES, rounded up] */
    /* [nvalues]; points: the points that refer, in order */
    uint32_t *sources, *points;
};

static inline int
cuda_search_table_nbits(uint64_t nvalues)
{
    return bit_width(nvalues + nvalues / 4);
}

/* Fills `values`, `words` and `usable`, and the members nusable, most, missing
 * and has_marker of `seen`. */
cudaError_t
cuda_references_compare(const struct cuda_referring *of, uint64_t marker,
                        const struct cuda_search *search, cudaStream_t stream);

/* Fills `sources` and `points`, and the members saved and nreferences of
 * `seen`. `repeats` says how values are compared, and holds the pointers of
 * `search`. */
cudaError_t
cuda_references_search(const struct terp_repeats *repeats,
                       const struct cuda_search *search, cudaStream_t stream);

/* Replaces the values at search->points by markers, and lists the distances to
 * their sources. */
cudaError_t
cuda_references_list(const struct cuda_referring *of, uint64_t marker,
                     const struct cuda_search *search, uint64_t nreferences,
                     uint32_t *distances, cudaStream_t stream);

/* Lists the differences of the values at search->points from their sources, as
 * a decoder will have them in `decoded`. Under a bound above 0 the difference
 * is only a sign, if that keeps the bound. */
cudaError_t
cuda_references_differ(const struct cuda_referring *of,
                       struct terp_reference_bound bound,
                       const struct cuda_search *search, const void *decoded,
                       uint64_t nreferences, uint64_t *differences,
                       cudaStream_t stream);
