/* Walks over links with an explicit stack of groups. */
#define _XOPEN_SOURCE 700 /* strdup, tsearch */
#include "tools/common/walk.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OBJECT_FIELDS (H5O_INFO_BASIC | H5O_INFO_HDR)

struct link {
    char *name;
    H5L_info_t info;
};

/* A group on the stack. */
struct tool_walk_group {
    haddr_t address;
    hid_t id;           /* negative while it is closed */
    size_t path_nbytes; /* including the slash behind it */
    void *context;
    struct link *links;
    size_t nlinks, cap_nlinks, next;
};

bool
tool_object_info(hid_t object, H5O_info_t *info_ret)
{
    return H5Oget_info2(object, info_ret, OBJECT_FIELDS) >= 0;
}

struct tool_walk
tool_walk_begin(hid_t file, bool by_creation)
{
    return (struct tool_walk){.file = file, .by_creation = by_creation};
}

/* ---- the links of a group ---- */

static herr_t
add_link(hid_t id, const char *name, const H5L_info_t *info, void *context)
{
    struct tool_walk_group *group = context;

    (void)id;
    if (group->nlinks == group->cap_nlinks) {
        const size_t cap = group->cap_nlinks == 0 ? 8 : 2 * group->cap_nlinks;
        struct link *more = realloc(group->links, cap * sizeof *group->links);
        if (more == NULL)
            return -1;
        group->links = more;
        group->cap_nlinks = cap;
    }
    struct link *link = &group->links[group->nlinks];
    *link = (struct link){strdup(name), *info};
    if (link->name == NULL)
        return -1;
    group->nlinks++;
    return 0;
}

static bool
list_links(struct tool_walk_group *group, bool by_creation)
{
    unsigned order = 0;

    if (by_creation) {
        hid_t gcpl = H5Gget_create_plist(group->id);
        if (gcpl < 0 || H5Pget_link_creation_order(gcpl, &order) < 0)
            return false;
        H5Pclose(gcpl);
    }
    return H5Literate(group->id,
                      order & H5P_CRT_ORDER_TRACKED ? H5_INDEX_CRT_ORDER
                                                    : H5_INDEX_NAME,
                      H5_ITER_INC, NULL, add_link, group) >= 0;
}

static void
free_group(struct tool_walk_group *group)
{
    for (size_t i = 0; i < group->nlinks; i++)
        free(group->links[i].name);
    free(group->links);
    tool_close(group->id);
}

/* ---- the walk ---- */

/* Makes capacity for one more group. */
static bool
reserve_group(struct tool_walk *walk)
{
    if (walk->ngroups < walk->cap_ngroups)
        return true;
    const size_t cap = walk->cap_ngroups == 0 ? 16 : 2 * walk->cap_ngroups;
    struct tool_walk_group *more =
        realloc(walk->groups, cap * sizeof *walk->groups);
    if (more == NULL)
        return false;
    walk->groups = more;
    walk->cap_ngroups = cap;
    return true;
}

/* Replaces the path behind its first `nbytes` bytes by `name`. */
static bool
set_path(struct tool_walk *walk, size_t nbytes, const char *name)
{
    const size_t needed = nbytes + strlen(name) + 2;

    if (needed > walk->text_cap) {
        char *more = realloc(walk->text, 2 * needed);
        if (more == NULL)
            return false;
        walk->text = more;
        walk->text_cap = 2 * needed;
    }
    strcpy(walk->text + nbytes, name);
    walk->path = walk->text;
    return true;
}

/* Only the innermost group stays open. */
static void
close_innermost(struct tool_walk *walk)
{
    if (walk->ngroups == 0)
        return;
    tool_close(walk->groups[walk->ngroups - 1].id);
    walk->groups[walk->ngroups - 1].id = -1;
}

bool
tool_walk_enter(struct tool_walk *walk, hid_t group, void *context)
{
    struct tool_walk_group entered = {.id = -1, .context = context};
    H5O_info_t info;

    if (!tool_object_info(group, &info) || !reserve_group(walk) ||
        !set_path(walk, walk->ngroups == 0 ? 0 : strlen(walk->text),
                  walk->ngroups == 0 ? "/" : ""))
        return false;
    H5Iinc_ref(group);
    entered.id = group;
    entered.address = info.addr;
    if (!list_links(&entered, walk->by_creation)) {
        hid_t errors = tool_hdf5_hold();
        free_group(&entered);
        tool_hdf5_release(errors);
        return false;
    }
    if (walk->ngroups > 0)
        strcat(walk->text, "/");
    entered.path_nbytes = strlen(walk->text);
    close_innermost(walk);
    walk->groups[walk->ngroups++] = entered;
    return true;
}

bool
tool_walk_next(struct tool_walk *walk)
{
    while (walk->ngroups > 0) {
        struct tool_walk_group *group = &walk->groups[walk->ngroups - 1];
        if (group->next == group->nlinks) {
            free_group(group);
            walk->ngroups--;
            continue;
        }
        const struct link *link = &group->links[group->next++];
        if (!set_path(walk, group->path_nbytes, link->name))
            return false;
        walk->name = link->name;
        walk->link = link->info;
        walk->group = group->context;
        return true;
    }
    return false;
}

bool
tool_walk_info(struct tool_walk *walk, H5O_info_t *info_ret)
{
    struct tool_walk_group *group = &walk->groups[walk->ngroups - 1];

    if (group->id < 0)
        group->id = H5Oopen_by_addr(walk->file, group->address);
    return group->id >= 0 &&
           H5Oget_info_by_name2(group->id, walk->name, info_ret, OBJECT_FIELDS,
                                H5P_DEFAULT) >= 0;
}

hid_t
tool_walk_open(const struct tool_walk *walk)
{
    return H5Oopen_by_addr(walk->file, walk->link.u.address);
}

void
tool_walk_end(struct tool_walk *walk)
{
    while (walk->ngroups > 0)
        free_group(&walk->groups[--walk->ngroups]);
    free(walk->groups);
    free(walk->text);
}

/* ---- each dataset once ---- */

/* A walk over datasets, and the addresses that it has seen. */
struct visit {
    struct tool_walk walk;
    tool_visit *report;
    void *context;
    void *seen; /* a tree of tsearch() */
    bool complete;
};

static int
compare_addresses(const void *a, const void *b)
{
    const haddr_t x = *(const haddr_t *)a, y = *(const haddr_t *)b;

    return (x > y) - (x < y);
}

/* Whether the walk sees an address for the first time. Without memory the
 * answer is no, so that the walk ends. */
static bool
is_first(struct visit *visit, haddr_t address)
{
    haddr_t *key = malloc(sizeof *key);

    if (key == NULL)
        return false;
    *key = address;
    haddr_t *const *found = tsearch(key, &visit->seen, compare_addresses);
    if (found != NULL && *found == key)
        return true;
    free(key);
    return false;
}

/* Reports an object that cannot be opened or walked. Headers before HDF5 1.8
 * have no checksum; one that seems to need a newer HDF5 may be damaged. */
static void
report_trouble(struct visit *visit, const char *path, unsigned header_version)
{
    struct tool_trouble trouble = tool_hdf5_trouble();
    char reason[sizeof trouble.reason];

    if (trouble.is_newer && header_version == 1) {
        memcpy(reason, trouble.reason, sizeof reason);
        snprintf(trouble.reason, sizeof trouble.reason, "damaged, or %.200s",
                 reason);
    }
    visit->report(path, NULL, &trouble, visit->context);
}

static void
visit_group(struct visit *visit, unsigned header_version)
{
    hid_t id = tool_walk_open(&visit->walk);

    if (id < 0 || !tool_walk_enter(&visit->walk, id, NULL)) {
        report_trouble(visit, visit->walk.path, header_version);
        visit->complete = false;
    }
    tool_close(id);
}

static void
visit_dataset(struct visit *visit, unsigned header_version)
{
    struct tool_dataset dataset;

    if (tool_dataset_open(visit->walk.file, visit->walk.path, &dataset)) {
        visit->report(visit->walk.path, &dataset, NULL, visit->context);
        tool_dataset_close(&dataset);
    } else {
        report_trouble(visit, visit->walk.path, header_version);
    }
}

static void
visit_object(struct visit *visit)
{
    H5O_info_t info;

    if (!tool_walk_info(&visit->walk, &info))
        report_trouble(visit, visit->walk.path, 0);
    else if (info.type == H5O_TYPE_GROUP && is_first(visit, info.addr))
        visit_group(visit, info.hdr.version);
    else if (info.type == H5O_TYPE_DATASET &&
             (info.rc < 2 || is_first(visit, info.addr)))
        visit_dataset(visit, info.hdr.version);
}

bool
tool_file_visit(hid_t file, tool_visit *report, void *context)
{
    struct visit visit = {.walk = tool_walk_begin(file, false),
                          .report = report,
                          .context = context,
                          .complete = true};
    H5O_info_t info;
    hid_t root = H5Gopen2(file, "/", H5P_DEFAULT);

    if (root < 0 || !tool_object_info(root, &info) ||
        !is_first(&visit, info.addr) ||
        !tool_walk_enter(&visit.walk, root, NULL)) {
        report_trouble(&visit, "/", 0);
        visit.complete = false;
    }
    tool_close(root);
    while (tool_walk_next(&visit.walk))
        if (visit.walk.link.type == H5L_TYPE_HARD)
            visit_object(&visit);
    tool_walk_end(&visit.walk);
    while (visit.seen != NULL) {
        haddr_t *key = *(haddr_t **)visit.seen;
        tdelete(key, &visit.seen, compare_addresses);
        free(key);
    }
    return visit.complete;
}
