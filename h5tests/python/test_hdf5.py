"""h5py, netCDF4 and xarray with only an import, without settings."""

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


@pytest.mark.parametrize("shape", [(16, 1, 16, 16), (1, 40, 30), (2, 3, 4, 5, 6),
                                   (1,)])
def test_streams_are_chunks(tmp_path, shape):
    values = waves(shape)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in "plain", "own":
            file.create_dataset(name, shape, "f4", chunks=shape, **SETTINGS)
        stream = SETTINGS.compress(values, plain=True)
        file["plain"].id.write_direct_chunk((0,) * len(shape), stream)
        file["own"][...] = values
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["own"].id.read_direct_chunk((0,) * len(shape))[1] == stream
        assert abs(file["plain"][...] - values).max() <= 1e-3
    # For up to four dims the stream keeps dims of 1, and HDF5 reads them too.
    if len(shape) <= 4:
        with h5py.File(tmp_path / "a.h5", "r+") as file:
            file["plain"].id.write_direct_chunk((0,) * len(shape),
                                                SETTINGS.compress(values))
        with h5py.File(tmp_path / "a.h5") as file:
            assert abs(file["plain"][...] - values).max() <= 1e-3


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


@pytest.mark.parametrize("limits", [
    {"valid_range": (0, 1)}, {"keep_sign": "chunk", "valid_range": (None, 1)},
    {"keep_sign": "values", "valid_range": (None, 1), "dims": (16, 16)}])
def test_limits_in_files(tmp_path, limits):
    """Through cd_values the filter gives the same result as the codec through
    its struct."""
    values = np.clip(1.2 * VALUES, 0, 1)
    settings = h5z_terp.Terp(abs=1e-2, **limits)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("free", data=values, chunks=(16, 16, 16),
                            **h5z_terp.Terp(abs=1e-2))
        file.create_dataset("limited", data=values, chunks=(16, 16, 16),
                            **settings)
    with h5py.File(tmp_path / "a.h5") as file:
        assert np.ptp(file["free"]) > 1
        read = file["limited"][...]
        stream = file["limited"].id.read_direct_chunk((0, 0, 0))[1]
    assert 0 <= read.min() and read.max() <= 1
    assert abs(read - values).max() <= 1e-2
    assert stream == settings.compress(values[:16, :16, :16])


def test_h5py_takes_it_as_an_object(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, options in {"object": {"compression": SETTINGS},
                              "mapping": SETTINGS}.items():
            file.create_dataset(name, data=VALUES, chunks=(16, 16, 16),
                                **options)
        assert (file["object"].id.get_storage_size() ==
                file["mapping"].id.get_storage_size() < VALUES.nbytes / 3)
        assert abs(file["object"][...] - VALUES).max() <= 1e-3


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
    # A library that is already in use before the import of the other, and one
    # that is not.
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


@pytest.fixture
def netcdf_file(tmp_path):
    netCDF4 = pytest.importorskip("netCDF4")
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        for name, size in zip("xyz", VALUES.shape):
            file.createDimension(name, size)
        yield file


@pytest.mark.parametrize("others, named", [
    ({"zlib": True}, "shuffle, zlib"), ({"zlib": True, "shuffle": False}, "zlib"),
    ({"zlib": True, "fletcher32": True},
     "fletcher32, shuffle, zlib")])
def test_netcdf4_with_other_filters_is_refused(netcdf_file, others, named):
    wave = netcdf_file.createVariable("wave", "f4", ("x", "y", "z"),
                                      chunksizes=(16, 16, 16), **others)
    with pytest.raises(ValueError, match=f"'wave' has other filters: {named}. "
                                         ".*create the variable without"):
        h5z_terp.set_filter(wave, SETTINGS)


def test_checksums_of_hosts_come_behind_terp(netcdf_file):
    wave = netcdf_file.createVariable("wave", "f4", ("x", "y", "z"),
                                      chunksizes=(16, 16, 16), fletcher32=True)
    h5z_terp.set_filter(wave, SETTINGS)
    wave[:] = VALUES
    path = netcdf_file.filepath()
    netcdf_file.sync()
    with h5py.File(path, locking=False) as file:
        assert file["wave"].fletcher32
        assert file["wave"].id.get_storage_size() < VALUES.nbytes / 3
        check(file["wave"][...])


def test_a_shuffle_before_terp_is_taken_away(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, shuffle in ("without", False), ("with", True):
            file.create_dataset(name, data=VALUES, chunks=(16, 16, 16),
                                shuffle=shuffle, **SETTINGS)
        assert (file["with"].id.get_storage_size() ==
                file["without"].id.get_storage_size())
        file.create_dataset("no words", data=VALUES, chunks=(16, 16, 16),
                            compression=h5z_terp.FILTER_ID)
    with h5py.File(tmp_path / "a.h5") as file:
        check(file["with"][...])
        assert (file["no words"][...] == VALUES).all()


@pytest.mark.parametrize("order", ["h5py, h5z_terp", "h5z_terp, h5py"])
def test_h5py_of_the_system(tmp_path, order):
    """Debian's h5py has its modules below h5py._debian_h5py_serial."""
    code = f"""import {order}
with h5py.File("a.h5", "w") as file:
    file.create_dataset("wave", (32, 32), "f4", chunks=(16, 16),
                        compression=h5z_terp.Terp(abs=1e-3))
    print(file["wave"].id.get_create_plist().get_filter(0)[0])
"""
    system = "/usr/bin/python3"
    try:
        subprocess.run([system, "-c", "import h5py"], check=True,
                       capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"no h5py in {system}")
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "h5z_terp").symlink_to(os.path.dirname(h5z_terp.__file__))
    got = subprocess.run([system, "-B", "-c", code], cwd=tmp_path,
                         capture_output=True, text=True,
                         env=os.environ | {"PYTHONPATH": str(packages)})
    assert (got.returncode, got.stdout) == (0, f"{h5z_terp.FILTER_ID}\n"), \
        got.stderr


def test_netcdf4_takes_the_last_bound(netcdf_file):
    wave = netcdf_file.createVariable("wave", "f4", ("x", "y", "z"),
                                      chunksizes=(40, 33, 20))
    h5z_terp.set_filter(wave, lossless=True)
    h5z_terp.set_filter(wave, SETTINGS)
    wave[:] = VALUES
    path = netcdf_file.filepath()
    netcdf_file.sync()
    with h5py.File(path, locking=False) as file:
        stream = file["wave"].id.read_direct_chunk((0, 0, 0))[1]
    assert stream == SETTINGS.compress(VALUES)


@pytest.mark.parametrize("dtype", [str, "S1"])
def test_netcdf4_text_is_refused(netcdf_file, dtype):
    text = netcdf_file.createVariable("text", dtype, ("x",), chunksizes=(8,))
    with pytest.raises(TypeError, match="does not compress"):
        h5z_terp.set_filter(text, SETTINGS)


def test_netcdf4_tables_are_compressed_by_member(netcdf_file):
    settings = h5z_terp.Terp(rel=1e-3, members={"n": {"abs": 3}})
    kind = netcdf_file.createCompoundType(
        np.dtype([("a", "f4"), ("n", "i4"), ("m", "i4")]), "kind")
    table = netcdf_file.createVariable("table", kind, ("x",), chunksizes=(40,))
    h5z_terp.set_filter(table, settings)
    rows = np.zeros(40, kind.dtype)
    rows["a"], rows["n"], rows["m"] = VALUES[:, 0, 0], range(40), range(40)
    table[:] = rows
    assert h5z_terp.Terp.from_dataset(table) == settings
    path = netcdf_file.filepath()
    netcdf_file.sync()
    with h5py.File(path, locking=False) as file:
        read = file["table"][...]
    assert 0 < abs(read["a"] - rows["a"]).max() <= 1e-3 * np.ptp(rows["a"])
    assert 0 < abs(read["n"] - rows["n"]).max() <= 3
    assert (read["m"] == rows["m"]).all()


def test_netcdf4_scalars_are_refused(netcdf_file):
    scalar = netcdf_file.createVariable("scalar", "f4", ())
    with pytest.raises(RuntimeError, match="'scalar': .* with dimensions"):
        h5z_terp.set_filter(scalar, SETTINGS)


def test_set_filter_of_other_variables_is_refused(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        with pytest.raises(TypeError, match=r"h5py.*create_dataset\(.*Terp"):
            h5z_terp.set_filter(file.create_dataset("wave", data=VALUES),
                                SETTINGS)
    with pytest.raises(TypeError, match="builtins.float is not a variable"):
        h5z_terp.set_filter(1e-3, SETTINGS)


def run(script, **environment):
    plain = {key: value for key, value in os.environ.items()
             if key not in ("HDF5_PLUGIN_PATH", "HDF5_VOL_CONNECTOR")}
    return subprocess.run([sys.executable, "-c", script], check=True, text=True,
                          env={**plain, **environment},
                          stdout=subprocess.PIPE).stdout.strip()


@pytest.fixture
def zstd_file(tmp_path):
    """A file with a filter that netCDF4's wheel contains."""
    netCDF4 = pytest.importorskip("netCDF4")
    if not getattr(netCDF4, "__has_zstandard_support__", False):
        pytest.skip("netCDF4 has no zstd")
    path = str(tmp_path / "zstd.nc")
    run(f"""
import netCDF4, numpy
with netCDF4.Dataset({path!r}, "w") as file:
    file.createDimension("x", 5000)
    variable = file.createVariable("v", "f4", ("x",), compression="zstd")
    variable[:] = numpy.arange(5000)
""")
    return path


# As in doc/python.md, "All cores".
def test_filters_of_netcdf4_are_found_beside_terps(tmp_path, zstd_file):
    path = run("import h5z_terp; print(h5z_terp.plugin_path())")
    write(tmp_path / "a.h5")
    read = f"""
import netCDF4
assert netCDF4.Dataset({zstd_file!r})["v"][-1] == 4999
assert netCDF4.Dataset({str(tmp_path / "a.h5")!r})["wave"].shape == (40, 33, 20)
"""
    run(read, HDF5_PLUGIN_PATH=path, HDF5_VOL_CONNECTOR="terp")
    for variables in {}, {"HDF5_PLUGIN_PATH": h5z_terp.PLUGIN_DIR}:
        run("import h5z_terp" + read, **variables)
    run("import h5py, h5z_terp" + read)
    run("import netCDF4, h5z_terp" + read)


@pytest.mark.parametrize("before", [None, "/a" + os.pathsep + "/b"])
def test_plugin_path_keeps_what_there_was(before):
    variables = {"HDF5_PLUGIN_PATH": before} if before else {}
    path = run("import h5z_terp; print(h5z_terp.plugin_path())",
               **variables).split(os.pathsep)
    assert path.count(h5z_terp.PLUGIN_DIR) == 1
    if before:
        assert set(before.split(os.pathsep)) < set(path)
    else:
        assert "/usr/local/hdf5/lib/plugin" in path or sys.platform == "win32"
    again = run("import h5z_terp; print(h5z_terp.plugin_path())",
                HDF5_PLUGIN_PATH=os.pathsep.join(path))
    assert again.split(os.pathsep) == path


def test_hdf5plugin_beside_terp(tmp_path):
    pytest.importorskip("hdf5plugin")
    for imports in ("h5z_terp, hdf5plugin", "hdf5plugin, h5z_terp"):
        run(f"""
import h5py, numpy, {imports}
with h5py.File({str(tmp_path / "a.h5")!r}, "w") as file:
    file.create_dataset("z", data=numpy.arange(5000.), **hdf5plugin.Zstd())
    file.create_dataset("t", data=numpy.arange(5000.),
                        chunks=True, **h5z_terp.Terp(abs=0.1))
with h5py.File({str(tmp_path / "a.h5")!r}) as file:
    assert (file["z"][...] == numpy.arange(5000)).all()
    assert abs(file["t"][...] - numpy.arange(5000)).max() <= 0.1
""")


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
