"""Tests the built wheel in this environment: run.py DIRECTORY_OF_THE_WHEEL"""
import glob
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "hosts"))
import in_venv  # noqa: E402

wheels = glob.glob(sys.argv[1] + "/*.whl")
if len(wheels) != 1:
    print("skipped: no wheel was built")
    sys.exit(77)
if not in_venv.install(sys.executable, "--no-deps", "--force-reinstall", *wheels):
    sys.exit("the wheel cannot be installed")
os.environ["TERP_TEST_WHEEL"] = wheels[0]
sys.exit(subprocess.run([sys.executable, "-m", "pytest", "-q", "-p",
                         "no:cacheprovider", "."]).returncode)
