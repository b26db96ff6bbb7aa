#define _POSIX_C_SOURCE 200809L /* for strdup */
/* Calls a macro once for each function of struct vol_library. */
#include "h5tests/vol/fake_below.h"

#include <stdlib.h>
#include <string.h>

#include "vol/info.h"
#include "vol/object.h"
#include "vol/selection.h"

struct fake_below fake_below;

bool
fake_below_fails(const char *name)
{
    const uint64_t n = fake_below.ncalls++;

    if (n != fake_below.fail_at &&
        !(fake_below.fails_on && n > fake_below.fail_at))
        return false;
    if (fake_below.failed == NULL)
        fake_below.failed = name;
    return true;
}

struct fake_object *
fake_object_make(hid_t id)
{
    struct fake_object *object = calloc(1, sizeof *object);

    object->id = id;
    fake_below.nobjects++;
    return object;
}

static hid_t
id_of(const void *at)
{
    return ((const struct fake_object *)at)->id;
}

static void
make_request(void **req)
{
    if (req != NULL && fake_below.makes_requests)
        *req = fake_object_make(H5I_INVALID_HID);
}

static void
note(const char *name, const void *under, hid_t vol, int n,
     const uintptr_t *arguments)
{
    struct fake_call *call = &fake_below.last;

    *call = (struct fake_call){
        .name = name, .under = under, .vol = vol, .narguments = n};
    memcpy(call->arguments, arguments, (size_t)n * sizeof *arguments);
}

/* ---- calls that are only recorded ---- */

#define W(x) ((uintptr_t)(x))
#define LIST(...) __VA_ARGS__

/* (name, parameters, object, words of the arguments, request) */
#define NOTED(name, parameters, under, words, req)                           \
    static herr_t fake_##name parameters                                     \
    {                                                                        \
        const uintptr_t noted[] = {LIST words};                              \
        note(#name, under, vol, (int)(sizeof noted / sizeof *noted), noted); \
        make_request(req);                                                   \
        return fake_below_fails(#name) ? -1 : 0;                             \
    }

#define NOTED_MAKER(name, parameters, under, words, req)                     \
    static void *fake_##name parameters                                      \
    {                                                                        \
        const uintptr_t noted[] = {LIST words};                              \
        note(#name, under, vol, (int)(sizeof noted / sizeof *noted), noted); \
        make_request(req);                                                   \
        return fake_below_fails(#name) ? NULL                                \
                                       : fake_object_make(H5I_INVALID_HID);  \
    }

#define NOTED_GET(name)                                                     \
    NOTED(name, (void *at, hid_t vol, void *a, hid_t dxpl, void **req), at, \
          (W(a), W(dxpl), W(req)), req)
#define NOTED_AT(name)                                              \
    NOTED(name,                                                     \
          (void *at, const struct vol_loc *loc, hid_t vol, void *a, \
           hid_t dxpl, void **req),                                 \
          at, (W(loc), W(a), W(dxpl), W(req)), req)
#define NOTED_OPEN(name)                                               \
    NOTED_MAKER(name,                                                  \
                (void *at, const struct vol_loc *loc, hid_t vol,       \
                 const char *text, hid_t apl, hid_t dxpl, void **req), \
                at, (W(loc), W(text), W(apl), W(dxpl), W(req)), req)
#define NOTED_CLOSE(name)                                                  \
    static herr_t fake_##name(void *at, hid_t vol, hid_t dxpl, void **req) \
    {                                                                      \
        const uintptr_t noted[] = {W(dxpl), W(req)};                       \
        note(#name, at, vol, 2, noted);                                    \
        make_request(req);                                                 \
        if (fake_below_fails(#name))                                       \
            return -1;                                                     \
        fake_object_free(at);                                              \
        return 0;                                                          \
    }

static void
fake_object_free(struct fake_object *object)
{
    if (object->id >= 0)
        H5Idec_ref(object->id);
    fake_below.nobjects--;
    free(object);
}

NOTED_MAKER(
    H5VLattr_create,
    (void *at, const struct vol_loc *loc, hid_t vol, const char *text,
     hid_t type, hid_t space, hid_t acpl, hid_t aapl, hid_t dxpl, void **req),
    at, (W(loc), W(text), W(type), W(space), W(acpl), W(aapl), W(dxpl), W(req)),
    req)
NOTED_OPEN(H5VLattr_open)
NOTED(H5VLattr_read,
      (void *at, hid_t vol, hid_t type, void *a, hid_t dxpl, void **req), at,
      (W(type), W(a), W(dxpl), W(req)), req)
NOTED(H5VLattr_write,
      (void *at, hid_t vol, hid_t type, const void *a, hid_t dxpl, void **req),
      at, (W(type), W(a), W(dxpl), W(req)), req)
NOTED_GET(H5VLattr_get)
NOTED_AT(H5VLattr_specific)
NOTED_GET(H5VLattr_optional)
NOTED_CLOSE(H5VLattr_close)
NOTED_OPEN(H5VLdataset_open)
NOTED_GET(H5VLdataset_specific)
NOTED_CLOSE(H5VLdataset_close)
NOTED_MAKER(
    H5VLdatatype_commit,
    (void *at, const struct vol_loc *loc, hid_t vol, const char *text,
     hid_t type, hid_t lcpl, hid_t tcpl, hid_t tapl, hid_t dxpl, void **req),
    at, (W(loc), W(text), W(type), W(lcpl), W(tcpl), W(tapl), W(dxpl), W(req)),
    req)
NOTED_OPEN(H5VLdatatype_open)
NOTED_GET(H5VLdatatype_get)
NOTED_GET(H5VLdatatype_specific)
NOTED_GET(H5VLdatatype_optional)
NOTED_CLOSE(H5VLdatatype_close)
NOTED_GET(H5VLfile_optional)
NOTED_CLOSE(H5VLfile_close)
NOTED_MAKER(H5VLgroup_create,
            (void *at, const struct vol_loc *loc, hid_t vol, const char *text,
             hid_t lcpl, hid_t gcpl, hid_t gapl, hid_t dxpl, void **req),
            at, (W(loc), W(text), W(lcpl), W(gcpl), W(gapl), W(dxpl), W(req)),
            req)
NOTED_OPEN(H5VLgroup_open)
NOTED_GET(H5VLgroup_get)
NOTED_GET(H5VLgroup_optional)
NOTED_CLOSE(H5VLgroup_close)
NOTED(H5VLlink_copy,
      (void *at, const struct vol_loc *loc, void *to,
       const struct vol_loc *to_loc, hid_t vol, hid_t lcpl, hid_t lapl,
       hid_t dxpl, void **req),
      at, (W(loc), W(to), W(to_loc), W(lcpl), W(lapl), W(dxpl), W(req)), req)
NOTED(H5VLlink_move,
      (void *at, const struct vol_loc *loc, void *to,
       const struct vol_loc *to_loc, hid_t vol, hid_t lcpl, hid_t lapl,
       hid_t dxpl, void **req),
      at, (W(loc), W(to), W(to_loc), W(lcpl), W(lapl), W(dxpl), W(req)), req)
NOTED_AT(H5VLlink_get)
NOTED_AT(H5VLlink_specific)
NOTED_AT(H5VLlink_optional)
NOTED_MAKER(H5VLobject_open,
            (void *at, const struct vol_loc *loc, hid_t vol,
             H5I_type_t *type_ret, hid_t dxpl, void **req),
            at, (W(loc), W(type_ret), W(dxpl), W(req)), req)
NOTED(H5VLobject_copy,
      (void *at, const struct vol_loc *loc, const char *text, void *to,
       const struct vol_loc *to_loc, const char *to_text, hid_t vol,
       hid_t ocpypl, hid_t lcpl, hid_t dxpl, void **req),
      at,
      (W(loc), W(text), W(to), W(to_loc), W(to_text), W(ocpypl), W(lcpl),
       W(dxpl), W(req)),
      req)
NOTED_AT(H5VLobject_specific)
NOTED_AT(H5VLobject_optional)
NOTED(H5VLintrospect_get_conn_cls,
      (void *at, hid_t vol, int level, const struct vol_class **class_ret), at,
      (W(level), W(class_ret)), NULL)
NOTED(H5VLintrospect_get_cap_flags,
      (const void *at, hid_t vol, uint64_t *flags_ret), at, (W(flags_ret)),
      NULL)
NOTED(H5VLintrospect_opt_query,
      (void *at, hid_t vol, int part, int op, uint64_t *flags_ret), at,
      (W(part), W(op), W(flags_ret)), NULL)
NOTED(H5VLrequest_wait,
      (void *at, hid_t vol, uint64_t timeout, int *status_ret), at,
      (W(timeout), W(status_ret)), NULL)
NOTED(H5VLrequest_notify, (void *at, hid_t vol, void (*call)(void), void *data),
      at, (W(call), W(data)), NULL)
NOTED(H5VLrequest_cancel, (void *at, hid_t vol, int *status_ret), at,
      (W(status_ret)), NULL)
NOTED(H5VLrequest_specific, (void *at, hid_t vol, void *a), at, (W(a)), NULL)
NOTED(H5VLrequest_optional, (void *at, hid_t vol, void *a), at, (W(a)), NULL)

static herr_t
fake_H5VLrequest_free(void *at, hid_t vol)
{
    note("H5VLrequest_free", at, vol, 0, (const uintptr_t[]){0});
    if (fake_below_fails("H5VLrequest_free"))
        return -1;
    fake_object_free(at);
    return 0;
}

NOTED(H5VLblob_put,
      (void *at, hid_t vol, const void *data, size_t nbytes, void *id,
       void *context),
      at, (W(data), W(nbytes), W(id), W(context)), NULL)
NOTED(H5VLblob_get,
      (void *at, hid_t vol, const void *id, void *data, size_t nbytes,
       void *context),
      at, (W(id), W(data), W(nbytes), W(context)), NULL)
NOTED(H5VLblob_specific, (void *at, hid_t vol, void *id, void *a), at,
      (W(id), W(a)), NULL)
NOTED(H5VLblob_optional, (void *at, hid_t vol, void *id, void *a), at,
      (W(id), W(a)), NULL)
NOTED(H5VLtoken_cmp,
      (void *at, hid_t vol, const void *a, const void *b, int *result_ret), at,
      (W(a), W(b), W(result_ret)), NULL)
NOTED(H5VLtoken_to_str,
      (void *at, H5I_type_t type, hid_t vol, const void *token,
       char **text_ret),
      at, (W(type), W(token), W(text_ret)), NULL)
NOTED(H5VLtoken_from_str,
      (void *at, H5I_type_t type, hid_t vol, const char *text, void *token), at,
      (W(type), W(text), W(token)), NULL)
NOTED_GET(H5VLoptional)

/* ---- calls whose arguments contain objects ---- */

NOTED(H5VLgroup_specific,
      (void *at, hid_t vol, void *a, hid_t dxpl, void **req), at,
      (W(((struct vol_group_specific *)a)->args.mount.child), W(dxpl), W(req)),
      req)
NOTED(H5VLlink_create,
      (void *a, void *at, const struct vol_loc *loc, hid_t vol, hid_t lcpl,
       hid_t lapl, hid_t dxpl, void **req),
      at,
      (W(((struct vol_link_create *)a)->args.hard.object), W(loc), W(lcpl),
       W(lapl), W(dxpl), W(req)),
      req)

static herr_t
fake_H5VLfile_specific(void *at, hid_t vol, void *a, hid_t dxpl, void **req)
{
    struct vol_file_specific *specific = a;
    const uintptr_t noted[] = {
        specific->op == VOL_FILE_IS_EQUAL ? W(specific->args.is_equal.other)
        : specific->op == VOL_FILE_REOPEN ? 0
                                          : W(specific->args.named.fapl),
        W(dxpl), W(req)};

    note("H5VLfile_specific", at, vol, 3, noted);
    make_request(req);
    if (fake_below_fails("H5VLfile_specific"))
        return -1;
    if (specific->op == VOL_FILE_REOPEN)
        *specific->args.reopen.file = fake_object_make(H5I_INVALID_HID);
    return 0;
}

static void *
fake_H5VLfile_create(const char *name, unsigned flags, hid_t fcpl, hid_t fapl,
                     hid_t dxpl, void **req)
{
    const uintptr_t noted[] = {W(name), flags,   W(fcpl),
                               W(fapl), W(dxpl), W(req)};

    note("H5VLfile_create", NULL, fake_below.vol, 6, noted);
    make_request(req);
    return fake_below_fails("H5VLfile_create")
               ? NULL
               : fake_object_make(H5I_INVALID_HID);
}

static void *
fake_H5VLfile_open(const char *name, unsigned flags, hid_t fapl, hid_t dxpl,
                   void **req)
{
    const uintptr_t noted[] = {W(name), flags, W(fapl), W(dxpl), W(req)};

    note("H5VLfile_open", NULL, fake_below.vol, 5, noted);
    make_request(req);
    return fake_below_fails("H5VLfile_open")
               ? NULL
               : fake_object_make(H5I_INVALID_HID);
}

static herr_t
fake_H5VLfile_get(void *at, hid_t vol, void *a, hid_t dxpl, void **req)
{
    struct vol_file_get *get = a;
    const uintptr_t noted[] = {W(a), W(dxpl), W(req)};

    note("H5VLfile_get", at, vol, 3, noted);
    make_request(req);
    if (fake_below_fails("H5VLfile_get"))
        return -1;
    if (get->op == VOL_FILE_GET_FAPL) {
        get->args.fapl = H5Pcreate(H5P_FILE_ACCESS);
        fake_below.nids++;
    } else if (get->op == VOL_FILE_GET_FILENO) {
        *get->args.fileno_ret = FAKE_FILENO;
    } else if (get->op == VOL_FILE_GET_INTENT) {
        *get->args.intent_ret =
            fake_below.is_read_only ? H5F_ACC_RDONLY : H5F_ACC_RDWR;
    }
    return 0;
}

/* The name of an object and of its file. HDF5 itself answers with the object's
 * properties only. */
static herr_t
fake_H5VLobject_get(void *at, const struct vol_loc *loc, hid_t vol, void *a,
                    hid_t dxpl, void **req)
{
    struct vol_object_get *get = a;
    const uintptr_t noted[] = {W(loc), W(a), W(dxpl), W(req)};

    note("H5VLobject_get", at, vol, 4, noted);
    make_request(req);
    if (fake_below_fails("H5VLobject_get"))
        return -1;
    if (get->op == VOL_OBJECT_GET_INFO)
        get->args.info.info_ret->fileno = FAKE_FILENO;
    else if (id_of(at) >= 0)
        *get->args.name.nbytes_ret = (size_t)H5Iget_name(
            id_of(at), get->args.name.buf, get->args.name.buf_nbytes);
    return 0;
}

/* ---- datasets ---- */

static void *
fake_H5VLdataset_create(void *at, const struct vol_loc *loc, hid_t vol,
                        const char *name, hid_t lcpl, hid_t type, hid_t space,
                        hid_t dcpl, hid_t dapl, hid_t dxpl, void **req)
{
    const uintptr_t noted[] = {W(loc),   W(name), W(lcpl), W(type),
                               W(space), W(dcpl), W(dapl), W(dxpl)};

    note("H5VLdataset_create", at, vol, 8, noted);
    make_request(req);
    if (fake_below_fails("H5VLdataset_create"))
        return NULL;
    hid_t id = name == NULL
                   ? H5Dcreate_anon(id_of(at), type, space, dcpl, dapl)
                   : H5Dcreate2(id_of(at), name, type, space, lcpl, dcpl, dapl);
    return id < 0 ? NULL : fake_object_make(id);
}

/* The number of VOL_SPACE_BLOCK, which this HDF5 may lack. */
static hid_t
space_of(hid_t mem_space, hid_t file_space, hid_t dataset)
{
    if (mem_space != (hid_t)1)
        return H5Scopy(mem_space == H5S_ALL ? file_space : mem_space);
    hid_t all = H5Dget_space(dataset);
    const hsize_t n = (hsize_t)H5Sget_select_npoints(
        file_space == H5S_ALL ? all : file_space);
    H5Sclose(all);
    return H5Screate_simple(1, &n, NULL);
}

static herr_t
transfer(bool writes, hid_t dataset, hid_t type, hid_t mem_space,
         hid_t file_space, hid_t dxpl, void *values)
{
    const bool is_all = mem_space == H5S_ALL;
    /* HDF5 1.14.5 crashes if the list has no selection. */
    if (mem_space == VOL_SPACE_PLIST || file_space == VOL_SPACE_PLIST)
        return -1;
    hid_t space = is_all ? H5S_ALL : space_of(mem_space, file_space, dataset);
    herr_t result =
        writes ? H5Dwrite(dataset, type, space, file_space, dxpl, values)
               : H5Dread(dataset, type, space, file_space, dxpl, values);

    if (!is_all)
        H5Sclose(space);
    return result;
}

static herr_t
fake_H5VLdataset_read(size_t count, void **under, hid_t vol, hid_t *types,
                      hid_t *mem_spaces, hid_t *file_spaces, hid_t dxpl,
                      void **values, void **req)
{
    note("H5VLdataset_read", under[0], vol, 3,
         (const uintptr_t[]){count, W(mem_spaces[0]), W(file_spaces[0])});
    fake_below.nmoves++;
    make_request(req);
    if (fake_below_fails("H5VLdataset_read"))
        return -1;
    for (size_t i = 0; i < count; i++)
        if (transfer(false, id_of(under[i]), types[i], mem_spaces[i],
                     file_spaces[i], dxpl, values[i]) < 0)
            return -1;
    return 0;
}

static herr_t
fake_H5VLdataset_write(size_t count, void **under, hid_t vol, hid_t *types,
                       hid_t *mem_spaces, hid_t *file_spaces, hid_t dxpl,
                       const void **values, void **req)
{
    note("H5VLdataset_write", under[0], vol, 3,
         (const uintptr_t[]){count, W(mem_spaces[0]), W(file_spaces[0])});
    fake_below.nmoves++;
    make_request(req);
    if (fake_below_fails("H5VLdataset_write"))
        return -1;
    for (size_t i = 0; i < count; i++)
        if (transfer(true, id_of(under[i]), types[i], mem_spaces[i],
                     file_spaces[i], dxpl, (void *)values[i]) < 0)
            return -1;
    return 0;
}

static herr_t
fake_H5VLdataset_get(void *at, hid_t vol, void *a, hid_t dxpl, void **req)
{
    struct vol_dataset_get *get = a;
    const uintptr_t noted[] = {W(a), W(dxpl), W(req)};

    note("H5VLdataset_get", at, vol, 3, noted);
    make_request(req);
    if (fake_below_fails("H5VLdataset_get"))
        return -1;
    if (id_of(at) < 0)
        return 0;
    if (get->op == VOL_DATASET_GET_STORAGE_SIZE) {
        *(hsize_t *)get->args.out = H5Dget_storage_size(id_of(at));
        return 0;
    }
    get->args.id = get->op == VOL_DATASET_GET_DCPL
                       ? H5Dget_create_plist(id_of(at))
                   : get->op == VOL_DATASET_GET_SPACE ? H5Dget_space(id_of(at))
                                                      : H5Dget_type(id_of(at));
    fake_below.nids++;
    return 0;
}

static herr_t
move_chunk(hid_t dataset, struct vol_optional *optional)
{
    const struct vol_chunk_storage_size *size = optional->args;
    struct vol_chunk_read *read = optional->args;
    const struct vol_chunk_write_1 *old = optional->args;
    const struct vol_chunk_write_2 *new = optional->args;

    if (optional->op == VOL_NATIVE_CHUNK_STORAGE_SIZE)
        return H5Dget_chunk_storage_size(dataset, size->offset,
                                         size->nbytes_ret);
    if (optional->op == VOL_NATIVE_CHUNK_READ)
        return H5Dread_chunk(dataset, H5P_DEFAULT, read->offset,
                             &read->filters_ret, read->buf);
    return fake_below.library.major < 2
               ? H5Dwrite_chunk(dataset, H5P_DEFAULT, old->filters, old->offset,
                                old->nbytes, old->buf)
               : H5Dwrite_chunk(dataset, H5P_DEFAULT, new->filters, new->offset,
                                new->nbytes, new->buf);
}

static herr_t
fake_H5VLdataset_optional(void *at, hid_t vol, void *a, hid_t dxpl, void **req)
{
    const uintptr_t noted[] = {W(a), W(dxpl), W(req)};

    note("H5VLdataset_optional", at, vol, 3, noted);
    make_request(req);
    if (fake_below_fails("H5VLdataset_optional"))
        return -1;
    return id_of(at) < 0 ? 0 : move_chunk(id_of(at), a);
}

/* ---- connectors, their infos and wrapped objects ---- */

static hid_t
fake_H5VLget_connector_id_by_value(int value)
{
    (void)value;
    return fake_below_fails("H5VLget_connector_id_by_value") ? H5I_INVALID_HID
                                                             : FAKE_NATIVE;
}

static hid_t
fake_H5VLregister_connector_by_value(int value, hid_t properties)
{
    (void)properties;
    if (fake_below_fails("H5VLregister_connector_by_value"))
        return H5I_INVALID_HID;
    fake_below.nids++;
    return value == VOL_NATIVE_VALUE ? FAKE_NATIVE : FAKE_ANOTHER;
}

static herr_t
fake_H5VLget_value(hid_t vol, int *value_ret)
{
    *value_ret = vol == FAKE_NATIVE ? VOL_NATIVE_VALUE : 517;
    return fake_below_fails("H5VLget_value") ? -1 : 0;
}

static herr_t
fake_H5VLget_cap_flags(hid_t vol, uint64_t *flags_ret)
{
    (void)vol;
    *flags_ret = 0;
    return 0;
}

/* Infos of the connector below are texts. */
static herr_t
fake_H5VLcopy_connector_info(hid_t vol, void **copy_ret, void *info)
{
    (void)vol;
    if (fake_below_fails("H5VLcopy_connector_info"))
        return -1;
    *copy_ret = strdup(info);
    fake_below.nobjects++;
    return 0;
}

static herr_t
fake_H5VLcmp_connector_cls(int *result_ret, hid_t a, hid_t b)
{
    *result_ret = (a > b) - (a < b);
    return fake_below_fails("H5VLcmp_connector_cls") ? -1 : 0;
}

static herr_t
fake_H5VLcmp_connector_info(int *result_ret, hid_t vol, const void *a,
                            const void *b)
{
    (void)vol;
    *result_ret = strcmp(a == NULL ? "" : a, b == NULL ? "" : b);
    return fake_below_fails("H5VLcmp_connector_info") ? -1 : 0;
}

static herr_t
fake_H5VLfree_connector_info(hid_t vol, void *info)
{
    (void)vol;
    free(info);
    fake_below.nobjects--;
    return fake_below_fails("H5VLfree_connector_info") ? -1 : 0;
}

static herr_t
fake_H5VLconnector_info_to_str(const void *info, hid_t vol, char **text_ret)
{
    (void)vol;
    if (fake_below_fails("H5VLconnector_info_to_str"))
        return -1;
    *text_ret = info == NULL ? NULL : strdup(info);
    fake_below.nobjects += info != NULL;
    return 0;
}

static herr_t
fake_H5VLconnector_str_to_info(const char *text, hid_t vol, void **info_ret)
{
    (void)vol;
    if (fake_below_fails("H5VLconnector_str_to_info"))
        return -1;
    *info_ret = strdup(text);
    fake_below.nobjects++;
    return 0;
}

static void *
fake_H5VLget_object(void *at, hid_t vol)
{
    (void)vol;
    return fake_below_fails("H5VLget_object") ? NULL : at;
}

static herr_t
fake_H5VLget_wrap_ctx(void *at, hid_t vol, void **context_ret)
{
    (void)at, (void)vol;
    *context_ret = NULL;
    if (fake_below_fails("H5VLget_wrap_ctx"))
        return -1;
    if (vol == FAKE_ANOTHER)
        *context_ret = fake_object_make(H5I_INVALID_HID);
    return 0;
}

static void *
fake_H5VLwrap_object(void *made, H5I_type_t type, hid_t vol, void *context)
{
    note("H5VLwrap_object", made, vol, 2,
         (const uintptr_t[]){W(type), W(context)});
    return fake_below_fails("H5VLwrap_object") ? NULL : made;
}

static void *
fake_H5VLunwrap_object(void *at, hid_t vol)
{
    (void)vol;
    return fake_below_fails("H5VLunwrap_object") ? NULL : at;
}

static hid_t
fake_H5VLwrap_register(void *object, H5I_type_t type)
{
    (void)object, (void)type;
    return -1;
}

static herr_t
fake_H5VLfree_wrap_ctx(void *context, hid_t vol)
{
    (void)vol;
    fake_object_free(context);
    return fake_below_fails("H5VLfree_wrap_ctx") ? -1 : 0;
}

/* ---- the other functions ---- */

/* (result, name, what it returns when it fails, parameters, arguments) */
#define PLAIN(result, name, failure, parameters, arguments)          \
    static result fake_##name parameters                             \
    {                                                                \
        return fake_below_fails(#name) ? (failure) : name arguments; \
    }
#define PLAIN_MAKER(name, parameters, arguments) \
    static hid_t fake_##name parameters          \
    {                                            \
        if (fake_below_fails(#name))             \
            return H5I_INVALID_HID;              \
        fake_below.nids++;                       \
        return name arguments;                   \
    }
#define PLAIN_CLOSE(name)               \
    static herr_t fake_##name(hid_t id) \
    {                                   \
        fake_below.nids--;              \
        return name(id);                \
    }

PLAIN(herr_t, H5get_libversion, -1,
      (unsigned *major, unsigned *minor, unsigned *release),
      (major, minor, release))

static void *
fake_H5allocate_memory(size_t nbytes, hbool_t clear)
{
    if (fake_below_fails("H5allocate_memory"))
        return NULL;
    fake_below.nobjects++;
    return H5allocate_memory(nbytes, clear);
}

static herr_t
fake_H5free_memory(void *at)
{
    fake_below.nobjects--;
    return H5free_memory(at);
}

PLAIN(herr_t, H5Eauto_is_v2, -1, (hid_t stack, unsigned *is_ret),
      (stack, is_ret))
PLAIN(herr_t, H5Eget_auto2, -1,
      (hid_t stack, H5E_auto2_t *call_ret, void **data_ret),
      (stack, call_ret, data_ret))

static herr_t
fake_H5Eset_auto2(hid_t stack, H5E_auto2_t call, void *data)
{
    return H5Eset_auto2(stack, call, data);
}

static herr_t
fake_H5Eclear2(hid_t stack)
{
    return H5Eclear2(stack);
}

static hid_t
fake_H5Eget_current_stack(void)
{
    fake_below.nstacks++;
    return FAKE_STACK;
}

static herr_t
fake_H5Eset_current_stack(hid_t stack)
{
    (void)stack;
    fake_below.nstacks--;
    return 0;
}

static herr_t
fake_H5Eappend_stack(hid_t stack, hid_t from, hbool_t closes)
{
    (void)stack, (void)from;
    fake_below.nstacks -= closes;
    return 0;
}

static htri_t
fake_H5Iis_valid(hid_t id)
{
    return fake_below_fails("H5Iis_valid") ? 0 : id == FAKE_NATIVE;
}

static int
fake_H5Iinc_ref(hid_t id)
{
    *(id == FAKE_STACK ? &fake_below.nstacks : &fake_below.nids) += 1;
    return 1;
}

static int
fake_H5Idec_ref(hid_t id)
{
    *(id == FAKE_STACK ? &fake_below.nstacks : &fake_below.nids) -= 1;
    return fake_below_fails("H5Idec_ref") ? -1 : 1;
}

PLAIN_MAKER(H5Pcopy, (hid_t list), (list))
PLAIN_MAKER(H5Tcopy, (hid_t type), (type))
PLAIN_CLOSE(H5Pclose)
PLAIN_CLOSE(H5Sclose)
PLAIN_CLOSE(H5Tclose)

static herr_t
fake_H5Pset_vol(hid_t fapl, hid_t vol, const void *info)
{
    (void)fapl, (void)info;
    fake_below.vol = vol;
    return fake_below_fails("H5Pset_vol") ? -1 : 0;
}

static herr_t
fake_H5Pget_vol_info(hid_t fapl, void **info_ret)
{
    (void)fapl;
    if (fake_below_fails("H5Pget_vol_info"))
        return -1;
    *info_ret = fake_below.info == NULL ? NULL : vol_info_copy(fake_below.info);
    return fake_below.info != NULL && *info_ret == NULL ? -1 : 0;
}

PLAIN(ssize_t, H5Pget_data_transform, -1,
      (hid_t dxpl, char *text, size_t nbytes), (dxpl, text, nbytes))

static herr_t
fake_H5FDdriver_query(hid_t driver, unsigned long *flags_ret)
{
    (void)driver;
    if (fake_below_fails("H5FDdriver_query"))
        return -1;
    *flags_ret = fake_below.is_mpi ? 0x100 : 0;
    return 0;
}

PLAIN(hid_t, H5Pget_driver, -1, (hid_t fapl), (fapl))
PLAIN(H5D_layout_t, H5Pget_layout, H5D_LAYOUT_ERROR, (hid_t dcpl), (dcpl))
PLAIN(herr_t, H5Pset_layout, -1, (hid_t dcpl, H5D_layout_t layout),
      (dcpl, layout))
PLAIN(int, H5Pget_chunk, -1, (hid_t dcpl, int rank, hsize_t *chunk_ret),
      (dcpl, rank, chunk_ret))
PLAIN(herr_t, H5Pset_chunk, -1, (hid_t dcpl, int rank, const hsize_t *chunk),
      (dcpl, rank, chunk))
PLAIN(herr_t, H5Pget_chunk_opts, -1, (hid_t dcpl, unsigned *options_ret),
      (dcpl, options_ret))
PLAIN(int, H5Pget_external_count, -1, (hid_t dcpl), (dcpl))
PLAIN(int, H5Pget_nfilters, -1, (hid_t dcpl), (dcpl))
PLAIN(H5Z_filter_t, H5Pget_filter2, H5Z_FILTER_ERROR,
      (hid_t dcpl, unsigned at, unsigned *flags_ret, size_t *nwords,
       unsigned *words_ret, size_t name_nbytes, char *name_ret,
       unsigned *config_ret),
      (dcpl, at, flags_ret, nwords, words_ret, name_nbytes, name_ret,
       config_ret))
PLAIN(herr_t, H5Pset_filter, -1,
      (hid_t dcpl, H5Z_filter_t id, unsigned flags, size_t nwords,
       const unsigned *words),
      (dcpl, id, flags, nwords, words))
PLAIN(herr_t, H5Premove_filter, -1, (hid_t dcpl, H5Z_filter_t id), (dcpl, id))
PLAIN(htri_t, H5Zfilter_avail, -1, (H5Z_filter_t id), (id))
PLAIN(herr_t, H5Zregister, -1, (const void *filter), (filter))
PLAIN(herr_t, H5Pfill_value_defined, -1,
      (hid_t dcpl, H5D_fill_value_t *status_ret), (dcpl, status_ret))
PLAIN(herr_t, H5Pget_fill_time, -1, (hid_t dcpl, H5D_fill_time_t *time_ret),
      (dcpl, time_ret))
PLAIN(herr_t, H5Pget_fill_value, -1, (hid_t dcpl, hid_t type, void *value_ret),
      (dcpl, type, value_ret))
PLAIN(herr_t, H5Pget_chunk_cache, -1,
      (hid_t dapl, size_t *nslots, size_t *nbytes, double *w0),
      (dapl, nslots, nbytes, w0))
PLAIN(herr_t, H5Pset_chunk_cache, -1,
      (hid_t dapl, size_t nslots, size_t nbytes, double w0),
      (dapl, nslots, nbytes, w0))
PLAIN_MAKER(H5Screate_simple,
            (int rank, const hsize_t *dims, const hsize_t *max_dims),
            (rank, dims, max_dims))
PLAIN_MAKER(H5Scopy, (hid_t space), (space))
PLAIN(int, H5Sget_simple_extent_ndims, -1, (hid_t space), (space))
PLAIN(hssize_t, H5Sget_simple_extent_npoints, -1, (hid_t space), (space))
PLAIN(int, H5Sget_simple_extent_dims, -1,
      (hid_t space, hsize_t *dims_ret, hsize_t *max_dims_ret),
      (space, dims_ret, max_dims_ret))
PLAIN(H5S_class_t, H5Sget_simple_extent_type, H5S_NO_CLASS, (hid_t space),
      (space))
PLAIN(H5S_sel_type, H5Sget_select_type, H5S_SEL_ERROR, (hid_t space), (space))
PLAIN(hssize_t, H5Sget_select_npoints, -1, (hid_t space), (space))
PLAIN(htri_t, H5Sselect_valid, -1, (hid_t space), (space))
PLAIN(herr_t, H5Sselect_none, -1, (hid_t space), (space))
PLAIN(herr_t, H5Sget_select_bounds, -1,
      (hid_t space, hsize_t *begin_ret, hsize_t *end_ret),
      (space, begin_ret, end_ret))
PLAIN(herr_t, H5Sselect_hyperslab, -1,
      (hid_t space, H5S_seloper_t op, const hsize_t *start,
       const hsize_t *stride, const hsize_t *count, const hsize_t *block),
      (space, op, start, stride, count, block))
PLAIN(htri_t, H5Sis_regular_hyperslab, -1, (hid_t space), (space))
PLAIN(herr_t, H5Sget_regular_hyperslab, -1,
      (hid_t space, hsize_t *start, hsize_t *stride, hsize_t *count,
       hsize_t *block),
      (space, start, stride, count, block))
PLAIN(htri_t, H5Tequal, -1, (hid_t a, hid_t b), (a, b))
PLAIN(size_t, H5Tget_size, 0, (hid_t type), (type))
PLAIN(herr_t, H5Tconvert, -1,
      (hid_t from, hid_t to, size_t n, void *values, void *background,
       hid_t dxpl),
      (from, to, n, values, background, dxpl))
PLAIN(herr_t, H5Dgather, -1,
      (hid_t space, const void *src, hid_t type, size_t nbytes, void *dst,
       H5D_gather_func_t call, void *data),
      (space, src, type, nbytes, dst, call, data))
PLAIN(H5T_class_t, H5Tget_class, H5T_NO_CLASS, (hid_t type), (type))

/* Counted as an id. */
static herr_t
fake_H5VLstart_lib_state(void)
{
    if (fake_below_fails("H5VLstart_lib_state"))
        return -1;
    fake_below.nids++;
    return 0;
}

static herr_t
fake_H5VLfinish_lib_state(void)
{
    fake_below.nids--;
    return 0;
}

typedef void
function(void);

bool
fake_below_find(const char *name, void *function_ret)
{
#define LOOKED_UP(name)                \
    {                                  \
#name, (function *)fake_##name \
    }
    static const struct {
        const char *name;
        function *function;
    } looked_up[] = {
        LOOKED_UP(H5Pget_layout),     LOOKED_UP(H5Pget_nfilters),
        LOOKED_UP(H5Pget_filter2),    LOOKED_UP(H5Pget_chunk_opts),
        LOOKED_UP(H5Pget_fill_time),  LOOKED_UP(H5Pfill_value_defined),
        LOOKED_UP(H5Pget_fill_value), LOOKED_UP(H5Tget_class),
        LOOKED_UP(H5Tequal)};

    for (size_t i = 0; i < sizeof looked_up / sizeof *looked_up; i++)
        if (strcmp(name, looked_up[i].name) == 0) {
            memcpy(function_ret, &looked_up[i].function, sizeof(function *));
            return true;
        }
    return false;
}

#define TAKE(result, name, parameters) .name = fake_##name,

#define TAKE_STATE                                   \
    .H5VLstart_lib_state = fake_H5VLstart_lib_state, \
    .H5VLfinish_lib_state = fake_H5VLfinish_lib_state

void
fake_below_reset(void)
{
    fake_below = (struct fake_below){.library = {.native = FAKE_NATIVE,
                                                 .major = 1,
                                                 VOL_PASS_FUNCTIONS(TAKE)
                                                     VOL_PLAIN_FUNCTIONS(TAKE)
                                                         TAKE_STATE},
                                     .fail_at = UINT64_MAX};
}
