#!/usr/bin/env python3
"""Measures what the GPU gains when MPI processes write one dataset. Prints CSV.

    parallel_write.py PROGRAM [EXTENT [FOLDER [PROCESSES...]]]

PROGRAM: parallel_write of examples/; the environment names the plugin, the CUDA
engine and mpiexec. EXTENT: of the field (512). FOLDER: for the file (/dev/shm).
PROCESSES: numbers of processes (1 4). An untimed run prints to standard error
which device each process used; it fails if the CPU coded a chunk."""
import collections
import csv
import os
import re
import statistics
import subprocess
import sys
import tempfile

CHUNKS = 32, 64, 128
NREPS = 3

# Lets Open MPI run as root, and start more processes than there are cores.
ALLOWED = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
           "OMPI_MCA_rmaps_base_oversubscribe": "1"}
# Puts each process's standard error into a file of its own.
APART = ["sh", "-c", 'exec "$@" 2>"$0/rank_${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"']


def write(command, nprocesses, folder, extent, chunk, **environment):
    """Returns bytes in / bytes stored, and the seconds to write and to read."""
    path = os.path.join(folder, "field.h5")
    result = subprocess.run(
        ["mpiexec", "-n", str(nprocesses), *command, path,
         *map(str, [extent, extent, extent, chunk])],
        capture_output=True, text=True,
        env={**os.environ, **ALLOWED, **environment})
    found = re.search(r"ratio (\S+),.* (\S+) s to write, (\S+) s to read",
                      result.stdout)
    if result.returncode != 0 or found is None:
        sys.exit(f"parallel_write.py: {result.stdout}{result.stderr}")
    return tuple(map(float, found.groups()))


def tell_devices(program, nprocesses, folder, extent, chunk):
    """The number of devices that the processes used."""
    devices = set()
    with tempfile.TemporaryDirectory() as logs:
        write([*APART, logs, program], nprocesses, folder, extent, chunk,
              TERP_ENGINE="cuda", TERP_VERBOSE="1")
        for log in sorted(os.listdir(logs)):
            with open(os.path.join(logs, log)) as file:
                engines = collections.Counter(
                    re.findall(r"engine (.*), threads", file.read()))
            for engine, ncoded in engines.items():
                print(f"{log} of {nprocesses}, chunks of {chunk}^3: {engine} "
                      f"wrote and read {ncoded}", file=sys.stderr)
            devices.update(engines)
    if not all(device.startswith("cuda (") for device in devices):
        sys.exit("parallel_write.py: the CPU has coded")
    return len(devices)


def main():
    program = sys.argv[1]
    extent = int(sys.argv[2]) if len(sys.argv) > 2 else 512
    parent = sys.argv[3] if len(sys.argv) > 3 else "/dev/shm"
    numbers = [int(number) for number in sys.argv[4:]] or [1, 4]
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(["extent", "chunk", "processes", "devices", "ratio",
                    "cpu_write_s", "cuda_write_s", "cpu_read_s", "cuda_read_s",
                    "write_speedup", "read_speedup"])
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        for nprocesses in numbers:
            for chunk in CHUNKS:
                ndevices = tell_devices(program, nprocesses, folder, extent,
                                        chunk)
                runs = [write([program], nprocesses, folder, extent, chunk,
                              TERP_ENGINE=engine)
                        for _ in range(NREPS) for engine in ("cpu", "cuda")]
                (ratio, *cpu), (_, *cuda) = (
                    map(statistics.median, zip(*runs[first::2]))
                    for first in (0, 1))
                table.writerow([
                    extent, chunk, nprocesses, ndevices, ratio, cpu[0], cuda[0],
                    cpu[1], cuda[1], round(cpu[0] / cuda[0], 2),
                    round(cpu[1] / cuda[1], 2)])
                sys.stdout.flush()


if __name__ == "__main__":
    main()
