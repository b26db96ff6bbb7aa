"""Asynchronous writes and reads by the connector, under h5py from a wheel whose HDF5
has event sets. h5py does not call the functions for event sets, so ctypes does. The
files are compared with those that are written without them."""
import ctypes
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

import h5py
import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
# The import skips the test where HDF5 lacks connectors. Each HDF5 that has
# connectors also has event sets.
from test_connector import BatchTest  # noqa: E402
from terp_files import ABSOLUTE, FILTER, Stderr  # noqa: E402

WORDS = (ABSOLUTE, 1, 3)
FOREVER = 2 ** 64 - 1
DONE = re.compile(r"connector: asynchronous (write|read) of (\d+) chunks: (\w+)")


def find_library():
    """The libhdf5 of h5py, which the process has loaded."""
    with open("/proc/self/maps") as maps:
        paths = {line.split()[-1] for line in maps if "libhdf5" in line}
    paths = [path for path in sorted(paths) if "libhdf5_hl" not in path]
    return ctypes.CDLL(paths[0])


HDF5 = find_library()
HDF5.H5EScreate.restype = ctypes.c_int64
ID = ctypes.c_int64
PLACE = (b"test_async.py", b"test", ctypes.c_uint(1))


class ErrorInfo(ctypes.Structure):
    """H5ES_err_info_t."""
    _fields_ = [("api_name", ctypes.c_char_p), ("api_args", ctypes.c_char_p),
                ("file", ctypes.c_char_p), ("function", ctypes.c_char_p),
                ("line", ctypes.c_uint), ("number", ctypes.c_uint64),
                ("inserted", ctypes.c_uint64), ("begin", ctypes.c_uint64),
                ("time", ctypes.c_uint64), ("stack", ctypes.c_int64)]


class Events:
    """An event set."""

    def __init__(self):
        self.id = HDF5.H5EScreate()

    def write(self, dataset, values):
        return self.move(HDF5.H5Dwrite_async, dataset, values)

    def read(self, dataset, values):
        return self.move(HDF5.H5Dread_async, dataset, values)

    def move(self, call, dataset, values):
        kind = h5py.h5t.py_create(values.dtype)
        return call(*PLACE, ID(dataset.id.id), ID(kind.id), ID(0), ID(0), ID(0),
                    values.ctypes.data_as(ctypes.c_void_p), ID(self.id))

    def wait(self, timeout=FOREVER):
        """Returns the number of operations in progress, and whether one failed."""
        left, failed = ctypes.c_size_t(), ctypes.c_bool()
        assert HDF5.H5ESwait(ID(self.id), ctypes.c_uint64(timeout),
                             ctypes.byref(left), ctypes.byref(failed)) >= 0
        return left.value, failed.value

    def cancel(self):
        left, failed = ctypes.c_size_t(), ctypes.c_bool()
        assert HDF5.H5EScancel(ID(self.id), ctypes.byref(left),
                               ctypes.byref(failed)) >= 0
        return left.value, failed.value

    def count(self):
        n = ctypes.c_size_t()
        assert HDF5.H5ESget_count(ID(self.id), ctypes.byref(n)) >= 0
        return n.value

    def error(self):
        """The first failed operation, and the number of lines of its error stack."""
        info, n = ErrorInfo(), ctypes.c_size_t()
        assert HDF5.H5ESget_err_info(ID(self.id), ctypes.c_size_t(1),
                                     ctypes.byref(info), ctypes.byref(n)) >= 0
        lines = HDF5.H5Eget_num(ID(info.stack)) if n.value else 0
        if n.value:
            HDF5.H5Eclose_stack(ID(info.stack))
        return info.api_name, lines

    def close(self):
        return HDF5.H5ESclose(ID(self.id))


class Said(Stderr):
    """Collects what the connector says of asynchronous calls."""

    def __enter__(self):
        os.environ["TERP_VERBOSE"] = "1"
        return super().__enter__()

    def __exit__(self, *arguments):
        super().__exit__(*arguments)
        del os.environ["TERP_VERBOSE"]
        self.done = DONE.findall(self.text)


def make(shape, seed, dtype="<f4"):
    field = np.random.default_rng(seed).standard_normal(shape)
    return np.cumsum(field, axis=0).astype(dtype)


def create(file, name, field, chunks=(16, 16, 16), **more):
    return file.create_dataset(name, field.shape, field.dtype, chunks=chunks,
                               compression=FILTER, compression_opts=WORDS, **more)


def read_raw(path):
    with open(path, "rb") as file:
        return file.read()


class AsyncTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.addCleanup(os.environ.pop, "TERP_MAX_MEMORY", None)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write_plainly(self, fields):
        """The chunks as they are stored without asynchronous calls."""
        with h5py.File(self.path("plain.h5"), "w") as file:
            for name, field in fields.items():
                create(file, name, field)[...] = field
            return {name: self.stored(file[name]) for name in fields}

    @staticmethod
    def stored(dataset):
        infos = [dataset.id.get_chunk_info(i)
                 for i in range(dataset.id.get_num_chunks())]
        return sorted((info.chunk_offset,
                       dataset.id.read_direct_chunk(info.chunk_offset)[1])
                      for info in infos)

    def test_values_may_change_once_the_call_returns(self):
        fields = {f"d{i}": make((48, 48, 40), i) for i in range(4)}
        plain = self.write_plainly(fields)
        events = Events()
        with h5py.File(self.path("a.h5"), "w") as file:
            with Said() as said:
                for name, field in fields.items():
                    copy = field.copy()
                    self.assertGreaterEqual(
                        events.write(create(file, name, field), copy), 0)
                    copy[...] = 7
                self.assertEqual(events.count(), len(fields))
                self.assertEqual(events.wait(), (0, False))
            self.assertEqual(events.count(), 0)
            self.assertEqual(said.done,
                             [("write", "27", "success")] * 4)
            for name in fields:
                self.assertEqual(self.stored(file[name]), plain[name])
        self.assertGreaterEqual(events.close(), 0)

    def test_read_before_the_wait_sees_the_values(self):
        events = Events()
        with h5py.File(self.path("a.h5"), "w") as file:
            dataset = create(file, "d", make((64, 64, 64), 0))
            for seed in range(3):
                field = make((64, 64, 64), seed)
                events.write(dataset, field)
                other = h5py.File(self.path("a.h5"), "r+")["d"]
                self.assertLess(np.abs(other[()] - field).max(), 0.1 ** 2)
                self.assertGreater(dataset.id.get_storage_size(), 0)
        self.assertEqual(events.wait(), (0, False))

    def test_last_write_of_a_dataset_stays(self):
        events = Events()
        with h5py.File(self.path("a.h5"), "w") as file:
            dataset = create(file, "d", make((64, 64, 64), 0))
            for seed in range(5):
                events.write(dataset, make((64, 64, 64), seed))
            dataset[3, 3, 3] = 99  # goes down, behind the others
        self.assertEqual(events.wait(), (0, False))
        with h5py.File(self.path("a.h5")) as file:
            read = file["d"][()]
        self.assertAlmostEqual(read[3, 3, 3], 99, 2)
        read[3, 3, 3] = make((64, 64, 64), 4)[3, 3, 3]
        self.assertLess(np.abs(read - make((64, 64, 64), 4)).max(), 0.1 ** 2)

    def test_reads_come_with_the_wait(self):
        field = make((64, 64, 64), 0)
        events = Events()
        with h5py.File(self.path("a.h5"), "w") as file:
            create(file, "d", field)[...] = field
            create(file, "holes", field)[:16] = field[:16]
            expected = file["d"][()], file["holes"][()]
            values = np.zeros_like(field), np.zeros_like(field)
            with Said() as said:
                events.read(file["d"], values[0])
                self.assertEqual(events.count(), 1)
                # HDF5 reads chunks that are not there, and at once.
                events.read(file["holes"], values[1])
                self.assertEqual(events.count(), 1)
                np.testing.assert_array_equal(values[1], expected[1])
                self.assertEqual(events.wait(), (0, False))
            np.testing.assert_array_equal(values[0], expected[0])
            self.assertEqual(said.done,
                             [("read", "64", "success")])

    def test_calls_for_other_datasets_do_not_wait(self):
        field = make((256, 128, 64), 0)
        os.environ["TERP_NUM_THREADS"] = "1"
        self.addCleanup(os.environ.update, TERP_NUM_THREADS="2")
        events = Events()
        with h5py.File(self.path("a.h5"), "w") as file:
            small = file.create_dataset("small", (10,), "f8")
            dataset = create(file, "d", field, (32, 32, 32))
            with Said() as said:
                events.write(dataset, field)
                small[...] = 5
                self.assertEqual(small[3], 5)
                dataset.attrs["units"] = "K"
                file.create_group("group")
                create(file, "other", field)
            self.assertEqual(said.done, [])
            self.assertEqual(events.wait(), (0, False))

    def test_objects_may_be_closed_before_the_wait(self):
        events = Events()
        fields = {f"d{i}": make((48, 48, 48), i) for i in range(20)}
        file = h5py.File(self.path("a.h5"), "w")
        for name, field in fields.items():
            dataset = create(file, name, field)
            events.write(dataset, field)
            self.assertGreaterEqual(HDF5.H5Dclose_async(
                *PLACE, ID(dataset.id.id), ID(events.id)), 0)
        self.assertGreaterEqual(HDF5.H5Fclose_async(
            *PLACE, ID(file.id.id), ID(events.id)), 0)
        self.assertGreater(events.count(), len(fields))
        self.assertEqual(events.wait(), (0, False))
        with h5py.File(self.path("a.h5")) as file:
            for name, field in fields.items():
                self.assertLess(np.abs(file[name][()] - field).max(), 0.1 ** 2)

    def test_file_that_waits_to_be_closed_can_be_made_again(self):
        events = Events()
        field = make((64, 64, 64), 1)
        for seed in range(2):
            file = h5py.File(self.path("a.h5"), "w")
            events.write(create(file, "d", field), field)
            HDF5.H5Fclose_async(*PLACE, ID(file.id.id), ID(events.id))
        self.assertEqual(events.wait(), (0, False))
        with h5py.File(self.path("a.h5")) as file:
            self.assertLess(np.abs(file["d"][()] - field).max(), 0.1 ** 2)

    def test_file_that_is_open_twice_is_closed(self):
        events = Events()
        field = make((64, 64, 64), 1)
        file = h5py.File(self.path("a.h5"), "w")
        for opens_before in True, False:
            dataset = file.require_dataset("d", field.shape, "<f4", chunks=(16, 16, 16),
                                           compression=FILTER,
                                           compression_opts=WORDS)
            if opens_before:
                again = h5py.File(self.path("a.h5"), "r+")
            events.write(dataset, field)
            HDF5.H5Dclose_async(*PLACE, ID(dataset.id.id), ID(events.id))
            HDF5.H5Fclose_async(*PLACE, ID(file.id.id), ID(events.id))
            if not opens_before:
                again = h5py.File(self.path("a.h5"), "r+")
            self.assertEqual(events.wait(), (0, False))
            self.assertLess(np.abs(again["d"][()] - field).max(), 0.1 ** 2)
            file = again
        file.close()
        h5py.File(self.path("a.h5"), "w").close()

    def test_file_that_a_virtual_dataset_has_open_is_closed(self):
        events = Events()
        field = make((64, 64, 64), 1)
        layout = h5py.VirtualLayout(field.shape, "<f4")
        layout[...] = h5py.VirtualSource(self.path("a.h5"), "d", field.shape)
        with h5py.File(self.path("b.h5"), "w") as other:
            virtual = other.create_virtual_dataset("v", layout)
            file = h5py.File(self.path("a.h5"), "w")
            dataset = create(file, "d", field)
            dataset[...] = 0 * field
            file.flush()
            self.assertEqual(virtual[1, 2, 3], 0)  # opens a.h5
            events.write(dataset, field)
            HDF5.H5Dclose_async(*PLACE, ID(dataset.id.id), ID(events.id))
            HDF5.H5Fclose_async(*PLACE, ID(file.id.id), ID(events.id))
            self.assertEqual(events.wait(), (0, False))
            self.assertLess(np.abs(virtual[()] - field).max(), 0.1 ** 2)

    def test_virtual_dataset_sees_earlier_writes(self):
        events = Events()
        field = make((64, 64, 64), 1)
        with h5py.File(self.path("a.h5"), "w") as file:
            for path in "a.h5", "b.h5":
                layout = h5py.VirtualLayout(field.shape, "<f4")
                layout[...] = h5py.VirtualSource(self.path(path), "d", field.shape)
                file.create_virtual_dataset(path, layout)
            with h5py.File(self.path("b.h5"), "w") as other:
                for target in file, other:
                    create(target, "d", field)[...] = 0 * field
                for path, target in ("a.h5", file), ("b.h5", other):
                    events.write(target["d"], field)
                    self.assertLess(np.abs(file[path][()] - field).max(), 0.1 ** 2)
                    events.write(target["d"], field)
                    file[path][...] = -field
                    self.assertLess(np.abs(target["d"][()] + field).max(), 0.1 ** 2)
        self.assertEqual(events.wait(), (0, False))

    def check_on_disk(self, name, chunks):
        raw = read_raw(self.path(name))
        for _, chunk in chunks:
            self.assertTrue(chunk in raw)  # assertIn would print both

    def test_global_flush_writes_mounted_files(self):
        field = make((64, 64, 64), 1)
        chunks = self.write_plainly({"d": field})["d"]
        events = Events()
        for flushes_parent in True, False:
            with h5py.File(self.path("a.h5"), "w") as parent, \
                    h5py.File(self.path("b.h5"), "w") as child:
                parent.create_group("child")
                # Once it is mounted, names in the child start at the parent.
                datasets = [create(file, "d", field) for file in (parent, child)]
                h5py.h5f.mount(parent.id, b"child", child.id)
                events.write(datasets[flushes_parent], field)
                h5py.h5f.flush((child, parent)[flushes_parent].id,
                               h5py.h5f.SCOPE_GLOBAL)
                self.check_on_disk(("a.h5", "b.h5")[flushes_parent], chunks)
                h5py.h5f.unmount(parent.id, b"child")
            self.assertEqual(events.wait(), (0, False))

    def test_flush_of_an_object_writes_its_file(self):
        field = make((64, 64, 64), 1)
        chunks = self.write_plainly({"d": field})["d"]
        events = Events()
        with h5py.File(self.path("a.h5"), "w") as file:
            dataset = create(file, "d", field)
            group = file.create_group("group")
            group.attrs["a"] = 1
            for object_id in dataset.id, group.id, h5py.h5a.open(group.id, b"a"):
                dataset[...] = 0 * field
                file.flush()
                events.write(dataset, field)
                h5py.h5f.flush(object_id, h5py.h5f.SCOPE_LOCAL)
                self.check_on_disk("a.h5", chunks)
        self.assertEqual(events.wait(), (0, False))

    def test_information_on_a_file_comes_from_any_object(self):
        field = make((64, 64, 64), 1)
        events = Events()
        info = ctypes.create_string_buffer(4096)  # more than H5F_info2_t
        with h5py.File(self.path("a.h5"), "w") as file:
            dataset = create(file, "d", field)
            for object_id in file.id, dataset.id, file["/"].id:
                events.write(dataset, field)
                self.assertGreaterEqual(
                    HDF5.H5Fget_info2(ID(object_id.id), info), 0)
        self.assertEqual(events.wait(), (0, False))

    def test_cancelled_write_stores_nothing(self):
        events = Events()
        with h5py.File(self.path("a.h5"), "w") as file:
            datasets = [create(file, f"d{i}", make((64, 64, 64), 0))
                        for i in range(4)]
            for dataset in datasets:
                events.write(dataset, make((64, 64, 64), 0))
            # Later writes complete earlier ones that are encoded.
            ncomplete, failed = events.cancel()
            self.assertFalse(failed)
            self.assertEqual(events.count(), 0)
            nchunks = [dataset.id.get_num_chunks() for dataset in datasets]
            self.assertEqual(nchunks, [64] * ncomplete +
                             [0] * (len(datasets) - ncomplete))
            self.assertEqual(nchunks[-1], 0)

    def test_wait_without_time_tells_what_is_in_progress(self):
        events = Events()
        with h5py.File(self.path("a.h5"), "w") as file:
            field = make((128, 128, 64), 0)
            events.write(create(file, "d", field, (32, 32, 32)), field)
            left, failed = events.wait(0)
            self.assertFalse(failed)
            self.assertEqual(events.close() < 0, left > 0)
            if left > 0:
                end = time.monotonic() + 60
                while left > 0 and time.monotonic() < end:
                    left, failed = events.wait(10 ** 6)
                self.assertEqual((left, failed), (0, False))

    def test_what_cannot_wait_is_written_at_once(self):
        events = Events()
        field = make((64, 64, 64), 0)
        with h5py.File(self.path("a.h5"), "w") as file:
            plain = file.create_dataset("plain", field.shape, "<f4")
            events.write(plain, field)
            events.write(create(file, "converted", field), field.astype("f8"))
            os.environ["TERP_MAX_MEMORY"] = "1500K"
            events.write(create(file, "large", field), field)
            del os.environ["TERP_MAX_MEMORY"]
            self.assertEqual(events.count(), 0)
            np.testing.assert_array_equal(plain[()], field)
            for name in "converted", "large":
                self.assertLess(np.abs(file[name][()] - field).max(), 0.1 ** 2)

    def test_memory_of_copies_is_limited(self):
        events = Events()
        field = make((64, 64, 64), 0)
        os.environ["TERP_MAX_MEMORY"] = "5M"
        with h5py.File(self.path("a.h5"), "w") as file:
            for i in range(6):
                events.write(create(file, f"d{i}", field), field)
                # A copy has 1 MiB; two and their streams fit into 2.5 MiB.
                self.assertIn(events.count(), range(1, 7))
            self.assertEqual(events.wait(), (0, False))
            for i in range(6):
                self.assertLess(np.abs(file[f"d{i}"][()] - field).max(), 0.1 ** 2)

    def run_child(self, code, **environment):
        """Runs Python code that knows this module's names."""
        return subprocess.run(
            [sys.executable, "-c",
             "import sys, os, numpy as np, h5py\n"
             f"sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})\n"
             f"from test_async import *\npath = {self.path('child.h5')!r}\n" + code],
            env={**os.environ, **environment}, capture_output=True, text=True,
            timeout=120)

    def check_child(self, n):
        with h5py.File(self.path("child.h5")) as file:
            for i in range(n):
                self.assertLess(
                    np.abs(file[f"d{i}"][()] - make((64, 64, 64), i)).max(),
                    0.1 ** 2)

    def test_program_that_ends_without_a_wait_loses_nothing(self):
        for end in ("", "HDF5.H5Fclose_async(*PLACE, ID(file.id.id), ID(events.id))",
                    "file.close()"):
            done = self.run_child(
                "events = Events()\n"
                "file = h5py.File(path, 'w')\n"
                "for i in range(3):\n"
                "    field = make((64, 64, 64), i)\n"
                "    events.write(create(file, f'd{i}', field), field)\n" + end)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.check_child(3)

    def test_terp_async_needs_no_change_of_the_program(self):
        done = self.run_child(
            "with h5py.File(path, 'w') as file:\n"
            "    for i in range(4):\n"
            "        field = make((64, 64, 64), i)\n"
            "        create(file, f'd{i}', field)[...] = field\n"
            "        field[...] = 0\n"
            "    file.flush()\n", TERP_ASYNC="1", TERP_VERBOSE="1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(DONE.findall(done.stderr)), 4, done.stderr)
        self.check_child(4)

    FULL_DISK = (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "file = h5py.File(path, 'w')\n"
        "field = np.random.default_rng(0).standard_normal((64, 64, 64))\n"
        "field = field.astype('f4')\n"
        "a = create(file, 'a', field); b = create(file, 'b', field)\n"
        "file.flush()\n"
        "def limit(nbytes):\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, -1))\n"
        "limit(150000)\n")

    def test_full_disk_is_an_error_of_the_event(self):
        done = self.run_child(
            self.FULL_DISK +
            "events = Events()\n"
            "assert events.write(a, field) >= 0\n"
            "left, failed = events.wait()\n"
            "assert failed and left == 0\n"
            "name, lines = events.error()\n"
            "assert name == b'H5Dwrite_async' and lines > 0, (name, lines)\n"
            "assert events.wait() == (0, False)\n"
            "print('good')\nos._exit(0)\n")
        self.assertEqual(done.stdout, "good\n", done.stderr)

    def test_full_disk_is_an_error_of_later_calls(self):
        done = self.run_child(
            self.FULL_DISK +
            "a[...] = field\n"
            "def fails(call):\n"
            "    try:\n"
            "        call()\n"
            "    except (OSError, RuntimeError) as error:\n"
            "        return str(error)\n"
            "assert 'File too large' in fails(lambda: a[0, 0, 0])\n"
            "limit(-1)\n"
            "b[...] = field\n"
            "a[...] = b[...]\n"
            "print(fails(file.close))\n", TERP_ASYNC="1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("an earlier asynchronous write failed", done.stdout)
        self.assertIn("/a: an asynchronous write failed", done.stderr)

    def test_fork_leaves_the_writes_to_the_parent(self):
        done = self.run_child(
            "events = Events()\n"
            "file = h5py.File(path, 'w')\n"
            "for i in range(3):\n"
            "    field = make((64, 64, 64), i)\n"
            "    events.write(create(file, f'd{i}', field), field)\n"
            "time.sleep(0.5)  # everything is encoded\n"
            "child = os.fork()\n"
            "if child == 0:\n"
            "    other = h5py.File(path + '2', 'w')\n"
            "    own = Events()\n"
            "    own.write(create(other, 'd', field), field)\n"
            "    good = own.wait() == (0, False)\n"
            "    good &= abs(other['d'][()] - field).max() < 0.1\n"
            "    good &= file['d2'].id.get_num_chunks() == 0\n"
            "    other.close()\n"
            "    os._exit(0 if good else 1)\n"
            "assert os.waitpid(child, 0)[1] == 0\n"
            "assert events.wait() == (0, False)\n"
            "file.close()\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_child(3)


class RandomTest(BatchTest):
    """Calls of all kinds, while earlier writes are pending."""

    def setUp(self):
        super().setUp()
        for name, value in ("TERP_ASYNC", "1"), ("TEST_NSEEDS", "4"):
            os.environ.setdefault(name, value)
            self.addCleanup(os.environ.pop, name, None)


def load_tests(loader, tests, pattern):
    tests = loader.loadTestsFromTestCase(AsyncTest)
    tests.addTest(RandomTest("test_random_calls_do_what_they_say"))
    return tests


if __name__ == "__main__":
    unittest.main()
