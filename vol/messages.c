/* Calls Open MPI by addresses that are looked up. */
#define _GNU_SOURCE /* dlsym of the program's symbols */
#include "vol/messages.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "filter/plugin/host.h"

/* A handle of Open MPI: an address. */
typedef struct mpi_object *mpi_handle;

/* MPI_BYTE and MPI_BOR of Fortran in Open MPI. The variables of C may be in two
 * places (a copy relocation), and a function knows which one counts. */
#define FORTRAN_BYTE 1
#define FORTRAN_BOR 8

#define MPI_FUNCTIONS(X)                                                      \
    X(Comm_size, (mpi_handle, int *))                                         \
    X(Comm_rank, (mpi_handle, int *))                                         \
    X(Comm_free, (mpi_handle *))                                              \
    X(Info_free, (mpi_handle *))                                              \
    X(Type_size, (mpi_handle, int *))                                         \
    X(Finalized, (int *))                                                     \
    X(Allgather,                                                              \
      (const void *, int, mpi_handle, void *, int, mpi_handle, mpi_handle))   \
    X(Allreduce,                                                              \
      (const void *, void *, int, mpi_handle, mpi_handle, mpi_handle))        \
    X(Reduce_local, (const void *, void *, int, mpi_handle, mpi_handle))      \
    X(Alltoallv, (const void *, const int *, const int *, mpi_handle, void *, \
                  const int *, const int *, mpi_handle, mpi_handle))

#define DECLARE(name, parameters) int(*name) parameters;

struct mpi {
    MPI_FUNCTIONS(DECLARE)
    mpi_handle (*Type_f2c)(int), (*Op_f2c)(int);
    mpi_handle byte, bit_or;
};

struct vol_messages {
    atomic_int nowners;
    struct mpi mpi;
    mpi_handle comm; /* belongs to the messages */
    int nprocesses, rank;
};

static bool
find(void *module, const char *name, void *function_ret)
{
    void *symbol = dlsym(module, name);

    memcpy(function_ret, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* Gets the handles, and tries them. */
static bool
find_handles(struct mpi *mpi)
{
    const uint8_t one = 1;
    uint8_t both = 2;
    int nbytes = 0;

    mpi->byte = mpi->Type_f2c(FORTRAN_BYTE);
    mpi->bit_or = mpi->Op_f2c(FORTRAN_BOR);
    return mpi->byte != NULL && mpi->bit_or != NULL &&
           mpi->Type_size(mpi->byte, &nbytes) == 0 && nbytes == 1 &&
           mpi->Reduce_local(&one, &both, 1, mpi->byte, mpi->bit_or) == 0 &&
           both == 3;
}

/* Looks in HDF5 and the libraries that it is linked with, or in the program and
 * its libraries. */
static bool
find_mpi(const struct terp_host *host, struct mpi *mpi)
{
    void *variable;

    /* Only Open MPI has this variable. */
    if (host->module == NULL || !find(host->module, "ompi_mpi_byte", &variable))
        return false;
#define FIND(name, parameters)                         \
    if (!find(host->module, "MPI_" #name, &mpi->name)) \
        return false;
    MPI_FUNCTIONS(FIND)
    return find(host->module, "MPI_Type_f2c", &mpi->Type_f2c) &&
           find(host->module, "MPI_Op_f2c", &mpi->Op_f2c) && find_handles(mpi);
}

/* Gets a communicator, which HDF5 makes for the caller. */
static bool
get_communicator(const struct terp_host *host,
                 const struct vol_library *library, hid_t fapl,
                 struct vol_messages *messages)
{
    herr_t (*get)(hid_t, mpi_handle *, mpi_handle *);
    struct vol_errors said;

    if (!terp_host_find(host, "H5Pget_fapl_mpio", &get))
        return false;
    /* The call fails if another driver opens the file. */
    vol_errors_silence(library, &said);
    const bool good = get(fapl, &messages->comm, NULL) >= 0;
    vol_errors_restore(library, &said, false);
    return good;
}

/* Whether all processes are able to send messages, and their users let them. */
static bool
are_wanted(const struct vol_messages *messages, bool is_able)
{
    enum {
        MESSAGES = 1,
        VALUES = 2,
        UNABLE = 4
    };
    const char *text = getenv("TERP_MPI_WRITES");
    const int wanted = text == NULL                    ? MESSAGES
                       : strcmp(text, "disjoint") == 0 ? 0
                       : strcmp(text, "values") == 0   ? VALUES
                                                       : MESSAGES;
    uint8_t any;

    return vol_messages_any(
               messages, (uint8_t)(is_able ? wanted : wanted | UNABLE), &any) &&
           any == MESSAGES;
}

struct vol_messages *
vol_messages_open(const void *caller, const struct vol_library *library,
                  hid_t fapl)
{
    struct vol_messages *made = calloc(1, sizeof *made);
    /* A process without memory tells the others. */
    struct vol_messages unable = {.nowners = 0};
    struct vol_messages *messages = made == NULL ? &unable : made;
    struct terp_host host;

    terp_host_open(caller, &host);
    const bool has_comm = find_mpi(&host, &messages->mpi) &&
                          get_communicator(&host, library, fapl, messages);
    terp_host_close(&host);
    const bool is_able =
        has_comm && made != NULL &&
        messages->mpi.Comm_size(messages->comm, &messages->nprocesses) == 0 &&
        messages->mpi.Comm_rank(messages->comm, &messages->rank) == 0;
    messages->nowners = 1;
    if (has_comm && are_wanted(messages, is_able))
        return made;
    if (has_comm)
        (void)messages->mpi.Comm_free(&messages->comm);
    free(made);
    return NULL;
}

struct vol_messages *
vol_messages_share(struct vol_messages *messages)
{
    if (messages != NULL)
        atomic_fetch_add(&messages->nowners, 1);
    return messages;
}

void
vol_messages_close(struct vol_messages *messages)
{
    int is_over = 0;

    if (messages == NULL || atomic_fetch_sub(&messages->nowners, 1) > 1)
        return;
    if (messages->mpi.Finalized(&is_over) == 0 && is_over == 0)
        (void)messages->mpi.Comm_free(&messages->comm);
    free(messages);
}

int
vol_messages_nprocesses(const struct vol_messages *messages)
{
    return messages->nprocesses;
}

int
vol_messages_rank(const struct vol_messages *messages)
{
    return messages->rank;
}

bool
vol_messages_any(const struct vol_messages *messages, uint8_t mine,
                 uint8_t *any_ret)
{
    const struct mpi *mpi = &messages->mpi;

    return mpi->Allreduce(&mine, any_ret, 1, mpi->byte, mpi->bit_or,
                          messages->comm) == 0;
}

bool
vol_messages_gather(const struct vol_messages *messages, const void *mine,
                    size_t nbytes, void *all_ret)
{
    const struct mpi *mpi = &messages->mpi;

    return mpi->Allgather(mine, (int)nbytes, mpi->byte, all_ret, (int)nbytes,
                          mpi->byte, messages->comm) == 0;
}

bool
vol_messages_exchange(const struct vol_messages *messages,
                      const struct vol_parcels *sent,
                      const struct vol_parcels *received)
{
    const struct mpi *mpi = &messages->mpi;

    return mpi->Alltoallv(sent->data, sent->nbytes, sent->at, mpi->byte,
                          received->data, received->nbytes, received->at,
                          mpi->byte, messages->comm) == 0;
}
