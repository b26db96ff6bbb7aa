"""Builds the wheel of the Python package: make_wheel.py SOURCE DIRECTORY

Needs scikit-build-core and ninja, which in_venv.py installs. Warnings are
errors. The compiler's name is that of the release build, so that ccache finds
the objects."""
import os
import shutil
import subprocess
import sys

source, directory = sys.argv[1:]
os.environ.setdefault("CC", "cc")
shutil.rmtree(directory, ignore_errors=True)
sys.exit(subprocess.run(
    [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps",
     "--disable-pip-version-check",
     "--config-settings=cmake.define.TERP_WERROR=ON",
     "-w", directory, source]).returncode)
