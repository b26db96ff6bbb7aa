"""h5py's own tests with the connector: none fails that does not fail without,
and the plugin folder alone changes nothing either."""
import os
import re
import subprocess
import sys
import tempfile

import h5py

FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


def run(name, **variables):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
             "--pyargs", "h5py.tests"], cwd=folder, capture_output=True,
            text=True, env={**os.environ, **variables})
    print(name + ":", done.stdout.strip().splitlines()[-1])
    if done.returncode not in (0, 1):
        sys.exit(done.stdout + done.stderr)
    return set(FAILED.findall(done.stdout))


def main():
    print("h5py", h5py.version.version, "HDF5", h5py.version.hdf5_version)
    plain = run("no plugin", HDF5_PLUGIN_PATH="/nonexistent")
    beside = run("not asked for")
    through = run("connector", HDF5_VOL_CONNECTOR="terp")
    print("fail without:", *sorted(plain))
    for name, failed in (("not asked for", beside), ("connector", through)):
        if failed - plain:
            sys.exit("fail only with it (%s): %s" % (name, failed - plain))


if __name__ == "__main__":
    main()
