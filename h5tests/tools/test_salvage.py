#!/usr/bin/env python3
"""Damages chunks of files that h5py makes, and checks what terp repack
--salvage copies and reports."""
import os
import random
import re
import sys
import unittest

from tool_case import FOUND, OK, TROUBLE, ToolTest, terp

try:
    import h5py
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

TERP = {"compression": 46117, "compression_opts": (1, 1, 3)}
SHAPE, CHUNKS = (50, 40, 30), (20, 20, 20)
# Each filter has its own check: terp's checksum, zlib's Adler-32, HDF5's
# Fletcher-32.
FILTERS = {
    "terp": TERP,
    "gzip": {"compression": "gzip", "shuffle": True},
    "sum": {"fletcher32": True},
    "both": {**TERP, "fletcher32": True},
}


def place(text):
    """The selection as h5py's argument."""
    return tuple(slice(*map(int, part.split(":"))) for part in text.split(", "))


def lost_of(dataset):
    return [text.decode() for text in dataset.attrs.get("terp_lost", [])]


class Salvage(ToolTest):
    def setUp(self):
        super().setUp()
        self.source = self.path("in.h5")
        self.out = self.path("out.h5")
        noise = np.random.default_rng(7).normal(size=SHAPE)
        self.values = noise.cumsum(0).astype("f4")

    def write(self, datasets, **options):
        """`datasets` are the arguments of create_dataset, by name."""
        with h5py.File(self.source, "w", **options) as file:
            for name, arguments in datasets.items():
                arguments = {"data": self.values, "chunks": CHUNKS, **arguments}
                attributes = arguments.pop("attrs", {})
                file.create_dataset(name, **arguments).attrs.update(attributes)

    def damage(self, name, nchunks, pick):
        """Changes bytes in the middle of some chunks. Returns how verify and
        h5py name their values."""
        with h5py.File(self.source, "r") as file:
            dataset = file[name]
            shape, chunk_shape = dataset.shape, dataset.chunks
            chunks = [
                dataset.id.get_chunk_info(i)
                for i in range(dataset.id.get_num_chunks())
            ]
        chosen = sorted(
            pick.sample(chunks, nchunks), key=lambda c: c.chunk_offset
        )
        with open(self.source, "r+b") as file:
            for chunk in chosen:
                file.seek(chunk.byte_offset + chunk.size // 2)
                bytes_ = file.read(4)
                file.seek(chunk.byte_offset + chunk.size // 2)
                file.write(bytes(b ^ 0xA5 for b in bytes_))
        return [
            ", ".join(
                f"{at}:{min(at + n, end)}"
                for at, n, end in zip(chunk.chunk_offset, chunk_shape, shape)
            )
            for chunk in chosen
        ]

    def salvage(self, *arguments, code=FOUND):
        """Its output: (path, values, reason) of each chunk."""
        text = self.expect(
            code, "repack", "--salvage", self.source, self.out, *arguments
        )
        found = re.findall(r"^(/\S+?)\[([^]]*)\]: DAMAGED: (.+)$", text, re.M)
        self.assertEqual(len(found), text.count("DAMAGED"))
        return found

    def check(self, name, lost, fill, bound):
        """The copy has the original's values, and `fill` for lost ones. The
        attributes say so."""
        with h5py.File(self.out, "r") as file:
            dataset = file[name]
            got = dataset[...]
            self.assertEqual(lost_of(dataset), lost)
            reasons = dataset.attrs["terp_lost_reason"]
            self.assertEqual(len(reasons), len(lost))
            self.assertNotIn(b"HDF5 failed without a reason", reasons)
            np.testing.assert_equal(dataset.attrs["terp_lost_value"], fill)
        whole = np.ones(got.shape, bool)
        for values in lost:
            np.testing.assert_equal(got[place(values)], fill)
            whole[place(values)] = False
        error = np.abs(got.astype("f8") - self.values)[whole]
        self.assertLessEqual(error.max(initial=0), bound)

    def test_what_is_whole_is_copied_and_the_rest_is_listed(self):
        # Datasets of terp have the bound 1e-3.
        for seed in range(16):
            pick = random.Random(seed)
            self.write({n: {**o} for n, o in FILTERS.items()})
            lost = {n: self.damage(n, pick.randrange(13), pick) for n in FILTERS}
            arguments = [f"--threads={1 + seed % 3}", "--abs=0.01"]
            if seed % 2:
                arguments.append("--chunk=8x16x8")
            with self.subTest(seed=seed):
                nlost = sum(map(len, lost.values()))
                found = self.salvage(*arguments, code=FOUND if nlost else OK)
                self.assertEqual(
                    [(path, values) for path, values, _ in found],
                    [(f"/{n}", v) for n in sorted(lost) for v in lost[n]],
                )
                for name in FILTERS:
                    if lost[name]:
                        self.check(name, lost[name], np.nan, 0.011)
                self.expect(OK, "verify", self.out)

    def test_chunks_that_are_copied_as_stored(self):
        for arguments in (["-d", "*=none"], ["-d", "*=none", "--rest=deflate"],
                          ["--rel=1e-2", "-d", "*=none"]):
            pick = random.Random(1)
            self.write({n: {**o} for n, o in FILTERS.items()})
            lost = {n: self.damage(n, 3, pick) for n in FILTERS}
            self.salvage(*arguments)
            for name in FILTERS:
                self.check(name, lost[name], np.nan, 0.001)
            with h5py.File(self.out, "r") as file:
                file["both"][...]

    def test_verify_names_the_same(self):
        self.write({n: {**o} for n, o in FILTERS.items() if n != "gzip"})
        pick = random.Random(2)
        for name in ("terp", "sum", "both"):
            self.damage(name, 4, pick)
        told = [
            line
            for line in self.expect(FOUND, "verify", self.source).splitlines()
            if "DAMAGED" in line
        ]
        self.assertEqual(len(told), 12)
        text = self.expect(
            FOUND, "repack", "--salvage", self.source, self.out, "--abs=1"
        )
        self.assertEqual(text.splitlines(), told)

    def test_without_the_option_damage_is_an_error(self):
        for name, options in FILTERS.items():
            self.write({name: options})
            self.damage(name, 1, random.Random(3))
            with self.subTest(name):
                result = terp("repack", self.source, self.out, "--abs=0.1")
                self.assertEqual(result.returncode, TROUBLE)
                self.assertIn(f"/{name}: ", result.stderr)
                self.assertEqual(os.listdir(self.directory), ["in.h5"])

    def test_want_of_memory_is_no_damage(self):
        # A chunk has 32000 bytes.
        for name in ("terp", "both"):
            self.write({name: FILTERS[name]})
            self.damage(name, 1, random.Random(13))
            for option in ("--abs=0.1", "-d*=none"):
                with self.subTest(name=name, option=option):
                    result = terp(
                        "repack", "--salvage", self.source, self.out, option,
                        env={**os.environ, "TERP_MAX_MEMORY": "20K"},
                    )
                    self.assertEqual(result.returncode, TROUBLE)
                    self.assertIn("TERP_MAX_MEMORY", result.stderr)
                    self.assertEqual(os.listdir(self.directory), ["in.h5"])

    def test_of_a_whole_file_nothing_is_told(self):
        self.write({n: {**o} for n, o in FILTERS.items()})
        result = terp("repack", "--salvage", self.source, self.out, "--abs=0.1",
                      "-d", "gzip=none")
        self.assertEqual((result.returncode, result.stdout), (OK, ""))
        self.assertNotIn("damaged", result.stderr)
        plain = self.path("plain.h5")
        self.expect(OK, "repack", self.source, plain, "--abs=0.1", "-d",
                    "gzip=none")
        with h5py.File(self.out, "r") as a, h5py.File(plain, "r") as b:
            for name in FILTERS:
                self.assertEqual(a[name][...].tobytes(), b[name][...].tobytes())
                self.assertEqual(dict(a[name].attrs), {})

    def test_fill_values(self):
        values = self.values
        gzip = {"compression": "gzip"}
        complex_ = values.astype("c8")
        pairs = np.zeros(SHAPE, [("a", "f4"), ("b", "i2")])
        pairs["a"] = values
        noise = np.random.default_rng(8).integers(0, 1000, SHAPE)
        nan2 = complex(np.nan, np.nan)
        cases = {
            "set": ({"data": values, "fillvalue": -7.5}, -7.5),
            "set_int": ({"data": noise, "fillvalue": 12}, 12),
            "both": ({"data": values, "fillvalue": 3,
                      "attrs": {"_FillValue": np.float32(4)}}, 3),
            "cf": ({"data": values, "attrs": {"_FillValue": np.float32(1e20)}},
                   np.float32(1e20)),
            "missing": ({"data": values.astype(">f8"),
                         "attrs": {"missing_value": [-99.0, -98.0]}}, -99),
            "missing_int": ({"data": noise.astype("i2"),
                             "attrs": {"missing_value": np.int16(-32767)}},
                            -32767),
            "text": ({"data": values, "attrs": {"_FillValue": "none"}}, np.nan),
            "f8": ({"data": values.astype("f8")}, np.nan),
            "f2": ({"data": values.astype("f2")}, np.nan),
            "be": ({"data": values.astype(">f4")}, np.nan),
            "c8": ({"data": complex_}, nan2),
            "c16": ({"data": values.astype(">c16")}, nan2),
            "u1": ({"data": noise.astype("u1")}, 0),
            "i8": ({"data": noise}, 0),
            "pairs": ({"data": pairs}, np.zeros((), pairs.dtype)),
            "words": ({"data": noise.astype("S9")}, b""),
            "fill_words": ({"data": noise.astype("S9"), "fillvalue": b"none"},
                           b"none"),
        }
        for rule in ("lossless", "none"):
            self.write({n: {**gzip, **o} for n, (o, _) in cases.items()})
            pick = random.Random(4)
            lost = {name: self.damage(name, 2, pick) for name in cases}
            found = self.salvage("-d", f"*={rule}")
            self.assertEqual(len(found), 2 * len(cases))
            with h5py.File(self.out, "r") as file:
                for name, (arguments, fill) in cases.items():
                    with self.subTest(name=name, rule=rule):
                        expected = np.array(arguments["data"])
                        for values in lost[name]:
                            expected[place(values)] = fill
                        np.testing.assert_array_equal(
                            file[name][...], expected
                        )
                        np.testing.assert_equal(
                            file[name].attrs["terp_lost_value"], fill)

    def test_texts_and_references_become_none(self):
        with h5py.File(self.source, "w") as file:
            file["x"] = np.arange(3)
            file.create_dataset(
                "texts", data=[f"text {i}" for i in range(400)],
                dtype=h5py.string_dtype(), chunks=(100,), compression="gzip",
            )
            file.create_dataset(
                "refs", data=[file["x"].ref] * 400, dtype=h5py.ref_dtype,
                chunks=(100,), compression="gzip",
            )
        pick = random.Random(5)
        (texts,), (refs,) = (self.damage(n, 1, pick) for n in ("texts", "refs"))
        self.salvage("--abs=1")
        with h5py.File(self.out, "r") as file:
            for i, text in enumerate(file["texts"][...]):
                is_lost = i in range(400)[place(texts)[0]]
                self.assertEqual(text, b"" if is_lost else b"text %d" % i)
            for i, ref in enumerate(file["refs"][...]):
                is_lost = i in range(400)[place(refs)[0]]
                self.assertEqual(bool(ref), not is_lost)
                if ref:
                    self.assertEqual(file[ref].name, "/x")
            self.assertEqual(lost_of(file["texts"]), [texts])
            self.assertEqual(lost_of(file["refs"]), [refs])

    def test_long_lists_are_complete(self):
        n = 5000
        values = np.random.default_rng(9).normal(size=(n, 64)).astype("f4")
        for libver in ("earliest", "latest"):
            self.write({"x": {"data": values, "chunks": (1, 64), "fletcher32":
                              True, "attrs": {"units": "K"}}}, libver=libver)
            lost = self.damage("x", n - 7, random.Random(6))
            found = self.salvage("-dx=abs:0.1")
            self.assertEqual([values for _, values, _ in found], lost)
            with h5py.File(self.out, "r") as file:
                self.assertEqual(lost_of(file["x"]), lost)
                self.assertEqual(file["x"].attrs["units"], "K")
                got = file["x"][...]
                self.assertEqual(np.isfinite(got).sum(), 7 * 64)
            self.expect(OK, "verify", self.out)

    def test_what_is_lost_stays_noted(self):
        self.write({"x": TERP, "y": TERP})
        first = self.damage("x", 2, random.Random(7))
        self.salvage("--abs=0.01")
        os.replace(self.out, self.source)
        # First nothing new in x, then something.
        self.damage("y", 1, random.Random(8))
        self.salvage("--abs=0.01")
        with h5py.File(self.out, "r") as file:
            self.assertEqual(lost_of(file["x"]), first)
        second = self.damage("x", 3, random.Random(9))
        self.salvage("--abs=0.01")
        with h5py.File(self.out, "r") as file:
            self.assertEqual(lost_of(file["x"]), first + second)
            self.assertEqual(len(file["x"].attrs["terp_lost_reason"]), 5)

    def test_info_shows_what_is_lost(self):
        self.write({"x": TERP, "y": TERP})
        lost = self.damage("x", 2, random.Random(10))
        self.salvage("--abs=0.01")
        text = self.expect(OK, "info", "-v", self.out)
        self.assertEqual(text.count("  LOST  "), 1)
        self.assertIn(f"chunks: 2, replaced by fill values; the first one [{lost[0]}]",
                      text)
        datasets = {
            d["path"]: d["lost"]
            for d in self.json(OK, "info", self.out)["files"][0]["datasets"]
        }
        self.assertIsNone(datasets["/y"])
        self.assertEqual([c["values"] for c in datasets["/x"]], lost)
        for chunk in datasets["/x"]:
            self.assertIn("checksum", chunk["reason"])

    def test_record_is_of_datasets_that_are_whole(self):
        self.write({"x": TERP, "y": TERP})
        self.damage("x", 1, random.Random(11))
        self.salvage("--abs=0.01", "--record")
        with h5py.File(self.out, "r") as file:
            self.assertNotIn("terp_max_error", file["x"].attrs)
            self.assertLessEqual(file["y"].attrs["terp_max_error"], 0.01)

    def test_range_is_that_of_what_is_left(self):
        values = self.values.copy()
        values[20:40, 20:40, :20] = 1e6  # one chunk
        self.write({"x": {"data": values, "compression": "gzip"}})
        with h5py.File(self.source, "r") as file:
            x = file["x"].id
            (at,) = (
                c for c in map(x.get_chunk_info, range(x.get_num_chunks()))
                if c.chunk_offset == (20, 20, 0)
            )
        with open(self.source, "r+b") as file:
            file.seek(at.byte_offset)
            file.write(bytes(at.size))
        self.salvage("--rel=1e-3")
        span = np.ptp(np.delete(values.ravel(), np.flatnonzero(values == 1e6)))
        with h5py.File(self.out, "r") as file:
            got = file["x"][...]
        left = np.isfinite(got)
        self.assertEqual((~left).sum(), 20 * 20 * 20)
        self.assertLessEqual(
            np.abs(got.astype("f8") - values)[left].max(), 1.001e-3 * span)

    def test_damaged_index_is_survived(self):
        """Chunks that cannot be found cannot be copied. Messages and
        attributes agree, or the command fails and writes no file."""
        self.write({"x": TERP, "y": {"compression": "gzip"}})
        with open(self.source, "rb") as file:
            content = file.read()
        pick = random.Random(12)
        ends = {OK: 0, FOUND: 0, TROUBLE: 0}
        for _ in range(60):
            changed = bytearray(content)
            at = pick.randrange(len(content))
            changed[at] = pick.randrange(256)
            with open(self.source, "wb") as file:
                file.write(changed)
            if os.path.exists(self.out):
                os.remove(self.out)
            result = terp("repack", "--salvage", self.source, self.out,
                          "--abs=0.1")
            self.assertIn(result.returncode, ends)
            ends[result.returncode] += 1
            self.assertEqual(
                os.path.exists(self.out), result.returncode != TROUBLE)
            if result.returncode == TROUBLE:
                self.assertNotEqual(result.stderr, "")
                continue
            with h5py.File(self.out, "r") as file:
                noted = [
                    f"{path}[{values}]"
                    for path in file
                    for values in lost_of(file[path])
                ]
            told = re.findall(r"^/(\S+?\[[^]]*\])", result.stdout, re.M)
            self.assertEqual(noted, told)
        self.assertGreater(ends[FOUND], 20)


if __name__ == "__main__":
    unittest.main()
