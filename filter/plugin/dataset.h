/* Reads from HDF5 what the filter must know of a new dataset. */
#pragma once

#include <hdf5.h>

#include "codec/api/cd_values.h"
#include "filter/plugin/host.h"

/* Reads the cd_values of terp in `dcpl`, at most TERP_CD_MAX_NWORDS, and the
 * filter's flags. False when `dcpl` has no filter terp, or the host lacks a
 * function. */
bool
terp_dataset_get_words(const struct terp_host *host, hid_t dcpl,
                       unsigned *flags_ret, size_t *nwords_ret,
                       unsigned *words_ret);

bool
terp_dataset_set_words(const struct terp_host *host, hid_t dcpl, unsigned flags,
                       size_t nwords, const unsigned *words);

/* Fills pass, chunk, members and fill value of `cd` for a dataset with `dcpl`,
 * `type` and the chunk's `space`. Returns false when the logical dims of `cd`
 * do not divide the chunk; the chunk's own dims are used then. *unmatched_ret:
 * a rule of `cd` has no member. */
bool
terp_dataset_describe(const struct terp_host *host, hid_t dcpl, hid_t type,
                      hid_t space, struct terp_cd *cd, bool *unmatched_ret);

/* One English clause; static storage. */
const char *
terp_pass_text(enum terp_pass pass);
