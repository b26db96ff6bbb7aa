/* Compares vol/abi.h with the headers of HDF5 1.14 or newer, at compile time.
 * Structs must have the same size and fields at the same offsets, class
 * functions the same types, and constants the same values. */
#include <assert.h>

#include "vol/abi.h"
#include "vol/pass.h"

#include <H5PLpublic.h>
#include <H5VLconnector.h>
#include <H5VLconnector_passthru.h>
#include <H5VLnative.h>

#define SAME_PLACE(ours, our_field, theirs, their_field)                      \
    static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field), \
                  #their_field)
#define SAME_SIZE(ours, theirs) \
    static_assert(sizeof(ours) == sizeof(theirs), #theirs)

/* ---- constants ---- */

static_assert(VOL_CLASS_VERSION == H5VL_VERSION, "version");
static_assert(VOL_PLUGIN_TYPE == (int)H5PL_TYPE_VOL, "plugin");
static_assert(VOL_NATIVE_VALUE == H5_VOL_NATIVE, "native");
static_assert(VOL_VALUE > H5_VOL_RESERVED && VOL_VALUE <= H5_VOL_MAX, "value");
static_assert(
    VOL_CAPABILITIES ==
        ((H5VL_CAP_FLAG_FILL_VALUES | (H5VL_CAP_FLAG_FILL_VALUES - 1)) &
         ~(uint64_t)(H5VL_CAP_FLAG_THREADSAFE | H5VL_CAP_FLAG_ASYNC |
                     H5VL_CAP_FLAG_MAP_BASIC | H5VL_CAP_FLAG_MAP_MORE)),
    "capabilities");
static_assert(VOL_BY_SELF == (int)H5VL_OBJECT_BY_SELF, "");
static_assert(VOL_DATASET_GET_DCPL == (int)H5VL_DATASET_GET_DCPL, "");
static_assert(VOL_DATASET_GET_SPACE == (int)H5VL_DATASET_GET_SPACE, "");
static_assert(VOL_DATASET_GET_SPACE_STATUS ==
                  (int)H5VL_DATASET_GET_SPACE_STATUS,
              "");
static_assert(VOL_DATASET_GET_STORAGE_SIZE ==
                  (int)H5VL_DATASET_GET_STORAGE_SIZE,
              "");
static_assert(VOL_DATASET_GET_TYPE == (int)H5VL_DATASET_GET_TYPE, "");
static_assert(VOL_FILE_FLUSH == (int)H5VL_FILE_FLUSH, "");
static_assert(VOL_FILE_REOPEN == (int)H5VL_FILE_REOPEN, "");
static_assert(VOL_FILE_IS_ACCESSIBLE == (int)H5VL_FILE_IS_ACCESSIBLE, "");
static_assert(VOL_FILE_DELETE == (int)H5VL_FILE_DELETE, "");
static_assert(VOL_FILE_IS_EQUAL == (int)H5VL_FILE_IS_EQUAL, "");
static_assert(VOL_FILE_GET_FAPL == (int)H5VL_FILE_GET_FAPL, "");
static_assert(VOL_FILE_GET_FILENO == (int)H5VL_FILE_GET_FILENO, "");
static_assert(VOL_FILE_GET_OBJ_COUNT == (int)H5VL_FILE_GET_OBJ_COUNT, "");
static_assert(VOL_FILE_GET_OBJ_IDS == (int)H5VL_FILE_GET_OBJ_IDS, "");
static_assert(VOL_FILE_GET_INTENT == (int)H5VL_FILE_GET_INTENT, "");
static_assert(VOL_GROUP_MOUNT == (int)H5VL_GROUP_MOUNT, "");
static_assert(VOL_LINK_CREATE_HARD == (int)H5VL_LINK_CREATE_HARD, "");
static_assert(VOL_OBJECT_GET_NAME == (int)H5VL_OBJECT_GET_NAME, "");
static_assert(VOL_OBJECT_GET_INFO == (int)H5VL_OBJECT_GET_INFO, "");
static_assert(VOL_OBJECT_INFO_BASIC == H5O_INFO_BASIC, "");
static_assert(VOL_OBJECT_FLUSH == (int)H5VL_OBJECT_FLUSH, "");
static_assert(VOL_OBJECT_REFRESH == (int)H5VL_OBJECT_REFRESH, "");
static_assert(VOL_STATUS_IN_PROGRESS == (int)H5VL_REQUEST_STATUS_IN_PROGRESS,
              "");
static_assert(VOL_STATUS_SUCCEED == (int)H5VL_REQUEST_STATUS_SUCCEED, "");
static_assert(VOL_STATUS_FAIL == (int)H5VL_REQUEST_STATUS_FAIL, "");
static_assert(VOL_STATUS_CANT_CANCEL == (int)H5VL_REQUEST_STATUS_CANT_CANCEL,
              "");
static_assert(VOL_STATUS_CANCELED == (int)H5VL_REQUEST_STATUS_CANCELED, "");
static_assert(VOL_REQUEST_GET_ERR_STACK == (int)H5VL_REQUEST_GET_ERR_STACK, "");
static_assert(VOL_REQUEST_GET_EXEC_TIME == (int)H5VL_REQUEST_GET_EXEC_TIME, "");
static_assert(VOL_CONNECTOR_CURRENT == (int)H5VL_GET_CONN_LVL_CURR, "");
static_assert(VOL_NATIVE_CHUNK_STORAGE_SIZE ==
                  H5VL_NATIVE_DATASET_GET_CHUNK_STORAGE_SIZE,
              "");
static_assert(VOL_NATIVE_CHUNK_READ == H5VL_NATIVE_DATASET_CHUNK_READ, "");
static_assert(VOL_NATIVE_CHUNK_WRITE == H5VL_NATIVE_DATASET_CHUNK_WRITE, "");

/* ---- structs that terp fills and HDF5 reads ---- */

SAME_SIZE(struct vol_loc, H5VL_loc_params_t);
SAME_PLACE(struct vol_loc, type, H5VL_loc_params_t, type);
SAME_PLACE(struct vol_loc, data, H5VL_loc_params_t, loc_data);
SAME_SIZE(struct vol_optional, H5VL_optional_args_t);
SAME_PLACE(struct vol_optional, args, H5VL_optional_args_t, args);
SAME_SIZE(struct vol_dataset_get, H5VL_dataset_get_args_t);
SAME_PLACE(struct vol_dataset_get, args, H5VL_dataset_get_args_t,
           args.get_dcpl.dcpl_id);
SAME_SIZE(struct vol_file_get, H5VL_file_get_args_t);
SAME_PLACE(struct vol_file_get, args.fapl, H5VL_file_get_args_t,
           args.get_fapl.fapl_id);
SAME_PLACE(struct vol_file_get, args.fileno_ret, H5VL_file_get_args_t,
           args.get_fileno.fileno);
SAME_PLACE(struct vol_file_get, args.intent_ret, H5VL_file_get_args_t,
           args.get_intent.flags);
SAME_PLACE(struct vol_file_get, args.obj_count.types, H5VL_file_get_args_t,
           args.get_obj_count.types);
SAME_PLACE(struct vol_file_get, args.obj_count.count_ret, H5VL_file_get_args_t,
           args.get_obj_count.count);
SAME_SIZE(struct vol_object_get, H5VL_object_get_args_t);
SAME_PLACE(struct vol_object_get, args.name.buf_nbytes, H5VL_object_get_args_t,
           args.get_name.buf_size);
SAME_PLACE(struct vol_object_get, args.name.buf, H5VL_object_get_args_t,
           args.get_name.buf);
SAME_PLACE(struct vol_object_get, args.name.nbytes_ret, H5VL_object_get_args_t,
           args.get_name.name_len);
SAME_PLACE(struct vol_object_get, args.info.fields, H5VL_object_get_args_t,
           args.get_info.fields);
SAME_PLACE(struct vol_object_get, args.info.info_ret, H5VL_object_get_args_t,
           args.get_info.oinfo);
SAME_SIZE(struct vol_object_info, H5O_info2_t);
SAME_PLACE(struct vol_object_info, fileno, H5O_info2_t, fileno);
SAME_PLACE(struct vol_object_info, nattributes, H5O_info2_t, num_attrs);
SAME_SIZE(struct vol_chunk_storage_size,
          H5VL_native_dataset_get_chunk_storage_size_t);
SAME_PLACE(struct vol_chunk_storage_size, nbytes_ret,
           H5VL_native_dataset_get_chunk_storage_size_t, size);
SAME_PLACE(struct vol_chunk_read, filters_ret, H5VL_native_dataset_chunk_read_t,
           filters);
SAME_PLACE(struct vol_chunk_read, buf, H5VL_native_dataset_chunk_read_t, buf);
#if H5_VERS_MAJOR < 2
typedef struct vol_chunk_write_1 vol_chunk_write;
static_assert(sizeof(struct vol_chunk_read) >=
                  sizeof(H5VL_native_dataset_chunk_read_t),
              "chunk_read");
#else
typedef struct vol_chunk_write_2 vol_chunk_write;
SAME_SIZE(struct vol_chunk_read, H5VL_native_dataset_chunk_read_t);
SAME_PLACE(struct vol_chunk_read, buf_nbytes, H5VL_native_dataset_chunk_read_t,
           buf_size);
#endif
SAME_SIZE(vol_chunk_write, H5VL_native_dataset_chunk_write_t);
SAME_PLACE(vol_chunk_write, filters, H5VL_native_dataset_chunk_write_t,
           filters);
SAME_PLACE(vol_chunk_write, nbytes, H5VL_native_dataset_chunk_write_t, size);
SAME_PLACE(vol_chunk_write, buf, H5VL_native_dataset_chunk_write_t, buf);

/* ---- structs that HDF5 fills and terp changes ---- */

SAME_SIZE(struct vol_request_specific, H5VL_request_specific_args_t);
SAME_PLACE(struct vol_request_specific, args.errors,
           H5VL_request_specific_args_t, args.get_err_stack.err_stack_id);
SAME_PLACE(struct vol_request_specific, args.time.begin_ret,
           H5VL_request_specific_args_t, args.get_exec_time.exec_ts);
SAME_PLACE(struct vol_request_specific, args.time.nanoseconds_ret,
           H5VL_request_specific_args_t, args.get_exec_time.exec_time);
SAME_PLACE(struct vol_object_specific, op, H5VL_object_specific_args_t,
           op_type);
SAME_PLACE(struct vol_file_specific, args.flush.obj_type,
           H5VL_file_specific_args_t, args.flush.obj_type);
SAME_PLACE(struct vol_file_specific, args.flush.scope,
           H5VL_file_specific_args_t, args.flush.scope);
SAME_PLACE(struct vol_file_specific, args.reopen.file,
           H5VL_file_specific_args_t, args.reopen.file);
SAME_PLACE(struct vol_file_specific, args.named.fapl, H5VL_file_specific_args_t,
           args.is_accessible.fapl_id);
SAME_PLACE(struct vol_file_specific, args.named.fapl, H5VL_file_specific_args_t,
           args.del.fapl_id);
SAME_PLACE(struct vol_file_specific, args.is_equal.other,
           H5VL_file_specific_args_t, args.is_equal.obj2);
SAME_PLACE(struct vol_group_specific, args.mount.child,
           H5VL_group_specific_args_t, args.mount.child_file);
SAME_PLACE(struct vol_link_create, args.hard.object, H5VL_link_create_args_t,
           args.hard.curr_obj);

/* ---- the class ---- */

#define SAME_PART(ours, theirs)                               \
    SAME_PLACE(struct vol_class, ours, H5VL_class_t, theirs); \
    static_assert(sizeof(((struct vol_class *)0)->ours) ==    \
                      sizeof(((H5VL_class_t *)0)->theirs),    \
                  #theirs)
#define SAME_CALL(part, call) \
    SAME_PLACE(struct vol_class, part.call, H5VL_class_t, part##_cls.call)

SAME_SIZE(struct vol_class, H5VL_class_t);
SAME_PART(version, version);
SAME_PART(value, value);
SAME_PART(name, name);
SAME_PART(connector_version, conn_version);
SAME_PART(capabilities, cap_flags);
SAME_PART(initialize, initialize);
SAME_PART(terminate, terminate);
SAME_PART(info, info_cls);
SAME_PART(wrap, wrap_cls);
SAME_PART(attr, attr_cls);
SAME_PART(dataset, dataset_cls);
SAME_PART(datatype, datatype_cls);
SAME_PART(file, file_cls);
SAME_PART(group, group_cls);
SAME_PART(link, link_cls);
SAME_PART(object, object_cls);
SAME_PART(introspect, introspect_cls);
SAME_PART(request, request_cls);
SAME_PART(blob, blob_cls);
SAME_PART(token, token_cls);
SAME_PART(optional, optional);
SAME_CALL(info, from_str);
SAME_CALL(info, to_str);
SAME_CALL(wrap, get_object);
SAME_CALL(wrap, free_wrap_ctx);
SAME_CALL(attr, read);
SAME_CALL(attr, close);
SAME_CALL(dataset, read);
SAME_CALL(dataset, write);
SAME_CALL(dataset, get);
SAME_CALL(dataset, close);
SAME_CALL(datatype, commit);
SAME_CALL(file, specific);
SAME_CALL(file, close);
SAME_CALL(group, specific);
SAME_CALL(link, create);
SAME_CALL(link, move);
SAME_CALL(object, copy);
SAME_CALL(object, get);
SAME_CALL(introspect, opt_query);
SAME_CALL(request, free);
SAME_CALL(blob, put);
SAME_CALL(token, to_str);
