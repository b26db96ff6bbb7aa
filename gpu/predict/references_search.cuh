/* The search for values that repeat others, of one chunk: what
 * cpu/references_find.c does, by the same rules
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
    uint64_t infinity; /* of floats, its bits */
    uint64_t fill[2];
    bool has_fill[2];
};

/* What the search finds out, on the device; begins as CUDA_SEEN_NOTHING. */
struct cuda_seen {
    unsigned long long nusable, most; /* most: the largest usable word */
    unsigned long long missing;       /* an integer that no value is */
    unsigned has_marker;              /* some value is a float's marker */
    uint64_t saved;                   /* in 1/16 bit */
    uint64_t nreferences;
};
#define CUDA_SEEN_NOTHING         \
    {                             \
        0, 0, UINT64_MAX, 0, 0, 0 \
    }

/* Points that refer are counted by so many values. */
#define CUDA_LIST_NVALUES 2048

/* Where the search works, all in device memory. */
struct cuda_search {
    struct cuda_seen *seen;
    void *values;    /* [nvalues] little-endian; in the end markers, too */
    uint64_t *words; /* [nvalues] */
    uint8_t *usable; /* [nvalues] */
    uint32_t *keys, *hints; /* [nvalues] */
    uint32_t *table;        /* 2 [1 << table_nbits]: keys, points */
    int table_nbits;        /* cuda_search_table_nbits */
    struct terp_reference_tile *tiles;
    uint32_t *changed;          /* [32] */
    uint64_t *ranks;            /* [nvalues / CUDA_LIST_NVALUES, rounded up] */
    uint32_t *sources, *points; /* [nvalues]; points: that refer, in order */
};

static inline int
cuda_search_table_nbits(uint64_t nvalues)
{
    return bit_width(nvalues + nvalues / 4);
}

/* values, words, usable; seen: nusable, most, missing, has_marker. */
cudaError_t
cuda_references_compare(const struct cuda_referring *of, uint64_t marker,
                        const struct cuda_search *search, cudaStream_t stream);

/* sources, points; seen: saved, nreferences. `repeats`: how values are told
 * apart, with the pointers of `search`. */
cudaError_t
cuda_references_search(const struct terp_repeats *repeats,
                       const struct cuda_search *search, cudaStream_t stream);

/* Puts markers in place of the values at search->points, and lists how far from
 * them their sources are. */
cudaError_t
cuda_references_list(const struct cuda_referring *of, uint64_t marker,
                     const struct cuda_search *search, uint64_t nreferences,
                     uint32_t *distances, cudaStream_t stream);

/* How the values at search->points differ from their sources, which a decoder
 * has as `decoded`; under a bound above 0 by the sign alone, where that will
 * do. */
cudaError_t
cuda_references_differ(const struct cuda_referring *of,
                       struct terp_reference_bound bound,
                       const struct cuda_search *search, const void *decoded,
                       uint64_t nreferences, uint64_t *differences,
                       cudaStream_t stream);
