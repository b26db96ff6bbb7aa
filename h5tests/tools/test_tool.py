#!/usr/bin/env python3
"""Runs the terp tool and checks its output and exit codes."""
import ast
import os
import random
import re
import shlex
import struct
import subprocess
import unittest
from fractions import Fraction

from report_page import Page
from tool_case import (
    CUBE,
    EXACT,
    FLOOR,
    FOUND,
    H5REPACK,
    MISSING,
    OK,
    TOOL,
    TROUBLE,
    ToolTest,
    terp,
)


def words_of(text):
    """The parameters that `terp args` prints, and the h5repack command."""
    h5repack, h5py, c = text.splitlines()
    command = h5repack.split(None, 1)[1]
    id_, flag, nwords, *words = re.search(r"UD=([\d,]+) ", command)[1].split(",")
    words = [int(word) for word in words]
    assert (id_, flag, nwords) == ("46117", "0", str(len(words)))
    options = re.search(r"compression=46117, compression_opts=(\(.*\))$", h5py)
    assert list(ast.literal_eval(options[1])) == words
    array = re.search(r"46117, \w+, (\d+), \(const unsigned\[\]\)\{(.*)\}\)", c)
    assert int(array[1]) == len(words)
    assert [int(word) for word in array[2].split(",")] == words
    return words, command


def bound_of(words):
    """The bound as doc/cd_values.md defines it; exact for the short form."""
    mode, first, second = words[:3]
    if mode & EXACT:
        return struct.unpack("<d", struct.pack("<II", first, second))[0]
    exponent = second - (1 << 32) if second >> 31 else second
    return first / Fraction(10) ** exponent


class Args(ToolTest):
    def words(self, *arguments):
        return words_of(self.expect(OK, "args", *arguments))[0]

    def test_short_decimal_is_typed_as_it_is(self):
        self.assertEqual(self.words("--rel", "1e-3"), [2, 1, 3])
        self.assertEqual(self.words("--rel", "0.001"), [2, 1, 3])
        self.assertEqual(self.words("--abs", "0.0250"), [1, 25, 3])
        self.assertEqual(self.words("--abs", "100"), [1, 100, 0])
        self.assertEqual(self.words("--abs", "12.5e1"), [1, 125, 0])
        self.assertEqual(self.words("--abs", "4294967295"), [1, 4294967295, 0])

    def test_pointwise_bound_is_mode_3(self):
        self.assertEqual(self.words("--pwr", "1e-3"), [3, 1, 3])
        words = self.words("--pwr=0x1p-4", "--pipeline=speed")
        self.assertEqual(words, [3 | 3 << 4, 625, 4])

    def test_missing_value_takes_two_words(self):
        self.assertEqual(self.words("--rel=1e-3", "--missing=-9999"),
                         [2 + MISSING, 1, 3, 2 ** 32 - 9999, 0])
        self.assertEqual(
            self.words("--pwr=1e-3", "--floor=1e-9", "--missing=0",
                       "--brick=8"),
            [3 + FLOOR + MISSING, 1, 3, 1, 9, 0, 0, 1, 8])
        words = self.words("--rel=1e-3", "--missing=-1e36")
        self.assertEqual(words[0], 2 + MISSING + EXACT)
        self.assertEqual(bound_of([EXACT, *words[3:]]), -1e36)

    def test_psnr_is_mode_4(self):
        self.assertEqual(self.words("--psnr=60"), [4, 60, 0])
        self.assertEqual(self.words("--psnr=62.5"), [4, 625, 1])

    def test_digits_and_bits_are_pointwise_bounds(self):
        for digits in range(1, 16):
            words = self.words(f"--digits={digits}")
            self.assertEqual(words, [3, 5, digits + 1])
        for bits in range(1, 53):
            words = self.words(f"--bits={bits}")
            self.assertEqual(words[0] & ~EXACT, 3)
            self.assertEqual(bound_of(words), 2.0 ** -bits / 2)
        self.assertEqual(self.words("--digits=2", "--floor=1e-9"),
                         [3 + FLOOR, 5, 3, 1, 9])

    def test_floor_takes_two_words_behind_the_bound(self):
        self.assertEqual(self.words("--pwr=1e-3", "--floor=2.5e-7"),
                         [3 + FLOOR, 1, 3, 25, 8])
        self.assertEqual(
            self.words("--floor=1e-9", "--pwr=1e-3", "--brick=8x8"),
            [3 + FLOOR, 1, 3, 1, 9, 2, 8, 8])
        words = self.words("--pwr=1e-3", "--floor=0x1p-30")
        self.assertEqual(words[0], 3 + FLOOR + EXACT)
        self.assertEqual(bound_of(words), 1e-3)
        self.assertEqual(bound_of([EXACT, *words[3:]]), 2.0 ** -30)

    def test_other_numbers_take_the_exact_form(self):
        for text in ("0x1p-40", "0.12345678901", "4294967297"):
            words = self.words("--abs", text)
            self.assertEqual(words[0], 1 | EXACT)
            value = float.fromhex(text) if "x" in text else float(text)
            self.assertEqual(bound_of(words), value)

    def test_any_decimal_gives_its_own_double(self):
        generator = random.Random(7)
        for _ in range(150):
            text = generator.choice(
                (
                    f"{generator.randrange(1, 10 ** generator.randrange(1, 13))}"
                    f"e{generator.randrange(-40, 30)}",
                    repr(generator.lognormvariate(-7, 5)),
                    f"{generator.uniform(0.0001, 1):.{generator.randrange(4, 9)}f}",
                )
            )
            words = self.words("--rel", text)
            bound = bound_of(words)
            self.assertEqual(float(bound), float(text), text)
            if not words[0] & EXACT:
                self.assertEqual(bound, Fraction(text), text)

    def test_options_become_bits_of_the_mode(self):
        words = self.words(
            "--rel=1e-2", "--pipeline=speed", "--predictor=lorenzo"
        )
        self.assertEqual(words, [2 | 3 << 4 | 2 << 8, 1, 2])
        words = self.words("--abs=1", "--pipeline=huffman", "--predictor=spline")
        self.assertEqual(words, [1 | 1 << 4 | 1 << 8, 1, 0])

    def test_effort_becomes_bits_of_the_mode(self):
        for name, part in (("default", 0), ("fast", 4096), ("best", 8192)):
            words = self.words("--rel=1e-3", f"--effort={name}")
            self.assertEqual(words, [2 + part, 1, 3])
            words = self.words("--abs=0x1p-40", f"--effort={name}")
            self.assertEqual(words[0], 1 + part | EXACT)

    def test_lossless_is_the_absolute_bound_of_nothing(self):
        self.assertEqual(self.words("--lossless"), [1, 0, 0])
        self.assertEqual(
            self.words("-l", "--effort=best", "--brick=4x4"),
            [1 + 8192, 0, 0, 2, 4, 4],
        )

    def test_brick_becomes_logical_dims(self):
        words = self.words("--rel", "1e-3", "--brick", "64x32x16")
        self.assertEqual(words, [2, 1, 3, 3, 64, 32, 16])

    def test_text_and_words_are_translated(self):
        for words, text in (
            ([2, 1, 3], 'mode="rel", bound=0.001'),
            ([1, 0, 0], 'mode="lossless"'),
            ([4 | 4 << 4, 60, 0], 'mode="psnr", bound=60.0, pipeline="ratio"'),
            (
                [3 + FLOOR, 1, 3, 1, 9, 2, 8, 8],
                'mode="pwr", bound=0.001, floor=1e-09, dims="8x8"',
            ),
        ):
            self.assertEqual(self.words("--text", text), words)
            numbers = ",".join(map(str, words))
            self.assertEqual(
                self.expect(OK, "args", "--from-cd", numbers), text + "\n"
            )
        self.assertEqual(
            self.expect(OK, "args", "--from-cd="), 'mode="lossless"\n'
        )
        complete = ("--text", "rel=1e-3", "--chunk=8x8", "--type=float64")
        openpmd = self.expect(OK, "args", *complete)
        stored = ast.literal_eval(re.search(r"opts=(\(.*\))", openpmd)[1])
        self.assertEqual(
            self.expect(OK, "args", "--from-cd", ",".join(map(str, stored))),
            'mode="rel", bound=0.001\n',
        )

    def test_nonsense_is_refused(self):
        for arguments in (
            (),
            ("--text", "rel=0"),
            ("--text", "rel"),
            ("--text", "rel=1", "--abs=1"),
            ("--text", "rel=1", "--effort=best"),
            ("--text", "rel=1", "--from-cd", "2,1,3"),
            ("--from-cd", "2,1,3", "--chunk", "4"),
            ("--from-cd", "2,1"),
            ("--from-cd", "2,1,3,"),
            ("--from-cd", "2 1 3"),
            ("--from-cd", "2,1,-3"),
            ("--from-cd", "2,1,4294967296"),
            ("--from-cd", ",".join(["1"] * 1000)),
            ("--rel", "1", "--abs", "1"),
            ("--rel", "1", "--rel", "1"),
            ("--pwr", "1e-3", "--abs", "1"),
            ("--pwr", "1"),
            ("--pwr", "0"),
            ("--pwr=0.1", "--floor=0"),
            ("--rel=0.1", "--floor=1"),
            ("--floor=1",),
            ("--digits=0",),
            ("--digits=16",),
            ("--bits=53",),
            ("--bits=x",),
            ("--bits=3", "--pwr=0.1"),
            ("--psnr=0",),
            ("--missing=1",),
            ("--rel=0.1", "--missing=nan"),
            ("--psnr=60", "--floor=1"),
            ("--rel", "0"),
            ("--abs", "0"),
            ("--lossless", "--abs", "1"),
            ("--lossless", "--lossless"),
            ("--rel", "-1"),
            ("--rel", "nan"),
            ("--abs", "inf"),
            ("--abs", "1e-3x"),
            ("--abs", ""),
            ("--abs", "1", "--brick", "4x"),
            ("--abs", "1", "--brick", "0x4"),
            ("--abs", "1", "--brick", "-4"),
            ("--abs", "1", "--brick", "4294967296"),
            ("--abs", "1", "--brick", "4x4x4x4"),
            ("--abs", "1", "--chunk", "100", "--brick", "3x3"),
            ("--abs", "1", "--chunk", "x".join(["4294967295"] * 4)),
            ("--abs", "1", "--chunk", "4", "--type", "bytes"),
            ("--abs", "1", "--chunk", "4", "--type", "int128"),
            ("--abs", "1", "--pipeline", "fast"),
            ("--abs", "1", "--predictor", "huffman"),
            ("--abs", "1", "--effort", "ratio"),
            ("--abs", "1", "--type", "float64"),
            ("--from-cd=2,1,3", "--type", "float64"),
        ):
            with self.subTest(arguments):
                self.expect(TROUBLE, "args", *arguments)

    def test_messages_name_the_wrong_argument(self):
        repack = "repack", "in.h5", "out.h5"
        for arguments, message in (
            (("args", "--rel=0"), "relative bound '0' must be a finite number above 0"),
            (("args", "--pwr=x"), "bound relative to each value 'x' must be"),
            (("args", "--pwr=1"), "bound relative to each value '1' must be below 1"),
            (("args", "--abs=1", "--missing=x"), "missing value 'x' must be"),
            (("args", "--abs=1", "--brick=4x"), "shape '4x' must be numbers above 0"),
            (("args", "--abs=1", "--valid-range=3"), "valid range '3' must have"),
            (("args", "--abs=1", "--valid-range=3:1"), "3:1 ends below its beginning"),
            (("args", "--abs=1", "--type=int8"), "--type needs --chunk"),
            (("args", "--abs=1", "--effort=slow"),
             "unknown effort 'slow'; give default, fast or best"),
            ((*repack, "--dataset=x=foo:1"),
             "unknown bound 'foo:1'; --help lists the bounds"),
            ((*repack, "--dataset=x=pwr:0.1:0"), "floor '0' must be"),
            ((*repack, "--psnr=-1"), "PSNR '-1' must be"),
            ((*repack, "--rel=0.1", "--engine=gpu"),
             "unknown engine 'gpu'; give cpu, cuda or auto"),
            (("compare", "a", "b", "--abs=0"), "absolute bound '0' must be"),
        ):
            with self.subTest(arguments):
                self.assertIn(message, self.expect(TROUBLE, *arguments))

    @unittest.skipUnless(H5REPACK, "needs h5repack and no sanitizers")
    def test_h5repack_command_sets_what_was_asked_for(self):
        plain = self.make("in.h5", "new x f32 4x8x8 4x8x8 - -")
        for arguments, shown in (
            (("--rel", "1e-3"), "relative bound 0.001, "),
            (("--abs", "5e10"), "absolute bound 50000000000, "),
            (("--lossless",), "parameters  lossless, pipeline auto, "),
            (("--abs", "0.3000000000000001"), "bound 0.3000000000000001, "),
            (
                ("--abs", "1", "--brick", "8x8", "--pipeline", "huffman"),
                "bound 1, pipeline huffman, predictor auto, bricks 8x8",
            ),
            (
                ("--rel", "1e-3", "--effort", "best"),
                "pipeline auto, predictor auto, effort best\n",
            ),
        ):
            _, command = words_of(self.expect(OK, "args", *arguments))
            command = shlex.split(command)[1:-2]
            out = self.path("out.h5")
            subprocess.run([H5REPACK, *command, plain, out], check=True)
            self.assertIn(shown, self.expect(OK, "info", "-v", out))


class Main(ToolTest):
    def test_help_and_version_come_from_every_command(self):
        for command in ((), ("args",), ("info",), ("compare",), ("repack",)):
            text = self.expect(OK, *command, "--help")
            self.assertIn(" ".join(("Usage: terp", *command, "[OPTION")), text)
            self.assertRegex(
                self.expect(OK, *command, "--version"), r"^terp \d+\.\d+\.\d+\n$"
            )

    def test_help_is_a_command(self):
        self.assertEqual(self.expect(OK, "help"), self.expect(OK, "--help"))
        self.assertEqual(self.expect(OK, "help", "help"), self.expect(OK, "help"))
        for command in "args", "info", "repack":
            self.assertEqual(self.expect(OK, "help", command),
                             self.expect(OK, command, "--help"))
        self.assertIn("unknown command 'what'",
                      self.expect(TROUBLE, "help", "what"))

    def test_wrong_usage_is_trouble(self):
        for arguments in ((), ("what",), ("info",), ("info", "--what"),
                          ("help", "info", "args")):
            self.expect(TROUBLE, *arguments)

    def test_full_disk_is_trouble(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("needs /dev/full")
        with open("/dev/full", "w", encoding="ascii") as full:
            result = subprocess.run(
                [TOOL, "args", "--rel", "1e-3"],
                stdout=full,
                stderr=subprocess.PIPE,
                check=False,
            )
        self.assertEqual(result.returncode, TROUBLE)


class Info(ToolTest):
    def info(self, *instructions, code=OK):
        return self.expect(code, "info", "-v",
                           self.make("file.h5", *instructions))

    def test_float_dataset_is_described(self):
        text = self.info(f"new a/b/c f32 {CUBE} terp=2,1,3 -")
        self.assertIn("\n/a/b/c\n", text)
        self.assertIn("float32, 20x20x20, chunks 10x10x10\n", text)
        self.assertIn(
            "relative bound 0.001, pipeline auto, predictor auto\n", text
        )
        self.assertIn("  chunks      8: 8 ratio\n", text)
        self.assertRegex(text, r"\n  predictors  \d")
        stored, whole, ratio = re.search(
            r"stored +(\d+) bytes of (\d+), ratio ([\d.]+)\n", text
        ).groups()
        self.assertEqual(int(whole), 32000)
        self.assertAlmostEqual(
            float(ratio), int(whole) / int(stored), delta=0.006
        )

    def test_specials_are_counted(self):
        text = self.info(
            "new x f64 1000 100 terp=1,1,3 " + ",".join(
                f"{i}=nan" for i in range(20)
            )
        )
        self.assertIn(" 2 % special\n", text)

    def test_tiles_and_dictionary_are_shown(self):
        text = self.info("new x f32 30000 30000 terp=2,1,3 -")
        self.assertRegex(text, r"\n  tiles +\d+, [\d.]+ % of them zero, index")
        self.assertRegex(
            text, r"\n  dictionary  (cauchy|laplace|gaussian) \d+ [\d.]+ %"
        )

    def test_prefixes_are_shown_where_streams_tell_them(self):
        text = self.info("new x f32 40x40x40 20x40x40 terp=258,1,5 -")
        self.assertRegex(
            text,
            r"\n  prefixes    2 of 2 chunks, step 2 in [\d.]+ % of their bytes, "
            r"step 4 in [\d.]+ %, step 8 in [\d.]+ %\n",
        )
        self.assertNotIn("prefixes", self.info(f"new x f32 {CUBE} terp=2,1,3 -"))

    def test_all_parameters_are_shown(self):
        mode = 1 | 3 << 4 | 2 << 8 | 1 << 12
        text = self.info(
            f"new x f64be {CUBE} fill=-7+terp={mode},25,2,2,5,10 -"
        )
        self.assertIn("big-endian float64", text)
        self.assertIn(
            "absolute bound 0.25, pipeline speed, predictor lorenzo, "
            "effort fast, bricks 5x10, fill value kept\n",
            text,
        )

    def test_domains_other_than_the_chunk_are_shown(self):
        for dataset, shown in (
            ("16x64x64 8x64x64 terp=2,1,3 maps=64@0", "2 of 2 chunks, as 8 x (64x64)"),
            ("65536 32768 terp=2,1,3 maps=64@0", "2 of 2 chunks, as 8 x (64x64)"),
            ("40000 40000 terp=2,1,3 maps=200@0", "1 of 1 chunks, as 200x200"),
            (
                "65536 16384 terp=2,1,3 maps=64@32768",
                "2 of 4 chunks, as 4 x (64x64)",
            ),
            (
                "65536 16384 terp=2,1,3 maps=64@0,maps=32@49152",
                "4 of 4 chunks, 3 of them as 4 x (64x64)",
            ),
        ):
            with self.subTest(dataset):
                self.assertIn(
                    f"\n  domains     {shown}\n", self.info("new x f32 " + dataset)
                )

    def test_domains_that_are_the_chunk_are_not_shown(self):
        for dataset in (
            "65536 16384 terp=2,1,3 -",
            "64x64 64x64 terp=2,1,3 maps=64@0",
            "16x64x64 8x64x64 terp=4098,1,3 maps=64@0",
            "65536 32768 terp=2,1,3,2,64,64 maps=64@0",
            "40000 10000 terp=2,1,3 only=1",
            "40000 10000 - -",
        ):
            with self.subTest(dataset):
                self.assertNotIn("domains", self.info("new x f32 " + dataset))

    def test_integers_are_compressed(self):
        text = self.info("new x i32 100 50 terp=2,1,3 -")
        self.assertIn("int32, 100, chunks 50\n", text)
        self.assertIn("  chunks      2: 1 constant, 1 ratio\n", text)

    def test_terp_behind_another_filter_says_why_it_passes_through(self):
        text = self.info(f"new x f32 {CUBE} gzip+terp=2,1,3 -")
        self.assertIn("uncompressed: another filter comes before terp", text)

    def test_checksum_behind_terp_does_not_hide_streams(self):
        text = self.info(f"new x f32 {CUBE} terp=2,1,3+fletcher32 -")
        self.assertIn("  chunks      8: 8 ratio\n", text)

    def test_filter_behind_terp_hides_streams(self):
        text = self.info(f"new x f32 {CUBE} terp=2,1,3+gzip -")
        self.assertIn("8 behind another filter\n", text)

    def test_plain_and_absent_chunks_are_told_apart(self):
        text = self.info(
            "new x f32 300 100 terp=2,1,3 only=200", "plain x"
        )
        self.assertIn("3: 1 ratio, 1 stored plain, 1 not written\n", text)

    def test_datasets_without_terp_are_listed(self):
        text = self.info(
            "new empty f32 0x3 - - -",
            "new empty_chunked f32 0x3 5x3 terp=2,1,3 -",
            "new null f32 null - - -",
            "new one f64 scalar - - -",
            "new plain f32 10 5 gzip -",
            "new text text 1 - - -",
        )
        for line in ("float32, 0x3,", "float32, null,", "float64, scalar,"):
            self.assertIn(line, text)
        self.assertEqual(text.count("no terp filter"), 5)

    def test_damaged_chunk_is_reported_for_its_dataset(self):
        text = self.info(
            f"new bad f32 {CUBE} terp=2,1,3 -",
            f"new good f32 {CUBE} terp=2,1,3 -",
            "flip bad 100",
            code=FOUND,
        )
        bad, good = text.split("/good")
        self.assertIn("DAMAGED     first damaged chunk at 0x0x0: ", bad)
        self.assertIn("8: 7 ratio, 1 damaged\n", bad)
        self.assertNotIn("DAMAGED", good)

    def test_bytes_that_are_no_stream_are_damage(self):
        text = self.info(
            f"new x f32 {CUBE} terp=2,1,3 -", "flip x 0", code=FOUND
        )
        self.assertIn("not a terp stream", text)

    def test_unreadable_file_is_trouble_and_others_are_shown(self):
        good = self.make("good.h5", "new x f32 10 5 - -")
        bad = self.path("bad.h5")
        with open(bad, "w", encoding="ascii") as file:
            file.write("this is text")
        self.assertIn(
            "not an HDF5 file", self.expect(TROUBLE, "info", bad)
        )
        missing = self.path("missing.h5")
        self.assertIn(
            "No such file", self.expect(TROUBLE, "info", missing)
        )
        result = terp("info", missing, good)
        self.assertEqual(result.returncode, TROUBLE)
        self.assertIn("/x\n", result.stdout)

    def test_truncated_file_is_trouble(self):
        path = self.make("file.h5", f"new x f32 {CUBE} terp=2,1,3 -")
        os.truncate(path, os.path.getsize(path) // 2)
        self.assertIn("truncated", self.expect(TROUBLE, "info", path))

    def test_plugin_is_not_needed(self):
        path = self.make("file.h5", f"new x f32 {CUBE} terp=2,1,3 -")
        environment = {**os.environ, "HDF5_PLUGIN_PRELOAD": "::"}
        text = self.expect(OK, "info", "-v", path, env=environment)
        self.assertIn("8 ratio", text)


class ShortInfo(ToolTest):
    def rows(self, *paths, code=OK):
        """For each row: ratio, stored and whole size in bytes, and the rest."""
        units = {"kB": 1e3, "MB": 1e6}
        found = re.findall(
            r"(?m)^ *([\d.]+|-) +([\d.]+) (.B) +([\d.]+) (.B)  (.*)$",
            self.expect(code, "info", *paths))
        return [(ratio, float(a) * units[b], float(c) * units[d], rest)
                for ratio, a, b, c, d, rest in found]

    def test_each_dataset_has_a_line_and_files_have_sums(self):
        one = self.make("one.h5", f"new g/x f32 {CUBE} terp=2,1,3 -",
                        f"new y f64 {CUBE} gzip -",
                        "new z i32 7 - - -", "new null f32 null - - -")
        other = self.make("other.h5", f"new x f32 {CUBE} terp=1,1,3 -")
        x, null, y, z, total = self.rows(one)
        self.assertRegex(x[3], r"relative bound 0.001 +float32 20x20x20 +/g/x$")
        self.assertRegex(y[3], r"deflate +float64 20x20x20 +/y$")
        self.assertRegex(z[3], r"- +int32 7 +/z$")
        self.assertRegex(null[3], r"- +float32 null +/null$")
        self.assertEqual(null[0], "-")
        self.assertEqual(x[2], 32000)
        self.assertAlmostEqual(float(x[0]), x[2] / x[1], delta=0.02)
        self.assertIn("total: 4 datasets, 1 with terp; ", total[3])
        self.assertAlmostEqual(total[1], x[1] + y[1] + z[1], delta=100)
        both = self.rows(one, other)
        self.assertEqual(len(both), 8)
        self.assertIn("all files: 5 datasets, 2 with terp; ", both[-1][3])

    def test_damage_is_shown(self):
        path = self.make("file.h5", f"new x f32 {CUBE} terp=2,1,3 -", "flip x 99")
        text = self.expect(FOUND, "info", path)
        self.assertIn("DAMAGED     1 of 8 chunks, the first one at 0x0x0: ", text)

    def test_what_terp_passes_through_is_told(self):
        path = self.make("file.h5", f"new x f32 {CUBE} gzip+terp=2,1,3 -")
        self.assertIn("passed through", self.expect(OK, "info", path))


class Compare(ToolTest):
    def compare(self, code, a, b, *options):
        a = self.make("a.h5", *([a] if isinstance(a, str) else a))
        b = self.make("b.h5", *([b] if isinstance(b, str) else b))
        return self.expect(code, "compare", *options, a, b)

    def row(self, text, path):
        """The verdict and the columns of a dataset's row."""
        for line in text.splitlines():
            columns = line.split(None, 6)
            if len(columns) == 7 and columns[6].split(":")[0] == path:
                return columns
        return self.fail(f"no row for {path} in\n{text}")

    def test_compressed_copies_are_within_their_bounds(self):
        edits = "0=nan,1=inf,2=-inf,3=-0.0,4=-9999"
        names = {
            "g/relative": "fill=-9999+terp=2,1,3",
            "absolute": "fill=-9999+terp=1,1,3",
            "pointwise": "fill=-9999+terp=3,1,3",
            "speed": "fill=-9999+terp=50,1,3",
            "lorenzo": "fill=-9999+terp=514,1,3",
            "bricks": "fill=-9999+terp=2,1,3,2,10,10",
            "checksum": "fill=-9999+terp=2,1,3+fletcher32",
            "gzip": "fill=-9999+terp=1,1,3+gzip",
        }
        for kind in ("f32", "f64", "f64be"):
            with self.subTest(kind):
                text = self.compare(
                    OK,
                    [
                        f"new {name} {kind} 20x20x20 - fill=-9999 {edits}"
                        for name in names
                    ],
                    [
                        f"new {name} {kind} {CUBE} {filters} {edits}"
                        for name, filters in names.items()
                    ],
                )
                for name in names:
                    row = self.row(text, "/" + name)
                    self.assertEqual(row[0], "ok")
                    self.assertLessEqual(float(row[1]), 1)
                    self.assertGreater(float(row[1]), 0.5)
                    self.assertGreater(float(row[3]), 50)
                    self.assertEqual(row[5], "4")  # -0.0 counts as a number

    def test_absolute_bound_exceeded_is_found(self):
        text = self.compare(
            FOUND,
            f"new x f32 {CUBE} - 7999=5",
            f"new x f32 {CUBE} terp=1,1,3 7999=5.01",
        )
        row = self.row(text, "/x")
        self.assertEqual(row[0], "EXCEEDED")
        self.assertGreater(float(row[1]), 9)
        self.assertAlmostEqual(float(row[2]), 0.01, delta=0.0011)

    def test_lossless_copy_has_every_bit(self):
        for kind in ("f32", "f64be"):
            a = f"new x {kind} {CUBE} - 0=nan,1=-0.0,2=1e-40,3=0.1"
            for edits, verdict in (
                ("0=nan,1=-0.0,2=1e-40,3=0.1", "ok"),
                ("0=nan,1=0.0,2=1e-40,3=0.1", "EXCEEDED"),
                ("0=nan,1=-0.0,2=2e-40,3=0.1", "EXCEEDED"),
                ("0=-nan,1=-0.0,2=1e-40,3=0.1", "SPECIALS"),
            ):
                with self.subTest(kind=kind, edits=edits):
                    text = self.compare(
                        OK if verdict == "ok" else FOUND,
                        a,
                        f"new x {kind} {CUBE} terp=1,0,0 {edits}",
                    )
                    self.assertEqual(self.row(text, "/x")[0], verdict)
                    if verdict == "ok":
                        self.assertEqual(
                            self.row(text, "/x")[1:3], ["0.000000", "0"]
                        )

    def test_relative_bound_exceeded_in_one_chunk_is_found(self):
        # From value 4000 on all are tiny, so 1e-3 of the whole range would
        # hide the error.
        tiny = ",".join(f"{i}={i}e-9" for i in range(400, 410))
        other = tiny.replace("405=405e-9", "405=406e-9")
        a = f"new x f64 410 10 - {tiny}"
        self.assertEqual(
            self.row(
                self.compare(OK, a, f"new x f64 410 10 terp=2,1,3 {tiny}"), "/x"
            )[0],
            "ok",
        )
        text = self.compare(FOUND, a, f"new x f64 410 10 terp=2,1,3 {other}")
        self.assertEqual(self.row(text, "/x")[0], "EXCEEDED")

    def test_error_equal_to_the_bound_is_within(self):
        text = self.compare(
            OK, "new x f64 4 - - 0=1", "new x f64 4 - - 0=1.5", "--abs", "0.5"
        )
        self.assertEqual(self.row(text, "/x")[:2], ["ok", "1.000000"])

    def test_error_above_the_bound_by_less_than_rounding_is_found(self):
        a, b = "new x f64 4 - - 0=1e-40", "new x f64 4 - - 0=-0.5"
        text = self.compare(FOUND, a, b, "--abs", "0.5")
        self.assertEqual(self.row(text, "/x")[:2], ["EXCEEDED", "1.000000"])
        a, b = "new x f64 4 - - 0=1e-40", "new x f64 4 - - 0=0.5"
        self.compare(OK, a, b, "--abs", "0.5")

    def test_what_cannot_be_judged_is_found_unless_allowed(self):
        a, b = "new x f32 4 - - 0=1", "new x f32 4 - - 0=2"
        for code, options in ((FOUND, ()), (OK, ("--allow-unjudged",))):
            row = self.row(self.compare(code, a, b, *options), "/x")
            self.assertEqual((row[0], row[1], row[2]), ("unjudged", "-", "1"))
        result = terp("compare", self.path("a.h5"), self.path("b.h5"))
        self.assertIn("only in B: 1; give a bound", result.stderr)
        self.assertIn("--allow-unjudged", result.stderr)
        # Equal values need no bound.
        row = self.row(self.compare(OK, a, a), "/x")
        self.assertEqual((row[0], row[2]), ("ok", "0"))

    def test_datasets_in_b_only_are_named(self):
        a = ("new x f32 4 - - -", "new g/y f32 4 - - -")
        b = (*a, "new g/z f32 4 - - -", "new i i32 4 - - -")
        for code, options in ((FOUND, ()), (OK, ("--allow-unjudged",))):
            text = self.compare(code, a, b, *options)
            for path in ("/g/z", "/i"):
                self.assertEqual(self.row(text, path)[0], "extra")
            self.assertEqual(self.row(text, "/x")[0], "ok")
        # A has a dataset where B has a group.
        text = self.compare(FOUND, "new p/x f32 4 - - -", "new p f32 4 - - -")
        self.assertEqual(self.row(text, "/p")[0], "extra")
        self.assertEqual(self.row(text, "/p/x")[0], "MISSING")

    def test_bound_that_is_given_judges_all_floats(self):
        a = f"new x f32 {CUBE} - -"
        for terp_words in ("2,1,3", "1,1,3", "3,1,3", "4,60,0"):
            b = f"new x f32 {CUBE} terp={terp_words} -"
            for bound, code in (
                ("--abs=1e-9", FOUND),
                ("--abs=1", OK),
                ("--rel=1e-9", FOUND),
                ("--rel=0.1", OK),
                ("--pwr=1e-9", FOUND),
            ):
                with self.subTest(terp=terp_words, bound=bound):
                    row = self.row(self.compare(code, a, b, bound), "/x")
                    self.assertEqual(row[0], "EXCEEDED" if code else "ok")
        # Also not the signs of zeros in a lossless dataset.
        a = f"new x f32 {CUBE} - 1=-0.0"
        b = f"new x f32 {CUBE} terp=1,0,0 1=0.0"
        self.compare(FOUND, a, b)
        self.compare(OK, a, b, "--abs=1e-9")

    def test_bound_that_is_given_does_not_judge_integers(self):
        a, b = "new x i32 100 - - 7=5", "new x i32 100 - - 7=6"
        text = self.compare(FOUND, a, b, "--abs=10", "--allow-unjudged")
        self.assertEqual(self.row(text, "/x")[0], "DIFFERENT")
        # But signs of zeros that terp has stored within a bound.
        b = "new x i32 100 100 terp=1,3,0 7=5"
        self.assertEqual(self.row(self.compare(OK, a, b), "/x")[0], "ok")
        self.compare(OK, a, b, "--abs=3")
        self.compare(FOUND, a, b, "--abs=0.5")

    def test_fill_value_that_was_changed_does_not_widen_the_range(self):
        a = "new x f64 100 - - 5=1e20,6=1e20,10=0.5"
        b = "new x f64 100 - - 5=1e20,6=1.000001e20,10="
        self.compare(OK, a, b.replace("1.000001e20", "1e20") + "0.5", "--rel=0.1")
        text = self.compare(FOUND, a, b + "0.5", "--rel=0.1")
        self.assertEqual(self.row(text, "/x")[0], "EXCEEDED")

    def test_chunks_that_exceed_their_bound_are_counted(self):
        a = f"new x f32 {CUBE} - 0=5,15=5,7999=5"
        text = self.compare(
            FOUND, a, f"new x f32 {CUBE} terp=1,1,3 0=5.1,15=5.1,7999=5.1"
        )
        self.assertIn("/x: 3 of 8 chunks exceed their bound\n", text)

    def test_relative_option_refers_to_the_range_of_a(self):
        a = "new x f64 3 - - 0=0,1=10,2=4"
        b = "new x f64 3 - - 0=0,1=10,2=5"
        self.compare(OK, a, b, "--rel", "0.1")
        self.compare(FOUND, a, b, "--rel", "0.0999")

    def test_pointwise_bound_is_judged_by_each_value(self):
        # An error that is small beside the largest value is large for a small
        # one.
        a = "new x f64 410 10 - 3=1e-9,4=5e9"
        b = "new x f64 410 10 terp=3,1,3 4=5e9,3="
        self.compare(OK, a, b + "1e-9")
        text = self.compare(FOUND, a, b + "1.1e-9")
        row = self.row(text, "/x")
        self.assertEqual(row[0], "EXCEEDED")
        self.assertAlmostEqual(float(row[1]), 100, delta=2)
        # A zero must stay a zero, with its sign.
        a, b = "new x f64 4 - - 0=0,1=2", "new x f64 4 - - 1=2,0="
        self.compare(OK, a, b + "0", "--pwr=0.5")
        self.compare(FOUND, a, b + "-0.0", "--pwr=0.5")
        self.compare(FOUND, a, b + "1e-300", "--pwr=0.5")

    def test_bounds_of_a_psnr_are_those_of_the_chunks(self):
        a = "new x f64 4096 1024 - 3=7,4000=9"
        b = "new x f64 4096 1024 terp=4,40,0 4000=9,3="
        self.compare(OK, a, b + "7")
        self.compare(FOUND, a, b + "9e5")

    def test_floor_is_judged_with_the_bound(self):
        a, b = "new x f64 4 - - 0=0,1=2", "new x f64 4 - - 1=2,0="
        self.compare(OK, a, b + "-0.0", "--pwr=0.5", "--floor=1e-3")
        self.compare(OK, a, b + "1e-3", "--pwr=0.5", "--floor=1e-3")
        text = self.compare(FOUND, a, b + "2e-3", "--pwr=0.5", "--floor=1e-3")
        self.assertAlmostEqual(float(self.row(text, "/x")[1]), 2)
        a = "new x f64 410 10 - 3=1e-9,4=5e9"
        b = "new x f64 410 10 terp=131075,1,3,1,8 4=5e9,3="
        self.compare(OK, a, b + "1e-9")
        self.compare(FOUND, a, b + "3e-8")

    def test_pointwise_option_refers_to_each_value_of_a(self):
        a = "new x f64 3 - - 0=1,1=100,2=-4"
        b = "new x f64 3 - - 0=1.5,1=50,2=-6"
        self.compare(OK, a, b, "--pwr", "0.5")
        self.compare(FOUND, a, b, "--pwr", "0.4999")

    def test_bound_beyond_the_range_is_judged(self):
        # Chunks become constants, whose streams do not contain the bound.
        a = f"new x f32 {CUBE} - 7=nan"
        text = self.compare(OK, a, f"new x f32 {CUBE} terp=2,3,0 7=nan")
        row = self.row(text, "/x")
        self.assertEqual(row[0], "ok")
        self.assertGreater(float(row[1]), 0.1)
        self.compare(FOUND, a, f"new x f32 {CUBE} terp=2,3,0 7=nan,9=99")

    def test_changed_special_values_are_found(self):
        for was, is_ in (
            ("nan", "0"),
            ("nan", "inf"),
            ("nan(1)", "nan(2)"),
            ("inf", "-inf"),
            ("-9999", "-9998.9999"),
            ("0.25", "nan"),
        ):
            with self.subTest(was=was):
                text = self.compare(
                    FOUND,
                    f"new x f64 4 - fill=-9999 1={was}",
                    f"new x f64 4 - fill=-9999 1={is_}",
                    "--abs=1",
                )
                self.assertIn(
                    self.row(text, "/x")[0], ("SPECIALS", "EXCEEDED")
                )

    def test_undeclared_fill_values_do_not_count_for_psnr(self):
        def psnr(edits, copy=None):
            text = self.compare(
                OK,
                f"new x f32 4000 - - {edits}",
                f"new x f32 4000 - - {copy or edits}",
                "--abs=1e30",
            )
            return float(self.row(text, "/x")[3]), text

        without, text = psnr("10=0.5", "10=0.6")
        self.assertNotIn("left out", text)
        for edits, nvalues in (
            ("5=1e20,6=1e20", 2),
            ("5=-9999,6=-9999,7=-9999", 3),
            ("5=-999,6=999,7=-999,8=999", 4),
        ):
            with self.subTest(edits):
                also, text = psnr(edits + ",10=0.5", edits + ",10=0.6")
                self.assertAlmostEqual(also, without, delta=0.01)
                self.assertIn(f"/x: {nvalues} values left out of PSNR", text)
        for edits, copy in (
            ("5=1e20", "5=1e20"),  # occurs once, so it is an ordinary value
            ("5=1e20,6=1e20", "5=1e20,6=1.001e20"),
            ("5=2,6=2", "5=2,6=2"),
            ("5=-19,6=-19", "5=-19,6=-19"),  # occurs 7 times
            ("5=-24,6=-24", "5=-24,6=-24"),  # no usual fill value
        ):
            with self.subTest(edits):
                _, text = psnr(edits, copy)
                self.assertNotIn("left out", text)

    def test_shape_type_and_missing_datasets_are_found(self):
        text = self.compare(
            FOUND,
            (
                "new shape f32 4x4 - - -",
                "new rank f32 4 - - -",
                "new type f32 4 - - -",
                "new gone f32 4 - - -",
                "new same f32 4 - - -",
            ),
            (
                "new shape f32 4x5 - - -",
                "new rank f32 4x1 - - -",
                "new type f64 4 - - -",
                "new same f32 4 - - -",
            ),
        )
        for path, verdict in (
            ("/shape", "SHAPE"),
            ("/rank", "SHAPE"),
            ("/type", "TYPE"),
            ("/gone", "MISSING"),
            ("/same", "ok"),
        ):
            self.assertEqual(self.row(text, path)[0], verdict)

    def test_integers_must_be_the_same(self):
        a = "new x i32 100 - - -"
        text = self.compare(OK, a, "new x i32 100 50 terp=2,1,3 -")
        self.assertEqual(self.row(text, "/x")[0], "ok")
        text = self.compare(FOUND, a, "new x i32 100 50 terp=2,1,3 99=7")
        self.assertEqual(self.row(text, "/x")[0], "DIFFERENT")

    def test_datasets_without_values_are_all_right(self):
        datasets = (
            "new empty f32 0x3 5x3 - -",
            "new null f32 null - - -",
            "new one f64 scalar - - 0=3",
            "new text text 1 - - -",
        )
        text = self.compare(OK, datasets, datasets)
        for path in ("/empty", "/null", "/one", "/text"):
            self.assertEqual(self.row(text, path)[0], "ok")

    def test_damaged_chunk_is_found_and_others_are_compared(self):
        text = self.compare(
            FOUND,
            (f"new bad f32 {CUBE} - -", f"new good f32 {CUBE} - -"),
            (
                f"new bad f32 {CUBE} terp=2,1,3 -",
                f"new good f32 {CUBE} terp=2,1,3 -",
                "flip bad 100",
            ),
        )
        self.assertEqual(self.row(text, "/bad")[0], "UNREADABLE")
        self.assertEqual(self.row(text, "/good")[0], "ok")

    def test_plain_and_absent_chunks_are_compared(self):
        text = self.compare(
            OK,
            "new x f32 300 - - only=200",
            ("new x f32 300 100 terp=2,1,3 only=200", "plain x"),
        )
        self.assertEqual(self.row(text, "/x")[0], "ok")

    def test_files_that_cannot_be_opened_are_trouble(self):
        good = self.make("good.h5", "new x f32 4 - - -")
        text = self.path("text.h5")
        with open(text, "w", encoding="ascii") as file:
            file.write("this is text")
        for a, b in ((good, self.path("no.h5")), (self.path("no.h5"), good),
                     (good, text)):
            self.expect(TROUBLE, "compare", a, b)
        self.expect(TROUBLE, "compare", good)
        self.expect(TROUBLE, "compare", good, good, good)
        self.expect(TROUBLE, "compare", "--abs=1", "--rel=1", good, good)
        self.expect(TROUBLE, "compare", "--abs=0", good, good)

    def test_plugin_in_the_build_is_found_without_the_variable(self):
        path = self.make("file.h5", f"new x f32 {CUBE} terp=2,1,3 -")
        environment = dict(os.environ)
        del environment["HDF5_PLUGIN_PATH"]
        self.expect(OK, "compare", path, path, env=environment)
        environment["HDF5_PLUGIN_PATH"] = self.path("missing")
        self.expect(OK, "compare", path, path, env=environment)

    def test_missing_plugin_is_said(self):
        path = self.make("file.h5", f"new x f32 {CUBE} terp=2,1,3 -")
        environment = {**os.environ, "HDF5_PLUGIN_PRELOAD": "::"}
        text = self.expect(TROUBLE, "compare", path, path, env=environment)
        self.assertIn("set HDF5_PLUGIN_PATH", text)


class Report(ToolTest):
    """test_report.py has more; this runs with sanitizers too."""

    def test_page_of_all_kinds_of_datasets_is_whole(self):
        kinds = (
            f"new cube f32 {CUBE} terp=2,1,3 0=nan",
            "new decades f64 40x40 40x40 terp=3,1,2 decades=4@-8",
            "new exact f64 300 100 terp=1,1,30 -",
            "new group/plain f32 3x8x8 - fill=-7 0=nan,1=inf,2=-7,4=1e20,5=1e20",
            "new empty f32 0x3 5x3 - -",
            "new null f32 null - - -",
            "new one f64 scalar - - 0=3",
            "new ints i32 50 25 gzip -",
            "new text text 1 - - -",
        )
        a = self.make("a.h5", *kinds)
        b = self.make("b.h5", *kinds[:4], *kinds[5:], "flip cube 99")
        page = self.path("page.html")
        for code, arguments, nrows in (
            (OK, (a,), 9), (FOUND, (b,), 8), (OK, (a, a), 9),
            (FOUND, (a, b), 9), (FOUND, (b, a, "--rel=1e-3"), 9),
        ):
            with self.subTest(arguments):
                self.expect(code, "report", *arguments, f"--html={page}")
                with open(page, encoding="utf-8") as file:
                    self.assertEqual(len(Page(file.read()).rows), nrows)

    def test_missing_plugin_is_said_in_the_page(self):
        path = self.make("file.h5", f"new x f32 {CUBE} terp=2,1,3 -")
        page = self.path("page.html")
        environment = {**os.environ, "HDF5_PLUGIN_PRELOAD": "::"}
        for files in ((path,), (path, path)):
            self.expect(TROUBLE, "report", *files, "--html", page,
                        env=environment)
            with open(page, encoding="utf-8") as file:
                self.assertIn("set HDF5_PLUGIN_PATH", Page(file.read()).text)


if __name__ == "__main__":
    unittest.main()
