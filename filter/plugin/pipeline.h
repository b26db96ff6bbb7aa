/* The filters before and after terp in a dataset's pipeline. */
#pragma once

#include "codec/api/cd_values.h"
#include "filter/plugin/host.h"

/* Bounds the filter's name in messages, with the final 0; longer names are cut.
 */
#define TERP_PIPELINE_NAME_NBYTES 32

/* Whether terp gets the dataset's values unchanged and the filters after terp
 * preserve its streams: TERP_PASS_NONE, ..._NOT_FIRST, ..._BEHIND, or
 * ..._UNKNOWN_LAYOUT where the host does not tell. `name_ret` is the name of
 * the filter that prevents compression, or empty. */
enum terp_pass
terp_pipeline_check(const struct terp_host *host, hid_t dcpl,
                    char name_ret[TERP_PIPELINE_NAME_NBYTES]);

/* Removes the filters before terp that terp_pipeline_check allows: a shuffle,
 * and a fletcher32, which is added again after terp. Call it in terp's
 * set_local only. False where HDF5 refuses; terp would then not get the values
 * unchanged. */
bool
terp_pipeline_clear(const struct terp_host *host, hid_t dcpl);
