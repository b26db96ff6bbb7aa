/* Settings as text: mode="rel", bound=0.001, pipeline="huffman".
 * doc/cd_values.md describes the text form; terp_settings_read and
 * terp_settings_write of terp.h read and write it. Hosts whose parameters are
 * pairs of strings, such as ADIOS2, call the functions here: the names and
 * words are the same. */
#pragma once

#include "codec/api/settings.h"

/* What pairs of a name and a word have said so far; begin with zeros. */
struct terp_worded_settings {
    struct terp_settings settings;
    bool has_mode, has_bound;
    enum terp_setting mode; /* lossless or a bound */
    double bound;           /* of `mode` */
};

/* Takes over a setting of terp_settings_take, or mode, bound, digits or bits. A
 * word is a number, true or false, a name, MIN:MAX for valid_range, or AxBxC
 * for dims. Returns false with *reason_ret set to a static English sentence. */
bool
terp_settings_take_word(struct terp_worded_settings *worded, const char *name,
                        const char *word, const char **reason_ret);

/* As terp_settings_end. Without any bound the result is lossless. */
size_t
terp_settings_end_words(const struct terp_worded_settings *worded, bool exact,
                        unsigned words_ret[TERP_CD_MAX_NUSER_WORDS],
                        const char **reason_ret);
