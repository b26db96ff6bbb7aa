/* Which device a process uses. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* Of `ndevices` the one that TERP_DEVICE names, else the one of this process's
 * rank on its machine (as Open MPI, MPICH, MVAPICH and Slurm tell it), modulo
 * `ndevices`. */
int
cuda_device_choose(int ndevices);

#ifdef __cplusplus
}
#endif
