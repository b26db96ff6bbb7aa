"""Runs another package's own tests with the connector; TEST_SUITE names the
package.

A test may fail only if it also fails without the connector: with only the
plugins' folder, with the connector, with rules that compress what the tests
write, and with TERP_ASYNC beside the rules. netCDF4's own filters are available in each run."""
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
from importlib.metadata import version
from xml.etree import ElementTree

# Arguments of pytest. xarray has many tests that do not use HDF5.
SUITES = {
    "h5py": ["h5py.tests"],
    "h5netcdf": ["h5netcdf.tests"],
    "pandas": ["pandas.tests.io.pytables"],
    "xarray": ["xarray.tests.test_backends",
               "xarray.tests.test_backends_datatree",
               "xarray.tests.test_backends_file_manager",
               "xarray.tests.test_backends_api",
               "xarray.tests.test_backends_common",
               "-k", "not Zarr"],
    "tables": None,  # with its own runner
}
THROUGH = {"HDF5_VOL_CONNECTOR": "terp"}
RUNS = {"without": None, "plugins alone": {}, "connector": THROUGH,
        "rules": {**THROUGH, "TERP_RULES": "*=lossless"},
        "asynchronous": {**THROUGH, "TERP_RULES": "*=lossless",
                         "TERP_ASYNC": "1"}}
# Tests of properties that compression changes, other than values.
COMPRESSED = {
    # The tests expect a file as large as its array of zeros.
    "tables.tests.test_basics.FilePropertyTestCase.test_get_filesize"}
# Prints where a hanging test is.
SECONDS = 900


class TablesResult(unittest.TextTestResult):
    """Prints failing tests. Their names are not available after they end."""

    def startTest(self, test):
        super().startTest(test)
        self.name = test.id()

    def addFailure(self, test, error):
        super().addFailure(test, error)
        print("FAILED TEST", self.name)

    def addError(self, test, error):
        super().addError(test, error)
        print("FAILED TEST", getattr(self, "name", test))


def run_tables():
    """Runs PyTables' tests by its own list, because pytest also finds base
    classes."""
    from tables.tests import test_suite

    result = unittest.TextTestRunner(
        stream=sys.stdout, verbosity=0, resultclass=TablesResult).run(
            test_suite.suite())
    print(result.testsRun, "tests,", len(result.failures), "failures,",
          len(result.errors), "errors,", len(result.skipped), "skipped")


def environment_of(variables):
    environment = {**os.environ, **(variables or {})}
    if variables is None:
        del environment["HDF5_PLUGIN_PATH"]
        return environment
    # The variable replaces the folder that netCDF4's wheel sets.
    netcdf4 = importlib.util.find_spec("netCDF4")
    if netcdf4:
        environment["HDF5_PLUGIN_PATH"] += os.pathsep + os.path.join(
            os.path.dirname(netcdf4.origin), "plugins")
    return environment


def run(suite, variables):
    """Returns the failing tests, and the output."""
    with tempfile.TemporaryDirectory() as folder:
        if SUITES[suite] is None:
            command = [sys.executable, os.path.abspath(__file__), "--tables"]
        else:
            command = [sys.executable, "-m", "pytest", "-q",
                       "-p", "no:cacheprovider", "--tb=short",
                       "--junitxml=found.xml",
                       "-o", "faulthandler_timeout=%d" % SECONDS,
                       "--pyargs", *SUITES[suite]]
        done = subprocess.run(command, cwd=folder, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=environment_of(variables))
        if done.returncode not in (0, 1):
            sys.exit("%s\nexit status %d" % (done.stdout, done.returncode))
        if SUITES[suite] is None:
            failed = {line.split()[2] for line in done.stdout.splitlines()
                      if line.startswith("FAILED TEST ")}
        else:
            cases = ElementTree.parse(os.path.join(folder, "found.xml"))
            failed = {"%s::%s" % (case.get("classname"), case.get("name"))
                      for case in cases.iter("testcase")
                      if case.find("failure") is not None
                      or case.find("error") is not None}
    return failed, done.stdout


def main():
    if sys.argv[1:] == ["--tables"]:
        return run_tables()
    suite = os.environ["TEST_SUITE"]
    print(suite, version(suite))
    without, found = set(), []
    for name, variables in RUNS.items():
        failed, output = run(suite, variables)
        print("%s: %s" % (name, output.strip().splitlines()[-1]), flush=True)
        if variables is None:
            without = failed
            print("fail without the connector:", *sorted(failed))
            continue
        more = failed - without
        if "TERP_RULES" in variables:
            more -= COMPRESSED
        if more:
            found.append("fail only with it (%s): %s" % (
                name, " ".join(sorted(more))))
            print(output)
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
