/* terp repack: lists of the input's objects and links, and the first failure.
 */
#define _XOPEN_SOURCE 700 /* tsearch */
#include "tools/repack/objects.h"

#include <search.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/h5file.h"
#include "tools/common/limit.h"

bool
repack_fail(struct repack *repack, const char *path, const char *format, ...)
{
    char reason[512];
    va_list arguments;

    if (repack->error[0] != '\0')
        return false;
    repack->error_path = strdup(path);
    if (format == NULL) {
        snprintf(reason, sizeof reason, "%s",
                 repack->reason[0] != '\0' ? repack->reason
                                           : "not enough memory");
    } else {
        va_start(arguments, format);
        vsnprintf(reason, sizeof reason, format, arguments);
        va_end(arguments);
    }
    snprintf(repack->error, sizeof repack->error, "%s%s", reason,
             tool_limit_hint(reason));
    return false;
}

static int
compare_addresses(const void *a, const void *b)
{
    haddr_t one = ((const struct repack_object *)a)->address;
    haddr_t other = ((const struct repack_object *)b)->address;
    return (one > other) - (one < other);
}

struct repack_object *
repack_find_object(const struct repack *repack, haddr_t address)
{
    const struct repack_object key = {.address = address};
    struct repack_object *const *found =
        tfind(&key, &repack->objects_by_address, compare_addresses);
    return found == NULL ? NULL : *found;
}

struct repack_object *
repack_add_object(struct repack *repack, const H5O_info_t *info,
                  const char *path)
{
    struct repack_object *object = calloc(1, sizeof *object);

    if (object == NULL)
        return NULL;
    object->address = info->addr;
    object->type = info->type;
    object->path = strdup(path);
    object->unlinked = -1;
    if (object->path == NULL || tsearch(object, &repack->objects_by_address,
                                        compare_addresses) == NULL) {
        free(object->path);
        free(object);
        return NULL;
    }
    *repack->end_of_objects = object;
    repack->end_of_objects = &object->next;
    return object;
}

struct repack_link *
repack_add_link(struct repack *repack, struct repack_object *parent,
                const char *name, const H5L_info_t *info)
{
    struct repack_link *link = calloc(1, sizeof *link);

    if (link == NULL)
        return NULL;
    link->name = strdup(name);
    if (link->name == NULL) {
        free(link);
        return NULL;
    }
    link->parent = parent;
    link->type = info->type;
    link->charset = info->cset;
    *repack->end_of_links = link;
    repack->end_of_links = &link->next;
    return link;
}

static void
free_object(struct repack_object *object)
{
    amrex_level_free(object->plan.level);
    tool_lost_free(&object->losses.noted);
    free(object->losses.boxes);
    free(object->losses.fill);
    free(object->path);
    free(object);
}

void
repack_free_objects(struct repack *repack)
{
    free(repack->error_path);
    repack->error_path = NULL;
    while (repack->first_link != NULL) {
        struct repack_link *link = repack->first_link;
        repack->first_link = link->next;
        free(link->name);
        free(link);
    }
    while (repack->first_object != NULL) {
        struct repack_object *object = repack->first_object;
        repack->first_object = object->next;
        tdelete(object, &repack->objects_by_address, compare_addresses);
        free_object(object);
    }
    tool_coordinates_free(repack->coordinates);
}
