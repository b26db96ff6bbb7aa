/* Declares HDF5's interface for VOL connectors, as far as the connector uses
 * it. HDF5 before 1.14 lacks the interface; HDF5 1.14 to 2.2 have the same one.
 * It is declared here so that terp builds with any HDF5; h5tests/vol/vol_abi.c
 * compares it with the headers of an HDF5 that has the interface.
 *
 * An argument that the connector only passes on is a void pointer. Of a struct
 * that HDF5 makes and the connector reads, only the first members are
 * declared. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* Only for types and constants, as in the plugin. */
#include <hdf5.h>

/* H5VL_VERSION and H5PL_TYPE_VOL. */
#define VOL_CLASS_VERSION 3
#define VOL_PLUGIN_TYPE 1

/* HDF5's own connector, which writes files. */
#define VOL_NATIVE_VALUE 0

/* The capabilities of every connector for files in HDF5's own format:
 * H5VL_CAP_FLAG_NATIVE_FILES up to _FILL_VALUES, without _MAP_BASIC and
 * _MAP_MORE. Without _THREADSAFE, too, so that HDF5 keeps its lock. */
#define VOL_CAPABILITIES UINT64_C(0x1FFFFF9FFC)

/* The place of an object (H5VL_loc_params_t). VOL_BY_SELF: the object
 * itself. */
enum {
    VOL_BY_SELF = 0
};

struct vol_loc {
    int obj_type; /* H5I_type_t */
    int type;
    union {
        void *token;
        struct {
            const char *name;
            int idx_type, order;
            hsize_t n;
            hid_t lapl;
        } idx;
    } data;
};

/* Arguments of the operations that contain objects or property lists. */
enum {
    VOL_DATASET_GET_DCPL = 1,
    VOL_DATASET_GET_SPACE = 2,
    VOL_DATASET_GET_SPACE_STATUS = 3,
    VOL_DATASET_GET_STORAGE_SIZE = 4,
    VOL_DATASET_GET_TYPE = 5
};

struct vol_dataset_get {
    int op;
    union {
        hid_t id; /* set by the call */
        void *out;
    } args;
};

enum {
    VOL_FILE_FLUSH = 0,
    VOL_FILE_REOPEN = 1,
    VOL_FILE_IS_ACCESSIBLE = 2,
    VOL_FILE_DELETE = 3,
    VOL_FILE_IS_EQUAL = 4
};

struct vol_file_specific {
    int op;
    union {
        struct {
            int obj_type; /* H5I_type_t: H5Fflush takes any object of a file */
            int scope;    /* H5F_scope_t */
        } flush;
        struct {
            void **file;
        } reopen;
        struct { /* of is_accessible and of del */
            const char *name;
            hid_t fapl;
        } named;
        struct {
            void *other;
        } is_equal;
    } args;
};

enum {
    VOL_FILE_GET_FAPL = 1,
    VOL_FILE_GET_FILENO = 3,
    VOL_FILE_GET_INTENT = 4,
    VOL_FILE_GET_OBJ_COUNT = 6,
    VOL_FILE_GET_OBJ_IDS = 7
};

struct vol_file_get {
    int op;
    union {
        hid_t fapl; /* set by the call */
        unsigned *intent_ret;
        unsigned long *fileno_ret;
        struct {
            unsigned types; /* H5F_OBJ_FILE, ... */
            size_t *count_ret;
        } obj_count;
        struct {
            int type;
            size_t buf_nbytes;
            char *buf;
            size_t *nbytes_ret;
        } largest;
    } args;
};

enum {
    VOL_GROUP_MOUNT = 0
};

struct vol_group_specific {
    int op;
    union {
        struct {
            const char *name;
            void *child;
        } mount;
    } args;
};

enum {
    VOL_LINK_CREATE_HARD = 0
};

struct vol_link_create {
    int op;
    union {
        struct {
            void *object;
        } hard;
    } args;
};

enum {
    VOL_OBJECT_GET_NAME = 1,
    VOL_OBJECT_GET_INFO = 3
};

/* H5O_info2_t, of HDF5 1.12 and later. */
struct vol_object_info {
    unsigned long fileno;
    uint8_t token[16];
    int type;
    unsigned nreferences;
    time_t times[4];
    hsize_t nattributes;
};

/* H5O_INFO_BASIC */
#define VOL_OBJECT_INFO_BASIC 1u

struct vol_object_get {
    int op;
    union {
        struct {
            size_t buf_nbytes;
            char *buf;
            size_t *nbytes_ret;
        } name;
        struct {
            unsigned fields;
            struct vol_object_info *info_ret;
        } info;
    } args;
};

enum {
    VOL_OBJECT_FLUSH = 4,
    VOL_OBJECT_REFRESH = 5
};

/* Only the operation. */
struct vol_object_specific {
    int op;
};

enum {
    VOL_CONNECTOR_CURRENT = 0
};

/* The status of a request. */
enum vol_status {
    VOL_STATUS_IN_PROGRESS = 0,
    VOL_STATUS_SUCCEED = 1,
    VOL_STATUS_FAIL = 2,
    VOL_STATUS_CANT_CANCEL = 3,
    VOL_STATUS_CANCELED = 4
};

enum {
    VOL_REQUEST_GET_ERR_STACK = 0,
    VOL_REQUEST_GET_EXEC_TIME = 1
};

struct vol_request_specific {
    int op;
    union {
        hid_t errors; /* set by the call */
        struct {
            uint64_t *begin_ret, *nanoseconds_ret;
        } time;
    } args;
};

/* Operations on the native connector's datasets. */
enum {
    VOL_NATIVE_CHUNK_STORAGE_SIZE = 2,
    VOL_NATIVE_CHUNK_READ = 6,
    VOL_NATIVE_CHUNK_WRITE = 7
};

struct vol_optional {
    int op;
    void *args;
};

struct vol_chunk_storage_size {
    const hsize_t *offset;
    hsize_t *nbytes_ret;
};

/* HDF5 1.14 lacks the last member. */
struct vol_chunk_read {
    const hsize_t *offset;
    uint32_t filters_ret;
    void *buf;
    size_t *buf_nbytes;
};

/* vol_chunk_write_1: HDF5 1.14; vol_chunk_write_2: 2.0 and later. */
struct vol_chunk_write_1 {
    const hsize_t *offset;
    uint32_t filters, nbytes;
    const void *buf;
};

struct vol_chunk_write_2 {
    const hsize_t *offset;
    uint32_t filters;
    size_t nbytes;
    const void *buf;
};

/* The connector's class: H5VL_class_t. */
struct vol_class {
    unsigned version;
    int value;
    const char *name;
    unsigned connector_version;
    uint64_t capabilities;
    herr_t (*initialize)(hid_t);
    herr_t (*terminate)(void);
    struct {
        size_t nbytes;
        void *(*copy)(const void *);
        herr_t (*cmp)(int *, const void *, const void *);
        herr_t (*free)(void *);
        herr_t (*to_str)(const void *, char **);
        herr_t (*from_str)(const char *, void **);
    } info;
    struct {
        void *(*get_object)(const void *);
        herr_t (*get_wrap_ctx)(const void *, void **);
        void *(*wrap_object)(void *, H5I_type_t, void *);
        void *(*unwrap_object)(void *);
        herr_t (*free_wrap_ctx)(void *);
    } wrap;
    struct {
        void *(*create)(void *, const struct vol_loc *, const char *, hid_t,
                        hid_t, hid_t, hid_t, hid_t, void **);
        void *(*open)(void *, const struct vol_loc *, const char *, hid_t,
                      hid_t, void **);
        herr_t (*read)(void *, hid_t, void *, hid_t, void **);
        herr_t (*write)(void *, hid_t, const void *, hid_t, void **);
        herr_t (*get)(void *, void *, hid_t, void **);
        herr_t (*specific)(void *, const struct vol_loc *, void *, hid_t,
                           void **);
        herr_t (*optional)(void *, void *, hid_t, void **);
        herr_t (*close)(void *, hid_t, void **);
    } attr;
    struct {
        void *(*create)(void *, const struct vol_loc *, const char *, hid_t,
                        hid_t, hid_t, hid_t, hid_t, hid_t, void **);
        void *(*open)(void *, const struct vol_loc *, const char *, hid_t,
                      hid_t, void **);
        herr_t (*read)(size_t, void **, hid_t *, hid_t *, hid_t *, hid_t,
                       void **, void **);
        herr_t (*write)(size_t, void **, hid_t *, hid_t *, hid_t *, hid_t,
                        const void **, void **);
        herr_t (*get)(void *, void *, hid_t, void **);
        herr_t (*specific)(void *, void *, hid_t, void **);
        herr_t (*optional)(void *, void *, hid_t, void **);
        herr_t (*close)(void *, hid_t, void **);
    } dataset;
    struct {
        void *(*commit)(void *, const struct vol_loc *, const char *, hid_t,
                        hid_t, hid_t, hid_t, hid_t, void **);
        void *(*open)(void *, const struct vol_loc *, const char *, hid_t,
                      hid_t, void **);
        herr_t (*get)(void *, void *, hid_t, void **);
        herr_t (*specific)(void *, void *, hid_t, void **);
        herr_t (*optional)(void *, void *, hid_t, void **);
        herr_t (*close)(void *, hid_t, void **);
    } datatype;
    struct {
        void *(*create)(const char *, unsigned, hid_t, hid_t, hid_t, void **);
        void *(*open)(const char *, unsigned, hid_t, hid_t, void **);
        herr_t (*get)(void *, void *, hid_t, void **);
        herr_t (*specific)(void *, struct vol_file_specific *, hid_t, void **);
        herr_t (*optional)(void *, void *, hid_t, void **);
        herr_t (*close)(void *, hid_t, void **);
    } file;
    struct {
        void *(*create)(void *, const struct vol_loc *, const char *, hid_t,
                        hid_t, hid_t, hid_t, void **);
        void *(*open)(void *, const struct vol_loc *, const char *, hid_t,
                      hid_t, void **);
        herr_t (*get)(void *, void *, hid_t, void **);
        herr_t (*specific)(void *, struct vol_group_specific *, hid_t, void **);
        herr_t (*optional)(void *, void *, hid_t, void **);
        herr_t (*close)(void *, hid_t, void **);
    } group;
    struct {
        herr_t (*create)(struct vol_link_create *, void *,
                         const struct vol_loc *, hid_t, hid_t, hid_t, void **);
        herr_t (*copy)(void *, const struct vol_loc *, void *,
                       const struct vol_loc *, hid_t, hid_t, hid_t, void **);
        herr_t (*move)(void *, const struct vol_loc *, void *,
                       const struct vol_loc *, hid_t, hid_t, hid_t, void **);
        herr_t (*get)(void *, const struct vol_loc *, void *, hid_t, void **);
        herr_t (*specific)(void *, const struct vol_loc *, void *, hid_t,
                           void **);
        herr_t (*optional)(void *, const struct vol_loc *, void *, hid_t,
                           void **);
    } link;
    struct {
        void *(*open)(void *, const struct vol_loc *, H5I_type_t *, hid_t,
                      void **);
        herr_t (*copy)(void *, const struct vol_loc *, const char *, void *,
                       const struct vol_loc *, const char *, hid_t, hid_t,
                       hid_t, void **);
        herr_t (*get)(void *, const struct vol_loc *, void *, hid_t, void **);
        herr_t (*specific)(void *, const struct vol_loc *, void *, hid_t,
                           void **);
        herr_t (*optional)(void *, const struct vol_loc *, void *, hid_t,
                           void **);
    } object;
    struct {
        herr_t (*get_conn_cls)(void *, int, const struct vol_class **);
        herr_t (*get_cap_flags)(const void *, uint64_t *);
        herr_t (*opt_query)(void *, int, int, uint64_t *);
    } introspect;
    struct {
        herr_t (*wait)(void *, uint64_t, int *);
        herr_t (*notify)(void *, void (*)(void), void *);
        herr_t (*cancel)(void *, int *);
        herr_t (*specific)(void *, void *);
        herr_t (*optional)(void *, void *);
        herr_t (*free)(void *);
    } request;
    struct {
        herr_t (*put)(void *, const void *, size_t, void *, void *);
        herr_t (*get)(void *, const void *, void *, size_t, void *);
        herr_t (*specific)(void *, void *, void *);
        herr_t (*optional)(void *, void *, void *);
    } blob;
    struct {
        herr_t (*cmp)(void *, const void *, const void *, int *);
        herr_t (*to_str)(void *, H5I_type_t, const void *, char **);
        herr_t (*from_str)(void *, H5I_type_t, const char *, void *);
    } token;
    herr_t (*optional)(void *, void *, hid_t, void **);
};
