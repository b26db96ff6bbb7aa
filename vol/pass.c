/* Passes every call to the connector below. Objects among the arguments are
 * replaced by the objects that they wrap, and objects that the call makes are
 * wrapped. */
#include "vol/pass.h"

#include <stdlib.h>

#include "filter/plugin/opened.h"
#include "vol/dataset.h"
#include "vol/info.h"
#include "vol/messages.h"
#include "vol/object.h"
#include "vol/pending.h"
#include "vol/plan.h"

#define LIST(...) __VA_ARGS__

/* ---- calls that make no object ----
 *
 * `what` is the name of HDF5's function without H5VL. For example,
 * PASS_ARGUMENTS(attr_get) makes the callback attr_get, which calls
 * H5VLattr_get on the wrapped object. The wrapper is copied first, because a
 * call such as H5Drefresh's may close it. */

/* (object, arguments) */
#define PASS(what, parameters, arguments)                                \
    static herr_t what(void *at, LIST parameters)                        \
    {                                                                    \
        const struct vol_object on = *(struct vol_object *)at;           \
                                                                         \
        return on.library->H5VL##what(on.under, on.vol, LIST arguments); \
    }

/* (request, arguments); `own` is for the connector's own requests */
#define PASS_REQUEST(what, own, parameters, arguments)                   \
    static herr_t what(void *at, LIST parameters)                        \
    {                                                                    \
        const struct vol_object on = *(struct vol_object *)at;           \
        if (vol_request_of(at) != NULL)                                  \
            return own(vol_request_of(at), LIST arguments);              \
                                                                         \
        return on.library->H5VL##what(on.under, on.vol, LIST arguments); \
    }

static herr_t
has_no_optional(const struct vol_request *request, const void *arguments)
{
    (void)request;
    (void)arguments;
    return -1;
}

/* (object, arguments, request) */
#define PASS_ASYNC(what, parameters, arguments)                            \
    static herr_t what(void *at, LIST parameters, void **req)              \
    {                                                                      \
        const struct vol_object on = *(struct vol_object *)at;             \
        herr_t result =                                                    \
            on.library->H5VL##what(on.under, on.vol, LIST arguments, req); \
                                                                           \
        vol_object_take_request(&on, req);                                 \
        return result;                                                     \
    }

/* (object, location, arguments, request) */
#define PASS_AT(what, parameters, arguments)                                 \
    static herr_t what(void *at, const struct vol_loc *loc, LIST parameters, \
                       void **req)                                           \
    {                                                                        \
        const struct vol_object on = *(struct vol_object *)at;               \
        herr_t result = on.library->H5VL##what(on.under, loc, on.vol,        \
                                               LIST arguments, req);         \
                                                                             \
        vol_object_take_request(&on, req);                                   \
        return result;                                                       \
    }

/* ---- calls that see what is pending (pending.h) ----
 *
 * Before such a call everything of the object's file is completed; or where the
 * call names objects by their paths, which may lead to other files, everything
 * of the library. */

/* (object of the H5I_type_t `type`, arguments, request) */
#define PASS_SETTLED(what, type, sees)                                      \
    static herr_t what(void *at, void *arguments, hid_t dxpl, void **req)   \
    {                                                                       \
        const struct vol_object on = *(struct vol_object *)at;              \
        if ((sees) && vol_pending_settle(&on, type, dxpl) < 0)              \
            return -1;                                                      \
        herr_t result =                                                     \
            on.library->H5VL##what(on.under, on.vol, arguments, dxpl, req); \
                                                                            \
        vol_object_take_request(&on, req);                                  \
        return result;                                                      \
    }

/* (object, location, arguments, request) */
#define PASS_SETTLED_AT(what, sees)                                          \
    static herr_t what(void *at, const struct vol_loc *loc, void *arguments, \
                       hid_t dxpl, void **req)                               \
    {                                                                        \
        const struct vol_object on = *(struct vol_object *)at;               \
        if (sees)                                                            \
            vol_pending_settle_all(on.library);                              \
        herr_t result = on.library->H5VL##what(on.under, loc, on.vol,        \
                                               arguments, dxpl, req);        \
                                                                             \
        vol_object_take_request(&on, req);                                   \
        return result;                                                       \
    }

#define OP(type) (((const struct type *)arguments)->op)

/* ---- calls that make or close an object ---- */

#define MAKE_AT(what, parameters, arguments)                                \
    static void *what(void *at, const struct vol_loc *loc, LIST parameters, \
                      void **req)                                           \
    {                                                                       \
        const struct vol_object *on = at;                                   \
        void *made = on->library->H5VL##what(on->under, loc, on->vol,       \
                                             LIST arguments, req);          \
                                                                            \
        vol_object_take_request(on, req);                                   \
        return vol_object_make(on, made);                                   \
    }

#define CLOSE(what)                                                 \
    static herr_t what(void *at, hid_t dxpl, void **req)            \
    {                                                               \
        struct vol_object *on = at;                                 \
        herr_t result =                                             \
            on->library->H5VL##what(on->under, on->vol, dxpl, req); \
                                                                    \
        vol_object_take_request(on, req);                           \
        if (result >= 0)                                            \
            vol_object_free(on);                                    \
        return result;                                              \
    }

/* clang-format off */
#define PASS_ARGUMENTS(what) \
    PASS_ASYNC(what, (void *arguments, hid_t dxpl), (arguments, dxpl))
#define PASS_ARGUMENTS_AT(what) \
    PASS_AT(what, (void *arguments, hid_t dxpl), (arguments, dxpl))

MAKE_AT(attr_create,
        (const char *name, hid_t type, hid_t space, hid_t acpl, hid_t aapl,
         hid_t dxpl),
        (name, type, space, acpl, aapl, dxpl))
MAKE_AT(attr_open, (const char *name, hid_t aapl, hid_t dxpl),
        (name, aapl, dxpl))
PASS_ASYNC(attr_read, (hid_t type, void *values, hid_t dxpl),
           (type, values, dxpl))
PASS_ASYNC(attr_write, (hid_t type, const void *values, hid_t dxpl),
           (type, values, dxpl))
PASS_ARGUMENTS(attr_get)
PASS_ARGUMENTS_AT(attr_specific)
PASS_ARGUMENTS(attr_optional)
CLOSE(attr_close)

PASS_SETTLED(dataset_get, H5I_DATASET,
             OP(vol_dataset_get) == VOL_DATASET_GET_SPACE_STATUS ||
             OP(vol_dataset_get) == VOL_DATASET_GET_STORAGE_SIZE)
PASS_SETTLED(dataset_specific, H5I_DATASET, true)
PASS_SETTLED(dataset_optional, H5I_DATASET, true)

MAKE_AT(datatype_commit,
        (const char *name, hid_t type, hid_t lcpl, hid_t tcpl, hid_t tapl,
         hid_t dxpl),
        (name, type, lcpl, tcpl, tapl, dxpl))
MAKE_AT(datatype_open, (const char *name, hid_t tapl, hid_t dxpl),
        (name, tapl, dxpl))
PASS_ARGUMENTS(datatype_get)
PASS_SETTLED(datatype_specific, H5I_DATATYPE, true)
PASS_ARGUMENTS(datatype_optional)
CLOSE(datatype_close)

PASS_SETTLED(file_get, H5I_FILE,
             OP(vol_file_get) == VOL_FILE_GET_OBJ_COUNT ||
             OP(vol_file_get) == VOL_FILE_GET_OBJ_IDS)

MAKE_AT(group_create,
        (const char *name, hid_t lcpl, hid_t gcpl, hid_t gapl, hid_t dxpl),
        (name, lcpl, gcpl, gapl, dxpl))
MAKE_AT(group_open, (const char *name, hid_t gapl, hid_t dxpl),
        (name, gapl, dxpl))
PASS_ARGUMENTS(group_get)
PASS_ARGUMENTS(group_optional)
CLOSE(group_close)

PASS_ARGUMENTS_AT(link_get)
PASS_ARGUMENTS_AT(link_specific)
PASS_ARGUMENTS_AT(link_optional)

/* HDF5 itself wraps the file that object_get may return. */
PASS_ARGUMENTS_AT(object_get)
PASS_SETTLED_AT(object_specific,
                OP(vol_object_specific) == VOL_OBJECT_FLUSH ||
                OP(vol_object_specific) == VOL_OBJECT_REFRESH)
PASS_SETTLED_AT(object_optional, true)

PASS_REQUEST(request_wait, vol_pending_wait,
             (uint64_t timeout, int *status_ret), (timeout, status_ret))
PASS_REQUEST(request_notify, vol_request_notify,
             (void (*call)(void), void *data), (call, data))
PASS_REQUEST(request_cancel, vol_pending_cancel,
             (int *status_ret), (status_ret))
PASS_REQUEST(request_specific, vol_request_specific,
             (void *arguments), (arguments))
PASS_REQUEST(request_optional, has_no_optional,
             (void *arguments), (arguments))

PASS(blob_put, (const void *data, size_t nbytes, void *id, void *context),
     (data, nbytes, id, context))
PASS(blob_get, (const void *id, void *data, size_t nbytes, void *context),
     (id, data, nbytes, context))
PASS(blob_specific, (void *id, void *arguments), (id, arguments))
PASS(blob_optional, (void *id, void *arguments), (id, arguments))

PASS(token_cmp, (const void *a, const void *b, int *result), (a, b, result))

PASS_ARGUMENTS(optional)
/* clang-format on */

static void *
object_open(void *at, const struct vol_loc *loc, H5I_type_t *type_ret,
            hid_t dxpl, void **req)
{
    const void *caller = __builtin_return_address(0);
    const struct vol_object *on = at;
    void *made = on->library->H5VLobject_open(on->under, loc, on->vol, type_ret,
                                              dxpl, req);

    vol_object_take_request(on, req);
    struct vol_object *object = vol_object_make(on, made);
    if (object != NULL && *type_ret == H5I_DATASET)
        vol_plan_begin(caller, object, dxpl);
    return object;
}

static herr_t
dataset_close(void *at, hid_t dxpl, void **req)
{
    return vol_pending_close(at, H5I_DATASET, dxpl, req);
}

static herr_t
file_close(void *at, hid_t dxpl, void **req)
{
    return vol_pending_close(at, H5I_FILE, dxpl, req);
}

/* H5Fget_info takes any object of a file, and only HDF5 knows which. */
static herr_t
file_optional(void *at, void *arguments, hid_t dxpl, void **req)
{
    const struct vol_object on = *(struct vol_object *)at;
    if (vol_pending_settle_files(on.library) < 0)
        return -1;
    herr_t result =
        on.library->H5VLfile_optional(on.under, on.vol, arguments, dxpl, req);

    vol_object_take_request(&on, req);
    return result;
}

static herr_t
request_free(void *at)
{
    struct vol_object *on = at;
    if (vol_request_of(at) != NULL) {
        vol_pending_free(vol_request_of(at));
        return 0;
    }
    herr_t result = on->library->H5VLrequest_free(on->under, on->vol);

    if (result >= 0)
        vol_object_free(on);
    return result;
}

static herr_t
token_to_str(void *at, H5I_type_t type, const void *token, char **text_ret)
{
    const struct vol_object *on = at;

    return on->library->H5VLtoken_to_str(on->under, type, on->vol, token,
                                         text_ret);
}

static herr_t
token_from_str(void *at, H5I_type_t type, const char *text, void *token)
{
    const struct vol_object *on = at;

    return on->library->H5VLtoken_from_str(on->under, type, on->vol, text,
                                           token);
}

/* ---- files ---- */

/* The connector below a new file, and access properties that name it. */
struct below {
    struct vol_object like; /* library and connector of the file */
    hid_t fapl;
    struct vol_info *info;
};

static void
close_below(struct below *below)
{
    const struct vol_library *library = below->like.library;

    /* Keep the error stack: it is for the program. */
    hid_t errors = library->H5Eget_current_stack();
    if (below->fapl >= 0)
        library->H5Pclose(below->fapl);
    if (below->info != NULL)
        vol_info_free(below->info);
    vol_messages_close(below->like.messages);
    library->H5Eset_current_stack(errors);
}

static bool
open_below(const void *caller, const struct vol_library *library, hid_t fapl,
           struct below *below)
{
    void *info = NULL;

    if (library == NULL || library->H5Pget_vol_info(fapl, &info) < 0)
        return false;
    *below =
        (struct below){.like = {.library = library, .vol = library->native},
                       .fapl = library->H5Pcopy(fapl),
                       .info = info};
    if (below->info != NULL) {
        below->like.vol = below->info->vol;
        /* The connector's files may stay open longer than its id, so the id
         * stays open until HDF5 closes. */
        library->H5Iinc_ref(below->like.vol);
    }
    vol_object_read_sharing(caller, fapl, &below->like);
    if (below->fapl >= 0 &&
        library->H5Pset_vol(below->fapl, below->like.vol,
                            below->info == NULL ? NULL : below->info->under) >=
            0)
        return true;
    close_below(below);
    return false;
}

static void *
wrap_file(const struct vol_object *like, void *under, hid_t dxpl)
{
    struct vol_object *file = vol_object_make(like, under);

    if (file != NULL)
        vol_object_read_file(file, dxpl);
    return file;
}

static void *
take_file(struct below *below, void *file, hid_t dxpl, void **req)
{
    vol_object_take_request(&below->like, req);
    void *wrapped = wrap_file(&below->like, file, dxpl);
    close_below(below);
    return wrapped;
}

/* Called by all processes that open a file together. */
static void
open_messages(const void *caller, hid_t fapl, struct vol_object *like)
{
    if (like->is_shared && like->vol == like->library->native)
        like->messages = vol_messages_open(caller, like->library, fapl);
}

/* A file that waits to be closed keeps HDF5 from making a new one, or from
 * opening it in another way; and opened again, it could not be closed (see
 * vol_pending_close). Returns whether a file was closed. */
static bool
close_files(const struct vol_library *library)
{
    if (!vol_pending_has_closed_file(library))
        return false;
    vol_pending_settle_all(library);
    library->H5Eclear2(H5E_DEFAULT);
    return true;
}

static void *
file_create(const char *name, unsigned flags, hid_t fcpl, hid_t fapl,
            hid_t dxpl, void **req)
{
    const void *caller = __builtin_return_address(0);
    struct below below;

    if (!open_below(caller, vol_library_of(caller), fapl, &below))
        return NULL;
    vol_library_add_filter(below.like.library);
    open_messages(caller, fapl, &below.like);
    void *file = below.like.library->H5VLfile_create(name, flags, fcpl,
                                                     below.fapl, dxpl, req);
    if (file == NULL && close_files(below.like.library))
        file = below.like.library->H5VLfile_create(name, flags, fcpl,
                                                   below.fapl, dxpl, req);
    return take_file(&below, file, dxpl, req);
}

static void *
file_open(const char *name, unsigned flags, hid_t fapl, hid_t dxpl, void **req)
{
    const void *caller = __builtin_return_address(0);
    struct below below;

    if (!open_below(caller, vol_library_of(caller), fapl, &below))
        return NULL;
    vol_library_add_filter(below.like.library);
    (void)close_files(below.like.library);
    open_messages(caller, fapl, &below.like);
    void *file =
        below.like.library->H5VLfile_open(name, flags, below.fapl, dxpl, req);
    return take_file(&below, file, dxpl, req);
}

/* An operation on a file that is not open, by its name. */
static herr_t
named_file_specific(const void *caller, struct vol_file_specific *arguments,
                    hid_t dxpl, void **req)
{
    const struct vol_library *library = vol_library_of(caller);
    const hid_t fapl = arguments->args.named.fapl;
    struct below below;

    if (library == NULL)
        return -1;
    if (vol_pending_has_closed_file(library))
        vol_pending_settle_all(library);
    /* HDF5 tries connectors after it failed to open a file. If they fail too,
     * HDF5 reports its first error: errors of the connector below are pushed
     * after it. */
    hid_t errors = library->H5Eget_current_stack();
    herr_t result = -1;
    if (open_below(caller, library, fapl, &below)) {
        arguments->args.named.fapl = below.fapl;
        result = library->H5VLfile_specific(NULL, below.like.vol, arguments,
                                            dxpl, req);
        arguments->args.named.fapl = fapl;
        vol_object_take_request(&below.like, req);
        close_below(&below);
    }
    if (result < 0)
        library->H5Eappend_stack(errors, library->H5Eget_current_stack(), 1);
    library->H5Eset_current_stack(errors);
    return result;
}

/* A global flush also writes the files that are mounted on the object's file,
 * or on which it is mounted. */
static herr_t
settle_flushed(const struct vol_object *on,
               const struct vol_file_specific *arguments, hid_t dxpl)
{
    return arguments->args.flush.scope == H5F_SCOPE_GLOBAL
               ? vol_pending_settle_files(on->library)
               : vol_pending_settle(on, arguments->args.flush.obj_type, dxpl);
}

static herr_t
file_specific(void *at, struct vol_file_specific *arguments, hid_t dxpl,
              void **req)
{
    const int op = arguments->op;

    if (op == VOL_FILE_IS_ACCESSIBLE || op == VOL_FILE_DELETE)
        return named_file_specific(__builtin_return_address(0), arguments, dxpl,
                                   req);
    const struct vol_object on = *(struct vol_object *)at;
    if (op == VOL_FILE_FLUSH && settle_flushed(&on, arguments, dxpl) < 0)
        return -1;
    void *const other = arguments->args.is_equal.other;
    if (op == VOL_FILE_IS_EQUAL)
        arguments->args.is_equal.other = vol_object_under(other);
    herr_t result =
        on.library->H5VLfile_specific(on.under, on.vol, arguments, dxpl, req);
    if (op == VOL_FILE_IS_EQUAL)
        arguments->args.is_equal.other = other;
    if (op == VOL_FILE_REOPEN && result >= 0)
        *arguments->args.reopen.file =
            wrap_file(&on, *arguments->args.reopen.file, dxpl);
    vol_object_take_request(&on, req);
    return result;
}

/* ---- calls with a second object ---- */

static herr_t
group_specific(void *at, struct vol_group_specific *arguments, hid_t dxpl,
               void **req)
{
    const struct vol_object on = *(struct vol_object *)at;
    void *const child = arguments->args.mount.child;

    vol_pending_settle_all(on.library);
    if (arguments->op == VOL_GROUP_MOUNT)
        arguments->args.mount.child = vol_object_under(child);
    herr_t result =
        on.library->H5VLgroup_specific(on.under, on.vol, arguments, dxpl, req);
    if (arguments->op == VOL_GROUP_MOUNT)
        arguments->args.mount.child = child;
    vol_object_take_request(&on, req);
    return result;
}

/* With H5L_SAME_LOC one of the two objects is NULL. */
static const struct vol_object *
either(const void *a, const void *b)
{
    return a != NULL ? a : b;
}

static herr_t
link_create(struct vol_link_create *arguments, void *at,
            const struct vol_loc *loc, hid_t lcpl, hid_t lapl, hid_t dxpl,
            void **req)
{
    const bool is_hard = arguments->op == VOL_LINK_CREATE_HARD;
    void *const linked = is_hard ? arguments->args.hard.object : NULL;
    const struct vol_object *on = either(at, linked);

    if (is_hard)
        arguments->args.hard.object = vol_object_under(linked);
    herr_t result = on->library->H5VLlink_create(
        arguments, vol_object_under(at), loc, on->vol, lcpl, lapl, dxpl, req);
    if (is_hard)
        arguments->args.hard.object = linked;
    vol_object_take_request(on, req);
    return result;
}

static herr_t
link_copy(void *src, const struct vol_loc *src_loc, void *dst,
          const struct vol_loc *dst_loc, hid_t lcpl, hid_t lapl, hid_t dxpl,
          void **req)
{
    const struct vol_object *on = either(src, dst);
    herr_t result = on->library->H5VLlink_copy(vol_object_under(src), src_loc,
                                               vol_object_under(dst), dst_loc,
                                               on->vol, lcpl, lapl, dxpl, req);

    vol_object_take_request(on, req);
    return result;
}

static herr_t
link_move(void *src, const struct vol_loc *src_loc, void *dst,
          const struct vol_loc *dst_loc, hid_t lcpl, hid_t lapl, hid_t dxpl,
          void **req)
{
    const struct vol_object *on = either(src, dst);
    herr_t result = on->library->H5VLlink_move(vol_object_under(src), src_loc,
                                               vol_object_under(dst), dst_loc,
                                               on->vol, lcpl, lapl, dxpl, req);

    vol_object_take_request(on, req);
    return result;
}

static herr_t
object_copy(void *src, const struct vol_loc *src_loc, const char *src_name,
            void *dst, const struct vol_loc *dst_loc, const char *dst_name,
            hid_t ocpypl, hid_t lcpl, hid_t dxpl, void **req)
{
    const struct vol_object *on = src;
    vol_pending_settle_all(on->library);
    herr_t result = on->library->H5VLobject_copy(
        on->under, src_loc, src_name, vol_object_under(dst), dst_loc, dst_name,
        on->vol, ocpypl, lcpl, dxpl, req);

    vol_object_take_request(on, req);
    return result;
}

/* ---- objects that HDF5 wraps and unwraps itself ---- */

static void *
get_object(const void *at)
{
    const struct vol_object *on = at;

    return on->is_own_request ? NULL
                              : on->library->H5VLget_object(on->under, on->vol);
}

static herr_t
get_wrap_ctx(const void *at, void **context_ret)
{
    struct vol_object *context;
    /* HDF5 declares the object as one that does not change. */
    const herr_t result = vol_context_make((struct vol_object *)at, &context);

    *context_ret = context;
    return result;
}

static herr_t
free_wrap_ctx(void *at)
{
    return vol_context_free(at);
}

static void *
wrap_object(void *made, H5I_type_t type, void *at)
{
    return vol_context_wrap(at, made, type);
}

static void *
unwrap_object(void *at)
{
    struct vol_object *on = at;
    void *under = on->library->H5VLunwrap_object(on->under, on->vol);

    if (under != NULL)
        vol_object_free(on);
    return under;
}

/* ---- the connector itself ---- */

/* HDF5 also initializes the connector when it only searches for a connector
 * that can open a file, so this must not change the program's error stack. */
static herr_t
initialize(hid_t properties)
{
    (void)properties;
    vol_library_open(__builtin_return_address(0));
    return 0;
}

/* The library's table stays, because HDF5 may still make calls. */
static herr_t
terminate(void)
{
    return 0;
}

static herr_t
introspect_get_conn_cls(void *at, int level, const struct vol_class **class_ret)
{
    const struct vol_object *on = at;

    if (level != VOL_CONNECTOR_CURRENT)
        return on->library->H5VLintrospect_get_conn_cls(on->under, on->vol,
                                                        level, class_ret);
    *class_ret = &vol_pass_class;
    return 0;
}

static herr_t
introspect_opt_query(void *at, int part, int op, uint64_t *flags_ret)
{
    const struct vol_object *on = at;

    if (op != TERP_OPENED_QUERY)
        return on->library->H5VLintrospect_opt_query(on->under, on->vol, part,
                                                     op, flags_ret);
    *flags_ret = on->vol == on->library->native ? TERP_OPENED_ABOVE_NATIVE : 0;
    return 0;
}

static herr_t
introspect_get_cap_flags(const void *at, uint64_t *flags_ret)
{
    const struct vol_info *info = at;

    *flags_ret = VOL_CAPABILITIES;
    return info == NULL ? 0
                        : info->library->H5VLintrospect_get_cap_flags(
                              info->under, info->vol, flags_ret);
}

const struct vol_class vol_pass_class = {
    .version = VOL_CLASS_VERSION,
    .value = VOL_VALUE,
    .name = VOL_NAME,
    .connector_version = 1,
    .capabilities = VOL_CAPABILITIES,
    .initialize = initialize,
    .terminate = terminate,
    .info = {sizeof(struct vol_info), vol_info_copy, vol_info_cmp,
             vol_info_free, vol_info_to_str, vol_info_from_str},
    .wrap = {get_object, get_wrap_ctx, wrap_object, unwrap_object,
             free_wrap_ctx},
    .attr = {attr_create, attr_open, attr_read, attr_write, attr_get,
             attr_specific, attr_optional, attr_close},
    .dataset = {vol_dataset_create, vol_dataset_open, vol_dataset_read,
                vol_dataset_write, dataset_get, dataset_specific,
                dataset_optional, dataset_close},
    .datatype = {datatype_commit, datatype_open, datatype_get,
                 datatype_specific, datatype_optional, datatype_close},
    .file = {file_create, file_open, file_get, file_specific, file_optional,
             file_close},
    .group = {group_create, group_open, group_get, group_specific,
              group_optional, group_close},
    .link = {link_create, link_copy, link_move, link_get, link_specific,
             link_optional},
    .object = {object_open, object_copy, object_get, object_specific,
               object_optional},
    .introspect = {introspect_get_conn_cls, introspect_get_cap_flags,
                   introspect_opt_query},
    .request = {request_wait, request_notify, request_cancel, request_specific,
                request_optional, request_free},
    .blob = {blob_put, blob_get, blob_specific, blob_optional},
    .token = {token_cmp, token_to_str, token_from_str},
    .optional = optional};
