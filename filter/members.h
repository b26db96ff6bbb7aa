/* Lists the members of HDF5's compound types, for the plugin and the tool. */
#pragma once

#include "codec/api/cd_values.h"
#include "filter/plugin/host.h"

/* Describes `type`, a compound or an array of the host's, in cd->compound: each
 * of its members gets the rule of cd->rules whose hash is that of its path, or
 * of the path of a compound around it. The path of member x of member a is
 * "a.x"; elements of an array share a path. *unmatched_ret: a rule has no
 * member.
 *
 * TERP_PASS_BY_MEMBER; or ..._NOT_NUMBER if the type is another one, has
 * members of varying length or references, has more members than a table holds,
 * or the host lacks a function. */
enum terp_pass
terp_members_read(const struct terp_host *host, hid_t type, struct terp_cd *cd,
                  bool *unmatched_ret);
