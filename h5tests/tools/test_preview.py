#!/usr/bin/env python3
"""Runs terp preview on files that h5py makes, and checks its output."""
import os
import shutil
import subprocess
import sys
import unittest

from tool_case import OK, TROUBLE, ToolTest

try:
    import h5py
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

NETCDF = """netcdf in {
dimensions:
  time = UNLIMITED ;
  lat = 30 ;
  lon = 50 ;
  other = 21 ;
variables:
  float T(time, lat, lon) ;
    T:units = "K" ;
    T:_FillValue = 1.e20f ;
  double lat(lat) ;
    lat:units = "degrees_north" ;
  short S(other) ;
data:
  lat = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 ;
  T = 1, 2, 3, 4, 5, 6, 7, 8 ;
  S = 1, 2, 3 ;
}
"""


def smooth(*shape, dtype="f4"):
    axes = np.meshgrid(
        *[np.linspace(0, 6, n) for n in shape], indexing="ij", sparse=True
    )
    return sum(np.sin((i + 1) * axis) for i, axis in enumerate(axes)).astype(
        dtype
    )


def every(values, step):
    return values[(slice(None, None, step),) * values.ndim]


class Preview(ToolTest):
    def preview(self, path, *arguments, code=OK):
        """The path of the output, or the messages."""
        out = self.path("out.h5")
        message = self.expect(code, "preview", path, out, *arguments)
        left = [n for n in os.listdir(self.directory) if "part-" in n]
        self.assertEqual(left, [])
        return out if code == OK else message

    def compressed(self, path, *arguments):
        """The file with compressed numbers, and its values as they are
        read."""
        out = self.path("compressed.h5")
        self.expect(OK, "repack", path, out, *arguments)
        plain = self.path("plain.h5")
        with h5py.File(out, "r") as file, h5py.File(plain, "w") as copy:
            for name in file:
                copy[name] = file[name][()]
        return out, plain

    def test_values_are_every_nth_of_those_that_are_read(self):
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            file["cube"] = smooth(70, 66, 81)
            file["double"] = smooth(101, 103, dtype=">f8")
            file["line"] = smooth(30011)
            file["slices"] = smooth(6, 4, 40, 50)
            file["five"] = smooth(3, 4, 5, 20, 30)
            file["counts"] = (1000 * smooth(90, 91)).astype("i4")
            file["complex"] = smooth(80, 70) + 1j * smooth(80, 70)
            file["small"] = smooth(7)
            gaps = smooth(64, 65, dtype="f8")
            gaps[3:9, 5:] = np.nan
            gaps[gaps > 1] = -np.inf
            file["gaps"] = gaps
        for arguments in (
            ["--rel=1e-3"],
            ["--rel=1e-3", "--chunk=auto", "--pipeline=huffman"],
            ["--pwr=1e-2"],
            ["--lossless"],
        ):
            packed, plain = self.compressed(path, *arguments)
            for step in (1, 2, 4, 64, 2**40):
                out = self.preview(packed, f"--step={step}", "--threads=2")
                with h5py.File(out, "r") as got, h5py.File(plain, "r") as want:
                    self.assertEqual(set(got), set(want))
                    for name in want:
                        expected = every(want[name][()], step)
                        values = got[name][()]
                        self.assertEqual(values.dtype, got[name].dtype)
                        self.assertEqual(values.shape, expected.shape, name)
                        np.testing.assert_array_equal(values, expected, name)

    def test_structure_attributes_and_scales_are_kept(self):
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            group = file.create_group("fields")
            group.attrs["gridSpacing"] = np.array([0.5, 0.25], "f8")
            rho = group.create_dataset(
                "rho",
                data=smooth(40, 50),
                maxshape=(None, 50),
                chunks=(16, 16),
                fillvalue=-9.0,
            )
            rho.attrs["units"] = "kg"
            rho.attrs["range"] = [-2.0, 2.0]
            file["x"] = np.arange(40.0)
            file["y"] = np.arange(50.0) ** 2
            for i, name in enumerate("xy"):
                file[name].make_scale(name + " axis")
                rho.dims[i].attach_scale(file[name])
            file["scalar"] = 7
            file["empty"] = h5py.Empty("f4")
            file["none"] = np.zeros((0, 9), "f4")
            text = h5py.string_dtype()
            file["names"] = np.array([f"n{i}" for i in range(9)], text)
            file["fixed"] = np.array([f"n{i}" for i in range(9)], "S3")
            file["pairs"] = np.array([(1, 2.5)] * 9, [("a", "i4"), ("b", "f4")])
            file["reference"] = np.array([rho.ref] * 9, h5py.ref_dtype)
            vlen = file.create_dataset("vlen", 5, h5py.vlen_dtype("i4"))
            vlen[1] = [1, 2, 3]
            file["soft"] = h5py.SoftLink("/fields/rho")
            file["hard"] = rho
        with h5py.File(self.preview(path), "r") as out:
            rho = out["fields/rho"]
            np.testing.assert_array_equal(rho[()], every(smooth(40, 50), 4))
            self.assertEqual(rho.maxshape, (None, 13))
            self.assertEqual(rho.fillvalue, -9.0)
            self.assertEqual(rho.attrs["units"], "kg")
            np.testing.assert_array_equal(rho.attrs["range"], [-2.0, 2.0])
            np.testing.assert_array_equal(
                out["fields"].attrs["gridSpacing"], [2.0, 1.0]
            )
            x, y = (dimension[0] for dimension in rho.dims)
            np.testing.assert_array_equal(x[()], np.arange(40.0)[::4])
            np.testing.assert_array_equal(y[()], (np.arange(50.0) ** 2)[::4])
            self.assertEqual(x.attrs["NAME"], b"x axis")
            self.assertEqual(out["scalar"][()], 7)
            self.assertIsNone(out["empty"].shape)
            self.assertEqual(out["none"].shape, (0, 3))
            self.assertEqual(list(out["names"]), [b"n0", b"n4", b"n8"])
            self.assertEqual(list(out["fixed"]), [b"n0", b"n4", b"n8"])
            self.assertEqual(out["pairs"][()].tolist(), [(1, 2.5)] * 3)
            self.assertEqual(len(out["reference"]), 9)
            self.assertEqual(out[out["reference"][0]], rho)
            self.assertEqual(list(out["vlen"][1]), [1, 2, 3])
            self.assertEqual(out["soft"], rho)
            self.assertEqual(out["hard"], rho)

    def test_netcdf_file_stays_one(self):
        if not shutil.which("ncgen") or not shutil.which("ncdump"):
            self.skipTest("needs ncgen and ncdump")
        path, text = self.path("in.nc"), self.path("in.cdl")
        with open(text, "w", encoding="ascii") as file:
            file.write(NETCDF)
        subprocess.run(["ncgen", "-4", "-o", path, text], check=True)
        dump = subprocess.run(
            ["ncdump", self.preview(path)],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
        for line in (
            "lat = 8 ;",
            "lon = 13 ;",
            "other = 6 ;",
            "float T(time, lat, lon) ;",
            "lat = 1, 5, 9, _, _, _, _, _ ;",
            'T:units = "K" ;',
        ):
            self.assertIn(line, dump)
        with h5py.File(self.path("out.h5"), "r") as file:
            self.assertTrue(
                file["other"].attrs["NAME"].rstrip(b"\0").endswith(b" 6")
            )

    def test_others_read_it(self):
        if not shutil.which("h5dump"):
            self.skipTest("needs h5dump")
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            file["x"] = np.arange(4096.0).reshape(64, 64)
        packed, _ = self.compressed(path, "--lossless")
        environment = dict(os.environ, HDF5_PLUGIN_PATH=self.directory)
        dump = subprocess.run(
            ["h5dump", "-d", "/x", self.preview(packed, "--step=32")],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        ).stdout
        self.assertIn("(0,0): 0, 32,", dump)
        self.assertIn("(1,0): 2048, 2080", dump)

    def test_wrong_steps_are_told(self):
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            file["x"] = np.arange(10.0)
        for step in "0", "3", "-4", "4x", "", "6":
            message = self.preview(path, f"--step={step}", code=TROUBLE)
            self.assertIn(f"the step '{step}' must be a power of two", message)
        self.assertFalse(os.path.exists(self.path("out.h5")))
        self.expect(TROUBLE, "preview", path)
        self.expect(TROUBLE, "preview", path, path)
        self.expect(TROUBLE, "preview", self.path("missing.h5"), path + "2")

    def test_damaged_chunk_is_told_and_nothing_is_written(self):
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            file["x"] = smooth(64, 64, 64)
        packed, _ = self.compressed(path, "--rel=1e-3")
        with h5py.File(packed, "r+") as file:
            dataset = file["x"]
            place = dataset.id.get_chunk_info(0).chunk_offset
            mask, stream = dataset.id.read_direct_chunk(place)
            # In a longer stream, bytes behind the prefix are not read.
            stream = stream[:300] + bytes([stream[300] ^ 1]) + stream[301:]
            dataset.id.write_direct_chunk(place, stream, mask)
        message = self.preview(packed, code=TROUBLE)
        self.assertIn("/x: the stream is damaged", message)
        self.assertFalse(os.path.exists(self.path("out.h5")))

    def test_verbose_tells_what_becomes_of_datasets(self):
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            file["x"] = np.arange(10.0)
            file["y"] = 1
        text = self.expect(
            OK, "preview", path, self.path("out.h5"), "-v", "--step=8"
        )
        self.assertIn("/x: every 8th value", text)
        self.assertIn("/y: copied", text)


if __name__ == "__main__":
    unittest.main()
