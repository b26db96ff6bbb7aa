/* Parses cd_values, and writes the cd_values that a file keeps. */
#include "codec/api/cd_values.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>

#include "codec/api/text.h"
#include "codec/format/types.h"
#include "codec/model/bound.h"
#include "codec/model/carrier.h"

/* Words of the persisted form before the dims. */
enum {
    WORD_MODE = 0,
    WORD_BOUND_LOW = 1,
    WORD_BOUND_HIGH = 2,
    WORD_LAYOUT = 3,
    WORD_PASS = 4,
    WORD_FILL_LOW = 5,
    WORD_FILL_HIGH = 6,
    WORD_DIMS = 7
};
/* In place of the fill value, where values are coded by member. */
enum {
    WORD_VALUE_NBYTES = WORD_FILL_LOW,
    WORD_COUNTS = WORD_FILL_HIGH
};
#define COUNTS_RULES_SHIFT 16

/* The layout word: version | type << 8 | flags << 16 | rank << 24. Version 2
 * says that values are coded by member; its type is TERP_BYTES. */
#define LAYOUT_VERSION 1u
#define LAYOUT_BY_MEMBER 2u
#define FLAG_BIG_ENDIAN 1u
#define FLAG_FILL 2u
#define FLAG_STACK 4u

/* Powers of ten up to here are exact in a double. */
#define MAX_EXACT_EXPONENT 22

static uint64_t
join(const unsigned *words)
{
    return (uint64_t)(uint32_t)words[0] | (uint64_t)(uint32_t)words[1] << 32;
}

static void
split(uint64_t value, unsigned *words)
{
    words[0] = (unsigned)(value & UINT32_MAX);
    words[1] = (unsigned)(value >> 32);
}

/* mantissa * 10^-exponent, computed by correctly rounded divisions or products
 * only, so that every machine gets the same number. */
static double
decimal(uint32_t mantissa, int32_t exponent)
{
    static const double powers[MAX_EXACT_EXPONENT + 1] = {
        1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
        1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    double value = mantissa;
    int64_t left = exponent < 0 ? -(int64_t)exponent : exponent;
    /* Above 700 every result is 0 or infinite. */
    if (left > 700)
        left = 700;
    while (left > 0) {
        int step = left < MAX_EXACT_EXPONENT ? (int)left : MAX_EXACT_EXPONENT;
        value = exponent < 0 ? value * powers[step] : value / powers[step];
        left -= step;
    }
    return value;
}

static enum terp_status
refuse(const char **reason_ret, const char *reason)
{
    *reason_ret = reason;
    return TERP_ERR_PARAMS;
}

static enum terp_status
parse_mode(uint32_t mode, struct terp_params *params, const char **reason_ret)
{
    uint32_t known = TERP_CD_MODE_MASK | 0xFu << TERP_CD_PIPELINE_SHIFT |
                     0xFu << TERP_CD_PREDICTOR_SHIFT |
                     0xFu << TERP_CD_EFFORT_SHIFT | TERP_CD_EXACT |
                     TERP_CD_FLOOR | TERP_CD_MISSING | TERP_CD_VALID_RANGE |
                     3u << TERP_CD_KEEP_SIGN_SHIFT | TERP_CD_FORMAT_1 |
                     TERP_CD_MEMBERS | TERP_CD_OWN_BOUNDS | TERP_CD_PERSISTED;
    uint32_t bound_mode = mode & TERP_CD_MODE_MASK;
    uint32_t pipeline = mode >> TERP_CD_PIPELINE_SHIFT & 0xF;
    uint32_t predictor = mode >> TERP_CD_PREDICTOR_SHIFT & 0xF;
    uint32_t effort = mode >> TERP_CD_EFFORT_SHIFT & 0xF;
    uint32_t keep_sign = mode >> TERP_CD_KEEP_SIGN_SHIFT & 3;

    if (mode & ~known)
        return refuse(reason_ret, "cd_values[0] (mode) has bits that this "
                                  "version of terp does not know");
    if ((mode & TERP_CD_FLOOR) && bound_mode != TERP_BOUND_POINTWISE)
        return refuse(reason_ret, "cd_values[0] (mode) has a floor, which only "
                                  "a bound relative to each value may have");
    if (bound_mode < TERP_BOUND_ABSOLUTE || bound_mode >= TERP_NBOUND_MODES)
        return refuse(
            reason_ret,
            "cd_values[0] (mode) names an unknown bound mode: 1 is absolute, 2 "
            "is relative, 3 is relative to each value, 4 is a PSNR");
    if (terp_pipeline_name((enum terp_pipeline)pipeline) == NULL)
        return refuse(reason_ret, "cd_values[0] (mode) names an unknown "
                                  "pipeline");
    if (predictor >= TERP_NPREDICTORS)
        return refuse(reason_ret, "cd_values[0] (mode) names an unknown "
                                  "predictor");
    if (effort >= TERP_NEFFORTS)
        return refuse(reason_ret, "cd_values[0] (mode) names an unknown "
                                  "effort");
    if (keep_sign >= TERP_NKEEP_SIGNS)
        return refuse(reason_ret, "cd_values[0] (mode) names an unknown way "
                                  "to keep signs");
    params->size = sizeof *params;
    params->bound_mode = (enum terp_bound_mode)bound_mode;
    params->pipeline = (enum terp_pipeline)pipeline;
    params->predictor = (enum terp_predictor)predictor;
    params->effort = (enum terp_effort)effort;
    params->keep_sign = (enum terp_keep_sign)keep_sign;
    params->format = mode & TERP_CD_FORMAT_1 ? 1 : 0;
    return TERP_OK;
}

/* Checks a bound whose first word is `first`: that must be 0 for the bound 0,
 * because a positive number that is too small for a double also becomes 0. */
static enum terp_status
check_bound(const struct terp_params *params, unsigned first,
            const char **reason_ret)
{
    const bool is_zero = first == 0 && terp_is_lossless(params);

    if (!is_bound(params->bound) && !is_zero) {
        *reason_ret =
            "cd_values[1] and cd_values[2] (bound) must give a finite, "
            "positive number (0 is allowed in absolute mode only)";
        return TERP_ERR_BOUND;
    }
    if (params->bound_mode == TERP_BOUND_POINTWISE && !(params->bound < 1)) {
        *reason_ret = "cd_values[1] and cd_values[2] (bound) must give a "
                      "number below one for a bound relative to each value";
        return TERP_ERR_BOUND;
    }
    return TERP_OK;
}

/* A number of two words, in the notation that the mode says. */
static double
number_of(uint32_t mode, const unsigned *words)
{
    return mode & (TERP_CD_PERSISTED | TERP_CD_EXACT)
               ? double_of_bits(join(words))
               : decimal(words[0], (int32_t)words[1]);
}

/* The bits of a rule's mode that a file keeps. */
#define RULE_MODE_MASK                                                \
    (TERP_CD_MODE_MASK | 0xFu << TERP_CD_PIPELINE_SHIFT |             \
     0xFu << TERP_CD_PREDICTOR_SHIFT | 0xFu << TERP_CD_EFFORT_SHIFT | \
     3u << TERP_CD_KEEP_SIGN_SHIFT)

/* Parses `n` rules of members. */
static enum terp_status
parse_rules(size_t n, const unsigned *words, struct terp_cd *cd,
            const char **reason_ret)
{
    struct terp_params params = {0};

    for (size_t i = 0; i < n; i++, words += TERP_CD_RULE_NWORDS) {
        const uint32_t mode = words[1];
        if (mode & ~(RULE_MODE_MASK | TERP_CD_EXACT))
            return refuse(reason_ret, "the mode of a member's bound in "
                                      "cd_values has more than a bound");
        enum terp_status st = parse_mode(mode, &params, reason_ret);
        params.bound = number_of(mode, words + 2);
        if (st == TERP_OK)
            st = check_bound(&params, words[2], reason_ret);
        if (st != TERP_OK)
            return st;
        cd->rules[i] = (struct terp_cd_rule){words[0], mode & RULE_MODE_MASK,
                                             params.bound};
    }
    cd->nrules = (int)n;
    return TERP_OK;
}

/* Parses the rules that are the last words of a user's list. */
static enum terp_status
parse_last_rules(size_t cd_nelmts, const unsigned *cd_values,
                 struct terp_cd *cd, const char **reason_ret)
{
    const size_t n = cd_nelmts / TERP_CD_RULE_NWORDS;

    if (n == 0 || n > TERP_CD_MAX_NRULES ||
        cd_nelmts % TERP_CD_RULE_NWORDS != 0)
        return refuse(reason_ret, "cd_values must end with four words for each "
                                  "member that has a bound, at most 16 of "
                                  "them");
    return parse_rules(n, cd_values, cd, reason_ret);
}

/* Parses the logical dims. */
static enum terp_status
parse_logical(size_t cd_nelmts, const unsigned *cd_values, struct terp_cd *cd,
              const char **reason_ret)
{
    if (cd_nelmts < 4)
        return TERP_OK;
    if (cd_values[3] > TERP_MAX_RANK - 1)
        return refuse(reason_ret, "the number of logical dims in cd_values "
                                  "exceeds 3");
    if (cd_nelmts < 4 + (size_t)cd_values[3])
        return refuse(
            reason_ret,
            "cd_values hold fewer logical dims than their number says");
    cd->nlogical = (int)cd_values[3];
    for (int i = 0; i < cd->nlogical; i++) {
        cd->logical[i] = cd_values[4 + i];
        if (cd->logical[i] == 0)
            return refuse(reason_ret, "a logical dim is 0");
    }
    return TERP_OK;
}

/* A number of two words with a signed mantissa. */
static double
signed_number_of(uint32_t mode, const unsigned *words)
{
    const bool is_typed = (mode & (TERP_CD_PERSISTED | TERP_CD_EXACT)) == 0;
    const bool is_negative = is_typed && (int32_t)words[0] < 0;

    return is_negative ? -decimal(0u - words[0], (int32_t)words[1])
                       : number_of(mode, words);
}

/* Parses the optional numbers that the mode announces, from word *at on, and
 * advances *at. */
static enum terp_status
parse_more(size_t cd_nelmts, const unsigned *cd_values, size_t *at,
           struct terp_cd *cd, const char **reason_ret)
{
    const uint32_t mode = cd_values[WORD_MODE];
    const bool has_floor = mode & TERP_CD_FLOOR;

    cd->has_own_bounds = mode & TERP_CD_OWN_BOUNDS;
    cd->has_missing = mode & TERP_CD_MISSING;
    cd->params.has_valid_range = mode & TERP_CD_VALID_RANGE;
    if (cd_nelmts < *at + 2 * ((size_t)has_floor + cd->has_missing +
                               2 * (size_t)cd->params.has_valid_range))
        return refuse(reason_ret,
                      "cd_values are too short for the floor, missing value or "
                      "valid range that cd_values[0] (mode) announces");
    if (has_floor) {
        cd->params.floor = number_of(mode, cd_values + *at);
        *at += 2;
    }
    if (cd->has_missing) {
        cd->missing = signed_number_of(mode, cd_values + *at);
        *at += 2;
    }
    if (cd->params.has_valid_range) {
        cd->params.valid_min = signed_number_of(mode, cd_values + *at);
        cd->params.valid_max = signed_number_of(mode, cd_values + *at + 2);
        *at += 4;
        if (!(cd->params.valid_min <= cd->params.valid_max))
            return refuse(reason_ret, "the minimum of the valid range in "
                                      "cd_values must not exceed its maximum");
    }
    if (!has_floor || is_bound(cd->params.floor))
        return TERP_OK;
    *reason_ret = "the floor in cd_values must be finite and positive";
    return TERP_ERR_BOUND;
}

/* Parses a user's words behind the bound. */
static enum terp_status
parse_user(size_t cd_nelmts, const unsigned *cd_values, struct terp_cd *cd,
           const char **reason_ret)
{
    size_t at = 3;
    enum terp_status st = parse_more(cd_nelmts, cd_values, &at, cd, reason_ret);

    /* Logical dims are parsed as if they followed the bound directly. */
    if (st == TERP_OK)
        st = parse_logical(cd_nelmts - (at - 3), cd_values + (at - 3), cd,
                           reason_ret);
    if (st != TERP_OK || !(cd_values[WORD_MODE] & TERP_CD_MEMBERS))
        return st;
    at = min_u64(at + 1 + (size_t)cd->nlogical, cd_nelmts);
    return parse_last_rules(cd_nelmts - at, cd_values + at, cd, reason_ret);
}

/* Converts a number to the bits of an integer type. Returns false if the type
 * does not have the number. */
static bool
integer_of_number(enum terp_type type, double number, uint64_t *bits_ret)
{
    const int nbits = 8 * terp_part_nbytes(type) - terp_type_is_signed(type);
    const double top = 2 * (double)(UINT64_C(1) << (nbits - 1));

    if (!(number < top && number >= (terp_type_is_signed(type) ? -top : 0)))
        return false;
    *bits_ret = number < 0 ? (uint64_t)(int64_t)number : (uint64_t)number;
    return number ==
           (number < 0 ? (double)(int64_t)*bits_ret : (double)*bits_ret);
}

/* Converts the second fill value to the chunk's type (of a complex type: to its
 * parts' type). An integer type that does not have the value gets none. */
static void
apply_missing(struct terp_cd *cd)
{
    const enum terp_type type = terp_type_of_part(cd->chunk.type);
    const float narrow = (float)cd->missing;
    uint64_t bits = 0;
    uint32_t narrow_bits;
    bool found = cd->has_missing;

    memcpy(&narrow_bits, &narrow, sizeof narrow_bits);
    if (terp_type_is_integer(type))
        found = found && integer_of_number(type, cd->missing, &bits);
    else if (terp_type_is_half(type))
        bits = terp_half_of_f32_bits(type, narrow_bits);
    else
        bits = type == TERP_FLOAT32 ? narrow_bits : double_bits(cd->missing);
    cd->params.has_missing = found;
    cd->params.missing_bits = found ? bits : 0;
}

/* Parses the words of the persisted form from word `at` on: the numbers and
 * rules that the mode announces, then the version of the stream. */
static enum terp_status
parse_last(size_t cd_nelmts, const unsigned *cd_values, size_t at,
           struct terp_cd *cd, const char **reason_ret)
{
    const enum terp_status st =
        parse_more(cd_nelmts, cd_values, &at, cd, reason_ret);

    if (st == TERP_OK && cd_nelmts > at && cd_values[at] == 1)
        cd->params.format = 1;
    return st;
}

/* The bytes of all values, as a chunk. False if they do not fit 63 bits. */
static bool
set_compound_chunk(struct terp_cd *cd)
{
    const struct terp_compound *compound = &cd->compound;
    const uint64_t nvalues = terp_compound_nvalues(compound);

    cd->chunk = (struct terp_chunk){.type = TERP_BYTES,
                                    .rank = 1,
                                    .dims = {nvalues * compound->value_nbytes}};
    return nvalues > 0;
}

/* Parses the words of a dataset whose values are coded by member. */
static enum terp_status
parse_compound(size_t cd_nelmts, const unsigned *cd_values, struct terp_cd *cd,
               const char **reason_ret)
{
    const uint32_t layout = cd_values[WORD_LAYOUT], rank = layout >> 24;
    const uint32_t nwords = cd_values[WORD_COUNTS] & 0xFFFF;
    const size_t nrules = cd_values[WORD_COUNTS] >> COUNTS_RULES_SHIFT;
    struct terp_compound *compound = &cd->compound;
    size_t at = WORD_DIMS + 2 * (size_t)rank;

    if ((layout >> 8 & 0xFFFF) != TERP_BYTES ||
        cd_values[WORD_PASS] != TERP_PASS_BY_MEMBER || rank < 1 ||
        rank > TERP_MAX_RANK || cd_nelmts < at ||
        nwords > TERP_COMPOUND_MAX_NWORDS || nrules > TERP_CD_MAX_NRULES)
        return refuse(reason_ret, "cd_values[3] to cd_values[6] do not "
                                  "describe a compound");
    cd->persisted = true;
    cd->pass = TERP_PASS_BY_MEMBER;
    compound->value_nbytes = cd_values[WORD_VALUE_NBYTES];
    compound->nwords = nwords;
    compound->rank = (int)rank;
    for (int i = 0; i < compound->rank; i++)
        compound->dims[i] = join(cd_values + WORD_DIMS + 2 * i);
    enum terp_status st = parse_more(cd_nelmts, cd_values, &at, cd, reason_ret);
    if (st != TERP_OK)
        return st;
    if (cd_nelmts < at + TERP_CD_RULE_NWORDS * nrules + nwords)
        return refuse(reason_ret, "cd_values lack members of the compound");
    st = parse_rules(nrules, cd_values + at, cd, reason_ret);
    if (st != TERP_OK)
        return st;
    at += TERP_CD_RULE_NWORDS * nrules;
    for (uint32_t i = 0; i < nwords; i++)
        compound->words[i] = cd_values[at + i];
    return terp_compound_check(compound, cd->nrules) && set_compound_chunk(cd)
               ? TERP_OK
               : refuse(reason_ret, "the members in cd_values do not fill a "
                                    "value of the compound, or its chunk is "
                                    "too large");
}

static enum terp_status
parse_persisted(size_t cd_nelmts, const unsigned *cd_values, struct terp_cd *cd,
                const char **reason_ret)
{
    if (cd_nelmts < WORD_DIMS)
        return refuse(reason_ret, "persisted cd_values are too short");
    uint32_t layout = cd_values[WORD_LAYOUT];
    uint32_t type = layout >> 8 & 0xFF, flags = layout >> 16 & 0xFF;
    uint32_t rank = layout >> 24;
    size_t at = WORD_DIMS;

    if ((layout & 0xFF) == LAYOUT_BY_MEMBER)
        return parse_compound(cd_nelmts, cd_values, cd, reason_ret);
    if ((layout & 0xFF) != LAYOUT_VERSION)
        return refuse(reason_ret, "persisted cd_values were written by a "
                                  "newer version of terp");
    if (!terp_type_is_known((int)type) ||
        flags > (FLAG_BIG_ENDIAN | FLAG_FILL | FLAG_STACK))
        return refuse(reason_ret, "cd_values[3] (layout) is not valid");
    if (cd_values[WORD_PASS] > TERP_PASS_BEHIND)
        return refuse(reason_ret, "cd_values[4] names an unknown reason to "
                                  "pass data through");
    cd->persisted = true;
    cd->pass = (enum terp_pass)cd_values[WORD_PASS];
    cd->params.has_fill = flags & FLAG_FILL;
    cd->params.fill_bits = join(cd_values + WORD_FILL_LOW);
    if (cd->pass != TERP_PASS_NONE)
        return parse_last(cd_nelmts, cd_values, at, cd, reason_ret);
    if (rank < 1 || rank > TERP_MAX_RANK ||
        cd_nelmts < WORD_DIMS + 2 * (size_t)rank)
        return refuse(reason_ret, "persisted cd_values lack the chunk's dims");
    cd->chunk.type = (enum terp_type)type;
    cd->chunk.big_endian = flags & FLAG_BIG_ENDIAN;
    cd->chunk.stack = flags & FLAG_STACK;
    cd->chunk.rank = (int)rank;
    for (int i = 0; i < cd->chunk.rank; i++)
        cd->chunk.dims[i] = join(cd_values + WORD_DIMS + 2 * i);
    if (terp_chunk_nbytes(&cd->chunk) == 0)
        return refuse(reason_ret, "the chunk's dims in cd_values are not "
                                  "valid");
    if (cd->chunk.stack)
        cd->nlogical = cd->chunk.rank - 1;
    for (int i = 0; i < cd->nlogical; i++)
        cd->logical[i] = cd->chunk.dims[i + 1];
    at += 2 * (size_t)rank;
    enum terp_status st = parse_last(cd_nelmts, cd_values, at, cd, reason_ret);
    apply_missing(cd);
    return st;
}

enum terp_status
terp_do_cd_parse(size_t cd_nelmts, const unsigned *cd_values,
                 struct terp_cd *cd_ret, const char **reason_ret)
{
    struct terp_cd cd = {0};
    const char *unused;
    if (reason_ret == NULL)
        reason_ret = &unused;
    *reason_ret = "";
    /* h5py's compression=46117 passes no words, and some programs lose them. */
    if (cd_nelmts == 0) {
        cd.params.bound_mode = TERP_BOUND_ABSOLUTE;
        *cd_ret = cd;
        return TERP_OK;
    }
    if (cd_nelmts < 3)
        return refuse(reason_ret, "terp needs at least three cd_values (mode, "
                                  "mantissa, exponent), or none for lossless");

    uint32_t mode = cd_values[WORD_MODE];
    enum terp_status st = parse_mode(mode, &cd.params, reason_ret);
    if (st != TERP_OK)
        return st;
    cd.params.bound = number_of(mode, cd_values + WORD_BOUND_LOW);
    st = check_bound(&cd.params, cd_values[WORD_BOUND_LOW], reason_ret);
    if (st != TERP_OK)
        return st;
    if (mode & TERP_CD_PERSISTED)
        st = parse_persisted(cd_nelmts, cd_values, &cd, reason_ret);
    else
        st = parse_user(cd_nelmts, cd_values, &cd, reason_ret);
    if (st == TERP_OK)
        *cd_ret = cd;
    return st;
}

/* Writes words 3 to 6, the dims, the rules and the members; the optional
 * numbers stand before the rules. Returns the number of words before those. */
static size_t
persist_compound_head(const struct terp_cd *cd, unsigned *words_ret)
{
    const struct terp_compound *compound = &cd->compound;
    size_t nwords = WORD_DIMS;

    words_ret[WORD_LAYOUT] = LAYOUT_BY_MEMBER | (unsigned)TERP_BYTES << 8 |
                             (unsigned)compound->rank << 24;
    words_ret[WORD_PASS] = TERP_PASS_BY_MEMBER;
    words_ret[WORD_VALUE_NBYTES] = compound->value_nbytes;
    words_ret[WORD_COUNTS] = compound->nwords | (unsigned)cd->nrules
                                                    << COUNTS_RULES_SHIFT;
    for (int i = 0; i < compound->rank; i++, nwords += 2)
        split(compound->dims[i], words_ret + nwords);
    return nwords;
}

static size_t
persist_compound_tail(const struct terp_cd *cd, unsigned *words_ret)
{
    size_t nwords = 0;

    for (int i = 0; i < cd->nrules; i++, nwords += TERP_CD_RULE_NWORDS) {
        words_ret[nwords] = cd->rules[i].name_hash;
        words_ret[nwords + 1] = cd->rules[i].mode | TERP_CD_EXACT;
        split(double_bits(cd->rules[i].bound), words_ret + nwords + 2);
    }
    for (uint32_t i = 0; i < cd->compound.nwords; i++)
        words_ret[nwords++] = cd->compound.words[i];
    return nwords;
}

/* Writes words 3 to 6 and the dims. Returns the number of words so far. */
static size_t
persist_head(const struct terp_cd *cd, unsigned *words_ret)
{
    const struct terp_params *params = &cd->params;
    const struct terp_chunk *chunk = &cd->chunk;
    const int rank = cd->pass == TERP_PASS_NONE ? chunk->rank : 0;
    const uint32_t flags = (chunk->big_endian ? FLAG_BIG_ENDIAN : 0) |
                           (params->has_fill ? FLAG_FILL : 0) |
                           (chunk->stack ? FLAG_STACK : 0);
    size_t nwords = WORD_DIMS;

    words_ret[WORD_LAYOUT] = LAYOUT_VERSION | (unsigned)chunk->type << 8 |
                             flags << 16 | (unsigned)rank << 24;
    words_ret[WORD_PASS] = (unsigned)cd->pass;
    split(params->fill_bits, words_ret + WORD_FILL_LOW);
    for (int i = 0; i < rank; i++, nwords += 2)
        split(chunk->dims[i], words_ret + nwords);
    return nwords;
}

size_t
terp_do_cd_persist(const struct terp_cd *cd, unsigned *words_ret)
{
    const struct terp_params *params = &cd->params;
    const bool is_compound = cd->pass == TERP_PASS_BY_MEMBER;

    words_ret[WORD_MODE] =
        TERP_CD_PERSISTED | (unsigned)params->bound_mode |
        (unsigned)params->pipeline << TERP_CD_PIPELINE_SHIFT |
        (unsigned)params->predictor << TERP_CD_PREDICTOR_SHIFT |
        (unsigned)params->effort << TERP_CD_EFFORT_SHIFT |
        (params->floor > 0 ? TERP_CD_FLOOR : 0) |
        (cd->has_missing ? TERP_CD_MISSING : 0) |
        (params->has_valid_range ? TERP_CD_VALID_RANGE : 0) |
        (cd->has_own_bounds ? TERP_CD_OWN_BOUNDS : 0) |
        (unsigned)params->keep_sign << TERP_CD_KEEP_SIGN_SHIFT;
    split(double_bits(params->bound), words_ret + WORD_BOUND_LOW);
    size_t nwords = is_compound ? persist_compound_head(cd, words_ret)
                                : persist_head(cd, words_ret);
    if (params->floor > 0) {
        split(double_bits(params->floor), words_ret + nwords);
        nwords += 2;
    }
    if (cd->has_missing) {
        split(double_bits(cd->missing), words_ret + nwords);
        nwords += 2;
    }
    if (params->has_valid_range) {
        split(double_bits(params->valid_min), words_ret + nwords);
        split(double_bits(params->valid_max), words_ret + nwords + 2);
        nwords += 4;
    }
    if (is_compound)
        nwords += persist_compound_tail(cd, words_ret + nwords);
    else if (params->format == 1)
        words_ret[nwords++] = 1;
    return nwords;
}

void
terp_do_cd_apply_compound(struct terp_cd *cd, int ndims, const uint64_t *dims)
{
    struct terp_compound *compound = &cd->compound;
    struct terp_chunk shape;

    cd->pass = TERP_PASS_TOO_LARGE;
    if (terp_chunk_make(TERP_UINT8, ndims, dims, &shape) != TERP_OK)
        return;
    compound->rank = shape.rank;
    memcpy(compound->dims, shape.dims, sizeof compound->dims);
    if (set_compound_chunk(cd))
        cd->pass = TERP_PASS_BY_MEMBER;
}

struct terp_params
terp_do_cd_member_params(const struct terp_cd *cd,
                         const struct terp_member *member)
{
    struct terp_cd own = {.params = cd->params,
                          .has_missing = cd->has_missing,
                          .missing = cd->missing,
                          .chunk = {.type = member->type}};
    const char *unused;

    if (member->rule > 0) {
        const struct terp_cd_rule *rule = &cd->rules[member->rule - 1];
        (void)parse_mode(rule->mode, &own.params, &unused);
        own.params.bound = rule->bound;
        own.params.floor = 0;
    } else if (terp_type_is_integer(member->type)) {
        own.params.bound_mode = TERP_BOUND_ABSOLUTE;
        own.params.bound = own.params.floor = 0;
    }
    apply_missing(&own);
    return own.params;
}

/* ---- the form for users ---- */

/* The numbers in the order of their words: bound, floor, missing value, valid
 * range. */
#define MAX_NNUMBERS 5
_Static_assert(1 + 2 * MAX_NNUMBERS + TERP_MAX_RANK == TERP_CD_MAX_NUSER_WORDS,
               "with all numbers and all logical dims the form is the longest");

/* Splits a decimal such as 1.25e-05, of at most 17 digits, into mantissa *
 * 10^-exponent. Returns false if the mantissa exceeds 32 bits. */
static bool
split_decimal(const char *text, uint32_t *mantissa_ret, int32_t *exponent_ret)
{
    uint64_t mantissa = 0;
    long exponent = 0;
    bool point = false;

    for (; isdigit((unsigned char)*text) || *text == '.'; text++) {
        if (*text == '.') {
            point = true;
            continue;
        }
        mantissa = 10 * mantissa + (uint64_t)(*text - '0');
        exponent += point;
    }
    if (*text == 'e')
        exponent -= strtol(text + 1, NULL, 10);
    while (mantissa > UINT32_MAX && mantissa % 10 == 0) {
        mantissa /= 10;
        exponent--;
    }
    /* Prefer a larger mantissa to a negative exponent, 100 to 1e2: h5repack
     * would need the exponent -2 as 4294967294. */
    while (exponent < 0 && mantissa * 10 <= UINT32_MAX) {
        mantissa *= 10;
        exponent++;
    }
    *mantissa_ret = (uint32_t)mantissa;
    *exponent_ret = (int32_t)exponent;
    return mantissa <= UINT32_MAX;
}

/* The typed form of a number. Returns false if it has none. */
static bool
typed_number(double number, bool is_signed, unsigned *words)
{
    char text[TERP_TEXT_NUMBER_NBYTES];
    uint32_t mantissa;
    int32_t exponent;

    if (!isfinite(number) || (signbit(number) && !is_signed) ||
        !split_decimal(terp_text_shortest(fabs(number), text), &mantissa,
                       &exponent) ||
        (is_signed && mantissa > INT32_MAX))
        return false;
    words[0] = signbit(number) ? 0u - mantissa : mantissa;
    words[1] = (uint32_t)exponent;
    const double read = decimal(mantissa, exponent);
    return double_bits(signbit(number) && mantissa != 0 ? -read : read) ==
           double_bits(number);
}

size_t
terp_do_cd_write(const struct terp_cd *cd, bool exact, unsigned *words_ret)
{
    const struct terp_params *params = &cd->params;
    struct {
        double number;
        bool is_signed;
    } numbers[MAX_NNUMBERS] = {{params->bound, false}};
    size_t nnumbers = 1, nwords;

    words_ret[WORD_MODE] =
        (unsigned)params->bound_mode |
        (unsigned)params->pipeline << TERP_CD_PIPELINE_SHIFT |
        (unsigned)params->predictor << TERP_CD_PREDICTOR_SHIFT |
        (unsigned)params->effort << TERP_CD_EFFORT_SHIFT |
        (unsigned)params->keep_sign << TERP_CD_KEEP_SIGN_SHIFT |
        (params->floor > 0 ? TERP_CD_FLOOR : 0) |
        (cd->has_missing ? TERP_CD_MISSING : 0) |
        (params->has_valid_range ? TERP_CD_VALID_RANGE : 0) |
        (params->format == 1 ? TERP_CD_FORMAT_1 : 0);
    if (params->floor > 0)
        numbers[nnumbers++].number = params->floor;
    if (cd->has_missing) {
        numbers[nnumbers].number = cd->missing;
        numbers[nnumbers++].is_signed = true;
    }
    if (params->has_valid_range) {
        numbers[nnumbers].number = params->valid_min;
        numbers[nnumbers++].is_signed = true;
        numbers[nnumbers].number = params->valid_max;
        numbers[nnumbers++].is_signed = true;
    }
    for (size_t i = 0; i < nnumbers && !exact; i++)
        exact = !typed_number(numbers[i].number, numbers[i].is_signed,
                              words_ret + 1 + 2 * i);
    if (exact) {
        words_ret[WORD_MODE] |= TERP_CD_EXACT;
        for (size_t i = 0; i < nnumbers; i++)
            split(double_bits(numbers[i].number), words_ret + 1 + 2 * i);
    }
    nwords = 1 + 2 * nnumbers;
    if (cd->nlogical > 0)
        words_ret[nwords++] = (unsigned)cd->nlogical;
    for (int i = 0; i < cd->nlogical; i++) {
        if (cd->logical[i] > UINT32_MAX)
            return 0;
        words_ret[nwords++] = (unsigned)cd->logical[i];
    }
    return nwords;
}

bool
terp_do_cd_apply_dims(struct terp_cd *cd, enum terp_type type, bool big_endian,
                      int ndims, const uint64_t *dims)
{
    uint64_t brick_nvalues = 1;
    bool fits = true;

    cd->pass = TERP_PASS_NONE;
    if (terp_chunk_make(type, ndims, dims, &cd->chunk) != TERP_OK) {
        cd->pass = TERP_PASS_TOO_LARGE;
        return true;
    }
    cd->chunk.big_endian = big_endian;
    apply_missing(cd);
    if (cd->nlogical == 0)
        return true;
    uint64_t nvalues = 1;
    for (int i = 0; i < cd->chunk.rank; i++)
        nvalues *= cd->chunk.dims[i];
    for (int i = 0; i < cd->nlogical && fits; i++)
        fits = mul_fits(brick_nvalues, cd->logical[i], &brick_nvalues);
    if (!fits || nvalues % brick_nvalues != 0)
        return false;
    cd->chunk.stack = true;
    cd->chunk.rank = cd->nlogical + 1;
    cd->chunk.dims[0] = nvalues / brick_nvalues;
    for (int i = 0; i < cd->nlogical; i++)
        cd->chunk.dims[i + 1] = cd->logical[i];
    return true;
}

bool
terp_do_cd_may_lose(const struct terp_cd *cd)
{
    struct terp_member_walk walk = {.at = 0};
    bool may = false;

    if (cd->pass != TERP_PASS_BY_MEMBER)
        return terp_params_may_lose(cd->chunk.type, &cd->params);
    while (!may && terp_member_next(&cd->compound, &walk)) {
        const struct terp_params params =
            terp_do_cd_member_params(cd, &walk.member);
        may = terp_params_may_lose(walk.member.type, &params);
    }
    return may;
}
