/* The streams that the connector offers, and the memory that it holds. */
#include "filter/plugin/prepared.h"

static _Thread_local struct terp_prepared *offered;
static _Thread_local uint64_t held_nbytes;

void
terp_prepared_offer(struct terp_prepared *prepared)
{
    offered = prepared;
}

bool
terp_prepared_take(size_t nwords, const unsigned *words, const void *values,
                   void *stream, uint64_t *nbytes_ret)
{
    return offered != NULL &&
           offered->take(offered, nwords, words, values, stream, nbytes_ret);
}

void
terp_prepared_hold(uint64_t nbytes)
{
    held_nbytes = nbytes;
}

uint64_t
terp_prepared_held_nbytes(void)
{
    return held_nbytes;
}
