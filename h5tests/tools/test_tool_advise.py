#!/usr/bin/env python3
"""Compares measurements of `terp advise` with files that terp wrote."""
import os
import struct
import unittest

from tool_case import CUBE, EXACT, FOUND, OK, TROUBLE, ToolTest

BOUNDS = [1e-2, 1e-3, 1e-4, 1e-5]
PIPELINES = {"ratio": 4, "huffman": 1}


class Advise(ToolTest):
    def advise(self, code, *instructions, options=()):
        """The output for each dataset."""
        path = self.make("a.h5", *instructions)
        document = self.json(code, "advise", path, *options)
        self.assertEqual(document["command"], "advise")
        self.assertEqual(document["file"], path)
        return {d["path"]: d for d in document["datasets"]}

    def test_choices_come_true_in_a_file(self):
        edits = "fill=-9999 5=nan,6=-9999,7=-9999"
        for kind, shape in (
            ("f32", "60000 60000"),
            ("f64", "20x30x40 20x30x40"),
            ("f64be", "20x20x20 10x10x10"),
        ):
            path = "/x"
            x = self.advise(OK, f"new x {kind} {shape} {edits}")[path]
            self.assertEqual(
                [(c["rel"], c["pipeline"]) for c in x["choices"]],
                [(rel, name) for rel in BOUNDS for name in PIPELINES],
            )
            sample = x["sample"]
            self.assertEqual(sample["valid"], sample["values"] - 3)
            for choice in x["choices"][::5]:
                self.assertEqual(
                    choice["abs"],
                    choice["rel"] * (sample["max"] - sample["min"]),
                )
                low, high = struct.unpack("<II", struct.pack("<d", choice["abs"]))
                mode = 1 | EXACT | PIPELINES[choice["pipeline"]] << 4
                fill, values = edits.split()
                copy = self.make(
                    "b.h5",
                    f"new x {kind} {shape} "
                    f"{fill}+terp={mode},{low},{high} {values}",
                )
                real = self.json(OK, "compare", self.path("a.h5"), copy)
                real = real["datasets"][0]
                with self.subTest(kind=kind, choice=choice):
                    self.assertAlmostEqual(choice["ratio"], real["ratio"])
                    self.assertAlmostEqual(choice["psnr"], real["psnr"])
                    self.assertGreater(choice["write_mb_per_s"], 0)
                    self.assertGreater(choice["read_mb_per_s"], 0)

    def test_pointwise_choices_come_true_in_a_file(self):
        x = self.advise(OK, "new x f32 60000 60000 - -", options=["--pwr"])["/x"]
        self.assertEqual(
            [(c["pwr"], c["pipeline"]) for c in x["choices"]],
            [(bound, name) for bound in BOUNDS for name in PIPELINES],
        )
        for exponent, choice in enumerate(x["choices"][::2], 2):
            self.assertIsNone(choice["rel"])
            self.assertIsNone(choice["abs"])
            mode = 3 | PIPELINES["ratio"] << 4
            copy = self.make(
                "b.h5", f"new x f32 60000 60000 terp={mode},1,{exponent} -"
            )
            real = self.json(OK, "compare", self.path("a.h5"), copy)
            real = real["datasets"][0]
            self.assertAlmostEqual(choice["ratio"], real["ratio"])
            self.assertAlmostEqual(choice["psnr"], real["psnr"])
        text = self.expect(OK, "advise", self.path("a.h5"), "--pwr")
        self.assertIn("  pwr ", text)

    def test_table_has_a_row_for_each_choice(self):
        path = self.make("a.h5", "new g/x f32 24x24x24 12x12x12 - -")
        text = self.expect(OK, "advise", path)
        self.assertIn("\n/g/x\n  float32, 24x24x24, values -", text)
        self.assertIn("measured on 8 of 12x12x12, 100 % of the values\n", text)
        rows = [line.split() for line in text.splitlines()]
        for name in PIPELINES:
            found = [row for row in rows if name in row[:3] and len(row) < 8]
            self.assertEqual(len(found), len(BOUNDS))
        self.assertIn("  1e-05 ", text)

    def test_compressed_datasets_are_measured_too(self):
        x = self.advise(OK, f"new x f32 {CUBE} terp=2,1,6 -")["/x"]
        self.assertGreater(x["choices"][0]["ratio"], 5)

    def test_sample_of_many_chunks_is_spread_and_bounded(self):
        x = self.advise(OK, "new x f64 65536 512 - 32818=40")["/x"]
        self.assertEqual(x["sample"]["boxes"], 16)
        self.assertEqual(x["sample"]["values"], 8192)
        self.assertEqual(x["sample"]["box"], [512])
        # The chunks in the middle of sixteen equal parts, not the 64th ones.
        self.assertLess(x["sample"]["max"], 2)

    def test_speeds_are_of_so_many_threads_and_the_rest_of_none(self):
        # One box for each part; with more and with fewer boxes than threads.
        path = self.make("a.h5", f"new x f32 {CUBE} - -", "new y f64 5000 - - -")
        found = []
        for threads in (1, 3, 8, 40):
            document = self.json(OK, "advise", path, f"--threads={threads}")
            self.assertEqual(document["threads"], threads)
            for dataset in document["datasets"]:
                for choice in dataset["choices"]:
                    self.assertGreater(choice.pop("write_mb_per_s"), 0)
                    self.assertGreater(choice.pop("read_mb_per_s"), 0)
            found.append(document["datasets"])
            text = self.expect(OK, "advise", path, f"-t{threads}")
            self.assertIn(f"wall-clock speeds of {threads} thread", text)
        for other in found[1:]:
            self.assertEqual(other, found[0])
        self.assertEqual(
            self.json(OK, "advise", path)["threads"],
            len(os.sched_getaffinity(0)))

    def test_sample_is_of_what_was_written(self):
        for chunk in (1100, 2007):  # at most 65536 values; one chunk is written
            x = self.advise(
                OK, f"new x f32 65000 {chunk} - only=1", options=("-dx",))["/x"]
            self.assertEqual(x["sample"]["boxes"], 1)
            self.assertEqual(x["sample"]["values"], chunk)
        text = self.expect(OK, "advise", self.path("a.h5"))
        self.assertIn("only stored values", text)
        # If chunks are tiny, the sample has larger boxes.
        x = self.advise(OK, "new x f32 65000 7 - only=1", options=("-dx",))["/x"]
        self.assertEqual(x["sample"]["boxes"], 1)

    # With the chunks that repack makes.
    def test_tiny_chunks_are_measured_as_larger_ones(self):
        x = self.advise(OK, "new x f32 60000 100 - -")["/x"]
        self.assertEqual(x["sample"]["box"], [60000])

    def test_undeclared_fill_values_do_not_count(self):
        path = self.make("a.h5", "new x f32 5000 - - 5=1e20,6=1e20")
        text = self.expect(OK, "advise", path)
        self.assertIn("2 values are an undeclared fill value", text)
        x = self.advise(OK, "new x f32 5000 - - 5=1e20,6=1e20")["/x"]
        self.assertEqual(x["sample"]["left_out"], 2)
        self.assertLess(x["choices"][0]["abs"], 0.1)
        self.assertLess(x["choices"][0]["psnr"], 80)

    def test_what_cannot_be_measured_says_why(self):
        nan = ",".join(f"{i}=nan" for i in range(8))
        found = self.advise(
            OK,
            "new few f32 4095 - - -",
            "new i i32 5000 - - -",
            "new one f64 scalar - - -",
            "new empty f64 0x3 5x3 - -",
            "new text text 1 - - -",
            "new zeros f32 5000 100 - 0=0,only=1",
        )
        self.assertEqual(sorted(found), ["/few", "/zeros"])
        self.assertEqual(found["/few"]["reason"], "few values")
        self.assertIn("all values of the sample are equal", found["/zeros"]["reason"])
        self.assertEqual(found["/few"]["choices"], [])
        found = self.advise(
            OK,
            f"new nan f32 8 - - {nan}",
            "new wide f64 8 - - 1=1.7e308,2=-1.7e308",
            options=("-d", "*"),
        )
        self.assertIn("no valid values", found["/nan"]["reason"])
        self.assertIn("the range exceeds", found["/wide"]["reason"])

    def test_patterns_choose_datasets(self):
        names = ("a/x", "a/y", "b/x", "c")
        datasets = [f"new {name} f32 100 - - -" for name in names]
        for globs, chosen in (
            (("a/*",), ["/a/x", "/a/y"]),
            (("/b/x", "c"), ["/b/x", "/c"]),
            (("*x",), ["/a/x", "/b/x"]),
        ):
            found = self.advise(
                OK, *datasets, options=[f"--dataset={g}" for g in globs]
            )
            self.assertEqual(sorted(found), chosen)
            self.assertTrue(all(d["choices"] for d in found.values()))

    def test_pattern_without_a_match_is_trouble(self):
        path = self.make("a.h5", "new x f32 100 - - -", "new i i32 9 - - -")
        for glob in ("y", "i"):
            text = self.expect(TROUBLE, "advise", path, "-d", "x", "-d", glob)
            self.assertIn(f"no float dataset matches '{glob}'", text)

    def test_damaged_chunk_is_found_and_others_are_measured(self):
        found = self.advise(
            FOUND,
            f"new bad f32 {CUBE} terp=2,1,3 -",
            f"new good f32 {CUBE} terp=2,1,3 -",
            "flip bad 100",
        )
        self.assertTrue(found["/bad"]["reason"])
        self.assertEqual(found["/bad"]["choices"], [])
        self.assertEqual(len(found["/good"]["choices"]), 8)

    def test_files_that_cannot_be_opened_are_trouble(self):
        self.expect(TROUBLE, "advise")
        self.expect(TROUBLE, "advise", self.path("no.h5"))
        good = self.make("good.h5", "new x f32 4 - - -")
        self.expect(TROUBLE, "advise", good, good)


if __name__ == "__main__":
    unittest.main()
