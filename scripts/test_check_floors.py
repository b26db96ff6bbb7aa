#!/usr/bin/env python3
"""Tests that check_floors.py finds broken rules."""
import pathlib
import tempfile
import unittest

import check_floors


class FloorsTest(unittest.TestCase):
    def messages(self, files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in files.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text, encoding="utf-8")
            return list(check_floors.check(root, check_floors.sources(root)))

    def test_lower_floor_is_allowed(self):
        self.assertEqual([], self.messages({
            "codec/format/base.h": "#include <stdint.h>\n",
            "codec/model/spline.h": '#include "codec/format/base.h"\n'}))

    def test_higher_floor_is_refused(self):
        self.assertEqual(
            ["codec/format/base.h (format): includes codec/model/spline.h (model)"],
            self.messages({"codec/format/base.h": '#  include "codec/model/spline.h"\n',
                           "codec/model/spline.h": ""}))

    def test_engine_from_filter_is_refused(self):
        self.assertEqual(1, len(self.messages({
            "filter/plugin/h5z_terp.c": '#include "cpu/pool/pool.h"\n',
            "cpu/pool/pool.h": ""})))

    def test_engines_do_not_see_each_other(self):
        self.assertEqual(1, len(self.messages({
            "gpu/entropy/tiles.cu": '#include "cpu/pool/pool.h"\n',
            "cpu/pool/pool.h": ""})))

    def test_structs_of_one_name_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "gpu").mkdir()
            for name, text in (("a.cu", "struct item {\n};\n"),
                               ("b.cu", "struct item {\n};\nstruct other {\n};\n"),
                               ("c.cu", "struct third *item;\n")):
                (root / "gpu" / name).write_text(text, encoding="utf-8")
            self.assertEqual(
                ["gpu/b.cu: defines item, as gpu/a.cu does"],
                list(check_floors.check_names(root, check_floors.sources(root))))

    def test_hdf5_in_codec_is_refused(self):
        for name in ("hdf5.h", "H5Zpublic.h"):
            self.assertEqual(1, len(self.messages({
                "codec/format/chunk.c": f"#include <{name}>\n"})))

    def test_cuda_outside_gpu_is_refused(self):
        for name in ("cuda_runtime.h", "cub/cub.cuh"):
            self.assertEqual(1, len(self.messages({
                "cpu/encode.c": f"#include <{name}>\n"})))
            self.assertEqual([], self.messages({
                "gpu/engine/engine.cu": f"#include <{name}>\n"}))

    def test_cuda_header_is_refused_although_the_emulator_has_one(self):
        self.assertEqual(1, len(self.messages({
            "codec/api/terp.c": "#include <cuda_runtime.h>\n",
            "h5tests/emulator/cuda_runtime.h": ""})))

    def test_emulator_is_for_device_tests(self):
        emulator = {"h5tests/emulator/emulator.h": ""}
        self.assertEqual([], self.messages({
            "h5tests/gpu/test_cuda_tiles.cpp": '#include "h5tests/emulator/emulator.h"\n',
            **emulator}))
        self.assertEqual(1, len(self.messages({
            "h5tests/codec/test_frame.c": '#include "h5tests/emulator/emulator.h"\n', **emulator})))

    def test_repack_builds_upward(self):
        headers = {"tools/repack/job.h": "", "tools/repack/plan.h": "",
                   "tools/common/h5file.h": ""}
        self.assertEqual([], self.messages({
            "tools/repack/job.c":
                '#include "tools/common/h5file.h"\n'
                '#include "tools/repack/plan.h"\n', **headers}))
        for file in "plan.c", "amrex.c":
            self.assertEqual(1, len(self.messages({
                f"tools/repack/{file}": '#include "tools/repack/job.h"\n',
                **headers})))

    def test_file_without_floor_is_refused(self):
        self.assertEqual(1, len(self.messages({"codec/stray.c": ""})))

    def test_missing_header_is_refused(self):
        self.assertEqual(1, len(self.messages({
            "codec/format/chunk.c": '#include "gone.h"\n'})))

    def calls(self, objects):
        return list(check_floors.check_calls(
            [(path, check_floors.symbols_of(lines))
             for path, lines in objects.items()]))

    def test_engine_that_calls_the_api_is_refused(self):
        api = {"codec/api/terp.c": ["terp_encode T 0 10", "terp_cpu_encode U"],
               "codec/format/frame.c": ["terp_frame_write T 0 10"]}
        cpu = "cpu/encode.c"
        self.assertEqual([], self.calls({
            cpu: ["terp_cpu_encode T 0 10", "terp_frame_write U", "malloc U"], **api}))
        self.assertEqual(
            ["cpu/encode.c (cpu): calls terp_encode of codec/api/terp.c (api)"],
            self.calls({cpu: ["terp_cpu_encode T 0 10", "terp_encode U"], **api}))
        self.assertEqual(1, len(self.calls({
            "gpu/engine/engine.cu": ["terp_encode U"], **api})))

    def circles(self, objects):
        return list(check_floors.check_circles(
            [(path, check_floors.symbols_of(lines))
             for path, lines in objects.items()]))

    def test_files_of_a_floor_that_call_each_other_are_refused(self):
        frame = "codec/format/frame.c"
        other = {"codec/format/references.c":
                     ["terp_references_read T 0 10", "terp_part_read U"],
                 "codec/format/parts.c":
                     ["terp_part_read T 0 10", "terp_frame_read U"]}
        self.assertEqual([], self.circles({
            frame: ["terp_frame_read T 0 10", "malloc U"], **other}))
        self.assertEqual(
            ["codec/format/frame.c, codec/format/parts.c, "
             "codec/format/references.c (format): call each other"],
            self.circles({frame: ["terp_frame_read T 0 10",
                                  "terp_references_read U"], **other}))

    def test_test_may_stand_in_for_what_is_called(self):
        self.assertEqual([], self.calls({
            "gpu/engine/engine.cu": ["cudaMalloc U"],
            "h5tests/emulator/runtime.cpp": ["cudaMalloc T 0 10"],
            "h5tests/engine/fake_cuda_engine.c": ["terp_encode U"],
            "codec/api/terp.c": ["terp_encode T 0 10"]}))

    def test_object_is_known_by_its_source(self):
        for path, source in {
                "codec/CMakeFiles/terp_codec.dir/api/terp.c.o": "codec/api/terp.c",
                "codec/CMakeFiles/terp_codec.dir/__/cpu/pool/pool.c.o": "cpu/pool/pool.c",
                "h5tests/CMakeFiles/x.dir/__/gpu/engine/engine.cu.o":
                    "gpu/engine/engine.cu"}.items():
            self.assertEqual(source, check_floors.source_of(path))

    def test_builds_are_not_looked_at(self):
        self.assertEqual([], self.messages({"build/stray.c": ""}))


if __name__ == "__main__":
    unittest.main()
