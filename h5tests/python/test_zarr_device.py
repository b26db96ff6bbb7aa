"""Zarr arrays whose buffers are on a device. CuPy keeps them there, if it is
installed and has a device, and a stand-in for CuPy, whose device may be
emulated."""

import os
from types import SimpleNamespace

import numpy as np
import pytest

zarr = pytest.importorskip("zarr", minversion="3")
if "TERP_TEST_CUDART" not in os.environ:
    pytest.skip("no CUDA runtime", allow_module_level=True)

import emulated_arrays  # noqa: E402
from fields import waves  # noqa: E402
import h5z_terp  # noqa: E402
from h5z_terp import _device  # noqa: E402
from h5z_terp import zarr as terp_zarr  # noqa: E402
from h5z_terp.zarr import TerpCodec  # noqa: E402

VALUES = waves((48, 40, 36))


def as_array(values):
    return (values if isinstance(values, emulated_arrays.Array) else
            emulated_arrays.array(values))


# What zarr needs of CuPy.
STAND_IN = SimpleNamespace(
    ndarray=emulated_arrays.Array, asarray=as_array, asanyarray=as_array,
    array=lambda values, dtype: as_array(np.array(values, dtype)),
    empty=lambda shape, dtype, order="C": emulated_arrays.empty(shape, dtype),
    frombuffer=lambda data, dtype: as_array(np.frombuffer(data, dtype)),
    asnumpy=lambda array: array.get())


@pytest.fixture(autouse=True, params=["stand-in", "cupy"])
def arrays(request, monkeypatch):
    """The library of arrays that zarr takes for CuPy."""
    library = STAND_IN
    if request.param == "cupy":
        library = pytest.importorskip("cupy")
        if not library.cuda.is_available():
            pytest.skip("no device")
    monkeypatch.setattr("zarr.core.buffer.gpu.cp", library)
    with zarr.config.set({"buffer": "zarr.buffer.gpu.Buffer",
                          "ndbuffer": "zarr.buffer.gpu.NDBuffer",
                          "codec_pipeline.batch_size": 8}):
        yield library


@pytest.fixture
def calls(monkeypatch):
    """The number of streams of each call that decodes on the device."""
    found, decode_at = [], _device.decode_at

    def count(source, addresses, *words):
        found.append(len(addresses))
        return decode_at(source, addresses, *words)

    monkeypatch.setattr(terp_zarr._device, "decode_at", count)
    return found


def make(path, values, chunks, **bound):
    with zarr.config.set({"buffer": "zarr.buffer.cpu.Buffer",
                          "ndbuffer": "zarr.buffer.cpu.NDBuffer"}):
        array = zarr.create_array(path, shape=values.shape, chunks=chunks,
                                  dtype=values.dtype, compressors=None,
                                  serializer=TerpCodec(**bound))
        array[...] = values
        return array[...]


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "c8"])
def test_streams_are_decoded_in_batches(tmp_path, arrays, calls, dtype):
    expected = make(tmp_path / "a.zarr", (9 * VALUES).astype(dtype),
                    (16, 16, 16), abs=1e-2)
    found = zarr.open_array(tmp_path / "a.zarr", mode="r")[...]
    assert isinstance(found, arrays.ndarray)
    np.testing.assert_array_equal(found.get(), expected)
    assert max(calls) == 8 and sum(calls) == 27


def test_parts_and_missing_chunks(tmp_path, calls):
    path = tmp_path / "a.zarr"
    make(path, VALUES, (16, 16, 16), abs=1e-2)
    for file in (path / "c" / "1").rglob("*"):
        if file.is_file():
            file.unlink()
    found = zarr.open_array(path, mode="r")[8:30, 4:20, :8]
    expected = np.zeros((22, 16, 8), "f4")
    expected[:8] = VALUES[8:16, 4:20, :8]
    np.testing.assert_allclose(found.get(), expected, atol=1e-2)
    assert sum(calls) == 2


def test_the_cpu_decodes_other_streams(tmp_path, calls, monkeypatch):
    path = tmp_path / "a.zarr"
    expected = make(path, VALUES.astype("?"), (16, 16, 16), lossless=True)
    found = zarr.open_array(path, mode="r")[...]
    np.testing.assert_array_equal(found.get(), expected)
    assert not calls  # no library of arrays has bool as terp stores it
    # A stream of a chunk of other dims but the same size.
    path = tmp_path / "b.zarr"
    expected = make(path, VALUES, (16, 16, 16), abs=1e-2)
    other = VALUES[:16, :16, :16].reshape(32, 8, 16)
    (path / "c/0/0/0").write_bytes(h5z_terp.compress(other, lossless=True))
    found = zarr.open_array(path, mode="r")[...].get()
    np.testing.assert_array_equal(found[16:], expected[16:])
    np.testing.assert_array_equal(found[:16, :16, :16], VALUES[:16, :16, :16])


def test_damaged_streams_are_named_as_on_the_host(tmp_path):
    path = tmp_path / "a.zarr"
    make(path, VALUES, (16, 16, 16), abs=1e-2)
    stream = bytearray((path / "c/1/1/1").read_bytes())
    stream[40] ^= 1
    (path / "c/1/1/1").write_bytes(stream)
    with pytest.raises(h5z_terp.TerpError, match="checksum"):
        zarr.open_array(path, mode="r")[...]
