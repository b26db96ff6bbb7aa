"""h5z_terp.compress, decompress, read and write with arrays on a device, which
may be emulated. Streams are the same as from host arrays. Also with arrays of
PyTorch and CuPy, if these are installed and have a device."""

import os
from types import SimpleNamespace

import h5py
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
        return SimpleNamespace(name=emulated_arrays,
                               Array=emulated_arrays.Array,
                               array=emulated_arrays.array,
                               get=emulated_arrays.Array.get)
    library = pytest.importorskip(request.param)
    if not library.cuda.is_available():
        pytest.skip("no device")
    if request.param == "cupy":
        return SimpleNamespace(name="cupy", Array=library.ndarray,
                               array=library.asarray, get=library.asnumpy)
    return SimpleNamespace(
        name="torch", Array=library.Tensor,
        array=lambda values: library.from_numpy(np.array(values)).cuda(),
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


# ---- datasets ----


@pytest.fixture
def file(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w", rdcc_nbytes=0) as file:
        yield file


def make(file, values, chunks=(8, 16, 16), name="a", **options):
    options.setdefault("compression", h5z_terp.Terp(abs=1e-3))
    return file.create_dataset(name, data=values, chunks=chunks, **options)


@pytest.fixture
def calls(monkeypatch):
    """The numbers of chunks that the engine decoded and encoded."""
    seen = {"decode": 0, "encode": 0}

    def count(name, original, at):
        def call(*words):
            seen[name] += words[at]
            return original(*words)
        return call

    codec = h5z_terp._device._codec
    for name, function, at in (("decode", "decode_coarse_batch", 3),
                               ("encode", "encode_batch", 3)):
        monkeypatch.setattr(codec, function,
                            count(name, getattr(codec, function), at))
    return seen


@pytest.mark.parametrize("selection", [
    (), np.s_[3:20], np.s_[5], np.s_[..., 7], np.s_[::2, 1::3, ::4],
    np.s_[5, 6, 7], np.s_[8:16, 16:32, :16]], ids=repr)
def test_read_into_the_device(arrays, file, selection, calls):
    data = make(file, waves((20, 33, 40)))
    read = h5z_terp.read(data, selection, device="cuda", library=arrays.name)
    assert isinstance(read, arrays.Array)
    expected = data[selection]
    read = arrays.get(read)
    assert read.dtype == expected.dtype and read.shape == expected.shape
    np.testing.assert_array_equal(read, expected)
    assert calls["decode"] > 0
    out = arrays.array(np.zeros_like(data[selection]))
    if out.shape:
        assert h5z_terp.read(data, selection, device="cuda", out=out,
                             library=arrays.name) is out
        np.testing.assert_array_equal(arrays.get(out), data[selection])


@pytest.mark.parametrize("dtype", ["f8", "f2", "i4", "u1", "c8", "?", ">f4",
                                   "i8"])
def test_types_of_datasets(arrays, file, dtype):
    values = (10 * waves((20, 33, 40))).astype(dtype)
    data = make(file, values)
    read = h5z_terp.read(data, device="cuda", library=arrays.name)
    read = arrays.get(read)
    assert read.dtype == np.dtype(dtype).newbyteorder("=")
    np.testing.assert_array_equal(read, data[...])
    if dtype != ">f4":
        written = file.create_dataset("b", values.shape, dtype,
                                      chunks=data.chunks,
                                      compression=h5z_terp.Terp(abs=1e-3))
        h5z_terp.write(written, arrays.array(values))
        np.testing.assert_array_equal(written[...], data[...])


def test_other_chunks_and_datasets(arrays, file):
    values = waves((20, 33, 40))
    plain = make(file, values, compression="gzip")
    few = file.create_dataset("few", values.shape, "f4", chunks=(8, 16, 16),
                              compression=h5z_terp.Terp(abs=1e-3), fillvalue=-5)
    few[:8, :16] = values[:8, :16]
    few.id.write_direct_chunk((8, 0, 0), h5z_terp.compress(
        values[8:16, :16, :16], abs=0.1, dims=(8, 16), plain=True))
    for data in plain, few:
        read = h5z_terp.read(data, device="cuda", library=arrays.name)
        np.testing.assert_array_equal(arrays.get(read), data[...])


def test_damage_in_files_is_told(arrays, file):
    data = make(file, waves((20, 33, 40)))
    stream = bytearray(data.id.read_direct_chunk((8, 16, 0))[1])
    stream[-1] ^= 1
    data.id.write_direct_chunk((8, 16, 0), bytes(stream))
    with pytest.raises(h5z_terp.TerpError, match=r"'/a', chunk at \(8, 16, 0\)"):
        h5z_terp.read(data, device="cuda", library=arrays.name)


def test_small_batches(arrays, file, monkeypatch, calls):
    monkeypatch.setattr(h5z_terp._datasets, "_DEVICE_BATCH_NBYTES", 30000)
    values = waves((20, 33, 40))
    data = make(file, values)
    read = h5z_terp.read(data, device="cuda", library=arrays.name)
    np.testing.assert_array_equal(arrays.get(read), data[...])
    written = make(file, values * 0, name="b")
    h5z_terp.write(written, arrays.array(values))
    np.testing.assert_array_equal(written[...], data[...])
    assert calls == {"decode": 27, "encode": 27}


@pytest.mark.parametrize("selection", [
    (), np.s_[8:], np.s_[3:20], np.s_[5], np.s_[::2], np.s_[..., 30:]], ids=repr)
@pytest.mark.parametrize("device", [None, "cuda", "cpu"])
def test_write_from_the_device(arrays, file, selection, device, calls):
    values = waves((20, 33, 40))
    settings = h5z_terp.Terp(abs=1e-3, missing=0, valid_range=(-3, 3))
    datasets = [make(file, values * 0, name=name, compression=settings,
                     fillvalue=-5) for name in "ab"]
    new = values[selection] * 2
    h5z_terp.write(datasets[0], new, selection)
    before = calls["encode"]
    h5z_terp.write(datasets[1], arrays.array(new), selection, device=device)
    assert (calls["encode"] > before) == (device != "cpu" and
                                          selection not in (5, np.s_[::2]))
    for i in range(datasets[0].id.get_num_chunks()):
        at = datasets[0].id.get_chunk_info(i).chunk_offset
        assert (datasets[0].id.read_direct_chunk(at) ==
                datasets[1].id.read_direct_chunk(at)), at


def test_values_of_the_host_are_encoded_on_the_device(arrays, file, calls):
    values = waves((20, 33, 40))
    data = make(file, values)
    written = make(file, values * 0, name="b")
    h5z_terp.write(written, values, device="cuda", library=arrays.name)
    np.testing.assert_array_equal(written[...], data[...])
    assert calls["encode"] == 27


def test_without_a_device_the_cpu_decodes(arrays, file, monkeypatch):
    data = make(file, waves((20, 33, 40)))
    codec = h5z_terp._device._codec
    monkeypatch.setattr(codec, "decode_coarse_batch",
                        lambda *words: codec.ERR_DEVICE)
    read = h5z_terp.read(data, np.s_[3:], device="cuda", library=arrays.name)
    np.testing.assert_array_equal(arrays.get(read), data[3:])


def test_arrays_with_dlpack_alone(arrays, file):
    if arrays.name is emulated_arrays:
        pytest.skip("the emulated device has no DLPack")

    class Bare:
        def __init__(self, array):
            self.__dlpack__ = array.__dlpack__
            self.__dlpack_device__ = array.__dlpack_device__

    values = waves((20, 33, 40))
    data = make(file, values * 0)
    h5z_terp.write(data, Bare(arrays.array(values)))
    assert abs(data[...] - values).max() <= 1e-3


def test_configuration_names_the_device():
    config = h5z_terp.get_config()
    assert config["device"] and config["no_device"] is None
