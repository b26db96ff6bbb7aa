/* Streams that were made before HDF5 asks for them. The connector encodes the
 * chunks of a write as a batch, then lets HDF5 write; HDF5 hands the chunks to
 * the filter one by one, in the same thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct terp_prepared {
    /* Copies the stream of a chunk with these cd_values and these values to
     * `stream`, which holds terp_encode_bound bytes. False: there is none. */
    bool (*take)(struct terp_prepared *prepared, size_t nwords,
                 const unsigned *words, const void *values, void *stream,
                 uint64_t *nbytes_ret);
};

/* Offers streams to the filter's calls in this thread, until NULL is offered.
 */
void
terp_prepared_offer(struct terp_prepared *prepared);

bool
terp_prepared_take(size_t nwords, const unsigned *words, const void *values,
                   void *stream, uint64_t *nbytes_ret);

/* Counts memory that the connector holds while HDF5 calls the filter in this
 * thread: TERP_MAX_MEMORY includes it. */
void
terp_prepared_hold(uint64_t nbytes);
uint64_t
terp_prepared_held_nbytes(void);
