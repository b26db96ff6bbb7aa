#!/usr/bin/env python3
"""Measures how fast MPI processes write and read one dataset. Prints CSV.

    parallel_write.py PROGRAM [--extent N] [--chunk N] [--folder FOLDER]
                      [--processes N...] [--cudart LIBRARY --devices N]
                      [--ways WAY...]

PROGRAM: parallel_write of examples/; the environment names the plugin, the CUDA
engine and mpiexec. Each process writes --extent^3 (512) values. Rows whose
`nz` is the extent share one such field out.

Ways: the filter on the CPU, one thread a process; the filter with the device;
and, if the HDF5 of the program has connectors, terp's connector, also with
TERP_MPI_WRITES=values ("values") and TERP_MPI_WRITES=disjoint ("disjoint", see
doc/vol.md). --ways selects some of filter, values, connector and disjoint; the
CPU is measured with the filter. Other settings, such as OMPI_MCA_fcoll, are
the environment's, and so the same for all ways. With --cudart
(libcudart.so) the values are in device memory for the device's ways, and each
is measured with 1 to --devices GPUs. The filter's times then contain copies to
and from the host, which HDF5 needs.

A time is the median of three steps after a first one, and the slowest
process's. Fails if the CPU codes a chunk where the device should."""
import argparse
import collections
import csv
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

NSTEPS = 4

# Lets Open MPI run as root, and start more processes than there are cores.
ALLOWED = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
           "OMPI_MCA_rmaps_base_oversubscribe": "1"}
CONNECTOR = {"HDF5_VOL_CONNECTOR": "terp", "TERP_VERBOSE": "1"}
# Puts each process's messages into a file of its own, so that they do not mix.
APART = ["sh", "-c", 'exec "$@" 2>"$0/rank_${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"']
STEP = re.compile(r"ratio (\S+),.* (\S+) s to write, (\S+) s to read")
ENGINE = re.compile(r"engine (.*?), threads")
MARKED = re.compile(r"(\d+) chunks were encoded ahead, and.*CUDA")
AHEAD = {
    "values": re.compile(r"(\d+) of \d+ chunks were encoded ahead.*CUDA"),
    "connector": MARKED, "disjoint": MARKED}


def write(args, nprocesses, nz, nsteps, device, **environment):
    """Each step's ratio, seconds to write and to read; and all messages."""
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        command = ["mpiexec", "-n", nprocesses, *APART, folder, args.program,
                   os.path.join(folder, "field.h5"), nz, args.extent,
                   args.extent, args.chunk, nsteps]
        if device and args.cudart:
            command.append(args.cudart)
        done = subprocess.run(list(map(str, command)), capture_output=True,
                              text=True,
                              env={**os.environ, **ALLOWED, **environment})
        said = done.stderr + "".join(
            path.read_text() for path in pathlib.Path(folder).glob("rank_*"))
    steps = [tuple(map(float, step)) for step in STEP.findall(done.stdout)]
    if done.returncode != 0 or len(steps) != nsteps:
        sys.exit(f"parallel_write.py: {command}: {done.stdout[-2000:]}"
                 f"{said[-2000:]}")
    return steps, said


def has_connector(args):
    _, said = write(args, 1, 2 * args.chunk, 1, False, **CONNECTOR)
    return "connector: " in said


def require_devices(args, nprocesses, **environment):
    """Fails unless each visible GPU codes chunks, and the CPU codes none."""
    _, said = write(args, nprocesses, nprocesses * args.chunk, 1, True,
                    TERP_VERBOSE="1", **environment)
    ncoded = collections.Counter(ENGINE.findall(said))
    print(f"{nprocesses} processes:", dict(ncoded), file=sys.stderr)
    ndevices = len(environment["CUDA_VISIBLE_DEVICES"].split(","))
    if len(ncoded) != min(ndevices, nprocesses) or \
            not all(name.startswith("cuda (") for name in ncoded):
        sys.exit("parallel_write.py: not the expected devices")


def require_ahead(nz, args, way, said):
    found = AHEAD[way].findall(said)
    nchunks = -(-nz // args.chunk) * (-(-args.extent // args.chunk)) ** 2
    if sum(map(int, found)) != NSTEPS * nchunks:
        sys.exit(f"parallel_write.py: not all are encoded ahead: {found}")


def measure(args, nprocesses, ndevices, way):
    """Rows of the table. ndevices 0: the CPU."""
    environment = {"TERP_ENGINE": "cuda" if ndevices else "cpu"}
    if ndevices:
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(
            map(str, range(ndevices)))
    if way in AHEAD:
        environment.update(CONNECTOR)
        if way != "connector":
            environment["TERP_MPI_WRITES"] = way
    elif ndevices:
        require_devices(args, nprocesses, **environment)
    layers = [nprocesses * args.extent]
    if way in AHEAD and nprocesses > 1:
        layers.append(args.extent)
    for nz in layers:
        steps, said = write(args, nprocesses, nz, NSTEPS if ndevices else 2,
                            ndevices > 0, **environment)
        if way in AHEAD:
            require_ahead(nz, args, way, said)
        ratio, written, read = map(statistics.median, zip(*steps[1:]))
        gb = 4e-9 * nz * args.extent ** 2
        yield (nz, args.extent, args.chunk, nprocesses, ndevices,
               "device" if ndevices and args.cudart else "host", way, ratio,
               f"{written:.4f}", f"{read:.4f}", f"{gb / written:.2f}",
               f"{gb / read:.2f}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--extent", type=int, default=512)
    parser.add_argument("--chunk", type=int, default=64)
    parser.add_argument("--folder", default="/dev/shm")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--cudart")
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--ways", nargs="+", default=["filter", *AHEAD])
    args = parser.parse_args()
    ways = [way for way in args.ways if way == "filter" or has_connector(args)]
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow("nz ny_nx chunk processes devices memory way ratio write_s "
                   "read_s write_gb_per_s read_gb_per_s".split())
    # The CPU comes last, because it takes longest.
    cases = [(nprocesses, ndevices, way) for nprocesses in args.processes
             for ndevices in range(1, min(nprocesses, args.devices) + 1)
             for way in reversed(ways)]
    cases += [(nprocesses, 0, "filter") for nprocesses in args.processes
              if "filter" in ways]
    for case in cases:
        for row in measure(args, *case):
            table.writerow(row)
            sys.stdout.flush()


if __name__ == "__main__":
    main()
