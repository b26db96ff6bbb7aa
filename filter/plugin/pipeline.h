/* The filters beside terp in a dataset's pipeline. */
#pragma once

#include "codec/api/cd_values.h"
#include "filter/plugin/host.h"

#define TERP_PIPELINE_NAME_NBYTES 32

/* Whether terp can have the values as they are, and give its streams to the
 * filters behind it: TERP_PASS_NONE, ..._NOT_FIRST, ..._BEHIND or
 * ..._UNKNOWN_LAYOUT where the host does not tell. `name_ret` is the filter
 * that is in the way, or empty. */
enum terp_pass
terp_pipeline_check(const struct terp_host *host, hid_t dcpl,
                    char name_ret[TERP_PIPELINE_NAME_NBYTES]);

/* Takes away from before terp what is of no use there, and allowed by
 * terp_pipeline_check: a shuffle, and a fletcher32, which goes behind it. To be
 * called by terp's set_local, in the midst of HDF5's list of filters. False
 * where HDF5 refuses that; values do not come as they are then. */
bool
terp_pipeline_clear(const struct terp_host *host, hid_t dcpl);
