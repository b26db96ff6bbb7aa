/* terp compare: members of compound values, as datasets of their own. */
#include <stdio.h>

#include "tools/compare/compare.h"

bool
compare_has_members(const struct tool_dataset *a, const struct tool_dataset *b)
{
    return b->has_terp && b->params_error == NULL && !b->is_member &&
           b->cd.pass == TERP_PASS_BY_MEMBER && H5Tequal(a->type, b->type) > 0;
}

bool
compare_member(const struct tool_dataset *a, const struct tool_dataset *b,
               const struct terp_member_walk *listed,
               struct tool_dataset *a_ret, struct tool_dataset *b_ret,
               char path_ret[TOOL_MEMBER_PATH_NBYTES])
{
    struct tool_member member;

    if (!tool_member_find(b->type, listed->at, &member))
        return false;
    if (member.at != listed->at) {
        tool_close(member.type);
        return false;
    }
    *a_ret = *a;
    *b_ret = *b;
    a_ret->is_member = b_ret->is_member = true;
    a_ret->whole_type = b_ret->whole_type = b->type;
    a_ret->type = b_ret->type = member.type;
    a_ret->member_at = b_ret->member_at = member.at;
    a_ret->nelements = b_ret->nelements = member.n;
    a_ret->value_nbytes = b_ret->value_nbytes =
        member.n * H5Tget_size(member.type);
    b_ret->cd.pass = TERP_PASS_NONE;
    b_ret->cd.params = terp_cd_member_params(&b->cd, &listed->member);
    b_ret->cd.chunk.type = listed->member.type;
    snprintf(path_ret, TOOL_MEMBER_PATH_NBYTES, "%s", member.path);
    return true;
}
