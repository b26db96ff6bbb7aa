"""numcodecs and Zarr, and HDF5 files through references."""

from pathlib import Path
import subprocess
import sys

import h5py
import numpy as np
import pytest

import h5z_terp
from fields import noise, waves

numcodecs = pytest.importorskip("numcodecs")
zarr = pytest.importorskip("zarr")
is_v3 = int(zarr.__version__.split(".")[0]) >= 3
only_v3 = pytest.mark.skipif(not is_v3, reason="Zarr 3 alone has such codecs")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
VALUES = waves((40, 33, 20))


def check(read):
    assert 0 < abs(read - VALUES).max() <= 1e-3


def test_numcodecs():
    codec = numcodecs.get_codec({"id": "terp", "abs": 1e-3})
    assert numcodecs.get_codec(codec.get_config()) == codec
    stream = codec.encode(VALUES)
    assert stream == h5z_terp.compress(VALUES, abs=1e-3)
    check(codec.decode(stream))
    out = np.empty_like(VALUES)
    codec.decode(stream, out=out)
    check(out)
    reader = numcodecs.get_codec({"id": "terp"})
    check(reader.decode(stream))
    with pytest.raises(ValueError):
        reader.encode(VALUES)


def test_version_2(tmp_path):
    codec = numcodecs.get_codec({"id": "terp", "abs": 1e-3})
    path = str(tmp_path / "v2.zarr")
    if is_v3:
        array = zarr.create_array(path, shape=VALUES.shape, dtype="f4",
                                  chunks=(16, 16, 16), zarr_format=2,
                                  compressors=codec)
        array[...] = VALUES
    else:
        zarr.save_array(path, VALUES, chunks=(16, 16, 16), compressor=codec)
    check(zarr.open(path, mode="r")[...])


@only_v3
@pytest.mark.parametrize("dtype", ["f4", "f8", ">f4"])
def test_version_3(tmp_path, dtype):
    from h5z_terp.zarr import TerpCodec

    path = str(tmp_path / "v3.zarr")
    zarr.create_array(path, data=VALUES.astype(dtype), chunks=(16, 16, 16),
                      serializer=TerpCodec(abs=1e-3), compressors=None)
    array = zarr.open_array(path, mode="r")
    check(array[...])
    assert array.dtype == np.dtype(dtype).newbyteorder("=") or (
        array.dtype == np.dtype(dtype))
    assert array.nbytes_stored() < VALUES.nbytes / 2


@only_v3
def test_shards_and_bytes_codecs(tmp_path):
    from h5z_terp.zarr import TerpCodec

    path = str(tmp_path / "v3.zarr")
    zarr.create_array(path, data=VALUES, chunks=(8, 11, 10),
                      shards=(16, 33, 20), serializer=TerpCodec(abs=1e-3),
                      compressors=zarr.codecs.Crc32cCodec())
    check(zarr.open_array(path, mode="r")[...])


@only_v3
def test_fill_value(tmp_path):
    from h5z_terp.zarr import TerpCodec

    values = VALUES.copy()
    values[10:20] = 1e20
    path = str(tmp_path / "v3.zarr")
    zarr.create_array(path, data=values, chunks=(40, 33, 20), fill_value=1e20,
                      serializer=TerpCodec(rel=1e-3), compressors=None)
    read = zarr.open_array(path, mode="r")[...]
    assert (read[10:20] == np.float32(1e20)).all()
    assert abs(read - values).max() <= 1e-3 * np.ptp(VALUES)


@only_v3
def test_wrong_arrays_and_chunks(tmp_path):
    from h5z_terp.zarr import TerpCodec

    with pytest.raises(TypeError):
        zarr.create_array(str(tmp_path / "s.zarr"), shape=(4,), dtype="M8[s]",
                          serializer=TerpCodec(abs=1e-3))
    path = tmp_path / "v3.zarr"
    zarr.create_array(str(path), data=noise((8, 8)), chunks=(8, 8),
                      serializer=TerpCodec(abs=1e-3), compressors=None)
    chunk = path / "c" / "0" / "0"
    stream = bytearray(chunk.read_bytes())
    stream[-1] ^= 1
    chunk.write_bytes(stream)
    with pytest.raises(h5z_terp.TerpError):
        zarr.open_array(str(path), mode="r")[...]


@only_v3
def test_example_of_xarray(tmp_path):
    pytest.importorskip("xarray")
    pytest.importorskip("dask.array")
    subprocess.run([sys.executable, EXAMPLES / "zarr_xarray.py",
                    tmp_path / "wave.zarr"], check=True)


@only_v3
def test_example_of_kerchunk(tmp_path):
    pytest.importorskip("kerchunk")
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("wave", data=VALUES, chunks=(16, 16, 16),
                            **h5z_terp.Terp(abs=1e-3))
    ended = subprocess.run(
        [sys.executable, EXAMPLES / "kerchunk_reference.py", path,
         tmp_path / "refs.json"], check=True, capture_output=True, text=True)
    with h5py.File(path) as file:
        mean = file["wave"][...].mean()
    assert ended.stdout == f"wave: 40x33x20 float32, mean {mean:.6g}\n"
