/* Counts the host memory of a call. */
#include "codec/api/budget.h"

#include <stdlib.h>

/* The size of a block precedes the block. This many bytes keep the block
 * aligned. */
#define HEAD_NBYTES 64

static bool
read_size(const char *text, uint64_t *nbytes_ret)
{
    uint64_t nbytes = 0, unit = 1;

    if (*text < '0' || *text > '9')
        return false;
    for (; *text >= '0' && *text <= '9'; text++) {
        const uint64_t digit = (uint64_t)(*text - '0');
        if (nbytes > (UINT64_MAX - digit) / 10)
            return false;
        nbytes = 10 * nbytes + digit;
    }
    if (*text == 'K' || *text == 'k')
        unit = UINT64_C(1) << 10;
    else if (*text == 'M' || *text == 'm')
        unit = UINT64_C(1) << 20;
    else if (*text == 'G' || *text == 'g')
        unit = UINT64_C(1) << 30;
    text += unit > 1;
    if (*text != '\0' || nbytes > UINT64_MAX / unit)
        return false;
    *nbytes_ret = nbytes * unit;
    return true;
}

bool
terp_budget_limit(uint64_t *nbytes_ret)
{
    const char *text = getenv("TERP_MAX_MEMORY");

    *nbytes_ret = UINT64_MAX;
    if (text == NULL || *text == '\0')
        return true;
    *nbytes_ret = 0;
    return read_size(text, nbytes_ret);
}

enum terp_status
terp_budget_check(uint64_t nbytes)
{
    uint64_t limit_nbytes;

    (void)terp_budget_limit(&limit_nbytes);
    return nbytes <= limit_nbytes ? TERP_OK : TERP_ERR_LIMIT;
}

enum terp_status
terp_budget_hold(struct terp_budget *budget, uint64_t nbytes)
{
    uint_fast64_t held = budget->held_nbytes;

    do {
        if (held > budget->limit_nbytes ||
            nbytes > budget->limit_nbytes - held) {
            budget->is_exceeded = true;
            return TERP_ERR_LIMIT;
        }
    } while (!atomic_compare_exchange_weak(&budget->held_nbytes, &held,
                                           held + nbytes));
    return TERP_OK;
}

/* If the memory that the reserve keeps for later calls may no longer fit, the
 * reserve is emptied. */
static bool
hold(void *arg, uint64_t nbytes)
{
    struct terp_budget *budget = arg;
    struct terp_reserve *reserve = budget->counting.reserve;

    if (terp_budget_hold(budget, nbytes) != TERP_OK)
        return false;
    if (reserve != NULL &&
        budget->limit_nbytes - budget->held_nbytes < reserve->limit_nbytes)
        terp_cpu_reserve_trim(reserve);
    return true;
}

static void
give(void *arg, uint64_t nbytes)
{
    struct terp_budget *budget = arg;

    budget->held_nbytes -= nbytes;
}

static void *
allocate(void *arg, size_t nbytes)
{
    struct terp_budget *budget = arg;

    if (nbytes > SIZE_MAX - HEAD_NBYTES)
        return NULL;
    const uint64_t all_nbytes = (uint64_t)nbytes + HEAD_NBYTES;
    if (!hold(budget, all_nbytes))
        return NULL;
    uint8_t *block = terp_allocate(budget->below, all_nbytes);
    if (block == NULL) {
        budget->held_nbytes -= all_nbytes;
        return NULL;
    }
    memcpy(block, &all_nbytes, sizeof all_nbytes);
    return block + HEAD_NBYTES;
}

static void
release(void *arg, void *at)
{
    struct terp_budget *budget = arg;
    uint8_t *block = (uint8_t *)at - HEAD_NBYTES;
    uint64_t all_nbytes;

    memcpy(&all_nbytes, block, sizeof all_nbytes);
    budget->held_nbytes -= all_nbytes;
    terp_release(budget->below, block);
}

const struct terp_allocator *
terp_budget_begin(struct terp_budget *budget,
                  const struct terp_allocator *below)
{
    budget->held_nbytes = 0;
    budget->is_exceeded = false;
    budget->below = below;
    (void)terp_budget_limit(&budget->limit_nbytes);
    if (budget->limit_nbytes == UINT64_MAX)
        return below;
    budget->counting = (struct terp_allocator){
        allocate, release,
        budget,   terp_allocator_is_own(below) ? NULL : below->reserve,
        hold,     give};
    return &budget->counting;
}

enum terp_status
terp_budget_status(const struct terp_budget *budget, enum terp_status st)
{
    return st == TERP_ERR_MEMORY && budget->is_exceeded ? TERP_ERR_LIMIT : st;
}
