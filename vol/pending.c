/* Keeps the operations that have begun, in order, and completes them. */
#include "vol/pending.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "filter/h5/coder.h"
#include "filter/plugin/call.h"
#include "vol/device.h"
#include "vol/plan.h"

struct operation {
    struct operation *next;
    const void *caller; /* an address in the library */
    pid_t process;
    struct vol_object *object;
    int type; /* H5I_FILE: close it; H5I_DATASET without a job, too */
    unsigned long fileno;
    struct terp_h5_job *job;
    struct terp_h5_block block;
    struct vol_storage storage;
    void *dst; /* of a read */
    struct vol_request *request;
};

/* A write that failed while nobody waited for it. */
struct failure {
    struct failure *next;
    const struct vol_library *library;
    unsigned long fileno;
    hid_t errors; /* why, for a call of the program that fails; negative: one
                     has failed */
};

/* The lists. Several libraries may be called by several threads. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct operation *first;
static struct failure *failures;
static atomic_size_t noperations, nfailures;

/* ---- the list ---- */

static void
append(struct operation *operation)
{
    struct operation **at = &first;

    pthread_mutex_lock(&lock);
    while (*at != NULL)
        at = &(*at)->next;
    *at = operation;
    noperations++;
    pthread_mutex_unlock(&lock);
}

static void
take_out(const struct operation *operation)
{
    struct operation **at = &first;

    pthread_mutex_lock(&lock);
    while (*at != operation)
        at = &(*at)->next;
    *at = operation->next;
    noperations--;
    pthread_mutex_unlock(&lock);
}

/* What is looked for; NULL and false: everything. */
struct wanted {
    const struct vol_library *library;
    const struct vol_object *object;
    const struct vol_request *request;
    bool has_fileno;
    unsigned long fileno;
};

static bool
suits(const struct operation *operation, const struct wanted *wanted)
{
    return operation->object->library == wanted->library &&
           (wanted->object == NULL || operation->object == wanted->object) &&
           (wanted->request == NULL || operation->request == wanted->request) &&
           (!wanted->has_fileno || operation->fileno == wanted->fileno);
}

/* The first operation that suits; NULL: none. It stays in the list, from which
 * only the library's own calls take it. */
static struct operation *
find(const struct wanted *wanted)
{
    struct operation *operation;

    if (noperations == 0)
        return NULL;
    pthread_mutex_lock(&lock);
    operation = first;
    while (operation != NULL && !suits(operation, wanted))
        operation = operation->next;
    pthread_mutex_unlock(&lock);
    return operation;
}

bool
vol_pending_any(void)
{
    return noperations > 0;
}

static struct operation *
find_any(const struct vol_library *library)
{
    const struct wanted wanted = {.library = library};

    return find(&wanted);
}

/* ---- failures for which nobody waits ---- */

/* HDF5's error stack says why. */
static void
note_failure(const struct operation *operation, enum terp_status st)
{
    const struct vol_library *library = operation->object->library;
    struct failure *failure = calloc(1, sizeof *failure);
    hid_t errors = library->H5Eget_current_stack();

    if (terp_verbosity() != TERP_VERBOSITY_QUIET) {
        char *path = operation->job == NULL
                         ? NULL
                         : vol_object_path(operation->object, H5I_DATASET,
                                           operation->storage.plan->dxpl);
        fprintf(stderr, "H5Z-TERP: %s: an asynchronous %s failed: %s\n",
                path == NULL ? "a dataset" : path,
                operation->job == NULL ? "close" : "write",
                terp_status_text(st));
        free(path);
    }
    if (failure == NULL) {
        if (errors >= 0)
            library->H5Idec_ref(errors);
        return;
    }
    failure->library = library;
    failure->fileno = operation->fileno;
    failure->errors = errors;
    pthread_mutex_lock(&lock);
    failure->next = failures;
    failures = failure;
    nfailures++;
    pthread_mutex_unlock(&lock);
}

static bool
failure_suits(const struct failure *failure, const struct wanted *wanted)
{
    return failure->library == wanted->library &&
           (!wanted->has_fileno || failure->fileno == wanted->fileno);
}

/* Whether a write of the file failed. Only failures that no call has reported
 * count, or if the file is closed, all; they are then forgotten. HDF5's error
 * stack says why. */
static bool
has_failed(const struct wanted *wanted, bool is_closed)
{
    const struct vol_library *library = wanted->library;
    struct failure **at = &failures;
    hid_t errors = H5I_INVALID_HID;
    bool found = false;

    if (nfailures == 0)
        return false;
    pthread_mutex_lock(&lock);
    while (*at != NULL) {
        struct failure *failure = *at;
        at = &failure->next;
        if (!failure_suits(failure, wanted))
            continue;
        found |= is_closed || failure->errors >= 0;
        if (failure->errors >= 0 && errors >= 0)
            library->H5Idec_ref(errors);
        if (failure->errors >= 0)
            errors = failure->errors;
        failure->errors = H5I_INVALID_HID;
    }
    for (at = &failures; is_closed && *at != NULL;) {
        struct failure *failure = *at;
        if (failure_suits(failure, wanted)) {
            *at = failure->next;
            free(failure);
            nfailures--;
        } else {
            at = &failure->next;
        }
    }
    pthread_mutex_unlock(&lock);
    if (errors >= 0)
        library->H5Eset_current_stack(errors);
    if (found)
        vol_library_push(library->base, __func__, __LINE__,
                         "an earlier asynchronous write failed");
    return found;
}

/* ---- completion ---- */

/* HDF5 writes or reads the values of a job that failed. */
static herr_t
move_down(const struct operation *operation)
{
    const struct terp_h5_block *block = &operation->block;
    const struct vol_object *on = operation->object;
    const struct vol_library *library = on->library;
    const struct vol_plan *plan = operation->storage.plan;
    const void *src = terp_h5_job_values(operation->job);
    void *under = on->under, *dst = operation->dst;
    hid_t type = plan->type;
    hid_t space = vol_dataset_id(on, VOL_DATASET_GET_SPACE, plan->dxpl);
    hid_t memory = library->H5Screate_simple(block->rank, block->count, NULL);
    herr_t result = -1;

    if (src == NULL && dst == NULL)
        vol_library_push(operation->caller, __func__, __LINE__,
                         "values on the device are lost");
    else if (space >= 0 && memory >= 0 &&
             library->H5Sselect_hyperslab(space, H5S_SELECT_SET, block->offset,
                                          NULL, block->count, NULL) >= 0)
        result =
            dst == NULL
                ? library->H5VLdataset_write(1, &under, on->vol, &type, &memory,
                                             &space, plan->dxpl, &src, NULL)
                : library->H5VLdataset_read(1, &under, on->vol, &type, &memory,
                                            &space, plan->dxpl, &dst, NULL);
    hid_t errors = library->H5Eget_current_stack();
    if (memory >= 0)
        library->H5Sclose(memory);
    if (space >= 0)
        library->H5Sclose(space);
    library->H5Eset_current_stack(errors);
    return result;
}

static void
say(const struct operation *operation, enum terp_status st)
{
    struct terp_call call;

    terp_call_begin(operation->caller, &call);
    terp_call_say(
        &call, "connector: asynchronous %s of %llu chunks: %s",
        operation->dst == NULL ? "write" : "read",
        (unsigned long long)terp_array_nchunks(&operation->block.array),
        terp_status_text(st));
    terp_host_close(&call.host);
}

static bool
complete_transfer(struct operation *operation, enum terp_status *st_ret)
{
    const struct vol_library *library = operation->object->library;
    struct terp_run_result result = {.size = sizeof result};
    struct vol_errors said;
    struct vol_state state;
    bool good = true;

    const bool has_state = vol_state_open(library, &state);
    vol_errors_silence(library, &said);
    *st_ret = terp_h5_job_finish(operation->job, &result);
    if (*st_ret == TERP_ERR_HDF5 && operation->dst == NULL)
        good = false; /* HDF5 may believe that the chunk is written */
    else if (*st_ret != TERP_OK)
        good = move_down(operation) >= 0;
    vol_errors_restore(library, &said, !good);
    if (has_state)
        vol_state_close(&state);
    if (operation->request != NULL)
        terp_h5_job_times(operation->job, &operation->request->begin,
                          &operation->request->nanoseconds);
    return good;
}

/* The file that close_file closes. */
static _Thread_local const void *closing;

/* Closes a file, with an id where HDF5 tells the connector the context for one:
 * HDF5 may have the file open again, for a link or a virtual dataset, and then
 * closes the handle only while it has an id. */
static bool
close_file(const struct vol_object *file)
{
    const struct vol_library *library = file->library;
    struct vol_errors said;

    vol_errors_silence(library, &said);
    const hid_t id = library->H5VLwrap_register(file->under, H5I_FILE);
    vol_errors_restore(library, &said, false);
    if (id < 0)
        return library->H5VLfile_close(file->under, file->vol, H5P_DEFAULT,
                                       NULL) >= 0;
    closing = file->under;
    const bool good = library->H5Idec_ref(id) >= 0;
    closing = NULL;
    return good;
}

static bool
close_dataset(const struct vol_object *dataset)
{
    const struct vol_library *library = dataset->library;
    struct vol_state state;
    const bool has_state = vol_state_open(library, &state);
    const bool good = library->H5VLdataset_close(dataset->under, dataset->vol,
                                                 H5P_DEFAULT, NULL) >= 0;

    if (has_state)
        vol_state_close(&state);
    return good;
}

static bool
complete_close(struct operation *operation)
{
    const struct vol_object *object = operation->object;
    const struct wanted wanted = {.library = object->library,
                                  .has_fileno = true,
                                  .fileno = operation->fileno};

    if (operation->type != H5I_FILE)
        return close_dataset(object);
    const bool good = close_file(object);
    return !has_failed(&wanted, true) && good;
}

/* Completes the first operation, whose job is done. */
static void
complete(struct operation *operation)
{
    const struct vol_library *library = operation->object->library;
    enum terp_status st = TERP_ERR_HDF5;
    hid_t errors = library->H5Eget_current_stack();
    struct vol_request *request = operation->request;

    take_out(operation);
    const bool good = operation->job != NULL ? complete_transfer(operation, &st)
                                             : complete_close(operation);
    if (request != NULL)
        vol_request_complete(request, !good);
    else if (!good)
        note_failure(operation, st);
    library->H5Eset_current_stack(errors);
    if (operation->job != NULL)
        say(operation, st);
    else
        vol_object_free(operation->object);
    terp_h5_job_free(operation->job);
    free(operation);
}

/* The operation is its parent's, which completes it. Its objects are leaked. */
static void
drop(struct operation *operation)
{
    take_out(operation);
    if (operation->request != NULL) {
        operation->request->is_canceled = true;
        vol_request_complete(operation->request, false);
    }
    free(operation);
}

/* Completes the library's first operation, if that takes at most `timeout_ns`
 * to wait. False: it takes longer. */
static bool
advance(struct operation *operation, uint64_t timeout_ns)
{
    if (operation->process != getpid()) {
        drop(operation);
        return true;
    }
    if (operation->job != NULL && !terp_h5_job_wait(operation->job, timeout_ns))
        return false;
    complete(operation);
    return true;
}

/* Completes operations, in order, until none suits. */
static void
settle(const struct wanted *wanted)
{
    while (find(wanted) != NULL)
        (void)advance(find_any(wanted->library), TERP_H5_FOREVER);
}

void
vol_pending_progress(const struct vol_library *library)
{
    struct operation *operation = find_any(library);

    while (operation != NULL && advance(operation, 0))
        operation = find_any(library);
}

void
vol_pending_settle_all(const struct vol_library *library)
{
    const struct wanted wanted = {.library = library};

    settle(&wanted);
}

herr_t
vol_pending_settle_files(const struct vol_library *library)
{
    const struct wanted wanted = {.library = library};

    settle(&wanted);
    return has_failed(&wanted, false) ? -1 : 0;
}

herr_t
vol_pending_settle(const struct vol_object *object, int type, hid_t dxpl)
{
    struct wanted wanted = {.library = object->library};

    if (noperations == 0 && nfailures == 0)
        return 0;
    wanted.has_fileno = vol_object_fileno(object, type, dxpl, &wanted.fileno);
    settle(&wanted);
    return has_failed(&wanted, false) ? -1 : 0;
}

herr_t
vol_pending_check(const struct vol_object *object, int type, hid_t dxpl)
{
    struct wanted wanted = {.library = object->library};

    if (nfailures == 0)
        return 0;
    wanted.has_fileno = vol_object_fileno(object, type, dxpl, &wanted.fileno);
    return has_failed(&wanted, false) ? -1 : 0;
}

bool
vol_pending_has_closed_file(const struct vol_library *library)
{
    bool found = false;

    pthread_mutex_lock(&lock);
    for (const struct operation *at = first; at != NULL; at = at->next)
        found |= at->type == H5I_FILE && at->object->library == library;
    pthread_mutex_unlock(&lock);
    return found;
}

/* ---- beginning ---- */

/* Libraries that complete everything before they close. */
#define MAX_NWATCHED 16
static const struct vol_library *watched[MAX_NWATCHED];

static void
close_library(void *at)
{
    const struct vol_library **slot = at;

    vol_pending_settle_all(*slot);
    pthread_mutex_lock(&lock);
    *slot = NULL;
    pthread_mutex_unlock(&lock);
}

/* At the end of the program HDF5 closes files that are open, and so completes
 * what is pending for them; but not the files that the program has closed by
 * H5Fclose_async. */
static void
watch(const void *caller, const struct vol_library *library)
{
    herr_t (*at_close)(void (*)(void *), void *);
    const struct vol_library **slot = NULL;
    struct terp_host host;
    bool is_watched = false;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < MAX_NWATCHED; i++) {
        is_watched |= watched[i] == library;
        if (watched[i] == NULL)
            slot = &watched[i];
    }
    if (!is_watched && slot != NULL)
        *slot = library;
    pthread_mutex_unlock(&lock);
    if (is_watched || slot == NULL)
        return;
    terp_host_open(caller, &host);
    if (terp_host_find(&host, "H5atclose", &at_close))
        (void)at_close(close_library, (void *)slot);
    terp_host_close(&host);
}

bool
vol_pending_is_wanted(void)
{
    const char *text = getenv("TERP_ASYNC");

    return text != NULL && *text != '\0' && strcmp(text, "0") != 0;
}

/* Describes a transfer. False if it cannot be pending. */
static bool
plan_transfer(const void *caller, struct vol_transfer *transfer,
              struct operation *operation, uint64_t *at_ret)
{
    struct terp_h5_block *block = &operation->block;
    struct vol_selection selection;
    const struct vol_plan *plan =
        transfer->dataset->is_shared ? NULL : vol_plan_of(caller, transfer);

    if (plan == NULL ||
        vol_plan_block(plan, transfer, false, block, &selection) != NULL ||
        selection.is_strided || (transfer->dst != NULL && !selection.is_dense))
        return false;
    operation->storage = (struct vol_storage){transfer->dataset, plan};
    block->storage = &vol_batches_storage;
    block->context = &operation->storage;
    *at_ret = selection.at * (uint64_t)block->array.value_nbytes;
    return vol_object_fileno(transfer->dataset, H5I_DATASET, transfer->dxpl,
                             &operation->fileno);
}

static enum terp_status
begin_job(const void *caller, const struct vol_transfer *transfer,
          struct operation *operation, uint64_t skipped_nbytes)
{
    struct terp_call call;

    terp_call_begin(caller, &call);
    terp_host_close(&call.host);
    vol_batches_choose_threads(&call.options);
    if (transfer->on_device)
        call.options.memory = TERP_MEMORY_DEVICE;
    if (transfer->src != NULL)
        return terp_h5_job_encode(&call.options, &operation->block, NULL,
                                  (const uint8_t *)transfer->src +
                                      skipped_nbytes,
                                  true, &operation->job);
    operation->dst = (uint8_t *)transfer->dst + skipped_nbytes;
    return terp_h5_job_decode(&call.options, &operation->block, operation->dst,
                              &operation->job);
}

/* NULL: the caller must move the values. */
static struct operation *
begin_transfer(const void *caller, struct vol_transfer *transfer)
{
    const struct vol_library *library = transfer->dataset->library;
    struct operation *operation = calloc(1, sizeof *operation);
    struct vol_errors said;
    uint64_t at;

    if (operation == NULL)
        return NULL;
    operation->caller = caller;
    operation->process = getpid();
    operation->object = transfer->dataset;
    operation->type = H5I_DATASET;
    if (!plan_transfer(caller, transfer, operation, &at)) {
        free(operation);
        return NULL;
    }
    vol_errors_silence(library, &said);
    enum terp_status st = begin_job(caller, transfer, operation, at);
    /* Earlier transfers have the memory. */
    if (st == TERP_ERR_LIMIT) {
        vol_pending_settle_all(library);
        st = begin_job(caller, transfer, operation, at);
    }
    vol_errors_restore(library, &said, false);
    if (st == TERP_OK)
        return operation;
    free(operation);
    return NULL;
}

enum vol_moved
vol_pending_begin(const void *caller, size_t n, struct vol_transfer *transfers,
                  void **req)
{
    const struct vol_object *object = transfers[0].dataset;
    struct operation **begun =
        (struct operation **)calloc(n, sizeof(struct operation *));
    struct vol_request *request =
        req == NULL ? NULL : vol_request_make(object, n);
    bool good = begun != NULL && (req == NULL || request != NULL);

    for (size_t i = 0; good && i < n; i++) {
        begun[i] = begin_transfer(caller, &transfers[i]);
        good = begun[i] != NULL;
    }
    if (good)
        watch(caller, object->library);
    for (size_t i = 0; begun != NULL && i < n && begun[i] != NULL; i++) {
        if (good) {
            begun[i]->request = request;
            append(begun[i]);
        } else {
            terp_h5_job_free(begun[i]->job);
            free(begun[i]);
        }
    }
    free((void *)begun);
    if (good && req != NULL)
        *req = request;
    else if (request != NULL)
        vol_request_free(request);
    return good ? VOL_MOVED : VOL_LEFT;
}

/* ---- closing ---- */

/* Leaves the closing to the list. False if it must happen now. */
static bool
close_later(struct vol_object *object, int type, unsigned long fileno,
            void **req)
{
    struct operation *operation = calloc(1, sizeof *operation);
    struct vol_request *request =
        req == NULL ? NULL : vol_request_make(object, 1);

    if (operation == NULL || (req != NULL && request == NULL)) {
        free(operation);
        if (request != NULL)
            vol_request_free(request);
        return false;
    }
    operation->process = getpid();
    operation->object = object;
    operation->type = type;
    operation->fileno = fileno;
    operation->request = request;
    append(operation);
    if (req != NULL)
        *req = request;
    return true;
}

/* HDF5 does not close one of several handles of a file once the program's id is
 * gone. */
static bool
may_close_file_later(const struct vol_object *file, hid_t dxpl, void **req)
{
    return req != NULL && vol_file_is_open_once(file, dxpl);
}

static herr_t
close_now(struct vol_object *object, bool is_file, hid_t dxpl, void **req)
{
    const struct vol_library *library = object->library;
    const herr_t result =
        is_file
            ? library->H5VLfile_close(object->under, object->vol, dxpl, req)
            : library->H5VLdataset_close(object->under, object->vol, dxpl, req);

    vol_object_take_request(object, req);
    return result;
}

herr_t
vol_pending_close(struct vol_object *object, int type, hid_t dxpl, void **req)
{
    const bool is_file = type == H5I_FILE;
    struct wanted wanted = {.library = object->library};

    if (object->under == NULL) {
        vol_object_free(object);
        return 0;
    }
    if (is_file && object->under == closing) {
        const herr_t result = close_now(object, true, dxpl, req);
        if (result >= 0)
            vol_object_free(object);
        else
            object->under = NULL; /* HDF5 closes the id again */
        return result;
    }
    /* The number of a closed file is gone. */
    if (noperations > 0 || nfailures > 0) {
        wanted.has_fileno =
            vol_object_fileno(object, type, dxpl, &wanted.fileno);
        wanted.object = is_file ? NULL : object;
        const bool is_pending = find(&wanted) != NULL;
        if (is_pending && wanted.has_fileno &&
            (!is_file || may_close_file_later(object, dxpl, req)) &&
            close_later(object, type, wanted.fileno, req))
            return 0;
        settle(&wanted);
    }
    if (close_now(object, is_file, dxpl, req) < 0)
        return -1;
    wanted.object = NULL;
    if (is_file && has_failed(&wanted, true)) {
        /* HDF5 keeps the file's id, and closes it again at the end of the
         * program. */
        object->under = NULL;
        return -1;
    }
    vol_object_free(object);
    return 0;
}

/* ---- requests ---- */

static uint64_t
left_ns(uint64_t timeout_ns, uint64_t begin)
{
    const uint64_t used = terp_h5_job_clock() - begin;

    return timeout_ns == TERP_H5_FOREVER ? timeout_ns
           : used < timeout_ns           ? timeout_ns - used
                                         : 0;
}

herr_t
vol_pending_wait(struct vol_request *request, uint64_t timeout_ns,
                 int *status_ret)
{
    const struct vol_library *library = request->object.library;
    const uint64_t begin = terp_h5_job_clock();
    bool is_in_time = true;

    while (request->nleft > 0 && is_in_time)
        is_in_time = advance(find_any(library), left_ns(timeout_ns, begin));
    *status_ret = (int)vol_request_status(request);
    return 0;
}

void
vol_pending_free(struct vol_request *request)
{
    const struct wanted wanted = {.library = request->object.library,
                                  .request = request};

    for (struct operation *at = find(&wanted); at != NULL; at = find(&wanted))
        at->request = NULL;
    vol_request_free(request);
}

herr_t
vol_pending_cancel(struct vol_request *request, int *status_ret)
{
    const struct wanted wanted = {.library = request->object.library,
                                  .request = request};
    struct operation *operation = find(&wanted);

    if (operation != NULL && operation->job == NULL) {
        *status_ret = VOL_STATUS_CANT_CANCEL;
        return 0;
    }
    for (; operation != NULL; operation = find(&wanted)) {
        terp_h5_job_free(operation->job);
        drop(operation);
    }
    *status_ret = (int)vol_request_status(request);
    return 0;
}
