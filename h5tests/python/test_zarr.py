"""numcodecs and Zarr, and HDF5 files through kerchunk's references."""

import json
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
    assert repr(codec) == "TerpCodec(abs=0.001)"
    assert repr(reader) == "TerpCodec()"
    with pytest.raises(TypeError, match="name it"):
        type(codec)(1e-3)


@pytest.mark.parametrize("values", [
    VALUES, np.asfortranarray(VALUES), VALUES[::2, :, ::3], VALUES.T,
    VALUES.astype(">f8"), memoryview(VALUES), VALUES[:1], VALUES[0, 0, 0],
    np.array(2.5), np.broadcast_to(VALUES[0], VALUES.shape)])
def test_numcodecs_keeps_the_order_in_memory(values):
    codec = numcodecs.get_codec({"id": "terp", "lossless": True})
    array = np.asarray(values)
    if array.ndim:
        array.flags.writeable = False
    stream = codec.encode(values)
    in_memory = array.ravel(order="A")
    read = codec.decode(stream)
    assert read.dtype == array.dtype
    np.testing.assert_array_equal(read.ravel(), in_memory)
    for out in (np.empty_like(array), np.empty(array.size, array.dtype),
                np.empty(array.nbytes, "u1"),
                np.empty(2 * array.size, array.dtype)[::2]):
        assert codec.decode(stream, out=out) is out
        np.testing.assert_array_equal(
            out.ravel(order="A").view(array.dtype), in_memory)


def test_numcodecs_refuses_masks_and_no_values():
    codec = numcodecs.get_codec({"id": "terp", "abs": 1e-3})
    with pytest.raises(ValueError, match="filled"):
        codec.encode(np.ma.masked_array([1.0, 2], mask=[0, 1]))
    with pytest.raises(ValueError, match="no values"):
        codec.encode(np.empty((3, 0)))


def test_limits_in_the_configuration(tmp_path):
    values = np.clip(1.2 * VALUES, 0, 1)
    limits = {"keep_sign": "chunk", "valid_range": (None, 1)}
    codec = numcodecs.get_codec({"id": "terp", "abs": 1e-2, **limits})
    assert numcodecs.get_codec(
        json.loads(json.dumps(codec.get_config()))) == codec
    create_version_2(tmp_path / "2", values, (16, 16, 16), "F", [codec])
    paths = [tmp_path / "2"]
    if is_v3:
        from h5z_terp.zarr import TerpCodec
        paths.append(tmp_path / "3")
        zarr.create_array(paths[1], data=values, chunks=(16, 16, 16),
                          serializer=TerpCodec(abs=1e-2, **limits),
                          compressors=None)
    for path in paths:
        read = zarr.open(path, mode="r")[...]
        assert 0 < abs(read - values).max() <= 1e-2
        assert 0 <= read.min() and read.max() <= 1


def create_version_2(path, values, chunks, order, codecs):
    """An array compressed with `codecs`: its filters and compressor."""
    *filters, compressor = codecs
    made = dict(shape=values.shape, dtype=values.dtype, chunks=chunks,
                order=order, filters=filters or None)
    if is_v3:
        array = zarr.create_array(path, zarr_format=2, compressors=compressor,
                                  **made)
    else:
        array = zarr.open(path, mode="w", compressor=compressor, **made)
    array[...] = values


SHAPES_AND_CHUNKS = [((40, 33, 20), (16, 16, 16)), ((40, 40), (16, 16)),
                     ((40, 30), (40, 30)), ((3, 4, 5, 6, 7), (2, 2, 3, 3, 4)),
                     ((1, 40, 1), (1, 16, 1)), ((50,), (16,)), ((), ()),
                     ((0, 4), (2, 2))]


@pytest.mark.parametrize("shape, chunks", SHAPES_AND_CHUNKS)
@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("dtype", [">f4", "?"])
def test_version_2(tmp_path, shape, chunks, order, dtype):
    terp = numcodecs.get_codec({"id": "terp", "abs": 1e-3})
    values = np.asarray(waves(shape) if shape else 2.5).astype(dtype)
    for name, codecs in (("compressor", [terp]), ("filter", [terp, None]),
                         ("before zlib", [terp, numcodecs.Zlib()])):
        for memory in "CF":
            path = str(tmp_path / (name + memory))
            create_version_2(path, np.asarray(values, order=memory), chunks,
                             order, codecs)
            array = zarr.open(path, mode="r+")
            assert array.shape == shape
            np.testing.assert_allclose(array[...].astype("f8"),
                                       values.astype("f8"), 0, 1e-3)
            if len(shape) == 2 and values.size:
                array[3:20, 5:7] = 1
                assert abs(array[3:20, 5:7].astype("f8") - 1).max() <= 1e-3


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
@pytest.mark.parametrize("shape, chunks", SHAPES_AND_CHUNKS)
@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("dtype", [">f4", "?"])
def test_version_3_in_any_order(tmp_path, shape, chunks, order, dtype):
    from h5z_terp.zarr import TerpCodec

    values = np.asarray(waves(shape) if shape else 2.5).astype(dtype)
    turned = [zarr.codecs.TransposeCodec(order=(*range(1, len(shape)), 0))]
    sharded = {"shards": tuple(2 * n for n in chunks)}
    for name, how in (("plain", {}), ("turned", {"filters": turned}),
                      ("sharded", sharded),
                      ("both", {"filters": turned, **sharded})):
        if name != "plain" and not shape:
            continue
        path = str(tmp_path / name)
        array = zarr.create_array(
            path, shape=shape, dtype=dtype, chunks=chunks, compressors=None,
            serializer=TerpCodec(abs=1e-3), config={"order": order}, **how)
        array[...] = values
        read = zarr.open_array(path, mode="r")[...]
        np.testing.assert_allclose(np.asarray(read, "f8"),
                                   values.astype("f8"), 0, 1e-3)


@only_v3
def test_codecs_show_their_bound():
    from h5z_terp.zarr import TerpCodec

    codec = TerpCodec(rel=1e-3, effort="best")
    assert repr(codec) == "TerpCodec(rel=0.001, effort='best')"
    assert TerpCodec.from_dict(codec.to_dict()) == codec
    with pytest.raises(TypeError, match="name it"):
        TerpCodec(1e-3)


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
def test_complex_fill_value(tmp_path):
    from h5z_terp.zarr import TerpCodec

    values = (VALUES + 1j * VALUES[::-1]).astype("c8")
    values[10:20] = 3 - 4j
    path = str(tmp_path / "v3.zarr")
    zarr.create_array(path, data=values, chunks=(40, 33, 20), fill_value=3 - 4j,
                      serializer=TerpCodec(abs=1e-3), compressors=None)
    read = zarr.open_array(path, mode="r")[...]
    assert (read[10:20] == 3 - 4j).all() and abs(read - values).max() <= 1e-3


def test_arrays_have_no_members():
    codecs = [type(numcodecs.get_codec({"id": "terp"}))]
    if is_v3:
        from h5z_terp.zarr import TerpBytesCodec, TerpCodec

        codecs += [TerpCodec, TerpBytesCodec]
    for codec in codecs:
        with pytest.raises(ValueError, match="members"):
            codec(rel=1e-3, members={"x": {"abs": 1}})


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


@only_v3
@pytest.mark.parametrize("shape, chunks", SHAPES_AND_CHUNKS[:-2])
def test_references_to_chunks_of_hdf5(tmp_path, shape, chunks):
    reference = pytest.importorskip("fsspec.implementations.reference")
    pytest.importorskip("kerchunk")
    from kerchunk.hdf import SingleHdf5ToZarr

    path = str(tmp_path / "a.h5")
    for values in (waves(shape), np.asfortranarray(waves(shape, ">f8"))):
        with h5py.File(path, "w") as file:
            file.create_dataset("wave", data=values, chunks=chunks,
                                **h5z_terp.Terp(abs=1e-3))
        with open(path, "rb") as file:
            found = SingleHdf5ToZarr(file, path, inline_threshold=0).translate()
        store = zarr.storage.FsspecStore(
            reference.ReferenceFileSystem(found, asynchronous=True),
            read_only=True)
        read = zarr.open_group(store, mode="r", zarr_format=2)["wave"][...]
        assert read.shape == shape
        assert abs(read - values).max() <= 1e-3
