#!/usr/bin/env python3
"""Tests the output of `terp info` and `terp compare` with --json."""
import os
import unittest

from tool_case import CUBE, FOUND, OK, TROUBLE, ToolTest, terp


class Info(ToolTest):
    def datasets(self, code, *instructions):
        document = self.json(code, "info", self.make("a.h5", *instructions))
        self.assertEqual(document["command"], "info")
        self.assertEqual(len(document["files"]), 1)
        self.assertTrue(document["files"][0]["opened"])
        return {d["path"]: d for d in document["files"][0]["datasets"]}

    def test_layout_parameters_and_streams_are_told(self):
        mode = 1 | 1 << 4 | 2 << 8 | 2 << 12
        x = self.datasets(
            OK, f"new g/x f64be {CUBE} fill=-7+terp={mode},25,2,2,5,10 7=nan"
        )["/g/x"]
        self.assertEqual(x["type"], "big-endian float64")
        self.assertEqual(x["shape"], [20, 20, 20])
        self.assertEqual(x["chunk"], [10, 10, 10])
        self.assertEqual(x["bytes"], 64000)
        self.assertEqual(x["ratio"], 64000 / x["stored_bytes"])
        self.assertIs(x["terp"], True)
        self.assertEqual(
            x["parameters"],
            {
                "bound_mode": "absolute",
                "bound": 0.25,
                "floor": None,
                "pipeline": "huffman",
                "predictor": "lorenzo",
                "effort": "best",
                "bricks": [5, 10],
                "fill_kept": True,
                "missing_value": None,
                "valid_min": None,
                "valid_max": None,
                "keep_sign": "none",
                "passed_through": None,
            },
        )
        streams = x["streams"]
        self.assertEqual(streams["chunks"], 8)
        self.assertEqual(sum(streams["kinds"].values()), 8)
        self.assertEqual(streams["domains"], 0)
        self.assertIsNone(streams["domain"])
        self.assertEqual(streams["values"], 8000)
        self.assertEqual(streams["specials"], 1)
        self.assertIsNone(streams["damaged_chunk"])

    def test_streams_of_speed_are_counted(self):
        x = self.datasets(OK, f"new x f32 {CUBE} terp={1 | 3 << 4},1,3 -")["/x"]
        self.assertEqual(x["parameters"]["pipeline"], "speed")
        self.assertEqual(x["streams"]["kinds"]["speed"], 8)
        self.assertEqual(x["streams"]["version_2"], 8)

    def test_reason_of_uncompressed_dataset_is_told(self):
        x = self.datasets(OK, f"new x f32 {CUBE} terp?=2,1,3+nbit -")["/x"]
        self.assertEqual(
            x["parameters"]["passed_through"],
            "a filter after terp does not preserve the bytes of streams",
        )

    def test_main_domain_is_told(self):
        found = self.datasets(
            OK,
            "new stacks f32 65536 16384 terp=2,1,3 maps=64@0,maps=32@49152",
            "new map f64 40000 40000 terp=2,1,3 maps=200@0",
        )
        streams = found["/stacks"]["streams"]
        self.assertEqual(streams["domains"], 4)
        self.assertEqual(
            streams["domain"],
            {"chunks": 3, "shape": [4, 64, 64], "bricks": [64, 64]},
        )
        streams = found["/map"]["streams"]
        self.assertEqual(streams["domains"], 1)
        self.assertEqual(
            streams["domain"],
            {"chunks": 1, "shape": [200, 200], "bricks": None},
        )
        self.assertEqual(found["/map"]["parameters"]["effort"], "default")

    def test_dictionary_holds_all_tiles_that_are_not_zero(self):
        x = self.datasets(OK, "new x f32 30000 30000 terp=2,1,5 -")["/x"]
        entries = x["streams"]["dictionary"]
        self.assertGreater(len(entries), 1)
        self.assertEqual(
            sum(entry["tiles"] for entry in entries),
            x["streams"]["tiles"] - x["streams"]["tiles_zero"],
        )
        for entry in entries:
            place = ["cauchy", "laplace", "gaussian"].index(entry["family"])
            self.assertEqual(entry["entry"], 25 * place + entry["place"])

    def test_prefixes_are_told_where_streams_tell_them(self):
        found = self.datasets(
            OK,
            "new long f32 40x40x40 20x40x40 terp=258,1,5 -",
            f"new short f32 {CUBE} terp=2,1,3 -",
        )
        told = found["/long"]["streams"]["prefixes"]
        self.assertEqual(told["chunks"], 2)
        self.assertEqual(told["stream_bytes"], found["/long"]["stored_bytes"])
        self.assertEqual([x["step"] for x in told["steps"]], [2, 4, 8])
        nbytes = [x["bytes"] for x in told["steps"]]
        self.assertLess(nbytes[0], told["stream_bytes"])
        self.assertEqual(nbytes, sorted(nbytes, reverse=True))
        self.assertGreaterEqual(nbytes[2], 2 * 512)
        self.assertIsNone(found["/short"]["streams"]["prefixes"])

    def test_datasets_without_terp_have_a_layout_only(self):
        found = self.datasets(
            OK,
            "new null f32 null - - -",
            "new one f64 scalar - - -",
            "new plain i32 10 5 gzip -",
        )
        self.assertIsNone(found["/null"]["shape"])
        self.assertIsNone(found["/null"]["ratio"])
        self.assertEqual(found["/one"]["shape"], [])
        self.assertIsNone(found["/one"]["chunk"])
        self.assertEqual(found["/plain"]["chunk"], [5])
        for dataset in found.values():
            self.assertIs(dataset["terp"], False)
            self.assertNotIn("streams", dataset)

    def test_damaged_chunk_is_told_with_its_place(self):
        streams = self.datasets(
            FOUND, f"new bad f32 {CUBE} terp=2,1,3 -", "flip bad 100"
        )["/bad"]["streams"]
        self.assertEqual(streams["kinds"]["damaged"], 1)
        self.assertEqual(streams["kinds"]["ratio"], 7)
        self.assertEqual(streams["damaged_chunk"]["at"], [0, 0, 0])
        self.assertIn("checksum", streams["damaged_chunk"]["reason"])

    def test_file_that_is_missing_is_told_beside_the_others(self):
        good = self.make("good.h5", "new x f32 10 5 - -")
        missing = self.path("missing.h5")
        files = self.json(TROUBLE, "info", missing, good)["files"]
        self.assertEqual([f["path"] for f in files], [missing, good])
        self.assertEqual([f["opened"] for f in files], [False, True])
        self.assertEqual([len(f["datasets"]) for f in files], [0, 1])

    def test_names_that_are_no_utf8_are_printed(self):
        path = os.fsencode(self.path("")) + b"\xff.h5"
        self.assertIn(
            "\ufffd.h5", self.json(TROUBLE, "info", path)["files"][0]["path"]
        )


class Compare(ToolTest):
    def compare(self, code, a, b, *options):
        document = self.json(
            code,
            "compare",
            *options,
            self.make("a.h5", *a),
            self.make("b.h5", *b),
        )
        self.assertEqual(document["command"], "compare")
        self.assertEqual(document["a"], self.path("a.h5"))
        self.assertIs(document["ok"], code == OK)
        return {d["path"]: d for d in document["datasets"]}

    def test_numbers_are_exact(self):
        x = self.compare(
            OK,
            ["new x f64 5 - fill=7 0=0,1=4,2=8,3=7,4=nan"],
            ["new x f64 5 - fill=7 0=0,1=3,2=8,3=7,4=nan"],
            "--rel=0.25",
        )["/x"]
        psnr = x.pop("psnr")
        self.assertAlmostEqual(psnr, 22.8330, delta=1e-4)  # 20 log10(8 sqrt 3)
        self.assertEqual(
            x,
            {
                "path": "/x",
                "verdict": "ok",
                "reason": None,
                "lossless": False,
                "chunks": None,
                "chunks_exceeded": None,
                "bound": 2,
                "pointwise_bound": None,
                "floor": None,
                "error_of_bound": 0.5,
                "max_error": 1,
                "min": 0,
                "max": 8,
                "valid": 3,
                "left_out": 0,
                "specials": 2,
                "specials_changed": 0,
                "bytes": 40,
                "stored_bytes": 40,
                "ratio": 1,
                "png": None,
            },
        )

    def test_bound_per_chunk_is_no_bound_of_the_dataset(self):
        x = self.compare(
            OK, [f"new x f32 {CUBE} - -"], [f"new x f32 {CUBE} terp=2,1,3 -"]
        )["/x"]
        self.assertIsNone(x["bound"])
        self.assertGreater(x["error_of_bound"], 0.5)
        self.assertGreater(x["ratio"], 2)

    def test_lossless_datasets_are_told(self):
        names = {
            "exact": ("f32", "terp=1,0,0", True),
            "lossy": ("f32", "terp=1,1,3", False),
            "plain": ("f32", "gzip", False),
            "whole": ("i32", "terp=2,1,3", True),
            "coarse": ("i32", "terp=1,2,0", False),
        }
        found = self.compare(
            OK,
            [f"new {name} {t} 60 60 - -" for name, (t, _, _) in names.items()],
            [f"new {name} {t} 60 60 {filters} -"
             for name, (t, filters, _) in names.items()],
        )
        info = self.json(OK, "info", self.path("b.h5"))["files"][0]["datasets"]
        for name, (_, _, lossless) in names.items():
            self.assertIs(found["/" + name]["lossless"], lossless, name)
        for dataset in info:
            self.assertIs(
                dataset["lossless"], names[dataset["path"][1:]][2],
                dataset["path"])

    def test_absolute_bound_of_the_filter_is_told(self):
        x = self.compare(
            FOUND,
            [f"new x f32 {CUBE} - 7=5"],
            [f"new x f32 {CUBE} terp=1,25,2 -"],
        )["/x"]
        self.assertEqual(x["bound"], 0.25)
        self.assertEqual(x["verdict"], "exceeded")
        self.assertEqual((x["chunks_exceeded"], x["chunks"]), (1, 8))

    def test_every_finding_has_its_word(self):
        found = self.compare(
            FOUND,
            [
                "new gone f32 4 - - -",
                "new i i32 4 - - 0=1",
                "new shape f32 4 - - -",
                "new special f32 4 - - 0=nan",
                "new text text 1 - - -",
                "new type f32 4 - - -",
                "new free f32 4 - - 0=1",
            ],
            [
                "new i i32 4 - - 0=2",
                "new shape f32 5 - - -",
                "new special f32 4 - - 0=1",
                "new text text 1 - - -",
                "new type f64 4 - - -",
                "new free f32 4 - - 0=2",
                "new more f32 4 - - -",
            ],
        )
        self.assertEqual(
            {path: dataset["verdict"] for path, dataset in found.items()},
            {
                "/gone": "missing",
                "/i": "different",
                "/shape": "shape",
                "/special": "specials",
                "/text": "ok",
                "/more": "extra",
                "/type": "type",
                "/free": "unjudged",
            },
        )
        self.assertNotIn("max_error", found["/shape"])
        self.assertEqual(found["/special"]["specials_changed"], 1)

    def test_trouble_prints_no_document(self):
        good = self.make("a.h5", "new x f32 4 - - -")
        result = terp("compare", "--json", good, self.path("missing.h5"))
        self.assertEqual((result.returncode, result.stdout), (TROUBLE, ""))


if __name__ == "__main__":
    unittest.main()
