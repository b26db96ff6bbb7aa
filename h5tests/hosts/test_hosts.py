"""Every host reads what every host writes, with only HDF5_PLUGIN_PATH set.

h5tests/hosts/test_hosts.py --host NAME COMMAND... [--host NAME COMMAND...]...

COMMAND runs with "write FILE" or "read FILE...", like
h5tests/filter/host_file.c and h5tests/hosts/host_file.py. If it lacks
something, it exits with 77, and the test goes on without it. Prints each
host's versions. If HDF5_VOL_CONNECTOR names the connector, each host whose
HDF5 is too old for it and that loads plugins must say so."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77
HOSTS = []


def is_too_old(output):
    minor = re.search(r"HDF5 1\.(\d+)\.", output)
    return minor is not None and int(minor[1]) < 14


def run(command, *arguments):
    return subprocess.run([*command, *arguments], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


class HostsTest(unittest.TestCase):
    def test_every_host_reads_what_every_host_writes(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        present, paths = [], []
        for name, command in HOSTS:
            path = os.path.join(directory.name, "%d.h5" % len(paths))
            result = run(command, "write", path)
            print("%-24s %s" % (name, result.stdout.strip()))
            if result.returncode != SKIPPED:
                self.assertEqual(result.returncode, 0, name)
                if "HDF5_VOL_CONNECTOR" in os.environ and \
                        "in the program" not in name:
                    self.assertEqual("is too old for terp's connector" in result.stdout,
                                     is_too_old(result.stdout), name)
                present.append((name, command))
                paths.append(path)
        self.assertGreater(len(present), 1)
        for name, command in present:
            with self.subTest(reader=name):
                result = run(command, "read", *paths)
                self.assertEqual(result.returncode, 0, result.stdout)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        if argument == "--host":
            HOSTS.append([])
        else:
            HOSTS[-1].append(argument)
    HOSTS = [(name, command) for name, *command in HOSTS]
    unittest.main(argv=sys.argv[:1])
