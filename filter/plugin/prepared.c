/* The streams that the connector offers. */
#include "filter/plugin/prepared.h"

static _Thread_local struct terp_prepared *offered;

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
