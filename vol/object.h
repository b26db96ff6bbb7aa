/* An object that the connector gives to HDF5. It wraps an object of the
 * connector below: a file, a group, a dataset, ..., or a request. */
#pragma once

#include "vol/library.h"

struct vol_messages;
struct vol_plan;

struct vol_object {
    const struct vol_library *library;
    hid_t vol;             /* the connector below */
    void *under;           /* the object of the connector below */
    struct vol_plan *plan; /* of a dataset; NULL until needed (plan.c) */
    hid_t type;            /* a copy that the plan has made; 0: none */
    bool is_shared;        /* several processes may have its file open */
    /* all these processes read its file's metadata together, in the same calls
     */
    bool reads_together;
    struct vol_messages *messages; /* between them; NULL: there are none */
    bool is_own_request; /* the first member of a request (request.h) */
    bool is_context;     /* `under` is a context of the connector below */
    bool is_closed;
    int ncontexts; /* for which HDF5 keeps the object */
    /* Of the file through which the program got the object. An external link
     * or a mount leads to objects of another file. */
    unsigned long fileno;
    bool may_write; /* false also if HDF5 does not tell */
};

/* Wraps `under`, which belongs to the same library and connector as `like`.
 * NULL if `under` is NULL, or memory is short. */
void *
vol_object_make(const struct vol_object *like, void *under);
void
vol_object_free(struct vol_object *object);

/* What HDF5 keeps in order to wrap other objects of the same file. */
herr_t
vol_context_make(struct vol_object *on, struct vol_object **context_ret);
/* Keeps HDF5's error stack. */
herr_t
vol_context_free(struct vol_object *context);
void *
vol_context_wrap(const struct vol_object *context, void *made, H5I_type_t type);

/* The wrapped object; NULL for NULL. */
void *
vol_object_under(const void *object);

/* Wraps the request that a call below has made, if any. */
void
vol_object_take_request(const struct vol_object *like, void **req);

/* An id of the dataset's space, type or creation properties, by op
 * VOL_DATASET_GET_SPACE, ..._TYPE or ..._DCPL. The caller closes it. Negative
 * on failure. */
hid_t
vol_dataset_id(const struct vol_object *dataset, int op, hid_t dxpl);

/* The object's path, which the caller frees; NULL: it has none, or HDF5 does
 * not tell. `type` is the H5I_type_t of the object. */
char *
vol_object_path(const struct vol_object *object, int type, hid_t dxpl);

/* The number of the object's file, which all objects of a file that is open
 * have in common. `type` is the H5I_type_t of the object. False if HDF5 does
 * not tell. */
bool
vol_object_fileno(const struct vol_object *object, int type, hid_t dxpl,
                  unsigned long *fileno_ret);

/* Whether the program has opened the file once. False if HDF5 does not tell. */
bool
vol_file_is_open_once(const struct vol_object *file, hid_t dxpl);

/* Whether the object's file is open for writing, which HDF5 does not check when
 * it stores a stream. `type` is the H5I_type_t of the object. False for an
 * object of another file, and if HDF5 does not tell. */
bool
vol_object_may_write(const struct vol_object *object, int type, hid_t dxpl);

/* Sets fileno and may_write of `file`. */
void
vol_object_read_file(struct vol_object *file, hid_t dxpl);

/* Sets is_shared and reads_together of `file`, which is opened with these
 * properties: true if HDF5 does not tell. Asks HDF5 for no communicator,
 * because that is a call of all processes. `caller` is the return address of
 * the callback. */
void
vol_object_read_sharing(const void *caller, hid_t fapl,
                        struct vol_object *file);
