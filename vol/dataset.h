/* Creates, writes and reads datasets, with rules and in batches. */
#pragma once

#include "vol/object.h"

/* Callbacks of the connector's class. */
void *
vol_dataset_create(void *at, const struct vol_loc *loc, const char *name,
                   hid_t lcpl, hid_t type, hid_t space, hid_t dcpl, hid_t dapl,
                   hid_t dxpl, void **req);
void *
vol_dataset_open(void *at, const struct vol_loc *loc, const char *name,
                 hid_t dapl, hid_t dxpl, void **req);
herr_t
vol_dataset_read(size_t count, void **datasets, hid_t *types, hid_t *mem_spaces,
                 hid_t *file_spaces, hid_t dxpl, void **buffers, void **req);
herr_t
vol_dataset_write(size_t count, void **datasets, hid_t *types,
                  hid_t *mem_spaces, hid_t *file_spaces, hid_t dxpl,
                  const void **buffers, void **req);
