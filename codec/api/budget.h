/* TERP_MAX_MEMORY: what a call may take of the host's memory. Counted are
 * values and streams that a call makes room for, and working memory in
 * proportion to them, all that comes from its allocator; tables and masks, some
 * percent of that, come on top. A chunk that is larger is refused before
 * anything is taken, so that these, too, have a limit. */
#pragma once

#include <stdatomic.h>

#include "codec/engine.h"

struct terp_budget {
    uint64_t limit_nbytes; /* UINT64_MAX: there is none */
    atomic_uint_fast64_t held_nbytes;
    atomic_bool is_exceeded;
    const struct terp_allocator *below; /* where counted memory comes from */
    struct terp_allocator counting;
};

/* The limit, UINT64_MAX where there is none. False, and a limit of 0, where the
 * variable is no size: who mistyped a limit wants one. */
bool
terp_budget_limit(uint64_t *nbytes_ret);

/* TERP_ERR_LIMIT for a chunk, or anything else, that is larger. */
enum terp_status
terp_budget_check(uint64_t nbytes);

/* Begins to count; the budget stays where it is as long as the call lasts.
 * Returns the call's allocator: `below`, where there is no limit. */
const struct terp_allocator *
terp_budget_begin(struct terp_budget *budget,
                  const struct terp_allocator *below);

/* Counts memory that does not come from the call's allocator. */
enum terp_status
terp_budget_hold(struct terp_budget *budget, uint64_t nbytes);

/* `st`; or TERP_ERR_LIMIT for a want of memory that the budget made. */
enum terp_status
terp_budget_status(const struct terp_budget *budget, enum terp_status st);
