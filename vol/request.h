/* The connector's own requests, which HDF5 keeps in event sets. A request
 * stands for one or several operations (pending.h). */
#pragma once

#include "vol/object.h"

struct vol_request {
    struct vol_object object; /* what HDF5 gets */
    size_t nleft;             /* operations that are not complete */
    bool is_canceled;
    bool has_failed;
    hid_t errors; /* the error stack of the first failure, or negative */
    herr_t (*notify)(void *, int);
    void *notify_arg;
    uint64_t begin, nanoseconds; /* of the work in the connector's thread */
};

/* A request of `noperations` for an object; NULL: memory is short. */
struct vol_request *
vol_request_make(const struct vol_object *object, size_t noperations);

/* The request that HDF5 passes to a callback; NULL: it is one of the connector
 * below. */
struct vol_request *
vol_request_of(void *at);

enum vol_status
vol_request_status(const struct vol_request *request);

/* One operation of the request is complete. `failed`: HDF5's error stack says
 * why. Calls the program's function after the last operation. */
void
vol_request_complete(struct vol_request *request, bool failed);

/* Callbacks of the connector's class, for its own requests. */
herr_t
vol_request_notify(struct vol_request *request, void (*call)(void), void *arg);
herr_t
vol_request_specific(const struct vol_request *request,
                     struct vol_request_specific *arguments);
void
vol_request_free(struct vol_request *request);
