/* TERP_MAX_MEMORY limits the host memory of a call. The budget counts all
 * memory of the call's allocator: the values and streams that the call
 * allocates, and working memory in proportion to them. Tables and masks are not
 * counted; they add some percent. A chunk larger than the limit is refused
 * before anything is allocated. */
#pragma once

#include <stdatomic.h>

#include "codec/engine.h"

struct terp_budget {
    uint64_t limit_nbytes; /* UINT64_MAX: no limit */
    atomic_uint_fast64_t held_nbytes;
    atomic_bool is_exceeded;
    const struct terp_allocator *below; /* the allocator that gives the counted
                                           memory */
    struct terp_allocator counting;
};

/* The limit; UINT64_MAX if the variable is not set. Returns false and a limit
 * of 0 if the variable is not a valid size: a mistyped limit still limits. */
bool
terp_budget_limit(uint64_t *nbytes_ret);

/* Returns TERP_ERR_LIMIT if `nbytes` exceeds the limit. */
enum terp_status
terp_budget_check(uint64_t nbytes);

/* Begins to count. The budget must not move while the call lasts. Returns the
 * call's allocator, which is `below` if there is no limit. */
const struct terp_allocator *
terp_budget_begin(struct terp_budget *budget,
                  const struct terp_allocator *below);

/* Counts memory that does not come from the call's allocator. */
enum terp_status
terp_budget_hold(struct terp_budget *budget, uint64_t nbytes);

/* Returns TERP_ERR_LIMIT in place of TERP_ERR_MEMORY if the budget refused
 * memory; otherwise `st`. */
enum terp_status
terp_budget_status(const struct terp_budget *budget, enum terp_status st);
