#!/usr/bin/env python3
"""Runs terp repack on files that h5py makes, and checks its output."""
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest

from tool_case import (
    H5REPACK,
    OK,
    TOOL,
    TROUBLE,
    ToolTest,
    terp,
    warnings_of,
)

try:
    import h5py
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

FILTER = 46117
SIGNS_OF_CHUNK = 1048576  # a bit of the mode word
FAKE_DEVICE = os.environ.get("TEST_FAKE_CUDA")
NOBODY = 65534


def smooth(*shape, dtype="f4"):
    axes = np.meshgrid(
        *[np.linspace(0, 6, n) for n in shape], indexing="ij", sparse=True
    )
    return sum(np.sin((i + 1) * axis) for i, axis in enumerate(axes)).astype(
        dtype
    )


NETCDF = """netcdf in {
types:
  compound pair { float a ; int b ; } ;
  byte enum colour { red = 0, blue = 1 } ;
dimensions:
  time = UNLIMITED ;
  lat = 3 ;
  wide = 5000 ;
variables:
  float T(time, lat, wide) ;
    T:units = "K" ;
    T:_FillValue = 1.e20f ;
  double wide(wide) ;
  double lat(lat) ;
  pair p(lat) ;
  colour c ;
  :title = "a file of netCDF" ;
data:
  lat = 1, 2, 3 ;
  p = {1, 2}, {3, 4}, {5, 6} ;
  c = blue ;
  T = 1, 2, 3, 4 ;
group: g {
  variables:
    double U(time, lat) ;
  data:
    U = 1, 2, 3 ;
  }
}
"""


def parameters(dataset):
    """The cd_values of a dataset, or None without the filter."""
    plist = dataset.id.get_create_plist()
    filters = [plist.get_filter(i) for i in range(plist.get_nfilters())]
    found = [words for id_, _, words, _ in filters if id_ == FILTER]
    assert len(found) == len(filters) <= 1, filters
    return found[0] if found else None


def bound_of(dataset):
    """("abs", "rel" or "pwr", bound) of a compressed dataset."""
    words = np.array(parameters(dataset), "u4")
    mode = {1: "abs", 2: "rel", 3: "pwr"}[words[0] & 15]
    return mode, words[1:3].view("f8")[0]


class Repack(ToolTest):
    def write(self, name="in.h5", **datasets):
        path = self.path(name)
        with h5py.File(path, "w") as file:
            for key, values in datasets.items():
                file[key] = values
        return path

    def repack(self, path, *arguments, code=OK):
        """The path of the output."""
        out = self.path("out.h5")
        message = self.expect(code, "repack", path, out, *arguments)
        # Checks that only the output is left.
        left = [n for n in os.listdir(self.directory) if "part-" in n]
        self.assertEqual(left, [])
        return out if code == OK else message


class Values(Repack):
    def test_bound_is_of_the_whole_datasets_range(self):
        values = smooth(40, 50, 60)
        values[:20] *= 0.01  # chunks, each with a small range
        path = self.write(x=values)
        span = float(values.max()) - float(values.min())
        # With large chunks, and with many small ones.
        for chunk in "40x50x60", "8x8x8":
            out = self.repack(path, "--rel=1e-3", f"--chunk={chunk}")
            with h5py.File(out, "r") as file:
                kind, bound = bound_of(file["x"])
                self.assertEqual(kind, "abs")
                self.assertAlmostEqual(bound / (1e-3 * span), 1, 12)
                error = np.abs(file["x"][:].astype("f8") - values).max()
                self.assertTrue(0.5 * bound < error <= bound)

    def test_special_values_are_kept_and_do_not_count(self):
        values = smooth(30, 40, 50).astype("f8")
        values[3, :, 4] = np.nan
        values[5, 6] = -np.inf
        values[7, :9] = 1e20
        span = 0.0
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            file.create_dataset("declared", data=values, fillvalue=1e20)
            file["netcdf"] = values
            file["netcdf"].attrs["_FillValue"] = 1e20
            file["undeclared"] = values
            valid = values[np.isfinite(values) & (values != 1e20)]
            span = valid.max() - valid.min()
        with h5py.File(self.repack(path, "--rel=1e-3"), "r") as file:
            for name in file:
                kind, bound = bound_of(file[name])
                self.assertEqual(kind, "abs", name)
                self.assertAlmostEqual(bound / (1e-3 * span), 1, 12)
                got = file[name][:]
                kept = ~np.isfinite(values) | (values == 1e20)
                np.testing.assert_array_equal(got[kept], values[kept])

    def test_outliers_that_are_no_usual_fill_value_count(self):
        for outlier, usual in ((128.0, False), (-999.0, True)):
            values = smooth(30, 40, 50).astype("f8")
            valid = np.append(values, outlier) if not usual else values
            span = np.ptp(valid)
            values[7, :9] = outlier
            path = self.write(x=values)
            out = self.repack(path, "--rel=1e-3")
            with h5py.File(out, "r") as file:
                kind, bound = bound_of(file["x"])
                self.assertEqual(kind, "abs")
                self.assertAlmostEqual(bound / (1e-3 * span), 1, 2)
                got = file["x"][:]
                np.testing.assert_array_equal(got[7, :9], values[7, :9])
            text = self.expect(OK, "info", "-v", out)
            self.assertEqual("undeclared  -999 is taken for" in text, usual)
            found = json.loads(self.expect(OK, "info", "--json", out))
            streams = found["files"][0]["datasets"][0]["streams"]
            self.assertEqual(streams["undeclared_fills"],
                             [outlier] if usual else [])
            self.expect(OK, "compare", path, out, "--rel=1e-3")

    def test_psnr_is_what_was_asked_for(self):
        # Noise, so that errors are spread evenly.
        noise = np.random.default_rng(3).normal(size=(64, 64, 64))
        path = self.write(noise=noise)
        for psnr in (40, 70):
            with h5py.File(self.repack(path, f"--psnr={psnr}"), "r") as file:
                error = file["noise"][:] - noise
                got = 20 * np.log10(np.ptp(noise) / np.sqrt((error**2).mean()))
                self.assertAlmostEqual(got, psnr, delta=0.1)

    def test_pointwise_bound_is_kept_by_each_value(self):
        generator = np.random.default_rng(5)
        values = np.exp(generator.normal(0, 9, (32, 32, 32))).astype("f4")
        values *= generator.choice([-1, 0, 1], values.shape)
        path = self.write(x=values, y=values.astype("f8"))
        for option in ("--pwr=1e-2", "--dataset=*=pwr:1e-2"):
            with h5py.File(self.repack(path, option), "r") as file:
                for name in file:
                    got = file[name][:].astype("f8")
                    self.assertTrue(np.all(
                        abs(got - values) <= 1e-2 * abs(values.astype("f8"))))
                    self.assertTrue(np.all(np.sign(got) == np.sign(values)))
                    self.assertEqual(bound_of(file[name]), ("pwr", 1e-2))

    def test_missing_values_of_attributes_are_kept(self):
        values = smooth(16, 24, 32)
        valid = np.ones(values.shape, bool)
        valid[3, 4:9] = valid[:, 7, 8] = False
        values[3, 4:9] = -9999
        values[:, 7, 8] = 1e20
        path = self.path("missing.h5")
        with h5py.File(path, "w") as file:
            both = file.create_dataset("both", data=values, fillvalue=1e20)
            both.attrs["_FillValue"] = np.float32(1e20)
            both.attrs["missing_value"] = np.float32(-9999)
            array = file.create_dataset("array", data=values.astype("f8"),
                                        fillvalue=np.float32(1e20))
            array.attrs["missing_value"] = np.array(
                [np.float32(1e20), -9999.0])
            one = file.create_dataset("one", data=values[:3], fillvalue=0)
            one.attrs["missing_value"] = 1e20
        out = self.repack(path, "--rel=1e-3")
        with h5py.File(out, "r") as file:
            for name in ("both", "array"):
                got = file[name][:].astype("f8")
                self.assertTrue(np.all(got[~valid] == values[~valid]))
                error = abs(got - values)[valid].max()
                self.assertLessEqual(
                    error, 1.0001e-3 * np.ptp(values[valid]))
                words = np.array(parameters(file[name]), "u4")
                self.assertTrue(words[0] & 0x40000)
                self.assertEqual(words[-2:].view("f8")[0], -9999)
        text = self.expect(OK, "info", "-v", out)
        self.assertIn("fill value kept, missing value -9999 kept", text)
        self.expect(OK, "compare", path, out)

    def test_digits_and_bits_are_kept(self):
        generator = np.random.default_rng(7)
        values = np.exp(generator.normal(0, 9, (32, 32, 32)))
        path = self.write(x=values)
        for option, bound in (("--digits=3", 5e-4), ("--bits=9", 2.0 ** -10),
                              ("--dataset=x=digits:2", 5e-3),
                              ("--dataset=x=bits:5", 2.0 ** -6)):
            with h5py.File(self.repack(path, option), "r") as file:
                self.assertEqual(bound_of(file["x"]), ("pwr", bound))
                error = abs(file["x"][:] - values) / values
                self.assertLessEqual(error.max(), bound * (1 + 1e-12))

    def test_floor_of_a_pointwise_bound_is_kept(self):
        generator = np.random.default_rng(6)
        values = np.exp(generator.normal(0, 9, (32, 32, 32))).astype("f4")
        values *= generator.choice([-1, 0, 1], values.shape)
        path = self.write(x=values, y=values.astype("f8"))
        sizes = [os.path.getsize(self.repack(path, "--pwr=1e-2"))]
        for options in (("--pwr=1e-2", "--floor=1e-3"),
                        ("--floor=1e-3", "--pwr=1e-2"),
                        ("--dataset=*=pwr:1e-2:1e-3",)):
            out = self.repack(path, *options)
            sizes.append(os.path.getsize(out))
            with h5py.File(out, "r") as file:
                for name in file:
                    got = file[name][:].astype("f8")
                    self.assertTrue(np.all(
                        abs(got - values) <= np.maximum(
                            1e-2 * abs(values.astype("f8")), 1e-3)))
                    words = np.array(parameters(file[name]), "u4")
                    self.assertEqual(bound_of(file[name]), ("pwr", 1e-2))
                    self.assertEqual(words[-2:].view("f8")[0], 1e-3)
        self.assertLess(max(sizes[1:]), sizes[0])

    def test_lossless_brings_every_bit_back(self):
        values = smooth(30, 40, 50)
        values[3, :, 4] = np.nan
        values[5, 6] = -0.0
        values[7, 8] = 1e-40
        wide = np.round(values.astype("f8"), 3)
        same = np.full((30, 40, 50), -0.0)
        same[0, 0, 0] = 0
        path = self.write(x=values, wide=wide, same=same, lossy=wide)
        out = self.repack(path, "--lossless", "--dataset=lossy=rel:1e-3")
        with h5py.File(out, "r") as file:
            for name, kept in ("x", values), ("wide", wide), ("same", same):
                self.assertEqual(bound_of(file[name]), ("abs", 0))
                self.assertEqual(file[name][:].tobytes(), kept.tobytes())
                self.assertLess(file[name].id.get_storage_size(), kept.nbytes)
            self.assertGreater(bound_of(file["lossy"])[1], 0)
        # Repacks one of them again: no warning, because nothing is lost.
        result = terp("repack", out, self.path("again.h5"), "-v",
                      "--dataset=x=lossless")
        self.assertEqual((result.returncode, warnings_of(result)), (OK, ""))
        self.assertRegex(result.stdout, r"/x: lossless, chunks 30x40x50, ratio")

    def test_values_that_are_all_the_same_stay_so(self):
        path = self.write(x=np.full((30, 40, 50), 7.25, "f4"))
        with h5py.File(self.repack(path, "--rel=1e-2"), "r") as file:
            self.assertEqual(bound_of(file["x"]), ("rel", 1e-2))
            np.testing.assert_array_equal(file["x"][:], 7.25)

    def test_output_is_what_the_filter_writes(self):
        if not H5REPACK:
            self.skipTest("needs h5repack and no sanitizers")
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            for name, type_, shape, chunks in (
                ("even", "<f4", (64, 96, 32), (32, 32, 32)),
                ("edge", "<f8", (33, 41, 50), (16, 20, 50)),
                ("big", ">f4", (100, 130), (60, 60)),
                ("line", "<f4", (5001,), (5000,)),
                ("four", ">f8", (3, 5, 20, 30), (2, 5, 20, 20)),
            ):
                file.create_dataset(
                    name,
                    data=smooth(*shape).astype(type_),
                    chunks=chunks,
                    fillvalue=-99 if name == "edge" else None,
                )
        for options, word in (
            (["--pipeline=ratio"], 64),
            (["--pipeline=huffman"], 16),
            (["--effort=fast"], 4096),
            (["--pipeline=speed", "--effort=best"], 48 + 8192),
        ):
            expected = self.path("expected.h5")
            subprocess.run(
                [H5REPACK, "-f",
                 f"UD={FILTER},0,3,{SIGNS_OF_CHUNK + 1 + word},1,3", path,
                 expected],
                check=True,
            )
            out = self.repack(path, "--abs=1e-3", *options, "--threads=2")
            with h5py.File(out, "r") as a, h5py.File(expected, "r") as b:
                self.assertEqual(set(a), set(b))
                for name in a:
                    self.assertEqual(parameters(a[name]), parameters(b[name]))
                    self.assertEqual(
                        parameters(a[name])[0] & 0xFFFF, 1 + word
                    )
                    nchunks = a[name].id.get_num_chunks()
                    self.assertEqual(nchunks, b[name].id.get_num_chunks())
                    for i in range(nchunks):
                        at = a[name].id.get_chunk_info(i).chunk_offset
                        self.assertEqual(
                            a[name].id.read_direct_chunk(at),
                            b[name].id.read_direct_chunk(at),
                        )

    def test_effort_reaches_the_streams(self):
        # Maps without relation to each other.
        values = np.stack([smooth(64, 64 + i)[:, i:] for i in range(16)])
        values *= np.cos(np.arange(16) ** 2).astype("f4")[:, None, None]
        path = self.write(x=values)
        nbytes = {}
        for effort in "fast", "default", "best":
            out = self.repack(path, "--rel=1e-3", f"--effort={effort}")
            with h5py.File(out, "r") as file:
                nbytes[effort] = file["x"].id.get_storage_size()
                self.assertLessEqual(
                    np.abs(file["x"][:].astype("f8") - values).max(),
                    bound_of(file["x"])[1],
                )
        self.assertLess(nbytes["default"], nbytes["fast"])
        self.assertLessEqual(nbytes["best"], nbytes["default"])

    def test_blocks_and_edges_are_put_together(self):
        # Several blocks of 16 MiB, with chunks that do not divide the shape
        # and do not match the input's.
        values = np.arange(5 * 521 * 4099, dtype="f4").reshape(5, 521, 4099)
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            file["x"] = values
            file.create_dataset("y", data=values, chunks=(1, 521, 4099))
            file.create_dataset("z", data=values, chunks=(3, 70, 77))
        out = self.repack(path, "--abs=0.5", "--chunk=2x100x3000")
        with h5py.File(out, "r") as file:
            for name in file:
                self.assertEqual(file[name].chunks, (2, 100, 3000))
                for got, want in zip(file[name], values):
                    error = np.abs(got.astype("f8") - want).max()
                    self.assertLessEqual(error, 0.5)


class Choice(Repack):
    def setUp(self):
        super().setUp()
        self.values = smooth(30, 40, 50)

    def test_lossy_input_is_said(self):
        path = self.write(x=self.values)
        shutil.move(self.repack(path, "--abs=1e-4"), path)
        result = terp("repack", path, self.path("out.h5"), "--abs=1e-2")
        self.assertEqual(result.returncode, OK)
        self.assertEqual(
            warnings_of(result),
            "terp repack: /x: already lossy: terp compressed it with an "
            "absolute bound of 0.0001; the new error adds to the old one\n"
        )

    def test_rules_choose_bounds_by_path(self):
        path = self.path("in.h5")
        names = ("a/rho", "a/mask", "b/rho", "b/x=1", "few")
        with h5py.File(path, "w") as file:
            for name in names[:4]:
                file[name] = self.values
            file["few"] = self.values[0, 0]
            file["other"] = file["b/rho"]
        out = self.repack(
            path, "--abs=1e-2", "-d*/rho=abs:1e-3", "--dataset=/a/mask=none",
            "--dataset", "b/x=1=abs:1e-4", "-d", "other=abs:1e-5", "-dfew=0.1"
        )
        span = float(np.ptp(self.values[0, 0]))
        with h5py.File(out, "r") as file:
            self.assertEqual(bound_of(file["a/rho"])[1], 1e-3)
            self.assertIsNone(parameters(file["a/mask"]))
            self.assertEqual(bound_of(file["b/x=1"])[1], 1e-4)
            self.assertEqual(bound_of(file["b/rho"])[1], 1e-5)
            self.assertAlmostEqual(bound_of(file["few"])[1], 0.1 * span, 6)
        with h5py.File(self.repack(path, "-d*/rho=abs:1e-3"), "r") as file:
            self.assertIsNotNone(parameters(file["a/rho"]))
            self.assertIsNone(parameters(file["a/mask"]))

    def test_patterns_are_those_of_the_connector(self):
        path = self.path("in.h5")
        names = ("a/rho", "a/gr\u00fcn", "b/rho", "b/x")
        with h5py.File(path, "w") as file:
            for name in names:
                file[name] = self.values
        for pattern, expected in (("rho", {"a/rho", "b/rho"}),
                                  ("r?[!x]", {"a/rho", "b/rho"}),
                                  ("b/*", {"b/rho", "b/x"}),
                                  ("/b/x", {"b/x"}),
                                  ("gr?n", {"a/gr\u00fcn"}),
                                  ("?", {"b/x"})):
            with h5py.File(self.repack(path, f"-d{pattern}=abs:1")) as file:
                found = {name for name in names if parameters(file[name])}
            self.assertEqual(found, expected, pattern)

    def test_what_is_not_compressed_is_the_same(self):
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            file["few"] = self.values[0]
            file["strings"] = np.zeros(10000, "S8")
            file["scalar"] = 1.5
            file["null"] = h5py.Empty("f4")
            file.create_dataset("zero", (0, 500), "f4", maxshape=(None, 500))
            file.create_dataset(
                "gzip", data=np.zeros(10000, "S8"), chunks=(1000,),
                compression="gzip", fletcher32=True
            )
            file.create_dataset("text", data=["a", "bc"])
            vlen = file.create_dataset("vlen", (2,), h5py.vlen_dtype("f4"))
            vlen[0] = [1, 2, 3]
            file["scale"] = np.linspace(0, 1, 5000)
            file["scale"].make_scale("x")
        out = self.repack(path, "--rel=0.1")
        with h5py.File(path, "r") as a, h5py.File(out, "r") as b:
            self.assertEqual(list(a), list(b))
            for name in a:
                self.assertEqual(a[name].dtype, b[name].dtype)
                self.assertEqual(a[name].maxshape, b[name].maxshape)
                self.assertEqual(a[name].chunks, b[name].chunks)
                self.assertEqual(a[name].compression, b[name].compression)
                if name == "vlen":
                    np.testing.assert_array_equal(a[name][0], b[name][0])
                elif name != "null":
                    np.testing.assert_array_equal(a[name][()], b[name][()])

    def test_numbers_of_all_types_are_compressed(self):
        whole = (self.values * 1000).astype(">i4")
        data = {"ints": whole, "bool": whole > 0, "bytes": whole.astype("u1"),
                "half": self.values.astype("f2"),
                "complex": (self.values * (1 + 2j)).astype("c8"),
                "named": whole}
        path = self.write(**data)
        out = self.repack(path, "--rel=0.01", "--dataset=named=abs:7.5")
        with h5py.File(out, "r") as file:
            for name in data:
                self.assertEqual(file[name].dtype, data[name].dtype)
                self.assertIn("46117", file[name]._filters)
                self.assertLess(file[name].id.get_storage_size(),
                                data[name].nbytes)
                if name in ("ints", "bool", "bytes"):
                    np.testing.assert_array_equal(file[name][()], data[name])
            error = np.abs(file["named"][()].astype("i8") - whole)
            self.assertTrue(0 < error.max() <= 7)
            scale = np.ptp(data["complex"].imag)
            error = np.abs(file["complex"][()] - data["complex"])
            self.assertLessEqual(error.max(), 0.01 * scale)
        self.assertEqual(terp("compare", path, out).returncode, OK)

    def test_the_rest_is_deflated_where_asked_for(self):
        path = self.path("in.h5")
        pair = np.zeros(1000, np.dtype([("x", "<f4"), ("y", "<i8")]))
        with h5py.File(path, "w") as file:
            file["text"] = np.full(1000, b"text")
            file["pairs"] = pair
            file.create_dataset("few", data=self.values[:2, :, :20],
                                chunks=(2, 40, 13), compression="gzip")
            file["tiny"] = np.arange(3)
            file["named"] = np.full(1000, b"text")
            file["vlen"] = ["a", "bc"] * 1000
            file["x"] = self.values
        out = self.repack(path, "--rel=0.1", "--rest=deflate",
                          "--dataset=named=none")
        with h5py.File(path, "r") as a, h5py.File(out, "r") as b:
            for name in a:
                deflated = name in ("text", "pairs", "few")
                self.assertEqual(b[name].compression == "gzip", deflated)
                self.assertEqual(bool(b[name].shuffle), deflated)
                if name != "x":
                    np.testing.assert_array_equal(a[name][()], b[name][()])
            self.assertEqual(b["few"].chunks, (2, 40, 13))

    def test_virtual_and_external_datasets_stay_what_they_are(self):
        source = self.write("source.h5", x=self.values)
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            layout = h5py.VirtualLayout(self.values.shape, "f4")
            layout[:] = h5py.VirtualSource(source, "x", self.values.shape)
            file.create_virtual_dataset("virtual", layout)
            raw = self.path("raw")
            file.create_dataset(
                "external", self.values.shape, "f4",
                external=[(raw, 0, self.values.nbytes)]
            )[...] = self.values
        out = self.repack(path, "--abs=0.1")
        with h5py.File(out, "r") as file:
            self.assertTrue(file["virtual"].is_virtual)
            self.assertEqual(file["external"].external[0][0], raw)
            for name in file:
                np.testing.assert_array_equal(file[name][:], self.values)
        self.assertLess(os.path.getsize(out), self.values.nbytes)

    def test_compressed_input_is_compressed_anew(self):
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            file.create_dataset(
                "gzip", data=self.values, chunks=(10, 40, 50),
                compression="gzip", shuffle=True, fletcher32=True
            )
            file["plain"] = self.values
        first = self.repack(path, "--abs=1e-4")
        shutil.move(first, path)
        out = self.repack(path, "--abs=1e-2")
        with h5py.File(out, "r") as file:
            for name in file:
                self.assertEqual(bound_of(file[name])[1], 1e-2)
                error = np.abs(file[name][:] - self.values).max()
                self.assertTrue(1e-3 < error < 1.011e-2)
            self.assertEqual(file["gzip"].chunks, (10, 40, 50))

    def recorded(self, dataset):
        return {
            name[5:]: value.decode() if isinstance(value, bytes) else value
            for name, value in dataset.attrs.items()
            if name.startswith("terp_")
        }

    def test_record_tells_bound_and_error_of_what_was_written(self):
        version = "terp " + terp("--version").stdout.split()[-1]
        values = self.values.astype("f4")
        values[0, 0, :3] = np.nan, np.inf, 7e30
        kinds = {
            "--abs=0.01": ("absolute", 0.01),
            "--rel=1e-3": ("relative", 1e-3),
            "--pwr=1e-2": ("pointwise", 1e-2),
            "--digits=3": ("digits", 3),
            "--bits=8": ("bits", 8),
            "--psnr=60": ("psnr", 60),
            "--lossless": ("lossless", 0),
        }
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=values, fillvalue=7e30)
            file["x"].attrs["units"] = "K"
        for option, (kind, number) in kinds.items():
            with self.subTest(option):
                out = self.repack(path, option, "--record")
                with h5py.File(out, "r") as file:
                    found = self.recorded(file["x"])
                    self.assertEqual(file["x"].attrs["units"], "K")
                    copy = file["x"][:].astype("f8")
                    stored = bound_of(file["x"])
                valid = np.isfinite(values) & (values != np.float32(7e30))
                a = values[valid].astype("f8")
                e = np.abs(copy[valid] - a)
                self.assertEqual(found.pop("implementation"), version)
                self.assertEqual(found.pop("bound_kind"), kind)
                self.assertEqual(found.pop("bound"), number)
                self.assertEqual(found.pop("max_error"), e.max())
                if e.max() > 0:
                    self.assertAlmostEqual(
                        found.pop("psnr"),
                        20 * np.log10(np.ptp(a) / np.sqrt(np.mean(e**2))),
                        places=6,
                    )
                if kind in ("absolute", "relative", "psnr", "lossless"):
                    self.assertEqual(found.pop("absolute_bound"), stored[1])
                self.assertEqual(found, {})

    def test_record_is_of_what_is_compressed_and_of_no_earlier_copy(self):
        path = self.write(
            f=self.values,
            half=self.values.astype("f2"),
            i=np.arange(5000, dtype="i8"),
            c=self.values.astype("c16"),
            same=np.full(5000, 2.5),
            small=np.arange(5.0),
            none=self.values,
        )
        out = self.repack(
            path, "--abs=0.5", "--record", "-d", "none=none", "-d", "i=abs:2"
        )
        with h5py.File(out, "r") as file:
            found = {name: self.recorded(file[name]) for name in file}
        self.assertEqual(found["small"], {})
        self.assertEqual(found["none"], {})
        for name in ("f", "half", "i", "c"):
            self.assertTrue(
                0 < found[name]["max_error"] <= found[name]["bound"], name
            )
        self.assertEqual(found["same"]["max_error"], 0)
        self.assertNotIn("psnr", found["same"])

        shutil.move(out, path)
        out = self.repack(path, "-d", "f=abs:1")
        with h5py.File(out, "r") as file:
            self.assertEqual(self.recorded(file["f"]), {})
            self.assertEqual(self.recorded(file["i"]), found["i"])
        shutil.move(out, path)
        out = self.repack(path, "-d", "f=abs:1", "--record")
        with h5py.File(out, "r") as file:
            self.assertEqual(self.recorded(file["f"])["bound"], 1)

    def test_record_is_shown_by_info(self):
        out = self.repack(
            self.write(x=self.values, plain=np.arange(9.0)),
            "--pwr=1e-2",
            "--floor=1e-3",
            "--record",
        )
        text = self.expect(OK, "info", "-v", out)
        self.assertEqual(text.count("  record      terp "), 1)
        self.assertIn("pointwise bound 0.01, floor 0.001, largest", text)
        datasets = {
            d["path"]: d["record"]
            for d in self.json(OK, "info", out)["files"][0]["datasets"]
        }
        self.assertIsNone(datasets["/plain"])
        self.assertEqual(datasets["/x"]["bound_kind"], "pointwise")
        self.assertEqual(datasets["/x"]["floor"], 1e-3)
        self.assertIsNone(datasets["/x"]["absolute_bound"])
        with h5py.File(out, "r") as file:
            self.assertEqual(
                datasets["/x"]["max_error"],
                np.abs(file["x"][:] - self.values).max(),
            )

    def test_info_names_codings_of_version_2(self):
        rng = np.random.default_rng(1)
        path = self.write(
            ranks=rng.choice(rng.normal(size=40), (100, 100)).astype("f4"),
            columns=np.stack([np.arange(2e4), rng.normal(size=20000)], -1),
            speed=smooth(30, 30, 30))
        out = self.repack(path, "--lossless", "--keep-sign=none",
                          "--pipeline=speed", "--dataset=speed=abs:1e-3",
                          "--dataset=[rc]*=none")
        both = self.path("both.h5")
        self.expect(OK, "repack", out, both, "--lossless",
                    "--dataset=speed=none")
        text = self.expect(OK, "info", both)
        found = self.json(OK, "info", both)["files"][0]["datasets"]
        for dataset in found:
            name = dataset["path"][1:]
            self.assertRegex(text, rf", {name} .*/{name}\n")
            self.assertEqual(dataset["streams"]["codings"],
                             {**dict.fromkeys(("speed", "grid", "columns", "ranks"), 0),
                              name: dataset["streams"]["chunks"]})
        self.assertRegex(self.expect(OK, "info", "-v", both),
                         r"version 2 .*, which terp 1 does not read: \d+ ranks\n")

    def test_attributes_that_only_look_like_a_record_do_no_harm(self):
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            file["x"] = self.values
            file["x"].attrs["terp_implementation"] = np.arange(9)
            file["x"].attrs["terp_bound_kind"] = "of another program"
            file["x"].attrs["terp_bound"] = ["one", "two"]
        self.assertNotIn("record", self.expect(OK, "info", "-v", path))
        out = self.repack(path, "--abs=0.1", "--record")
        with h5py.File(out, "r") as file:
            self.assertEqual(self.recorded(file["x"])["bound"], 0.1)

    def test_chunks_are_kept_or_chosen_or_given(self):
        path = self.path("in.h5")
        shapes = {
            "cube": (130, 190, 64),
            "map": (1500, 700),
            "line": (300000,),
            "stack": (3, 100, 70, 60),
            "maps": (9, 5, 40, 50),
        }
        with h5py.File(path, "w") as file:
            for name, shape in shapes.items():
                file.create_dataset(name, data=np.zeros(shape, "f4"))
            file.create_dataset("kept", data=self.values, chunks=(3, 40, 9))
        out = self.repack(path, "--abs=1")
        chosen = {
            "cube": (65, 64, 64),
            "map": (500, 700),
            "line": (300000,),
            "stack": (1, 50, 70, 60),
            "maps": (9, 5, 40, 50),
        }
        with h5py.File(out, "r") as file:
            for name, chunks in chosen.items():
                self.assertEqual(file[name].chunks, chunks, name)
            self.assertEqual(file["kept"].chunks, (3, 40, 9))
        with h5py.File(self.repack(path, "--abs=1", "--chunk=auto")) as file:
            self.assertEqual(file["kept"].chunks, (30, 40, 50))
        with h5py.File(self.repack(path, "--abs=1", "-c16x99x9")) as file:
            self.assertEqual(file["kept"].chunks, (16, 40, 9))
            self.assertEqual(file["cube"].chunks, (16, 99, 9))
            self.assertEqual(file["map"].chunks, (500, 700))

    def test_unlimited_and_unwritten_datasets_stay_so(self):
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            file.create_dataset(
                "grows", data=self.values, chunks=(8, 40, 50),
                maxshape=(None, 40, 50)
            )
            file.create_dataset("unwritten", (99, 99), "f4", fillvalue=3)
        out = self.repack(path, "--rel=1e-3")
        with h5py.File(out, "r+") as file:
            self.assertEqual(file["grows"].maxshape, (None, 40, 50))
            file["grows"].resize(60, axis=0)
            file["grows"][30:] = self.values
            self.assertEqual(file["unwritten"].id.get_storage_size(), 0)
            np.testing.assert_array_equal(file["unwritten"][:], 3)
            self.assertIsNotNone(parameters(file["unwritten"]))

    def test_unwritten_values_without_a_fill_value_are_zeros(self):
        """HDF5 leaves them unset: no memory of the tool reaches the copy."""
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            # Memory is used again for "x".
            file["a"] = np.random.default_rng(1).random(64 * 1024)
            list_ = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            list_.set_chunk((1024,))
            list_.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
            x = h5py.Dataset(h5py.h5d.create(
                file.id, b"x", h5py.h5t.IEEE_F64LE,
                h5py.h5s.create_simple((64 * 1024,)), list_))
            x[:48 * 1024] = 7.5
        expected = np.where(np.arange(64 * 1024) < 48 * 1024, 7.5, 0)
        for arguments in (["--rel=1e-3"], ["--lossless"]):
            out = self.repack(path, *arguments, "--threads=1")
            with h5py.File(out, "r") as file:
                got = np.zeros(64 * 1024)
                file["x"].read_direct(got)
                np.testing.assert_array_equal(got, expected)
            self.expect(OK, "compare", path, out)

    def test_time_of_many_small_datasets_grows_with_their_number(self):
        def seconds(ngroups):
            path = self.path("in.h5")
            with h5py.File(path, "w") as file:
                for i in range(ngroups):
                    group = file.create_group(f"g{i}")
                    for k in range(100):
                        group[f"d{k}"] = np.float32((i, k))
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.repack(path, "--rel=1e-3")
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime - before.ru_utime

        # Flushing the file for each of them made it 12 times as long.
        self.assertLess(seconds(80), 8 * seconds(20))

    def test_missing_gpu_is_said_once(self):
        path = self.write(x=self.values, y=self.values)
        result = terp(
            "repack", path, self.path("out.h5"), "--abs=1", "--engine=cuda",
            env={**os.environ, "TERP_CUDA_LIBRARY": self.path("missing")}
        )
        self.assertEqual(result.returncode, OK)
        self.assertRegex(warnings_of(result),
                         r"\Aterp repack: the CPU replaces the GPU: .+\n\Z")

    def test_output_does_not_depend_on_threads(self):
        path = self.write(x=smooth(90, 80, 70))
        chunks = set()
        for threads, limit in ("1", ""), ("4", ""), ("4", "2"), ("4", "1"):
            out = self.path("out.h5")
            limited = {"OMP_THREAD_LIMIT": limit} if limit else {}
            self.expect(OK, "repack", path, out, "--rel=1e-3",
                        f"--threads={threads}", "--chunk=16x16x16",
                        env={**os.environ, **limited})
            with h5py.File(out, "r") as file:
                id_ = file["x"].id
                chunks.add(tuple(
                    id_.read_direct_chunk(id_.get_chunk_info(i).chunk_offset)
                    for i in range(id_.get_num_chunks())))
        self.assertEqual(len(chunks), 1)

    @unittest.skipUnless(FAKE_DEVICE, "no stand-in for the GPU was built")
    def test_gpu_codes_beside_the_cpu(self):
        """A fake GPU engine that works on the CPU and can be counted. The tool
        uses it if a file is large enough for two threads."""
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            data = file.create_dataset("x", (300, 1000, 500), "f4",
                                       chunks=(100, 1000, 500))
            data[:50] = smooth(50, 1000, 500)
            data[200:] = 0
        outs = {name: self.path(f"{name}.h5") for name in ("cpu", "cuda", "auto")}

        def repack(engine):
            """The percentage of chunks that the GPU encodes, or None without a
            GPU."""
            text = self.expect(
                OK, "repack", path, outs[engine], "--abs=1e-3", "--verbose",
                f"--engine={engine}", "--chunk=50x100x100", "--threads=2",
                env={**os.environ, "TERP_CUDA_LIBRARY": FAKE_DEVICE})
            share = re.search(r"(\d+) % by the GPU", text)
            return share and int(share[1])

        self.assertIsNone(repack("cpu"))
        self.assertEqual(repack("cuda"), 100)
        # On a busy machine, the CPU may have taken all chunks before the GPU
        # is ready.
        self.assertTrue(any(repack("auto") > 0 for _ in range(3)))
        files = [h5py.File(out, "r") for out in outs.values()]
        ids = [file["x"].id for file in files]
        for i in range(ids[0].get_num_chunks()):
            where = ids[0].get_chunk_info(i).chunk_offset
            streams = {id_.read_direct_chunk(where) for id_ in ids}
            self.assertEqual(len(streams), 1, where)
        for file in files:
            file.close()

    @unittest.skipUnless(FAKE_DEVICE, "no stand-in for the GPU was built")
    def test_gpu_gets_parts_of_any_shape(self):
        """Parts of about 256 KiB are cut into chunks, which the arrays'
        ends and the parts' ends divide."""
        shapes = {"cube": (130, 157, 159), "plane": (1, 300, 400),
                  "planes": (1, 1, 70, 190, 33), "short": (5, 1, 100000),
                  "line": (200000,), "rows": (70, 1, 3000)}
        path = self.write(**{
            name: smooth(*shape, dtype="f8" if name == "plane" else "f4")
            for name, shape in shapes.items()})
        with h5py.File(path, "r+") as file:
            file["land"] = np.arange(157 * 159).reshape(157, 159) % 7 > 4
        for options in (), ("--mask=land", "--mask-fill"):
            outs = [self.path(f"{engine}.h5") for engine in ("cpu", "cuda")]
            for out, engine, threads in zip(outs, ("cpu", "cuda"), "13"):
                text = self.expect(
                    OK, "repack", path, out, "--abs=1e-3", *options,
                    f"--engine={engine}", f"--threads={threads}", "--verbose",
                    env={**os.environ, "TERP_CUDA_LIBRARY": FAKE_DEVICE})
                self.assertEqual(text.count("100 % by the GPU"),
                                 len(shapes) + 1 if engine == "cuda" else 0)
            for name in shapes:
                chunks = []
                for out in outs:
                    with h5py.File(out, "r") as file:
                        id_ = file[name].id
                        chunks.append([id_.read_direct_chunk(
                            id_.get_chunk_info(i).chunk_offset)
                            for i in range(id_.get_num_chunks())])
                self.assertGreater(len(chunks[0]), 0)
                self.assertEqual(*chunks, name)

    def test_verbose_names_every_dataset(self):
        path = self.write(x=self.values, ints=np.arange(10000))
        result = terp("repack", path, self.path("out.h5"), "--abs=0.5", "-v")
        self.assertEqual(result.returncode, OK)
        self.assertRegex(result.stdout, r"/x: .*abs.* 0\.5.*30x40x50.*ratio")
        self.assertRegex(result.stdout, r"/ints: lossless, chunks")
        self.assertRegex(result.stderr, r"\A.* -> .*, ratio .*\n\Z")


class Structure(Repack):
    def test_groups_links_and_order_are_kept(self):
        path = self.path("in.h5")
        with h5py.File(path, "w", track_order=True) as file:
            group = file.create_group("z/deep", track_order=True)
            for name in "cab":
                group[name] = smooth(20, 30, 40)
                group.attrs[name] = name
            file.create_group("a")
            file["hard"] = group["a"]
            file["loop"] = file["z"]
            file["z/back"] = file["/"]
            file["soft"] = h5py.SoftLink("/z/deep/a")
            file["dangling"] = h5py.SoftLink("/nowhere")
            file["outside"] = h5py.ExternalLink("other.h5", "/x")
            file["\u00e4"] = 1
        out = self.repack(path, "--abs=0.1")
        with h5py.File(path, "r") as a, h5py.File(out, "r") as b:
            orders = [[], []]
            for file, order in zip((a, b), orders):
                root = h5py.h5g.open(file.id, b"/")
                root.links.iterate(
                    order.append, idx_type=h5py.h5.INDEX_CRT_ORDER
                )
            self.assertEqual(*orders)
            self.assertEqual(orders[0][:2], [b"z", b"a"])
            self.assertEqual(list(b["z/deep"]), ["c", "a", "b"])
            self.assertEqual(list(b["z/deep"].attrs), ["c", "a", "b"])
            self.assertEqual(b["hard"], b["z/deep/a"])
            self.assertEqual(b["loop"], b["z"])
            self.assertEqual(b["z/back"], b["/"])
            for name in ("soft", "dangling", "outside"):
                links = [f.get(name, getlink=True) for f in (a, b)]
                self.assertEqual(*[link.path for link in links])
                self.assertEqual(*[type(link) for link in links])
            self.assertEqual(b.get("outside", getlink=True).filename,
                             "other.h5")

    def test_attributes_and_committed_types_are_kept(self):
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            pair = np.dtype([("a", "f4"), ("b", "i4")])
            file["pair"] = pair
            file["float"] = np.dtype("f4")
            file["pair"].attrs["of"] = "a type"
            file.create_dataset("pairs", (3,), file["pair"])[...] = np.array(
                [(1, 2), (3, 4), (5, 6)], pair
            )
            values = smooth(20, 30, 40)
            file.create_dataset("x", values.shape, file["float"])[...] = values
            file["x"].attrs.create("p", np.array((7, 8), pair),
                                   dtype=file["pair"])
            file["x"].attrs["text"] = "t\u00e4xt"
            file["x"].attrs["fixed"] = np.bytes_("fixed")
            file["x"].attrs["texts"] = ["one", "two"]
            file["x"].attrs["none"] = h5py.Empty("f8")
            file["x"].attrs["array"] = np.arange(12).reshape(3, 4)
            # A committed type without a name.
            file["gone"] = np.dtype("i2")
            file.create_dataset("shorts", (4,), file["gone"])[...] = 5
            del file["gone"]
        out = self.repack(path, "--abs=0.1")
        with h5py.File(path, "r") as a, h5py.File(out, "r") as b:
            for name in ("x", "pairs"):
                self.assertTrue(b[name].id.get_type().committed())
            self.assertEqual(b["x"].id.get_type(), b["float"].id)
            self.assertTrue(b["shorts"].id.get_type().committed())
            np.testing.assert_array_equal(b["shorts"][:], 5)
            np.testing.assert_array_equal(a["pairs"][:], b["pairs"][:])
            self.assertIsNotNone(parameters(b["x"]))
            self.assertEqual(b["pair"].attrs["of"], "a type")
            self.assertEqual(list(a["x"].attrs), list(b["x"].attrs))
            for name in a["x"].attrs:
                one, other = a["x"].attrs[name], b["x"].attrs[name]
                if name != "none":
                    np.testing.assert_array_equal(one, other)
                ids = [h5py.h5a.open(f["x"].id, name.encode()).get_type()
                       for f in (a, b)]
                self.assertTrue(ids[0].equal(ids[1]), name)
            self.assertTrue(h5py.h5a.open(b["x"].id, b"p").get_type()
                            .committed())

    def test_references_point_into_the_output(self):
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            # References to a later object, and to a deleted one.
            file["first"] = 0
            refs = file.create_dataset("a_refs", (4,), h5py.ref_dtype)
            file["gone"] = 1
            file["x"] = smooth(20, 30, 40)
            file["g/y"] = smooth(20, 30, 40)
            refs[0], refs[1] = file["g/y"].ref, file["g"].ref
            refs[3] = file["gone"].ref
            regions = file.create_dataset("regions", (2,), h5py.regionref_dtype)
            regions[0] = file["x"].regionref[1:3, 4, ::7]
            both = np.dtype([("n", "i4"), ("ref", h5py.ref_dtype)])
            file["both"] = np.array([(7, file["x"].ref)], both)
            file["x"].attrs["ref"] = file["g"].ref
            file["x"].attrs["region"] = file["g/y"].regionref[2:4]
            del file["gone"]
        want = {"g/y": "/g/y", "g": "/g"}
        with h5py.File(self.repack(path, "--abs=0.1"), "r") as file:
            refs = file["a_refs"]
            self.assertEqual(file[refs[0]].name, want["g/y"])
            self.assertEqual(file[refs[1]].name, want["g"])
            self.assertFalse(refs[2])
            self.assertFalse(refs[3])
            region = file["regions"][0]
            self.assertEqual(file[region].name, "/x")
            self.assertEqual(file["x"].regionref.selection(region), (2, 1, 6))
            self.assertFalse(file["regions"][1])
            self.assertEqual(file["both"]["n"][0], 7)
            self.assertEqual(file[file["both"]["ref"][0]].name, "/x")
            self.assertEqual(file[file["x"].attrs["ref"]].name, "/g")
            self.assertEqual(file[file["x"].attrs["region"]].name, "/g/y")

    def test_dimension_scales_stay_attached(self):
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            file["x"] = smooth(20, 30, 40)
            for i, name in enumerate(("z", "y", "lon")):
                file[name] = np.arange(file["x"].shape[i], dtype="f4")
                file[name].make_scale(name)
                file["x"].dims[i].attach_scale(file[name])
                file["x"].dims[i].label = name
        with h5py.File(self.repack(path, "--rel=0.1"), "r") as file:
            for dimension, name in zip(file["x"].dims, ("z", "y", "lon")):
                self.assertEqual(dimension.label, name)
                self.assertEqual(dimension[name], file[name])
            back = file["lon"].attrs["REFERENCE_LIST"][0]
            self.assertEqual(file[back[0]].name, "/x")
            self.assertEqual(back[1], 2)

    def test_netcdf_file_is_the_same_to_netcdf(self):
        if not shutil.which("ncgen") or not shutil.which("ncdump"):
            self.skipTest("needs ncgen and ncdump")
        text = self.path("in.cdl")
        with open(text, "w", encoding="ascii") as file:
            file.write(NETCDF)
        path = self.path("in.nc")
        subprocess.run(["ncgen", "-4", "-o", path, text], check=True)
        dumps = []
        for name in (path, self.repack(path, "--rel=1e-3")):
            dump = subprocess.run(
                ["ncdump", "-c", name], check=True, stdout=subprocess.PIPE
            )
            dumps.append(dump.stdout.split(b"\n", 1)[1])
        self.assertEqual(*dumps)
        with h5py.File(self.path("out.h5"), "r") as file:
            self.assertIsNotNone(parameters(file["T"]))
            self.assertIsNone(parameters(file["wide"]))

    def test_user_block_is_kept(self):
        path = self.path("in.h5")
        with h5py.File(path, "w", userblock_size=1024) as file:
            file["x"] = smooth(20, 30, 40)
        with open(path, "r+b") as file:
            file.write(b"MATLAB 7.3 MAT-file")
        out = self.repack(path, "--abs=0.1")
        with open(path, "rb") as a, open(out, "rb") as b:
            self.assertEqual(a.read(1024), b.read(1024))

    def test_file_format_is_not_newer_than_the_inputs(self):
        for libver in ("earliest", "v108", "latest"):
            path = self.path("in.h5")
            with h5py.File(path, "w", libver=libver) as file:
                file["x"] = smooth(20, 30, 40)
                if libver != "earliest":
                    file["x"].attrs["large"] = np.arange(20000)
            out = self.repack(path, "--abs=0.1")
            with open(path, "rb") as a, open(out, "rb") as b:
                self.assertEqual(a.read(9), b.read(9))


class Progress(Repack):
    def on_terminal(self, code, *arguments):
        """What the tool prints to a terminal's standard error."""
        try:
            main, terminal = os.openpty()
        except OSError as error:
            self.skipTest(error)
        with subprocess.Popen([TOOL, *arguments], stderr=terminal) as process:
            os.close(terminal)
            drawn = b""
            try:
                while block := os.read(main, 4096):
                    drawn += block
            except OSError:  # the other end was closed
                pass
        os.close(main)
        self.assertEqual(process.returncode, code)
        return drawn.decode("ascii")

    def test_bar_is_shown_on_a_terminal_and_a_sum_in_any_case(self):
        noise = np.random.default_rng(5).normal(size=(64, 512, 512))
        path, out = self.write(x=noise), self.path("out.h5")
        arguments = ("repack", path, out, "--abs=1e-5")
        self.assertRegex(
            terp(*arguments).stderr,
            r"\A" + re.escape(path) + r" 134 MB -> .*, ratio .* s\n\Z")
        began = time.monotonic()
        drawn = self.on_terminal(OK, *arguments)
        took = time.monotonic() - began
        self.assertRegex(drawn, r"\r\[#+\.*\] +\d+ %  .* of 134 MB")
        found = re.search(
            r"\r +\r" + re.escape(path) + r" 134 MB -> " + re.escape(out) +
            r" (\d+\.\d) MB, ratio (\d\.\d\d), (\d+\.\d) s\r\n$", drawn)
        self.assertIsNotNone(found, drawn)
        nbytes, ratio, seconds = map(float, found.groups())
        before, after = map(os.path.getsize, (path, out))
        self.assertAlmostEqual(nbytes, after / 1e6, delta=0.05001)
        self.assertAlmostEqual(ratio, before / after, delta=0.005001)
        self.assertTrue(took / 2 - 0.2 <= seconds <= took + 0.05,
                        (seconds, took))

    def test_values_that_are_read_twice_count_once(self):
        noise = np.random.default_rng(5).normal(size=(32, 512, 512))
        path = self.write(x=noise)
        drawn = self.on_terminal(OK, "repack", path, self.path("out.h5"),
                                 "--rel=1e-5", "--threads=1")
        totals = set(re.findall(r"\] +\d+ %  .*? of (\S+ \S+)", drawn))
        self.assertEqual(totals, {"67.1 MB"})
        done = re.findall(r"\] +(\d+) %", drawn)
        self.assertGreater(max(map(int, done)), 50)

    def test_no_sum_after_a_failure(self):
        drawn = self.on_terminal(TROUBLE, "repack", self.path("none.h5"),
                                 self.path("out.h5"), "--abs=1e-5")
        self.assertNotIn("->", drawn)


class Trouble(Repack):
    def setUp(self):
        super().setUp()
        self.good = self.write("good.h5", x=smooth(64, 64, 64))

    def refuse(self, path, *arguments):
        message = self.repack(path, *arguments, code=TROUBLE)
        self.assertFalse(os.path.exists(self.path("out.h5")))
        self.assertRegex(message, "^terp repack: ")
        self.assertNotIn("no reason", message)
        return message

    def test_wrong_usage_is_refused(self):
        for arguments in (
            (),
            ("--rel=0",), ("--rel=1",), ("--rel=nan",), ("--rel=x",),
            ("--abs=-1",), ("--abs=inf",), ("--psnr=1",), ("--psnr=1e9",),
            ("--pwr=1",), ("--pwr=0",), ("--pwr=0.1", "--rel=0.1"),
            ("--rel=0.1", "--floor=1"), ("--pwr=0.1", "--floor=0"),
            ("--dataset=x=pwr:0.1:",), ("--digits=0",), ("--bits=53",),
            ("--dataset=x=digits:16",), ("--digits=3", "--pwr=0.1"),
            ("--rel=0.1", "--abs=1"), ("--psnr=60", "--psnr=70"),
            ("--dataset=x",), ("--dataset==1",), ("--dataset=x=",),
            ("--dataset=x=abs:0",), ("--dataset=x=2",),
            ("--rel=0.1", "--chunk=0x4"), ("--rel=0.1", "--chunk=4x"),
            ("--rel=0.1", "--threads=0"), ("--rel=0.1", "--engine=gpu"),
            ("--rel=0.1", "--pipeline=best"),
            ("--rel=0.1", "--effort=most"), ("--rel=0.1", "third.h5"),
            ("--rel=0.1", "--rest=bzip2"),
        ):
            with self.subTest(arguments):
                self.refuse(self.good, *arguments)

    def test_unknown_dataset_is_named(self):
        text = self.refuse(self.good, "--rel=0.1", "--dataset=rho=1e-3")
        self.assertIn("rho=1e-3", text)
        path = self.write("text.h5", text=np.full(10000, b"text"))
        self.assertIn("text=0.1", self.refuse(path, "--dataset=text=0.1"))

    def test_what_is_no_hdf5_file_is_refused(self):
        text = self.path("text")
        with open(text, "w", encoding="ascii") as file:
            file.write("this is text")
        self.assertIn("not an HDF5 file", self.refuse(text, "--rel=0.1"))
        self.assertIn("No such file", self.refuse(self.path("no"), "--rel=0.1"))
        self.refuse(self.directory, "--rel=0.1")

    def test_damaged_input_is_refused(self):
        path = self.path("bad.h5")
        with h5py.File(path, "w") as file:
            data = file.create_dataset(
                "g/x", data=smooth(32, 32, 32), chunks=(16, 16, 16),
                fletcher32=True
            )
            where = data.id.get_chunk_info(3).byte_offset
        with open(path, "r+b") as file:
            file.seek(where)
            file.write(b"????")
        self.assertIn("/g/x: ", self.refuse(path, "--rel=0.1"))
        with open(self.good, "rb") as file:
            half = file.read()[:50000]
        with open(path, "wb") as file:
            file.write(half)
        self.assertIn("truncated", self.refuse(path, "--rel=0.1"))

    def test_output_that_cannot_be_made_is_refused(self):
        for out, word in (
            (self.path("no/out.h5"), "No such file"),
            (self.directory, "not a regular file"),
            (self.good, "IN and OUT are the same file"),
        ):
            text = self.expect(TROUBLE, "repack", self.good, out, "--rel=0.1")
            self.assertIn(word, text)
        link = self.path("link.h5")
        os.symlink(self.good, link)
        self.expect(TROUBLE, "repack", self.good, link, "--rel=0.1")
        with h5py.File(self.good, "r") as file:
            self.assertIsNone(parameters(file["x"]))

    def as_nobody(self):
        """Options of a process without root's rights. Skips the test if such a
        process cannot run the tool, as in root's home."""
        if os.geteuid() != 0:
            return {}
        options = {"user": NOBODY}
        try:
            terp("--version", **options)
        except PermissionError as error:
            self.skipTest(error)
        return options

    def test_read_only_target_is_left_alone(self):
        old = self.write("old.h5", y=[1.5])
        os.chmod(old, 0o444)
        os.chmod(self.directory, 0o777)
        options = self.as_nobody()
        result = terp("repack", self.good, old, "--rel=0.1", **options)
        self.assertEqual(result.returncode, TROUBLE)
        self.assertIn("Permission denied", result.stderr)
        os.chmod(self.directory, 0o555)
        result = terp("repack", self.good, self.path("new.h5"), "--rel=0.1",
                      **options)
        os.chmod(self.directory, 0o777)
        self.assertEqual(result.returncode, TROUBLE)
        self.assertIn("Permission denied", result.stderr)
        with h5py.File(old, "r") as file:
            self.assertEqual(list(file), ["y"])

    def test_full_disk_leaves_the_old_file(self):
        noise = np.random.default_rng(5).normal(size=(128, 128, 128))
        path = self.write("noise.h5", x=noise)
        out = self.write("out.h5", y=[1.5])

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

        for arguments in (("--abs=1e-6",), ("--abs=1", "-dx=none")):
            result = terp("repack", path, out, *arguments, preexec_fn=limit)
            self.assertEqual(result.returncode, TROUBLE, result.stderr)
            self.assertIn("File too large", result.stderr)
            with h5py.File(out, "r") as file:
                self.assertEqual(list(file), ["y"])
        self.assertEqual(len(os.listdir(self.directory)), 3)

    def start(self, *arguments):
        """A long repack. Returns when it has begun to write."""
        noise = np.random.default_rng(5).normal(size=(160, 256, 256))
        path = self.write("noise.h5", x=noise)
        process = subprocess.Popen(
            [TOOL, "repack", path, self.path("out.h5"), "--abs=1e-4",
             "--threads=1", *arguments],
            stderr=subprocess.PIPE, text=True
        )
        while process.poll() is None and not any(
            "part-" in name and os.path.getsize(self.path(name)) > 1 << 20
            for name in os.listdir(self.directory)
        ):
            time.sleep(0.01)
        self.assertIsNone(process.poll(), "it ended too soon")
        return path, process

    def test_end_by_a_signal_leaves_nothing_behind(self):
        _, process = self.start()
        process.send_signal(signal.SIGTERM)
        process.communicate()
        self.assertEqual(process.returncode, -signal.SIGTERM)
        self.assertEqual(sorted(os.listdir(self.directory)),
                         ["good.h5", "noise.h5"])

    def test_input_that_changes_is_noticed(self):
        path, process = self.start()
        os.utime(path)
        _, text = process.communicate()
        self.assertEqual(process.returncode, TROUBLE)
        self.assertIn("changed during the run", text)
        self.assertEqual(sorted(os.listdir(self.directory)),
                         ["good.h5", "noise.h5"])

    def test_limit_of_memory_is_an_error_that_names_it(self):
        path = self.write("big.h5", x=smooth(64, 64, 64), y=smooth(64, 64, 64))
        for limit in ("100K", "1M", "2M", "all"):
            result = terp(
                "repack", path, self.path("out.h5"), "--rel=1e-3", "--threads=2",
                env={**os.environ, "TERP_MAX_MEMORY": limit})
            self.assertEqual(result.returncode, TROUBLE, limit)
            self.assertIn("TERP_MAX_MEMORY", result.stderr)
            self.assertEqual(sorted(os.listdir(self.directory)),
                             ["big.h5", "good.h5"])
        self.expect(OK, "repack", path, self.path("free.h5"), "--rel=1e-3")
        self.expect(OK, "repack", path, self.path("out.h5"), "--rel=1e-3",
                    env={**os.environ, "TERP_MAX_MEMORY": "40M"})
        with h5py.File(self.path("out.h5"), "r") as a, \
                h5py.File(self.path("free.h5"), "r") as b:
            for name in "x", "y":
                self.assertEqual(a[name][:].tobytes(), b[name][:].tobytes())

    def test_missing_plugin_is_said(self):
        environment = {**os.environ, "HDF5_PLUGIN_PRELOAD": "::"}
        result = terp("repack", self.good, self.path("out.h5"), "--rel=0.1",
                      env=environment)
        self.assertEqual(result.returncode, TROUBLE)
        self.assertIn("set HDF5_PLUGIN_PATH", result.stderr)


if __name__ == "__main__":
    unittest.main()
