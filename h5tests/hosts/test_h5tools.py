"""h5repack and nccopy compress with cd_values on the command line; h5dump,
h5diff, h5copy and ncdump read the file. TEST_H5REPACK names h5repack; the
others lie beside it."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import h5py
import numpy as np

from terp_files import FILTER, check, damage, smooth, value_range, with_specials

H5REPACK = os.environ["TEST_H5REPACK"]
H5DIFF, H5DUMP, H5COPY = (os.path.join(os.path.dirname(H5REPACK), name)
                          for name in ("h5diff", "h5dump", "h5copy"))


def run(*command, check=True, **options):
    return subprocess.run(command, check=check, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          **options)


class ToolsTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.plain = os.path.join(directory.name, "plain.h5")
        self.small = os.path.join(directory.name, "small.h5")
        self.again = os.path.join(directory.name, "again.h5")
        self.field = with_specials(smooth((40, 41, 42), "f4"))
        self.integers = np.arange(100000)
        with h5py.File(self.plain, "w") as file:
            file["group/field"] = self.field
            file["double"] = smooth((64, 64, 64), ">f8")
            file["integers"] = self.integers
            file["names"] = np.array([b"some", b"names"] * 600)
            file["scalar"] = 1.5

    def repack(self, flag, *words, tool_options=(), **options):
        values = ",".join(map(str, words))
        return run(H5REPACK, *tool_options, "-f",
                   "UD=%d,%d,%d,%s" % (FILTER, flag, len(words), values),
                   self.plain, self.small, **options)

    def check_small(self):
        with h5py.File(self.small, "r") as file:
            bound = 1e-3 * value_range(self.field)
            check(self, self.field, file["group/field"][()], bound)
            np.testing.assert_array_equal(file["integers"][()], self.integers)
            self.assertEqual(file["names"][1], b"names")
            self.assertEqual(file["scalar"][()], 1.5)
            double = file["double"]
            self.assertLess(10 * double.id.get_storage_size(), double.nbytes)

    def test_mandatory_filter_takes_a_whole_file(self):
        self.repack(0, 2, 1, 3)
        self.check_small()

    def test_optional_filter_takes_a_whole_file(self):
        self.repack(1, 2, 1, 3)
        self.check_small()

    def test_signed_plugin_works(self):
        """h5sign of HDF5 2.2 appends a signature and 14 bytes to the file."""
        folder = os.path.join(os.path.dirname(self.plain), "signed")
        os.mkdir(folder)
        plugin = shutil.copy(os.environ["TEST_PLUGIN"], folder)
        with open(plugin, "ab") as file:
            file.write(bytes(range(256)) * 2
                       + b"\x03\x00\x02\x00\x00\x89HPS\r\n\x1a\n\x01")
        self.repack(0, 2, 1, 3, env={**os.environ, "HDF5_PLUGIN_PATH": folder})
        self.check_small()

    def test_dump_shows_filter_and_values(self):
        self.repack(0, 2, 1, 3)
        header = run(H5DUMP, "-p", "-H", "-d", "/double", self.small).stdout
        self.assertRegex(header, r"FILTER_ID\s+%d" % FILTER)
        self.assertIn("H5Z-TERP", header)
        values = run(H5DUMP, "-d", "/double", "-m", "%.17g", "-y", "-w", "1",
                     self.small).stdout
        numbers = [float(x) for x in re.findall(r"^\s*([-+0-9.e]+),?$", values,
                                                re.MULTILINE)]
        want = smooth((64, 64, 64), "f8")
        check(self, want, np.array(numbers).reshape(want.shape),
              1e-3 * value_range(want))

    def test_diff_finds_nothing_beyond_the_bound(self):
        self.repack(0, 2, 1, 3)
        want = smooth((64, 64, 64), "f8")
        for factor, status in (1, 0), (1e-6, 1):
            bound = factor * 1e-3 * value_range(want)
            found = run(H5DIFF, "-d", "%.17g" % bound, self.plain, self.small,
                        "/double", check=False)
            self.assertEqual(found.returncode, status, found.stdout)

    def test_copy_keeps_the_streams(self):
        self.repack(0, 2, 1, 3)
        run(H5COPY, "-i", self.small, "-o", self.again, "-s", "/double", "-d",
            "/copy")
        with h5py.File(self.small, "r") as small:
            with h5py.File(self.again, "r") as again:
                np.testing.assert_array_equal(again["copy"][()],
                                              small["double"][()])
                self.assertIn(str(FILTER), again["copy"]._filters)
                self.assertEqual(
                    again["copy"].id.read_direct_chunk((0, 0, 0)),
                    small["double"].id.read_direct_chunk((0, 0, 0)))

    def test_repack_again_takes_other_chunks_and_words(self):
        self.repack(0, 2, 1, 4)
        run(H5REPACK, "-l", "double:CHUNK=64x8x16", self.small, self.again)
        with h5py.File(self.again, "r") as file:
            want = smooth((64, 64, 64), "f8")
            self.assertEqual(file["double"].chunks, (64, 8, 16))
            # A bound for each of the two codings.
            got = file["double"][()].astype("f8")
            check(self, want, got, 2e-4 * value_range(want))
        run(H5REPACK, "-f", "NONE", self.small, self.again)
        with h5py.File(self.again, "r") as file:
            self.assertEqual(file["double"].compression, None)

    @unittest.skipUnless(shutil.which("nccopy"), "no nccopy here")
    def test_nccopy_compresses_and_ncdump_reads_a_variable(self):
        field = smooth((64, 64), "f4")
        field[:, 10:20] = 1e20
        with h5py.File(self.plain, "w") as file:
            file["x"] = field
            file["x"].attrs["_FillValue"] = np.float32(1e20)
        run("nccopy", "-F", "x,%d,2,1,3" % FILTER, self.plain, self.small)
        with h5py.File(self.small, "r") as file:
            # The filter finds the fill value in the data, because nccopy
            # passes none.
            check(self, field, file["x"][()], 1e-3 * value_range(field, 1e20),
                  1e20)
            self.assertLess(5 * file["x"].id.get_storage_size(), field.nbytes)
        self.assertIn('x:_Filter = "%d,' % FILTER,
                      run("ncdump", "-hs", self.small).stdout)
        dump = run("ncdump", "-v", "x", "-p", "9", self.small).stdout
        # ncdump shows fill values as "_".
        values = re.findall(r"[-+0-9.e]+|_", dump.split("\n x =")[1])
        self.assertEqual(len(values), field.size)
        got = np.array([1e20 if value == "_" else float(value)
                        for value in values], "f4").reshape(field.shape)
        check(self, field, got, 1e-3 * value_range(field, 1e20), 1e20)

    # As doc/cd_values.md says: nccopy -F does not replace filters.
    @unittest.skipUnless(shutil.which("nccopy"), "no nccopy here")
    def test_nccopy_compresses_what_was_deflated(self):
        field = smooth((64, 64), "f4")
        with h5py.File(self.again, "w") as file:
            file.create_dataset("x", data=field, chunks=(64, 64),
                                compression="gzip", shuffle=True)
        run("nccopy", "-d", "0", self.again, self.plain)
        run("nccopy", "-F", "x,%d,2,1,3" % FILTER, self.plain, self.small)
        with h5py.File(self.small, "r") as file:
            self.assertEqual(list(file["x"]._filters), [str(FILTER)])
            check(self, field, file["x"][()], 1e-3 * value_range(field))

    # If h5repack cannot create a dataset, it keeps the input's settings.
    def test_wrong_words_leave_the_data_and_say_why(self):
        for options in [], ["--enable-error-stack"]:
            said = self.repack(0, 7, 1, 3, tool_options=options)
            self.assertIn("H5Z-TERP: cd_values[0] (mode) names an unknown",
                          said.stderr)
        with h5py.File(self.small, "r") as file:
            np.testing.assert_array_equal(file["integers"][()], self.integers)
            np.testing.assert_array_equal(file["double"][()],
                                          smooth((64, 64, 64), "f8"))

    # The tools show the error stack only on request.
    def test_damage_is_said_once(self):
        with h5py.File(self.small, "w") as file:
            damage(file.create_dataset(
                "x", data=self.field, chunks=(8, 8, 8), compression=FILTER,
                compression_opts=(2, 1, 3)))
        for tool in ([H5DUMP], ["ncdump"], [H5REPACK, "-f", "NONE"]):
            said = run(*tool, self.small, *[self.again][:len(tool) - 1],
                       check=False).stderr
            self.assertEqual(said.count("H5Z-TERP: "), 1, said)
            self.assertIn("checksum", said)


if __name__ == "__main__":
    unittest.main()
