/* Messages between the processes that have opened a file together.
 *
 * The connector is linked with no MPI, because it must load where there is
 * none. It calls the functions of the MPI library that HDF5 uses, so far those
 * of Open MPI: MPI libraries differ in what a communicator is. */
#pragma once

#include "vol/library.h"

struct vol_messages;

/* Called by all processes that create or open a file, before HDF5 does. NULL:
 * there are no messages, because HDF5 or MPI lacks a function, all processes
 * have TERP_MPI_WRITES=disjoint, or one has TERP_MPI_WRITES=values. Then no
 * process of the file has messages. */
struct vol_messages *
vol_messages_open(const void *caller, const struct vol_library *library,
                  hid_t fapl);

/* Adds an owner. Returns `messages`, which may be NULL. */
struct vol_messages *
vol_messages_share(struct vol_messages *messages);
/* Each owner calls this. NULL is allowed. */
void
vol_messages_close(struct vol_messages *messages);

int
vol_messages_nprocesses(const struct vol_messages *messages);
/* The number of this process, from 0 on. */
int
vol_messages_rank(const struct vol_messages *messages);

/* The following three are calls of all processes, each of which has the same
 * result unless MPI fails. */

/* Tells each process which of its bits any process has set. Needs no memory for
 * each process, so that a process without memory takes part. */
bool
vol_messages_any(const struct vol_messages *messages, uint8_t mine,
                 uint8_t *any_ret);

/* Gets `nbytes` bytes from each process. */
bool
vol_messages_gather(const struct vol_messages *messages, const void *mine,
                    size_t nbytes, void *all_ret);

/* Bytes for each process, or from each: n[i] at data + at[i]. */
struct vol_parcels {
    uint8_t *data;
    int *nbytes, *at;
};

bool
vol_messages_exchange(const struct vol_messages *messages,
                      const struct vol_parcels *sent,
                      const struct vol_parcels *received);
