"""Runs a script with h5py, netCDF4 and numpy from PyPI's wheels.

    in_venv.py DIRECTORY SCRIPT

The wheels go to DIRECTORY, a virtual environment that is made at the first
run. Exits with 77, ctest's "skipped", where PyPI cannot be reached.
"""
import os
import subprocess
import sys

PACKAGES = ["h5py", "netCDF4"]
SKIPPED = 77


def run(*command):
    result = subprocess.run(command, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)
    if result.returncode != 0:
        print(result.stdout)
    return result.returncode == 0


def main():
    directory, script = sys.argv[1:]
    python = os.path.join(directory, "bin", "python")
    # Written last, so that a broken environment is made again.
    done = os.path.join(directory, "terp-packages")
    if not os.path.exists(done):
        if not run(sys.executable, "-m", "venv", "--clear", directory):
            print("skipped: no virtual environment can be made here")
            sys.exit(SKIPPED)
        if not run(python, "-m", "pip", "install", "--only-binary=:all:",
                   "--retries", "1", "--timeout", "20", *PACKAGES):
            print("skipped: PyPI cannot be reached")
            sys.exit(SKIPPED)
        with open(done, "w") as file:
            print(*PACKAGES, file=file)
    os.execv(python, [python, script])


if __name__ == "__main__":
    main()
