/* Types and attributes of the datasets that fuzz/datasets.h is about. */
#pragma once

#include <hdf5.h>
#include <stdbool.h>
#include <stdint.h>

#include "codec/api/terp.h"

/* Makes them, once. */
void
fuzz_types_begin(void);

hid_t
fuzz_type(uint8_t choice);

/* The type of which terp codes values so; bytes stand for all others. */
hid_t
fuzz_coded_type(enum terp_type coded, bool big_endian);

/* Makes an attribute of the name, type and dataspace that the first three
 * `choices` say, whose values repeat `bytes`, at most 255. */
void
fuzz_attribute_make(hid_t dataset, const uint8_t *choices, const uint8_t *bytes,
                    size_t nbytes);
