#!/usr/bin/env python3
"""`terp compare` of files that h5py writes: it compares values of any type by
their contents, chunks by their own bounds, and unwritten chunks."""
import os
import sys
import time
import unittest

from tool_case import FOUND, OK, ToolTest, terp

try:
    import h5py
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

FILTER = 46117
SEQUENCE = h5py.vlen_dtype("f4")
TEXT = h5py.string_dtype()


def relative(exponent=3):
    return {"compression": FILTER, "compression_opts": (2, 1, exponent)}


def absolute(exponent=3):
    return {"compression": FILTER, "compression_opts": (1, 1, exponent)}


def absolute_of(power_of_ten):
    exponent = -round(np.log10(power_of_ten))
    words = (1, 1, exponent) if exponent >= 0 else (1, 10 ** -exponent, 0)
    return {"compression": FILTER, "compression_opts": words}


class Compare(ToolTest):
    def both(self, write):
        """Writes two files by `write(file, is_b)`."""
        paths = self.path("a.h5"), self.path("b.h5")
        for is_b, path in enumerate(paths):
            with h5py.File(path, "w") as file:
                write(file, bool(is_b))
        return paths

    def verdicts(self, code, *arguments):
        found = self.json(code, "compare", *arguments)["datasets"]
        return {dataset["path"]: dataset["verdict"] for dataset in found}

    def dataset(self, code, *arguments):
        found = self.json(code, "compare", *arguments)["datasets"]
        self.assertEqual(len(found), 1)
        return found[0]


class Nested(Compare):
    """Text and sequences within other types."""

    def values(self, dtype, differs):
        a = np.zeros(3, dtype)
        last = "other" if differs else "last"
        if dtype.names is None and h5py.check_string_dtype(dtype):
            a[:] = ["", "b", last]
        elif h5py.check_vlen_dtype(dtype):
            for i, text in enumerate(([], [1, 2], [3, len(last)])):
                a[i] = np.array(text, "f4")
        elif dtype.subdtype is not None:
            # h5py stores arrays of text as objects with one more dimension.
            a = np.array([["", "b"], ["c", "d"], ["e", last]], dtype=object)
        else:
            for i in range(3):
                text = last if i == 2 else "text%d" % i
                if "s" in dtype.names:
                    a["s"][i] = text
                if "v" in dtype.names and dtype["v"].subdtype is None:
                    a["v"][i] = np.arange(len(text), dtype="f4")
                elif "v" in dtype.names:
                    for j in range(2):
                        a["v"][i, j] = np.arange(len(text) + j, dtype="f4")
                if "t" in dtype.names:
                    a["t"][i] = ["x", text]
                if "in" in dtype.names:
                    a["in"]["s"][i] = text
        return a

    def test_text_and_sequences_are_compared_by_what_they_hold(self):
        inner = np.dtype([("s", TEXT), ("y", "f4")])
        types = {
            "text": TEXT,
            "sequence": SEQUENCE,
            "array_of_text": np.dtype((TEXT, (2,))),
            "compound": np.dtype([("x", "i4"), ("s", TEXT)]),
            "compound_of_sequences": np.dtype([("x", "i1"), ("v", SEQUENCE)]),
            "compound_of_arrays": np.dtype([("v", SEQUENCE, (2,))]),
            "compound_of_text_arrays": np.dtype([("t", TEXT, (2,))]),
            "compounds": np.dtype([("k", "i4"), ("in", inner)]),
        }
        for name, dtype in types.items():
            for differs in (False, True):
                with self.subTest(name, differs=differs):
                    def write(file, is_b):
                        # So heaps and addresses differ.
                        if is_b:
                            file["before"] = ["some text"]
                        d = file.create_dataset(name, (3,), dtype=dtype)
                        values = self.values(dtype, differs and is_b)
                        if h5py.check_vlen_dtype(dtype):
                            for i in range(3):
                                d[i] = values[i]
                        else:
                            d[...] = values

                    found = self.verdicts(
                        FOUND if differs else OK, "--allow-unjudged",
                        *self.both(write))
                    self.assertEqual(
                        found["/" + name], "different" if differs else "ok")

    def test_sequences_of_sequences_are_compared(self):
        for differs in (False, True):
            def write(file, is_b):
                # HDF5 has this type, but numpy does not, so values are given
                # as bytes.
                inner = h5py.h5t.vlen_create(h5py.h5t.NATIVE_INT32)
                compound = h5py.h5t.create(h5py.h5t.COMPOUND, 24)
                compound.insert(b"n", 0, h5py.h5t.NATIVE_INT32)
                compound.insert(b"v", 8, inner)
                outer = h5py.h5t.vlen_create(compound)
                space = h5py.h5s.create_simple((2,))
                dataset = h5py.h5d.create(file.id, b"x", outer, space)
                numbers = np.array([5, 6, 8 if differs and is_b else 7], "i4")
                parts = np.zeros(1, [("n", "i4"), ("pad", "i4"),
                                     ("len", "u8"), ("p", "u8")])
                parts["n"], parts["len"] = 3, len(numbers)
                parts["p"] = numbers.ctypes.data
                whole = np.zeros(2, [("len", "u8"), ("p", "u8")])
                whole["len"][0], whole["p"][0] = 1, parts.ctypes.data
                dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, whole, mtype=outer)

            found = self.verdicts(FOUND if differs else OK, *self.both(write))
            self.assertEqual(found["/x"], "different" if differs else "ok")

    def test_what_stands_between_members_does_not_count(self):
        dtype = np.dtype([("a", "i1"), ("x", "f8")], align=True)
        def write(file, is_b):
            values = np.zeros(10, dtype)
            values.view("u1")[...] = 255 if is_b else 0
            values["a"], values["x"] = 7, 1.5
            file["x"] = values

        self.assertEqual(self.verdicts(OK, *self.both(write))["/x"], "ok")


class References(Compare):
    def write_targets(self, file, is_b):
        if is_b:  # so that addresses differ
            file["a"] = np.arange(5000)
        for name in "xyz":
            file["g/" + name] = np.arange(60).reshape(6, 10)
        file["h"] = file["g"]  # one type with two names
        if is_b:
            del file["a"]

    def compare(self, code, write):
        def write_all(file, is_b):
            self.write_targets(file, is_b)
            write(file, is_b)

        return self.verdicts(code, *self.both(write_all))["/r"]

    def test_objects_are_the_same_by_their_paths(self):
        def write(file, targets):
            refs = [file[name].ref for name in targets] + [h5py.Reference()]
            file.create_dataset("r", data=refs, dtype=h5py.ref_dtype)

        first = ("g/x", "g", "/", "h/y")
        self.assertEqual(
            self.compare(OK, lambda f, is_b: write(f, first)), "ok")
        self.assertEqual(
            self.compare(OK, lambda f, is_b: write(
                f, ("h/x", "h", "/", "g/y") if is_b else first)), "ok")
        self.assertEqual(
            self.compare(FOUND, lambda f, is_b: write(
                f, ("g/x", "g", "/", "g/z") if is_b else first)), "different")

    def test_what_is_no_longer_there_is_the_same(self):
        def write(file, is_b):
            file["gone"] = [1]
            refs = [h5py.Reference() if is_b else file["gone"].ref]
            file.create_dataset("r", data=refs, dtype=h5py.ref_dtype)
            del file["gone"]

        self.assertEqual(self.compare(OK, write), "ok")

    def test_regions_are_the_same_by_path_and_selection(self):
        def write(file, name, *selections):
            d = file[name]
            refs = [d.regionref[s] for s in selections]
            file.create_dataset("r", data=refs, dtype=h5py.regionref_dtype)

        first = (np.s_[2:4, 1:9:3], np.s_[...], np.s_[0, 0])
        other = (np.s_[2:4, 1:9:2], np.s_[...], np.s_[0, 0])
        self.assertEqual(self.compare(
            OK, lambda f, is_b: write(f, "g/x", *first)), "ok")
        self.assertEqual(self.compare(
            FOUND, lambda f, is_b: write(f, "g/y" if is_b else "g/x", *first)),
            "different")
        self.assertEqual(self.compare(
            FOUND, lambda f, is_b: write(f, "g/x", *(other if is_b else first))),
            "different")

    def test_references_within_compounds_and_sequences_are_compared(self):
        dtype = np.dtype([("n", "i4"), ("r", h5py.ref_dtype)])
        for differs in (False, True):
            def write(file, is_b):
                refs = np.zeros(2, dtype)
                refs["r"][0] = file["g/x"].ref
                refs["r"][1] = file["g/z" if differs and is_b else "g/y"].ref
                file.create_dataset("r", data=refs)

            self.assertEqual(
                self.compare(FOUND if differs else OK, write),
                "different" if differs else "ok")


class Bounds(Compare):
    """The bound that applies to each chunk."""

    def test_streams_without_some_dimensions_have_their_own_bound(self):
        line = np.sin(np.arange(256) * 0.05).astype("f4") * 100
        a, b = self.both(lambda file, is_b: file.create_dataset(
            "x", data=np.repeat(line, 256).reshape(256, 256),
            chunks=(256, 256), **(relative() if is_b else {})))
        self.assertEqual(self.dataset(OK, a, b)["verdict"], "ok")

    def with_own_bounds(self, values, chunk, bounds):
        """A file whose parameters name the largest of its chunks' bounds, like
        levels of AMReX plotfiles, and its original."""
        def write(file, is_b):
            if not is_b:
                file["x"] = values
                return
            x = file.create_dataset("x", values.shape, "f4", chunks=(chunk,),
                                    **absolute_of(max(bounds)))
            for i, bound in enumerate(bounds):
                part = values[i * chunk:(i + 1) * chunk]
                y = file.create_dataset("y", part.shape, "f4", chunks=(chunk,),
                                        **absolute_of(bound))
                y[...] = part
                mask, stream = y.id.read_direct_chunk((0,))
                x.id.write_direct_chunk((i * chunk,), stream, mask)
                del file["y"]

        return self.both(write)

    def change(self, path, place, by):
        with h5py.File(path, "r+") as file:
            file["x"][place] += by

    def test_chunks_are_judged_by_the_bounds_of_their_streams(self):
        chunk, bounds = 4096, (1e-3, 1e3, 1e-6, 1e-3)
        noise = np.random.default_rng(1).normal(size=4 * chunk)
        values = (noise.cumsum() * np.repeat(bounds, chunk) * 9).astype("f4")
        a, b = self.with_own_bounds(values, chunk, bounds)
        good = self.dataset(OK, a, b)
        self.assertIsNone(good["bound"])
        self.assertEqual((good["chunks"], good["chunks_exceeded"]), (4, 0))
        self.assertTrue(0.5 < good["error_of_bound"] <= 1)
        # Negligible beside 1e3.
        self.change(a, 7, 0.1)
        self.change(a, 3 * chunk + 7, 0.1)
        found = self.dataset(FOUND, a, b)
        self.assertEqual(found["verdict"], "exceeded")
        self.assertEqual(found["chunks_exceeded"], 2)
        self.assertTrue(90 < found["error_of_bound"] < 110)

    def test_chunks_of_one_value_are_within_what_they_stand_for(self):
        """Other chunks have bounds of their own."""
        chunk, bounds = 4096, (1e-3, 1e3)
        values = np.full(2 * chunk, 2.0, "f4")
        values[chunk:] = np.random.default_rng(1).normal(size=chunk).cumsum() * 1e4
        values[:chunk] += np.arange(chunk) * 1e-9  # almost no range
        values[chunk + 5] += 1
        a, b = self.with_own_bounds(values, chunk, bounds)
        with h5py.File(b, "r") as file:
            self.assertLess(file["x"].id.get_chunk_info(0).size, 60)
        self.assertEqual(self.dataset(OK, a, b)["verdict"], "ok")
        # All errors are within the parameters' bound, and no other chunk has a
        # smaller one.
        with h5py.File(a, "r+") as file:
            file["x"][:chunk] = 7.0
        self.assertEqual(self.dataset(OK, a, b)["verdict"], "ok")
        a2, b2 = self.with_own_bounds(
            np.concatenate([values, values[chunk:] * 1e-6]), chunk,
            (1e-3, 1e3, 1e-3))
        self.assertEqual(self.dataset(OK, a2, b2)["verdict"], "ok")
        with h5py.File(a2, "r+") as file:
            file["x"][:chunk] = 7.0
        self.assertEqual(self.dataset(FOUND, a2, b2)["verdict"], "exceeded")

    def test_exact_chunks_of_lossy_datasets_may_have_been_rounded(self):
        """A chunk that is partly written again may become a raw stream."""
        def write(file, is_b):
            noise = np.random.default_rng(1).normal(size=4096) + is_b * 9e-4
            x = file.create_dataset("x", (4096,), "f8", chunks=(4096,),
                                    **absolute())
            if is_b:  # exact, in a lossless stream
                y = file.create_dataset("y", data=noise, chunks=(4096,),
                                        compression=FILTER,
                                        compression_opts=(1, 0, 0))
                mask, stream = y.id.read_direct_chunk((0,))
                x.id.write_direct_chunk((0,), stream, mask)
                del file["y"]
            else:
                del file["x"]
                file["x"] = noise

        a, b = self.both(write)
        found = self.dataset(OK, a, b)
        self.assertTrue(0.8 < found["error_of_bound"] < 1)
        self.change(a, 5, -1e-3)
        self.assertEqual(self.dataset(FOUND, a, b)["chunks_exceeded"], 1)

    def test_stream_whose_bound_is_above_the_parameters_is_no_excuse(self):
        def write(file, is_b):
            noise = np.random.default_rng(1).normal(size=4096)
            x = file.create_dataset("x", data=noise, chunks=(4096,),
                                    **(absolute() if is_b else {}))
            if is_b:
                y = file.create_dataset("y", data=noise, chunks=(4096,),
                                        **absolute(1))
                mask, stream = y.id.read_direct_chunk((0,))
                x.id.write_direct_chunk((0,), stream, mask)
                del file["y"]

        self.assertEqual(
            self.dataset(FOUND, *self.both(write))["verdict"], "exceeded")


class Paths(Compare):
    def test_second_name_of_a_dataset_that_is_another_in_b_is_compared(self):
        def write(file, is_b):
            file["x"] = [1.0, 2.0]
            if is_b:
                file["y"] = [1.0, 3.0]
            else:
                file["y"] = file["x"]

        found = self.verdicts(FOUND, *self.both(write), "--abs=0.1")
        self.assertEqual(found, {"/x": "ok", "/y": "exceeded"})
        found = self.verdicts(OK, self.path("a.h5"), self.path("a.h5"))
        self.assertEqual(found, {"/x": "ok"})


class Sparse(Compare):
    """2^38 values, few or none of which were written."""

    LENGTH, CHUNK = 1 << 38, 1 << 18

    def write(self, file, layout, fill=None, at=(0,), value=1.5, **options):
        chunks = (self.CHUNK >> layout,) if layout is not None else None
        x = file.create_dataset("x", (self.LENGTH,), "f4", chunks=chunks,
                                fillvalue=fill, **options)
        for number in at if chunks else ():
            begin = number * self.CHUNK
            x[begin:begin + self.CHUNK] = value

    def test_what_nobody_has_written_is_not_read(self):
        begin = time.monotonic()
        for a, b in ((0, 0), (None, None), (None, 1), (2, 0), (0, 3)):
            places = (0, 77, 1 << 19) if None not in (a, b) else ()
            paths = self.both(lambda file, is_b: self.write(
                file, b if is_b else a, at=places))
            found = self.dataset(OK, *paths)
            self.assertEqual(found["valid"], self.LENGTH)
            self.assertEqual(found["max_error"], 0)
        # Also with a few large chunks.
        paths = self.both(lambda file, is_b: file.create_dataset(
            "x", (1 << 38,), "f4", chunks=(1 << 27,), **absolute()))
        self.assertEqual(self.dataset(OK, *paths)["verdict"], "ok")
        self.assertLess(time.monotonic() - begin, 30)

    def test_fill_values_count_as_all_of_them(self):
        n = self.LENGTH - self.CHUNK
        paths = self.both(lambda file, is_b: self.write(
            file, is_b, fill=2.0 + is_b))
        found = self.dataset(FOUND, *paths, "--abs=0.5")
        # A's fill values are kept bit for bit.
        self.assertEqual(found["specials"], n)
        self.assertEqual(found["specials_changed"], n)
        paths = self.both(lambda file, is_b: self.write(
            file, is_b, fill=3.0 if is_b else None))
        found = self.dataset(FOUND, *paths, "--abs=2.5")
        self.assertEqual((found["max_error"], found["max"]), (3, 1.5))
        self.assertEqual(found["valid"], self.LENGTH)
        self.assertAlmostEqual(
            found["psnr"], 20 * np.log10(1.5 / 3), delta=0.001)
        self.assertEqual(
            self.dataset(OK, *paths, "--abs=3")["verdict"], "ok")

    def test_values_that_one_has_written_are_compared(self):
        for a, b, code in (((0,), (0, 5), FOUND), ((0, 5), (0,), FOUND),
                           ((), (1 << 19,), FOUND), ((3,), (3,), OK)):
            paths = self.both(lambda file, is_b: self.write(
                file, 0, at=b if is_b else a, **(absolute() if is_b else {})))
            found = self.dataset(code, *paths)
            if code == FOUND:
                self.assertEqual(found["chunks_exceeded"], 1)
                self.assertEqual(found["max_error"], 1.5)

    def test_other_types_are_compared_likewise(self):
        for differs in (False, True):
            def write(file, is_b):
                x = file.create_dataset("x", (1 << 36,), TEXT,
                                        chunks=(1 << 16,))
                x[9] = "text"
                if differs and is_b:
                    x[1 << 35] = "more"

            self.verdicts(FOUND if differs else OK, *self.both(write))

    def test_pictures_are_drawn(self):
        a, b = self.both(lambda file, is_b: self.write(
            file, 0, at=(3, 1 << 19), value=1.5 + 1e-4 * is_b))
        result = terp("compare", a, b, "--abs=1e-3", "--png", self.path("png"))
        if "built without" in result.stderr:
            self.skipTest(result.stderr)
        self.assertEqual(result.returncode, OK, result.stderr)
        self.assertEqual(os.listdir(self.path("png")), ["x.png"])

    def test_record_is_made(self):
        path, out = self.path("in.h5"), self.path("out.h5")
        with h5py.File(path, "w") as file:
            self.write(file, 0, value=np.linspace(1, 2, self.CHUNK))
            file.create_dataset("y", (self.LENGTH,), "f4")
        begin = time.monotonic()
        self.expect(OK, "repack", "--rel=1e-3", "--record", path, out)
        self.assertLess(time.monotonic() - begin, 20)
        with h5py.File(out, "r") as file:
            found = file["x"].attrs
            self.assertTrue(0 < found["terp_max_error"] <= 2e-3)
            self.assertAlmostEqual(found["terp_absolute_bound"], 2e-3)

    def test_dense_datasets_with_some_chunks_are_compared(self):
        """Few chunks, of which every other one is written."""
        def write(file, is_b):
            x = file.create_dataset("x", (64000,), "f4", chunks=(1000,),
                                    fillvalue=3.0, **absolute())
            for i in range(0, 64, 2):
                x[1000 * i:1000 * i + 1000] = np.arange(1000) * 0.01

        found = self.dataset(OK, *self.both(write))
        self.assertEqual(found["valid"] + found["specials"], 64000)
        self.assertEqual(found["chunks"], 64)


if __name__ == "__main__":
    unittest.main()
