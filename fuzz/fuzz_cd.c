/* Any cd_values are safe to parse. Parsed cd_values that are stored in a file
 * keep the meaning of the user's words. */
#include <stdlib.h>
#include <string.h>

#include "codec/api/cd_values.h"
#include "codec/format/base.h"
#include "fuzz/target.h"

#define MAX_NWORDS 64

static bool
same_chunk(const struct terp_chunk *a, const struct terp_chunk *b)
{
    return a->type == b->type && a->big_endian == b->big_endian &&
           a->stack == b->stack && a->rank == b->rank &&
           memcmp(a->dims, b->dims, (size_t)a->rank * sizeof a->dims[0]) == 0;
}

static bool
same_params(const struct terp_params *a, const struct terp_params *b)
{
    return a->bound_mode == b->bound_mode && a->bound == b->bound &&
           a->pipeline == b->pipeline && a->predictor == b->predictor &&
           a->effort == b->effort && a->has_fill == b->has_fill &&
           a->fill_bits == b->fill_bits && a->floor == b->floor;
}

static void
persist(const struct terp_cd *cd)
{
    unsigned words[TERP_CD_MAX_NWORDS], again[TERP_CD_MAX_NWORDS];
    struct terp_cd read;
    const char *reason = NULL;
    size_t nwords = terp_cd_persist(cd, words);

    CHECK(nwords <= TERP_CD_MAX_NWORDS);
    CHECK(terp_cd_parse(nwords, words, &read, &reason) == TERP_OK);
    CHECK(read.persisted && read.pass == cd->pass);
    CHECK(same_params(&read.params, &cd->params));
    if (read.pass == TERP_PASS_NONE)
        CHECK(read.params.has_missing == cd->params.has_missing &&
              read.params.missing_bits == cd->params.missing_bits);
    if (read.pass == TERP_PASS_NONE)
        CHECK(same_chunk(&read.chunk, &cd->chunk));
    CHECK(read.nrules == cd->nrules || read.pass != TERP_PASS_BY_MEMBER);
    if (read.pass == TERP_PASS_BY_MEMBER) {
        struct terp_member_walk walk = {.at = 0};
        uint64_t nmembers = 0;
        while (terp_member_next(&read.compound, &walk)) {
            const struct terp_params params =
                terp_cd_member_params(&read, &walk.member);
            struct terp_chunk chunk;
            CHECK(terp_params_check(&params, NULL) == TERP_OK);
            CHECK(terp_member_chunk(&read.compound, &walk.member, &chunk) ==
                  TERP_OK);
            CHECK(terp_chunk_nbytes(&chunk) ==
                  terp_compound_nvalues(&read.compound) * walk.nbytes);
            nmembers++;
        }
        CHECK(nmembers == read.compound.nmembers);
        CHECK(walk.at + walk.nbytes == read.compound.value_nbytes);
    }
    CHECK(terp_cd_persist(&read, again) == nwords);
    CHECK(memcmp(words, again, nwords * sizeof words[0]) == 0);
}

/* Byte 0: type, byte order, rank. Then words: cd_values. The first of the words
 * also serve as the dims of a chunk. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    if (nbytes == 0)
        return 0;
    size_t nwords = (nbytes - 1) / 4;
    if (nwords > MAX_NWORDS)
        nwords = MAX_NWORDS;
    /* Exactly as many words as announced, so that ASan sees a read beyond
     * them. */
    unsigned *words = malloc(nwords * sizeof *words + 1);
    CHECK(words != NULL);
    for (size_t i = 0; i < nwords; i++)
        words[i] = (unsigned)load_le(data + 1 + 4 * i, 4);

    struct terp_cd cd;
    const char *reason = NULL;
    enum terp_status st = terp_cd_parse(nwords, words, &cd, &reason);
    CHECK(reason != NULL);
    CHECK((st == TERP_OK) == (reason[0] == '\0'));
    if (st == TERP_OK && cd.persisted) {
        persist(&cd);
    } else if (st == TERP_OK) {
        uint64_t dims[8];
        int ndims = data[0] >> 4 & 7;
        for (int i = 0; i < ndims; i++)
            dims[i] = nwords > 0 ? words[(size_t)i % nwords] : 1;
        enum terp_type type = data[0] & 1 ? TERP_FLOAT64 : TERP_FLOAT32;
        terp_cd_apply_dims(&cd, type, data[0] & 2, ndims, dims);
        persist(&cd);
    }
    free(words);
    return 0;
}
