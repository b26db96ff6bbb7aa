"""Every host reads what every host writes, with nothing but HDF5_PLUGIN_PATH.

    h5tests/hosts/test_hosts.py --host NAME COMMAND... [--host NAME COMMAND...]...

COMMAND is run with "write FILE" or "read FILE...", as h5tests/filter/host_file.c and
h5tests/hosts/host_file.py have it. It exits with 77 where it lacks what it needs; the others
are then tested without it. Prints each host's versions.
"""
import os
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77
HOSTS = []


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
