/* Reads and extends tables of members. */
#include "codec/api/compound.h"

#include "codec/format/base.h"
#include "codec/format/types.h"

#define BIG_ENDIAN_SHIFT 8
#define RANK_SHIFT 9
#define RULE_SHIFT 11
#define REPEATS_SHIFT 16
#define MAX_REPEATS 0xFFFFu

static uint32_t
word_of(const struct terp_member *member)
{
    return (uint32_t)member->type |
           (uint32_t)member->big_endian << BIG_ENDIAN_SHIFT |
           (uint32_t)member->rank << RANK_SHIFT |
           (uint32_t)member->rule << RULE_SHIFT;
}

/* Reads the entry at `at`, which is complete. Returns its repeats. */
static uint32_t
read_entry(const uint32_t *at, struct terp_member *member)
{
    *member = (struct terp_member){.type = (enum terp_type)(*at & 0xFF),
                                   .big_endian = *at >> BIG_ENDIAN_SHIFT & 1,
                                   .rank = (int)(*at >> RANK_SHIFT & 3),
                                   .rule = (int)(*at >> RULE_SHIFT & 0x1F)};
    memcpy(member->dims, at + 1, (size_t)member->rank * sizeof *at);
    return *at >> REPEATS_SHIFT;
}

static uint32_t
entry_nwords(uint32_t word)
{
    return 1 + (word >> RANK_SHIFT & 3);
}

uint32_t
terp_member_nbytes(const struct terp_member *member)
{
    if (!terp_type_is_known((int)member->type) || member->type == TERP_BYTES)
        return 0;
    uint64_t nbytes = (uint64_t)terp_value_nbytes(member->type);
    for (int i = 0; i < member->rank; i++)
        if (!mul_fits(nbytes, member->dims[i], &nbytes))
            return 0;
    return nbytes <= UINT32_MAX ? (uint32_t)nbytes : 0;
}

/* The entry that describes the last members; NULL in an empty table. */
static uint32_t *
last_entry(struct terp_compound *compound)
{
    uint32_t *last = NULL;

    for (uint32_t i = 0; i < compound->nwords;
         i += entry_nwords(compound->words[i]))
        last = &compound->words[i];
    return last;
}

bool
terp_compound_add(struct terp_compound *compound,
                  const struct terp_member *member)
{
    const uint32_t nbytes = terp_member_nbytes(member);
    const uint32_t word = word_of(member), nwords = entry_nwords(word);
    uint32_t *last = last_entry(compound);

    if (nbytes == 0 || compound->nmembers == TERP_COMPOUND_MAX_NMEMBERS ||
        nbytes > UINT32_MAX - compound->value_nbytes)
        return false;
    if (last != NULL && (*last & MAX_REPEATS) == word &&
        memcmp(last + 1, member->dims,
               (size_t)member->rank * sizeof *member->dims) == 0) {
        *last += 1u << REPEATS_SHIFT;
    } else {
        if (nwords > TERP_COMPOUND_MAX_NWORDS - compound->nwords)
            return false;
        last = compound->words + compound->nwords;
        *last = word | 1u << REPEATS_SHIFT;
        memcpy(last + 1, member->dims,
               (size_t)member->rank * sizeof *member->dims);
        compound->nwords += nwords;
    }
    compound->value_nbytes += nbytes;
    compound->nmembers++;
    return true;
}
_Static_assert(TERP_COMPOUND_MAX_NMEMBERS <= MAX_REPEATS,
               "repeats never exceed their bits");

bool
terp_compound_check(struct terp_compound *compound, int nrules)
{
    struct terp_member member;
    uint64_t nbytes = 0, nmembers = 0;

    for (uint32_t i = 0; i < compound->nwords;) {
        const uint32_t nwords = entry_nwords(compound->words[i]);
        if (nwords > compound->nwords - i)
            return false;
        const uint32_t repeats = read_entry(compound->words + i, &member);
        const uint64_t of_member = terp_member_nbytes(&member);
        if (of_member == 0 || repeats == 0 || member.rule > nrules)
            return false;
        nbytes += repeats * of_member;
        nmembers += repeats;
        if (nbytes > UINT32_MAX || nmembers > TERP_COMPOUND_MAX_NMEMBERS)
            return false;
        i += nwords;
    }
    compound->nmembers = (uint32_t)nmembers;
    return nbytes > 0 && nbytes == compound->value_nbytes;
}

bool
terp_member_next(const struct terp_compound *compound,
                 struct terp_member_walk *walk)
{
    if (walk->nleft == 0) {
        if (walk->next_word >= compound->nwords)
            return false;
        const uint32_t *at = compound->words + walk->next_word;
        walk->at += walk->nbytes;
        walk->nleft = read_entry(at, &walk->member) - 1;
        walk->nbytes = terp_member_nbytes(&walk->member);
        walk->next_word += entry_nwords(*at);
        return true;
    }
    walk->nleft--;
    walk->at += walk->nbytes;
    return true;
}

enum terp_status
terp_member_chunk(const struct terp_compound *compound,
                  const struct terp_member *member,
                  struct terp_chunk *chunk_ret)
{
    uint64_t dims[TERP_MAX_RANK + TERP_MEMBER_MAX_RANK];
    int ndims = 0;

    for (int i = 0; i < compound->rank; i++)
        dims[ndims++] = compound->dims[i];
    for (int i = 0; i < member->rank; i++)
        dims[ndims++] = member->dims[i];
    const enum terp_status st =
        terp_chunk_make(member->type, ndims, dims, chunk_ret);
    if (st == TERP_OK)
        chunk_ret->big_endian = member->big_endian;
    return st;
}

uint64_t
terp_compound_nvalues(const struct terp_compound *compound)
{
    uint64_t nvalues = 1, nbytes = compound->value_nbytes;

    for (int i = 0; i < compound->rank; i++)
        if (!mul_fits(nbytes, compound->dims[i], &nbytes))
            return 0;
        else
            nvalues *= compound->dims[i];
    return nbytes > 0 ? nvalues : 0;
}
