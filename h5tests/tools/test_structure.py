#!/usr/bin/env python3
"""Runs the tool on files with unusual structures that h5py makes: dense
groups, thousands of nested ones, missing filters, names that control
terminals, the format of a later HDF5. test_structures.py makes random
files."""
import os
import struct
import subprocess
import sys
import unittest

from tool_case import FOUND, OK, TOOL, TROUBLE, ToolTest, terp

try:
    import h5py
    import numpy as np

    import hdf5_raw
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

if hdf5_raw.LIBRARY is None:
    print("skipped: HDF5's library cannot be found in this process")
    sys.exit(77)

NOBODY = 65534
WAYS = (("repack", "--lossless"), ("repack", "--lossless", "--salvage"),
        ("repack", "--dataset=*=none"), ("preview", "--step=1"))
LZF = "lzf' (32000)"
# The first HDF5 that correctly writes arrays of compound values with text.
WRITES_ARRAYS = (1, 14, 4)


def links_by_number(group):
    """Names and numbers of links in creation order."""
    names = []
    group.id.links.iterate(names.append, idx_type=h5py.h5.INDEX_CRT_ORDER)
    return [(name, group.id.links.get_info(name).corder) for name in names]


def rotate(value, nbits):
    return (value << nbits | value >> (32 - nbits)) & 0xFFFFFFFF


def checksum(bytes_):
    """The checksum of metadata: Jenkins' lookup3, hashlittle() from 0."""
    a = b = c = 0xDEADBEEF + len(bytes_)
    padded = bytes_ + bytes(-len(bytes_) % 12)
    words = struct.unpack(f"<{len(padded) // 4}I", padded)
    for i in range(0, len(words), 3):
        a, b, c = ((x + y) & 0xFFFFFFFF
                   for x, y in zip((a, b, c), words[i:i + 3]))
        if i + 3 == len(words):
            break
        for nbits in (4, 6, 8, 16, 19, 4):
            a = ((a - c) & 0xFFFFFFFF) ^ rotate(c, nbits)
            c = (c + b) & 0xFFFFFFFF
            a, b, c = b, c, a
    for nbits in (14, 11, 25, 16, 4, 14, 24):
        c = ((c ^ b) - rotate(b, nbits)) & 0xFFFFFFFF
        a, b, c = b, c, a
    return b


class Structure(ToolTest):
    def copies(self, path, ways=WAYS):
        """Copies a file with all options; yields each copy while it is
        open."""
        for way in ways:
            out = self.path("out.h5")
            self.expect(OK, *way, path, out)
            with h5py.File(out, "r") as file:
                yield file

    def test_dense_groups_are_made_anew(self):
        path = self.path("in.h5")
        for libver, track_order in (
            ("latest", False), ("latest", True), ("earliest", True),
        ):
            with h5py.File(path, "w", libver=libver) as file:
                for name in "ab":
                    group = file.create_group(name, track_order=track_order)
                    for i in range(14):
                        group[f"{name}{i:02}"] = np.arange(5000.0) + i
                        group.attrs[f"{name}{i:02}"] = i
                    # The numbers of the remaining links have gaps.
                    del group[f"{name}03"], group.attrs[f"{name}05"]
            for copy in self.copies(path):
                for name in "ab":
                    group = copy[name]
                    expected = [f"{name}{i:02}" for i in range(14) if i != 3]
                    self.assertEqual(list(group), expected)
                    self.assertEqual(
                        sorted(group.attrs),
                        [f"{name}{i:02}" for i in range(14) if i != 5])
                    for link in expected:
                        np.testing.assert_array_equal(
                            group[link][...],
                            np.arange(5000.0) + int(link[1:]))
                    if track_order:
                        self.assertEqual(
                            links_by_number(group),
                            [(n.encode(), i) for i, n in enumerate(expected)])

    def test_groups_do_not_share_what_the_input_shares_addresses_of(self):
        """Property lists of the input contain addresses of the input. At the
        same address in the output, two groups once got the same links."""
        path = self.path("in.h5")
        for length in range(100, 180, 20):
            with h5py.File(path, "w", libver="latest") as file:
                for i in range(13):
                    file[f"n{i:02}" + "x" * length] = i
                group = file.create_group("z")
                for i in range(12):
                    group[f"in_g{i:02}"] = i
            for copy in self.copies(path, WAYS[:1]):
                self.assertEqual(len(copy), 14)
                self.assertEqual(list(copy["z"]),
                                 [f"in_g{i:02}" for i in range(12)])

    def test_groups_are_nested_to_any_depth(self):
        depth = 10000
        path = self.path("in.h5")
        with h5py.File(path, "w", libver="latest") as file:
            group = file.id
            for _ in range(depth):
                group = h5py.h5g.create(group, b"g")
            h5py.Group(group)["x"] = np.arange(5000.0)
        for copy in self.copies(path, (WAYS[0], WAYS[3])):
            group = copy.id
            for _ in range(depth):
                group = h5py.h5g.open(group, b"g")
            np.testing.assert_array_equal(h5py.Group(group)["x"][...],
                                          np.arange(5000.0))
        self.assertIn("x: no chunks", self.expect(OK, "verify", path))
        self.assertIn("x\n", self.expect(OK, "info", path))
        self.expect(OK, "compare", path, path)

    def write_lzf(self):
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            file.create_dataset(
                "names", data=["abc", "defg"] * 500, chunks=(100,),
                dtype=h5py.string_dtype(), compression="lzf")
            file.create_dataset("numbers", data=np.arange(9000) // 7,
                                chunks=(500,), compression="lzf")
            file["x"] = np.arange(5000.0)
        return path

    def test_text_behind_a_missing_filter_is_refused(self):
        """H5Ocopy crashes at it in HDF5 1.10."""
        path, out = self.write_lzf(), self.path("out.h5")
        for way in WAYS[0], WAYS[2], WAYS[3]:
            text = self.expect(TROUBLE, *way, path, out)
            self.assertIn("/names", text)
            self.assertIn("lzf", text)
            self.assertIn("HDF5_PLUGIN_PATH", text)
            self.assertEqual(os.listdir(self.directory), ["in.h5"])

    def test_text_behind_a_missing_filter_is_left_out_of_what_is_saved(self):
        path, out = self.write_lzf(), self.path("out.h5")
        result = terp("repack", "--salvage", "--dataset=*=none", path, out)
        self.assertEqual(result.returncode, FOUND, result.stderr)
        self.assertIn("/names: left out: ", result.stderr)
        self.assertIn(LZF, result.stderr)
        with h5py.File(out, "r") as file:
            self.assertEqual(sorted(file), ["numbers", "x"])
            np.testing.assert_array_equal(file["numbers"][...],
                                          np.arange(9000) // 7)

    def test_filters_that_were_left_out_of_a_chunk_stay_so(self):
        """If HDF5 has allocated a chunk in the copy, H5Dwrite_chunk ignores
        the filter mask."""
        path = self.path("in.h5")
        values = np.arange(64, dtype="<u4").reshape(4, 16) << 9
        list_ = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        list_.set_shuffle()
        for when in (h5py.h5d.ALLOC_TIME_EARLY, h5py.h5d.ALLOC_TIME_LATE,
                     h5py.h5d.ALLOC_TIME_INCR):
            list_.set_alloc_time(when)
            for libver in "earliest", "latest":
                with h5py.File(path, "w", libver=libver) as file:
                    for name, nrows in (b"rows", 1), (b"whole", 4):
                        list_.set_chunk((nrows, 16))
                        self.write_unfiltered(file.id, name, list_, values)
                for copy in self.copies(path, WAYS[2:3]):
                    for name in "rows", "whole":
                        id_ = copy[name].id
                        for i in range(id_.get_num_chunks()):
                            self.assertEqual(id_.get_chunk_info(i).filter_mask,
                                             1)
                        np.testing.assert_array_equal(copy[name][...], values)

    @staticmethod
    def write_unfiltered(file, name, list_, values):
        """Programs may skip the filter for chunks that they write."""
        dataset = h5py.h5d.create(
            file, name, h5py.h5t.STD_U32LE,
            h5py.h5s.create_simple(values.shape), list_)
        nrows = list_.get_chunk()[0]
        for i in range(0, len(values), nrows):
            bytes_ = values[i:i + nrows].tobytes()
            # HDF5 ignores the mask here too, unless the size differs.
            dataset.write_direct_chunk((i, 0), bytes_[1:], 1)
            dataset.write_direct_chunk((i, 0), bytes_, 1)

    def test_arrays_of_text_do_not_become_each_others(self):
        """HDF5 before 1.14.4 mixes up such values when it writes several."""
        path, out = self.path("in.h5"), self.path("out.h5")
        pair = np.dtype([("name", h5py.string_dtype()), ("n", "i4")])
        type_ = np.dtype((pair, (2,)))
        texts = [[("a", 1), ("bc" * 50, 2)], [("d", 3), ("", 4)],
                 [("e" * 9, 5), ("f", 6)]]
        with h5py.File(path, "w") as file:
            id_ = h5py.h5d.create(
                file.id, b"pairs", h5py.h5t.py_create(type_, logical=True),
                h5py.h5s.create_simple((3,)))
            dataset = h5py.Dataset(id_)
            for i, two in enumerate(texts):
                dataset[i] = np.array(two, pair)
            found = [[(n.decode(), i) for n, i in two] for two in dataset]
            self.assertEqual(found, texts)
        for copy in self.copies(path, (WAYS[0], WAYS[3])):
            found = [[(n.decode(), i) for n, i in two] for two in copy["pairs"]]
            self.assertEqual(found, texts)
        with h5py.File(path, "r+") as file:
            h5py.h5a.create(
                file.id, b"pairs", h5py.h5t.py_create(type_, logical=True),
                h5py.h5s.create_simple((3,)))
        result = terp("repack", "--lossless", path, out)
        if h5py.version.hdf5_version_tuple < WRITES_ARRAYS:
            self.assertEqual(result.returncode, TROUBLE)
            self.assertIn("HDF5 1.14.4", result.stderr)
        else:
            self.assertEqual(result.returncode, OK, result.stderr)

    def test_objects_have_times_where_they_had_some(self):
        path = self.path("in.h5")
        list_ = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        with h5py.File(path, "w") as file:
            for name, is_timed in ((b"timeless", False), (b"timed", True)):
                list_.set_obj_track_times(is_timed)
                h5py.h5d.create(file.id, name, h5py.h5t.STD_I8LE,
                                h5py.h5s.create(h5py.h5s.SCALAR), list_)
        for copy in self.copies(path):
            times = [h5py.h5g.get_objinfo(copy[name].id).mtime
                     for name in ("timeless", "timed")]
            self.assertEqual(times[0], 0)
            self.assertNotEqual(times[1], 0)

    def test_comments_are_kept(self):
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            file["group/data"] = np.arange(5000.0)
            for name in (b"/", b"group", b"group/data"):
                h5py.h5o.set_comment(file.id, b"of " + name, obj_name=name)
        for copy in self.copies(path):
            for name in (b"/", b"group", b"group/data"):
                self.assertEqual(copy["/"].id.get_comment(name),
                                 b"of " + name)


class Output(ToolTest):
    def setUp(self):
        super().setUp()
        self.source = self.path("in.h5")
        with h5py.File(self.source, "w") as file:
            file["x"] = np.arange(5000.0)

    def test_link_to_nothing_leads_to_the_output(self):
        os.mkdir(self.path("folder"))
        link, second = self.path("link.h5"), self.path("second.h5")
        os.symlink("folder/new.h5", link)
        os.symlink(link, second)
        for way in WAYS[0], WAYS[3]:
            self.expect(OK, *way, self.source, second)
            self.assertTrue(os.path.islink(link))
            self.assertTrue(os.path.islink(second))
            self.assertEqual(os.listdir(self.path("folder")), ["new.h5"])
            os.unlink(self.path("folder/new.h5"))
        os.symlink("loop.h5", self.path("loop.h5"))
        self.expect(TROUBLE, "repack", self.source, self.path("loop.h5"),
                    "--lossless")

    def test_owner_is_the_inputs_or_that_of_the_old_file(self):
        if os.geteuid() != 0:
            self.skipTest("needs a user who may give files away")
        os.chown(self.source, NOBODY, NOBODY)
        out = self.path("out.h5")
        self.expect(OK, "repack", self.source, out, "--lossless")
        found = os.stat(out)
        self.assertEqual((found.st_uid, found.st_gid), (NOBODY, NOBODY))
        os.chown(out, 12, 34)
        os.chmod(out, 0o640)
        self.expect(OK, "repack", self.source, out, "--lossless")
        found = os.stat(out)
        self.assertEqual((found.st_uid, found.st_gid), (12, 34))
        self.assertEqual(found.st_mode & 0o777, 0o640)

    def test_pipe_is_no_input(self):
        pipe = self.path("pipe.h5")
        os.mkfifo(pipe)
        for arguments in (
            ("repack", pipe, self.path("out.h5"), "--lossless"),
            ("preview", pipe, self.path("out.h5")), ("info", pipe),
            ("verify", pipe), ("compare", pipe, pipe), ("advise", pipe),
        ):
            text = self.expect(TROUBLE, *arguments)
            self.assertIn("pipe.h5: not a regular file", text)
        self.assertEqual(sorted(os.listdir(self.directory)),
                         ["in.h5", "pipe.h5"])

    def test_help_that_cannot_be_printed_is_an_error(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("needs /dev/full")
        for arguments in (["--help"], ["--version"], ["repack", "--help"]):
            with open("/dev/full", "w", encoding="ascii") as full:
                result = subprocess.run(
                    [TOOL, *arguments], stdout=full, stderr=subprocess.PIPE,
                    check=False)
            self.assertEqual(result.returncode, 1)
            self.assertIn(b"No space left", result.stderr)


class Names(ToolTest):
    def test_names_do_not_reach_the_terminal_as_escapes(self):
        path, out = self.path("\x1b[2Jin.h5"), self.path("out\n.h5")
        names = ("a\x1b[31m\nb", "\u202ereverse", "back\\slash", "\u00e4\u20ac")
        with h5py.File(path, "w") as file:
            for name in names:
                file[name] = np.arange(5000.0)
        shown = (r"/a\x1b[31m\nb", r"/\xe2\x80\xaereverse", r"/back\\slash",
                 "/\u00e4\u20ac")
        for arguments in (
            ("repack", "-v", "--abs=1", path, out), ("info", path),
            ("verify", path), ("compare", path, path), ("advise", path),
            ("preview", "-v", path, self.path("preview.h5")),
        ):
            result = terp(*arguments)
            text = result.stdout + result.stderr
            for name in shown:
                self.assertIn(name, text)
            self.assertNotRegex(text, "[\x00-\x09\x0b-\x1f\u202e]")
        self.assertEqual(
            [d["path"] for d in self.json(OK, "info", path)["files"][0][
                "datasets"]],
            sorted("/" + name for name in names))
        missing = self.path("\x1b[31mmissing")
        self.assertIn(r"\x1b[31mmissing",
                      self.expect(TROUBLE, "info", missing))


class Newer(ToolTest):
    """A file of a later HDF5 does not count as damaged."""

    TOLD = "needs a newer HDF5 than"

    def write(self):
        """A file in which a dataset has the layout message of HDF5 2.0."""
        path = self.path("in.h5")
        with h5py.File(path, "w", libver="latest") as file:
            file["plain"] = np.arange(5000.0)
            file["x"] = np.arange(77.0)
            at = h5py.h5o.get_info(file["x"].id).addr
        with open(path, "rb") as file:
            bytes_ = bytearray(file.read())
        self.assertEqual(bytes_[at:at + 5], b"OHDR\x02")
        begin = at + 6 + 16 * (bytes_[at + 5] >> 5 & 1)
        size_nbytes = 1 << (bytes_[at + 5] & 3)
        size = int.from_bytes(bytes_[begin:begin + size_nbytes], "little")
        end = begin + size_nbytes + size
        stored = int.from_bytes(bytes_[end:end + 4], "little")
        self.assertEqual(checksum(bytes(bytes_[at:end])), stored)
        # Message 8 of 18 bytes: version 3 or 4, contiguous.
        found = bytes_.index(b"\x08\x12\x00", begin, end) + 4
        self.assertIn(bytes_[found], (3, 4))
        bytes_[found] = 9
        bytes_[end:end + 4] = checksum(bytes(bytes_[at:end])).to_bytes(
            4, "little")
        with open(path, "wb") as file:
            file.write(bytes_)
        return path

    def test_dataset_of_a_newer_hdf5_is_trouble_and_no_damage(self):
        path, out = self.write(), self.path("out.h5")
        for command in "info", "verify", "advise":
            result = terp(command, path)
            self.assertEqual(result.returncode, TROUBLE, command)
            self.assertIn(self.TOLD, result.stdout)
            self.assertIn("/plain", result.stdout)
            self.assertNotIn("DAMAGED", result.stdout)
        result = terp("compare", path, path)
        self.assertEqual(result.returncode, TROUBLE)
        self.assertIn(self.TOLD, result.stdout)
        for way in WAYS:
            text = self.expect(TROUBLE, *way, path, out)
            self.assertIn("/x: " + self.TOLD, text)
        document = self.json(TROUBLE, "info", path)
        plain, x = document["files"][0]["datasets"]
        self.assertIsNone(plain["unreadable"])
        self.assertIsNone(x["damage"])
        self.assertIn(self.TOLD, x["unreadable"])

    def test_region_of_a_newer_hdf5_is_said_to_be_one(self):
        path, out = self.path("in.h5"), self.path("out.h5")
        for kind, region in (2, np.s_[2:5]), (1, np.arange(50) % 7 == 1):
            with h5py.File(path, "w") as file:
                x = file.create_dataset("x", data=np.arange(50.0))
                x.attrs["region"] = x.regionref[region]
                at = h5py.h5o.get_info(x.id).addr
            # In the heap: the dataset's address, the selection's kind and
            # version.
            found = at.to_bytes(8, "little") + kind.to_bytes(4, "little")
            with open(path, "r+b") as file:
                bytes_ = file.read()
                self.assertEqual(bytes_.count(found), 1)
                file.seek(bytes_.index(found) + len(found))
                file.write(b"\x09")
            for way in WAYS:
                text = self.expect(TROUBLE, *way, path, out)
                self.assertIn("/x: attribute region: " + self.TOLD, text)

    def test_file_of_a_newer_hdf5_is_said_to_be_one(self):
        path = self.path("in.h5")
        with h5py.File(path, "w", libver="latest") as file:
            file["x"] = 1
        with open(path, "r+b") as file:
            file.seek(8)
            file.write(b"\x09")
        for command in ("info",), ("verify",), ("advise",), ("compare", path):
            self.assertIn(self.TOLD, self.expect(TROUBLE, *command, path))


class Preview(ToolTest):
    def preview(self, path):
        out = self.path("out.h5")
        self.expect(OK, "preview", path, out)
        return h5py.File(out, "r")

    def test_limits_of_dims_are_thinned_too(self):
        path = self.path("in.h5")
        cases = {
            "small": ((10,), (None,)), "one": ((1,), (20,)),
            "large": ((5000,), (6000,)), "plane": ((4, 300), (9, 300)),
            "empty": ((0, 300), (None, 301)), "fixed": ((9, 9), (9, 9)),
        }
        with h5py.File(path, "w") as file:
            for name, (shape, most) in cases.items():
                for type_ in "f4", "i1":
                    file.create_dataset(name + type_, shape, type_,
                                        maxshape=most)[...] = 3
        with self.preview(path) as file:
            for name, (shape, most) in cases.items():
                for type_ in "f4", "i1":
                    found = file[name + type_]
                    self.assertEqual(found.shape,
                                     tuple(-(-n // 4) for n in shape))
                    self.assertEqual(found.maxshape,
                                     tuple(n and -(-n // 4) for n in most))
                    self.assertTrue(np.all(found[...] == 3))

    def test_fill_values_of_text_are_kept(self):
        path = self.path("in.h5")
        type_ = h5py.h5t.py_create(h5py.string_dtype(), logical=True)
        list_ = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        list_.set_chunk((10,))
        packer = hdf5_raw.Packer()
        hdf5_raw.call("H5Pset_fill_value", list_, type_,
                      packer.pack(type_, b"none"))
        with h5py.File(path, "w") as file:
            id_ = h5py.h5d.create(
                file.id, b"names", type_, h5py.h5s.create_simple((40,)), list_)
            h5py.Dataset(id_)[3] = "abc"
        for way in (("preview", "--step=1"), ("preview",), ("repack",
                                                            "--lossless")):
            out = self.path("out.h5")
            self.expect(OK, *way, path, out)
            with h5py.File(out, "r") as file:
                names = file["names"]
                values = hdf5_raw.Values(file, None)
                found = values.fill_of(names.id.get_create_plist(), type_)
                self.assertEqual(found, (b"none",))
                self.assertEqual(names[0], b"none")
                if "preview" not in way or "--step=1" in way:
                    self.assertEqual(names[3], b"abc")


if __name__ == "__main__":
    unittest.main()
