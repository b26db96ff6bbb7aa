/* Says how the operations of a request ended. */
#include "vol/request.h"

#include <stdlib.h>

struct vol_request *
vol_request_make(const struct vol_object *object, size_t noperations)
{
    struct vol_request *request = calloc(1, sizeof *request);

    if (request == NULL)
        return NULL;
    request->object.library = object->library;
    request->object.vol = object->vol;
    request->object.is_own_request = true;
    request->nleft = noperations;
    request->errors = H5I_INVALID_HID;
    return request;
}

struct vol_request *
vol_request_of(void *at)
{
    const struct vol_object *object = at;

    return object->is_own_request ? at : NULL;
}

enum vol_status
vol_request_status(const struct vol_request *request)
{
    return request->nleft > 0     ? VOL_STATUS_IN_PROGRESS
           : request->has_failed  ? VOL_STATUS_FAIL
           : request->is_canceled ? VOL_STATUS_CANCELED
                                  : VOL_STATUS_SUCCEED;
}

static void
say_complete(const struct vol_request *request)
{
    if (request->notify != NULL && request->nleft == 0)
        (void)request->notify(request->notify_arg,
                              (int)vol_request_status(request));
}

void
vol_request_complete(struct vol_request *request, bool failed)
{
    if (failed && !request->has_failed)
        request->errors = request->object.library->H5Eget_current_stack();
    request->has_failed |= failed;
    request->nleft--;
    say_complete(request);
}

herr_t
vol_request_notify(struct vol_request *request, void (*call)(void), void *arg)
{
    request->notify = (herr_t(*)(void *, int))call;
    request->notify_arg = arg;
    say_complete(request);
    return 0;
}

herr_t
vol_request_specific(const struct vol_request *request,
                     struct vol_request_specific *arguments)
{
    if (arguments->op == VOL_REQUEST_GET_ERR_STACK) {
        /* HDF5 or the program closes the id. */
        arguments->args.errors = request->errors;
        return request->errors >= 0
                   ? request->object.library->H5Iinc_ref(request->errors)
                   : 0;
    }
    if (arguments->op != VOL_REQUEST_GET_EXEC_TIME)
        return -1;
    if (arguments->args.time.begin_ret != NULL)
        *arguments->args.time.begin_ret = request->begin;
    if (arguments->args.time.nanoseconds_ret != NULL)
        *arguments->args.time.nanoseconds_ret = request->nanoseconds;
    return 0;
}

void
vol_request_free(struct vol_request *request)
{
    if (request->errors >= 0)
        request->object.library->H5Idec_ref(request->errors);
    free(request);
}
