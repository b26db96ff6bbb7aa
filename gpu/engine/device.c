/* Chooses the device of a process by TERP_DEVICE or the process's number on its
 * machine. */
#include "gpu/engine/device.h"

#include <limits.h>
#include <stdlib.h>

/* Variables of Open MPI, MVAPICH, Intel MPI and MPICH, MPICH on PMI, HPE's PALS
 * and Slurm. The first that is set counts: launchers precede batch systems,
 * inside which they run. */
static const char *const number_names[] = {"OMPI_COMM_WORLD_LOCAL_RANK",
                                           "MV2_COMM_WORLD_LOCAL_RANK",
                                           "MPI_LOCALRANKID",
                                           "PMI_LOCAL_RANK",
                                           "PALS_LOCAL_RANKID",
                                           "SLURM_LOCALID"};

/* The variable's number; -1 if it is unset or not a number of at least 0. */
static int
read_number(const char *name)
{
    const char *text = getenv(name);
    char *end;

    if (text == NULL || *text < '0' || *text > '9')
        return -1;
    long number = strtol(text, &end, 10);
    return *end == '\0' && number <= INT_MAX ? (int)number : -1;
}

int
cuda_device_choose(int ndevices)
{
    int number = read_number("TERP_DEVICE");

    for (size_t i = 0;
         number < 0 && i < sizeof number_names / sizeof *number_names; i++)
        number = read_number(number_names[i]);
    return number < 0 ? 0 : number % ndevices;
}
