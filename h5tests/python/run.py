"""Tests the built wheel in this environment: run.py DIRECTORY_OF_THE_WHEEL"""
import glob
import os
import subprocess
import sys

wheels = glob.glob(sys.argv[1] + "/*.whl")
if len(wheels) != 1:
    print("skipped: no wheel was built")
    sys.exit(77)
subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps",
                "--force-reinstall", "--disable-pip-version-check", *wheels],
               check=True)
os.environ["TERP_TEST_WHEEL"] = wheels[0]
sys.exit(subprocess.run([sys.executable, "-m", "pytest", "-q", "-p",
                         "no:cacheprovider", "."]).returncode)
