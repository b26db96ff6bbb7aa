"""Runs a script with packages from PyPI's wheels.

h5tests/hosts/in_venv.py DIRECTORY PACKAGES SCRIPT [ARGUMENT...]

PACKAGES are requirements, separated by commas. The first run installs them
into DIRECTORY, a virtual environment: by the program uv if TERP_TEST_UV names
it, which takes a tenth of pip's time, else by pip. Exits with 77, ctest's
"skipped", if PyPI cannot be reached or has no such wheel for this Python. The
next try is some minutes later."""
import os
import subprocess
import sys
import time

SKIPPED = 77
SECONDS_TO_RETRY = 600


def run(*command):
    result = subprocess.run(command, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)
    if result.returncode != 0:
        print(result.stdout)
    return result.returncode == 0


def install(python, *arguments):
    """Installs into the environment of a Python. Returns whether it worked."""
    uv = os.environ.get("TERP_TEST_UV")
    if uv:
        os.environ.setdefault("UV_HTTP_TIMEOUT", "20")
        return run(uv, "pip", "install", "--python", python, *arguments)
    return run(python, "-m", "pip", "install", "--disable-pip-version-check",
               "--retries", "1", "--timeout", "20", *arguments)


def make(directory, python, packages):
    """Installs the packages. Returns None, or the reason for a failure."""
    without = ["--without-pip"] if os.environ.get("TERP_TEST_UV") else []
    if not run(sys.executable, "-m", "venv", "--clear", *without, directory):
        return "no virtual environment can be made here"
    if not install(python, "--only-binary=:all:", *packages.split(",")):
        return "PyPI cannot be reached, or has no %s for this Python" % packages
    return None


def make_once(directory, python, packages):
    """The same, but for some minutes after a failure returns only its
    reason."""
    failed = directory + "-failed"
    if (os.path.exists(failed) and
            time.time() - os.path.getmtime(failed) < SECONDS_TO_RETRY):
        with open(failed) as file:
            return file.read()
    reason = make(directory, python, packages)
    if reason:
        with open(failed, "w") as file:
            file.write(reason)
    return reason


def is_made(done, made):
    if not os.path.exists(done):
        return False
    with open(done) as file:
        return file.read() == made


def main():
    directory, packages, *script = sys.argv[1:]
    python = os.path.join(directory, "bin", "python")
    # Written last, so that a broken or outdated environment is made again. One
    # that uv has made lacks pip.
    done = os.path.join(directory, "terp-packages")
    made = packages + (" by uv" if os.environ.get("TERP_TEST_UV") else "")
    if not is_made(done, made):
        reason = make_once(directory, python, packages)
        if reason:
            print("skipped:", reason)
            sys.exit(SKIPPED)
        with open(done, "w") as file:
            file.write(made)
    os.execv(python, [python, *script])


if __name__ == "__main__":
    main()
