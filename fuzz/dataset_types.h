/* Types and attributes of the datasets that fuzz/datasets.h makes. */
#pragma once

#include <hdf5.h>
#include <stdbool.h>
#include <stdint.h>

#include "codec/api/terp.h"

/* Makes the types, once for each process. */
void
fuzz_types_begin(void);

hid_t
fuzz_type(uint8_t choice);

/* The HDF5 type whose values terp codes as `coded`. TERP_BYTES gives opaque
 * bytes or a bit field. */
hid_t
fuzz_coded_type(enum terp_type coded, bool big_endian);

/* Makes an attribute. The first three `choices` give its name, type and
 * dataspace. Its values repeat `bytes`, of which at most 255 are used. */
void
fuzz_attribute_make(hid_t dataset, const uint8_t *choices, const uint8_t *bytes,
                    size_t nbytes);
