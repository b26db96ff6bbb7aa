"""h5z_terp.compress and decompress of arrays on a device, which may be
emulated. Streams are the same as from host arrays. Also with arrays of PyTorch
and CuPy, if these are installed and have a device."""

import os
from types import SimpleNamespace

import numpy as np
import pytest

import h5z_terp
from fields import waves

if "TERP_TEST_CUDART" not in os.environ:
    pytest.skip("no CUDA runtime", allow_module_level=True)

import emulated_arrays  # noqa: E402


@pytest.fixture(params=["plain", "torch", "cupy"])
def arrays(request):
    """A library of arrays: its class, and functions to copy to and from the
    device."""
    if request.param == "plain":
        return SimpleNamespace(Array=emulated_arrays.Array,
                               array=emulated_arrays.array,
                               get=emulated_arrays.Array.get)
    library = pytest.importorskip(request.param)
    if not library.cuda.is_available():
        pytest.skip("no device")
    if request.param == "cupy":
        return SimpleNamespace(Array=library.ndarray, array=library.asarray,
                               get=library.asnumpy)
    return SimpleNamespace(
        Array=library.Tensor,
        array=lambda values: library.from_numpy(values.copy()).cuda(),
        get=lambda array: array.cpu().numpy())


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i4", "c8"])
@pytest.mark.parametrize("bound", [
    {"abs": 1e-2}, {"lossless": True},
    {"abs": 1e-2, "keep_sign": "values", "valid_range": (0, 5)}])
def test_streams_are_those_of_the_host(arrays, dtype, bound):
    values = (waves((20, 33, 40), "f8") * 10).astype(dtype)
    stream = h5z_terp.compress(arrays.array(values), **bound)
    assert isinstance(stream, arrays.Array)
    expected = h5z_terp.compress(values, **bound)
    assert arrays.get(stream).tobytes() == expected
    read = h5z_terp.decompress(stream)
    assert isinstance(read, arrays.Array)
    np.testing.assert_array_equal(arrays.get(read),
                                  h5z_terp.decompress(expected))
    few = h5z_terp.decompress(stream, step=4)
    np.testing.assert_array_equal(arrays.get(few),
                                  h5z_terp.decompress(expected, step=4))


def test_stacks_and_fills(arrays):
    values = waves((6, 8, 8), "f4")
    values[2] = 1e20
    settings = h5z_terp.Terp(rel=1e-3, dims=(8, 8))
    stream = settings.compress(arrays.array(values), fill=1e20)
    assert arrays.get(stream).tobytes() == settings.compress(values, fill=1e20)


@pytest.mark.parametrize("dtype", ["f4", "?"])
@pytest.mark.parametrize("shape", [
    (), (1,), (1, 40, 1, 30), (30, 1), (2, 3, 4, 5, 6), (3, 1, 2, 5, 7, 4),
    (0, 5), (2, 0, 3, 4, 5)])
def test_any_shape_comes_back(arrays, shape, dtype):
    values = waves(shape) if shape else np.array(2.5)
    values = (values > 0) if dtype == "?" else values.astype(dtype)
    stream = h5z_terp.compress(arrays.array(values), lossless=True)
    expected = h5z_terp.compress(values, lossless=True)
    assert arrays.get(stream).tobytes() == expected
    read = h5z_terp.decompress(stream)
    assert isinstance(read, arrays.Array)
    read = arrays.get(read)
    assert read.shape == shape and read.dtype == values.dtype
    np.testing.assert_array_equal(read, values)
    out = arrays.array(np.zeros_like(values))
    assert h5z_terp.decompress(stream, out) is out
    np.testing.assert_array_equal(arrays.get(out), values)
    few = h5z_terp.decompress(stream, step=2)
    np.testing.assert_array_equal(arrays.get(few),
                                  h5z_terp.decompress(expected, step=2))
    if values.size:
        plain = h5z_terp.compress(arrays.array(values), lossless=True,
                                  plain=True)
        assert (arrays.get(plain).tobytes() ==
                h5z_terp.compress(values, lossless=True, plain=True))


def test_out_is_filled(arrays):
    values = waves((30, 40), "f4")
    stream = h5z_terp.compress(arrays.array(values), lossless=True)
    out = arrays.array(np.zeros_like(values))
    assert h5z_terp.decompress(stream, out) is out
    np.testing.assert_array_equal(arrays.get(out), values)
    with pytest.raises(ValueError, match="out has"):
        h5z_terp.decompress(stream, arrays.array(values[1:]))


def test_damage_is_told(arrays):
    stream = h5z_terp.compress(arrays.array(waves((30, 40), "f4")), abs=1e-3)
    damaged = arrays.get(stream)
    damaged[-1] ^= 1
    with pytest.raises(h5z_terp.TerpError):
        h5z_terp.decompress(arrays.array(damaged))


def test_wrong_arrays_are_refused():
    array = emulated_arrays.array(waves((30, 40), "f4"))
    interface = {**array.__cuda_array_interface__, "strides": (4, 120)}

    class Transposed(emulated_arrays.Array):
        __cuda_array_interface__ = interface

    transposed = Transposed(array.at, array.shape, "f4", array)
    with pytest.raises(ValueError, match="C-contiguous"):
        h5z_terp.compress(transposed, abs=1e-3)
    with pytest.raises(TypeError, match="uint8"):
        h5z_terp.decompress(array)
