"""Two h5py, each with an HDF5 of its own, read each other's files. Run with
one; TEST_OTHER_PYTHON names the interpreter that has the other."""
import os
import subprocess
import sys
import tempfile
import unittest

OTHER = os.environ["TEST_OTHER_PYTHON"]
ONE = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                   "exchange_one.py")


def run(python, *arguments):
    return subprocess.run([python, ONE, *arguments], check=True, text=True,
                          stdout=subprocess.PIPE).stdout.strip()


class ExchangeTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = os.path.join(directory.name, "exchanged.h5")

    def exchange(self, writer, reader):
        self.assertNotEqual(run(writer, "write", self.path),
                            run(reader, "read", self.path),
                            "both have the same HDF5")

    def test_other_reads_what_this_writes(self):
        self.exchange(sys.executable, OTHER)

    def test_this_reads_what_other_writes(self):
        self.exchange(OTHER, sys.executable)


if __name__ == "__main__":
    unittest.main()
