/* Makes whole chunks of the parts that processes write together.
 *
 * In a collective write the processes tell each other which boxes of the
 * dataset they write. So each knows which of its chunks nobody else writes to.
 * Where processes share chunks, and their values fill these, each chunk gets
 * one process, to which the others send their parts. */
#pragma once

#include "vol/batches.h"

struct vol_exchange {
    uint8_t *values; /* of the process's chunks; NULL: there are none */
    hid_t memory, file;
    uint64_t nbytes;
};

/* A call of all processes that have the dataset open. Returns whether marks may
 * stand for the transfer's values: nobody else writes to its chunks. A process
 * whose values were exchanged gets a transfer of whole chunks in place of its
 * own, maybe of none. `held_nbytes` are held already. The caller closes the
 * exchange, whatever the result. */
bool
vol_exchange_make(const void *caller, uint64_t held_nbytes,
                  struct vol_transfer *transfer,
                  struct vol_exchange *exchange_ret);

/* Also frees what the transfer has. */
void
vol_exchange_close(const struct vol_library *library,
                   struct vol_exchange *exchange);
