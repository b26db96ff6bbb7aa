/* The members of compound values, as cd_values list them.
 *
 * A compound value is cut into members that follow one another without gaps,
 * and each member is coded by itself. A member is a number or an array of
 * numbers. Bytes that are no numbers (strings, opaque members, padding) are
 * listed as unsigned integers.
 *
 * An entry of the table describes members of one kind:
 *
 *     word                  meaning
 *     type                  enum terp_type; not TERP_BYTES
 *     | big_endian << 8
 *     | rank << 9           of an array; 0: a single number
 *     | rule << 11          number of a rule, from 1; 0: none
 *     | repeats << 16       how many such members follow one another
 *     rank words            the array's dims, slowest first */
#pragma once

#include "codec/api/terp.h"

#define TERP_MEMBER_MAX_RANK 3

/* Bounds the words of a table. Each word may describe 65535 members. */
#define TERP_COMPOUND_MAX_NWORDS 128

/* Bounds the members of a value, so that a container of few bytes does not make
 * a reader search long. */
#define TERP_COMPOUND_MAX_NMEMBERS 4096

struct terp_member {
    enum terp_type type;
    bool big_endian;
    int rule;
    int rank;
    uint32_t dims[TERP_MEMBER_MAX_RANK];
};

struct terp_compound {
    uint32_t value_nbytes;
    uint32_t nmembers;
    int rank; /* of the chunk */
    uint64_t dims[TERP_MAX_RANK];
    uint32_t nwords;
    uint32_t words[TERP_COMPOUND_MAX_NWORDS];
};

/* Bytes of a member; 0 if it is invalid or has 4 GiB or more. */
uint32_t
terp_member_nbytes(const struct terp_member *member);

/* Adds a member behind the others, with the rule number `member->rule`. False
 * if the table is full or the member is invalid. */
bool
terp_compound_add(struct terp_compound *compound,
                  const struct terp_member *member);

/* Whether the table is valid and its members fill a value. Sets `nmembers`. */
bool
terp_compound_check(struct terp_compound *compound, int nrules);

/* A position in the table. Initialize with zeros. */
struct terp_member_walk {
    struct terp_member member;
    uint32_t nbytes; /* of the member */
    uint32_t at;     /* its first byte in the value */
    uint32_t next_word, nleft;
};

/* Goes to the next member; false behind the last one. The table must have
 * passed terp_compound_check, or be made of terp_compound_add alone. */
bool
terp_member_next(const struct terp_compound *compound,
                 struct terp_member_walk *walk);

/* The chunk of one member: the dims of the chunk, then those of the member.
 * Fails as terp_chunk_make does. */
enum terp_status
terp_member_chunk(const struct terp_compound *compound,
                  const struct terp_member *member,
                  struct terp_chunk *chunk_ret);

/* The number of compound values in a chunk; 0 if the chunk is invalid or has
 * more than 63 bits of bytes. */
uint64_t
terp_compound_nvalues(const struct terp_compound *compound);
