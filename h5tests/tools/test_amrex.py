"""Plotfiles in AMReX's layout, compressed as bricks by h5py, h5repack and terp
repack. TEST_H5REPACK and TEST_TERP name the tools if they exist."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..",
                                os.pardir, "examples"))
import amrex_plotfile as amrex

H5REPACK = os.environ.get("TEST_H5REPACK")
TERP = os.environ.get("TEST_TERP")
DOMAIN, BOX = 64, 16
DATA = "data:datatype=0"
STACK = 4  # flag of doc/cd_values.md, "Form in the file"


def chunks(path, number):
    """The stored chunks of a level."""
    with h5py.File(path, "r") as file:
        data = file[f"level_{number}"][DATA].id
        return [data.read_direct_chunk(data.get_chunk_info(i).chunk_offset)
                for i in range(data.get_num_chunks())]


class PlotfileTest(unittest.TestCase):
    def setUp(self):
        self.levels = amrex.example_levels(DOMAIN, BOX)
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, **options):
        amrex.write_plotfile(self.path(name), self.levels, **options)
        return self.path(name)

    def ratio(self, path):
        nbytes, stored_nbytes = amrex.stored(path)
        return nbytes / stored_nbytes

    def check_bound(self, path, ranges):
        """`ranges`: the values to which a relative bound refers."""
        for number, level in enumerate(self.levels):
            for i, name in enumerate(amrex.COMPONENTS):
                boxes = amrex.read_boxes(path, number, name)
                for box, (low, got) in enumerate(boxes):
                    np.testing.assert_array_equal(low, level.low[box])
                    want = level.values[box][i].astype("f8")
                    error = np.abs(want - got).max()
                    self.assertLessEqual(error, 1e-3 * ranges(level, box, i))


class FilterTest(PlotfileTest):
    def check_bricks(self, path, nboxes):
        """The cd_values in the file give stacks of `nboxes` cubes."""
        with h5py.File(path, "r") as file:
            for number in range(len(self.levels)):
                data = file[f"level_{number}"][DATA]
                dcpl = data.id.get_create_plist()
                words = dcpl.get_filter_by_id(amrex.TERP)[1]
                layout = words[3]
                self.assertTrue(layout >> 16 & STACK)
                self.assertEqual(layout >> 24, 4)
                self.assertEqual(words[7::2][:4], (nboxes, BOX, BOX, BOX))

    # The encoder finds the boxes.
    def test_lines_are_as_small_as_bricks(self):
        options = amrex.brick_options(BOX)
        bricks = self.write("bricks.h5", **options)
        options["compression_opts"] = amrex.BOUND
        lines = self.write("lines.h5", **options)
        self.assertGreater(self.ratio(lines), 0.99 * self.ratio(bricks))
        self.check_bricks(bricks, 1)
        for path in bricks, lines:
            self.check_bound(path, lambda level, box, i:
                             float(np.ptp(level.values[box][i])))

    # The cd_values for programs that cannot leave boxes to the filter.
    @unittest.skipUnless(TERP, "the terp tool is not built")
    def test_words_for_a_chunk_are_those_in_the_file(self):
        for dtype, box, nboxes in ("float32", 16, 2), ("float64", 8, 1):
            path = self.path("words.h5")
            with h5py.File(path, "w") as file:
                data = file.create_dataset(
                    "x", (4 * box**3,), dtype,
                    **amrex.brick_options(box, nboxes))
                dcpl = data.id.get_create_plist()
                stored = dcpl.get_filter_by_id(amrex.TERP)[1]
            said = subprocess.run(
                [TERP, "args", "--rel=1e-3", f"--chunk={nboxes * box**3}",
                 f"--brick={box}x{box}x{box}", f"--type={dtype}"],
                stdout=subprocess.PIPE, text=True, check=True).stdout
            config = json.loads(re.search(r"^openPMD +(.*)$", said,
                                          re.MULTILINE)[1])
            filters = config["hdf5"]["dataset"]["permanent_filters"]
            self.assertEqual(filters["cd_values"],
                             [word & 0xFFFFFFFF for word in stored])

    # Three components of a box share a chunk, and so a bound.
    def test_chunk_of_several_boxes_is_a_stack(self):
        path = self.write("stacks.h5", **amrex.brick_options(BOX, 3))
        self.check_bricks(path, 3)
        self.check_bound(path, lambda level, box, _:
                         float(np.ptp(level.values[box])))

    @unittest.skipUnless(H5REPACK, "no h5repack here")
    def test_h5repack_writes_the_chunks_that_h5py_writes(self):
        plain, small = self.write("plain.h5"), self.path("small.h5")
        bricks = self.write("bricks.h5", **amrex.brick_options(BOX))
        words = *amrex.BOUND, 3, BOX, BOX, BOX
        subprocess.run([H5REPACK, "-l", f"CHUNK={BOX**3}", "-f",
                        f"UD={amrex.TERP},1,{len(words)}," +
                        ",".join(map(str, words)), plain, small], check=True)
        for number in range(len(self.levels)):
            self.assertEqual(chunks(small, number), chunks(bricks, number))
        with h5py.File(plain, "r") as want, h5py.File(small, "r") as got:
            for number in range(len(self.levels)):
                for name in "boxes", "boxcenter", "data:offsets=0":
                    name = f"level_{number}/{name}"
                    np.testing.assert_array_equal(want[name][()], got[name][()])


def exact_words(mode, bound):
    """The mode, and a float64 in two words, the low word first."""
    bits = int(np.float64(bound).view("u8"))
    return 65536 + mode, bits & 0xFFFFFFFF, bits >> 32


class MixedBoxesTest(PlotfileTest):
    """The table of doc/simulations.md, "While writing", row by row: boxes of
    several sizes, components with very different ranges."""

    def setUp(self):
        super().setUp()
        boxes = [((0, 0, 0), (32, 32, 32)), ((32, 0, 0), (8, 16, 32)),
                 ((40, 0, 0), (16, 8, 8)), ((0, 32, 0), (24, 32, 16))]
        self.levels = [amrex.make_level(64, boxes)]
        for box in self.levels[0].values:
            box *= np.array([1e-9, 1, 1e3], "f4").reshape(3, 1, 1, 1)

    def test_single_dset_in_chunks_that_divide_all_boxes(self):
        sizes = [box[0].size for box in self.levels[0].values]
        path = self.write("rel.h5", chunks=(int(np.gcd.reduce(sizes)),),
                          compression=amrex.TERP,
                          compression_opts=exact_words(2, 1e-3))
        self.check_bound(path, component_range)
        self.assertGreater(self.ratio(path), 2)

    def test_single_dset_by_a_bound_of_each_value(self):
        path = self.write("pwr.h5", chunks=(32768,), compression=amrex.TERP,
                          compression_opts=exact_words(3, 1e-3))
        self.assertGreater(self.ratio(path), 2)
        for i, name in enumerate(amrex.COMPONENTS):
            for box, (_, got) in zip(self.levels[0].values,
                                     amrex.read_boxes(path, 0, name)):
                want = box[i].astype("f8")
                self.assertTrue((np.abs(want - got) <=
                                 1e-3 * np.abs(want)).all())

    def test_dataset_of_each_component_by_its_range(self):
        level, path = self.levels[0], self.path("multi.h5")
        with h5py.File(path, "w") as file:
            for i in range(len(amrex.COMPONENTS)):
                want = np.concatenate([box[i].ravel() for box in level.values])
                bound = 1e-3 * component_range(level, 0, i)
                data = file.create_dataset(
                    f"data:datatype={i}", data=want, chunks=(32768,),
                    compression=amrex.TERP,
                    compression_opts=exact_words(1, bound))
                self.assertLessEqual(
                    np.abs(want.astype("f8") - data[()]).max(), bound)
                self.assertGreater(data.nbytes / data.id.get_storage_size(), 2)


def component_range(level, _, i):
    """Values of a component on the whole level, without non-finite ones."""
    values = np.concatenate([box[i].reshape(-1) for box in level.values])
    return float(np.ptp(values[np.isfinite(values)].astype("f8")))


@unittest.skipUnless(TERP, "the terp tool is not built")
class RepackTest(PlotfileTest):
    def repack(self, path, *arguments, code=0):
        """The output file and the messages."""
        out = self.path("out.h5")
        result = subprocess.run([TERP, "repack", path, out, *arguments],
                                stdout=subprocess.PIPE, text=True,
                                stderr=subprocess.STDOUT)
        self.assertEqual(result.returncode, code, result.stdout)
        return out, re.sub(r"^.* -> .*, ratio .* s\n\Z", "", result.stdout,
                           flags=re.M)

    def ratio_of_lines(self, levels):
        """The ratio without boxes. The components get one range, because they
        share a bound."""
        self.levels = [
            amrex.Level(level.domain, level.low, level.high,
                        [box / ranges for box in level.values])
            for level in levels
            for ranges in [np.array(
                [component_range(level, 0, i) for i in range(3)],
                "f4").reshape(3, 1, 1, 1)]]
        return self.ratio(self.repack(self.write("lines.h5"), "--rel=1e-3",
                                      "--no-amrex")[0])

    def check(self, levels, gain, chunk, *arguments):
        """Repacks levels. Chunks have the given length. The compression ratio
        is `gain` times that of lines, whose chunks are longer and may hold
        many boxes that the encoder finds."""
        ratio_of_lines = self.ratio_of_lines(levels)
        self.levels = levels
        plain = self.write("plain.h5")
        small, said = self.repack(plain, "--amrex", "--rel=1e-3", *arguments)
        self.assertEqual(said, "")
        self.assertGreater(self.ratio(small), gain * ratio_of_lines)
        self.check_bound(small, component_range)
        for number in range(len(levels)):
            with h5py.File(small, "r") as file:
                data = file[f"level_{number}"][DATA]
                self.assertEqual(data.chunks, (chunk,))
        self.assertEqual(subprocess.run([TERP, "compare", plain, small],
                                        stdout=subprocess.PIPE).returncode, 0)

    def test_equal_boxes_are_chunks(self):
        self.check(amrex.example_levels(DOMAIN, 32), 0.6, 32**3)

    def test_unequal_boxes_are_cut_in_slabs(self):
        boxes = [((0, 0, 0), (32, 32, 32)), ((32, 0, 0), (32, 32, 48)),
                 ((0, 32, 0), (64, 32, 24)), ((0, 0, 32), (16, 32, 32))]
        levels = [amrex.make_level(64, boxes)]
        self.check(levels, 1, 14 * 16 * 32 * 32)
        self.check(levels, 0.7, 16 * 32 * 32, "--format=1")

    # No length divides all boxes, so chunks that terp 1 reads are lines, some
    # with two components.
    def test_odd_boxes_keep_the_bounds(self):
        boxes = [((0, 0, 0), (31, 29, 37)), ((31, 0, 0), (33, 15, 30)),
                 ((0, 29, 0), (19, 20, 21))]
        levels = [amrex.make_level(64, boxes)]
        self.check(levels, 1, levels[0].offsets()[-1])
        self.check(levels, 0.3, 19 * 20 * 21 // 8, "--format=1")

    def test_small_boxes_share_chunks(self):
        levels = [amrex.make_level(64, amrex.tiled(0, 64, 8))]
        self.check(levels, 0.7, 128 * 8**3 * len(amrex.COMPONENTS))
        self.check(levels, 0.5, 8**3, "--format=1")

    def test_large_boxes_are_cut(self):
        self.check([amrex.make_level(192, [((0, 0, 0), (192, 128, 129))])], 2,
                   43 * 128 * 192)

    def test_doubles_and_missing_cells_come_back(self):
        level = amrex.make_level(64, amrex.tiled(0, 64, 32))
        level.values = [box.astype("f8") for box in level.values]
        level.values[1][1, 3:5, 7] = np.nan
        level.values[2][0] = 4.25
        self.levels = [level]
        small, _ = self.repack(self.write("plain.h5"), "--amrex", "--abs=1e-3")
        for i, name in enumerate(amrex.COMPONENTS):
            for box, (_, got) in zip(level.values,
                                     amrex.read_boxes(small, 0, name)):
                np.testing.assert_array_equal(np.isnan(box[i]), np.isnan(got))
                self.assertLessEqual(np.nanmax(np.abs(box[i] - got)), 1e-3)

    # If no length divides the boxes, a search gains something.
    def test_effort_reaches_the_streams(self):
        boxes = [((0, 0, 0), (31, 29, 37)), ((31, 0, 0), (33, 15, 30)),
                 ((0, 29, 0), (19, 20, 21))]
        self.levels = [amrex.make_level(64, boxes)]
        plain = self.write("plain.h5")
        options = "--amrex", "--rel=1e-3", "--format=1"
        ratio = self.ratio(self.repack(plain, *options)[0])
        best, _ = self.repack(plain, *options, "--effort=best")
        self.assertGreater(self.ratio(best), ratio)
        self.check_bound(best, component_range)

    def test_threads_do_not_change_a_chunk(self):
        plain = self.write("plain.h5")
        stored = []
        for nthreads in 1, 3:
            small, _ = self.repack(plain, "--amrex", "--psnr=60",
                                   f"--threads={nthreads}")
            stored.append([chunks(small, n) for n in range(len(self.levels))])
        self.assertEqual(*stored)

    # AMReX's other layout: a dataset for each component.
    def test_components_in_datasets_of_their_own(self):
        plain = self.write("plain.h5")
        with h5py.File(plain, "r+") as file:
            for number, level in enumerate(self.levels):
                group = file[f"level_{number}"]
                del group[DATA]
                group["data:offsets=0"][...] //= len(amrex.COMPONENTS)
                for i in range(len(amrex.COMPONENTS)):
                    group[f"data:datatype={i}"] = np.concatenate(
                        [box[i].reshape(-1) for box in level.values])
        small, said = self.repack(plain, "--amrex", "--rel=1e-3")
        self.assertEqual(said, "")
        with h5py.File(small, "r") as file:
            for number, level in enumerate(self.levels):
                for i in range(len(amrex.COMPONENTS)):
                    data = file[f"level_{number}/data:datatype={i}"]
                    # Boxes of one component share a bound, and so a chunk.
                    self.assertEqual(data.chunks,
                                     (len(level.values) * BOX**3,))
                    want = np.concatenate(
                        [box[i].reshape(-1) for box in level.values])
                    error = np.abs(want.astype("f8") - data[()]).max()
                    self.assertLessEqual(error, 1e-3 *
                                         component_range(level, 0, i))

    def test_maps_of_two_dimensions(self):
        names = "lo_i", "lo_j", "hi_i", "hi_j"
        boxes = np.array([(0, 0, 127, 63), (128, 0, 255, 63)],
                         [(name, "i4") for name in names])
        x, y = np.arange(256), np.arange(64)[:, None]
        field = np.sin(0.05 * x) * np.cos(0.07 * y)
        want = np.concatenate([field[:, :128].reshape(-1),
                               field[:, 128:].reshape(-1)])
        plain = self.path("plain.h5")
        with h5py.File(plain, "w") as file:
            file["level_0/boxes"] = boxes
            file["level_0/data:offsets=0"] = [0, 8192, 16384]
            file["level_0/" + DATA] = want
        small, said = self.repack(plain, "--amrex", "--abs=1e-4")
        self.assertEqual(said, "")
        with h5py.File(small, "r") as file:
            data = file["level_0"][DATA]
            self.assertEqual(data.chunks, (16384,))
            self.assertLessEqual(np.abs(data[()] - want).max(), 1e-4)
            words = data.id.get_create_plist().get_filter_by_id(amrex.TERP)[1]
            self.assertTrue(words[3] >> 16 & STACK)
            self.assertEqual(words[7::2][:4], (2, 1, 64, 128))

    def check_without_boxes(self, reason):
        """The level is compressed like other data, and a message says why."""
        small, said = self.repack(self.path("plain.h5"), "--amrex",
                                  "--rel=1e-3")
        self.assertIn("/level_0/data:datatype=0: compressed as a line, not box "
                      "by box: " + reason, said)
        self.assertGreater(self.ratio(small), 2)
        level = self.levels[0]
        whole = float(np.ptp(np.stack(level.values).astype("f8")))
        with h5py.File(small, "r") as file:
            got = file["level_0"][DATA][()]
        want = np.concatenate([box.reshape(-1) for box in level.values])
        self.assertLessEqual(np.abs(want.astype("f8") - got).max(),
                             1e-3 * whole)

    def test_boxes_that_do_not_fit_are_said(self):
        for change, reason in (
                (lambda g: g["data:offsets=0"].__setitem__(3, 5),
                 "its boxes and data:offsets=0 contradict each other"),
                (lambda g: g["boxes"].__setitem__(0, (0, 0, 0, 15, 15, 16)),
                 "its boxes and data:offsets=0 contradict each other"),
                (lambda g: g["boxes"].__setitem__(0, (0, 0, 0, -9, 15, 15)),
                 "its boxes and data:offsets=0 contradict each other"),
                (lambda g: g.__delitem__("data:offsets=0"),
                 "its group has no data:offsets=0 that fits the boxes"),
                (lambda g: g.__delitem__("boxes"),
                 "its group has no readable dataset boxes")):
            with self.subTest(reason):
                with h5py.File(self.write("plain.h5"), "r+") as file:
                    change(file["level_0"])
                self.check_without_boxes(reason)

    def test_record_is_of_the_whole_level(self):
        plain = self.write("plain.h5")
        bare, _ = self.repack(plain, "--amrex", "--rel=1e-3")
        stored = [chunks(bare, n) for n in range(len(self.levels))]
        small, _ = self.repack(plain, "--amrex", "--rel=1e-3", "--record")
        with h5py.File(small, "r") as file:
            for number, level in enumerate(self.levels):
                group = file[f"level_{number}"]
                for name in set(group) - {DATA}:
                    self.assertFalse(
                        [n for n in group[name].attrs if n.startswith("terp_")])
                data = group[DATA]
                found = {name: value for name, value in data.attrs.items()
                         if name.startswith("terp_")}
                got = data[()].astype("f8")
                want = np.concatenate(
                    [box.reshape(-1) for box in level.values]).astype("f8")
                error = np.abs(want - got)
                self.assertRegex(found.pop("terp_implementation").decode(),
                                 r"^terp \d")
                self.assertEqual(found.pop("terp_bound_kind"), b"relative")
                self.assertEqual(found.pop("terp_bound"), 1e-3)
                self.assertEqual(found.pop("terp_max_error"), error.max())
                ranges = [component_range(level, 0, i) for i in range(3)]
                self.assertGreater(max(ranges), 10 * min(ranges))
                self.assertAlmostEqual(
                    found.pop("terp_absolute_bound") / (1e-3 * max(ranges)), 1,
                    12)
                self.assertAlmostEqual(
                    found.pop("terp_psnr"),
                    20 * np.log10(np.ptp(want) / np.sqrt(np.mean(error**2))), 6)
                self.assertEqual(found, {})
                self.assertGreater(error.max(), 0)
        # Other components have smaller bounds, which are kept.
        self.check_bound(small, component_range)
        self.assertEqual([chunks(small, n) for n in range(len(self.levels))],
                         stored)

    def test_what_is_whole_of_a_level_is_salvaged(self):
        plain = self.write("plain.h5", chunks=(BOX**3,), compression="gzip")
        with h5py.File(plain, "r") as file:
            info = file["level_0"][DATA].id.get_chunk_info(4)
        at = info.chunk_offset[0]
        with open(plain, "r+b") as file:
            file.seek(info.byte_offset)
            file.write(bytes(info.size))
        _, said = self.repack(plain, "--amrex", "--rel=1e-3", code=2)
        self.assertIn("/level_0/" + DATA, said)
        small, said = self.repack(plain, "--amrex", "--rel=1e-3", "--salvage",
                                  code=1)
        self.assertIn(f"/level_0/{DATA}[{at}:{at + BOX**3}]: DAMAGED", said)
        self.assertEqual(said.count("DAMAGED"), 1)
        with h5py.File(small, "r") as file:
            data = file["level_0"][DATA]
            self.assertEqual(list(data.attrs["terp_lost"]),
                             [b"%d:%d" % (at, at + BOX**3)])
            is_lost = np.isnan(data[()])
            self.assertNotIn("terp_lost", file["level_1"][DATA].attrs)
        self.assertTrue(is_lost[at:at + BOX**3].all())
        self.assertEqual(is_lost.sum(), BOX**3)
        # The range of each component is that of all boxes, or smaller.
        for number, level in enumerate(self.levels):
            for i, name in enumerate(amrex.COMPONENTS):
                for box, (_, got) in zip(
                        level.values, amrex.read_boxes(small, number, name)):
                    error = np.abs(box[i].astype("f8") - got)
                    self.assertLessEqual(
                        np.nanmax(error, initial=0),
                        1e-3 * component_range(level, 0, i))

    def test_levels_are_found_without_an_option(self):
        plain = self.write("plain.h5")
        for option in "--rel=1e-3", "--lossless":
            with self.subTest(option):
                forced, _ = self.repack(plain, "--amrex", option)
                want = [chunks(forced, n) for n in range(len(self.levels))]
                small, said = self.repack(plain, option)
                self.assertEqual(said, "")
                self.assertEqual(
                    [chunks(small, n) for n in range(len(self.levels))], want)
        small, said = self.repack(plain, "--rel=1e-3", "--verbose")
        self.check_bound(small, component_range)
        for name in amrex.COMPONENTS:
            self.assertIn(name + ": absolute bound ", said)

    def test_psnr_is_of_each_component(self):
        small, _ = self.repack(self.write("plain.h5"), "--psnr=60")
        for number, level in enumerate(self.levels):
            for i, name in enumerate(amrex.COMPONENTS):
                errors = [box[i].astype("f8") - got for box, (_, got) in zip(
                    level.values, amrex.read_boxes(small, number, name))]
                psnr = 20 * np.log10(component_range(level, 0, i) /
                                     np.sqrt(np.mean(np.square(errors))))
                self.assertGreater(psnr, 59.5)

    def test_lines_are_taken_where_they_are_asked_for(self):
        plain = self.write("plain.h5")
        small, said = self.repack(plain, "--rel=1e-3", "--no-amrex")
        self.assertIn("is for all of its components", said)
        whole = float(np.ptp(np.stack(self.levels[0].values).astype("f8")))
        with h5py.File(small, "r") as file:
            data = file["level_0"][DATA]
            words = data.id.get_create_plist().get_filter_by_id(amrex.TERP)[1]
            bound = np.array(words[1:3], "u4").view("f8")[0]
        self.assertAlmostEqual(bound / (1e-3 * whole), 1, 6)
        _, said = self.repack(plain, "--rel=1e-3", "--no-amrex", "--amrex",
                              code=2)
        self.assertIn("give only one of --amrex and --no-amrex", said)

    # Boxes of 8 and of 24 cells a side no longer have a common length.
    def test_boxes_share_chunks_where_they_share_the_bound(self):
        boxes = [((0, 0, 0), (24, 24, 24)), ((24, 0, 0), (8, 8, 8)),
                 ((0, 24, 0), (32, 8, 40)), ((32, 0, 0), (16, 40, 24))]
        self.levels = [amrex.make_level(64, boxes)]
        plain = self.write("plain.h5")
        for option, chunk in (("--rel=1e-3", 512), ("--lossless", 32768),
                              ("--pwr=1e-3", 32768)):
            small, said = self.repack(plain, option, "--format=1")
            self.assertEqual(said, "")
            with h5py.File(small, "r") as file:
                self.assertEqual(file["level_0"][DATA].chunks, (chunk,))
            if option == "--lossless":
                self.check_bound(small, lambda level, box, i: 0)

    # The signs of other components in a chunk do not matter.
    def test_component_that_is_never_negative_stays_so(self):
        for level in self.levels:
            for box in level.values:
                box[0] = np.maximum(box[0] - 1, 0) ** 3 / 100
                box[1:] = box[1:] / np.abs(box[1:]).max()
        plain = self.write("plain.h5")
        for arguments, negative in ((["--keep-sign=none"], True), ([], False)):
            for bound in "--abs=1e-2", "--rel=1e-2":
                small, _ = self.repack(plain, bound, *arguments)
                boxes = amrex.read_boxes(small, 0, "density")
                least = min(got.min() for _, got in boxes)
                self.assertEqual(least < 0, negative, bound)

    def test_absolute_bound_for_several_components_tells_their_ranges(self):
        plain = self.write("plain.h5")
        _, said = self.repack(plain, "--abs=10")
        self.assertIn("/level_0/data:datatype=0: it has 3 components with the "
                      "ranges density ", said)
        self.assertRegex(said, r"Temp [\d.e+]+ and xmom [\d.e+]+; one bound of "
                               r"10 for all leaves little")
        self.assertEqual(self.repack(plain, "--abs=1e-3")[1], "")

    def check_ghosts(self, attribute, ncells, ndims=3):
        """Chombo's boxes, with ghost cells around those of the level."""
        box = 8
        shape = (box + 2 * ncells,) * ndims
        scale = np.array([1, 1e6], "f8")
        random = np.random.default_rng(5)
        values = [np.stack([
            s * (1 + np.sin(random.uniform(0, 3, ()) + sum(np.meshgrid(
                *[np.arange(n) / 5 for n in shape], indexing="ij"))))
            for s in scale]) for _ in range(8)]
        axes = "ijk"[:ndims]
        vector = np.dtype([("intvect" + axis, "i4") for axis in axes])
        corners = np.dtype([(end + axis, "i4") for end in ("lo_", "hi_")
                            for axis in axes])
        plain = self.path("chombo.h5")
        with h5py.File(plain, "w") as file:
            file.attrs["num_components"] = 2
            file.attrs["component_0"] = "lapse"
            file.attrs["component_1"] = "K"
            group = file.create_group("level_0")
            group["boxes"] = np.array(
                [(8 * i,) + (0,) * (ndims - 1) + (8 * i + 7,) +
                 (7,) * (ndims - 1) for i in range(8)], corners)
            sizes = [v.size for v in values]
            group["data:offsets=0"] = np.concatenate(([0], np.cumsum(sizes)))
            group[DATA] = np.concatenate([v.reshape(-1) for v in values])
            told = group.create_group("data_attributes").attrs
            told["comps"] = np.int32(2)
            told["outputGhost"] = np.array((0,) * ndims, vector)
            told["ghost"] = np.array((3,) * ndims, vector)
            told[attribute] = np.array((ncells,) * ndims, vector)
        small, said = self.repack(plain, "--rel=1e-3", "--verbose")
        self.assertIn("lapse: absolute bound", said)
        self.assertNotIn("not taken", said)
        with h5py.File(small, "r") as file:
            got = file["level_0"][DATA][()]
        want = np.stack(values)
        got = got.reshape(want.shape)
        for i in range(2):
            self.assertLessEqual(np.abs(got[:, i] - want[:, i]).max(),
                                 1e-3 * np.ptp(want[:, i]))

    def test_ghost_cells_of_chombo_belong_to_boxes(self):
        for ncells in 0, 2, 4:  # with 4, as large as 8 without
            for attribute in "outputGhost", "ghost":
                with self.subTest(f"{attribute} {ncells}"):
                    self.check_ghosts(attribute, ncells)
        self.check_ghosts("outputGhost", 12, 2)

    def test_integers_of_such_a_name_are_no_level(self):
        with h5py.File(self.path("plain.h5"), "w") as file:
            file["level_0/" + DATA] = np.arange(10000)
        self.assertEqual(
            self.repack(self.path("plain.h5"), "--rel=1e-3")[1], "")

    def test_preview_keeps_boxes_whole(self):
        plain = self.write("plain.h5")
        with h5py.File(plain, "r+") as file:
            for number, level in enumerate(self.levels):
                file[f"level_{number}/Processors"] = np.arange(len(level.low))
            file["x"] = np.arange(100.0)
        lossy, _ = self.repack(plain, "--rel=1e-3")
        small = self.path("preview.h5")
        said = subprocess.run([TERP, "preview", lossy, small, "--verbose"],
                              check=True, stdout=subprocess.PIPE,
                              text=True).stdout
        self.assertIn("/level_0/boxes: all values, because they belong to boxes", said)
        self.assertIn("/x: every 4th value", said)
        with h5py.File(lossy, "r") as want, h5py.File(small, "r") as got:
            self.assertEqual(got["x"].shape, (25,))
            for number in range(len(self.levels)):
                for name in want[f"level_{number}"]:
                    name = f"level_{number}/{name}"
                    np.testing.assert_array_equal(want[name][()],
                                                  got[name][()])
        self.check_bound(small, component_range)

    def test_advise_measures_each_component(self):
        plain = self.write("plain.h5")
        said = subprocess.run([TERP, "advise", plain], check=True,
                              stdout=subprocess.PIPE, text=True).stdout
        for name in amrex.COMPONENTS:
            self.assertIn(f"\n/level_1/{DATA}, {name}\n", said)
        # The printed command keeps the bound of each component.
        command = re.search(r"^  terp repack IN OUT (.*)$", said, re.MULTILINE)
        small, _ = self.repack(plain, *command[1].split())
        self.check_bound(small, component_range)
        ranges = re.findall(r", values (\S+) to (\S+)$", said, re.MULTILINE)
        for (low, high), (level, i) in zip(
                ranges, [(level, i) for level in self.levels
                         for i in range(3)]):
            self.assertLessEqual(float(high) - float(low),
                                 1.001 * component_range(level, 0, i))

    # Datasets of fewer than 4096 values are copied, but still count as levels.
    def test_levels_too_small_to_compress_are_levels(self):
        level = amrex.make_level(8, amrex.tiled(0, 8, 4))
        level.values = [box[:1] for box in level.values]
        self.levels = [level]
        small, said = self.repack(self.write("plain.h5", names=("density",)),
                                  "--amrex", "--rel=1e-3")
        self.assertEqual(said, "")
        (_, got), *_ = amrex.read_boxes(small, 0, "density")
        np.testing.assert_array_equal(got, level.values[0][0])

    def test_file_without_levels_is_refused(self):
        with h5py.File(self.path("plain.h5"), "w") as file:
            file["x"] = np.arange(10000.0)
        out, said = self.repack(self.path("plain.h5"), "--amrex", "--rel=1e-3",
                                code=2)
        self.assertIn("found no level of an AMReX plotfile", said)
        self.assertFalse(os.path.exists(out))


if __name__ == "__main__":
    unittest.main()
