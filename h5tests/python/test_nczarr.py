"""Zarr stores that netCDF reads and writes: netCDF4's wheel, and the programs
nccopy, ncdump, ncks and cdo.

TEST_NCCOPY and TEST_NCDUMP name the programs; otherwise they are those of PATH.
A program is left out if its libnetcdf was built without filters for Zarr stores,
as Debian 12's was."""

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys

import h5py
import numpy as np
import pytest

import h5z_terp
from h5z_terp._loaded import loaded_libraries
from fields import noise, waves

netCDF4 = pytest.importorskip("netCDF4")
numcodecs = pytest.importorskip("numcodecs")
zarr = pytest.importorskip("zarr")
if int(zarr.__version__.split(".")[0]) < 3:
    pytest.skip("these tests call Zarr 3", allow_module_level=True)

# Whole chunks: netCDF and Zarr pad chunks at the edge with other values.
VALUES = waves((48, 33))
CHUNKS = (16, 33)
BOUNDS = [{"abs": 1e-3}, {"abs": 2.0}, {"rel": 1e-3}, {"rel": 1 / 3},
          {"pwr": 1e-3}, {"pwr": 1e-3, "floor": 1e-5}, {"psnr": 60.0},
          {"lossless": True}, {"abs": 5e-324}, {"abs": 1e300}]
MODES = [{"keep_sign": "chunk"}, {"keep_sign": "values"},
         {"valid_range": [-0.5, 1.0]}, {"valid_range": [None, 1.0]},
         {"valid_range": [-1e-5, None]}, {"pipeline": "ratio"},
         {"pipeline": "huffman"}, {"pipeline": "speed"},
         {"predictor": "spline"}, {"predictor": "lorenzo"},
         {"effort": "fast"}, {"effort": "best"}, {"dims": [33]},
         {"dims": [4, 33]}, {"missing": 0.25}, {"format": 1},
         {"floor": 1e-5, "keep_sign": "chunk", "valid_range": [-0.5, 1.25],
          "missing": -9999.0, "pipeline": "huffman", "predictor": "spline",
          "effort": "fast", "dims": [4, 3, 11], "format": 1}]
CONFIGS = BOUNDS + [{"pwr" if "floor" in mode else "rel": 1e-3, **mode}
                    for mode in MODES]
each_config = pytest.mark.parametrize("config", CONFIGS, ids=json.dumps)


def url(path, mode="zarr"):
    return f"file://{path}#mode={mode},file"


def run(*command, fails=False):
    """What a program prints. It must not find another plugin of terp."""
    ended = subprocess.run([str(word) for word in command],
                           capture_output=True, text=True)
    assert (ended.returncode != 0) == fails, ended.stdout + ended.stderr
    return ended.stderr if fails else ended.stdout


def write_source(path, values=VALUES, chunks=CHUNKS, **attributes):
    """An HDF5 file with the variable v."""
    with netCDF4.Dataset(path, "w") as file:
        add_variable(file, values, chunks, **attributes)


def add_variable(file, values, chunks, config=None, name="v", fill=None,
                 **attributes):
    names = [f"{name}_{i}" for i in range(values.ndim)]
    for dim, size in zip(names, values.shape):
        file.createDimension(dim, size)
    variable = file.createVariable(name, values.dtype, names, fill_value=fill,
                                   chunksizes=chunks, endian={
                                       "<": "little", ">": "big"}.get(
                                       values.dtype.byteorder, "native"))
    if config:
        h5z_terp.set_filter(variable, **config)
    variable.setncatts(attributes)
    variable.set_auto_maskandscale(False)
    variable[...] = values


def write_store(path, config, values=VALUES, chunks=CHUNKS, mode="zarr",
                **attributes):
    with netCDF4.Dataset(url(path, mode), "w") as file:
        add_variable(file, values, chunks, config, **attributes)


def write_python(path, config, values=VALUES, chunks=CHUNKS, **how):
    """A Zarr store that Python wrote."""
    group = zarr.open_group(path, mode="w", zarr_format=2)
    array = group.create_array(
        "v", shape=values.shape, dtype=values.dtype, chunks=chunks,
        **{"compressors": numcodecs.get_codec({"id": "terp", **config}),
           "fill_value": None, **how})
    array[...] = values
    return array[...]


def read_netcdf(path, mode="zarr"):
    with netCDF4.Dataset(url(path, mode)) as file:
        variable = file["v"]
        variable.set_auto_maskandscale(False)
        return variable[...]


def libnetcdf():
    return ctypes.CDLL(next(iter(loaded_libraries("libnetcdf"))))


def change(path, begin, values, mode="zarr"):
    """Writes a part of v by netCDF's C functions: netCDF4 cannot open a store
    to change it."""
    library, file, variable = libnetcdf(), ctypes.c_int(), ctypes.c_int()
    sizes = ctypes.c_size_t * values.ndim
    values = np.ascontiguousarray(values)
    nc_write = 1
    assert library.nc_open(url(path, mode).encode(), nc_write,
                           ctypes.byref(file)) == 0
    assert library.nc_inq_varid(file, b"v", ctypes.byref(variable)) == 0
    assert library.nc_put_vara_float(
        file, variable, sizes(*begin), sizes(*values.shape),
        values.ctypes.data_as(ctypes.c_void_p)) == 0
    assert library.nc_close(file) == 0


def read_python(path):
    return zarr.open_group(path, mode="r", zarr_format=2)["v"][...]


def stored(path):
    """The codec's configuration without its id."""
    with open(path / "v" / ".zarray") as file:
        config = json.load(file)["compressor"]
    assert config.pop("id") == "terp"
    return config


def streams(path):
    return {file.name: file.read_bytes() for file in (path / "v").iterdir()
            if not file.name.startswith(".z")}


# A double of 17 digits, which ncdump -p 9,17 prints.
NUMBER = r"[-+.\w]+"


def read_ncdump(ncdump, path):
    text = run(ncdump, "-p", "9,17", "-v", "v", url(path))
    found = re.search(r"\n v =\n?(.*?);\n}", text, re.DOTALL)
    return np.array(re.findall(NUMBER, found[1]), VALUES.dtype).reshape(
        VALUES.shape)


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """nccopy and ncdump."""
    found = {}
    for name in "nccopy", "ncdump":
        found[name] = (os.environ.get("TEST_" + name.upper())
                       or shutil.which(name))
        if not found[name]:
            pytest.skip(f"there is no {name}")
    folder = tmp_path_factory.mktemp("probe")
    write_source(folder / "in.nc")
    ended = subprocess.run([found["nccopy"], "-F", "v,1,4", folder / "in.nc",
                            url(folder / "out")], capture_output=True, text=True)
    with open(folder / "out" / "v" / ".zarray") as file:
        if json.load(file)["compressor"] is None:
            pytest.skip("the libnetcdf of nccopy has no filters for Zarr "
                        "stores: " + ended.stderr)
    return found


@each_config
def test_netcdf_writes_what_python_writes(tmp_path, config):
    write_store(tmp_path / "n", config)
    expected = write_python(tmp_path / "p", config)
    assert stored(tmp_path / "n") == stored(tmp_path / "p") == config
    assert streams(tmp_path / "n") == streams(tmp_path / "p")
    np.testing.assert_array_equal(read_python(tmp_path / "n"), expected)


@each_config
def test_netcdf_reads_what_python_writes(tmp_path, config):
    expected = write_python(tmp_path / "p", config)
    np.testing.assert_array_equal(read_netcdf(tmp_path / "p"), expected)


@each_config
def test_nccopy_writes_what_python_writes(tmp_path, programs, config):
    write_source(tmp_path / "in.nc")
    words = ",".join(map(str, h5z_terp.Terp(**config).cd_values))
    run(programs["nccopy"], "-F", f"v,46117,{words}", "-M", 0,
        tmp_path / "in.nc", url(tmp_path / "n"))
    write_python(tmp_path / "p", config)
    assert stored(tmp_path / "n") == config
    assert streams(tmp_path / "n") == streams(tmp_path / "p")


@each_config
def test_ncdump_reads_what_python_writes(tmp_path, programs, config):
    expected = write_python(tmp_path / "p", config)
    np.testing.assert_array_equal(
        read_ncdump(programs["ncdump"], tmp_path / "p"), expected)


def test_nccopy_without_words_is_lossless(tmp_path, programs):
    write_source(tmp_path / "in.nc")
    run(programs["nccopy"], "-F", "v,46117", tmp_path / "in.nc",
        url(tmp_path / "n"))
    assert stored(tmp_path / "n") == {"lossless": True}
    np.testing.assert_array_equal(read_python(tmp_path / "n"), VALUES)


def test_nccopy_between_hdf5_and_zarr(tmp_path, programs):
    """HDF5 stores words that describe the dataset; the store gets the bound."""
    config = {"pwr": 1e-3, "floor": 1e-5, "effort": "fast", "dims": [4, 33]}
    with netCDF4.Dataset(tmp_path / "in.nc", "w") as file:
        add_variable(file, VALUES, CHUNKS, config)
    run(programs["nccopy"], tmp_path / "in.nc", url(tmp_path / "n"))
    assert stored(tmp_path / "n") == config
    run(programs["nccopy"], "-4", url(tmp_path / "n"), tmp_path / "back.nc")
    with netCDF4.Dataset(tmp_path / "back.nc") as file:
        read = file["v"][...]
    assert (abs(read - VALUES) <= 3 * np.maximum(1e-5, 1e-3 * abs(VALUES))).all()
    with h5py.File(tmp_path / "back.nc") as file:
        assert file["v"].id.get_storage_size() < VALUES.nbytes / 2


def prints_largest(command, path):
    """Whether a program prints the largest of VALUES."""
    ended = subprocess.run([*command, url(path)], capture_output=True, text=True)
    numbers = re.findall(r"-?\d+\.\d+(?:e[-+]?\d+)?", ended.stdout)
    return any(abs(float(text) - VALUES.max()) <= 4e-3 for text in numbers)


@pytest.mark.parametrize("name, options", [
    ("ncks", ["-H", "-C", "-v", "v"]), ("cdo", ["-s", "infon"])])
def test_other_programs_read(tmp_path, name, options):
    program = shutil.which(name)
    if not program:
        pytest.skip(f"there is no {name}")
    with netCDF4.Dataset(url(tmp_path / "zlib"), "w") as file:
        file.createDimension("x", VALUES.shape[0])
        file.createDimension("y", VALUES.shape[1])
        file.createVariable("v", "f4", ("x", "y"), zlib=True,
                            chunksizes=CHUNKS)[...] = VALUES
    if not prints_largest([program, *options], tmp_path / "zlib"):
        pytest.skip(f"the libnetcdf of {name} has no filters for Zarr stores")
    write_store(tmp_path / "n", {"rel": 1e-3})
    assert prints_largest([program, *options], tmp_path / "n")


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("kind", ["i1", "i2", "i4", "i8", "u1", "u2", "u4",
                                  "u8", "f4", "f8"])
def test_types(tmp_path, kind, order):
    values = (50 * (1.1 + waves((48, 33), "f8") / 2.1)).astype(order + kind)
    for name, config in ("a", {"abs": 3.0}), ("l", {"lossless": True}):
        write_store(tmp_path / name, config, values)
        expected = write_python(tmp_path / (name + "p"), config, values)
        assert streams(tmp_path / name) == streams(tmp_path / (name + "p"))
        read = read_netcdf(tmp_path / name)
        np.testing.assert_array_equal(read, expected)
        np.testing.assert_array_equal(read_netcdf(tmp_path / (name + "p")),
                                      expected)
        difference = abs(read.astype("f8") - values)
        assert (0 < difference.max() <= 3 if name == "a"
                else difference.max() == 0)


@pytest.mark.parametrize("shape, chunks", [
    ((50,), (16,)), ((50, 30), (16, 16)), ((3, 4, 5, 6), (2, 2, 3, 4)),
    ((3, 4, 5, 6, 7), (2, 2, 3, 3, 4)), ((1, 40, 1), (1, 16, 1))])
def test_shapes(tmp_path, shape, chunks):
    values = waves(shape)
    write_store(tmp_path / "n", {"abs": 1e-3}, values, chunks)
    expected = write_python(tmp_path / "p", {"abs": 1e-3}, values, chunks)
    np.testing.assert_allclose(read_python(tmp_path / "n"), values, 0, 1e-3)
    np.testing.assert_array_equal(read_netcdf(tmp_path / "p"), expected)


def test_text_passes_through(tmp_path):
    """netCDF's chars have no bound; the filter stores them in a frame."""
    text = np.frombuffer(b"terp" * 100, "S1")
    with netCDF4.Dataset(url(tmp_path / "n"), "w") as file:
        file.createDimension("n", text.size)
        variable = file.createVariable("v", "S1", ("n",), chunksizes=(80,))
        words = (ctypes.c_uint * 3)(2, 1, 3)
        assert libnetcdf().nc_def_var_filter(
            file._grpid, variable._varid, 46117, ctypes.c_size_t(3), words) == 0
        variable[...] = text
    np.testing.assert_array_equal(read_netcdf(tmp_path / "n").astype("S1"),
                                  text)


def test_without_a_bound_netcdf_reads(tmp_path):
    write_python(tmp_path / "p", {"rel": 1e-3})
    expected = read_python(tmp_path / "p")
    metadata = tmp_path / "p" / "v" / ".zarray"
    found = json.loads(metadata.read_text())
    found["compressor"] = {"id": "terp"}
    metadata.write_text(json.dumps(found))
    (tmp_path / "p" / ".zmetadata").unlink(missing_ok=True)
    np.testing.assert_array_equal(read_netcdf(tmp_path / "p"), expected)


@pytest.mark.parametrize("config", [{"rel": 1e-3}, {"abs": 1e-3}])
def test_appending_keeps_the_bound(tmp_path, config):
    """Parts of chunks are written again and again."""
    values = VALUES.copy()
    write_store(tmp_path / "n", config, values)
    for i in range(8):
        values[i:i + 20, i] = 0.25 * i
        change(tmp_path / "n", (i, i), values[i:i + 20, i:i + 1])
    bound = config.get("abs", 1e-3 * np.ptp(values))
    assert abs(read_python(tmp_path / "n") - values).max() <= bound


def test_overwritten_chunks_stay_readable(tmp_path):
    """netCDF leaves the end of a longer stream in the file."""
    values = noise((48, 33))
    write_store(tmp_path / "n", {"lossless": True}, values)
    before = streams(tmp_path / "n")
    for smooth in VALUES, 0 * VALUES, noise((48, 33)), VALUES:
        change(tmp_path / "n", (0, 0), smooth[:32])
        values[:32] = smooth[:32]
        np.testing.assert_array_equal(read_python(tmp_path / "n"), values)
        np.testing.assert_array_equal(read_netcdf(tmp_path / "n"), values)
    after = streams(tmp_path / "n")
    assert after["2.0"] == before["2.0"]
    assert all(len(after[name]) >= len(before[name]) for name in before)


FILL = np.float32(1e20)


@pytest.mark.parametrize("mode", ["zarr", "nczarr"])
def test_fill_and_missing_values_stay(tmp_path, mode):
    """They do not count for the range, also when another process appends."""
    values = VALUES.copy()
    values[3:20, ::2] = FILL
    values[20:30, 1::2] = -9999
    valid = abs(values) < 9999
    write_store(tmp_path / "n", {"rel": 1e-3}, values, mode=mode, fill=FILL,
                missing_value=np.float32(-9999))
    for _ in range(2):
        for read in read_netcdf(tmp_path / "n", mode), read_python(tmp_path / "n"):
            np.testing.assert_array_equal(read[~valid], values[~valid])
            assert abs(read - values)[valid].max() <= 2e-3 * np.ptp(VALUES)
        values[5, :] = values[21, :]
        valid = abs(values) < 9999
        change(tmp_path / "n", (5, 0), values[5:6, :], mode)


def test_zero_is_an_ordinary_fill_value(tmp_path):
    values = np.where(VALUES > 0, VALUES, 0)
    write_store(tmp_path / "n", {"abs": 1e-3}, values, fill=np.float32(0))
    write_python(tmp_path / "p", {"abs": 1e-3}, values, fill_value=0)
    assert streams(tmp_path / "n") == streams(tmp_path / "p")


@pytest.mark.parametrize("attributes", [
    {}, {"missing_value": np.float32(-999)}], ids=str)
def test_missing_values_in_words_need_no_attribute(tmp_path, programs,
                                                   attributes):
    values = VALUES.copy()
    values[::3] = -9999
    config = {"rel": 1e-3, "missing": -9999.0}
    write_source(tmp_path / "in.nc", values, **attributes)
    words = ",".join(map(str, h5z_terp.Terp(**config).cd_values))
    run(programs["nccopy"], "-F", f"v,46117,{words}", tmp_path / "in.nc",
        url(tmp_path / "n"))
    assert stored(tmp_path / "n") == config
    read = read_python(tmp_path / "n")
    np.testing.assert_array_equal(read[::3], values[::3])
    assert abs(read - values).max() <= 1e-3 * np.ptp(VALUES)


def test_repacked_files_become_stores(tmp_path, programs):
    """terp repack takes the missing value from the same attribute."""
    tool = shutil.which("terp")
    if not tool:
        pytest.skip("there is no terp")
    values = waves((200, 150))
    values[::3] = -9999
    write_source(tmp_path / "in.nc", values, (100, 150),
                 missing_value=np.float32(-9999))
    run(tool, "repack", tmp_path / "in.nc", tmp_path / "out.nc", "--abs", 1e-3)
    run(programs["nccopy"], tmp_path / "out.nc", url(tmp_path / "n"))
    found = stored(tmp_path / "n")
    assert found["abs"] == 1e-3 and found["missing"] == -9999
    read = read_python(tmp_path / "n")
    np.testing.assert_array_equal(read[::3], values[::3])
    assert abs(read - values).max() <= 2e-3


@pytest.mark.parametrize("member, said", [
    ({"rel": "0.001"}, "must be numbers"), ({"rel": -1}, "finite and positive"),
    ({"rel": 0}, "finite and positive"), ({"pwr": 1}, "below 1"),
    ({"abs": 1, "rel": 1}, "one of"), ({"abs": 1, "floor": 1}, "needs the bound"),
    ({"abs": 1, "speed": 3}, "knows no such setting"),
    ({"abs": 1, "effort": "much"}, "effort must be"),
    ({"abs": 1, "dims": [1, 2, 3, 4]}, "dims must be"),
    ({"abs": 1, "missing": "x"}, "missing must be"),
    ({"abs": 1, "format": 2}, "format must be"),
    ({"abs": 1, "valid_range": [1, 0]}, "valid_range must be"),
    ({"lossless": 1}, "true or false")])
def test_wrong_configurations(tmp_path, capfd, member, said):
    """Python refuses them, too."""
    write_python(tmp_path / "p", {"abs": 1e-3})
    metadata = tmp_path / "p" / "v" / ".zarray"
    found = json.loads(metadata.read_text())
    found["compressor"] = {"id": "terp", **member}
    metadata.write_text(json.dumps(found))
    (tmp_path / "p" / ".zmetadata").unlink(missing_ok=True)
    with pytest.raises((OSError, RuntimeError)):
        read_netcdf(tmp_path / "p")
    text = capfd.readouterr().err
    assert "H5Z-TERP: NCZarr: the configuration" in text and said in text
    if member != {"lossless": 1} and member != {"rel": "0.001"}:
        with pytest.raises((TypeError, ValueError)):
            read_python(tmp_path / "p")


def test_damaged_chunks(tmp_path, capfd):
    values = noise((48, 33))
    write_python(tmp_path / "p", {"abs": 1e-3}, values)
    chunk = tmp_path / "p" / "v" / "0.0"
    stream = chunk.read_bytes()
    for damaged in (stream[:-1] + bytes([stream[-1] ^ 1]), stream[:-9],
                    b"no stream", streams(
                        tmp_path / "p")["2.0"][:40] + stream[40:]):
        chunk.write_bytes(damaged)
        with pytest.raises((OSError, RuntimeError)):
            read_netcdf(tmp_path / "p")


def test_chunk_of_another_size(tmp_path):
    """netCDF would read beyond its end."""
    write_python(tmp_path / "p", {"abs": 1e-3})
    chunk = tmp_path / "p" / "v" / "0.0"
    chunk.write_bytes(h5z_terp.compress(VALUES[:4, :4], abs=1e-3, plain=True))
    with pytest.raises((OSError, RuntimeError)):
        read_netcdf(tmp_path / "p")


def test_zlib_behind_terp(tmp_path):
    write_python(tmp_path / "p", {}, filters=[
        numcodecs.get_codec({"id": "terp", "abs": 1e-3})],
        compressors=numcodecs.Zlib())
    np.testing.assert_array_equal(read_netcdf(tmp_path / "p"),
                                  read_python(tmp_path / "p"))


@pytest.mark.parametrize("first", ["h5z_terp", "netCDF4"])
def test_netcdf_finds_the_plugin_in_any_order_of_imports(tmp_path, first):
    script = f"""if True:
        import {first}, h5z_terp, netCDF4, numpy
        with netCDF4.Dataset({url(tmp_path / "n")!r}, "w") as file:
            file.createDimension("x", 1000)
            v = file.createVariable("v", "f4", ("x",), chunksizes=(1000,))
            h5z_terp.set_filter(v, rel=1e-3)
            v[...] = numpy.arange(1000)
        with netCDF4.Dataset({url(tmp_path / "z")!r}, "w") as file:
            file.createDimension("x", 10)
            file.createVariable("v", "f4", ("x",), zlib=True)[...] = 1
        """
    environment = {key: value for key, value in os.environ.items()
                   if key != "HDF5_PLUGIN_PATH"}
    ended = subprocess.run([sys.executable, "-c", script], env=environment,
                           capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert stored(tmp_path / "n") == {"rel": 0.001}


def test_other_filters_work_beside_the_connector(tmp_path):
    """netCDF opens all libraries in the plugin's folder."""
    with netCDF4.Dataset(url(tmp_path / "n"), "w") as file:
        file.createDimension("x", VALUES.size)
        file.createVariable("v", "f4", ("x",), zlib=True)[...] = VALUES.ravel()
    np.testing.assert_array_equal(read_netcdf(tmp_path / "n"), VALUES.ravel())
