/* Wraps objects, and asks the connector below for their properties. */
#include "vol/object.h"

#include <stdlib.h>

#include "filter/plugin/host.h"
#include "vol/messages.h"

/* H5FD_FEAT_HAS_MPI. */
#define FEATURE_HAS_MPI 0x100UL

/* H5F_ACC_RDWR; HDF5's macro would call H5open. */
#define ACC_RDWR 1u

void *
vol_object_make(const struct vol_object *like, void *under)
{
    if (under == NULL)
        return NULL;
    struct vol_object *object = calloc(1, sizeof *object);
    if (object != NULL) {
        object->library = like->library;
        object->vol = like->vol;
        object->under = under;
        object->is_shared = like->is_shared;
        object->reads_together = like->reads_together;
        object->messages = vol_messages_share(like->messages);
        object->fileno = like->fileno;
        object->may_write = like->may_write;
    }
    return object;
}

static void
release(struct vol_object *object)
{
    if (!object->is_closed || object->ncontexts > 0)
        return;
    vol_messages_close(object->messages);
    free(object);
}

void
vol_object_free(struct vol_object *object)
{
    if (object->type > 0)
        object->library->H5Tclose(object->type);
    free(object->plan);
    object->plan = NULL;
    object->type = 0;
    object->is_closed = true;
    release(object);
}

/* ---- contexts ---- */

/* HDF5 makes a context in each of its calls, also in those of all processes, in
 * which a process without memory must take part. So an object is its own
 * context, unless the connector below has one. */
herr_t
vol_context_make(struct vol_object *on, struct vol_object **context_ret)
{
    void *under = NULL;

    *context_ret = NULL;
    if (!on->is_own_request &&
        on->library->H5VLget_wrap_ctx(on->under, on->vol, &under) < 0)
        return -1;
    if (under == NULL && !on->is_own_request) {
        on->ncontexts++;
        *context_ret = on;
        return 0;
    }
    struct vol_object *context = calloc(1, sizeof *context);
    if (context == NULL) {
        if (under != NULL)
            on->library->H5VLfree_wrap_ctx(under, on->vol);
        return -1;
    }
    *context = (struct vol_object){.library = on->library,
                                   .vol = on->vol,
                                   .under = under,
                                   .is_shared = on->is_shared,
                                   .reads_together = on->reads_together,
                                   .messages = vol_messages_share(on->messages),
                                   .is_context = true};
    *context_ret = context;
    return 0;
}

herr_t
vol_context_free(struct vol_object *context)
{
    const struct vol_library *library = context->library;
    herr_t result = 0;

    if (!context->is_context) {
        context->ncontexts--;
        release(context);
        return 0;
    }
    if (context->under != NULL) {
        hid_t errors = library->H5Eget_current_stack();
        result = library->H5VLfree_wrap_ctx(context->under, context->vol);
        library->H5Eset_current_stack(errors);
    }
    vol_object_free(context);
    return result;
}

void *
vol_context_wrap(const struct vol_object *context, void *made, H5I_type_t type)
{
    struct vol_object *object = vol_object_make(
        context, context->library->H5VLwrap_object(
                     made, type, context->vol,
                     context->is_context ? context->under : NULL));

    /* It may be of another file. */
    if (object != NULL) {
        object->fileno = 0;
        object->may_write = false;
    }
    return object;
}

/* ---- objects ---- */

void *
vol_object_under(const void *object)
{
    return object == NULL ? NULL : ((const struct vol_object *)object)->under;
}

void
vol_object_take_request(const struct vol_object *like, void **req)
{
    if (req != NULL && *req != NULL)
        *req = vol_object_make(like, *req);
}

hid_t
vol_dataset_id(const struct vol_object *dataset, int op, hid_t dxpl)
{
    struct vol_dataset_get get = {op, {H5I_INVALID_HID}};
    const struct vol_library *library = dataset->library;
    /* A committed type becomes an object of the connector, for which HDF5 needs
     * the state of the program's call. */
    const bool needs_state = op != VOL_DATASET_GET_TYPE;
    struct vol_state state;

    if (needs_state && !vol_state_open(library, &state))
        return H5I_INVALID_HID;
    const herr_t result = library->H5VLdataset_get(dataset->under, dataset->vol,
                                                   &get, dxpl, NULL);
    if (needs_state)
        vol_state_close(&state);
    return result < 0 ? H5I_INVALID_HID : get.args.id;
}

char *
vol_object_path(const struct vol_object *object, int type, hid_t dxpl)
{
    const struct vol_loc self = {.obj_type = type, .type = VOL_BY_SELF};
    size_t length = 0;
    struct vol_object_get get = {VOL_OBJECT_GET_NAME,
                                 {.name = {.nbytes_ret = &length}}};
    const struct vol_library *library = object->library;

    if (library->H5VLobject_get(object->under, &self, object->vol, &get, dxpl,
                                NULL) < 0 ||
        length == 0)
        return NULL;
    char *path = calloc(1, length + 1);
    get.args.name.buf = path;
    get.args.name.buf_nbytes = length + 1;
    if (path != NULL &&
        library->H5VLobject_get(object->under, &self, object->vol, &get, dxpl,
                                NULL) < 0)
        *path = '\0';
    return path;
}

static bool
get_of_file(const struct vol_object *file, struct vol_file_get *get, hid_t dxpl)
{
    return file->library->H5VLfile_get(file->under, file->vol, get, dxpl,
                                       NULL) >= 0;
}

/* A request for an object's file (H5VL_OBJECT_GET_FILE) would leave a file open
 * that HDF5 has opened by itself, such as the file of an external link. */
bool
vol_object_fileno(const struct vol_object *object, int type, hid_t dxpl,
                  unsigned long *fileno_ret)
{
    const struct vol_loc self = {.obj_type = type, .type = VOL_BY_SELF};
    struct vol_object_info info;
    struct vol_object_get get_info = {VOL_OBJECT_GET_INFO,
                                      {.info = {VOL_OBJECT_INFO_BASIC, &info}}};
    struct vol_file_get get = {VOL_FILE_GET_FILENO, {.fileno_ret = fileno_ret}};
    struct vol_state state;

    if (type == H5I_FILE)
        return get_of_file(object, &get, dxpl);
    if (!vol_state_open(object->library, &state))
        return false;
    const herr_t result = object->library->H5VLobject_get(
        object->under, &self, object->vol, &get_info, dxpl, NULL);
    vol_state_close(&state);
    if (result >= 0)
        *fileno_ret = info.fileno;
    return result >= 0;
}

bool
vol_file_is_open_once(const struct vol_object *file, hid_t dxpl)
{
    size_t n = 0;
    struct vol_file_get get = {
        VOL_FILE_GET_OBJ_COUNT,
        {.obj_count = {.types = H5F_OBJ_FILE, .count_ret = &n}}};

    return get_of_file(file, &get, dxpl) && n == 1;
}

bool
vol_object_may_write(const struct vol_object *object, int type, hid_t dxpl)
{
    unsigned long number;

    return object->may_write &&
           vol_object_fileno(object, type, dxpl, &number) &&
           number == object->fileno;
}

void
vol_object_read_file(struct vol_object *file, hid_t dxpl)
{
    unsigned intent = 0;
    struct vol_file_get get = {VOL_FILE_GET_INTENT, {.intent_ret = &intent}};

    file->may_write = get_of_file(file, &get, dxpl) &&
                      (intent & ACC_RDWR) != 0 &&
                      vol_object_fileno(file, H5I_FILE, dxpl, &file->fileno);
}

void
vol_object_read_sharing(const void *caller, hid_t fapl, struct vol_object *file)
{
    const struct vol_library *library = file->library;
    unsigned long features = FEATURE_HAS_MPI;
    herr_t (*get_together)(hid_t, hbool_t *);
    hbool_t together = true;
    struct terp_host host;

    if (!library->is_parallel)
        return;
    file->is_shared = file->vol != library->native ||
                      library->H5FDdriver_query(library->H5Pget_driver(fapl),
                                                &features) < 0 ||
                      (features & FEATURE_HAS_MPI) != 0;
    terp_host_open(caller, &host);
    if (terp_host_find(&host, "H5Pget_all_coll_metadata_ops", &get_together) &&
        get_together(fapl, &together) < 0)
        together = true;
    terp_host_close(&host);
    file->reads_together = together;
}
