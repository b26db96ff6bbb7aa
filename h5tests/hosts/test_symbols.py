"""The plugin file: it needs no libhdf5, shows three functions, and stays; and
the static libraries, whose names all begin with terp_. TEST_PLUGIN and
TEST_ARCHIVES name them. Needs nm and readelf."""
import os
import re
import subprocess
import unittest

PLUGIN = os.environ["TEST_PLUGIN"]


def output(*command):
    return subprocess.run(command, check=True, text=True,
                          stdout=subprocess.PIPE).stdout


class SymbolsTest(unittest.TestCase):
    def test_no_libhdf5_is_needed(self):
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]",
                            output("readelf", "-d", PLUGIN))
        self.assertTrue(needed)
        self.assertFalse([name for name in needed if "hdf5" in name])

    def test_no_function_of_hdf5_is_linked(self):
        names = output("nm", "-D", "--undefined-only", PLUGIN)
        self.assertRegex(names, r"\bdlsym\b")
        self.assertNotRegex(names, r"\bH5")

    def test_only_the_entry_points_are_shown(self):
        names = output("nm", "-D", "--defined-only", PLUGIN).split()[2::3]
        self.assertEqual(sorted(names), ["H5PLget_plugin_info",
                                         "H5PLget_plugin_type",
                                         "init_filter"])

    def test_programs_keep_their_own_names(self):
        archives = os.environ["TEST_ARCHIVES"].split(os.pathsep)
        names = re.findall(r"^\w+ [A-Z] (\w+)$",
                           output("nm", "-g", "--defined-only", *archives),
                           re.MULTILINE)
        self.assertIn("terp_encode", names)
        self.assertEqual([name for name in names
                          if not name.startswith(("terp_", "__"))], [])

    def test_plugin_is_not_unloaded(self):
        self.assertRegex(output("readelf", "-d", PLUGIN), "FLAGS_1.*NODELETE")


if __name__ == "__main__":
    unittest.main()
