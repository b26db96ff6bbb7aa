"""Makes a release without its wheel, and checks its files: test_release.py

This Python must have build, twine and scikit-build-core. Exits with 77, ctest's
"skipped", outside of a git repository."""
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOME = "https://home.test/terp"
URL = "https://downloads.test/terp"


def names(archive):
    """The archive's files, without the folder that holds them."""
    with tarfile.open(archive) as tar:
        return {member.name.split("/", 1)[1] for member in tar if member.isfile()}


def check(folder, committed):
    header = (ROOT / "codec/api/terp.h").read_text(encoding="utf-8")
    version = re.search('#define TERP_VERSION "(.*)"', header)[1]
    archive = folder / f"terp-{version}.tar.gz"
    sdist = folder / f"h5z_terp-{version}.tar.gz"
    recipes = folder / f"terp-{version}-recipes.tar.gz"

    sums = dict(reversed(line.split()) for line in
                (folder / "SHA256SUMS").read_text(encoding="utf-8").splitlines())
    made = {path.name for path in folder.iterdir()} - {"SHA256SUMS"}
    assert set(sums) == made == {archive.name, sdist.name, recipes.name}, made
    for name, expected in sums.items():
        found = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        assert found == expected, name

    assert names(archive) == committed, names(archive) ^ committed
    needed = {"PKG-INFO", "LICENSE", "README.md", "pyproject.toml",
              "licenses/xxHash.txt", "python/h5z_terp/__init__.py",
              "third_party/xxhash/xxhash.h", "CMakeLists.txt"}
    assert needed <= names(sdist), needed - names(sdist)

    checked = []
    with tarfile.open(recipes) as tar:
        for member in tar:
            if not member.name.endswith(("package.py", ".yaml", ".eb")):
                continue
            text = tar.extractfile(member).read().decode()
            # No other version has the archive's checksum.
            assert re.findall(r"\b[0-9a-f]{64}\b", text) == [
                sums[archive.name]], member.name
            assert URL in text and HOME in text, member.name
            assert "example.org" not in text, member.name
            assert f'"{version}"' in text or f"'{version}'" in text, member.name
            checked.append(member.name)
    assert len(checked) == 4, checked
    print(f"{len(made)} files of a release, {len(checked)} recipes: as expected")


def main():
    listed = subprocess.run(["git", "-C", ROOT, "ls-tree", "-r", "--name-only",
                             "HEAD"], stdout=subprocess.PIPE, text=True)
    if listed.returncode != 0:
        print("skipped: this is not a git repository")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run(
            [ROOT / "scripts/release.sh", "--source", "--home", HOME, "--url", URL,
             folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "TERP_RELEASE_PYTHON": sys.executable})
        print(result.stdout)
        if result.returncode == 0:
            check(pathlib.Path(folder), set(listed.stdout.splitlines()))
    return result.returncode


if __name__ == "__main__":
    sys.exit(main())
