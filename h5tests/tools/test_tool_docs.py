#!/usr/bin/env python3
"""Compares the manual page and the shell completions with the program."""
import json
import os
import re
import shutil
import subprocess
import unittest

from tool_case import CUBE, FOUND, OK, TOOL, ToolTest, terp

SOURCE = os.environ["TERP_SOURCE"]
PAGE = os.path.join(SOURCE, "doc", "terp.1")
COMPLETIONS = os.path.join(SOURCE, "tools", "completion")
COMMON = {"--help", "--usage", "--version"}


def commands():
    text = terp("--help").stdout
    listed = text.split("\nCommands:\n")[1].split("\n\n")[0]
    return re.findall(r"^  ([a-z]+) ", listed, re.MULTILINE)


def options(command):
    """Long options. Those with an argument end with "="."""
    text = terp(command, "--help").stdout
    return set(re.findall(r"^ {2,6}(?:-., )?(--[a-z-]+=?)", text, re.MULTILINE))


def section(title, subtitle):
    """The source of a section of the manual page, with plain hyphens."""
    with open(PAGE, encoding="ascii") as file:
        text = file.read().replace("\\-", "-")
    for part in re.split(r"^\.SH ", text, flags=re.MULTILINE)[1:]:
        if part.split("\n", 1)[0] == title:
            for piece in re.split(r"^\.SS ", part, flags=re.MULTILINE)[1:]:
                if piece.split("\n", 1)[0] == subtitle:
                    return piece
    return ""


class Page(ToolTest):
    def test_options_are_those_of_the_program(self):
        self.assertGreater(len(commands()), 4)
        for command in commands():
            with self.subTest(command):
                text = section("COMMANDS", command)
                listed = re.findall(
                    r"^\.TP\n\.BR? (?:-\w \", \" )?(--[\w-]+)( =)?",
                    text,
                    re.MULTILINE,
                )
                self.assertEqual(
                    {name + equals.strip() for name, equals in listed},
                    {o for o in options(command) if o not in COMMON},
                )

    def test_json_keys_are_told(self):
        def keys_of(value):
            if isinstance(value, dict):
                for key, item in value.items():
                    yield key
                    yield from keys_of(item)
            elif isinstance(value, list):
                for item in value:
                    yield from keys_of(item)

        good = self.make(
            "good.h5",
            f"new x f32 {CUBE} terp=2,1,5 -",
            "new maps f32 16x64x64 16x64x64 terp=2,1,3 maps=64@0",
        )
        bad = self.make("bad.h5", f"new x f32 {CUBE} terp=2,1,3 -", "flip x 99")
        recorded = self.path("recorded.h5")
        self.expect(OK, "repack", good, recorded, "--abs=1", "--record")
        for command, code, arguments in (
            ("advise", OK, [good]),
            ("compare", OK, [good, good, "--metrics"]),
            ("info", FOUND, [recorded, bad]),
            ("verify", FOUND, [recorded, bad]),
            ("repack", OK, [good, recorded, "--lossless"]),
        ):
            document = self.json(code, command, *arguments)
            told = set(re.findall(r"\w+", section("JSON", command)))
            found = set(keys_of(document)) - {"command"}
            self.assertGreater(len(found), 10)
            self.assertEqual(found - told - {"terp"}, set())

    def test_promises_name_tests_that_are_there(self):
        with open(os.path.join(SOURCE, "doc/trust.md"), encoding="utf-8") as file:
            tests = re.findall(r"`(h5tests/\S+): (\w+)`", file.read())
        self.assertGreater(len(tests), 20)
        for path, name in tests:
            with self.subTest(test=f"{path}: {name}"):
                with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
                    self.assertRegex(file.read(), rf"(?m)^(    def )?{name}\(")

    def test_effort_costs_the_same_everywhere(self):
        """The largest time of "best" relative to "default", in each
        document."""
        texts = {name: terp(name, "--help").stdout for name in ("args", "repack")}
        for path in ("README.md", "CHANGELOG.md", "doc/cd_values.md", "doc/terp.1",
                     "codec/api/terp.h", "filter/plugin/h5z_terp.h"):
            with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
                texts[path] = file.read()
        for name, text in texts.items():
            with self.subTest(name):
                told = re.findall(r"up to (\w+)[ *\n]+(?:times as|times the time)",
                                  text)
                self.assertEqual(set(told) - {"half"}, {"thirty"})

    def test_presets_have_the_same_purpose_in_contributing(self):
        with open(os.path.join(SOURCE, "CMakePresets.json"),
                  encoding="utf-8") as file:
            presets = {preset["name"]: preset["displayName"] for preset in
                       json.load(file)["configurePresets"]
                       if not preset.get("hidden")}
        with open(os.path.join(SOURCE, "CONTRIBUTING.md"),
                  encoding="utf-8") as file:
            table = re.findall(r"(?m)^\| `([\w-]+)` \| (.*) \|$", file.read())
        self.assertEqual(dict(table), presets)

    def test_page_has_no_mistakes_of_form(self):
        if not shutil.which("groff"):
            self.skipTest("needs groff")
        result = subprocess.run(
            ["groff", "-man", "-ww", "-z", PAGE],
            stderr=subprocess.PIPE,
            text=True,
            check=True,
        )
        self.assertEqual(result.stderr, "")


class Completion(unittest.TestCase):
    def check(self, complete):
        """`complete` prints the completions of the last of some words."""
        self.assertEqual(sorted(complete("")), sorted(commands()))
        self.assertEqual(complete("comp"), ["compare"])
        for command in commands():
            self.assertEqual(set(complete(command, "--")), options(command))
        self.assertEqual(complete("repack", "--thr"), ["--threads="])

    def test_bash_completes_commands_options_and_names(self):
        if not shutil.which("bash"):
            self.skipTest("needs bash")

        def complete(*words):
            script = (
                f"source '{COMPLETIONS}/terp.bash'; COMP_WORDS=(\"$@\");"
                " COMP_CWORD=$(($# - 1)); _terp;"
                ' printf "%s\\n" "${COMPREPLY[@]}"'
            )
            return subprocess.run(
                ["bash", "-c", script, "bash", TOOL, *words],
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            ).stdout.split()

        self.check(complete)
        self.assertEqual(complete("args", "--pipeline", "=", "h"), ["huffman"])
        self.assertEqual(
            complete("args", "--predictor", "="), ["auto", "spline", "lorenzo"]
        )
        self.assertEqual(
            complete("repack", "--effort", "="), ["default", "fast", "best"]
        )
        self.assertEqual(complete("info", "fi"), [])
        self.assertEqual(complete("help", "in"), ["info"])

    def test_zsh_completes_commands_and_options(self):
        if not shutil.which("zsh"):
            self.skipTest("needs zsh")

        def complete(*words):
            # The arguments that the completion system would get.
            script = (
                "compadd() { shift 3; print -l -- $@ };"
                "_describe() { print -l -- ${found%%:*} };"
                "_files() { };"
                f"words=(\"$@\"); CURRENT=$#; source '{COMPLETIONS}/_terp'"
            )
            found = subprocess.run(
                ["zsh", "-f", "-c", script, "zsh", TOOL, *words],
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            ).stdout.split()
            return [word for word in found if word.startswith(words[-1])]

        self.check(complete)


if __name__ == "__main__":
    unittest.main()
