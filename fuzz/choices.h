/* Inputs of which datasets are made (fuzz/datasets.h). They begin with bytes
 * that choose; cd_values follow, words of 4 bytes, and attributes, and then a
 * stream, to the end. */
#pragma once

enum fuzz_choice {
    FUZZ_FLAGS,   /* FUZZ_FROM_STREAM, ... */
    FUZZ_TYPE,    /* an entry of the list of types */
    FUZZ_RANK,    /* 0 to 32, often what a stream may have */
    FUZZ_LAYOUT,  /* chunked, most often */
    FUZZ_FILTERS, /* an entry of the list of pipelines */
    FUZZ_NWORDS,  /* cd_values in the input */
    FUZZ_NATTRIBUTES,
    FUZZ_FILL,   /* fill value, and when it is written */
    FUZZ_EXTENT, /* 8: of a dimension; further ones begin anew */
    FUZZ_CHUNK = FUZZ_EXTENT + 8, /* 8: likewise */
    FUZZ_STORED = FUZZ_CHUNK + 8, /* 4: what is made of the stream */
    FUZZ_MASK = FUZZ_STORED + 4,  /* 4: the chunks' filter masks */
    FUZZ_ACTIONS = FUZZ_MASK + 4, /* for the target */
    FUZZ_ACTIONS_MORE,
    FUZZ_PLACE, /* of a changed byte in a stream */
    FUZZ_CHANGE,
    FUZZ_NCHOICES
};

#define FUZZ_FROM_STREAM 1u /* type and chunk are those of the stream */
#define FUZZ_LOCAL_WORDS 2u /* cd_values are as the filter makes them */
#define FUZZ_NEW_FORMAT 4u  /* HDF5's latest file format, not the earliest */
#define FUZZ_UNLIMITED 8u   /* the extents may grow */
#define FUZZ_EDGES 16u      /* partial chunks stay unfiltered */

/* Attributes in an input: name, type, dataspace, number of bytes; the bytes. */
#define FUZZ_ATTRIBUTE_NBYTES 4
#define FUZZ_MAX_NATTRIBUTES 4
#define FUZZ_MAX_NWORDS 40
#define FUZZ_MAX_NSTORED 4
