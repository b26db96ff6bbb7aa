"""The tool with the HDF5 of h5py's wheel."""

import json
import subprocess
import sys

import h5py
import pytest

import h5z_terp
from fields import waves


def terp(*words, code=0):
    ended = subprocess.run([sys.executable, "-m", "h5z_terp.tool",
                            *map(str, words)], capture_output=True, text=True)
    assert ended.returncode == code, ended.stderr
    return ended.stdout


def test_repack_compare_info(tmp_path):
    plain, small = tmp_path / "plain.h5", tmp_path / "small.h5"
    with h5py.File(plain, "w") as file:
        # Contiguous and chunked datasets take different code paths.
        file.create_dataset("a/wave", data=waves((40, 33, 20)))
        file.create_dataset("b/wave", data=waves((64, 64, 64), "f8"),
                            chunks=(32, 32, 32), compression="gzip")
        file["a"].attrs["of"] = file["b"].ref
    terp("repack", plain, small, "--rel", "1e-3")
    assert "ok" in terp("compare", plain, small)
    found = json.loads(terp("info", "--json", small))
    paths = [d["path"] for d in found["files"][0]["datasets"]]
    assert paths == ["/a/wave", "/b/wave"]
    with h5py.File(small) as file:
        assert file[file["a"].attrs["of"]].name == "/b"
        assert str(h5z_terp.FILTER_ID) in file["b/wave"]._filters


@pytest.mark.parametrize("words", [("nonsense",), ("info", "/no/such/file")])
def test_wrong_usage(words):
    terp(*words, code=2)


def test_version():
    assert h5z_terp.__version__ in terp("--version")
