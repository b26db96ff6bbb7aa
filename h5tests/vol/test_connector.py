"""The connector under h5py from a wheel whose HDF5 supports connectors. Only
environment variables name it: HDF5_VOL_CONNECTOR and HDF5_PLUGIN_PATH."""
import ctypes
import hashlib
import multiprocessing
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import h5py
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                os.pardir, "hosts"))
from terp_files import (  # noqa: E402
    ABSOLUTE, FILTER, RELATIVE, Stderr, check, damage, replace_words, smooth,
    terp_words, write_short_chunk)

LOSSLESS = (ABSOLUTE, 0, 0)
FAST_LOSSLESS = (ABSOLUTE + 4096, 0, 0)
BATCH = re.compile(r"connector: (write|read) of (\d+) chunks at once.*success")
COARSE = re.compile(r"connector: read of every (\d+)th value.*success")
PASSED = re.compile(r"connector: HDF5 (writes|reads) it: (.*) \[")

if not h5py.version.hdf5_version_tuple >= (1, 14):
    print("skipped: HDF5", h5py.version.hdf5_version, "has no connectors")
    sys.exit(77)


class Said(Stderr):
    """Collects what the connector prints inside a with statement."""

    def __enter__(self):
        os.environ["TERP_VERBOSE"] = "1"
        return super().__enter__()

    def __exit__(self, *arguments):
        super().__exit__(*arguments)
        del os.environ["TERP_VERBOSE"]
        self.batches = [(kind, int(n)) for kind, n in BATCH.findall(self.text)]
        self.passed = [reason for _, reason in PASSED.findall(self.text)]


def stored(dataset):
    """The offsets and stored bytes of all chunks."""
    infos = [dataset.id.get_chunk_info(i)
             for i in range(dataset.id.get_num_chunks())]
    return sorted((info.chunk_offset, info.filter_mask,
                   dataset.id.read_direct_chunk(info.chunk_offset)[1])
                  for info in infos)


def digest_of(path, shape, dtype, chunks, fill):
    """Writes a dataset. Returns what is stored and what is read."""
    field = np.cumsum(np.random.default_rng(3).standard_normal(shape), axis=0)
    digest = hashlib.sha256()
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset(
            "d", shape, dtype, chunks=chunks, fillvalue=fill,
            compression=FILTER, compression_opts=(RELATIVE, 1, 3))
        half = shape[0] // 2 // chunks[0] * chunks[0]
        dataset[:half] = field[:half].astype(dtype)
        if fill is None:
            dataset[half:] = field[half:].astype(dtype)
        digest.update(repr(stored(dataset)).encode())
    with h5py.File(path) as file:
        digest.update(file["d"][()].tobytes())
    return digest.hexdigest()


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "file.h5")

    def create(self, field, words=(RELATIVE, 1, 3), chunks=(16, 16, 16), **more):
        file = h5py.File(self.path, "w")
        self.addCleanup(file.close)
        return file.create_dataset("d", field.shape, field.dtype, chunks=chunks,
                                   compression=FILTER, compression_opts=words,
                                   **more)


class BatchTest(Files):
    def test_stored_chunks_are_those_of_the_filter(self):
        without = dict(os.environ)
        del without["HDF5_VOL_CONNECTOR"]
        for dtype in "<f4", ">f4", "<f8", ">f8":
            for shape, chunks, fill in (
                    ((64, 48, 32), (16, 16, 16), None),
                    ((70, 45, 33), (16, 16, 16), None),
                    ((70, 45, 33), (16, 16, 16), 7.0),
                    ((100000,), (4096,), None),
                    ((40, 9, 50, 11), (10, 9, 25, 5), -1.0)):
                case = self.path, shape, dtype, chunks, fill
                with Said() as said:
                    mine = digest_of(*case)
                self.assertIn("write", dict(said.batches))
                self.assertIn("read", dict(said.batches))
                plain = subprocess.run(
                    [sys.executable, __file__, repr(case)], env=without,
                    check=True, capture_output=True, text=True).stdout.strip()
                self.assertEqual(mine, plain, case)

    def test_numbers_of_every_type_go_in_batches(self):
        field = np.cumsum(np.random.default_rng(3).standard_normal((40, 45, 33)),
                          axis=0)
        for dtype in ("i1", "<u2", ">i2", "<i4", ">u4", "<u8", "<f2", ">f2",
                      "<c8", ">c16", np.bool_):
            values = (field * 20).astype(dtype)
            stored_by = []
            for name in "batches", "one by one":
                with h5py.File(self.path, "w") as file, Said() as said:
                    dataset = file.create_dataset(
                        "d", values.shape, dtype, chunks=(16, 16, 16),
                        compression=FILTER, compression_opts=(ABSOLUTE, 0, 0))
                    if name == "batches":
                        dataset[...] = values
                    else:
                        for at in dataset.iter_chunks():
                            dataset[at] = values[at]
                    stored_by.append(stored(dataset))
                if name == "batches":
                    self.assertEqual(said.batches, [("write", 27)],
                                     (dtype, said.text))
                with h5py.File(self.path) as file, Said() as said:
                    got = file["d"][()]
                np.testing.assert_array_equal(got, values)
                self.assertEqual(said.batches, [("read", 27)], dtype)
            self.assertEqual(*stored_by)

    def test_whole_chunks_of_other_boxes_go_in_batches(self):
        field = smooth((64, 64, 64), "f4")
        dataset = self.create(field, LOSSLESS)
        dataset[...] = -field
        for where, nchunks in (
                (np.s_[1:], 48), (np.s_[:, :40], 32), (np.s_[:63, 5:, 7:40], 9),
                (np.s_[5], 0), (np.s_[:16, :16, :16], 0), (np.s_[3:40, :20], 4)):
            with self.subTest(where=where), Said() as said:
                dataset[where] = field[where]
                np.testing.assert_array_equal(dataset[where], field[where])
            self.assertEqual(said.batches, [("write", nchunks),
                                            ("read", nchunks)] * (nchunks > 0))
        want = -field
        for where in (np.s_[1:], np.s_[:, :40]):
            want[where] = field[where]
        np.testing.assert_array_equal(dataset[()], want)
        with Said() as said:
            dataset[::2] = field[::2]
            np.testing.assert_array_equal(dataset[::2], field[::2])
        self.assertEqual(said.batches, [])
        dataset[...] = field
        with Said() as said:
            np.testing.assert_array_equal(dataset[()].astype("f8"),
                                          dataset.astype("f8")[()])
            np.testing.assert_array_equal(dataset[dataset[()] > 0.5],
                                          field[field > 0.5])
        self.assertIn("the type in memory is not the dataset's", said.passed)

    def test_selections_that_are_moved_stay_where_they_are(self):
        field = smooth((100000,), "f4")
        dataset = self.create(field, LOSSLESS, chunks=(1000,))
        dataset[...] = field
        n = 40000
        for stride in 1, 4:
            space = dataset.id.get_space()
            space.select_hyperslab((0,), (n // stride,), (stride,))
            space.offset_simple((500,))
            memory = h5py.h5s.create_simple((n // stride,))
            where = np.s_[500:500 + n:stride]
            got = np.zeros(n // stride, "f4")
            with Said() as said:
                dataset.id.read(memory, space, got)
            np.testing.assert_array_equal(got, field[where])
            self.assertEqual(said.batches, [("read", 39)] * (stride == 1))
            field[where] = -field[where]
            dataset.id.write(memory, space, np.ascontiguousarray(field[where]))
            np.testing.assert_array_equal(dataset[()], field)

    def test_boxes_in_memory_go_in_batches(self):
        field = smooth((64, 64, 64), "f4")
        dataset = self.create(field, LOSSLESS)
        for shape, box in (
                ((70, 68, 66), np.s_[2:66, 4:, 1:65]),  # ghost cells
                ((64, 64, 70), np.s_[:, :, 3:67]),
                ((100, 64, 64), np.s_[20:84]),
                ((3, 64, 66, 64), np.s_[1, :, 1:65]),  # one of three fields
                ((64, 2, 64, 64), np.s_[:, 1])):
            with self.subTest(shape=shape), Said() as said:
                memory = np.full(shape, 7, "f4")
                memory[box] = field
                dataset.write_direct(memory, box, np.s_[...])
                np.testing.assert_array_equal(dataset[()], field)
                expected = np.full(shape, -7, "f4")
                expected[box] = field
                memory[...] = -7
                dataset.read_direct(memory, np.s_[...], box)
                np.testing.assert_array_equal(memory, expected)
            self.assertEqual(said.batches, [("write", 64), ("read", 64),
                                            ("read", 64)])

    def test_part_of_a_dataset_is_a_box_in_memory(self):
        field = smooth((64, 64, 64), "f4")
        dataset = self.create(field, LOSSLESS)
        dataset[...] = field
        memory = np.zeros((40, 80, 33), "f4")
        with Said() as said:
            dataset.read_direct(memory, np.s_[16:48, :, 32:],
                                np.s_[8:, 8:72, 1:])
        np.testing.assert_array_equal(memory[8:, 8:72, 1:],
                                      field[16:48, :, 32:])
        memory[8:, 8:72, 1:] = 0
        self.assertFalse(memory.any())
        self.assertEqual(said.batches, [("read", 16)])

    def test_other_shapes_in_memory_are_copied(self):
        field = smooth((64, 64, 64), "f4")
        dataset = self.create(field, LOSSLESS)
        for shape, box in (((64, 64, 64, 3), np.s_[..., 1]),
                           ((64, 64, 128), np.s_[:, :, ::2])):
            memory = np.full(shape, 7, "f4")
            memory[box] = field
            with self.subTest(shape=shape), Said() as said:
                dataset.write_direct(memory, box, np.s_[...])
            self.assertEqual(said.batches, [("write", 64)])
            np.testing.assert_array_equal(dataset[()], field)
        memory = np.full((128, 32, 66), 7, "f4")
        memory[:, :, 1:65] = -field.reshape(128, 32, 64)
        space = h5py.h5s.create_simple(memory.shape)
        space.select_hyperslab((0, 0, 1), (128, 32, 64))
        with Said() as said:
            dataset.id.write(space, dataset.id.get_space(), memory)
        self.assertEqual(said.batches, [("write", 64)])
        np.testing.assert_array_equal(dataset[()], -field)

    def test_other_types_in_memory_are_converted(self):
        field = smooth((64, 64, 64), "f8") * 100
        for dtype, given in (("f4", field), (">f4", field.astype("f4")),
                             ("i2", field), ("f2", field.astype("f4")),
                             ("f8", field.astype("i4"))):
            paths = []
            for n, shape in ((64, (64, 64, 64)), (0, (16, 16, 16))):
                with self.subTest(dtype=dtype, n=n), Said() as said, h5py.File(
                        f"{self.path}{n}", "w") as file:
                    dataset = file.create_dataset(
                        "d", field.shape, dtype, chunks=(16, 16, 16),
                        compression=FILTER, compression_opts=LOSSLESS)
                    space = dataset.id.get_space()
                    for at in np.ndindex(*(64 // np.array(shape))):
                        start = np.multiply(at, shape)
                        values = np.ascontiguousarray(
                            given[tuple(slice(b, b + c) for b, c in
                                        zip(start, shape))])
                        space.select_hyperslab(tuple(map(int, start)), shape)
                        dataset.id.write(h5py.h5s.create_simple(shape), space,
                                         values)
                    paths.append((stored(dataset), dataset[()].tobytes()))
                self.assertEqual(said.batches[:-1], [("write", n)] * (n > 0))
            self.assertEqual(*paths)

    def test_random_calls_do_what_they_say(self):
        nseeds = int(os.environ.get("TEST_NSEEDS", "12"))
        nbatches = 0
        for seed in range(nseeds):
            with self.subTest(seed=seed):
                nbatches += self.run_calls(random.Random(seed))
        self.assertGreater(nbatches, 5 * nseeds)

    def run_calls(self, rng):
        """Writes, reads and changes a dataset and an array in the same way."""
        values = np.random.default_rng(rng.randrange(1 << 30))
        rank = rng.choice((1, 2, 3))
        chunks = tuple(rng.choice({1: (9000, 16384), 2: (100, 128),
                                   3: (24, 32)}[rank]) for _ in range(rank))
        shape = tuple(rng.randrange(2, 7) * c + rng.choice((0, 0, 3))
                      for c in chunks)
        model = np.full(shape, 2.5, rng.choice(("<f4", ">f4", "<f8", ">f8")))
        file = h5py.File(self.path, "w", libver=rng.choice(("earliest",
                                                            "latest")))
        dataset = file.create_dataset(
            "d", data=None, shape=shape, dtype=model.dtype, chunks=chunks,
            maxshape=(None,) * rank, compression=FILTER, fillvalue=2.5,
            compression_opts=LOSSLESS)
        with Said() as said:
            for _ in range(40):
                file, dataset, model = self.call(rng, values, file, dataset,
                                                 model)
        file.close()
        with h5py.File(self.path) as file:
            np.testing.assert_array_equal(file["d"][()], model)
        return len(said.batches)

    def box(self, rng, shape, chunks):
        """A random box, often of whole chunks."""
        where = []
        for size, chunk in zip(shape, chunks):
            unit = 1 if rng.random() < 0.1 else chunk
            n = -(-size // unit)
            begin = rng.randrange(n)
            end = rng.choice((rng.randrange(begin, n) + 1, n))
            where.append(slice(begin * unit, min(end * unit, size)))
        return tuple(where)

    def call(self, rng, values, file, dataset, model):
        where = self.box(rng, model.shape, dataset.chunks)
        action = rng.choice(("write",) * 5 + ("read",) * 5 + (
            "all", "convert", "points", "resize", "flush", "reopen", "second",
            "one", "steps", "steps") + ("ghosts",) * 3)
        if action == "write":
            model[where] = values.standard_normal(model[where].shape)
            dataset[where] = model[where]
        elif action == "read":
            np.testing.assert_array_equal(dataset[where], model[where])
        elif action == "all":
            np.testing.assert_array_equal(dataset[()], model)
        elif action == "convert":
            whole = values.integers(-99, 99, model[where].shape)
            dataset[where] = model[where] = whole
        elif action == "points":
            flat = np.unique(values.integers(0, model.shape[0], 5))
            np.testing.assert_array_equal(dataset[flat.tolist()], model[flat])
        elif action == "resize":
            shape = tuple(max(1, s + rng.choice((-3, 0, 5))) for s in model.shape)
            dataset.resize(shape)
            new = np.full(shape, 2.5, model.dtype)
            kept = tuple(slice(min(a, b)) for a, b in zip(shape, model.shape))
            new[kept] = model[kept]
            model = new
        elif action == "flush":
            file.flush()
        elif action == "reopen":
            file.close()
            file = h5py.File(self.path, "r+")
            dataset = file["d"]
        elif action == "second":
            with h5py.File(self.path, "r+") as other:
                model[where] = values.standard_normal(model[where].shape)
                other["d"][where] = model[where]
        elif action == "steps":
            steps = tuple(slice(rng.choice((0, 0, 4, 8, 1)), None,
                                rng.choice((1, 2, 4, 4, 8, 16, 3)))
                          for _ in model.shape)
            np.testing.assert_array_equal(dataset[steps], model[steps])
        elif action == "ghosts":
            inside = tuple(slice(rng.randrange(3), None) for _ in model.shape)
            inside = tuple(slice(i.start, i.start + n) for i, n in
                           zip(inside, model[where].shape))
            shape = tuple(i.stop + rng.randrange(3) for i in inside)
            memory = values.standard_normal(shape).astype(model.dtype)
            if rng.random() < 0.5:
                dataset.write_direct(memory, inside, where)
                model[where] = memory[inside]
            else:
                expected = memory.copy()
                expected[inside] = model[where]
                dataset.read_direct(memory, where, inside)
                np.testing.assert_array_equal(memory, expected)
        elif action == "one":
            at = tuple(rng.randrange(s) for s in model.shape)
            dataset[at] = model[at] = rng.random()
        return file, dataset, model

    def test_steps_of_powers_of_two_decode_coarse_levels(self):
        field = smooth((70, 64, 80), "f4")
        dataset = self.create(field, (RELATIVE, 1, 3), chunks=(32, 32, 40))
        dataset[...] = field
        values = dataset[()]
        for where, step in ((np.s_[::4, ::4, ::4], 4), (np.s_[::2, ::2, ::2], 2),
                            (np.s_[::64, ::32, ::40], 8),
                            (np.s_[8::8, 16:60:16, ::8], 8),
                            (np.s_[::4, ::8, 0:5:4], 4), (np.s_[::4, ::8, 36:45:4], 4),
                            (np.s_[::6, ::2, ::4], 2)):
            with Said() as said:
                got = dataset[where]
            np.testing.assert_array_equal(got, values[where])
            self.assertEqual(COARSE.findall(said.text), [str(step)], where)
        for where in (np.s_[::3, ::3, ::3], np.s_[1::2, ::2, ::2],
                      np.s_[::4, ::4, ::1]):
            with Said() as said:
                got = dataset[where]
            np.testing.assert_array_equal(got, values[where])
            self.assertEqual(COARSE.findall(said.text), [], where)
        with Said() as said:
            dataset[::4, ::4, ::4] = 0
        self.assertEqual(COARSE.findall(said.text), [])

    def test_damaged_chunk_of_a_strided_read_is_the_call_s_error(self):
        field = smooth((64, 64, 64), "f4")
        dataset = self.create(field)
        dataset[...] = field
        damage(dataset)
        with Stderr(), self.assertRaisesRegex(OSError, "[Cc]an't|filter"):
            dataset[::4, ::4, ::4]

    def test_chunk_in_the_cache_is_neither_lost_nor_kept(self):
        field = smooth((64, 64, 64), "f8")
        dataset = self.create(field, LOSSLESS)
        dataset[0, 0, 0] = 5  # stays in HDF5's cache
        self.assertEqual(dataset[()][0, 0, 0], 5)
        self.assertEqual(dataset[::4, ::4, ::4][0, 0, 0], 5)
        dataset[1, 1, 1] = 6
        dataset[...] = field
        np.testing.assert_array_equal(dataset[()], field)
        self.assertEqual(dataset[1, 1, 1], field[1, 1, 1])

    def test_damaged_chunk_is_the_call_s_error(self):
        field = smooth((64, 64, 64), "f4")
        dataset = self.create(field)
        dataset[...] = field
        damage(dataset)
        with Stderr(), self.assertRaisesRegex(OSError, "[Cc]an't|filter"):
            dataset[()]

    def test_chunk_that_is_too_short_is_refused(self):
        for words in (ABSOLUTE,), None:
            write_short_chunk(self.path, words)
            with h5py.File(self.path) as file:
                self.assertEqual(file["small"][0, 0], 3.25)
                with Said() as said, self.assertRaises(OSError):
                    file["short"][()]
                self.assertIn("16 bytes where 16384 are expected", said.text)

    def test_chunks_that_are_too_short_are_refused_at_once(self):
        """The cd_values have a dimension that is one value shorter."""
        field = smooth((64, 64, 64), "f4")
        with self.create(field[:60, :60, :60], chunks=(15, 15, 15)).file as file:
            dataset = file["d"]
            dataset[...] = field[:60, :60, :60]
            places = list(np.ndindex(4, 4, 4))
            streams = [dataset.id.read_direct_chunk(
                tuple(15 * i for i in place))[1] for place in places]
            small = terp_words(dataset)
        with self.create(field).file as file:
            dataset = file["d"]
            for place, stream in zip(places, streams):
                dataset.id.write_direct_chunk(tuple(16 * i for i in place),
                                              stream)
            whole = terp_words(dataset)
            with Said() as said, self.assertRaises(OSError):
                dataset[()]
            self.assertEqual(said.batches, [])
        for new in small, (RELATIVE,):
            replace_words(self.path, whole, new)
            whole = new + whole[len(new):]
            with h5py.File(self.path) as file:
                with Said() as said, self.assertRaises(OSError):
                    file["d"][()]
                self.assertIn("13500 bytes where 16384 are expected", said.text)

    def test_limit_of_memory_holds_in_batches(self):
        field = smooth((64, 64, 64), "f4")
        dataset = self.create(field)
        dataset[...] = field
        whole = dataset[()]
        for where in (..., np.s_[::4, ::4, ::4]):
            # A chunk has 16 KiB.
            os.environ["TERP_MAX_MEMORY"] = "10K"
            self.addCleanup(os.environ.pop, "TERP_MAX_MEMORY", None)
            with Said() as said, self.assertRaises(OSError):
                dataset[where]
            self.assertIn("TERP_MAX_MEMORY", said.text)
            # The chunks together have 1 MiB.
            os.environ["TERP_MAX_MEMORY"] = "800K"
            np.testing.assert_array_equal(dataset[where], whole[where])
            del os.environ["TERP_MAX_MEMORY"]

    def test_other_pipelines_and_fills_go_down(self):
        field = smooth((64, 64, 64), "f4")
        # The plugin removes a shuffle, and moves a checksum behind terp.
        for more, batches in (({"shuffle": True}, [("write", 64), ("read", 64)]),
                              ({"fletcher32": True}, [])):
            dataset = self.create(field, LOSSLESS, **more)
            with Said() as said:
                dataset[...] = field
                np.testing.assert_array_equal(dataset[()], field)
            self.assertEqual(said.batches, batches)
            dataset.file.close()

    def test_transform_of_values_goes_down(self):
        field = smooth((64, 64, 64), "f4")
        dataset = self.create(field, LOSSLESS)
        dxpl = h5py.h5p.create(h5py.h5p.DATASET_XFER)
        library = ctypes.CDLL(hdf5_of_h5py())
        library.H5Pset_data_transform.argtypes = [ctypes.c_int64,
                                                  ctypes.c_char_p]
        self.assertGreaterEqual(
            library.H5Pset_data_transform(dxpl.id, b"2*x"), 0)
        everything = h5py.h5s.create_simple(field.shape)
        with Said() as said:
            dataset.id.write(everything, everything, field, dxpl=dxpl)
        self.assertEqual(said.passed, ["the transfer changes the values"])
        np.testing.assert_array_equal(dataset[()], 2 * field)

    def test_callback_for_conversions_is_called(self):
        field = np.full((64, 64, 64), 1e9)
        read = np.zeros(field.shape, "<i2")
        number = ctypes.c_int64
        callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, number, number,
                                    *[ctypes.c_void_p] * 3)

        @callback
        def convert(kind, source, target, values, converted, data):
            ctypes.cast(converted, ctypes.POINTER(ctypes.c_int16))[0] = -7
            return 1  # H5T_CONV_HANDLED

        dataset = self.create(field, fillvalue=3)
        dataset[...] = field
        dataset.file.close()
        xfer = h5py.h5p.create(h5py.h5p.DATASET_XFER)
        self.assertGreaterEqual(ctypes.CDLL(hdf5_of_h5py()).H5Pset_type_conv_cb(
            number(xfer.id), convert, None), 0)
        with h5py.File(self.path) as file:
            file["d"].id.read(h5py.h5s.ALL, h5py.h5s.ALL, read, dxpl=xfer)
        np.testing.assert_array_equal(read, -7)

    def test_file_of_an_external_link_is_closed(self):
        field = smooth((64, 64, 64), "f4")
        dataset = self.create(field, LOSSLESS)
        dataset[...] = 0 * field
        dataset.file.close()
        for mode in "r", "r+":
            with h5py.File(self.path + ".of", "w") as file:
                file["link"] = h5py.ExternalLink(self.path, "d")
            with h5py.File(self.path + ".of", mode) as file:
                linked = file["link"]
                if mode == "r+":
                    linked[...] = field
                np.testing.assert_array_equal(
                    linked[()], field if mode == "r+" else 0 * field)
                del linked
            self.assertNotIn(os.path.realpath(self.path), [
                os.path.realpath(f"/proc/self/fd/{name}")
                for name in os.listdir("/proc/self/fd")])

    def test_calls_of_several_datasets(self):
        """H5Dwrite_multi and H5Dread_multi; the second dataset has no filter."""
        field = smooth((64, 64, 64), "f4")
        datasets = [self.create(field, LOSSLESS)]
        file = datasets[0].file
        datasets.append(file.create_dataset("plain", field.shape, "f4"))
        datasets.append(file.create_dataset(
            "other", field.shape, "f4", chunks=datasets[0].chunks,
            compression=FILTER, compression_opts=LOSSLESS))
        fields = [field, field + 1, field[::-1].copy()]
        library = ctypes.CDLL(hdf5_of_h5py())

        def call(function, values):
            n = len(datasets)
            ids = (ctypes.c_int64 * n)(*(d.id.id for d in datasets))
            types = (ctypes.c_int64 * n)(*([h5py.h5t.NATIVE_FLOAT.id] * n))
            spaces = (ctypes.c_int64 * n)()  # H5S_ALL
            memory = (ctypes.c_void_p * n)(*(v.ctypes.data for v in values))
            with Said() as said:
                self.assertGreaterEqual(function(
                    ctypes.c_size_t(n), ids, types, spaces, spaces,
                    ctypes.c_int64(0), memory), 0)
            self.assertEqual([nchunks for _, nchunks in said.batches],
                             [64, 64])

        call(library.H5Dwrite_multi, fields)
        file.flush()
        for dataset, values in zip(datasets, fields):
            np.testing.assert_array_equal(dataset[()], values)
        back = [np.zeros_like(values) for values in fields]
        call(library.H5Dread_multi, back)
        np.testing.assert_array_equal(back, fields)

    def test_bound_is_kept_by_reader_without_connector(self):
        field = smooth((64, 64, 64), "f4")
        dataset = self.create(field, (ABSOLUTE, 1, 3))
        dataset[...] = field
        dataset.file.close()
        without = dict(os.environ)
        del without["HDF5_VOL_CONNECTOR"]
        script = ("import h5py, sys; sys.stdout.buffer.write("
                  "h5py.File(sys.argv[1])['d'][()].tobytes())")
        read = subprocess.run([sys.executable, "-c", script, self.path],
                              env=without, check=True, capture_output=True)
        check(self, field, np.frombuffer(read.stdout, "f4").reshape(field.shape),
              1e-3)

    def test_file_that_is_open_for_reading_is_not_written(self):
        """When HDF5 stores a chunk unfiltered, it does not check whether the
        file is writable: its cache had the new chunk, and the file could not
        be closed."""
        field = np.arange(40000.0, dtype="f4")
        other = np.random.default_rng(1).normal(size=40000).astype("f4")
        for how in ({}, {"driver": "stdio"}, {"driver": "core"},
                    {"rdcc_nbytes": 0}, {"swmr": True}):
            with h5py.File(self.path, "w", libver="latest") as file:
                file.create_dataset("d", data=field, chunks=(10000,),
                                    maxshape=(None,), compression=FILTER,
                                    compression_opts=LOSSLESS)
            with open(self.path, "rb") as file:
                before = file.read()
            with Said() as said, h5py.File(self.path, "r", **how) as file:
                for write in (lambda d: d.write_direct(other),
                              lambda d: d.__setitem__(slice(5, 9), 1),
                              lambda d: d.resize(5, axis=0)):
                    with self.assertRaisesRegex(Exception, "no write intent"):
                        write(file["d"])
                    np.testing.assert_array_equal(file["d"][()], field)
                    np.testing.assert_array_equal(
                        file["d"][10000:20000], field[10000:20000])
            self.assertIn("its file is open for reading", said.passed)
            with open(self.path, "rb") as file:
                self.assertEqual(file.read(), before)

    def test_swmr_reader_sees_what_is_flushed(self):
        field = smooth((64, 64, 64), "f4")
        with h5py.File(self.path, "w", libver="latest") as file:
            dataset = file.create_dataset(
                "d", (0, 64, 64), "f4", chunks=(16, 16, 16),
                maxshape=(None, 64, 64), compression=FILTER,
                compression_opts=LOSSLESS)
            file.swmr_mode = True
            with h5py.File(self.path, "r", swmr=True) as reader:
                for n in 32, 64:
                    dataset.resize(n, 0)
                    dataset[n - 32:n] = field[n - 32:n]
                    dataset.flush()
                    reader["d"].refresh()
                    np.testing.assert_array_equal(reader["d"][()], field[:n])

    def test_two_processes_read_what_another_appends(self):
        """SWMR: chunks are compressed and appended while others read. One
        dataset has only this filter."""
        context = multiprocessing.get_context("spawn")
        with h5py.File(self.path, "w", libver="latest") as file:
            dataset = file.create_dataset(
                "d", (0, 64, 64), "f4", chunks=(16, 32, 32),
                maxshape=(None, 64, 64), compression=FILTER,
                compression_opts=LOSSLESS)
            file.swmr_mode = True
            nread = [context.Queue() for _ in range(2)]
            readers = [context.Process(target=read_what_is_appended,
                                       args=(self.path, queue))
                       for queue in nread]
            connector = os.environ["HDF5_VOL_CONNECTOR"]
            for reader in readers:
                reader.start()
                self.addCleanup(reader.kill)
                os.environ.pop("HDF5_VOL_CONNECTOR", None)
            os.environ["HDF5_VOL_CONNECTOR"] = connector
            for step in range(NAPPENDED):
                dataset.resize(16 * (step + 1), 0)
                dataset[16 * step:] = appended(step)
                dataset.flush()
                time.sleep(0.01)
                for queue in nread if step % 20 == 0 else ():
                    # Each reader sees the file grow, however slow it is.
                    while queue.get(timeout=60) <= step:
                        pass
            for reader in readers:
                reader.join(60)
                self.assertEqual(reader.exitcode, 0)

    def test_threads_have_files_of_their_own(self):
        failures = []

        def work(number):
            try:
                field = smooth((48, 48, 48), "f8", number)
                path = self.path + str(number)
                for _ in range(5):
                    with h5py.File(path, "w") as file:
                        dataset = file.create_dataset(
                            "d", field.shape, "f8", chunks=(16, 16, 16),
                            compression=FILTER, compression_opts=LOSSLESS)
                        dataset[...] = field
                        np.testing.assert_array_equal(dataset[()], field)
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        # No thread of the connector is left. The system may list a thread for
        # a moment after it was joined.
        for _ in range(100):
            if len(os.listdir("/proc/self/task")) <= threads_at_start:
                break
            time.sleep(0.01)
        self.assertLessEqual(len(os.listdir("/proc/self/task")),
                             threads_at_start)

    def test_child_after_fork_goes_on(self):
        field = smooth((64, 64, 64), "f4")
        dataset = self.create(field, LOSSLESS)
        dataset[...] = field
        dataset.file.close()
        child = multiprocessing.get_context("fork").Process(
            target=read_and_compare, args=(self.path, field))
        child.start()
        child.join()
        self.assertEqual(child.exitcode, 0)


def hdf5_of_h5py():
    with open("/proc/self/maps") as maps:
        return next(line.split()[-1] for line in maps
                    if "libhdf5" in line and "_hl" not in line)


NAPPENDED = 60


def appended(step):
    return smooth((16, 64, 64), "f4", step)


def read_what_is_appended(path, queue):
    """Compares all steps that exist so far. Returns their number each time."""
    nread = 0
    deadline = time.monotonic() + 60
    with h5py.File(path, "r", libver="latest", swmr=True) as file:
        dataset = file["d"]
        while nread < NAPPENDED:
            assert time.monotonic() < deadline
            dataset.refresh()
            nsteps = dataset.shape[0] // 16
            values = dataset[16 * nread:]
            for step in range(nread, nsteps):
                at = 16 * (step - nread)
                np.testing.assert_array_equal(values[at:at + 16], appended(step))
            if nsteps > nread:
                queue.put(nsteps)
            nread = nsteps
        np.testing.assert_array_equal(dataset[:16], appended(0))


def read_and_compare(path, field):
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["d"][()], field)


class RuleTest(unittest.TestCase):
    """Datasets of programs that do not choose compression."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.addCleanup(os.environ.pop, "TERP_RULES", None)
        self.file = h5py.File(os.path.join(self.folder, "file.h5"), "w")
        self.addCleanup(self.file.close)

    def bound(self, name, rules, field=smooth((80, 90, 100), "f4"), **more):
        """The mode and bound in the cd_values; None for a dataset without
        terp."""
        os.environ["TERP_RULES"] = rules
        with Said() as self.said:
            dataset = self.file.create_dataset(name, data=field, **more)
        filters = [dataset.id.get_create_plist().get_filter(i)
                   for i in range(dataset.id.get_create_plist().get_nfilters())]
        ours = [words for number, _, words, _ in filters if number == FILTER]
        if not ours:
            np.testing.assert_array_equal(dataset[()], field)
            return None
        self.assertLess(dataset.id.get_storage_size(), field.nbytes)
        bits = ours[0][1] | ours[0][2] << 32
        return ours[0][0] & 15, float(np.uint64(bits).view("f8"))

    def test_first_rule_that_matches_counts(self):
        rules = "*/velocity*=rel:1e-3; rho=pwr:1e-2;\n x=1=abs:0.5;*=lossless"
        for name, bound in (("/velocity_x", (RELATIVE, 1e-3)),
                            ("/deep/er/velocity", (RELATIVE, 1e-3)),
                            ("rho", (3, 1e-2)), ("a/rho", (3, 1e-2)),
                            ("x=1", (ABSOLUTE, 0.5)),
                            ("rhov", (ABSOLUTE, 0.0)),
                            ("level_0/data:datatype=0", (ABSOLUTE, 0.0))):
            self.assertEqual(self.bound(name, rules), bound, name)

    def test_dataset_that_gets_its_name_later(self):
        for rules, chunks in (("velocity=rel:1e-3;*=lossless", None),
                              (" ;*=lossless;velocity=none", (80, 45, 50))):
            os.environ["TERP_RULES"] = rules
            with Said():
                self.file["velocity"] = smooth((80, 90, 100), "f8")
            self.assertEqual(self.file["velocity"].chunks, chunks)
            del self.file["velocity"]

    def test_bound_holds_and_all_goes_in_batches(self):
        field = smooth((80, 90, 100), "f8")
        self.assertEqual(self.bound("d", "*=abs:1e-4", field), (ABSOLUTE, 1e-4))
        self.assertEqual([kind for kind, _ in self.said.batches], ["write"])
        check(self, field, self.file["d"][()], 1e-4)

    def test_what_no_rule_names_stays(self):
        self.assertIsNone(self.bound("a", "b=lossless"))
        self.assertIsNone(self.bound("b", "b=none;*=lossless"))
        self.assertIsNone(self.bound("c", ""))

    def test_what_has_no_bound_stays_and_is_told(self):
        rules = "*=abs:1e-3"
        self.assertIsNone(self.bound("i", rules, np.arange(100000)))
        self.assertIn("its type is neither float32 nor float64", self.said.text)
        self.assertIsNone(self.bound("s", rules, np.float32(5)))
        self.assertIsNone(self.bound("few", rules, smooth((10, 10), "f4")))
        self.assertIsNone(self.bound("z", rules, compression="gzip"))
        self.assertIn("it has filters already", self.said.text)
        self.assertIsNone(self.bound("h", rules, smooth((99, 99), "f2")))

    def test_chunks_of_the_program_stay(self):
        self.assertEqual(self.bound("d", "d=rel:1e-3", chunks=(20, 30, 50),
                                    maxshape=(None, 90, 100)), (RELATIVE, 1e-3))
        self.assertEqual(self.file["d"].chunks, (20, 30, 50))

    def test_option_small_takes_few_values(self):
        rules = "*=abs:1e-3,small"
        self.assertEqual(self.bound("few", rules, smooth((30, 40), "f4")),
                         (ABSOLUTE, 1e-3))
        self.assertEqual(self.bound("tiny", rules, smooth((900, 9), "f4"),
                                    chunks=(100, 9)), (ABSOLUTE, 1e-3))
        self.assertEqual(self.file["tiny"].chunks, (100, 9))

    def test_option_replaces_filters(self):
        rules = "*=abs:1e-3 , replace-filters"
        more = {"chunks": (40, 90, 100), "compression": "gzip",
                "shuffle": True}
        self.assertEqual(self.bound("z", rules, **more), (ABSOLUTE, 1e-3))
        self.assertEqual(list(self.file["z"]._filters), [str(FILTER)])
        self.assertEqual(self.file["z"].chunks, (40, 90, 100))
        self.assertEqual(self.bound("f", rules, fletcher32=True, **more),
                         (ABSOLUTE, 1e-3))
        self.assertEqual(list(self.file["f"]._filters),
                         [str(FILTER), "fletcher32"])
        # A bound that the program chose itself stays.
        self.assertEqual(
            self.bound("t", rules, compression=FILTER,
                       compression_opts=(RELATIVE, 1, 2)), (RELATIVE, 1e-2))
        self.assertIn("it has terp already", self.said.text)

    def test_option_compound_takes_tables(self):
        table = np.zeros(20000, [("x", "f4"), ("y", "f8"), ("id", "i8")])
        table["x"], table["id"] = np.sin(np.arange(20000)), np.arange(20000)
        table["y"] = table["x"]
        self.assertIsNone(self.bound("plain", "*=abs:1e-3", table))
        self.assertIn('option "compound"', self.said.text)
        rules = "*=abs:1e-3,compound,member:x:abs:0.5"
        self.assertEqual(self.bound("table", rules, table), (ABSOLUTE, 1e-3))
        self.file.flush()
        self.file["table"].refresh()
        got = self.file["table"][...]
        self.assertTrue(0.1 < abs(got["x"] - table["x"]).max() <= 0.5)
        self.assertTrue(0 < abs(got["y"] - table["y"]).max() <= 1e-3)
        self.assertTrue((got["id"] == table["id"]).all())
        self.assertIsNone(self.bound("other", "*=lossless,member:z:abs:1",
                                     table))
        self.assertIn("lacks a member", self.said.text)

    def test_option_chunk_replaces_chunks(self):
        more = {"chunks": (1, 90, 100), "maxshape": (None, 90, 100)}
        for option, chunks in (("chunk", (16, 90, 100)),
                               ("chunk:20x90x300", (20, 90, 100))):
            self.assertEqual(self.bound("d", "*=abs:1e-3," + option, **more),
                             (ABSOLUTE, 1e-3))
            self.assertEqual(self.file["d"].chunks, chunks)
            del self.file["d"]
        self.assertIsNone(self.bound("d", "*=abs:1e-3,chunk:20x90", **more))
        self.assertIn("another rank", self.said.text)
        # Fixed extents, and a program that chooses no chunks.
        for option, chunks in (("", (80, 45, 50)), (",chunk:1x30x100",
                                                    (1, 30, 100))):
            name = "contiguous" + option
            self.assertEqual(self.bound(name, "*=abs:1e-3" + option),
                             (ABSOLUTE, 1e-3))
            self.assertEqual(self.file[name].chunks, chunks)

    def test_growing_dataset_has_its_frames_coded_once(self):
        """As LAMMPS writes h5md: one frame at a time, each a chunk."""
        field = smooth((100, 1000, 3), "f4")
        sizes = {}
        for rules in "*=abs:1e-3,small", "*=abs:1e-3,chunk":
            os.environ["TERP_RULES"] = rules
            dataset = self.file.create_dataset(
                rules, (0, 1000, 3), "f4", maxshape=(None, 1000, 3),
                chunks=(1, 1000, 3))
            with Said() as said:
                for i, frame in enumerate(field):
                    dataset.resize(i + 1, axis=0)
                    dataset[i] = frame
                self.file.flush()
            check(self, field, dataset[()], 1e-3)
            self.assertEqual(said.text.count("H5Z-TERP: write:"),
                             dataset.id.get_num_chunks())
            sizes[rules] = dataset.id.get_storage_size()
        small, chunk = sizes.values()
        self.assertLess(small, field.nbytes / 3)
        self.assertLess(chunk, small / 2)

    def test_dataset_that_grows_in_two_dimensions(self):
        os.environ["TERP_RULES"] = "*=lossless,chunk"
        for maxshape, chunks in (((None, None), (512, 320)),
                                 ((40, None), (32, 5120)),
                                 ((5, None), (5, 40960))):
            dataset = self.file.create_dataset(
                "d", (5, 7), "f8", maxshape=maxshape, chunks=(1, 10))
            self.assertIn(str(FILTER), dataset._filters)
            self.assertEqual(dataset.chunks, chunks)
            del self.file["d"]

    def test_rows_are_coded_once(self):
        field = smooth((64, 256, 256), "f4")
        os.environ["TERP_RULES"] = "*=abs:1e-3"
        dataset = self.file.create_dataset("d", field.shape, "f4")
        with Said() as said:
            for i, row in enumerate(field):
                dataset[i] = row
            self.file.flush()
        self.assertEqual(said.text.count("H5Z-TERP: write:"),
                         dataset.id.get_num_chunks())
        check(self, field, dataset[()], 1e-3)

    def test_wrong_rule_is_told_and_nothing_is_lost(self):
        for rules in ("nonsense", "d=abs", "d=abs:-1", "d=rel:nan", "d=pwr:2",
                      "=lossless", "d=abs:1e-3x", "d=lossless;e=gzip",
                      "@/nonexistent"):
            self.assertIsNone(self.bound("d", rules), rules)
            self.assertIn("H5Z-TERP: TERP_RULES: ", self.said.text, rules)
            del self.file["d"]

    def test_rules_stand_in_a_file(self):
        path = os.path.join(self.folder, "rules")
        with open(path, "w") as file:
            file.write("# bounds; of=the=run\n\n a* = abs:0.25 # tight\n*=none")
        self.assertEqual(self.bound("abc", "@" + path), (ABSOLUTE, 0.25))
        self.assertIsNone(self.bound("b", "@" + path))


class DeviceTest(Files):
    """With an engine, which may be emulated, and values in its memory."""

    def setUp(self):
        super().setUp()
        if "TERP_TEST_CUDART" not in os.environ:
            self.skipTest("no CUDA runtime")
        self.cuda = ctypes.CDLL(os.environ["TERP_TEST_CUDART"])
        os.environ["TERP_ENGINE"] = "cuda"
        self.addCleanup(os.environ.pop, "TERP_ENGINE")

    def copy(self, to, start, nbytes):
        self.assertEqual(self.cuda.cudaMemcpy(
            ctypes.c_void_p(to), ctypes.c_void_p(start),
            ctypes.c_size_t(nbytes), 4), 0)

    def on_device(self, values):
        """An array with numpy's interface whose values numpy must not read."""
        at = ctypes.c_void_p()
        self.assertEqual(self.cuda.cudaMalloc(
            ctypes.byref(at), ctypes.c_size_t(values.nbytes)), 0)
        self.addCleanup(self.cuda.cudaFree, at)
        self.copy(at.value, values.ctypes.data, values.nbytes)
        memory = (ctypes.c_char * values.nbytes).from_address(at.value)
        return np.frombuffer(memory, values.dtype).reshape(values.shape)

    def from_device(self, values):
        host = np.empty(values.shape, values.dtype)
        self.copy(host.ctypes.data, values.ctypes.data, host.nbytes)
        return host

    def test_chunks_are_those_of_the_cpu(self):
        field = smooth((64, 48, 70), "f4")
        dataset = self.create(field)
        with Said() as said:
            dataset[...] = field
            got = dataset[()]
        self.assertIn("CUDA", said.text)
        self.assertEqual(len(said.batches), 2)
        chunks = stored(dataset)
        os.environ["TERP_ENGINE"] = "cpu"
        dataset[...] = field
        self.assertEqual(stored(dataset), chunks)
        np.testing.assert_array_equal(dataset[()], got)

    def test_values_on_the_device_are_written_and_read(self):
        field = smooth((32, 32, 32), "f4")
        dataset = self.create(field, FAST_LOSSLESS)
        with Said() as said:
            dataset.write_direct(self.on_device(field))
        self.assertEqual([kind for kind, _ in said.batches], ["write"])
        np.testing.assert_array_equal(dataset[()], field)
        out = self.on_device(np.zeros_like(field))
        with Said() as said:
            dataset.read_direct(out)
        self.assertEqual([kind for kind, _ in said.batches], ["read"])
        np.testing.assert_array_equal(self.from_device(out), field)

    def test_what_goes_down_goes_by_way_of_the_host(self):
        field = smooth((32, 32, 32), "f4")
        dataset = self.create(field, FAST_LOSSLESS)
        dataset[...] = 0
        wide = self.on_device(field.astype("f8"))
        dataset.write_direct(wide)
        np.testing.assert_array_equal(dataset[()], field)
        part = np.s_[3:30, 5:6, ::3]
        dataset.write_direct(self.on_device(field + 1), part, part)
        field[part] += 1
        np.testing.assert_array_equal(dataset[()], field)
        for where in part, np.s_[::2, ::4, ::2], np.s_[::, 16:32]:
            expected = np.full_like(field, -1)
            expected[where] = field[where]
            out = self.on_device(np.full_like(field, -1))
            dataset.read_direct(out, where, where)
            np.testing.assert_array_equal(self.from_device(out), expected)
            # What h5py passes if memory is as large as the selection.
            out = self.on_device(np.zeros_like(field[where]))
            dataset.read_direct(out, where)
            np.testing.assert_array_equal(self.from_device(out), field[where])

    # A copy on the host takes an eighth of the limit.
    def test_what_goes_down_goes_in_parts(self):
        os.environ["TERP_MAX_MEMORY"] = "1M"
        self.addCleanup(os.environ.pop, "TERP_MAX_MEMORY")
        self.test_what_goes_down_goes_by_way_of_the_host()


class ErrorTest(unittest.TestCase):
    """Mistakes of users, each in a process of its own."""

    def run_with(self, script, *arguments, **variables):
        return subprocess.run([sys.executable, "-c", script, *arguments],
                              env={**os.environ, **variables},
                              capture_output=True, text=True)

    def test_missing_file_is_not_found(self):
        script = ("import h5py\n"
                  "try: h5py.File('/nonexistent/file')\n"
                  "except FileNotFoundError: print('not found')")
        for connector in "terp", "native":
            said = self.run_with(script, HDF5_VOL_CONNECTOR=connector)
            self.assertEqual(said.stdout, "not found\n", said)

    def test_connectors_above_and_below(self):
        script = ("import h5py\nwith h5py.File('m', 'w', driver='core', "
                  "backing_store=False) as file:\n"
                  "    file['d'] = range(5)\n"
                  "    print(file['d'][()].sum())")
        native = "under_vol=0;under_info={}"
        for connector in (
                "terp " + native,
                "terp under_vol=1;under_info={%s}" % native,
                "pass_through under_vol=46117;under_info={}",
                "pass_through under_vol=46117;under_info={%s}" % native):
            said = self.run_with(script, HDF5_VOL_CONNECTOR=connector)
            self.assertEqual(said.stdout, "10\n", said)

    def test_hdf5_that_finds_no_plugin_has_the_connector_s_filter(self):
        """netCDF-C 4.9.3 takes the plugin folders from HDF5."""
        script = ("import h5py, numpy as np, sys\n"
                  "while h5py.h5pl.size(): h5py.h5pl.remove(0)\n"
                  "a = np.arange(1e5).reshape(100, 1000)\n"
                  "with h5py.File(sys.argv[1], 'w') as f:\n"
                  "    f['x'] = a\n"
                  "    f.create_dataset('y', data=a)\n"
                  "with h5py.File(sys.argv[1]) as f:\n"
                  "    for x in f['x'], f['y']:\n"
                  "        assert (abs(x[()] - a) <= 1e-3).all()\n"
                  "        assert (abs(x[3, 5:8] - a[3, 5:8]) <= 1e-3).all()\n"
                  "        print(x.id.get_storage_size() < a.nbytes / 4)\n")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "file.h5")
            said = self.run_with(script, path, TERP_RULES="*=abs:1e-3")
        self.assertEqual((said.stdout, said.stderr), ("True\nTrue\n", ""))

    def test_rules_are_the_same_in_every_locale(self):
        script = ("import h5py, locale, numpy as np\n"
                  "locale.setlocale(locale.LC_ALL, 'de_DE.UTF-8')\n"
                  "assert locale.localeconv()['decimal_point'] == ','\n"
                  "with h5py.File('m', 'w', driver='core', "
                  "backing_store=False) as file:\n"
                  "    d = file.create_dataset('d', data=np.zeros(99999))\n"
                  "    print(d._filters.keys())\n")
        with tempfile.TemporaryDirectory() as folder:
            made = subprocess.run(
                ["localedef", "-c", "-i", "de_DE", "-f", "UTF-8",
                 os.path.join(folder, "de_DE.UTF-8")], capture_output=True)
            if made.returncode not in (0, 1):
                self.skipTest("no locale de_DE can be made here")
            said = self.run_with(script, LOCPATH=folder, TERP_VERBOSE="1",
                                 TERP_RULES="d=pwr:0.125:2.5e-9")
        self.assertEqual(said.stdout, f"dict_keys(['{FILTER}'])\n", said)
        self.assertIn("bound 0.125", said.stderr)
        self.assertIn("floor 2.5", said.stderr)
        self.assertNotRegex(said.stderr, r"(bound|floor|ratio) \d+,")

    def test_empty_verbose_is_none(self):
        script = ("import h5py\nwith h5py.File('m', 'w', driver='core', "
                  "backing_store=False) as file:\n"
                  "    file.create_dataset('d', data=range(99999))\n")
        said = self.run_with(script, TERP_RULES="*=lossless", TERP_VERBOSE="")
        self.assertEqual(said.stderr, "")

    def test_wrong_text_is_named(self):
        for text in "under_vol=x", "under_vol=0;under_info={", "something":
            said = self.run_with(
                "import h5py\n"
                "h5py.File('m', 'w', driver='core', backing_store=False)",
                HDF5_VOL_CONNECTOR="terp " + text)
            self.assertIn("under_vol=VALUE;under_info={...}", said.stderr)


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].startswith("("):
        print(digest_of(*eval(sys.argv[1])))
        sys.exit()
    print("h5py", h5py.version.version, "HDF5", h5py.version.hdf5_version)
    threads_at_start = len(os.listdir("/proc/self/task"))
    unittest.main()
