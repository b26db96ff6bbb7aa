/* Flattens compound types: nested compounds and arrays of compounds become one
 * list of members, sorted by their places in a value. */
#include "filter/members.h"

#include <stdlib.h>

#include "codec/format/base.h"
#include "filter/types.h"

/* Compounds within compounds. Types that people define have two or three
 * levels; the bound limits the stack. */
#define MAX_DEPTH 8

/* Text and other bytes are coded as words of this many bytes, the first byte
 * the highest: text then sorts as numbers do. */
#define WORD_NBYTES 8

/* Longer runs of bytes become one array of words: each member has a stream of
 * its own, which takes some dozen bytes at least. */
#define MAX_NWORDS 8

struct calls {
    H5T_class_t (*get_class)(hid_t);
    size_t (*get_size)(hid_t);
    hid_t (*get_super)(hid_t), (*get_member)(hid_t, unsigned);
    herr_t (*close_type)(hid_t);
    int (*count_members)(hid_t), (*get_ndims)(hid_t);
    int (*get_dims)(hid_t, hsize_t *);
    size_t (*get_offset)(hid_t, unsigned);
    char *(*get_name)(hid_t, unsigned);
    herr_t (*free_memory)(void *);
    htri_t (*is_variable)(hid_t);
};

struct leaf {
    struct terp_member member; /* TERP_BYTES: `nbytes` that are no number */
    uint32_t at, nbytes;
};

struct list {
    const struct terp_host *host;
    struct calls calls;
    const struct terp_cd *cd;
    uint32_t matched; /* a bit for each rule */
    struct leaf *leaves;
    uint32_t n, cap;
};

/* A type, and where it stands. */
struct field {
    hid_t type;
    uint32_t at;
    uint32_t hash; /* of the path so far */
    int rule;      /* of the path so far; 0: none */
    int depth;
};

static bool
find_calls(const struct terp_host *host, struct calls *calls)
{
    int (*find_member)(hid_t, const char *);
    htri_t (*is_equal)(hid_t, hid_t);

    /* terp_number_read needs the last two. */
    return terp_host_find(host, "H5Tget_class", &calls->get_class) &&
           terp_host_find(host, "H5Tget_size", &calls->get_size) &&
           terp_host_find(host, "H5Tget_super", &calls->get_super) &&
           terp_host_find(host, "H5Tget_member_type", &calls->get_member) &&
           terp_host_find(host, "H5Tclose", &calls->close_type) &&
           terp_host_find(host, "H5Tget_nmembers", &calls->count_members) &&
           terp_host_find(host, "H5Tget_array_ndims", &calls->get_ndims) &&
           terp_host_find(host, "H5Tget_array_dims2", &calls->get_dims) &&
           terp_host_find(host, "H5Tget_member_offset", &calls->get_offset) &&
           terp_host_find(host, "H5Tget_member_name", &calls->get_name) &&
           terp_host_find(host, "H5free_memory", &calls->free_memory) &&
           terp_host_find(host, "H5Tis_variable_str", &calls->is_variable) &&
           terp_host_find(host, "H5Tget_member_index", &find_member) &&
           terp_host_find(host, "H5Tequal", &is_equal);
}

enum kind {
    NUMBER,
    NESTED, /* a compound or an array */
    BYTES,  /* of a fixed size */
    OTHER   /* addresses in the file, or HDF5 does not tell */
};

static enum kind
kind_of(const struct list *list, hid_t type, struct terp_number *number_ret)
{
    switch (terp_number_read(list->host, type, number_ret)) {
    case TERP_PASS_NONE:
        return NUMBER;
    case TERP_PASS_UNKNOWN_LAYOUT:
        return OTHER;
    default:
        break;
    }
    switch ((int)list->calls.get_class(type)) {
    case H5T_COMPOUND:
    case H5T_ARRAY:
        return NESTED;
    case H5T_STRING:
        return list->calls.is_variable(type) == 0 ? BYTES : OTHER;
    case H5T_INTEGER:
    case H5T_FLOAT:
    case H5T_BITFIELD:
    case H5T_OPAQUE:
    case H5T_TIME:
    case H5T_ENUM:
    case TERP_H5T_COMPLEX:
        return BYTES;
    default:
        return OTHER;
    }
}

static bool
add_leaf(struct list *list, const struct terp_member *member, uint32_t at,
         uint32_t nbytes)
{
    if (nbytes == 0 || list->n == TERP_COMPOUND_MAX_NMEMBERS)
        return false;
    if (list->n == list->cap) {
        const uint32_t cap = list->cap == 0 ? 32 : 2 * list->cap;
        struct leaf *leaves = realloc(list->leaves, cap * sizeof *leaves);
        if (leaves == NULL)
            return false;
        list->leaves = leaves;
        list->cap = cap;
    }
    list->leaves[list->n++] = (struct leaf){*member, at, nbytes};
    return true;
}

static bool
add_number(struct list *list, const struct field *field,
           const struct terp_number *number)
{
    const struct terp_member member = {.type = number->type,
                                       .big_endian = number->big_endian,
                                       .rule = field->rule};

    return add_leaf(list, &member, field->at, terp_member_nbytes(&member));
}

/* Adds the values of a type that is no number. */
static bool
add_bytes(struct list *list, const struct field *field)
{
    const struct terp_member member = {.type = TERP_BYTES};
    const size_t nbytes = list->calls.get_size(field->type);

    return nbytes <= UINT32_MAX &&
           add_leaf(list, &member, field->at, (uint32_t)nbytes);
}

static bool
add_type(struct list *list, const struct field *field);

/* The rule for a path; the rule around it if there is none. */
static int
find_rule(struct list *list, uint32_t hash, int around)
{
    for (int i = 0; i < list->cd->nrules; i++)
        if (list->cd->rules[i].name_hash == hash) {
            list->matched |= 1u << i;
            return i + 1;
        }
    return around;
}

static bool
add_compound(struct list *list, const struct field *field)
{
    const struct calls *calls = &list->calls;
    const int nmembers = calls->count_members(field->type);
    bool ok = nmembers > 0;

    for (unsigned i = 0; ok && i < (unsigned)nmembers; i++) {
        char *name = calls->get_name(field->type, i);
        const size_t at = calls->get_offset(field->type, i);
        struct field inner = {.type = calls->get_member(field->type, i),
                              .hash = field->hash,
                              .depth = field->depth + 1};
        ok = name != NULL && inner.type >= 0 && at <= UINT32_MAX - field->at;
        if (ok) {
            if (field->hash != TERP_CD_HASH_BEGIN)
                inner.hash = terp_cd_hash(inner.hash, ".");
            inner.hash = terp_cd_hash(inner.hash, name);
            inner.rule = find_rule(list, inner.hash, field->rule);
            inner.at = field->at + (uint32_t)at;
            ok = add_type(list, &inner);
        }
        if (name != NULL)
            calls->free_memory(name);
        if (inner.type >= 0)
            calls->close_type(inner.type);
    }
    return ok;
}

/* Reads an array's dims as those of a member: the slowest ones are merged.
 * Returns the number of elements; 0 if HDF5 fails or there are too many. */
static uint32_t
read_array(const struct calls *calls, hid_t type, struct terp_member *member)
{
    hsize_t dims[H5S_MAX_RANK];
    const int ndims = calls->get_ndims(type);
    uint64_t n = 1;

    if (ndims < 1 || ndims > H5S_MAX_RANK || calls->get_dims(type, dims) < 0)
        return 0;
    member->rank = ndims < TERP_MEMBER_MAX_RANK ? ndims : TERP_MEMBER_MAX_RANK;
    for (int i = ndims - 1; i >= 0; i--) {
        const int to = i - (ndims - member->rank);
        if (!mul_fits(n, dims[i], &n) || n > UINT32_MAX)
            return 0;
        if (to > 0)
            member->dims[to] = (uint32_t)dims[i];
        else if (to == 0)
            member->dims[0] = 1;
        if (to <= 0)
            member->dims[0] *= (uint32_t)dims[i];
    }
    return (uint32_t)n;
}

/* Adds the elements of an array one by one. */
static bool
add_elements(struct list *list, const struct field *field, hid_t base,
             uint32_t n)
{
    const size_t nbytes = list->calls.get_size(base);
    struct field element = *field;
    bool ok = nbytes > 0 && nbytes <= UINT32_MAX / n;

    element.type = base;
    element.depth++;
    for (uint32_t i = 0; ok && i < n; i++) {
        ok = add_type(list, &element);
        element.at += (uint32_t)nbytes;
    }
    return ok;
}

static bool
add_array(struct list *list, const struct field *field)
{
    const struct calls *calls = &list->calls;
    struct terp_member member = {.rule = field->rule};
    struct terp_number number;
    const uint32_t n = read_array(calls, field->type, &member);
    const hid_t base = n > 0 ? calls->get_super(field->type) : -1;
    bool ok = false;

    if (base < 0)
        return false;
    switch (kind_of(list, base, &number)) {
    case NUMBER:
        member.type = number.type;
        member.big_endian = number.big_endian;
        ok = add_leaf(list, &member, field->at, terp_member_nbytes(&member));
        break;
    case NESTED:
        ok = add_elements(list, field, base, n);
        break;
    case BYTES:
        ok = add_bytes(list, field);
        break;
    default:
        break;
    }
    calls->close_type(base);
    return ok;
}

/* False if terp does not code the type, or the list is full. */
static bool
add_type(struct list *list, const struct field *field)
{
    struct terp_number number;

    if (field->depth > MAX_DEPTH)
        return false;
    switch (kind_of(list, field->type, &number)) {
    case NUMBER:
        return add_number(list, field, &number);
    case NESTED:
        return list->calls.get_class(field->type) == H5T_ARRAY
                   ? add_array(list, field)
                   : add_compound(list, field);
    case BYTES:
        return add_bytes(list, field);
    default:
        return false;
    }
}

/* ---- the table ---- */

static int
compare_places(const void *a, const void *b)
{
    const struct leaf *x = a, *y = b;

    return (x->at > y->at) - (x->at < y->at);
}

/* Adds as many members of a type as `*nbytes` hold, and subtracts them. */
static bool
list_words(struct terp_compound *compound, enum terp_type type,
           uint32_t *nbytes)
{
    const struct terp_member word = {.type = type, .big_endian = true};
    const uint32_t word_nbytes = terp_member_nbytes(&word);

    for (; *nbytes >= word_nbytes; *nbytes -= word_nbytes)
        if (!terp_compound_add(compound, &word))
            return false;
    return true;
}

/* Adds bytes that are no number, as words. */
static bool
list_bytes(struct terp_compound *compound, uint32_t nbytes)
{
    const struct terp_member words = {.type = TERP_UINT64,
                                      .big_endian = true,
                                      .rank = 1,
                                      .dims = {nbytes / WORD_NBYTES}};

    if (words.dims[0] > MAX_NWORDS) {
        if (!terp_compound_add(compound, &words))
            return false;
        nbytes %= WORD_NBYTES;
    }
    return list_words(compound, TERP_UINT64, &nbytes) &&
           list_words(compound, TERP_UINT32, &nbytes) &&
           list_words(compound, TERP_UINT16, &nbytes) &&
           list_words(compound, TERP_UINT8, &nbytes);
}

/* Fills the table with the leaves, and with the bytes between them. */
static bool
make_table(const struct list *list, uint32_t value_nbytes,
           struct terp_compound *compound)
{
    for (uint32_t i = 0; i < list->n; i++) {
        const struct leaf *leaf = &list->leaves[i];
        const uint32_t end = compound->value_nbytes;
        if (leaf->at < end || leaf->nbytes > value_nbytes ||
            leaf->at > value_nbytes - leaf->nbytes ||
            !list_bytes(compound, leaf->at - end))
            return false;
        if (!(leaf->member.type == TERP_BYTES
                  ? list_bytes(compound, leaf->nbytes)
                  : terp_compound_add(compound, &leaf->member)))
            return false;
    }
    return list_bytes(compound, value_nbytes - compound->value_nbytes);
}

enum terp_pass
terp_members_read(const struct terp_host *host, hid_t type, struct terp_cd *cd,
                  bool *unmatched_ret)
{
    struct list list = {.host = host, .cd = cd};
    const struct field whole = {.type = type, .hash = TERP_CD_HASH_BEGIN};
    bool ok = false;

    memset(&cd->compound, 0, sizeof cd->compound);
    *unmatched_ret = false;
    if (!find_calls(host, &list.calls))
        return TERP_PASS_NOT_NUMBER;
    const int class = (int)list.calls.get_class(type);
    const size_t nbytes = list.calls.get_size(type);
    if ((class == H5T_COMPOUND || class == H5T_ARRAY) && nbytes <= UINT32_MAX)
        ok = add_type(&list, &whole);
    if (ok) {
        qsort(list.leaves, list.n, sizeof *list.leaves, compare_places);
        ok = make_table(&list, (uint32_t)nbytes, &cd->compound);
    }
    free(list.leaves);
    *unmatched_ret = ok && list.matched != (1u << cd->nrules) - 1;
    return ok ? TERP_PASS_BY_MEMBER : TERP_PASS_NOT_NUMBER;
}
