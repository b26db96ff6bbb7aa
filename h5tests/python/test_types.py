"""Annotations for type checkers, and texts for help()."""

import inspect
import re
import subprocess
import sys
from typing import get_args

import pytest

import h5z_terp
from h5z_terp import _codec, _settings

USES = """
import numpy as np
import h5z_terp

values = np.zeros(3)
bound = h5z_terp.Terp(rel=1e-3, effort="best", dims=(8, 8))
stream: bytes = h5z_terp.compress(values, bound, fill=-9)
read: np.ndarray = h5z_terp.decompress(stream, step=2)
h5z_terp.compress(values, abs=1, floor=None, pipeline="ratio", plain=True)
h5z_terp.set_filter(values, lossless=True, predictor="lorenzo")
h5z_terp.encoding(bound)
h5z_terp.encoding(rel=1e-3, keep_sign="chunk", valid_range=(0, None))
h5z_terp.Terp(digits=3, floor=1e-9, missing=-9999, format=1)
shape: tuple[int, ...] = h5z_terp.chunks((None, 721, 1440), "f4")
bound = h5z_terp.Terp.from_filter_options((2, 1, 3))
h5z_terp.compress(values, 1e-3)  # wrong
h5z_terp.compress(values, relative=1e-3)  # wrong
h5z_terp.compress(values, rel="1e-3")  # wrong
h5z_terp.Terp(rel=1e-3, effort="hard")  # wrong
h5z_terp.Terp(1e-3)  # wrong
h5z_terp.Terp(digits="3")  # wrong
h5z_terp.Terp(rel=1e-3, format=2)  # wrong
h5z_terp.Terp(rel=1e-3, keep_sign=True)  # wrong
h5z_terp.Terp(rel=1e-3, valid_range=(0, "1"))  # wrong
h5z_terp.encoding(rel=1e-3, pipeline="zip")  # wrong
h5z_terp.set_filter(values, rel=1e-3, predictor="none")  # wrong
"""


@pytest.mark.parametrize("name", ["pipeline", "predictor", "effort"])
def test_names_are_the_codecs(name):
    literal = getattr(_settings, name.capitalize())
    assert set(get_args(literal)) == set(_codec.numbers(name))


def test_signatures_name_the_arguments():
    arguments = list(inspect.signature(h5z_terp.Terp).parameters)
    assert set(arguments) == set(_settings.Settings.__annotations__)
    functions = [h5z_terp.compress, h5z_terp.encoding, h5z_terp.set_filter]
    for package in "numcodecs", "zarr":
        try:
            functions.append(__import__("h5z_terp." + package,
                                        fromlist=["TerpCodec"]).TerpCodec)
        except ImportError:  # not installed, or older than the codec requires
            pass
    for function in functions:
        parameters = list(inspect.signature(function).parameters)
        assert parameters[-len(arguments):] == arguments
        assert "bound" not in parameters


def test_mypy_finds_what_is_wrong_and_nothing_else(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "uses.py").write_text(USES)
    # The packages below have no annotations.
    ended = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir",
         tmp_path / "cache", "--disable-error-code", "type-arg",
         "--disable-error-code", "import-untyped", "--allow-subclassing-any",
         "-p", "h5z_terp", "-m", "uses"],
        cwd=tmp_path, capture_output=True, text=True)
    found = re.findall(r"^(.*):(\d+): error", ended.stdout, re.MULTILINE)
    assert set(found) == {("uses.py", str(number)) for number, line in
                          enumerate(USES.split("\n"), 1)
                          if line.endswith("# wrong")}, ended.stdout
