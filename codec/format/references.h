/* The body of a stream with references: values that repeat earlier ones are
 * told by where these are. doc/format.md, "References". */
#ifndef TERP_CODEC_FORMAT_REFERENCES_H
#define TERP_CODEC_FORMAT_REFERENCES_H

#include "codec/format/parts.h"

/* A reference says where its source is, and how it differs. */
enum terp_references_part {
    TERP_REFERENCES_DISTANCES,
    TERP_REFERENCES_DIFFERENCES,
    TERP_REFERENCES_VALUES, /* of the chunk, markers for those that refer */
    TERP_REFERENCES_NPARTS
};

struct terp_references {
    uint64_t marker; /* the bits of a value that no other value has */
    uint64_t nreferences;
    struct terp_part part[TERP_REFERENCES_NPARTS];
};

/* Whether values of a type may refer to each other. */
bool
terp_references_are_possible(enum terp_type type);

/* A part's chunk, which is little-endian. */
struct terp_chunk
terp_references_chunk(const struct terp_chunk *chunk,
                      enum terp_references_part part, uint64_t nreferences);

/* Reads all but the parts' bodies. TERP_ERR_TRUNCATED, or TERP_ERR_CORRUPT. */
enum terp_status
terp_references_read(const struct terp_chunk *chunk, const uint8_t *body,
                     uint64_t body_nbytes, struct terp_references *ret);

#endif
