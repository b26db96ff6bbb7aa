#!/usr/bin/env bash
# What compressed messages between MPI processes cost: CSV, for three pipelines.
#   bench/mpi_messages.sh [PROGRAM [FIELD [PROCESSES [ENGINE]]]]
# PROGRAM: mpi_messages, from the build's examples. FIELD: 256^3 float32 values
# in a raw file.
set -euo pipefail
cd "$(dirname "$0")/.."

program=${1:-build/release/examples/mpi_messages}
field=${2:-build/bench-fields/vel_256x256x256.f32}
nprocesses=${3:-2}
engine=${4:-cpu}
# Without these, Open MPI neither runs as root nor starts more processes than
# there are cores.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1

for pipeline in ratio huffman; do
    mpiexec -n "$nprocesses" "$program" "$pipeline" "$engine" 64 "$field" |
        if [ "$pipeline" = ratio ]; then cat; else tail -n +2; fi
done
