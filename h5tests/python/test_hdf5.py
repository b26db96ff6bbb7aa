"""h5py, netCDF4 and xarray with nothing set but an import."""

import os
import subprocess
import sys

import h5py
import numpy as np
import pytest

import h5z_terp
from fields import waves

VALUES = waves((40, 33, 20))
SETTINGS = h5z_terp.Terp(abs=1e-3)


def write(path, **options):
    with h5py.File(path, "w") as file:
        file.create_dataset("wave", data=VALUES, chunks=(16, 16, 16),
                            **SETTINGS, **options)


def check(read):
    assert 0 < abs(np.asarray(read) - VALUES).max() <= 1e-3


def test_h5py(tmp_path):
    write(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as file:
        data = file["wave"]
        check(data[...])
        assert data.id.get_storage_size() < VALUES.nbytes / 4
        _, stream = data.id.read_direct_chunk((0, 0, 0))
    whole = h5z_terp.compress(VALUES[:16, :16, :16], SETTINGS)
    assert stream == whole


@pytest.mark.parametrize("options, limit", [
    ({"psnr": 50}, None), ({"pwr": 1e-2, "floor": 1e-3}, 0.04),
    ({"abs": 1e-3, "dims": (16, 16)}, 1e-3)])
def test_words_of_other_settings(tmp_path, options, limit):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("wave", data=VALUES, chunks=(16, 16, 16),
                            **h5z_terp.Terp(**options))
    with h5py.File(tmp_path / "a.h5") as file:
        data = file["wave"]
        error = abs(data[...] - VALUES).max()
        assert 0 < error <= (limit or error)
        assert data.id.get_storage_size() < VALUES.nbytes / 3


IMPORTS = [("h5z_terp", "h5py"), ("h5py", "h5z_terp"),
           ("h5z_terp", "netCDF4"), ("netCDF4", "h5z_terp"),
           ("h5py", "netCDF4", "h5z_terp")]
READERS = {"h5py": "h5py.File(path)['wave'][...]",
           "netCDF4": "netCDF4.Dataset(path)['wave'][...]"}


@pytest.mark.parametrize("imports", IMPORTS)
def test_order_of_imports(tmp_path, imports):
    for name in imports:
        pytest.importorskip(name)
    write(tmp_path / "a.h5")
    # A library that has begun before the other is imported, and one that has not.
    reads = [READERS[name] for name in imports if name in READERS]
    script = "\n".join(["path = %r" % str(tmp_path / "a.h5"),
                        *("import " + name for name in imports), *reads])
    subprocess.run([sys.executable, "-c", script], check=True)


def test_connector(tmp_path):
    if h5py.version.hdf5_version_tuple < (1, 14):
        pytest.skip("HDF5 before 1.14 has no such connectors")
    script = """
import sys
import h5py, h5z_terp
from fields import waves
with h5py.File(sys.argv[1], "w") as file:
    file.create_dataset("wave", data=waves((64, 64, 64)))
with h5py.File(sys.argv[1]) as file:
    print(file["wave"].id.get_storage_size())
"""
    environment = {**os.environ, "HDF5_VOL_CONNECTOR": "terp",
                   "HDF5_PLUGIN_PATH": h5z_terp.PLUGIN_DIR,
                   "TERP_RULES": "*=abs:1e-3"}
    ended = subprocess.run([sys.executable, "-c", script, tmp_path / "a.h5"],
                           check=True, env=environment, capture_output=True,
                           text=True)
    assert int(ended.stdout) < 64**3


def test_register_again(tmp_path):
    write(tmp_path / "a.h5")
    script = """
import h5py, h5z_terp
h5z_terp.register()
paths = [h5py.h5pl.get(i) for i in range(h5py.h5pl.size())]
assert paths.count(h5z_terp.PLUGIN_DIR.encode()) == 1, paths
while h5py.h5pl.size():
    h5py.h5pl.remove(0)
h5z_terp.register()
h5py.File(%r)["wave"][...]
""" % str(tmp_path / "a.h5")
    subprocess.run([sys.executable, "-c", script], check=True)


def test_netcdf4(tmp_path):
    netCDF4 = pytest.importorskip("netCDF4")
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        for name, size in zip("xyz", VALUES.shape):
            file.createDimension(name, size)
        wave = file.createVariable("wave", "f4", ("x", "y", "z"),
                                   chunksizes=(16, 16, 16))
        h5z_terp.set_filter(wave, SETTINGS)
        wave[:] = VALUES
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        check(file["wave"][:])
        with pytest.raises(RuntimeError):
            h5z_terp.set_filter(file["wave"], SETTINGS)
    assert (tmp_path / "a.nc").stat().st_size < VALUES.nbytes * 1.5


@pytest.mark.parametrize("reader", ["h5netcdf", "netcdf4"])
def test_xarray(tmp_path, reader):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    pytest.importorskip("netCDF4")
    written = xarray.Dataset({"wave": (("x", "y", "z"), VALUES)})
    encoding = {**h5z_terp.encoding(SETTINGS), "chunksizes": (16, 16, 16)}
    written.to_netcdf(tmp_path / "a.nc", engine="h5netcdf",
                      encoding={"wave": encoding})
    with xarray.open_dataset(tmp_path / "a.nc", engine=reader) as read:
        check(read["wave"])
