/* What HDF5 holds of the connector: a file, a group, a dataset, ... of the
 * connector under it, or a request. */
#pragma once

#include "vol/library.h"

struct vol_plan;

struct vol_object {
    const struct vol_library *library;
    hid_t vol;             /* the connector under this one */
    void *under;           /* its object */
    struct vol_plan *plan; /* of a dataset, once it is made (batches.c) */
};

/* What the connector under this one made, in the same library and by the same
 * connector as `like`; NULL where it made nothing. */
void *
vol_object_make(const struct vol_object *like, void *under);
void
vol_object_free(struct vol_object *object);

/* NULL for NULL. */
void *
vol_object_under(const void *object);

/* A request that a call has made becomes one of ours. */
void
vol_object_take_request(const struct vol_object *like, void **req);

/* What a dataset tells by an id that the caller closes: VOL_DATASET_GET_SPACE,
 * ..._TYPE or ..._DCPL. Negative where that fails. */
hid_t
vol_dataset_id(const struct vol_object *dataset, int op, hid_t dxpl);

/* Whether the object's file is open for writing, which HDF5 does not ask where
 * it stores a chunk as it is. `type` is the H5I_type_t of the object. False
 * where that cannot be told. */
bool
vol_object_may_write(const struct vol_object *object, int type, hid_t dxpl);

/* Whether several processes may have the object's file open. `type` is the
 * H5I_type_t of the object. True where that cannot be told. */
bool
vol_object_is_shared(const struct vol_object *object, int type, hid_t dxpl);
