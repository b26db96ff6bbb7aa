"""Symbols of the libraries. The plugin's and the connector's files need no
libhdf5, export what HDF5 and netCDF look up, and stay loaded. In static libraries all
names begin with terp_. The codec's shared library is called TEST_SONAME and
exports the names of its map. TEST_PLUGIN, TEST_CONNECTOR, TEST_ARCHIVES,
TEST_CODEC and TEST_MAP name the files. Needs nm and readelf."""
import os
import re
import subprocess
import unittest

ENTRIES = ["H5PLget_plugin_info", "H5PLget_plugin_type"]
SHOWN = {os.environ["TEST_PLUGIN"]: [*ENTRIES, "NCZ_get_codec_info",
                                     "init_filter"],
         os.environ["TEST_CONNECTOR"]: [*ENTRIES, "NCZ_codec_info_defaults"]}


def output(*command):
    return subprocess.run(command, check=True, text=True,
                          stdout=subprocess.PIPE).stdout


class SymbolsTest(unittest.TestCase):
    def test_no_libhdf5_is_needed(self):
        for file in SHOWN:
            needed = re.findall(r"\(NEEDED\).*\[(.*)\]",
                                output("readelf", "-d", file))
            self.assertTrue(needed)
            self.assertFalse([name for name in needed
                              if "hdf5" in name or "netcdf" in name])

    def test_no_function_of_hdf5_is_linked(self):
        for file in SHOWN:
            names = output("nm", "-D", "--undefined-only", file)
            self.assertRegex(names, r"\bdlsym\b")
            self.assertNotRegex(names, r"\bH5")

    def test_only_the_entry_points_are_shown(self):
        for file, shown in SHOWN.items():
            names = output("nm", "-D", "--defined-only", file).split()[2::3]
            self.assertEqual(sorted(names), shown)

    def test_programs_keep_their_own_names(self):
        archives = os.environ["TEST_ARCHIVES"].split(os.pathsep)
        names = re.findall(r"^\w+ [A-Z] (\w+)$",
                           output("nm", "-g", "--defined-only", *archives),
                           re.MULTILINE)
        self.assertIn("terp_encode", names)
        self.assertEqual([name for name in names
                          if not name.startswith(("terp_", "__"))], [])

    def test_codec_shows_what_its_map_names(self):
        with open(os.environ["TEST_MAP"], encoding="ascii") as file:
            named = re.findall(r"^    (\w+);$", file.read(), re.MULTILINE)
        names = output("nm", "-D", "--defined-only", os.environ["TEST_CODEC"])
        self.assertEqual(
            sorted(re.findall(r" [TDR] (\w+)@@TERP_\S+$", names, re.MULTILINE)),
            sorted(named))
        self.assertIn("[%s]" % os.environ["TEST_SONAME"],
                      output("readelf", "-d", os.environ["TEST_CODEC"]))

    def test_neither_is_unloaded(self):
        for file in SHOWN:
            self.assertRegex(output("readelf", "-d", file), "FLAGS_1.*NODELETE")


if __name__ == "__main__":
    unittest.main()
