/* Translates between cd_values and parameters. doc/cd_values.md has the tables.
 *
 * Lossless, no words:           {}
 * User form, typed by people:   {mode, mantissa, exponent [, n, d1 ... dn]}
 * Exact form, made by helpers:  {mode | EXACT, low, high [, n, d1 ... dn]}
 * Persisted form, in the file:  {mode | PERSISTED, low, high, layout,
 *                                reason, fill low, fill high, dims ...}
 * The same of compound values:  {mode | PERSISTED, low, high, layout,
 *                                BY_MEMBER, value bytes, counts, dims ...,
 *                                rules ..., members ...}
 *
 * Optional numbers take two words each, in the notation of the bound. They
 * follow the bound, or in the persisted form the dims, in this order: with
 * FLOOR in the mode the floor of a pointwise bound; with MISSING a second fill
 * value, whose mantissa is signed; with VALID_RANGE the two ends of a valid
 * range, which are signed too.
 *
 * With MEMBERS in the mode, the words behind the logical dims are rules of four
 * words: the hash of a member's name, a mode, and a bound in the notation of
 * that mode. The persisted form holds the rules behind the optional numbers,
 * then the table of members (codec/api/compound.h). `counts` is the number of
 * the table's words | rules << 16.
 *
 * FORMAT_1 in the mode forbids streams of version 2. In the persisted form a
 * last word of 1 does so: terp 1 ignores that word, and would refuse the bit.
 *
 * mode = bound mode | pipeline << 4 | predictor << 8 | effort << 12 | keep sign
 * << 20. The bound is mantissa * 10^-exponent (the exponent is a signed 32-bit
 * number), or the float64 whose words are low and high; the absolute bound 0 is
 * lossless. n, d1 ... dn are logical dims: a chunk of k * d1 * ... * dn values
 * is a stack of k bricks. */
#pragma once

#include "codec/api/compound.h"
#include "codec/model/bound.h"

#define TERP_CD_MODE_MASK 0xFu
#define TERP_CD_PIPELINE_SHIFT 4
#define TERP_CD_PREDICTOR_SHIFT 8
#define TERP_CD_EFFORT_SHIFT 12
#define TERP_CD_EXACT 0x00010000u
#define TERP_CD_FLOOR 0x00020000u
#define TERP_CD_MISSING 0x00040000u
#define TERP_CD_VALID_RANGE 0x00080000u
#define TERP_CD_KEEP_SIGN_SHIFT 20
#define TERP_CD_FORMAT_1 0x00400000u
#define TERP_CD_MEMBERS 0x00800000u
#define TERP_CD_OWN_BOUNDS 0x01000000u
#define TERP_CD_PERSISTED 0x80000000u
/* Of the user and exact forms, without rules. */
#define TERP_CD_MAX_NUSER_WORDS 15

/* Bounds the rules of members: an entry of the table has five bits for the
 * number of a rule. */
#define TERP_CD_MAX_NRULES 16
#define TERP_CD_RULE_NWORDS 4

#define TERP_CD_MAX_NWORDS                                                  \
    (7 + 2 * TERP_MAX_RANK + 9 + TERP_CD_RULE_NWORDS * TERP_CD_MAX_NRULES + \
     TERP_COMPOUND_MAX_NWORDS)

/* Why a dataset passes through uncompressed; the last one says that it does
 * not. Pinned: stored in files. */
enum terp_pass {
    TERP_PASS_NONE = 0,
    TERP_PASS_NOT_NUMBER = 1,     /* string, compound, integer of few bits */
    TERP_PASS_FLOAT_FORMAT = 2,   /* a float of an unknown format */
    TERP_PASS_UNKNOWN_LAYOUT = 3, /* set_local could not ask HDF5 */
    TERP_PASS_TOO_LARGE = 4,      /* dims that terp cannot address */
    TERP_PASS_NOT_FIRST = 5,      /* another filter precedes terp */
    TERP_PASS_BEHIND = 6,         /* a filter behind terp spoils streams */
    /* The dataset is compressed by member: each chunk is a container
     * (filter/container.h). */
    TERP_PASS_BY_MEMBER = 7
};

/* The bound of one member, in place of the dataset's. */
struct terp_cd_rule {
    uint32_t name_hash; /* terp_cd_hash of the member's path */
    uint32_t mode;      /* without EXACT and other flags of numbers */
    double bound;
};

/* The contents of cd_values. */
struct terp_cd {
    struct terp_params params; /* `missing_bits`: when the type is known */
    bool has_missing;
    double missing; /* the second fill value */
    /* Chunks, or parts of chunks, have smaller bounds of their own. */
    bool has_own_bounds;
    int nlogical; /* number of the user's logical dims; may be 0 */
    uint64_t logical[TERP_MAX_RANK - 1];
    bool persisted; /* `pass` and `chunk` were read from the words */
    enum terp_pass pass;
    /* With TERP_PASS_BY_MEMBER: the bytes of all values, as TERP_BYTES. */
    struct terp_chunk chunk;
    int nrules;
    struct terp_cd_rule rules[TERP_CD_MAX_NRULES];
    struct terp_compound compound; /* with TERP_PASS_BY_MEMBER */
};

/* Whether the filter codes chunks. */
static inline bool
terp_cd_is_coded(const struct terp_cd *cd)
{
    return cd->pass == TERP_PASS_NONE || cd->pass == TERP_PASS_BY_MEMBER;
}

/* Parses any form. Errors: TERP_ERR_PARAMS and TERP_ERR_BOUND, with *reason_ret
 * set to a static English sentence that names the wrong word. `reason_ret` may
 * be NULL. */
enum terp_status
terp_cd_parse(size_t cd_nelmts, const unsigned *cd_values,
              struct terp_cd *cd_ret, const char **reason_ret);

/* Writes the persisted form; returns the number of words, at most
 * TERP_CD_MAX_NWORDS. */
size_t
terp_cd_persist(const struct terp_cd *cd, unsigned *words_ret);

/* Writes the form for users, without rules of members. `exact`: always the
 * exact form; otherwise the typed form, if it gives every number bit for bit.
 * Returns the number of words, at most TERP_CD_MAX_NUSER_WORDS; 0 if a logical
 * dim exceeds 32 bits.
 */
size_t
terp_cd_write(const struct terp_cd *cd, bool exact, unsigned *words_ret);

/* Sets cd->chunk from the chunk dims of a dataset, and applies logical dims if
 * they divide the chunk. Returns false if logical dims exist but do not divide
 * the chunk; then the chunk's own dims are used. */
bool
terp_cd_apply_dims(struct terp_cd *cd, enum terp_type type, bool big_endian,
                   int ndims, const uint64_t *dims);

/* Sets cd->chunk and the chunk of cd->compound, whose members are known, from
 * the chunk dims of a dataset; logical dims have no effect. cd->pass becomes
 * TERP_PASS_BY_MEMBER, or TERP_PASS_TOO_LARGE. */
void
terp_cd_apply_compound(struct terp_cd *cd, int ndims, const uint64_t *dims);

/* The parameters of a member: those of its rule. Without a rule those of the
 * dataset, but integers are lossless. */
struct terp_params
terp_cd_member_params(const struct terp_cd *cd,
                      const struct terp_member *member);

/* The parameters of new chunks. Where chunks have bounds of their own, the
 * bound of a new chunk is not known, and the chunk becomes lossless. */
static inline struct terp_params
terp_cd_new_params(const struct terp_cd *cd)
{
    return cd->has_own_bounds ? terp_params_lossless(&cd->params) : cd->params;
}

/* Whether decoded values of coded chunks may differ from the original ones. */
bool
terp_cd_may_lose(const struct terp_cd *cd);

/* The hash of a member's path, such as "position.x" (FNV-1a of 32 bits). To
 * hash a path piece by piece, `hash` is that of the beginning; at first it is
 * TERP_CD_HASH_BEGIN. */
#define TERP_CD_HASH_BEGIN UINT32_C(0x811C9DC5)

static inline uint32_t
terp_cd_hash(uint32_t hash, const char *text)
{
    for (; *text != '\0'; text++)
        hash = (hash ^ (uint8_t)*text) * UINT32_C(0x01000193);
    return hash;
}

/* Copies the fill values and limits of a dataset to other parameters. */
static inline void
terp_cd_copy_fills(const struct terp_cd *cd, struct terp_params *params)
{
    params->size = sizeof *params;
    params->keep_sign = cd->params.keep_sign;
    params->has_valid_range = cd->params.has_valid_range;
    params->valid_min = cd->params.valid_min;
    params->valid_max = cd->params.valid_max;
    params->has_fill = cd->params.has_fill;
    params->fill_bits = cd->params.fill_bits;
    params->has_missing = cd->params.has_missing;
    params->missing_bits = cd->params.missing_bits;
}
