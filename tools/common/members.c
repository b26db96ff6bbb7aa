/* Descends into compound types. */
#include "tools/common/members.h"

#include <stdio.h>
#include <string.h>

#include "filter/members.h"
#include "tools/common/h5file.h"

/* A compound's member that holds byte *at, which becomes a byte of the member.
 * Negative: none. */
static int
find_in_compound(hid_t type, size_t *at)
{
    const int nmembers = H5Tget_nmembers(type);
    size_t begin = 0;
    int found = -1;

    for (int i = 0; i < nmembers; i++) {
        const size_t offset = H5Tget_member_offset(type, (unsigned)i);
        if (offset <= *at && (found < 0 || offset > begin)) {
            begin = offset;
            found = i;
        }
    }
    const hid_t member =
        found < 0 ? -1 : H5Tget_member_type(type, (unsigned)found);
    const size_t nbytes = member < 0 ? 0 : H5Tget_size(member);
    tool_close(member);
    *at -= begin;
    return *at < nbytes ? found : -1;
}

/* Whether a type is a value in itself: complex numbers are. */
static bool
is_leaf(hid_t type)
{
    const H5T_class_t class = H5Tget_class(type);

    return (class != H5T_COMPOUND && class != H5T_ARRAY) ||
           tool_coded_type(type) != TERP_BYTES;
}

/* Appends a member's name to a path. */
static void
append_name(hid_t type, int i, char path[TOOL_MEMBER_PATH_NBYTES])
{
    const size_t length = strlen(path);
    char *name = H5Tget_member_name(type, (unsigned)i);

    snprintf(path + length, TOOL_MEMBER_PATH_NBYTES - length, "%s%s",
             length > 0 ? "." : "", name != NULL ? name : "?");
    H5free_memory(name);
}

bool
tool_member_find(hid_t type, size_t at, struct tool_member *member_ret)
{
    struct tool_member *member = member_ret;
    hid_t inner = H5Tcopy(type);

    *member = (struct tool_member){.n = 1};
    while (inner >= 0 && !is_leaf(inner)) {
        hid_t next = -1;
        if (H5Tget_class(inner) == H5T_ARRAY) {
            const size_t nbytes = H5Tget_size(inner);
            next = H5Tget_super(inner);
            const size_t element_nbytes = next < 0 ? 1 : H5Tget_size(next);
            member->n *= nbytes / element_nbytes;
            at %= element_nbytes;
        } else {
            size_t in_member = at;
            const int i = find_in_compound(inner, &in_member);
            if (i >= 0) {
                member->at += at - in_member;
                at = in_member;
                append_name(inner, i, member->path);
                next = H5Tget_member_type(inner, (unsigned)i);
            }
        }
        tool_close(inner);
        inner = next;
    }
    member->type = inner;
    return inner >= 0;
}

hid_t
tool_member_wrap(hid_t type, size_t at, hid_t element)
{
    hsize_t dims[H5S_MAX_RANK];
    hid_t inner, wrapped, whole = -1;

    if (is_leaf(type))
        return H5Tcopy(element);
    if (H5Tget_class(type) == H5T_ARRAY) {
        const int ndims = H5Tget_array_dims2(type, dims);
        inner = H5Tget_super(type);
        wrapped =
            ndims < 0 || inner < 0
                ? -1
                : tool_member_wrap(inner, at % H5Tget_size(inner), element);
        if (wrapped >= 0)
            whole = H5Tarray_create2(wrapped, (unsigned)ndims, dims);
    } else {
        const int i = find_in_compound(type, &at);
        inner = i < 0 ? -1 : H5Tget_member_type(type, (unsigned)i);
        wrapped = inner < 0 ? -1 : tool_member_wrap(inner, at, element);
        char *name = wrapped < 0 ? NULL : H5Tget_member_name(type, (unsigned)i);
        if (name != NULL)
            whole = H5Tcreate(H5T_COMPOUND, H5Tget_size(wrapped));
        if (whole >= 0)
            H5Tinsert(whole, name, 0, wrapped);
        H5free_memory(name);
    }
    tool_close(inner);
    tool_close(wrapped);
    return whole;
}

/* Lists the members, with rule 1 for the member of path `name`, or for all
 * members below it. */
static bool
list_members(hid_t type, const char *name, struct terp_cd *cd_ret)
{
    struct terp_cd *cd = cd_ret;
    struct terp_host host;
    bool unmatched;

    *cd = (struct terp_cd){.nrules = name != NULL};
    if (tool_coded_type(type) != TERP_BYTES)
        return false;
    if (name != NULL)
        cd->rules[0].name_hash = terp_cd_hash(TERP_CD_HASH_BEGIN, name);
    terp_host_open(NULL, &host);
    return terp_members_read(&host, type, cd, &unmatched) ==
               TERP_PASS_BY_MEMBER &&
           !unmatched;
}

bool
tool_is_by_member(hid_t type, const char *name)
{
    struct terp_cd cd;

    return list_members(type, name, &cd);
}

bool
tool_member_has_numbers(hid_t type, const char *name)
{
    struct terp_member_walk walk = {.at = 0};
    struct terp_cd cd;

    /* The list has no rule for bytes that are no numbers. */
    if (list_members(type, name, &cd))
        while (terp_member_next(&cd.compound, &walk))
            if (walk.member.rule > 0)
                return true;
    return false;
}
