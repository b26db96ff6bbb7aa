"""Builds the wheel of the Python package: make_wheel.py SOURCE DIRECTORY

Needs scikit-build-core and ninja, which in_venv.py installs. Warnings are
errors. The compiler has the same name as in the release build, and the build
folder has the same depth, in case ccache makes paths relative. So ccache finds
the objects of the release build."""
import os
import shutil
import subprocess
import sys

source, directory = sys.argv[1:]
os.environ.setdefault("CC", "cc")
build = os.path.dirname(directory) + "-wheel"
for folder in directory, build:
    shutil.rmtree(folder, ignore_errors=True)
sys.exit(subprocess.run(
    [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps",
     "--disable-pip-version-check",
     "--config-settings=cmake.define.TERP_WERROR=ON",
     "--config-settings=build-dir=" + build,
     "-w", directory, source]).returncode)
