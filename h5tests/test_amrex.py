"""Plotfiles as AMReX writes them, compressed as bricks: by h5py, by h5repack.
TEST_H5REPACK names h5repack, if there is one."""
import os
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                os.pardir, "examples"))
import amrex_plotfile as amrex

H5REPACK = os.environ.get("TEST_H5REPACK")
DOMAIN, BOX = 64, 16
DATA = "data:datatype=0"
STACK = 4  # flag of doc/cd_values.md, "Form in the file"


def chunks(path, number):
    """The chunks of a level as they are stored."""
    with h5py.File(path, "r") as file:
        data = file[f"level_{number}"][DATA].id
        return [data.read_direct_chunk(data.get_chunk_info(i).chunk_offset)
                for i in range(data.get_num_chunks())]


class PlotfileTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.levels = amrex.example_levels(DOMAIN, BOX)

    def setUp(self):
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

    def check_bricks(self, path, nboxes):
        """The words in the file say stacks of `nboxes` cubes."""
        with h5py.File(path, "r") as file:
            for number in range(len(self.levels)):
                data = file[f"level_{number}"][DATA]
                dcpl = data.id.get_create_plist()
                words = dcpl.get_filter_by_id(amrex.TERP)[1]
                layout = words[3]
                self.assertTrue(layout >> 16 & STACK)
                self.assertEqual(layout >> 24, 4)
                self.assertEqual(words[7::2][:4], (nboxes, BOX, BOX, BOX))

    def check_bound(self, path, ranges):
        """`ranges`: of which values a chunk's bound is relative."""
        for number, level in enumerate(self.levels):
            for i, name in enumerate(amrex.COMPONENTS):
                boxes = amrex.read_boxes(path, number, name)
                for box, (low, got) in enumerate(boxes):
                    np.testing.assert_array_equal(low, level.low[box])
                    want = level.values[box][i].astype("f8")
                    error = np.abs(want - got).max()
                    self.assertLessEqual(error, 1e-3 * ranges(level, box, i))

    def test_bricks_are_at_most_half_as_large_as_lines(self):
        options = amrex.brick_options(BOX)
        bricks = self.write("bricks.h5", **options)
        options["compression_opts"] = amrex.BOUND
        lines = self.write("lines.h5", **options)
        self.assertGreater(self.ratio(bricks), 2 * self.ratio(lines))
        self.check_bricks(bricks, 1)
        for path in bricks, lines:
            self.check_bound(path, lambda level, box, i:
                             float(np.ptp(level.values[box][i])))

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


if __name__ == "__main__":
    unittest.main()
