/* A chunk of compound values as bytes: a head, then one stream for each member.
 * A chunk of numbers may be a container too: its values then count as members
 * of one or several compound values. doc/format.md, "Containers of compound
 * values".
 *
 * The functions use no HDF5 and are safe for threads. Any bytes are safe as a
 * container. */
#pragma once

#include "codec/api/cd_values.h"
#include "codec/api/run.h"

/* Whether bytes claim to be a container. Readers of streams refuse these bytes
 * as a stream of a newer version. */
bool
terp_container_is(const void *src, uint64_t src_nbytes);

/* A container whose head was read. */
struct terp_container {
    const uint8_t *src;
    uint64_t nbytes;
    uint64_t nvalues;      /* compound values in the chunk */
    uint32_t value_nbytes; /* the product fits 63 bits */
    uint32_t nmembers;
};

/* Reads and checks the head: the streams fill the rest of the bytes, and the
 * members fill a value. Errors: TERP_ERR_TRUNCATED, TERP_ERR_CHECKSUM,
 * TERP_ERR_VERSION, TERP_ERR_CORRUPT. The container refers to `src`. */
enum terp_status
terp_container_read(const void *src, uint64_t src_nbytes,
                    struct terp_container *container_ret);

static inline uint64_t
terp_container_chunk_nbytes(const struct terp_container *container)
{
    return container->nvalues * container->value_nbytes;
}

/* A member's stream. Initialize with zeros. */
struct terp_container_walk {
    const uint8_t *stream;
    uint64_t stream_nbytes;
    uint32_t at, nbytes; /* of the member, in a compound value */
    uint32_t next;       /* the number of the next member */
};

/* Goes to the next member; false behind the last one. */
bool
terp_container_next(const struct terp_container *container,
                    struct terp_container_walk *walk);

/* Decodes to `values`, which holds terp_container_chunk_nbytes. Takes memory
 * for one member in addition, unless there is only one compound value. With
 * `compound`, the table of the dataset's cd_values, members must have the
 * sizes, types and shapes that it lists; else it is NULL. Errors: as
 * terp_decode. */
enum terp_status
terp_container_decode(struct terp_run *run,
                      const struct terp_container *container,
                      const struct terp_compound *compound, void *values);

/* A member whose stream exists. */
struct terp_container_member {
    uint32_t nbytes; /* in a compound value */
    const void *stream;
    uint64_t stream_nbytes;
};

/* Returns the number of bytes of a container with these members. */
uint64_t
terp_container_join_nbytes(const struct terp_container_member *members,
                           uint32_t nmembers);

/* Writes a container of `nvalues` compound values to `dst`, which holds
 * terp_container_join_nbytes. Each stream holds its member's values from all
 * compound values. There are 1 to TERP_COMPOUND_MAX_NMEMBERS members, and their
 * bytes fit a uint32_t. */
void
terp_container_join(uint64_t nvalues,
                    const struct terp_container_member *members,
                    uint32_t nmembers, void *dst);

/* Encodes `values`, a chunk of numbers of one type that `before` was decoded to
 * before a program changed some of them. Members without a change keep their
 * streams. Changed ones keep unchanged values (codec/api/rewrite.h), and have
 * the smaller of the bounds of `params` and of their streams: an absolute bound
 * of the dataset is the largest of all members. If most values have changed,
 * `before` may be of another chunk, and the changed ones are lossless. `dst`
 * holds terp_container_change_bound. Errors: as terp_encode; TERP_ERR_CORRUPT
 * where `before` holds other numbers than those of `chunk`, the dataset's. */
uint64_t
terp_container_change_bound(const struct terp_container *before);
enum terp_status
terp_container_change(struct terp_run *run, const struct terp_params *params,
                      const struct terp_chunk *chunk,
                      const struct terp_container *before, const void *values,
                      void *dst, uint64_t *dst_nbytes_ret,
                      bool *is_rewrite_ret);

/* The bytes that terp_container_encode needs; 0: the chunk is too large. */
uint64_t
terp_container_bound(const struct terp_compound *compound);

/* Encodes the chunk `values` by the parameters and the table of `cd`.
 *
 * `before` is NULL, or a container of the same cd_values that was decoded to
 * what `values` were before a program changed some of them. Unchanged values
 * then keep every bit (codec/api/rewrite.h), and *is_rewrite_ret tells whether
 * that mattered. Errors: as terp_encode. */
enum terp_status
terp_container_encode(struct terp_run *run, const struct terp_cd *cd,
                      const void *values, const struct terp_container *before,
                      void *dst, uint64_t *dst_nbytes_ret,
                      bool *is_rewrite_ret);
