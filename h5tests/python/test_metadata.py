"""What PyPI shows of the wheel."""

import importlib.metadata
import os
from pathlib import Path
import re
import subprocess
import sys

import h5py
import numpy as np
import pytest

import h5z_terp
from fields import waves

METADATA = importlib.metadata.metadata("h5z-terp")


def test_fields():
    assert METADATA["Name"] == "h5z-terp"
    assert METADATA["Version"] == h5z_terp.__version__
    assert METADATA["Author"] == "The terp authors"
    assert "@" in METADATA["Maintainer-Email"]
    assert METADATA["Keywords"]
    urls = dict(line.split(", ") for line in METADATA.get_all("Project-URL"))
    assert {"Homepage", "Documentation", "Source", "Issues",
            "Changelog"} <= set(urls)
    assert all(url.startswith("https://") for url in urls.values())
    assert METADATA["Description-Content-Type"] == "text/markdown"


def test_classifiers_are_known():
    known = pytest.importorskip("trove_classifiers").classifiers
    found = METADATA.get_all("Classifier")
    assert found and set(found) <= known
    least = METADATA["Requires-Python"].lstrip(">=")
    assert f"Programming Language :: Python :: {least}" in found


def description():
    # Older versions of Python give the text as a header.
    return METADATA["Description"] or METADATA.get_payload()


def test_readme_links_to_nothing_that_pypi_lacks():
    links = re.findall(r"\]\(([^)]*)\)", description())
    assert all(link.startswith("https://") for link in links)


def test_readme_renders():
    pytest.importorskip("twine")
    wheel = os.environ.get("TERP_TEST_WHEEL")
    if not wheel:
        pytest.skip("no wheel")
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", wheel],
                   check=True)


def test_examples_of_the_readme_run(tmp_path, monkeypatch):
    xarray = pytest.importorskip("xarray")
    zarr = pytest.importorskip("zarr", minversion="3")
    pytest.importorskip("netCDF4")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", description(), re.MULTILINE)
    code = [re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in blocks
            if "pip install" not in block]
    assert len(code) == 4
    rho = waves((64, 64, 64))
    names = {"rho": rho, "array": rho, "h5z_terp": h5z_terp, "zarr": zarr,
             "dataset": xarray.Dataset({"rho": (("x", "y", "z"), rho)})}
    for block in code:
        exec(block, names)
    limit = 1.01e-3 * np.ptp(rho)
    with h5py.File("out.h5") as file:
        assert 0 < abs(file["rho"][...] - rho).max() <= limit
    assert 0 < abs(names["array"] - rho).max() <= limit
    assert 0 < abs(zarr.open_array("out.zarr")[...] - rho).max() <= limit
    with xarray.open_dataset("out.nc") as read:
        assert 0 < abs(read["rho"] - rho).max() <= limit
    assert Path("out.nc").stat().st_size < rho.nbytes / 3
