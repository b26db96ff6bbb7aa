"""h5py writes and reads through the plugin, which it finds by
HDF5_PLUGIN_PATH. Runs with the system's h5py and with PyPI's."""
import concurrent.futures
import multiprocessing
import os
import tempfile
import unittest

import h5py
import numpy as np

from terp_files import (ABSOLUTE, FILTER, REAL_DATA, RELATIVE, Stderr, check,
                        damage, replace_words, smooth, terp_words, value_range,
                        with_specials, write_short_chunk)


class H5pyTest(unittest.TestCase):
    def setUp(self):
        self.file = h5py.File("memory.h5", "w", driver="core",
                              backing_store=False, rdcc_nbytes=0)
        self.addCleanup(self.file.close)

    def write(self, name, field, words, **options):
        options.setdefault("chunks", field.shape)
        return self.file.create_dataset(name, data=field, compression=FILTER,
                                        compression_opts=words, **options)

    def test_fields_come_back_within_the_bound(self):
        for dtype in "<f4", ">f4", "<f8", ">f8":
            for shape in (1000,), (60, 70), (20, 30, 40), (3, 20, 21, 22):
                field = with_specials(smooth(shape, dtype))
                dataset = self.write(dtype + str(shape), field,
                                     (ABSOLUTE, 1, 3))
                check(self, field.astype(field.dtype.newbyteorder("=")),
                      dataset[()].astype(field.dtype.newbyteorder("=")), 1e-3)

    def test_smooth_fields_become_small(self):
        for dtype in "<f4", ">f8":
            field = smooth((64, 64, 64), dtype)
            dataset = self.write(dtype, field, (RELATIVE, 1, 3))
            self.assertLess(10 * dataset.id.get_storage_size(), field.nbytes)

    def test_chunk_beyond_the_edge_keeps_the_bound(self):
        field = smooth((50, 45), "f4")
        dataset = self.write("edge", field, (ABSOLUTE, 1, 3), chunks=(32, 32))
        check(self, field, dataset[()], 1e-3)

    def test_dataset_grows_and_changes(self):
        field = smooth((50, 45), "f8")
        dataset = self.write("grows", field, (ABSOLUTE, 1, 3), chunks=(16, 16),
                             maxshape=(None, None))
        dataset.resize((100, 90))
        check(self, field, dataset[:50, :45], 1e-3)
        # Writes a part of a chunk: its other values are coded a second time.
        dataset[40:90, 20:80] = np.full((50, 60), 7.0)
        check(self, field[:32], dataset[:32, :45], 1e-3)
        check(self, field[32:40], dataset[32:40, :45], 2e-3)
        check(self, np.full((50, 60), 7.0), dataset[40:90, 20:80], 1e-3)

    def test_fill_value_is_kept(self):
        field = smooth((40, 50), "f4")
        field[::3] = 1e20
        dataset = self.write("fill", field, (RELATIVE, 1, 2), fillvalue=1e20)
        check(self, field, dataset[()], 1e-2 * value_range(field, 1e20), 1e20)

    def test_integers_come_back_exactly_and_become_small(self):
        for dtype in "i1", "u1", "i2", ">i2", "u2", "i4", ">u4", "i8", ">u8":
            limits = np.iinfo(dtype)
            field = (smooth((40, 60), "f8") * 60 + 61).astype(dtype)
            field[3, :2] = limits.min // 2, limits.max // 2
            for words in (RELATIVE, 1, 2), (ABSOLUTE, 0, 0), (3, 1, 2):
                dataset = self.write(f"{dtype} {words}", field, words)
                self.assertEqual(dataset.dtype, field.dtype)
                np.testing.assert_array_equal(dataset[()], field)
                self.assertLess(dataset.id.get_storage_size(), field.size)

    def test_integers_keep_an_absolute_bound(self):
        field = (smooth((40, 60), "f8") * 30000).astype(">i4")
        field[::7] = -99999
        dataset = self.write("bound", field, (ABSOLUTE, 57, 1),
                             fillvalue=-99999)
        error = np.abs(dataset[()].astype("i8") - field)
        self.assertEqual(error[::7].max(), 0)
        self.assertLessEqual(error.max(), 5)
        self.assertGreater(error.max(), 0)

    def test_enumerations_are_their_integers(self):
        flags = smooth((100, 90), "f4") > 0.2
        levels = (smooth((100, 90), "f8") * 2 + 2).astype("u2")
        enum = h5py.enum_dtype({"low": 0, "high": 60000}, basetype="u2")
        for name, field, dtype in (("bool", flags, bool),
                                   ("enum", levels, enum)):
            dataset = self.file.create_dataset(
                name, data=field, dtype=dtype, chunks=(50, 45),
                compression=FILTER, compression_opts=(RELATIVE, 1, 3))
            np.testing.assert_array_equal(dataset[()], field)
            self.assertLess(4 * dataset.id.get_storage_size(),
                            field.size * dataset.dtype.itemsize)

    def test_halves_keep_the_bound(self):
        for dtype in "<f2", ">f2":
            field = with_specials(smooth((40, 60), "f4")).astype(dtype)
            dataset = self.write(dtype, field, (ABSOLUTE, 2, 2))
            self.assertEqual(dataset.dtype, field.dtype)
            check(self, field.astype("f4"), dataset[()].astype("f4"), 2e-2)
            self.assertLess(2 * dataset.id.get_storage_size(), field.nbytes)
            dataset = self.write(dtype + " lossless", field, (ABSOLUTE, 0, 0))
            self.assertEqual(dataset[()].tobytes(), field.tobytes())

    def test_complex_values_keep_the_bound_of_their_error(self):
        for dtype in "<c8", ">c8", "<c16", ">c16":
            field = smooth((40, 60), "f8") + 1j * smooth((60, 40), "f8").T
            field = field.astype(dtype)
            for words, bound in (((ABSOLUTE, 1, 3), 1e-3),
                                 ((ABSOLUTE, 0, 0), 0),
                                 ((3, 1, 3), 1e-3 * np.abs(field))):
                dataset = self.write(f"{dtype} {words}", field, words)
                self.assertEqual(dataset.dtype, field.dtype)
                error = np.abs(dataset[()].astype("c16") - field)
                self.assertTrue((error <= bound).all())
                self.assertLess(dataset.id.get_storage_size(), field.nbytes)
        dataset = self.write("fill", field, (ABSOLUTE, 1, 3),
                             fillvalue=complex(np.nan, np.nan))
        self.assertLessEqual(np.abs(dataset[()] - field).max(), 1e-3)

    def test_other_types_come_back_exactly(self):
        pair = np.dtype([("x", "<f4"), ("n", "<i8")])
        other = np.dtype([("x", "<f4"), ("y", "<f4")])
        fields = {
            "integer": np.arange(1000),
            "complex of other names": np.zeros(1000, other),
            "compound": np.zeros(1000, pair),
            "long double": np.arange(1000, dtype=np.longdouble),
            "string": np.array([b"one", b"", b"three"]),
        }
        for name, field in fields.items():
            dataset = self.write(name, field, (RELATIVE, 1, 3))
            np.testing.assert_array_equal(dataset[()], field)

    def test_shuffle_and_checksum_before_terp_do_no_harm(self):
        field = smooth((40, 50), "f4")
        kinds = {
            "shuffle": h5py.h5p.PropDCID.set_shuffle,
            "fletcher32": h5py.h5p.PropDCID.set_fletcher32,
            "terp": lambda plist: plist.set_filter(FILTER, 0, (ABSOLUTE, 1, 2)),
        }
        for before in (["shuffle"], ["fletcher32"], ["shuffle", "fletcher32"],
                       ["fletcher32", "shuffle"]):
            name = " ".join(before)
            plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            plist.set_chunk((16, 50))
            for kind in [*before, "terp"]:
                kinds[kind](plist)
            for again in "", " again":
                made = h5py.h5d.create(
                    self.file.id, (name + again).encode(),
                    h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((40, 50)),
                    plist)
                h5py.Dataset(made)[...] = field
                dataset = self.file[name + again]
                self.assertEqual(
                    list(dataset._filters),
                    [str(FILTER)] + ["fletcher32"] * ("fletcher32" in before))
                self.assertLess(dataset.id.get_storage_size(),
                                field.nbytes / 2)
                check(self, field, dataset[()], 1e-2)
            self.assertEqual(plist.get_nfilters(), len(before) + 1)
        for more in {}, {"fletcher32": True}:
            dataset = self.write(f"h5py {more}", field, (ABSOLUTE, 1, 2),
                                 shuffle=True, **more)
            self.assertLess(dataset.id.get_storage_size(), field.nbytes / 2)
            check(self, field, dataset[()], 1e-2)

    def test_filters_that_spoil_streams_are_refused(self):
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((64,))
        plist.set_filter(FILTER, 0, (ABSOLUTE, 1, 2))
        plist.set_scaleoffset(h5py.h5z.SO_FLOAT_DSCALE, 3)
        with self.assertRaisesRegex(ValueError, "scaleoffset comes after"):
            h5py.h5d.create(self.file.id, b"x", h5py.h5t.IEEE_F32LE,
                            h5py.h5s.create_simple((640,)), plist)

    def test_no_words_are_lossless(self):
        field = smooth((40, 50), "f4")
        field[3] = np.nan
        dataset = self.write("none", field, None)
        np.testing.assert_array_equal(dataset[()].view("u4"), field.view("u4"))
        self.assertLess(dataset.id.get_storage_size(), field.nbytes)

    def test_checksum_filter_follows(self):
        field = smooth((40, 50), "f4")
        dataset = self.write("sum", field, (ABSOLUTE, 1, 2), fletcher32=True)
        check(self, field, dataset[()], 1e-2)

    def test_wrong_words_are_named(self):
        for words, named in [((9, 1, 3), r"cd_values\[0\]"),
                             ((RELATIVE, 0, 3), r"\(bound\)"),
                             ((RELATIVE, 1), "at least three")]:
            with self.assertRaisesRegex(Exception, "H5Z-TERP: .*" + named):
                self.write("wrong", np.zeros((8, 8), "f4"), words)
            self.assertNotIn("wrong", self.file)

    def test_damaged_chunks_are_errors_and_said_once(self):
        dataset = self.write("damaged", smooth((40, 50), "f4"),
                             (ABSOLUTE, 1, 3), chunks=(4, 50))
        damage(dataset)
        with Stderr() as stderr:
            for row in range(40):
                with self.assertRaisesRegex(OSError, "checksum"):
                    dataset[row]
        self.assertEqual(stderr.text.count("H5Z-TERP: "), 1)
        self.assertRegex(stderr.text, "H5Z-TERP: .*checksum")

    def test_error_that_hdf5_prints_is_not_said_twice(self):
        dataset = self.write("none", smooth((40, 50), "f4"), (ABSOLUTE, 1, 3))
        dataset.id.write_direct_chunk((0, 0), b"none")
        self.addCleanup(h5py._errors.silence_errors)
        h5py._errors.unsilence_errors()
        with Stderr() as stderr, self.assertRaises(OSError):
            dataset[()]
        self.assertRegex(stderr.text, "H5Z-TERP: .*not a terp stream")
        self.assertNotIn("printed once", stderr.text)

    def test_verbose_tells_what_happens(self):
        self.addCleanup(os.environ.pop, "TERP_VERBOSE", None)
        self.addCleanup(os.environ.pop, "TERP_ENGINE", None)
        os.environ["TERP_VERBOSE"] = "1"
        os.environ["TERP_ENGINE"] = "abacus"
        with Stderr() as stderr:
            dataset = self.write("float", smooth((40, 50), "f4"),
                                 (ABSOLUTE, 1, 3))
            dataset[()]
            self.write("string", np.full(100, b"text"), (ABSOLUTE, 1, 3))
        for said in (r"set_local: float32, chunk 40x50, absolute bound",
                     r"write: 8000 bytes, stored \d+, ratio \d+\.\d+, "
                     r"pipeline \w+, .*, engine cpu, threads 1, "
                     r"instructions \w+ \[.*libhdf5",
                     r"read: 8000 bytes", r"TERP_ENGINE must be",
                     r"passes through: terp does not compress values "
                     r"of this type"):
            self.assertRegex(stderr.text, said)

    def test_nothing_is_said_unless_asked(self):
        with Stderr() as stderr:
            dataset = self.write("float", smooth((40, 50), "f4"),
                                 (ABSOLUTE, 1, 3))
            dataset[()]
            self.write("integer", np.arange(100), (ABSOLUTE, 1, 3))
        self.assertEqual(stderr.text, "")

    def test_number_of_threads_changes_no_byte(self):
        self.addCleanup(os.environ.pop, "TERP_NUM_THREADS", None)
        field = smooth((64, 64, 64), "f4")
        streams = set()
        for number in "1", "2", "0", "":
            os.environ["TERP_NUM_THREADS"] = number
            dataset = self.write("threads" + number, field, (RELATIVE, 1, 4))
            check(self, field, dataset[()], 1e-4 * value_range(field))
            streams.add(bytes(dataset.id.read_direct_chunk((0, 0, 0))[1]))
        self.assertEqual(len(streams), 1)


class ShortChunksTest(unittest.TestCase):
    """A stream of fewer values than the dataset's chunk has. HDF5 would read
    beyond the decoded values."""

    # cd_values without a size; and None for those of the small dataset.
    WORDS = (ABSOLUTE,), None

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = os.path.join(directory.name, "short.h5")

    def check_refused(self, dataset):
        with Stderr() as stderr, self.assertRaises(OSError) as refused:
            dataset[()]
        self.assertIn("16 bytes where 16384 are expected",
                      str(refused.exception))
        return stderr.text

    def test_it_is_refused_whatever_the_words_tell(self):
        for words in self.WORDS:
            write_short_chunk(self.path, words)
            with h5py.File(self.path) as file:
                self.check_refused(file["short"])
                self.assertEqual(file["small"][0, 0], 3.25)

    def test_it_is_refused_beside_other_datasets_that_are_open(self):
        for words in self.WORDS:
            write_short_chunk(self.path, words, others=70)
            with h5py.File(self.path) as file:
                self.assertEqual(file["small"][0, 0], 3.25)
                others = [file["other%d" % i] for i in range(70)]
                short = file["short"]
                for i, other in enumerate(others):
                    check(self, smooth((30, 9 + i), "f4"), other[()], 1e-3)
                    if i % 20 == 0:
                        self.check_refused(short)
                del others
                self.check_refused(short)

    def test_it_is_refused_when_a_part_is_read_or_written(self):
        for words in self.WORDS:
            write_short_chunk(self.path, words)
            with h5py.File(self.path, "r+") as file:
                with self.assertRaises(OSError):
                    file["short"][60:, 60:]
                with self.assertRaises(OSError):
                    file["short"][0, 0] = 1

    def test_whole_chunks_are_read_whatever_the_words_tell(self):
        field = smooth((64, 64), "f4")
        with h5py.File(self.path, "w", libver="earliest") as file:
            dataset = file.create_dataset(
                "d", data=field, chunks=(32, 64), compression=FILTER,
                compression_opts=(ABSOLUTE, 1, 3))
            words = terp_words(dataset)
        replace_words(self.path, words, (ABSOLUTE,))
        with h5py.File(self.path) as file:
            check(self, field, file["d"][()], 1e-3)

    def test_words_of_a_size_do_not_make_other_datasets_fail(self):
        """Two datasets have the same cd_values, as when a property list is
        copied."""
        write_short_chunk(self.path, None)
        with h5py.File(self.path) as file:
            short, small = file["short"], file["small"]
            self.assertEqual(terp_words(short), terp_words(small))
            self.assertTrue((small[()] == 3.25).all())
            # The filter cannot know which dataset HDF5 reads, so zeros follow.
            with Stderr():
                try:
                    self.assertFalse(short[()].ravel()[4:].any())
                except OSError:
                    pass

    def test_data_that_passes_through_is_followed_by_zeros(self):
        text = np.dtype("S4")
        with h5py.File(self.path, "w") as file:
            datasets = []
            for n in 4, 4096:
                dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                dcpl.set_chunk((n,))
                dcpl.set_filter(FILTER, 0, (ABSOLUTE, 1, 3))
                datasets.append(h5py.Dataset(h5py.h5d.create(
                    file.id, b"%d" % n, h5py.h5t.py_create(text),
                    h5py.h5s.create_simple((n,)), dcpl)))
            small, short = datasets
            small[...] = b"abcd"
            short.id.write_direct_chunk((0,),
                                        small.id.read_direct_chunk((0,))[1])
        with h5py.File(self.path) as file:
            got = file["4096"][()]
        self.assertEqual(list(got[:4]), 4 * [b"abcd"])
        self.assertEqual(set(got[4:]), {b""})


def write_and_read(path, field):
    """Writes a file in a thread or a process. Returns its size."""
    with h5py.File(path, "w", rdcc_nbytes=0) as file:
        dataset = file.create_dataset(
            "x", data=field, chunks=(16, 32, 32), compression=FILTER,
            compression_opts=(ABSOLUTE, 1, 3))
        check(unittest.TestCase(), field, dataset[()], 1e-3)
        return dataset.id.get_storage_size()


class ProcessesTest(unittest.TestCase):
    """After use in this process, with two threads for each chunk."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.addCleanup(os.environ.pop, "TERP_NUM_THREADS", None)
        os.environ["TERP_NUM_THREADS"] = "2"
        self.field = smooth((32, 32, 32), "f4")
        self.path = os.path.join(directory.name, "%s.h5")
        self.nbytes = write_and_read(self.path % "first", self.field)
        self.assertLess(10 * self.nbytes, self.field.nbytes)

    def test_threads_use_files_of_their_own(self):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            found = [pool.submit(write_and_read, self.path % i, self.field)
                     for i in range(8)]
            self.assertEqual({f.result(60) for f in found}, {self.nbytes})

    def test_forked_children_write_and_read(self):
        with multiprocessing.get_context("fork").Pool(2) as pool:
            found = pool.starmap_async(
                write_and_read, [(self.path % i, self.field)
                                 for i in range(4)])
            self.assertEqual(found.get(60), 4 * [self.nbytes])


@unittest.skipUnless(os.path.exists(REAL_DATA), "no real fields here")
class RealFieldsTest(unittest.TestCase):
    def test_bound_holds_and_specials_stay(self):
        with h5py.File(REAL_DATA, "r") as source:
            names = []
            source.visititems(lambda name, item: names.append(name)
                              if isinstance(item, h5py.Dataset) else None)
            for name in names:
                for exponent in 2, 3, 4:
                    with self.subTest(name=name, exponent=exponent):
                        self.round_trip(source[name], exponent)

    def round_trip(self, dataset, exponent):
        field = dataset[()]
        fill = dataset.attrs.get("_FillValue")
        with h5py.File("memory.h5", "w", driver="core", backing_store=False,
                       rdcc_nbytes=0) as file:
            copy = file.create_dataset(
                "copy", data=field, chunks=field.shape, fillvalue=fill,
                compression=FILTER, compression_opts=(RELATIVE, 1, exponent))
            bound = value_range(field, fill) * 10.0**-exponent
            check(self, field, copy[()], bound, fill)
            self.assertLess(copy.id.get_storage_size(), field.nbytes + 65)


if __name__ == "__main__":
    print("h5py", h5py.version.version, "HDF5", h5py.version.hdf5_version,
          "numpy", np.__version__)
    unittest.main()
