/* The layout of inputs that describe datasets (fuzz/datasets.h): bytes that
 * each choose one property, cd_values as words of 4 bytes, attributes, and a
 * stream to the end. */
#pragma once

enum fuzz_choice {
    FUZZ_FLAGS,   /* FUZZ_FROM_STREAM, ... */
    FUZZ_TYPE,    /* an entry of the list of types */
    FUZZ_RANK,    /* 0 to 32, often one that a stream may have */
    FUZZ_LAYOUT,  /* chunked for most choices */
    FUZZ_FILTERS, /* an entry of the list of pipelines */
    FUZZ_NWORDS,  /* number of cd_values in the input */
    FUZZ_NATTRIBUTES,
    FUZZ_FILL,                    /* the fill value, and when HDF5 writes it */
    FUZZ_EXTENT,                  /* 8 bytes, one for each dimension modulo 8 */
    FUZZ_CHUNK = FUZZ_EXTENT + 8, /* 8 bytes, likewise */
    FUZZ_STORED = FUZZ_CHUNK + 8, /* 4 bytes: a change of each chunk */
    FUZZ_MASK = FUZZ_STORED + 4,  /* 4 bytes: filter masks of chunks */
    FUZZ_ACTIONS = FUZZ_MASK + 4, /* for the target */
    FUZZ_ACTIONS_MORE,
    FUZZ_PLACE, /* position of a changed byte in a stream */
    FUZZ_CHANGE,
    FUZZ_NCHOICES
};

#define FUZZ_FROM_STREAM 1u /* type and chunk shape are the stream's */
#define FUZZ_LOCAL_WORDS 2u /* the filter makes the cd_values */
#define FUZZ_NEW_FORMAT 4u  /* HDF5's latest file format, not its earliest */
#define FUZZ_UNLIMITED 8u   /* the extents may grow */
#define FUZZ_EDGES 16u      /* partial chunks are not filtered */

/* Attributes in an input: a byte each for name, type, dataspace and number of
 * bytes, then the bytes. */
#define FUZZ_ATTRIBUTE_NBYTES 4
#define FUZZ_MAX_NATTRIBUTES 4
#define FUZZ_MAX_NWORDS 40
#define FUZZ_MAX_NSTORED 4
