"""Runs a script with packages from PyPI's wheels.

    in_venv.py DIRECTORY PACKAGES SCRIPT [ARGUMENT...]

PACKAGES are requirements with commas between them. They go to DIRECTORY, a
virtual environment that is made at the first run. Exits with 77, ctest's
"skipped", where PyPI cannot be reached or has no such wheel for this Python.
"""
import os
import subprocess
import sys

SKIPPED = 77


def run(*command):
    result = subprocess.run(command, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)
    if result.returncode != 0:
        print(result.stdout)
    return result.returncode == 0


def main():
    directory, packages, *script = sys.argv[1:]
    python = os.path.join(directory, "bin", "python")
    # Written last, so that a broken or older environment is made again.
    done = os.path.join(directory, "terp-packages")
    if not os.path.exists(done) or open(done).read() != packages:
        if not run(sys.executable, "-m", "venv", "--clear", directory):
            print("skipped: no virtual environment can be made here")
            sys.exit(SKIPPED)
        if not run(python, "-m", "pip", "install", "--only-binary=:all:",
                   "--disable-pip-version-check", "--retries", "1",
                   "--timeout", "20", *packages.split(",")):
            print("skipped: PyPI cannot be reached, or has no", packages,
                  "for this Python")
            sys.exit(SKIPPED)
        with open(done, "w") as file:
            file.write(packages)
    os.execv(python, [python, *script])


if __name__ == "__main__":
    main()
