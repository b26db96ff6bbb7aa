"""A dataset that MPI processes write together (examples/parallel_write.c)
equals the one of a single process, with each engine. Messages arrive
(mpi_messages.c). The connector writes the files of the filter (mpi_patterns.c).
TEST_MPIEXEC starts TEST_PARALLEL_WRITE, TEST_MPI_PATTERNS and
TEST_MPI_MESSAGES; TERP_CUDA_LIBRARY has TEST_NDEVICES devices. Values in device
memory: TERP_TEST_CUDART is the CUDA runtime, TEST_DEVICE_ENGINE its engine
(TERP_CUDA_LIBRARY)."""
import collections
import csv
import itertools
import os
import re
import subprocess
import tempfile
import unittest

import h5py
import numpy as np

# For root in a container, and for more processes than cores: Open MPI 4 reads
# OMPI_MCA_rmaps_base_oversubscribe, Open MPI 5 the policy. Other MPIs ignore
# these variables and need no permission.
ALLOWED = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
           "OMPI_MCA_rmaps_base_oversubscribe": "1",
           "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
FILTER = 46117
CHUNK_DIM = 32
NDEVICES = int(os.environ["TEST_NDEVICES"])


def mpiexec(nranks, program, *arguments, **environment):
    return subprocess.run(
        [os.environ["TEST_MPIEXEC"], "-n", str(nranks), os.environ[program],
         *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=60, env={**os.environ, **ALLOWED, **environment})


def pattern_field():
    """The data of mpi_patterns.c, up to rounding of libraries."""
    z, y, x = np.meshgrid(*map(np.arange, (150, 70, 90)), indexing="ij")
    return np.sin(0.1 * z) * np.cos(0.07 * y) + 0.2 * np.sin(0.05 * x + z)


def field(dims):
    """The data of parallel_write.c, up to rounding of libraries."""
    z, y, x = np.meshgrid(*map(np.arange, dims), indexing="ij")
    return (np.sin(0.11 * x + 0.02 * z) * np.cos(0.07 * y) +
            0.3 * np.sin(0.09 * z * np.cos(0.01 * x)))


class ParallelTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def write(self, nranks, dims, *options, **environment):
        path = os.path.join(self.directory, f"{nranks}.h5")
        return path, mpiexec(nranks, "TEST_PARALLEL_WRITE", path, *dims,
                             *options, **environment)

    def stored_chunks(self, path, dims):
        """All chunks by their offset, after the values were compared."""
        want = field(dims)
        with h5py.File(path, "r") as file:
            data = file["field"]
            self.assertIsNotNone(
                data.id.get_create_plist().get_filter_by_id(FILTER))
            bound = 1e-3 * np.ptp(want)
            self.assertLessEqual(np.abs(data[()] - want).max(),
                                 bound + 1e-6 * np.abs(want).max())
            places = [data.id.get_chunk_info(i).chunk_offset
                      for i in range(data.id.get_num_chunks())]
            return {place: data.id.read_direct_chunk(place)
                    for place in places}

    def check(self, dims, nchunks):
        alone = None
        for engine in "cpu", "cuda":
            for nranks in 1, 2, 4:
                path, result = self.write(nranks, dims, TERP_ENGINE=engine)
                self.assertEqual(result.returncode, 0, result.stdout)
                chunks = self.stored_chunks(path, dims)
                self.assertEqual(len(chunks), nchunks)
                alone = alone or chunks
                self.assertEqual(alone, chunks)

    def test_several_processes_write_the_chunks_of_one(self):
        self.check((100, 70, 90), 4 * 3 * 3)

    def test_process_without_values_takes_part(self):
        self.check((40, 33, 5), 2 * 2)

    def test_processes_share_the_devices_out(self):
        nranks = max(4, NDEVICES)
        _, result = self.write(nranks, (CHUNK_DIM * nranks, 40, 20),
                               TERP_ENGINE="cuda", TERP_VERBOSE="1")
        self.assertEqual(result.returncode, 0, result.stdout)
        ncoded = collections.Counter(
            re.findall(r"engine (.*?), threads", result.stdout))
        print(f"\n{nranks} processes: chunks that were written and read by",
              dict(ncoded))
        # Each process writes and reads two chunks, and HDF5 some more at the
        # edge.
        self.assertGreaterEqual(sum(ncoded.values()), 4 * nranks)
        self.assertTrue(all(engine.startswith("cuda (") for engine in ncoded))
        self.assertEqual(len(ncoded), NDEVICES)

    def test_missing_plugin_is_said(self):
        _, result = self.write(2, (40, 33, 5), HDF5_PLUGIN_PATH=self.directory)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("find the terp filter", result.stdout)

    # ---- the connector ----

    def run_pattern(self, nranks, pattern, *options, **environment):
        path = os.path.join(self.directory, f"{pattern}.h5")
        result = mpiexec(nranks, "TEST_MPI_PATTERNS", path, pattern, *options,
                         TERP_VERBOSE="1", **environment)
        self.assertEqual(result.returncode, 0, result.stdout)
        with open(path, "rb") as file:
            return file.read(), result.stdout, path

    def ask_for_connector(self):
        _, said, _ = self.run_pattern(1, "chunks", HDF5_VOL_CONNECTOR="terp")
        if "connector: " not in said:
            self.skipTest("the HDF5 for MPI has no connectors: it is older than "
                          "1.14")

    def test_connector_encodes_ahead_and_writes_the_same_file(self):
        self.ask_for_connector()
        sums = re.compile(r"sum (\d+)")
        ahead = re.compile(r"(\d+) of (\d+) chunks were encoded ahead")
        for pattern in "chunks", "shared", "alone", "again":
            for nranks in 1, 2, 3, 4:
                want, alone, _ = self.run_pattern(nranks, pattern)
                for limit in "", "12M":
                    got, said, _ = self.run_pattern(
                        nranks, pattern, HDF5_VOL_CONNECTOR="terp",
                        TERP_MPI_WRITES="values", TERP_MAX_MEMORY=limit)
                    self.assertEqual(got, want, (pattern, nranks, limit))
                    self.assertEqual(sums.findall(said), sums.findall(alone))
                    if pattern != "shared" or nranks == 1:
                        self.assertTrue("connector: read of " in said,
                                        said[-1000:])
                    found = [(int(a), int(b)) for a, b in ahead.findall(said)]
                    ntaken = sum(a for a, _ in found)
                    if pattern in ("chunks", "alone"):
                        self.assertEqual(ntaken, 10 * 3 * 3)
                    if pattern == "again":
                        # HDF5 keeps what was beyond the dataset's end, and
                        # reads such chunks before it writes them.
                        self.assertGreater(ntaken, 10 * 3 * 3)

    def test_processes_that_read_metadata_together_wait_for_all(self):
        """The first process writes all values, and every process reads some:
        where the connector asks HDF5 for metadata, all processes must ask."""
        self.ask_for_connector()
        sums = re.compile(r"sum (\d+)")
        for nranks in 1, 2, 3:
            want, alone, _ = self.run_pattern(nranks, "together")
            for writes in "", "disjoint", "values":
                got, said, _ = self.run_pattern(
                    nranks, "together", HDF5_VOL_CONNECTOR="terp",
                    TERP_MPI_WRITES=writes)
                self.assertEqual(got, want, (nranks, writes))
                self.assertEqual(sums.findall(said), sums.findall(alone))
                self.assertIn("chunks were encoded ahead", said)

    def test_filter_reads_no_metadata_that_others_do_not_read(self):
        """Only the last process decodes chunks. A request of its filter for the
        dataset's properties would wait for the other processes."""
        for nranks in 2, 3:
            # mpiexec raises an error after its timeout.
            _, alone, _ = self.run_pattern(1, "last")
            _, said, _ = self.run_pattern(nranks, "last")
            self.assertEqual(re.findall(r"sum (\d+)", said),
                             re.findall(r"sum (\d+)", alone))

    def test_values_that_hdf5_converts_are_written(self):
        """HDF5 does not convert values in a collective write: it refuses the
        write of several processes, and changes the order of the chunks."""
        self.ask_for_connector()
        _, _, path = self.run_pattern(1, "double")
        with h5py.File(path) as file:
            want = file["field"][()]
        for nranks in 1, 2, 4:
            for writes in "", "disjoint", "values":
                _, said, path = self.run_pattern(
                    nranks, "double", HDF5_VOL_CONNECTOR="terp",
                    TERP_MPI_WRITES=writes)
                self.assertNotIn("refused", said)
                self.assertIn("chunks were encoded ahead", said)
                with h5py.File(path) as file:
                    np.testing.assert_array_equal(file["field"][()], want)

    def test_marks_stand_for_values(self):
        self.ask_for_connector()
        sums = re.compile(r"sum (\d+)")
        marked = re.compile(r"(\d+) chunks were encoded ahead, and HDF5 gets")
        disjoint = {"HDF5_VOL_CONNECTOR": "terp", "TERP_MPI_WRITES": "disjoint"}
        for pattern in "chunks", "shared", "alone":
            for nranks in 1, 2, 3, 4:
                want, alone, _ = self.run_pattern(nranks, pattern)
                got, said, _ = self.run_pattern(nranks, pattern, **disjoint)
                self.assertEqual(got, want, (pattern, nranks))
                self.assertEqual(sums.findall(said), sums.findall(alone))
                if pattern in ("chunks", "alone"):
                    self.assertEqual(sum(map(int, marked.findall(said))),
                                     10 * 3 * 3)
        # The filter alone keeps what was beyond the dataset's end.
        for nranks in 1, 2, 4:
            want, _, path = self.run_pattern(nranks, "again")
            with h5py.File(path) as file:
                want = file["field"][()]
            _, said, path = self.run_pattern(nranks, "again", **disjoint)
            self.assertEqual(sum(map(int, marked.findall(said))),
                             3 * 10 * 3 * 3)
            with h5py.File(path) as file:
                self.assertLessEqual(np.abs(file["field"][()] - want).max(),
                                     2e-3)

    def chunks_of(self, path):
        with h5py.File(path) as file:
            data = file["field"].id
            places = [data.get_chunk_info(i).chunk_offset
                      for i in range(data.get_num_chunks())]
            return {place: data.read_direct_chunk(place) for place in places}

    def test_processes_tell_each_other_what_they_write(self):
        """Marks stand for the values, and no promise is needed."""
        self.ask_for_connector()
        sums = re.compile(r"sum (\d+)")
        marked = re.compile(r"(\d+) chunks were encoded ahead, and HDF5 gets")
        for pattern in "chunks", "alone", "spaced", "last", "grown", "unfilled":
            for nranks in 1, 2, 3, 4:
                want, alone, _ = self.run_pattern(nranks, pattern)
                for limit in "", "12M":
                    got, said, _ = self.run_pattern(
                        nranks, pattern, HDF5_VOL_CONNECTOR="terp",
                        TERP_MAX_MEMORY=limit)
                    self.assertEqual(got, want, (pattern, nranks, limit))
                    self.assertEqual(sums.findall(said), sums.findall(alone))
                    if not limit or pattern != "spaced":
                        self.assertEqual(sum(map(int, marked.findall(said))),
                                         10 * 3 * 3, (pattern, nranks, limit))

    def test_processes_exchange_parts_of_chunks(self):
        self.ask_for_connector()
        marked = re.compile(r"(\d+) chunks were encoded ahead, and HDF5 gets")
        _, said, path = self.run_pattern(1, "chunks")
        want, sums = self.chunks_of(path), re.findall(r"sum (\d+)", said)
        # Blocks of layers, of parts of layers, also of doubles and of values
        # with gaps in memory.
        for pattern in ("shared", "blocks", "blocks+double", "shared+spaced",
                        "shared+idle+double+spaced"):
            for nranks in 2, 3, 4:
                _, said, path = self.run_pattern(nranks, pattern,
                                                 HDF5_VOL_CONNECTOR="terp")
                self.assertNotIn("refused", said)
                self.assertEqual(self.chunks_of(path), want, (pattern, nranks))
                self.assertEqual(re.findall(r"sum (\d+)", said), sums)
                self.assertTrue("parts of chunks were exchanged" in said or
                                (nranks == 2 and "idle" in pattern))
                self.assertEqual(sum(map(int, marked.findall(said))),
                                 10 * 3 * 3)

    def test_every_combination_of_shares_types_and_memory(self):
        """Also by event sets, which have no asynchronous transfer through MPI:
        a process that waits would wait for the calls of others."""
        self.ask_for_connector()
        _, said, path = self.run_pattern(1, "chunks")
        want, sums = self.chunks_of(path), re.findall(r"sum (\d+)", said)
        combinations = itertools.product(
            ("shared", "blocks", "idle", "shared+idle", "alone", "last"),
            ("", "+double"), ("", "+spaced"), ("", "values"))
        for shares, wide, spaced, writes in combinations:
            pattern = shares + wide + spaced
            events = {"TEST_EVENTS": "1"} if wide and not spaced else {}
            _, said, path = self.run_pattern(3, pattern, **events,
                                             HDF5_VOL_CONNECTOR="terp",
                                             TERP_MPI_WRITES=writes)
            self.assertNotIn("refused", said, (pattern, writes))
            self.assertEqual(self.chunks_of(path), want, (pattern, writes))
            self.assertEqual(re.findall(r"sum (\d+)", said), sums)
            self.assertEqual(re.findall(r"pending (\d+)", said),
                             ["0"] * 6 if "TEST_EVENTS" in events else [])

    def test_parts_of_chunks_that_hdf5_must_exchange(self):
        """Without memory for an exchange, where parts do not fill a chunk, and
        where chunks are written again; here also the file is the filter's."""
        self.ask_for_connector()
        for pattern, limit in (("shared", "1M"), ("gap", ""),
                               ("shared+again", ""), ("repeated", "")):
            for nranks in 1, 2, 3, 4:
                want, alone, _ = self.run_pattern(nranks, pattern)
                got, said, _ = self.run_pattern(
                    nranks, pattern, HDF5_VOL_CONNECTOR="terp",
                    TERP_MAX_MEMORY=limit)
                self.assertEqual(got, want, (pattern, nranks))
                self.assertEqual(re.findall(r"sum (\d+)", said),
                                 re.findall(r"sum (\d+)", alone))

    # HDF5 then writes through its cache of chunks, which it does for a single
    # process only.
    def test_marks_that_do_not_go_collectively_are_replaced(self):
        self.ask_for_connector()
        sums = re.compile(r"sum (\d+)")
        for pattern in "chunks", "again":
            _, alone, path = self.run_pattern(1, pattern)
            with h5py.File(path) as file:
                want = file["field"][()]
            _, said, path = self.run_pattern(
                1, pattern, HDF5_VOL_CONNECTOR="terp", HDF5_MPI_OPT_TYPES="0",
                TERP_MPI_WRITES="disjoint")
            self.assertNotIn("refused", said)
            with h5py.File(path) as file:
                self.assertLessEqual(np.abs(file["field"][()] - want).max(),
                                     2e-3)
            if pattern == "chunks":
                self.assertEqual(sums.findall(said), sums.findall(alone))

    def test_hdf5_gets_new_memory_for_marks(self):
        """glibc would clear the 40 buffers that HDF5 takes for marks: encoding
        frees larger memory, after which it maps none of them."""
        self.ask_for_connector()
        nmapped = []
        for setting in {}, {"MALLOC_MMAP_THRESHOLD_": str(1 << 24)}:
            _, said, _ = self.run_pattern(1, "large",
                                          HDF5_VOL_CONNECTOR="terp", **setting)
            self.assertIn("40 chunks were encoded ahead, and HDF5 gets", said)
            nmapped += map(int, re.findall(r"max mmap regions = +(\d+)", said))
        if not nmapped:
            self.skipTest("another C library")
        self.assertGreaterEqual(nmapped[0], 30)
        # The user's own limit counts.
        self.assertLess(nmapped[1], 20)

    def test_marks_of_the_same_chunk_are_an_error(self):
        self.ask_for_connector()
        disjoint = {"HDF5_VOL_CONNECTOR": "terp", "TERP_MPI_WRITES": "disjoint"}
        for nranks in 2, 3:
            _, said, _ = self.run_pattern(nranks, "repeated",
                                          HDF5_VOL_CONNECTOR="terp")
            self.assertNotIn("refused", said)
            _, said, _ = self.run_pattern(nranks, "repeated", **disjoint)
            self.assertIn("refused", said)
            self.assertIn("in spite of TERP_MPI_WRITES=disjoint", said)

    # Growing datasets, chunks without fill values, calls of two datasets, and
    # memory with gaps; and TERP_ASYNC, which changes nothing through MPI.
    def test_connector_writes_the_same_file_in_other_patterns(self):
        self.ask_for_connector()
        sums = re.compile(r"sum (\d+)")
        for pattern in "grown", "unfilled", "pair", "spaced", "shared":
            for nranks in 1, 3:
                want, alone, _ = self.run_pattern(nranks, pattern)
                for how in ({}, {"TERP_ASYNC": "1"},
                            {"TERP_MPI_WRITES": "values"},
                            {"TERP_MPI_WRITES": "disjoint"}):
                    got, said, _ = self.run_pattern(
                        nranks, pattern, HDF5_VOL_CONNECTOR="terp", **how)
                    self.assertEqual(got, want, (pattern, nranks, how))
                    self.assertEqual(sums.findall(said), sums.findall(alone))
                    if pattern in ("grown", "unfilled", "pair"):
                        self.assertIn("chunks were encoded ahead", said)

    # ---- faults ----

    def outcomes(self, pattern, nranks, **environment):
        """What a fault does without the connector, with it, and with each
        TERP_MPI_WRITES: the exit status, how many processes were refused, and the sum of the values.
        /before, which was flushed before the fault, must be whole."""
        self.ask_for_connector()
        for connector in ({}, {"HDF5_VOL_CONNECTOR": "terp"},
                          {"HDF5_VOL_CONNECTOR": "terp",
                           "TERP_MPI_WRITES": "values"},
                          {"HDF5_VOL_CONNECTOR": "terp",
                           "TERP_MPI_WRITES": "disjoint"}):
            path = os.path.join(self.directory, "fault.h5")
            # mpiexec raises an error after its timeout.
            result = mpiexec(nranks, "TEST_MPI_PATTERNS", path, pattern,
                             **connector, **environment)
            with h5py.File(path, "r") as file:
                error = np.abs(file["before"][()] - pattern_field()).max()
            self.assertLessEqual(error, 1e-3 + 1e-6)
            yield (result.returncode, result.stdout.count("refused"),
                   re.findall(r"sum (\d+)", result.stdout))

    def test_process_that_cannot_encode_stores_values_as_they_are(self):
        for pattern in "poor", "poor+shared":
            for nranks in 1, 2, 3:
                alone, *through = self.outcomes(pattern, nranks)
                self.assertEqual(through, [alone] * 3)
                self.assertEqual((alone[0], alone[1], len(alone[2])), (0, 0, 1))

    def starve(self, nranks, pattern):
        """How many writes and allocations there were. The values are right."""
        # mpiexec raises an error after its timeout.
        _, said, path = self.run_pattern(nranks, pattern, "none",
                                         HDF5_VOL_CONNECTOR="terp")
        found = re.search(r"(\d+) refused, (\d+) allocations", said)
        self.assertEqual(found[1], "0", (pattern, nranks))
        with h5py.File(path) as file:
            names = [name for name in file if name.startswith("starved")]
            want = file["field"][()]
            for name in names:
                error = np.abs(file[name][()] - want).max()
                self.assertLessEqual(error, 2e-3, name)
        return len(names), int(found[2])

    def test_process_without_memory_lets_none_wait(self):
        """Each allocation of terp's fails in turn in the last process; all
        processes write and read on."""
        self.ask_for_connector()
        for pattern in "", "+shared", "+double+spaced":
            nwrites, nallocations = self.starve(2, "starved" + pattern)
            if nallocations == 0:
                self.skipTest("another C library")
            self.assertGreater(nwrites, 20)
        self.starve(3, "starved+idle")

    def test_full_disk_is_told_as_without_the_connector(self):
        for pattern, nranks in (("full", 1), ("full", 2), ("full+shared", 2)):
            alone, *through = self.outcomes(pattern, nranks)
            self.assertEqual(through, [alone] * 3)
            # Open MPI 4.1 does not tell HDF5 1.14 of the full disk.
            self.assertNotEqual(alone[:2], (0, 0))

    def test_killed_process_ends_all_and_leaves_what_was_flushed(self):
        for pattern, delay in (("killed", 0), ("killed", 300), ("killed", 3000),
                               ("killed", 30000), ("killed+shared", 0),
                               ("killed+shared", 1000)):
            for status, nrefused, sums in self.outcomes(
                    pattern, 3, TEST_KILL_US=str(delay)):
                self.assertNotEqual(status, 0)
                self.assertEqual((nrefused, sums), (0, []))

    # ---- devices ----

    def ask_for_device(self):
        """The CUDA runtime, and the environment for values in its memory."""
        self.ask_for_connector()
        if "TERP_TEST_CUDART" not in os.environ:
            self.skipTest("no CUDA runtime, real or emulated")
        engine = os.environ.get("TEST_DEVICE_ENGINE",
                                os.environ["TERP_CUDA_LIBRARY"])
        return os.environ["TERP_TEST_CUDART"], {
            "HDF5_VOL_CONNECTOR": "terp", "TERP_ENGINE": "cuda",
            "TERP_CUDA_LIBRARY": engine}

    def test_values_on_the_device_make_the_file_of_the_host(self):
        runtime, device = self.ask_for_device()
        sums = re.compile(r"sum (\d+)")
        ahead = re.compile(r"(\d+) (?:of \d+ )?chunks were encoded ahead.*CUDA")
        for pattern, numbers in (("chunks", (1, 4)), ("shared", (2,)),
                                 ("alone", (2,)), ("shared+idle", (3,))):
            for nranks in numbers:
                want, alone, _ = self.run_pattern(nranks, pattern, "none")
                for writes in "values", "", "disjoint":
                    got, said, _ = self.run_pattern(
                        nranks, pattern, runtime, TERP_MPI_WRITES=writes,
                        **device)
                    self.assertEqual(got, want, (pattern, nranks, writes))
                    self.assertEqual(sums.findall(said), sums.findall(alone))
                    ntaken = sum(map(int, ahead.findall(said)))
                    if pattern in ("chunks", "alone"):
                        self.assertEqual(ntaken, 5 * 2 * 2)

    def test_processes_on_devices_write_the_chunks_of_one(self):
        runtime, device = self.ask_for_device()
        dims = 3 * CHUNK_DIM, 40, 36
        path, _ = self.write(1, dims, TERP_ENGINE="cpu")
        alone = self.stored_chunks(path, dims)
        for nranks in 2, 4:
            path, result = self.write(nranks, dims, CHUNK_DIM, 1, runtime,
                                      **device)
            self.assertEqual(result.returncode, 0, result.stdout)
            self.assertEqual(self.stored_chunks(path, dims), alone)

    def test_rules_apply_where_the_user_says_collective(self):
        self.ask_for_connector()
        rules = {"HDF5_VOL_CONNECTOR": "terp",
                 "TERP_RULES": "field=abs:1e-3,chunk:16x32x32"}
        want, _, _ = self.run_pattern(2, "chunks")
        _, said, path = self.run_pattern(2, "plain", **rules)
        self.assertIn("TERP_RULES_MPI=collective", said)
        with h5py.File(path) as file:
            self.assertIsNone(file["field"].chunks)
        got, _, path = self.run_pattern(2, "plain", **rules,
                                        TERP_RULES_MPI="collective")
        self.assertLess(len(got), len(want) * 1.1)
        with h5py.File(path) as file:
            self.assertEqual(file["field"].chunks, (16, 32, 32))

    # A program with filters already writes collectively.
    def test_rules_replace_filters_of_the_program(self):
        self.ask_for_connector()
        _, said, path = self.run_pattern(
            2, "deflated", HDF5_VOL_CONNECTOR="terp",
            TERP_RULES="*=abs:1e-3,replace-filters")
        self.assertIn("45 chunks were encoded ahead", said)
        with h5py.File(path) as file:
            self.assertEqual(list(file["field"]._filters), [str(FILTER)])
            error = np.abs(file["field"][()] - pattern_field()).max()
        self.assertLessEqual(error, 1e-3 + 1e-6)

    def test_refused_write_names_the_remedy(self):
        self.ask_for_connector()
        _, said, _ = self.run_pattern(
            2, "independent", HDF5_VOL_CONNECTOR="terp",
            TERP_RULES="*=abs:1e-3", TERP_RULES_MPI="collective")
        self.assertIn("refused", said)
        self.assertIn("/field: HDF5 refuses independent writes through MPI",
                      said)

    # The program itself fails if a bound does not hold.
    def test_messages_arrive_smaller(self):
        result = mpiexec(3, "TEST_MPI_MESSAGES", "huffman", "cpu", 2)
        self.assertEqual(result.returncode, 0, result.stdout)
        # MPI may have printed something before.
        table = result.stdout[result.stdout.index("operation,"):]
        rows = list(csv.DictReader(table.splitlines()))
        self.assertEqual([(row["operation"], row["message_mib"])
                          for row in rows],
                         [(operation, size) for size in ("1", "2")
                          for operation in ("ring", "scatter")])
        for row in rows:
            self.assertEqual(row["processes"], "3")
            self.assertGreater(float(row["ratio"]), 2)
            self.assertGreater(float(row["pays_below_gb_s"]), 0)


if __name__ == "__main__":
    unittest.main()
