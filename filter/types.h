/* Recognises HDF5's types of numbers, for the plugin, the connector and the
 * tool. */
#pragma once

#include "codec/api/cd_values.h"
#include "filter/plugin/host.h"

/* H5T_COMPLEX of HDF5 2.0 and later, which older headers do not declare. */
#define TERP_H5T_COMPLEX 11

/* How terp codes the values of an HDF5 type. */
struct terp_number {
    enum terp_type type;
    bool big_endian;
};

/* Recognises `type`, an id of the host's. TERP_PASS_NONE: *number_ret is set.
 * Any other result says why values of the type pass through uncompressed:
 * ..._NOT_NUMBER, ..._FLOAT_FORMAT, or ..._UNKNOWN_LAYOUT where the host lacks
 * a function.
 *
 * - An integer, a float32 or a float64 equals one of HDF5's predefined types,
 *   so it has no padding bits.
 * - float16 and bfloat16 are recognised by all their fields, because HDF5
 *   before 1.14.4 predefines neither.
 * - An enumeration is coded as its integers.
 * - A complex value is an H5T_COMPLEX, or a compound of two members "r" and
 *   "i" without padding, as h5py writes it; both parts are float32 or
 *   float64. */
enum terp_pass
terp_number_read(const struct terp_host *host, hid_t type,
                 struct terp_number *number_ret);

/* Stores the id of HDF5's predefined type for `number`, which the caller must
 * not close. False where HDF5 predefines none, or the host does not tell. */
bool
terp_number_find_type(const struct terp_host *host,
                      const struct terp_number *number, hid_t *type_ret);
