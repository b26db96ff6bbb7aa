#!/usr/bin/env python3
"""Runs the tool on tables: compound values, which terp compresses by member."""
import pathlib
import re
import sys
import unittest

from tool_case import FOUND, OK, TROUBLE, ToolTest, terp, warnings_of

try:
    import h5py
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

N = 6000


def particles():
    table = np.zeros(
        N,
        np.dtype(
            [
                ("x", "f4"),
                ("charge", "f8"),
                ("id", "i8"),
                ("name", "S9"),
                ("inner", [("a", ">f4"), ("b", "u2")], (2,)),
                ("spectrum", "f4", (6,)),
                ("z", "c8"),
            ],
            align=True,
        ),
    )
    t = np.arange(N) / 100
    table["x"] = 100 * np.sin(t)
    table["charge"] = np.exp(-t / 30)
    table["id"] = 10 + np.arange(N)
    table["name"] = [b"star %d" % (i % 9) for i in range(N)]
    table["inner"]["a"] = np.cos(t)[:, None] * [1, 2]
    table["inner"]["b"] = 7
    table["spectrum"] = np.cos(t)[:, None] + np.arange(6)
    table["z"] = np.exp(1j * t)
    return table


MEMBERS = ["x", "charge", "id", "name", "inner.a", "inner.b", "spectrum", "z"]


class Members(ToolTest):
    def write(self, name="in.h5", **options):
        with h5py.File(self.path(name), "w") as file:
            file.create_dataset("t", data=particles(), **options)
            file.create_dataset("field", data=particles()["x"])
        return self.path(name)

    def repack(self, *options, code=OK):
        """Repacks a file; returns what repack prints, and the table."""
        result = terp("repack", self.write(), self.path("out.h5"), *options)
        self.assertEqual(result.returncode, code, result.stderr)
        if code != OK:
            return result.stderr, None
        with h5py.File(self.path("out.h5")) as file:
            self.assertEqual(file["t"].dtype, particles().dtype)
            return warnings_of(result), file["t"][...]

    def compare(self, code=OK, *options):
        document = self.json(
            code, "compare", self.path("in.h5"), self.path("out.h5"), *options
        )
        return {one["path"]: one for one in document["datasets"]}

    def test_tables_stay_lossless_unless_they_are_named(self):
        said, table = self.repack("--rel", "1e-3")
        self.assertIn("compound values stay lossless: /t;", said)
        self.assertEqual(table.tobytes(), particles().tobytes())
        found = self.compare()
        self.assertEqual(
            set(found), {"/field"} | {"/t." + name for name in MEMBERS}
        )
        self.assertEqual(found["/t.x"]["max_error"], 0)
        self.assertGreater(found["/field"]["max_error"], 0)
        info = self.json(OK, "info", self.path("out.h5"))
        table = info["files"][0]["datasets"][1]
        self.assertTrue(table["lossless"])
        self.assertLess(table["stored_bytes"], table["bytes"] / 3)
        self.assertIsNone(table["parameters"]["passed_through"])
        self.assertGreater(table["streams"]["kinds"]["by_member"], 0)
        members = {m["name"]: m for m in table["streams"]["members"]}
        self.assertEqual(set(members), {*MEMBERS, None})
        self.assertGreaterEqual(members["inner.a"]["bytes"], 8 * N)
        self.expect(OK, "verify", self.path("out.h5"))

    def test_a_named_table_keeps_the_bound_of_each_member(self):
        said, table = self.repack("--dataset", "t=1e-3")
        self.assertEqual(said, "")
        before = particles()
        for name in "id", "name":
            self.assertEqual(table[name].tobytes(), before[name].tobytes())
        for name in "x", "charge", "spectrum":
            error = abs(table[name] - before[name]).max()
            self.assertTrue(0 < error <= 1.001e-3 * np.ptp(before[name]))
        found = self.compare()
        for name in "x", "charge", "inner.a", "spectrum", "z":
            one = found["/t." + name]
            self.assertEqual(one["verdict"], "ok")
            self.assertTrue(0 < one["error_of_bound"] <= 1, name)
        self.assertEqual(found["/t.id"]["verdict"], "ok")

    def test_members_have_bounds_of_their_own(self):
        _, table = self.repack(
            *["--member", "x=abs:0.5", "--member", "inner=abs:0.25"],
            *["--member", "id=abs:3"],
        )
        before = particles()
        self.assertTrue(0.2 < abs(table["x"] - before["x"]).max() <= 0.5)
        error = abs(table["inner"]["a"] - before["inner"]["a"]).max()
        self.assertTrue(0.1 < error <= 0.25)
        self.assertTrue(0 < abs(table["id"] - before["id"]).max() <= 3)
        for name in "charge", "name", "spectrum", "z":
            self.assertEqual(table[name].tobytes(), before[name].tobytes())
        found = self.compare()
        self.assertEqual(found["/t.x"]["bound"], 0.5)
        self.assertEqual(found["/t.charge"]["max_error"], 0)
        with h5py.File(self.path("out.h5")) as file:
            self.assertIsNone(file["field"].chunks)  # no bound: copied
        lines = self.expect(OK, "info", self.path("out.h5"))
        self.assertRegex(lines, f" lossless, 3 own bounds +compound {N} +/t\n")

    def test_short_lines_tell_of_bounds_of_members(self):
        self.repack("--dataset", "t=1e-3", "--member", "id=lossless")
        lines = self.expect(OK, "info", self.path("out.h5"))
        self.assertRegex(lines, r" relative bound 0.001, 1 own bound\b")

    def test_wrong_members_are_refused(self):
        for option, said in [
            ("y=abs:1", "have this member"),
            ("name=abs:1", "this member has no numbers"),
            ("x=none", "no floor"),
            ("x", "NAME=BOUND"),
        ]:
            self.assertIn(said, self.repack("--member", option, code=TROUBLE)[0])

    def test_compare_finds_the_member_that_exceeds_its_bound(self):
        self.repack("--dataset", "t=abs:0.01")
        table = particles()
        table["charge"][4321] += 0.5
        table["name"][17] = b"other"
        with h5py.File(self.path("in.h5"), "r+") as file:
            file["t"][...] = table
        found = self.compare(FOUND)
        self.assertEqual(found["/t.charge"]["verdict"], "exceeded")
        self.assertEqual(found["/t.name"]["verdict"], "different")
        self.assertEqual(found["/t.x"]["verdict"], "ok")
        found = self.compare(FOUND, "--abs", "1")
        self.assertEqual(found["/t.charge"]["verdict"], "ok")

    def write_chunk(self, chunk):
        with h5py.File(self.path("out.h5"), "r+") as file:
            file["t"].id.write_direct_chunk((2000,), bytes(chunk))

    def test_damage_is_found(self):
        self.repack("--lossless", "--chunk", "2000")
        with h5py.File(self.path("out.h5")) as file:
            _, chunk = file["t"].id.read_direct_chunk((2000,))
        for at in 9, 45, len(chunk) // 2, len(chunk) - 1:
            bad = bytearray(chunk)
            bad[at] ^= 4
            self.write_chunk(bad)
            said = self.expect(FOUND, "verify", self.path("out.h5"))
            self.assertIn("/t[2000:4000]: DAMAGED", said)
            self.assertIn("/t: 2 whole, 1 damaged", said)
            self.expect(FOUND, "info", self.path("out.h5"))
        self.write_chunk(chunk)
        self.expect(OK, "verify", self.path("out.h5"))

    def test_arrays_and_small_tables(self):
        with h5py.File(self.path("in.h5"), "w") as file:
            file.create_dataset(
                "arrays", (5000,), np.dtype(("f4", (3,)))
            )[...] = np.sin(np.arange(15000) / 900).reshape(5000, 3)
            file.create_dataset("small", data=particles()[:20])
            file.create_dataset(
                "vlen", (5000,), [("x", "f4"), ("s", h5py.string_dtype())]
            )
        result = terp(
            "repack", self.path("in.h5"), self.path("out.h5"), "-v",
            "--lossless", "--dataset", "arrays=1e-3",
        )
        self.assertEqual(result.returncode, OK, result.stderr)
        self.assertIn("/small: copied: few values", result.stdout)
        self.assertIn("/vlen: copied: terp does not", result.stdout)
        found = self.compare()
        self.assertTrue(0 < found["/arrays"]["error_of_bound"] <= 1)

    def test_old_streams_are_demanded(self):
        _, table = self.repack("--lossless", "--format=1", "--chunk", "1000")
        self.assertEqual(table.tobytes(), particles().tobytes())
        with h5py.File(self.path("out.h5")) as file:
            self.assertEqual(file["t"]._filters, {})

    def test_indexes_of_pytables_stay_exact(self):
        with h5py.File(self.path("in.h5"), "w") as file:
            index = file.create_dataset("sorted", data=np.sin(np.arange(9999)))
            index.attrs["CLASS"] = np.bytes_("INDEXARRAY")
        result = terp(
            "repack", self.path("in.h5"), self.path("out.h5"), "--rel", "1e-2"
        )
        self.assertIn("/sorted (index of a table)", result.stderr)
        with h5py.File(self.path("out.h5")) as file:
            self.assertTrue((file["sorted"][...] == np.sin(np.arange(9999))).all())

    def test_record_leaves_tables_out(self):
        self.repack("--rel", "1e-3", "--dataset", "t=1e-3", "--record")
        with h5py.File(self.path("out.h5")) as file:
            self.assertEqual(len(file["t"].attrs), 0)
            self.assertGreater(len(file["field"].attrs), 0)

    def test_preview_keeps_the_values_of_readers(self):
        table = particles()[["x", "charge", "id"]].copy()
        with h5py.File(self.path("in.h5"), "w") as file:
            file.create_dataset("t", data=table, chunks=(1000,))
        self.expect(
            OK, "repack", self.path("in.h5"), self.path("out.h5"), "--lossless"
        )
        self.expect(OK, "preview", self.path("out.h5"), self.path("small.h5"))
        with h5py.File(self.path("small.h5")) as file:
            small = file["t"][...]
        self.assertTrue((small == table[:: N // len(small)]).all())

    def test_container_of_the_document(self):
        document = pathlib.Path(__file__).parents[2] / "doc/format.md"
        chapter = document.read_text(encoding="utf-8").split(
            "## Containers of compound values")[1]
        block = re.search(r"(?:^    (?:[0-9a-f]{2} ?)+\n)+", chapter, re.MULTILINE)
        table = np.array([(1.5, 7)] * 100, [("x", "f4"), ("n", "i2")])
        with h5py.File(self.path("out.h5"), "w") as file:
            made = file.create_dataset("t", data=table, chunks=(100,),
                                       compression=46117, compression_opts=(1, 0, 0))
            file.flush()
            chunk = made.id.read_direct_chunk((0,))[1]
        self.assertEqual(chunk, bytes.fromhex(block[0]))


if __name__ == "__main__":
    unittest.main()
