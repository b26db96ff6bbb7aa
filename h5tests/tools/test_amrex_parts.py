"""Levels of AMReX plotfiles whose boxes have several sizes: terp repack cuts
chunks into parts, one for each component of each box. TEST_TERP names the
tool."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..",
                                os.pardir, "examples"))
import amrex_plotfile as amrex

TERP = os.environ["TEST_TERP"]
DATA = "data:datatype=0"
CONTAINER = b"TERPR"
DOMAIN = 64


class PartsTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.random = np.random.default_rng(7)

    def path(self, name):
        return os.path.join(self.directory, name)

    def make(self, sizes, multi=False, domain=DOMAIN, ncells=0):
        """A plotfile with one level, with `ncells` boxes of one cell in the
        middle; see `parts`."""
        boxes = amrex.cut(0, domain, sizes, self.random)
        middle = len(boxes) // 2
        boxes[middle:middle] = [
            ((i % domain, i // domain, 0), (1, 1, 1)) for i in range(ncells)]
        self.level = amrex.make_level(domain, boxes)
        for box in self.level.values:
            box *= np.array([1e-9, 1, 1e3], "f4").reshape(3, 1, 1, 1)
        plain = self.path("plain.h5")
        amrex.write_plotfile(plain, [self.level])
        if multi:
            with h5py.File(plain, "r+") as file:
                group = file["level_0"]
                del group[DATA]
                group["data:offsets=0"][...] //= len(amrex.COMPONENTS)
                for i in range(len(amrex.COMPONENTS)):
                    group[f"data:datatype={i}"] = np.concatenate(
                        [box[i].reshape(-1) for box in self.level.values])
        return plain

    def parts(self, path):
        """The values of each component, in each box."""
        with h5py.File(path, "r") as file:
            group = file["level_0"]
            names = [f"data:datatype={i}" for i in range(3)]
            data = [group[name][()] for name in names if name in group]
        at = [0] * len(data)
        for box in self.level.values:
            for i, want in enumerate(box):
                k = i % len(data)
                yield i, want, data[k][at[k]:at[k] + want.size].reshape(
                    want.shape)
                at[k] += want.size

    def ranges(self):
        return [float(np.ptp(np.concatenate(
            [box[i].reshape(-1) for box in self.level.values]).astype("f8")))
            for i in range(3)]

    def check_bounds(self, path, relative=1e-3):
        ranges = self.ranges()
        for i, want, got in self.parts(path):
            error = np.abs(want.astype("f8") - got).max()
            self.assertLessEqual(error, relative * ranges[i])

    def terp(self, *arguments, code=0, env=None):
        result = subprocess.run([TERP, *arguments], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True,
                                env=dict(os.environ, **env or {}))
        self.assertEqual(result.returncode, code, result.stdout)
        return result.stdout

    def repack(self, plain, *arguments, name="small.h5", **options):
        small = self.path(name)
        if os.path.exists(small):
            os.unlink(small)
        self.terp("repack", plain, small, *arguments, **options)
        return small

    def stored(self, path):
        with h5py.File(path, "r") as file:
            group = file["level_0"]
            return sum(group[name].id.get_storage_size() for name in group
                       if name.startswith("data:datatype="))

    def streams(self, path):
        with h5py.File(path, "r") as file:
            group = file["level_0"]
            for name in group:
                if not name.startswith("data:datatype="):
                    continue
                data = group[name].id
                for i in range(data.get_num_chunks()):
                    offset = data.get_chunk_info(i).chunk_offset
                    yield name, offset, data.read_direct_chunk(offset)[1]

    # One stream for each chunk, as terp 1 writes and reads it, has a length
    # that divides all boxes.
    def test_parts_are_smaller_than_a_common_divisor(self):
        for multi in False, True:
            for sizes, gain in ((8, 16, 32), 1.7), ((16, 32), 1.15), (
                    (5, 13, 22, 31), 1.7), ((3, 8, 24), 1.2):
                with self.subTest(f"{sizes}, multi {multi}"):
                    plain = self.make(sizes, multi)
                    old = self.repack(plain, "--rel=1e-3", "--format=1",
                                      name="old.h5")
                    small = self.repack(plain, "--rel=1e-3")
                    self.check_bounds(small)
                    self.check_bounds(old)
                    self.assertGreater(self.stored(old),
                                       gain * self.stored(small))
                    self.assertTrue(any(stream.startswith(CONTAINER)
                                        for _, _, stream in
                                        self.streams(small)))
                    self.assertIn("ok ", self.terp("compare", plain, small))
                    self.terp("verify", small)

    # A container has at most 4096 parts.
    def test_a_small_box_does_not_make_all_chunks_small(self):
        for multi in False, True:
            for ncells, least in (1, 2**17), (1000, 2**17), (2000, 4000):
                with self.subTest(f"{ncells} cells, multi {multi}"):
                    plain = self.make((32,), multi, ncells=ncells)
                    small = self.repack(plain, "--rel=1e-3")
                    self.check_bounds(small)
                    self.terp("verify", small)
                    with h5py.File(small, "r") as file:
                        chunks = file["level_0"][DATA].chunks
                    self.assertGreater(chunks[0], least)

    def test_terp_1_gets_no_containers(self):
        plain = self.make((8, 16))
        for options in ({"env": {"TERP_FORMAT": "1"}}, {}):
            arguments = [] if options else ["--format=1"]
            small = self.repack(plain, "--rel=1e-3", *arguments, **options)
            for _, _, stream in self.streams(small):
                self.assertEqual(stream[:5], b"TERP\1")

    def test_equal_boxes_of_several_components_are_stacked(self):
        plain = self.make((8,))
        old = self.repack(plain, "--rel=1e-3", "--format=1", name="old.h5")
        small = self.repack(plain, "--rel=1e-3")
        self.check_bounds(small)
        self.assertGreater(self.stored(old), 1.2 * self.stored(small))
        for _, _, stream in self.streams(small):
            self.assertTrue(stream.startswith(CONTAINER))
            boxes, members = np.frombuffer(stream[16:28], "u4")[[0, 2]]
            self.assertEqual((boxes, members), (128, 3))

    def test_every_kind_of_bound(self):
        for sizes in (8, 16, 24), (8,):
            plain = self.make(sizes)
            small = self.repack(plain, "--lossless")
            for _, want, got in self.parts(small):
                np.testing.assert_array_equal(want, got)
            small = self.repack(plain, "--pwr=1e-3")
            for _, want, got in self.parts(small):
                self.assertTrue((np.abs(want.astype("f8") - got) <=
                                 1e-3 * np.abs(want.astype("f8"))).all())
            small = self.repack(plain, "--abs=1e-2")
            for i, want, got in self.parts(small):
                self.assertLessEqual(np.abs(want.astype("f8") - got).max(),
                                     1e-2)
                if i < 2:  # the density and the temperature
                    self.assertGreaterEqual(got.min(), 0)
            self.assertIn("ok ", self.terp("compare", plain, small))

    # A container of noise would be larger than its values.
    def test_noise_is_stored_as_it_is(self):
        plain = self.make((8, 16))
        with h5py.File(plain, "r+") as file:
            data = file["level_0"][DATA]
            data[...] = self.random.integers(
                0, 1 << 31, data.size, "u4").view("f4")
            want = data[()]
        small = self.repack(plain, "--lossless", "--dataset",
                            f"/level_0/{DATA}=lossless")
        with h5py.File(small, "r") as file:
            np.testing.assert_array_equal(file["level_0"][DATA][()], want)

    def test_threads_do_not_change_a_chunk(self):
        plain = self.make((8, 16, 32))
        stored = [list(self.streams(self.repack(
            plain, "--rel=1e-3", f"--threads={n}"))) for n in (1, 3)]
        self.assertGreater(len(stored[0]), 2)
        self.assertEqual(*stored)

    @unittest.skipUnless(os.environ.get("TEST_EMULATED"), "no emulated device")
    def test_gpu_gives_the_same_chunks(self):
        for sizes in (8, 16), (8,):
            plain = self.make(sizes, domain=24)
            want = list(self.streams(self.repack(plain, "--rel=1e-3")))
            small = self.path("gpu.h5")
            said = self.terp(
                "repack", plain, small, "--rel=1e-3", "--engine=cuda",
                "--verbose",
                env={"TERP_CUDA_LIBRARY": os.environ["TEST_EMULATED"]})
            self.assertIn("100 % by the GPU", said)
            self.assertEqual(list(self.streams(small)), want)
            os.unlink(small)

    def test_missing_cells_come_back(self):
        plain = self.make((8, 16))
        with h5py.File(plain, "r+") as file:
            data = file["level_0"][DATA]
            values = data[()]
            values[::97] = np.nan
            values[5::101] = np.inf
            data[...] = values
        small = self.repack(plain, "--rel=1e-3")
        with h5py.File(small, "r") as file:
            got = file["level_0"][DATA][()]
        np.testing.assert_array_equal(got[~np.isfinite(values)],
                                      values[~np.isfinite(values)])
        self.assertTrue(np.isfinite(got[np.isfinite(values)]).all())

    # The parameters in the file have the bound of the largest component.
    def test_compare_judges_each_part_by_its_bound(self):
        for sizes in (8, 16, 32), (8,):
            plain = self.make(sizes)
            small = self.repack(plain, "--rel=1e-3")
            ranges = self.ranges()
            offsets = self.level.offsets()
            last = len(offsets) - 2
            for component in range(3):
                size = self.level.values[last][component].size
                at = offsets[last] + component * size + size // 2
                with h5py.File(plain, "r+") as file:
                    data = file["level_0"][DATA]
                    before = data[at]
                    data[at] += 3e-3 * ranges[component]
                said = self.terp("compare", plain, small, code=1)
                self.assertRegex(said, "EXCEEDED .*" + DATA)
                self.assertRegex(said, ": 1 of [34] chunks exceed ")
                with h5py.File(plain, "r+") as file:
                    file["level_0"][DATA][at] = before
                self.terp("compare", plain, small)

    # compare needs whole values: it cannot compute the error of half a value.
    def test_compare_refuses_members_that_are_parts_of_values(self):
        plain, small = self.path("plain.h5"), self.path("small.h5")
        values = np.linspace(1, 2, 2048, dtype="f4")
        with h5py.File(plain, "w") as file:
            file["x"] = values
        with h5py.File(small, "w") as file:
            parts = file.create_dataset(
                "parts", data=np.zeros(1024, ",".join(["u1"] * 4)),
                chunks=(1024,), compression=amrex.TERP,
                compression_opts=(1, 1, 3))
            file.flush()
            stream = parts.id.read_direct_chunk((0,))[1]
            self.assertTrue(stream.startswith(CONTAINER))
            data = file.create_dataset(
                "x", data=values, chunks=(1024,), compression=amrex.TERP,
                compression_opts=(1, 1, 3))
            file.flush()
            data.id.write_direct_chunk((0,), stream)
            del file["parts"]
        said = self.terp("compare", plain, small, code=1)
        self.assertIn("cannot read the bound of a chunk of B", said)

    # HDF5 decodes the chunk, changes it, and has the filter encode it again.
    def test_writing_to_a_box_leaves_all_others(self):
        for sizes in (8, 16, 32), (8,):
            plain = self.make(sizes)
            small = self.repack(plain, "--rel=1e-3")
            ranges = self.ranges()
            with h5py.File(small, "r") as file:
                before = file["level_0"][DATA][()]
            begin = self.level.offsets()[3]
            size = self.level.values[3][0].size
            want = before.copy()
            want[begin:begin + size] += np.float32(ranges[0])
            with h5py.File(small, "r+") as file:
                file["level_0"][DATA][begin:begin + size] = \
                    want[begin:begin + size]
            with h5py.File(small, "r") as file:
                got = file["level_0"][DATA][()]
            self.assertLessEqual(
                np.abs(got[begin:begin + size].astype("f8") -
                       want[begin:begin + size]).max(), 1e-3 * ranges[0])
            want[begin:begin + size] = got[begin:begin + size]
            np.testing.assert_array_equal(got, want)
            # Nothing is encoded with the bound of the largest component.
            self.assertTrue(all(stream.startswith(CONTAINER)
                                for _, _, stream in self.streams(small)))

    # HDF5 does not decode a chunk that is written as a whole, and the filter may
    # not find the stream of one that is 0 almost everywhere. The bound of the
    # largest component would leave nothing of the others.
    def test_nothing_is_encoded_by_the_largest_bound(self):
        for sizes in (8, 16, 32), (8,), (32,):
            plain = self.make(sizes)
            with h5py.File(plain, "r+") as file:
                data = file["level_0"][DATA]
                values = data[()]
                values[:values.size // 2] = 0
                values[100:values.size // 2:5000] = 1e-10
                data[...] = values
            small = self.repack(plain, "--rel=1e-3")
            with h5py.File(small, "r+", rdcc_nbytes=1 << 26) as file:
                data = file["level_0"][DATA]
                length, = data.chunks
                want = data[()]
                at = np.arange(length // 3, want.size // 2, length)
                for i in at:
                    data[i] = 5e-10
                want[at] = np.float32(5e-10)
            self.check_equal(small, want)
            want = np.roll(want, 7)
            with h5py.File(small, "r+") as file:
                file["level_0"][DATA][...] = want
            self.check_equal(small, want)

    def check_equal(self, path, want):
        with h5py.File(path, "r") as file:
            np.testing.assert_array_equal(file["level_0"][DATA][()], want)

    def test_info_counts_streams_of_parts(self):
        small = self.repack(self.make((8, 16, 32)), "--rel=1e-3")
        found, = (dataset for dataset in json.loads(
            self.terp("info", "--json", small))["files"][0]["datasets"]
            if dataset["path"].endswith(DATA))
        self.assertEqual(found["streams"]["kinds"]["by_member"], 3)
        nstreams = sum(found["streams"]["predictors"].values())
        self.assertGreaterEqual(nstreams, 3 * len(self.level.values))
        self.assertIn(": 3 by member\n", self.terp("info", "-v", small))

    def test_damage_is_found_and_salvaged(self):
        small = self.repack(self.make((8, 16, 32)), "--rel=1e-3")
        with h5py.File(small, "r") as file:
            data = file["level_0"][DATA].id
            place = data.get_chunk_info(1)
            before = file["level_0"][DATA][()]
            length, = file["level_0"][DATA].chunks
        with open(small, "r+b") as file:
            file.seek(place.byte_offset + place.size - 20)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
        self.terp("verify", small, code=1)
        self.assertIn("DAMAGED", self.terp("info", small, code=1))
        saved = self.repack(small, "--lossless", "--salvage", name="saved.h5",
                            code=1)
        with h5py.File(saved, "r") as file:
            got = file["level_0"][DATA][()]
        before[length:2 * length] = np.nan  # the fill value of --salvage
        np.testing.assert_array_equal(got, before)

    def test_preview_and_advice(self):
        plain = self.make((8, 16, 32))
        small = self.repack(plain, "--rel=1e-3")
        preview = self.path("preview.h5")
        self.terp("preview", small, preview)
        with h5py.File(small, "r") as a, h5py.File(preview, "r") as b:
            np.testing.assert_array_equal(a["level_0"][DATA][()],
                                          b["level_0"][DATA][()])
        for path in plain, small:
            said = self.terp("advise", path)
            for name in amrex.COMPONENTS:
                self.assertIn(f"\n/level_0/{DATA}, {name}\n", said)


if __name__ == "__main__":
    unittest.main()
