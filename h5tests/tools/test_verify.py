#!/usr/bin/env python3
"""Damages chunks of files that h5py makes, and checks the output of terp
verify."""
import os
import random
import sys
import unittest

from tool_case import FOUND, OK, TROUBLE, ToolTest, terp

try:
    import h5py
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

TERP = {"compression": 46117, "compression_opts": (2, 3, 1)}
SHAPE, CHUNKS = (50, 40, 30), (20, 20, 20)
NCHUNKS = 3 * 2 * 2


class Verify(ToolTest):
    def write(self, name="in.h5", **options):
        """A file with the dataset /group/x."""
        path = self.path(name)
        values = np.random.default_rng(7).normal(size=SHAPE).cumsum(0)
        with h5py.File(path, "w") as file:
            file.create_dataset(
                "group/x",
                data=values.astype("f4"),
                chunks=CHUNKS,
                **{**TERP, **options},
            )
        return path

    def damage(self, path, nchunks, seed=1):
        """Changes a byte of some chunks. Returns the chunks' offsets and
        numbers of values."""
        pick = random.Random(seed)
        with h5py.File(path, "r") as file:
            x = file["group/x"].id
            chunks = [x.get_chunk_info(i) for i in range(x.get_num_chunks())]
        chosen = pick.sample(chunks, nchunks)
        with open(path, "r+b") as file:
            for chunk in chosen:
                at = chunk.byte_offset + pick.randrange(chunk.size)
                file.seek(at)
                byte = file.read(1)[0]
                file.seek(at)
                file.write(bytes([byte ^ 1 << pick.randrange(8)]))
        return sorted(
            (
                list(chunk.chunk_offset),
                [
                    min(n, extent - at)
                    for n, extent, at in zip(
                        CHUNKS, SHAPE, chunk.chunk_offset
                    )
                ],
            )
            for chunk in chosen
        )

    def damaged_chunks(self, path, code=FOUND, *arguments):
        (file,) = self.json(code, "verify", path, *arguments)["files"]
        (dataset,) = file["datasets"]
        self.assertEqual(dataset["path"], "/group/x")
        self.assertEqual(dataset["damaged"], len(dataset["damaged_chunks"]))
        return dataset, [
            (chunk["at"], chunk["count"]) for chunk in dataset["damaged_chunks"]
        ]

    def test_whole_file(self):
        path = self.write()
        self.assertEqual(
            self.expect(OK, "verify", path),
            f"{path}\n/group/x: {NCHUNKS} whole\n",
        )

    def test_any_changed_byte_is_found_where_it_is(self):
        for seed in range(30):
            path = self.write()
            changed = self.damage(path, 1 + seed % NCHUNKS, seed)
            for threads in ("1", "3"):
                with self.subTest(seed=seed, threads=threads):
                    dataset, found = self.damaged_chunks(
                        path, FOUND, "--threads", threads
                    )
                    self.assertEqual(found, changed)
                    self.assertEqual(
                        dataset["whole"] + dataset["damaged"], NCHUNKS
                    )

    def test_coordinates_are_those_of_h5py(self):
        path = self.write()
        ((at, count),) = self.damage(path, 1)
        place = ", ".join(f"{a}:{a + n}" for a, n in zip(at, count))
        text = self.expect(FOUND, "verify", path)
        self.assertIn(f"/group/x[{place}]: DAMAGED: ", text)
        self.assertIn(f"/group/x: {NCHUNKS - 1} whole, 1 damaged\n", text)

    def test_fletcher32_behind_terp(self):
        path = self.write(fletcher32=True)
        self.expect(OK, "verify", path)
        changed = self.damage(path, 3)
        self.assertEqual(self.damaged_chunks(path)[1], changed)

    def test_streams_behind_gzip(self):
        path = self.path("in.h5")
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk(CHUNKS)
        plist.set_filter(46117, 0, TERP["compression_opts"])
        plist.set_deflate(4)
        with h5py.File(path, "w") as file:
            x = h5py.h5d.create(
                file.create_group("group").id,
                b"x",
                h5py.h5t.NATIVE_FLOAT,
                h5py.h5s.create_simple(SHAPE),
                plist,
            )
            values = np.random.default_rng(8).normal(size=SHAPE).cumsum(0)
            x.write(h5py.h5s.ALL, h5py.h5s.ALL, values.astype("f4"))
        self.assertIn(
            f"/group/x: {NCHUNKS} whole\n", self.expect(OK, "verify", path)
        )
        changed = self.damage(path, 2)
        self.assertEqual(self.damaged_chunks(path)[1], changed)

    def test_chunks_that_terp_left_as_they_were(self):
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            file.create_dataset(
                "x", data=np.full(99, b"text"), chunks=(10,), **TERP
            )
        self.assertIn(
            "/x: 10 not checked\n", self.expect(OK, "verify", path)
        )

    def move_container(self, to, shape):
        """Stores the chunk of a table of float32 a and int32 b in a dataset of
        another type."""
        path = self.path("in.h5")
        table = np.zeros(5000, [("a", "f4"), ("b", "i4")])
        table["a"] = np.sin(np.arange(5000) / 50)
        table["b"] = np.arange(5000) // 7
        with h5py.File(path, "w") as file:
            file.create_dataset("table", data=table, chunks=(5000,), **TERP)
            _, chunk = file["table"].id.read_direct_chunk((0,))
            x = file.create_dataset(
                "x", shape, to, chunks=shape, **TERP
            )
            x.id.write_direct_chunk((0,), chunk)
        return path

    def test_members_of_other_types_than_those_of_the_table(self):
        path = self.move_container([("b", "i4"), ("a", "f4")], (5000,))
        text = self.expect(FOUND, "verify", path)
        self.assertIn("/table: 1 whole\n", text)
        self.assertIn("/x[0:5000]: DAMAGED: ", text)

    def test_members_of_other_types_than_that_of_the_numbers(self):
        for to, n in ("f8", 5000), ("f4", 10000), ("i4", 10000), (">f4", 10000):
            with self.subTest(type=to):
                path = self.move_container(to, (n,))
                text = self.expect(FOUND, "verify", path)
                self.assertIn("/table: 1 whole\n", text)
                self.assertIn(f"/x[0:{n}]: DAMAGED: ", text)

    def test_other_filters(self):
        plain = self.write("gzip.h5", compression="gzip", compression_opts=4)
        self.assertIn(
            f"/group/x: {NCHUNKS} not checked\n",
            self.expect(OK, "verify", plain),
        )
        summed = self.write(
            "sum.h5", compression=None, compression_opts=None, fletcher32=True
        )
        self.expect(OK, "verify", summed)
        changed = self.damage(summed, 2)
        self.assertEqual(self.damaged_chunks(summed)[1], changed)

    def test_chunks_that_were_never_written(self):
        path = self.path("sparse.h5")
        with h5py.File(path, "w") as file:
            x = file.create_dataset(
                "x", shape=(100,), dtype="f4", chunks=(10,), **TERP
            )
            x[30:40] = np.arange(10)
        self.assertIn(
            "/x: 1 whole, 9 not written\n", self.expect(OK, "verify", path)
        )

    def put(self, path, chunk, filters, mask=0):
        """A file of 20 values in two chunks, the first of which is stored with
        these filters."""
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((10,))
        if "shuffle" in filters:
            plist.set_shuffle()
        if "terp" in filters:
            plist.set_filter(46117, 0, TERP["compression_opts"])
        if "fletcher32" in filters:
            plist.set_fletcher32()
        with h5py.File(path, "w") as file:
            x = h5py.h5d.create(
                file.id,
                b"x",
                h5py.h5t.NATIVE_FLOAT,
                h5py.h5s.create_simple((20,)),
                plist,
            )
            x.write_direct_chunk((0,), chunk, mask)

    def test_chunks_of_another_size(self):
        path = self.path("in.h5")
        for chunk, filters, mask, reason in (
            (b"a", ("terp",), 1, "it holds a chunk of another size"),
            (b"abcd" * 20, ("terp",), 1, "it holds a chunk of another size"),
            (
                b"a",
                ("shuffle", "terp", "fletcher32"),
                2 + 4,
                "it holds a chunk of another size",
            ),
            (b"a", ("terp", "fletcher32"), 0, "its bytes cannot be read"),
            (b"a", ("fletcher32",), 0, "its bytes cannot be read"),
        ):
            with self.subTest(chunk=chunk, filters=filters):
                self.put(path, chunk, filters, mask)
                text = self.expect(FOUND, "verify", path)
                self.assertIn(f"/x[0:10]: DAMAGED: {reason}\n", text)
                self.assertIn("/x: 1 damaged, 1 not written\n", text)
                out = self.path("out.h5")
                self.expect(FOUND, "repack", "--salvage", path, out, "--abs=1")
                with h5py.File(out) as file:
                    self.assertEqual(list(file["x"].attrs["terp_lost"]),
                                     [b"0:10"])

    def test_longer_chunk_without_filters_is_read_as_a_chunk(self):
        path, out = self.path("in.h5"), self.path("out.h5")
        values = np.arange(1000, dtype="f4")
        self.put(path, values.tobytes(), ())
        self.assertIn(
            "/x: 1 not written, 1 not checked\n",
            self.expect(OK, "verify", path),
        )
        for options in ("--salvage", "--abs=1"), ("--abs=1",):
            self.expect(OK, "repack", *options, path, out)
            with h5py.File(out) as file:
                self.assertEqual(list(file["x"][:10]), list(range(10)))

    def test_more_values_than_can_be_counted(self):
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            file.create_dataset(
                "x", (2**32, 2**31 + 1, 2), "f4", chunks=(1024, 1024, 1)
            )
        for command in "info", "verify":
            text = self.expect(FOUND, command, path)
            self.assertRegex(text, "DAMAGED:? +it claims too many values")
        text = self.expect(
            TROUBLE, "repack", "--abs=1", path, self.path("out.h5")
        )
        self.assertIn("terp repack: /x: it claims too many values\n", text)

    def test_file_that_ends_too_soon(self):
        path = self.write()
        size = os.path.getsize(path)
        os.truncate(path, size - 5000)
        result = self.expect(TROUBLE, "verify", path)
        self.assertIn("truncated", result)

    def test_damaged_structure_ends_in_a_message(self):
        whole = self.write()
        with open(whole, "rb") as file:
            content = file.read()
        path = self.path("bad.h5")
        pick = random.Random(3)
        for _ in range(60):
            changed = bytearray(content)
            for at in pick.sample(range(4096), 3):
                changed[at] = pick.randrange(256)
            with open(path, "wb") as file:
                file.write(changed)
            result = terp("verify", path)
            self.assertIn(result.returncode, (OK, FOUND, TROUBLE))
            if result.returncode != OK:
                self.assertNotEqual(result.stdout + result.stderr, "")

    def test_want_of_memory_is_no_damage(self):
        # A chunk has 32000 bytes.
        files = self.write(), self.write("sum.h5", fletcher32=True)
        for limit, code in (("20K", TROUBLE), ("much", TROUBLE), ("4M", OK)):
            for path in files:
                with self.subTest(limit=limit, path=path):
                    result = terp(
                        "verify", path,
                        env={**os.environ, "TERP_MAX_MEMORY": limit},
                    )
                    self.assertEqual(result.returncode, code)
                    self.assertNotIn("DAMAGED", result.stdout)
                    if code == TROUBLE:
                        self.assertIn(
                            f"{NCHUNKS} not checked for lack of memory\n",
                            result.stdout)
                        self.assertIn("/group/x: ", result.stderr)
                        self.assertIn("TERP_MAX_MEMORY", result.stderr)

    def test_many_files(self):
        good, bad = self.write("good.h5"), self.write("bad.h5")
        self.damage(bad, 1)
        missing = self.path("missing.h5")
        self.expect(OK, "verify", good, good)
        self.expect(FOUND, "verify", good, bad)
        result = terp("verify", missing, bad)
        self.assertEqual(result.returncode, TROUBLE)
        self.assertIn("missing.h5", result.stderr)
        self.assertIn("DAMAGED", result.stdout)


if __name__ == "__main__":
    unittest.main()
