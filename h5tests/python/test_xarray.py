"""xarray writes with terp through both engines, and a file that is read and
written again keeps the filter."""

import subprocess
import sys

import h5py
import numpy as np
import pytest

import h5z_terp
from fields import waves
from h5z_terp import Terp

xarray = pytest.importorskip("xarray")
pytest.importorskip("h5netcdf")
netCDF4 = pytest.importorskip("netCDF4")

VALUES = waves((40, 33, 20))
BOUND = Terp(abs=1e-3, keep_sign="chunk", missing=-9999)
ENGINES = ["h5netcdf", "netcdf4"]
engines = pytest.mark.parametrize("engine", ENGINES)
readers = pytest.mark.parametrize("reader", ENGINES)


def dataset():
    return xarray.Dataset(
        {"wave": (("x", "y", "z"), VALUES), "plain": (("x",), VALUES[:, 0, 0])},
        coords={"z": np.arange(20)})


def write(path, engine, settings=BOUND, **encoding):
    encoding = {**h5z_terp.encoding(settings), "chunksizes": (16, 16, 16),
                **encoding}
    dataset().to_netcdf(path, engine=engine, encoding={"wave": encoding})


def check(path, settings=BOUND, name="wave"):
    with h5py.File(path) as file:
        data = file[name]
        assert Terp.from_dataset(data) == settings
        assert data.id.get_storage_size() < data.size * data.dtype.itemsize / 2
        assert "46117" not in file["plain"]._filters
        return data.chunks


@engines
@readers
def test_written_and_read(tmp_path, engine, reader):
    path = tmp_path / "a.nc"
    write(path, engine)
    assert check(path) == (16, 16, 16)
    with xarray.open_dataset(path, engine=reader) as read:
        assert 0 < abs(read["wave"] - VALUES).max() <= 1e-3
        xarray.testing.assert_equal(read["plain"], dataset()["plain"])


@engines
def test_streams_are_the_codecs(tmp_path, engine):
    write(tmp_path / "a.nc", engine)
    with h5py.File(tmp_path / "a.nc") as file:
        data = file["wave"]
        stream = data.id.read_direct_chunk((0, 0, 0))[1]
        fill = data.attrs["_FillValue"][0]
    assert stream == BOUND.compress(VALUES[:16, :16, :16], fill=fill)


@engines
@readers
def test_a_round_trip_keeps_the_filter(tmp_path, engine, reader):
    write(tmp_path / "a.nc", "h5netcdf")
    with xarray.open_dataset(tmp_path / "a.nc", engine=reader) as read:
        assert read["wave"].encoding["compression"] == h5z_terp.FILTER_ID
        assert "compression_opts" not in read["plain"].encoding
        read.to_netcdf(tmp_path / "b.nc", engine=engine)
    assert check(tmp_path / "b.nc") == (16, 16, 16)
    with xarray.open_dataset(tmp_path / "b.nc", engine=reader) as again:
        assert abs(again["wave"] - VALUES).max() <= 2e-3


@engines
@readers
def test_a_part_keeps_the_filter(tmp_path, engine, reader):
    write(tmp_path / "a.nc", "h5netcdf")
    with xarray.open_dataset(tmp_path / "a.nc", engine=reader) as read:
        part = read.isel(x=slice(3, 30), z=5)
        part.to_netcdf(tmp_path / "b.nc", engine=engine)
    check(tmp_path / "b.nc")
    with xarray.open_dataset(tmp_path / "b.nc") as again:
        assert abs(again["wave"] - VALUES[3:30, :, 5]).max() <= 2e-3


@engines
def test_dask_keeps_the_filter(tmp_path, engine):
    pytest.importorskip("dask.array")
    write(tmp_path / "a.nc", "h5netcdf")
    with xarray.open_dataset(tmp_path / "a.nc", engine=engine,
                             chunks={"x": 16}) as read:
        (read + 1).assign(wave=read["wave"]).to_netcdf(tmp_path / "b.nc",
                                                       engine=engine)
    check(tmp_path / "b.nc")
    with xarray.open_dataset(tmp_path / "b.nc") as again:
        assert abs(again["wave"] - VALUES).max() <= 2e-3


@engines
def test_groups_keep_the_filter(tmp_path, engine):
    dataset().to_netcdf(
        tmp_path / "a.nc", engine=engine, group="inner/deep",
        encoding={"wave": {**h5z_terp.encoding(BOUND)}})
    with h5py.File(tmp_path / "a.nc") as file:
        assert Terp.from_dataset(file["inner/deep/wave"]) == BOUND
    with xarray.open_dataset(tmp_path / "a.nc", engine=engine,
                             group="inner/deep") as read:
        read.to_netcdf(tmp_path / "b.nc", engine=engine)
    check(tmp_path / "b.nc")


@engines
@pytest.mark.parametrize("compression", [BOUND, h5z_terp.FILTER_ID])
def test_objects_and_numbers(tmp_path, engine, compression):
    dataset().to_netcdf(tmp_path / "a.nc", engine=engine,
                        encoding={"wave": {"compression": compression,
                                           "chunksizes": (16, 16, 16)}})
    with h5py.File(tmp_path / "a.nc") as file:
        found = Terp.from_dataset(file["wave"])
    assert found == (BOUND if compression is BOUND else Terp(lossless=True))


@engines
def test_packed_and_checked_variables(tmp_path, engine):
    write(tmp_path / "a.nc", engine, Terp(lossless=True), dtype="i2",
          scale_factor=0.01, add_offset=1.0, _FillValue=-32768, fletcher32=True)
    with h5py.File(tmp_path / "a.nc") as file:
        assert file["wave"].dtype == "i2" and file["wave"].fletcher32
        assert Terp.from_dataset(file["wave"]) == Terp(lossless=True)
    with xarray.open_dataset(tmp_path / "a.nc", engine=engine) as read:
        assert abs(read["wave"] - VALUES).max() <= 0.00501


@engines
def test_other_filters_are_as_before(tmp_path, engine):
    encoding = {"zlib": True, "complevel": 4, "shuffle": True}
    dataset().to_netcdf(tmp_path / "a.nc", engine=engine,
                        encoding={"wave": encoding})
    with xarray.open_dataset(tmp_path / "a.nc", engine=engine) as read:
        read.to_netcdf(tmp_path / "b.nc", engine=engine)
    for name in "ab":
        with h5py.File(tmp_path / f"{name}.nc") as file:
            assert file["wave"].compression == "gzip"
            assert file["wave"].shuffle


@engines
def test_another_filter_replaces_terp(tmp_path, engine):
    write(tmp_path / "a.nc", "h5netcdf")
    with xarray.open_dataset(tmp_path / "a.nc", engine=engine) as read:
        read.to_netcdf(tmp_path / "b.nc", engine=engine,
                       encoding={"wave": {"zlib": True}})
        for name in "compression", "compression_opts":
            read["wave"].encoding.pop(name)
        read.to_netcdf(tmp_path / "c.nc", engine=engine)
        read.to_netcdf(tmp_path / "d.nc", engine=engine,
                       encoding={"wave": h5z_terp.encoding(rel=0.1)})
    with h5py.File(tmp_path / "b.nc") as file:
        assert file["wave"].compression == "gzip"
        assert len(file["wave"]._filters) <= 2
    with h5py.File(tmp_path / "c.nc") as file:
        assert "46117" not in file["wave"]._filters
    check(tmp_path / "d.nc", Terp(rel=0.1))


def test_netcdf4_appends_to_a_variable(tmp_path):
    """mode="a" writes to a variable that exists."""
    write(tmp_path / "a.nc", "netcdf4")
    more = dataset() + 1
    more["wave"].encoding = h5z_terp.encoding(lossless=True)
    more.to_netcdf(tmp_path / "a.nc", engine="netcdf4", mode="a")
    check(tmp_path / "a.nc")


@engines
def test_scalars_have_no_filter(tmp_path, engine):
    scalar = xarray.Dataset({"s": ((), np.float32(5))})
    scalar["s"].encoding = h5z_terp.encoding(BOUND)
    scalar.to_netcdf(tmp_path / "a.nc", engine=engine)
    with xarray.open_dataset(tmp_path / "a.nc", engine=engine) as read:
        assert read["s"] == 5


@engines
def test_text_is_written_without_terp_or_refused(tmp_path, engine):
    text = xarray.Dataset({"t": (("x",), np.array(["a", "bc"] * 8, "S2"))})
    try:
        text.to_netcdf(tmp_path / "a.nc", engine=engine,
                       encoding={"t": h5z_terp.encoding(BOUND)})
    except (TypeError, ValueError):
        return
    with xarray.open_dataset(tmp_path / "a.nc", engine=engine) as read:
        assert (read["t"].astype("S2") == text["t"]).all()


@pytest.mark.parametrize("form", ["NETCDF3_64BIT", "NETCDF4_CLASSIC"])
def test_formats_without_filters(tmp_path, form):
    write(tmp_path / "a.nc", "netcdf4")
    with xarray.open_dataset(tmp_path / "a.nc", engine="netcdf4") as read:
        read.to_netcdf(tmp_path / "b.nc", engine="netcdf4", format=form)
        with pytest.raises(RuntimeError, match="needs a file of format NETCDF4"):
            read.to_netcdf(tmp_path / "c.nc", engine="netcdf4", format=form,
                           encoding={"wave": h5z_terp.encoding(BOUND)})
        with xarray.open_dataset(tmp_path / "b.nc", engine="netcdf4") as again:
            xarray.testing.assert_identical(again["wave"], read["wave"])


def test_text_in_place_of_numbers_has_no_filter(tmp_path):
    write(tmp_path / "a.nc", "netcdf4")
    with xarray.open_dataset(tmp_path / "a.nc", engine="netcdf4") as read:
        text = read[["plain"]].isel(x=slice(9)).astype("U")
        text["plain"].encoding = h5z_terp.encoding(BOUND)
        text.to_netcdf(tmp_path / "b.nc", engine="netcdf4")
    with xarray.open_dataset(tmp_path / "b.nc", engine="netcdf4") as again:
        assert (again["plain"] == text["plain"]).all()


@pytest.mark.parametrize("imports", ["import xarray, h5z_terp",
                                     "import h5z_terp, xarray",
                                     "import h5z_terp, netCDF4, xarray, h5py",
                                     "import xarray.backends.netCDF4_, h5z_terp"])
def test_any_order_of_imports(tmp_path, imports):
    write(tmp_path / "a.nc", "h5netcdf")
    script = f"""
{imports}
import sys
import xarray
for engine in "h5netcdf", "netcdf4":
    with xarray.open_dataset(sys.argv[1] + "/a.nc", engine=engine) as read:
        read.to_netcdf(f"{{sys.argv[1]}}/{{engine}}.nc", engine=engine)
"""
    subprocess.run([sys.executable, "-W", "error:h5z_terp", "-c", script,
                    tmp_path], check=True)
    for engine in ENGINES:
        check(tmp_path / f"{engine}.nc")
