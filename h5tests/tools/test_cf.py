#!/usr/bin/env python3
"""CF's attributes of lossy compression: terp repack writes them, preview keeps
them, and info reads them."""
import shutil
import subprocess
import sys
import unittest

from tool_case import OK, TROUBLE, ToolTest

try:
    import h5py
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

NOTE = "lossy_compression"
ABSOLUTE = NOTE + "_maximum_absolute_error"
RELATIVE = NOTE + "_maximum_relative_error"
CONTAINER = "terp_compression_info"


def text(value):
    return value.decode() if isinstance(value, bytes) else value


class Notes(ToolTest):
    def setUp(self):
        super().setUp()
        self.source = self.write("in.nc")

    def write(self, name, conventions="CF-1.12, ACDD-1.3"):
        path = self.path(name)
        walk = np.random.default_rng(1).normal(size=(3, 20, 30, 40)).cumsum(-1)
        with h5py.File(path, "w", track_order=True) as file:
            if conventions is not None:
                file.attrs["Conventions"] = conventions
            file["tas"], file["pr"], file["g/u"] = walk
            file["lat"] = np.linspace(-90, 90, 5000)
            file["lat"].attrs["units"] = "degrees_north"
            file["count"] = np.arange(10000)
        return path

    def notes(self, path):
        """For each dataset: its lossy_compression, and both errors."""
        found = {}

        def take(name, item):
            if isinstance(item, h5py.Dataset) and name != CONTAINER:
                attributes = item.attrs
                found[name] = (text(attributes.get(NOTE)),
                               attributes.get(ABSOLUTE),
                               attributes.get(RELATIVE))

        with h5py.File(path, "r") as file:
            file.visititems(take)
        return found

    def repack(self, *arguments, source=None, name="out.nc", code=OK):
        out = self.path(name)
        message = self.expect(code, "repack", source or self.source, out,
                              *arguments)
        return out if code == OK else message

    def test_lossy_variables_tell_their_error(self):
        out = self.repack("--abs=0.5", "--dataset=pr=pwr:1e-2:1e-3",
                          "--dataset=u=lossless")
        self.assertEqual(self.notes(out), {
            "tas": (CONTAINER, 0.5, None), "pr": (CONTAINER, 1e-3, 1e-2),
            "g/u": (None,) * 3, "lat": (None,) * 3, "count": (None,) * 3})
        with h5py.File(out, "r") as file, h5py.File(self.source, "r") as source:
            about = {key: text(value)
                     for key, value in file[CONTAINER].attrs.items()}
            self.assertRegex(about.pop("implementation"),
                             r"^terp version \d+\.\d+\.\d+ \(HDF5 filter 46117\)$")
            # CF's list of quantization algorithms does not have terp.
            self.assertEqual(about, {"family": "terp", "algorithm": "terp"})
            for name in "tas", "pr":
                self.assertNotIn("quantization", file[name].attrs)
                _, absolute, relative = self.notes(out)[name]
                x = source[name][:]
                self.assertTrue(np.all(abs(file[name][:] - x) <= absolute +
                                       (relative or 0) * abs(x)))
        self.expect(OK, "compare", self.source, out)
        if shutil.which("ncdump"):
            header = subprocess.run(["ncdump", "-h", out], text=True, check=True,
                                    stdout=subprocess.PIPE).stdout
            self.assertIn(f"\tchar {CONTAINER} ;\n", header)
            self.assertIn(f'tas:{NOTE} = "{CONTAINER}" ;\n', header)

    def test_other_files_stay_as_they_are(self):
        plain = self.write("plain.h5", None)
        other = self.write("other.h5", "COARDS")
        for source, option in ((plain, "-v"), (other, "-v"),
                               (self.source, "--no-cf")):
            out = self.repack("--abs=0.5", option, source=source)
            self.assertEqual({note[0] for note in self.notes(out).values()},
                             {None})
            with h5py.File(out, "r") as file:
                self.assertNotIn(CONTAINER, file)

    def test_errors_of_several_copies_add_up(self):
        first = self.repack("--abs=0.5")
        again = self.repack("--pwr=1e-2", source=first, name="again.nc")
        third = self.repack("--pwr=1e-2", source=again, name="third.nc")
        self.assertEqual(self.notes(again)["tas"][1:], (0.5 + 1e-2 * 0.5, 1e-2))
        errors = self.notes(third)["tas"][1:]
        np.testing.assert_allclose(errors, (0.505 + 1e-2 * 0.505, 0.0201))
        with h5py.File(third, "r") as file, h5py.File(self.source, "r") as source:
            x = source["tas"][:]
            self.assertTrue(np.all(abs(file["tas"][:] - x) <=
                                   errors[0] + errors[1] * abs(x)))
            self.assertEqual(list(file).count(CONTAINER), 1)
        # A copy without loss, and a preview, keep the notes.
        for command in (("repack", third, "x.nc", "--lossless"),
                        ("preview", third, "x.nc", "--step=2")):
            command = [*command[:2], self.path("x.nc"), *command[3:]]
            self.expect(OK, *command)
            self.assertEqual(self.notes(self.path("x.nc")), self.notes(third))
            with h5py.File(self.path("x.nc"), "r") as file:
                self.assertEqual(text(file[CONTAINER].attrs["family"]), "terp")

    def test_earlier_errors_without_notes_count(self):
        plain = self.repack("--abs=0.5", "--no-cf")
        out = self.repack("--abs=0.25", source=plain, name="x.nc")
        self.assertEqual(self.notes(out)["tas"], (CONTAINER, 0.75, None))
        # The filter's relative bound refers to chunks: the error is unknown.
        with h5py.File(self.path("rel.nc"), "w") as file:
            file.attrs["Conventions"] = "CF-1.8"
            file.create_dataset("x", data=np.arange(1e4), chunks=(5000,),
                                compression=46117, compression_opts=(2, 1, 2))
        for i in range(2):
            out = self.repack("--abs=0.25", source=self.path(["rel.nc", "y0.nc"][i]),
                              name=f"y{i}.nc")
            self.assertEqual(self.notes(out)["x"], (CONTAINER, None, None))

    def test_attributes_of_others_stay(self):
        with h5py.File(self.source, "a") as file:
            file["tas"].attrs[NOTE] = "zfp_info"
            file["pr"].attrs["quantization"] = "quantization_info"
            file["pr"].attrs["quantization_nsb"] = 9
            info = file.create_dataset("quantization_info", (), "S1")
            info.attrs["algorithm"] = "bitround"
            info.attrs["implementation"] = "libnetcdf version 4.9.2"
        out = self.repack("--abs=0.5")
        notes = self.notes(out)
        self.assertEqual(notes["tas"], ("zfp_info", None, None))
        self.assertEqual(notes["pr"], (CONTAINER, 0.5, None))
        found = {d["path"]: d["cf"] for d in
                 self.json(OK, "info", self.source)["files"][0]["datasets"]}
        self.assertEqual(found["/pr"], {
            "quantization": True, "algorithm": "bitround",
            "implementation": "libnetcdf version 4.9.2", "bits": 9,
            "digits": None, "absolute_error": None, "relative_error": None})
        self.assertIn("quantized   libnetcdf version 4.9.2, bitround, 9 bits\n",
                      self.expect(OK, "info", "-v", self.source))

    def test_info_reads_the_note_of_a_group(self):
        out = self.repack("--abs=0.5", "--dataset=u=pwr:1e-2:1e-3")
        found = {d["path"]: d["cf"] for d in
                 self.json(OK, "info", out)["files"][0]["datasets"]}
        self.assertIsNone(found["/lat"])
        self.assertEqual(found["/g/u"]["relative_error"], 1e-2)
        self.assertTrue(found["/g/u"]["implementation"].startswith("terp version"))
        self.assertRegex(self.expect(OK, "info", "-v", out),
                         r"CF note     terp version .*, errors up to 0.001 \+ "
                         r"0.01 of the value\n")

    def test_a_name_that_is_taken_is_trouble(self):
        with h5py.File(self.source, "a") as file:
            file[CONTAINER] = np.arange(4)
        self.assertIn("another object has this name",
                      self.repack("--abs=0.5", code=TROUBLE))
        self.repack("--abs=0.5", "--no-cf")
        self.repack("--lossless", name="x.nc")


if __name__ == "__main__":
    unittest.main()
