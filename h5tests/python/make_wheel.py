"""Builds the wheel of the Python package: make_wheel.py SOURCE DIRECTORY

Needs scikit-build-core and ninja, which in_venv.py brings.
"""
import shutil
import subprocess
import sys

source, directory = sys.argv[1:]
shutil.rmtree(directory, ignore_errors=True)
sys.exit(subprocess.run(
    [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps",
     "--disable-pip-version-check", "-w", directory, source]).returncode)
