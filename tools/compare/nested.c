/* terp compare: compares values of any type. */
#define _POSIX_C_SOURCE 200809L /* strdup */
#include "tools/compare/nested.h"

#include <stdlib.h>
#include <string.h>

#include "codec/format/base.h"
#include "tools/common/h5file.h"

/* Limit of recursion for types within types; protects the stack from damaged
 * files. Deeper types are not compared. */
#define MAX_DEPTH 64

/* Blocks or points of a selection that are compared at a time; bounds the
 * memory of a comparison. */
#define COMPARED_NBLOCKS 256

enum kind {
    BYTES,
    TEXT,     /* string of varying length */
    SEQUENCE, /* of varying length */
    ARRAY,
    COMPOUND,
    OBJECT, /* a reference to an object */
    REGION  /* a reference to a region */
};

struct member {
    size_t at; /* position in the compound */
    struct nested_type *type;
};

struct nested_type {
    enum kind kind;
    size_t nbytes;
    uint64_t nelements; /* for ARRAY */
    unsigned nmembers;  /* for COMPOUND; 1 for SEQUENCE and ARRAY, the base */
    struct member *members;
};

/* ---- types ---- */

static struct nested_type *
make(hid_t type, int depth, const char **reason_ret);

void
nested_type_free(struct nested_type *type)
{
    for (unsigned i = 0;
         type != NULL && type->members != NULL && i < type->nmembers; i++)
        nested_type_free(type->members[i].type);
    if (type != NULL)
        free(type->members);
    free(type);
}

/* Adds a member of type `member`, and closes this type. */
static bool
add_member(struct nested_type *type, unsigned nth, size_t at, hid_t member,
           int depth, const char **reason_ret)
{
    type->members[nth].at = at;
    type->members[nth].type =
        member < 0 ? NULL : make(member, depth + 1, reason_ret);
    if (member < 0)
        *reason_ret = "HDF5 cannot read its type";
    tool_close(member);
    return type->members[nth].type != NULL;
}

static bool
add_members(struct nested_type *type, hid_t id, int depth,
            const char **reason_ret)
{
    const int n = type->kind == COMPOUND ? H5Tget_nmembers(id) : 1;
    bool ok = n > 0;

    type->members = ok ? calloc((size_t)n, sizeof *type->members) : NULL;
    if (type->members == NULL) {
        *reason_ret = "not enough memory for its type";
        return false;
    }
    type->nmembers = (unsigned)n;
    for (unsigned i = 0; ok && i < type->nmembers; i++)
        ok = type->kind == COMPOUND
                 ? add_member(type, i, H5Tget_member_offset(id, i),
                              H5Tget_member_type(id, i), depth, reason_ret)
                 : add_member(type, i, 0, H5Tget_super(id), depth, reason_ret);
    if (ok && type->kind == ARRAY)
        type->nelements = type->nbytes / type->members[0].type->nbytes;
    return ok;
}

static bool
find_kind(hid_t id, enum kind *kind_ret, const char **reason_ret)
{
    switch (H5Tget_class(id)) {
    case H5T_STRING:
        *kind_ret = H5Tis_variable_str(id) > 0 ? TEXT : BYTES;
        return true;
    case H5T_VLEN:
        *kind_ret = SEQUENCE;
        return true;
    case H5T_ARRAY:
        *kind_ret = ARRAY;
        return true;
    case H5T_COMPOUND:
        *kind_ret = COMPOUND;
        return true;
    case H5T_REFERENCE:
        *kind_ret = H5Tequal(id, H5T_STD_REF_OBJ) > 0 ? OBJECT : REGION;
        if (*kind_ret == REGION && H5Tequal(id, H5T_STD_REF_DSETREG) <= 0) {
            *reason_ret =
                "terp cannot compare the references that HDF5 1.12 added";
            return false;
        }
        return true;
    default:
        *kind_ret = BYTES;
        return true;
    }
}

static struct nested_type *
make(hid_t id, int depth, const char **reason_ret)
{
    struct nested_type *type = calloc(1, sizeof *type);

    *reason_ret = "not enough memory for its type";
    if (type == NULL)
        return NULL;
    type->nbytes = H5Tget_size(id);
    bool ok = depth < MAX_DEPTH;
    if (!ok)
        *reason_ret = "its type is nested too deeply to compare";
    ok = ok && find_kind(id, &type->kind, reason_ret);
    if (ok && (type->kind == SEQUENCE || type->kind == ARRAY ||
               type->kind == COMPOUND))
        ok = add_members(type, id, depth, reason_ret);
    if (ok) {
        *reason_ret = NULL;
        return type;
    }
    nested_type_free(type);
    return NULL;
}

struct nested_type *
nested_type_make(hid_t type, const char **reason_ret)
{
    return make(type, 0, reason_ret);
}

/* Whether the type, or a type within it, is of kind `one` or `other`. */
static bool
has(const struct nested_type *type, enum kind one, enum kind other)
{
    bool found = type->kind == one || type->kind == other;

    for (unsigned i = 0; !found && i < type->nmembers; i++)
        found = has(type->members[i].type, one, other);
    return found;
}

bool
nested_has_heap(const struct nested_type *type)
{
    return has(type, TEXT, SEQUENCE);
}

bool
nested_has_references(const struct nested_type *type)
{
    return has(type, OBJECT, REGION);
}

/* ---- targets of references ---- */

/* An object of one file, and its counterpart in the other file. */
struct object {
    haddr_t address;
    char *path;
    bool is_known; /* `other` is set */
    haddr_t other; /* HADDR_UNDEF: no counterpart */
};

struct objects {
    uint64_t n, cap;
    struct object *list; /* sorted by address */
};

struct nested_files {
    hid_t a, b;
    bool are_listed;
    struct objects of_a, of_b;
};

struct nested_files *
nested_files_open(hid_t a, hid_t b)
{
    struct nested_files *files = calloc(1, sizeof *files);

    if (files != NULL) {
        files->a = a;
        files->b = b;
    }
    return files;
}

static void
free_objects(struct objects *objects)
{
    for (uint64_t i = 0; i < objects->n; i++)
        free(objects->list[i].path);
    free(objects->list);
}

void
nested_files_close(struct nested_files *files)
{
    if (files == NULL)
        return;
    free_objects(&files->of_a);
    free_objects(&files->of_b);
    free(files);
}

static herr_t
add_object(hid_t file, const char *name, const H5O_info_t *info, void *context)
{
    struct objects *objects = context;

    (void)file;
    if (objects->n == objects->cap) {
        const uint64_t cap = objects->cap == 0 ? 64 : 2 * objects->cap;
        struct object *more = realloc(objects->list, cap * sizeof *more);
        if (more == NULL)
            return -1;
        objects->list = more;
        objects->cap = cap;
    }
    char *path = strdup(name);
    if (path == NULL)
        return -1;
    objects->list[objects->n++] =
        (struct object){.address = info->addr, .path = path};
    return 0;
}

static int
compare_objects(const void *a, const void *b)
{
    const haddr_t x = ((const struct object *)a)->address;
    const haddr_t y = ((const struct object *)b)->address;

    return (x > y) - (x < y);
}

/* Lists all objects. Objects that HDF5 cannot list count as missing. */
static void
list(hid_t file, struct objects *objects)
{
    (void)H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_NATIVE, add_object, objects,
                    H5O_INFO_BASIC);
    if (objects->n > 0)
        qsort(objects->list, objects->n, sizeof *objects->list,
              compare_objects);
}

static struct object *
find(const struct objects *objects, haddr_t address)
{
    const struct object key = {.address = address};

    return objects->n == 0 ? NULL
                           : bsearch(&key, objects->list, objects->n,
                                     sizeof *objects->list, compare_objects);
}

/* Whether an object of A and an object of B have the same path. Both addresses
 * may be invalid, like those of null references; then they match. */
static bool
is_counterpart(struct nested_files *files, haddr_t a, haddr_t b)
{
    H5O_info_t info;

    if (files == NULL)
        return false;
    if (!files->are_listed) {
        list(files->a, &files->of_a);
        list(files->b, &files->of_b);
        files->are_listed = true;
    }
    struct object *object = find(&files->of_a, a);
    if (object == NULL || find(&files->of_b, b) == NULL)
        return object == NULL && find(&files->of_b, b) == NULL;
    if (!object->is_known) {
        const bool is_there =
            H5Oget_info_by_name2(files->b, object->path, &info, H5O_INFO_BASIC,
                                 H5P_DEFAULT) >= 0;
        object->other = is_there ? info.addr : HADDR_UNDEF;
        object->is_known = true;
    }
    return object->other == b;
}

static bool
objects_are_same(struct nested_files *files, const uint8_t *a, const uint8_t *b)
{
    hobj_ref_t one, other;

    memcpy(&one, a, sizeof one);
    memcpy(&other, b, sizeof other);
    return is_counterpart(files, one, other);
}

typedef herr_t
get_entries(hid_t space, hsize_t first, hsize_t n, hsize_t *entries);

/* Whether two selections have the same `n` points or blocks, `nnumbers` numbers
 * each. */
static bool
entries_are_same(hid_t a, hid_t b, hssize_t n, int nnumbers, get_entries *get)
{
    const size_t nbytes = (size_t)nnumbers * sizeof(hsize_t);
    hsize_t *of_a = malloc(COMPARED_NBLOCKS * nbytes);
    hsize_t *of_b = malloc(COMPARED_NBLOCKS * nbytes);
    bool same = of_a != NULL && of_b != NULL && n >= 0;

    for (hsize_t at = 0; same && at < (hsize_t)n; at += COMPARED_NBLOCKS) {
        const hsize_t count = min_u64(COMPARED_NBLOCKS, (hsize_t)n - at);
        same = get(a, at, count, of_a) >= 0 && get(b, at, count, of_b) >= 0 &&
               memcmp(of_a, of_b, count * nbytes) == 0;
    }
    free(of_a);
    free(of_b);
    return same;
}

static bool
selections_are_same(hid_t a, hid_t b)
{
    const int rank = H5Sget_simple_extent_ndims(a);
    const H5S_sel_type type = H5Sget_select_type(a);

    if (H5Sextent_equal(a, b) <= 0 || type != H5Sget_select_type(b) ||
        H5Sget_select_npoints(a) != H5Sget_select_npoints(b))
        return false;
    if (type == H5S_SEL_POINTS)
        return entries_are_same(a, b, H5Sget_select_elem_npoints(a), rank,
                                H5Sget_select_elem_pointlist);
    if (type != H5S_SEL_HYPERSLABS)
        return true;
    const hssize_t n = H5Sget_select_hyper_nblocks(a);
    return n == H5Sget_select_hyper_nblocks(b) &&
           entries_are_same(a, b, n, 2 * rank, H5Sget_select_hyper_blocklist);
}

/* The address of the dataset to which a reference to a region points;
 * HADDR_UNDEF if none. */
static haddr_t
dataset_of_region(hid_t file, const void *reference)
{
    hid_t id =
        H5Rdereference2(file, H5P_DEFAULT, H5R_DATASET_REGION, reference);
    H5O_info_t info;
    const haddr_t address =
        id >= 0 && H5Oget_info2(id, &info, H5O_INFO_BASIC) >= 0 ? info.addr
                                                                : HADDR_UNDEF;

    tool_close(id);
    return address;
}

static bool
regions_are_same(struct nested_files *files, const uint8_t *a, const uint8_t *b)
{
    hdset_reg_ref_t one, other;
    hid_t space_a = -1, space_b = -1;

    if (files == NULL)
        return false;
    memcpy(&one, a, sizeof one);
    memcpy(&other, b, sizeof other);
    const haddr_t to = dataset_of_region(files->a, &one);
    if (!is_counterpart(files, to, dataset_of_region(files->b, &other)))
        return false;
    if (to == HADDR_UNDEF)
        return true;
    space_a = H5Rget_region(files->a, H5R_DATASET_REGION, &one);
    space_b = H5Rget_region(files->b, H5R_DATASET_REGION, &other);
    const bool same =
        space_a >= 0 && space_b >= 0 && selections_are_same(space_a, space_b);
    tool_close(space_a);
    tool_close(space_b);
    return same;
}

/* ---- values ---- */

static bool
texts_are_same(const uint8_t *a, const uint8_t *b)
{
    const char *one, *other;

    memcpy(&one, a, sizeof one);
    memcpy(&other, b, sizeof other);
    return strcmp(one == NULL ? "" : one, other == NULL ? "" : other) == 0;
}

static bool
sequences_are_same(struct nested_files *files, const struct nested_type *base,
                   const uint8_t *a, const uint8_t *b)
{
    hvl_t one, other;

    memcpy(&one, a, sizeof one);
    memcpy(&other, b, sizeof other);
    return one.len == other.len &&
           (one.len == 0 || nested_equal(files, base, one.len, one.p, other.p));
}

static bool
compounds_are_same(struct nested_files *files, const struct nested_type *type,
                   const uint8_t *a, const uint8_t *b)
{
    bool same = true;

    for (unsigned i = 0; same && i < type->nmembers; i++) {
        const struct member *member = &type->members[i];
        same = nested_equal(files, member->type, 1, a + member->at,
                            b + member->at);
    }
    return same;
}

static bool
is_same(struct nested_files *files, const struct nested_type *type,
        const uint8_t *a, const uint8_t *b)
{
    switch (type->kind) {
    case TEXT:
        return texts_are_same(a, b);
    case SEQUENCE:
        return sequences_are_same(files, type->members[0].type, a, b);
    case ARRAY:
        return nested_equal(files, type->members[0].type, type->nelements, a,
                            b);
    case COMPOUND:
        return compounds_are_same(files, type, a, b);
    case OBJECT:
        return objects_are_same(files, a, b);
    case REGION:
        return regions_are_same(files, a, b);
    default:
        return memcmp(a, b, type->nbytes) == 0;
    }
}

bool
nested_equal(struct nested_files *files, const struct nested_type *type,
             uint64_t nvalues, const void *a, const void *b)
{
    const uint8_t *at_a = a, *at_b = b;
    bool same = true;

    if (type->kind == BYTES)
        return memcmp(a, b, nvalues * type->nbytes) == 0;
    for (uint64_t i = 0; same && i < nvalues; i++)
        same = is_same(files, type, at_a + i * type->nbytes,
                       at_b + i * type->nbytes);
    return same;
}
