/* The cd_values of h5z_terp.h, for test_fortran_words.f90. */
#include "h5z_terp.h"

/* `numbers`: mode, pipeline, predictor, effort, keep_sign, has_missing,
 * has_valid_range, nlogical, the dims of a box, slowest first, format; `reals`:
 * bound, floor, missing, valid_min, valid_max. */
int
terp_test_words(const int *numbers, const double *reals, int *words_ret);

int
terp_test_words(const int *numbers, const double *reals, int *words_ret)
{
    unsigned words[H5Z_TERP_MAX_NWORDS];
    const unsigned *n = (const unsigned *)numbers;
    const struct H5Z_terp_config config = {
        .bound_mode = n[0],
        .bound = reals[0],
        .pipeline = n[1],
        .predictor = n[2],
        .effort = n[3],
        .keep_sign = n[4],
        .has_missing = n[5],
        .has_valid_range = n[6],
        .nlogical = n[7],
        .logical = {n[8], n[9], n[10]},
        .format = n[11],
        .floor = reals[1],
        .missing = reals[2],
        .valid_min = reals[3],
        .valid_max = reals[4],
    };
    const size_t nwords = H5Z_terp_cd_values(&config, words);

    memcpy(words_ret, words, nwords * sizeof *words);
    return (int)nwords;
}
