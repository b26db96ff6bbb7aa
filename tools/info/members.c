/* terp info: the sizes of the members of compound values. */
#include <stdio.h>
#include <stdlib.h>

#include "tools/info/info.h"

/* Of the bytes between members. */
#define NO_MEMBER SIZE_MAX

static int
find(const struct info_members *members, size_t at)
{
    for (int i = 0; i < members->n; i++)
        if (members->member[i].at == at)
            return i;
    return members->n;
}

/* Adds a listed member, unless another one is of the same member of HDF5's
 * type. Returns the index. */
static int
add(hid_t type, size_t at, struct info_members *members)
{
    struct tool_member member = {.at = NO_MEMBER};

    if (tool_member_find(type, at, &member))
        tool_close(member.type);
    else
        member = (struct tool_member){.at = NO_MEMBER};
    const int found = find(members, member.at);
    if (found == members->n) {
        struct info_member *new = &members->member[members->n++];
        *new = (struct info_member){.at = member.at};
        snprintf(new->path, sizeof new->path, "%s", member.path);
    }
    return found;
}

bool
info_members_make(const struct tool_dataset *dataset,
                  struct info_members *members_ret)
{
    const struct terp_compound *compound = &dataset->cd.compound;
    struct info_members *members = members_ret;
    struct terp_member_walk walk = {.at = 0};

    members->member = calloc(compound->nmembers, sizeof *members->member);
    members->of_listed = calloc(compound->nmembers, sizeof *members->of_listed);
    if (members->member == NULL || members->of_listed == NULL)
        return false;
    for (int i = 0; terp_member_next(compound, &walk); i++)
        members->of_listed[i] = add(dataset->type, walk.at, members);
    return true;
}

bool
info_members_add(struct info_members *members,
                 const struct terp_compound *compound,
                 const struct terp_container *container)
{
    struct terp_member_walk listed = {.at = 0};
    struct terp_container_walk walk = {.next = 0};

    if (container->nmembers != compound->nmembers)
        return false;
    for (int i = 0; terp_container_next(container, &walk); i++) {
        struct info_member *member = &members->member[members->of_listed[i]];
        if (!terp_member_next(compound, &listed) ||
            listed.nbytes != walk.nbytes)
            return false;
        member->nbytes += container->nvalues * walk.nbytes;
        member->stored_nbytes += walk.stream_nbytes;
    }
    return true;
}

void
info_members_free(struct info_members *members)
{
    free(members->member);
    free(members->of_listed);
}
