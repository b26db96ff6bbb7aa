/* What HDF5 says of a dataset that is about to be created. */
#pragma once

#include <hdf5.h>

#include "codec/api/cd_values.h"
#include "filter/plugin/host.h"

/* Reads the cd_values of terp in `dcpl`, at most TERP_CD_MAX_NWORDS, and the
 * flags that go with them. False when the host cannot be asked, or has no
 * such filter in `dcpl`. */
bool
terp_dataset_get_words(const struct terp_host *host, hid_t dcpl,
                       unsigned *flags_ret, size_t *nwords_ret,
                       unsigned *words_ret);

bool
terp_dataset_set_words(const struct terp_host *host, hid_t dcpl, unsigned flags,
                       size_t nwords, const unsigned *words);

/* Fills pass, chunk and fill value of `cd` for a dataset of `dcpl`, `type`
 * and the chunk's `space`. Returns false when the logical dims of `cd` do
 * not fit the chunk; its own dims are used then. */
bool
terp_dataset_describe(const struct terp_host *host, hid_t dcpl, hid_t type,
                      hid_t space, struct terp_cd *cd);

/* One English clause; static storage. */
const char *
terp_pass_text(enum terp_pass pass);
