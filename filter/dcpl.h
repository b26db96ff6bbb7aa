/* What a dataset creation property list says of the dataset's chunks: for
 * terp::h5 and the connector, which code chunks themselves and hand only
 * streams to HDF5. */
#pragma once

#include "codec/api/cd_values.h"
#include "codec/format/array.h"
#include "filter/plugin/host.h"

/* NULL where every chunk is a stream of terp and nothing else; *cd_ret then
 * says how chunks are coded. Otherwise the reason, in static storage. */
const char *
terp_dcpl_read_streams(const struct terp_host *host, hid_t dcpl,
                       struct terp_cd *cd_ret);

/* Bytes of the largest value (struct terp_array). */
#define TERP_DCPL_PAD_NBYTES (sizeof((struct terp_array *)0)->pad)

/* Reads the value that HDF5 stores beyond the dataset's end in a chunk at its
 * edge: the fill value, as a value of `type`, or zeros where HDF5 writes no
 * fill values. False where the host does not tell. */
bool
terp_dcpl_read_padding(const struct terp_host *host, hid_t dcpl, hid_t type,
                       uint8_t pad_ret[TERP_DCPL_PAD_NBYTES]);
