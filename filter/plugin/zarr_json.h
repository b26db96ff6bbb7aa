/* The JSON that configures terp in a Zarr store, such as {"id": "terp", "rel":
 * 0.001}, and cd_values. doc/zarr.md describes the members. The codecs of the
 * Python package read and write the same JSON. */
#pragma once

#include "codec/api/cd_values.h"

/* The longest JSON that terp writes, with its final 0: 15 members. */
#define TERP_ZARR_JSON_NBYTES 512

/* Parses `json` to cd_values in the exact form. JSON without a bound only
 * describes how to read; it gives no cd_values (*nwords_ret is 0). Returns
 * false, with *reason_ret set to a static English sentence, where `json` is not
 * valid. Safe for threads, in any locale. */
bool
terp_zarr_json_read(const char *json, unsigned words_ret[TERP_CD_MAX_NWORDS],
                    size_t *nwords_ret, const char **reason_ret);

/* Writes the configuration of `cd`. The fill value and the chunk have no
 * members. Safe for threads, in any locale. */
void
terp_zarr_json_write(const struct terp_cd *cd,
                     char json_ret[TERP_ZARR_JSON_NBYTES]);
