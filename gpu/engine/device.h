/* Chooses the device of a process. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* The number of the device to use, of `ndevices`: the environment variable
 * TERP_DEVICE, else the number of the process on its machine (from variables of
 * Open MPI, MVAPICH, Intel MPI, MPICH, PALS or Slurm), modulo `ndevices`; else
 * 0. */
int
cuda_device_choose(int ndevices);

#ifdef __cplusplus
}
#endif
