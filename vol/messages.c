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

/* MPI_BYTE of Fortran in Open MPI. The variable of C may be in two places
 * (a copy relocation), and a function knows which one counts. */
#define FORTRAN_BYTE 1

#define MPI_FUNCTIONS(X)                                                      \
    X(Comm_size, (mpi_handle, int *))                                         \
    X(Comm_rank, (mpi_handle, int *))                                         \
    X(Comm_free, (mpi_handle *))                                              \
    X(Info_free, (mpi_handle *))                                              \
    X(Type_size, (mpi_handle, int *))                                         \
    X(Finalized, (int *))                                                     \
    X(Allgather,                                                              \
      (const void *, int, mpi_handle, void *, int, mpi_handle, mpi_handle))   \
    X(Alltoallv, (const void *, const int *, const int *, mpi_handle, void *, \
                  const int *, const int *, mpi_handle, mpi_handle))

#define DECLARE(name, parameters) int(*name) parameters;

struct mpi {
    MPI_FUNCTIONS(DECLARE)
    mpi_handle (*Type_f2c)(int);
    mpi_handle byte;
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

/* Looks in HDF5 and the libraries that it is linked with, or in the program and
 * its libraries. */
static bool
find_mpi(const struct terp_host *host, struct mpi *mpi)
{
    void *variable;
    int nbytes = 0;

    /* Only Open MPI has this variable. */
    if (host->module == NULL || !find(host->module, "ompi_mpi_byte", &variable))
        return false;
#define FIND(name, parameters)                         \
    if (!find(host->module, "MPI_" #name, &mpi->name)) \
        return false;
    MPI_FUNCTIONS(FIND)
    if (!find(host->module, "MPI_Type_f2c", &mpi->Type_f2c))
        return false;
    mpi->byte = mpi->Type_f2c(FORTRAN_BYTE);
    return mpi->byte != NULL && mpi->Type_size(mpi->byte, &nbytes) == 0 &&
           nbytes == 1;
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

/* Whether the users of all processes let the processes send messages. */
static bool
are_wanted(const struct vol_messages *messages)
{
    enum {
        MESSAGES,
        DISJOINT,
        VALUES
    };
    const char *text = getenv("TERP_MPI_WRITES");
    const uint8_t mine = text == NULL                    ? MESSAGES
                         : strcmp(text, "disjoint") == 0 ? DISJOINT
                         : strcmp(text, "values") == 0   ? VALUES
                                                         : MESSAGES;
    uint8_t *all = malloc((size_t)messages->nprocesses);
    bool any_values = false, any_messages = false;

    const bool good =
        all != NULL && vol_messages_gather(messages, &mine, 1, all);
    for (int i = 0; good && i < messages->nprocesses; i++) {
        any_values |= all[i] == VALUES;
        any_messages |= all[i] == MESSAGES;
    }
    free(all);
    return good && any_messages && !any_values;
}

struct vol_messages *
vol_messages_open(const void *caller, const struct vol_library *library,
                  hid_t fapl)
{
    struct vol_messages *messages = calloc(1, sizeof *messages);
    struct terp_host host;

    if (messages == NULL)
        return NULL;
    messages->nowners = 1;
    terp_host_open(caller, &host);
    const bool has_comm = find_mpi(&host, &messages->mpi) &&
                          get_communicator(&host, library, fapl, messages);
    terp_host_close(&host);
    if (has_comm &&
        messages->mpi.Comm_size(messages->comm, &messages->nprocesses) == 0 &&
        messages->mpi.Comm_rank(messages->comm, &messages->rank) == 0 &&
        are_wanted(messages))
        return messages;
    if (!has_comm)
        free(messages);
    else
        vol_messages_close(messages);
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
