"""h5z_terp.compress, decompress, info: shapes, types, bounds, invalid
calls."""

import copy
import json
import math
import os
import pickle
import shutil
import struct
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest

import h5z_terp
from fields import noise, waves

SHAPES = [(1,), (1000,), (33, 17), (16, 16, 16), (5, 7, 9, 11),
          (2, 3, 4, 5, 6), (2, 1, 3, 1, 5, 7), (1, 40, 1, 30), (1, 1), ()]
EMPTY_SHAPES = [(0,), (3, 0), (0, 2, 3, 4, 5)]


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", ">f8"])
@pytest.mark.parametrize("shape", SHAPES)
def test_round_trip(shape, dtype):
    values = waves(shape, dtype) if shape else np.array(2.5, dtype)
    stream = h5z_terp.compress(values, abs=1e-3)
    read = h5z_terp.decompress(stream)
    assert read.dtype == values.dtype
    assert read.shape == shape
    assert np.abs(read - values).max() <= 1e-3
    found = h5z_terp.info(stream)
    assert found["shape"] == read.shape
    assert found["dtype"] == values.dtype
    assert found["stream_nbytes"] == len(stream)


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "?"])
@pytest.mark.parametrize("shape", EMPTY_SHAPES)
def test_arrays_without_values_come_back(shape, dtype):
    stream = h5z_terp.compress(np.empty(shape, dtype), abs=1)
    for read in (h5z_terp.decompress(stream),
                 h5z_terp.decompress(stream, np.empty(shape, dtype))):
        assert read.shape == shape and read.dtype == dtype
    assert h5z_terp.decompress(stream, step=2).shape == tuple(
        -(-n // 2) for n in shape)
    found = h5z_terp.info(stream)
    assert found["shape"] == shape and found["nbytes"] == 0
    for damaged in stream + b"x", stream + h5z_terp.compress([1.0], abs=1):
        with pytest.raises(h5z_terp.TerpError):
            h5z_terp.decompress(damaged)
    with pytest.raises(ValueError, match="no values"):
        h5z_terp.compress(np.empty(shape, dtype), abs=1, plain=True)


# Arrays that version 1.0.0 took give plain streams, which C reads.
@pytest.mark.parametrize("dtype", ["<f4", ">i2", "c16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_streams_of_one_to_four_dims_have_no_header(shape, dtype):
    values = waves(shape or (1,), dtype).reshape(shape)
    stream = h5z_terp.compress(values, abs=1)
    assert stream.startswith(b"TERP\1") == (1 <= len(shape) <= 4)
    nbytes = h5z_terp.info(stream)["header_nbytes"]
    assert nbytes % 16 == 0
    assert (nbytes == 0) == (1 <= len(shape) <= 4)
    plain = h5z_terp.compress(values, abs=1, plain=True)
    dims = tuple(n for n in shape if n > 1) or (1,)
    dims = (math.prod(dims[:-3]), *dims[-3:]) if len(dims) > 4 else dims
    assert h5z_terp.info(plain)["shape"] == dims
    assert h5z_terp.info(plain)["header_nbytes"] == 0
    np.testing.assert_array_equal(
        h5z_terp.decompress(plain).reshape(shape), h5z_terp.decompress(stream))
    if nbytes:
        assert stream[nbytes:] == plain


@pytest.mark.parametrize("bound", [
    {"rel": 1e-3}, {"lossless": True}, {"pwr": 1e-3},
    {"rel": 1e-3, "predictor": "lorenzo"}])
def test_unit_dims_cost_little(bound):
    for values in waves((100, 200)), noise((100, 200)):
        without = len(h5z_terp.compress(values, **bound))
        for shape in (1, 100, 200), (100, 1, 200), (100, 200, 1), (1, 100, 1, 200):
            stream = h5z_terp.compress(values.reshape(shape), **bound)
            assert len(stream) <= 1.04 * without


def test_bool():
    values = waves((30, 1, 20)) > 0
    for bound in {"lossless": True}, {"abs": 0.1}:
        stream = h5z_terp.compress(values, **bound)
        for read in (h5z_terp.decompress(stream),
                     h5z_terp.decompress(stream, np.empty(600, "?"))):
            assert read.dtype == bool
            assert (read.ravel() == values.ravel()).all()
        few = h5z_terp.decompress(stream, step=4)
        assert (few == values[::4, ::4, ::4]).all() and few.dtype == bool
        assert h5z_terp.info(stream)["dtype"] == bool
        plain = h5z_terp.compress(values, plain=True, **bound)
        assert h5z_terp.decompress(plain).dtype == np.uint8
    # Even under a large bound, values are only False and True.
    read = h5z_terp.decompress(h5z_terp.compress(values, abs=100))
    assert set(np.unique(read.view("u1"))) <= {0, 1}


@pytest.mark.parametrize("shape, box", [
    ((4, 8, 8), (8, 8)), ((2, 3, 8, 8), (8, 8)), ((8, 8), (8, 8)),
    ((1, 8, 8), (8, 8)), ((32,), (2, 2, 2)), ((6, 32, 2), (8, 8)),
    ((5, 4, 3, 2, 2, 2), (2, 2, 2)), ((8, 1, 8), (1, 8))])
def test_shapes_of_stacks_come_back(shape, box):
    values = waves(shape)
    stream = h5z_terp.Terp(abs=1e-3, dims=box).compress(values)
    read = h5z_terp.decompress(stream)
    assert read.shape == shape
    assert np.abs(read - values).max() <= 1e-3
    for step in 2, 4:
        np.testing.assert_array_equal(
            h5z_terp.decompress(stream, step=step),
            read[(slice(None, None, step),) * len(shape)])


def test_damaged_headers_are_noticed():
    stream = h5z_terp.compress(waves((2, 3, 4, 5, 6)), abs=1e-3)
    nbytes = h5z_terp.info(stream)["header_nbytes"]
    other = h5z_terp.compress(waves((2, 3, 4, 5, 7)), abs=1e-3)
    for at in range(nbytes):
        damaged = bytearray(stream)
        damaged[at] ^= 4
        for function in h5z_terp.decompress, h5z_terp.info:
            with pytest.raises(h5z_terp.TerpError):
                function(damaged)
    for damaged in (stream[:5], stream[:20], stream[:nbytes],
                    stream[:nbytes] + other[nbytes:]):
        for function in h5z_terp.decompress, h5z_terp.info:
            with pytest.raises(h5z_terp.TerpError):
                function(damaged)


def test_the_header_is_the_documented_one():
    stream = h5z_terp.compress(waves((2, 3, 4, 5, 6), ">f8"), abs=1e-3)
    assert stream[:4] == b"terp"
    assert struct.unpack("<I", stream[4:8])[0] == zlib.crc32(stream[8:64])
    assert stream[8:16] == b"\1\5>f8\0\0\0"
    assert struct.unpack("<5Q", stream[16:56]) == (2, 3, 4, 5, 6)
    assert stream[56:64] == bytes(8) and stream[64:68] == b"TERP"


def test_bfloat16_of_others_is_opaque():
    path = (Path(__file__).resolve().parents[1] / "golden/1.0" /
            "v1-bfloat16-lossless-ratio-spline.terp")
    stream = path.read_bytes()
    found = h5z_terp.info(stream)
    assert found["dtype"] == "V2"
    assert h5z_terp.decompress(stream).nbytes == found["nbytes"]


def test_prefixes_are_told():
    stream = h5z_terp.compress(waves((40, 40, 40), "f4"), abs=1e-5,
                               predictor="spline")
    told = h5z_terp.info(stream)["prefix_nbytes"]
    assert list(told) == [2, 4, 8]
    assert len(stream) > told[2] > told[4] >= told[8] >= 512
    assert h5z_terp.info(h5z_terp.compress(np.array([1.0, 2]),
                                           abs=0.5))["prefix_nbytes"] == {}


@pytest.mark.parametrize("bound, limit", [
    ({"abs": 0.01}, lambda x: 0.01), ({"rel": 0.01}, lambda x: 0.01 * np.ptp(x)),
    ({"pwr": 0.01}, lambda x: 0.01 * abs(x)), ({"lossless": True}, lambda x: 0)])
@pytest.mark.parametrize("pipeline", ["auto", "huffman", "speed", "ratio"])
def test_bounds(bound, limit, pipeline):
    values = noise((20, 30, 40))
    settings = h5z_terp.Terp(pipeline=pipeline, **bound)
    read = h5z_terp.decompress(settings.compress(values))
    error = abs(read.astype("f8") - values)
    assert (error <= limit(values.astype("f8"))).all()
    assert bound.get("lossless") or error.max() > 0


@pytest.mark.parametrize("dtype", ["?", "i1", "<i2", ">i4", "i8", "u1", ">u2",
                                   "u4", "u8", "f2", ">f2", "c8", ">c16"])
def test_other_types(dtype):
    values = (waves((20, 30), "f8") * 50).astype(dtype)
    read = h5z_terp.decompress(h5z_terp.compress(values, lossless=True))
    assert (read == values).all()
    assert read.dtype == np.dtype(dtype)
    # For integers the bound is rounded down.
    if dtype == "?":
        return
    error = h5z_terp.decompress(h5z_terp.compress(values, abs=2.5)) - values
    if np.dtype(dtype).kind in "fc":
        assert np.abs(error.astype("c16")).max() <= 2.5
    elif np.dtype(dtype).kind == "i":
        assert np.abs(error.astype("i8")).max() <= 2


def test_floor_and_psnr():
    values = noise((20, 30, 40)) * waves((20, 30, 40))
    settings = h5z_terp.Terp(pwr=0.01, floor=1e-3)
    stream = settings.compress(values)
    error = abs(h5z_terp.decompress(stream).astype("f8") - values)
    assert (error <= np.maximum(1e-3, 0.01 * abs(values.astype("f8")))).all()
    assert h5z_terp.Terp(**settings.config) == settings
    read = h5z_terp.decompress(h5z_terp.compress(values, psnr=60))
    rmse = np.sqrt(np.mean((read.astype("f8") - values) ** 2))
    assert 60 <= 20 * np.log10(np.ptp(values) / rmse) <= 60.5


def fractions():
    """Values from 0 to 1, many of them near the ends."""
    return np.clip(1.2 * waves((40, 30, 20)) + noise((40, 30, 20)) / 50,
                   0, 1).astype("f4")


@pytest.mark.parametrize("bound", [{"abs": 1e-2}, {"rel": 1e-2}, {"psnr": 40},
                                   {"pwr": 1e-2, "floor": 1e-2}])
@pytest.mark.parametrize("limits, least, largest", [
    ({"valid_range": (0, 1)}, 0, 1), ({"valid_range": (0, None)}, 0, 2),
    ({"valid_range": (-np.inf, 1)}, -1, 1), ({"keep_sign": "chunk"}, 0, 2),
    ({"keep_sign": "values", "valid_range": [None, 1.0]}, 0, 1)])
def test_limits(bound, limits, least, largest):
    values = fractions()
    free = h5z_terp.decompress(h5z_terp.compress(values, **bound))
    assert free.min() < 0 and free.max() > 1, "values that test nothing"
    settings = h5z_terp.Terp(**bound, **limits)
    stream = settings.compress(values)
    read = h5z_terp.decompress(stream)
    assert least <= read.min() and read.max() <= largest
    if "psnr" not in bound:
        assert abs(read.astype("f8") - values).max() <= 1.0001e-2
    assert h5z_terp.Terp(**json.loads(json.dumps(settings.config))) == settings
    assert len(stream) < values.nbytes / 2


def test_signs_of_values():
    values = waves((40, 30, 20)) + noise((40, 30, 20)) / 50
    values[values < -0.5] = 0
    read = h5z_terp.decompress(h5z_terp.compress(values, abs=0.1,
                                                 keep_sign="values"))
    assert (values.min(), values.max()) < (0, 0) < (read.max(), 1)
    assert (read[values >= 0] >= 0).all() and (read[values <= 0] <= 0).all()


def test_limits_that_are_none():
    plain = h5z_terp.Terp(rel=1e-3)
    for without in ({"keep_sign": "none"}, {"valid_range": None},
                    {"valid_range": (None, None)},
                    {"valid_range": (-np.inf, np.inf)}):
        assert h5z_terp.Terp(rel=1e-3, **without) == plain
        assert h5z_terp.Terp(rel=1e-3, **without).cd_values == plain.cd_values
    for wrong in (1, (0,), (0, 1, 2), ("a", "b")):
        with pytest.raises(ValueError, match="must be a pair of numbers"):
            h5z_terp.Terp(rel=1e-3, valid_range=wrong)
    for wrong in (1, 0), (np.nan, 1):
        with pytest.raises(ValueError, match="must not be above valid_max"):
            h5z_terp.Terp(rel=1e-3, valid_range=wrong)
    with pytest.raises(ValueError, match="keep_sign 'all' must be one of none, "
                                         "chunk, values"):
        h5z_terp.Terp(rel=1e-3, keep_sign="all")


def test_any_layout_in_memory():
    values = waves((40, 30, 20))
    want = h5z_terp.compress(np.ascontiguousarray(values[::2, ::-1, 3:]),
                             abs=1e-3)
    assert h5z_terp.compress(values[::2, ::-1, 3:], abs=1e-3) == want
    shifted = np.empty(values.nbytes + 1, "u1")[1:].view("f4")
    shifted[:] = values.ravel()
    assert (h5z_terp.compress(shifted.reshape(values.shape), abs=1e-3) ==
            h5z_terp.compress(values, abs=1e-3))
    assert (h5z_terp.compress(np.asfortranarray(values), abs=1e-3) ==
            h5z_terp.compress(values, abs=1e-3))


def test_out():
    values = waves((10, 20))
    stream = h5z_terp.compress(values, abs=1e-3)
    out = np.empty((20, 10), "f4")
    assert h5z_terp.decompress(memoryview(stream), out) is out
    assert np.abs(out.reshape(10, 20) - values).max() <= 1e-3
    for wrong in (np.empty(199, "f4"), np.empty(201, "f4"),
                  np.empty((20, 20), "f4")[:, ::2],
                  np.empty((10, 20), "f4", order="F"),
                  np.empty(801, "u1")[1:]):
        with pytest.raises(ValueError):
            h5z_terp.decompress(stream, wrong)
    out.flags.writeable = False
    with pytest.raises(ValueError):
        h5z_terp.decompress(stream, out)


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "i4", "c16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_steps(shape, dtype):
    values = (100 * waves(shape)).astype(dtype) if shape else np.array(2, dtype)
    stream = h5z_terp.compress(values, abs=1)
    read = h5z_terp.decompress(stream)
    for step in 1, 2, 4, 8, 2**40:
        coarse = h5z_terp.decompress(stream, step=step)
        expected = read[(slice(None, None, step),) * read.ndim + (...,)]
        assert coarse.dtype == expected.dtype
        assert coarse.shape == expected.shape
        np.testing.assert_array_equal(coarse, expected)
        out = np.empty_like(coarse)
        assert h5z_terp.decompress(stream, out, step=step) is out
        np.testing.assert_array_equal(out, expected)
    for step in 0, -4, 3, 2**64:
        with pytest.raises(ValueError, match="must be a power of two"):
            h5z_terp.decompress(stream, step=step)
    if read.size > 1:
        with pytest.raises(ValueError):
            h5z_terp.decompress(stream, np.empty(1, "u1"), step=2)


def test_special_values():
    values = waves((30, 30))
    values[3:9, 4:20] = -9999
    values[20, 20] = np.nan
    read = h5z_terp.decompress(h5z_terp.compress(values, rel=1e-3, fill=-9999))
    assert (read[3:9, 4:20] == -9999).all() and math.isnan(read[20, 20])
    valid = values[np.isfinite(values) & (values != -9999)]
    assert np.nanmax(abs(read - values)) <= 1e-3 * np.ptp(valid)


def test_complex_fill_values():
    values = (waves((30, 30)) + 1j * waves((30, 30)).T).astype("c8")
    values[3:9, 4:20] = 1e20 - 7j
    stream = h5z_terp.compress(values, abs=1e-3, fill=1e20 - 7j)
    read = h5z_terp.decompress(stream)
    assert (read[3:9, 4:20] == np.complex64(1e20 - 7j)).all()
    assert abs(read - values).max() <= 1e-3


def test_masked_arrays():
    values = np.ma.masked_array(waves((30, 30)), fill_value=-9)
    read = h5z_terp.decompress(h5z_terp.compress(values, abs=1e-3))
    assert abs(read - values.data).max() <= 1e-3
    values[3:9] = np.ma.masked
    with pytest.raises(ValueError, match=r"no mask: .*array.filled\(v\), fill=v"):
        h5z_terp.compress(values, abs=1e-3)
    stream = h5z_terp.compress(values.filled(-9), abs=1e-3, fill=-9)
    read = np.ma.masked_equal(h5z_terp.decompress(stream), -9)
    assert (read.mask == values.mask).all() and abs(read - values).max() <= 1e-3


def test_stack():
    values = noise((4, 8, 8, 8))
    settings = h5z_terp.Terp(abs=0.01, dims=(8, 8, 8))
    read = h5z_terp.decompress(settings.compress(values))
    assert read.shape == values.shape
    assert abs(read - values).max() <= 0.01
    assert settings.compress(values) != h5z_terp.compress(values, abs=0.01)
    with pytest.raises(ValueError):
        settings.compress(noise((100,)))


def test_threads_make_no_difference():
    values = waves((64, 64, 64))
    streams = [h5z_terp.compress(values, rel=1e-4, threads=n)
               for n in (1, 2, 3, None)]
    assert len(set(streams)) == 1
    results = []
    workers = [threading.Thread(target=lambda: results.append(
        h5z_terp.decompress(streams[0]))) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all((r == results[0]).all() for r in results) and len(results) == 4


@pytest.mark.parametrize("wrong", [
    {}, {"abs": 1, "rel": 1}, {"abs": -1}, {"abs": math.inf}, {"rel": 0},
    {"pwr": 1}, {"rel": math.nan}, {"rel": 1, "pipeline": "zip"},
    {"rel": 1, "dims": (0,)}, {"rel": 1, "dims": (1, 2, 3, 4)}])
def test_wrong_settings(wrong):
    with pytest.raises(ValueError):
        h5z_terp.Terp(**wrong)


@pytest.mark.parametrize("values, remedy", [
    (np.array(["a"]), "instead of text"), (np.array([b"a"]), "instead of text"),
    (np.zeros(3, "M8[s]"), "view"), (np.zeros(3, "m8[D]"), "view"),
    (np.array([1, None]), "asarray"), (None, "asarray"),
    (np.zeros(3, [("x", "f4")]), "fields"), (np.zeros((0, 2), "U3"), "instead of text"),
    (np.zeros(3, np.longdouble), "astype"),
    (np.zeros(3, np.clongdouble), "astype")])
def test_wrong_types(values, remedy):
    dtype = np.asarray(values).dtype
    if dtype in (np.dtype("f8"), np.dtype("c16")):
        pytest.skip("long double is double here")
    with pytest.raises(TypeError, match=f"does not compress .*{remedy}") as told:
        h5z_terp.compress(values, abs=1)
    assert str(dtype) in str(told.value)


@pytest.mark.parametrize("wrong", [1e-3, "rel", {"rel": 1e-3}])
@pytest.mark.parametrize("call", [
    lambda wrong: h5z_terp.compress(waves((3,)), wrong), h5z_terp.encoding,
    h5z_terp.Terp])
def test_a_bound_without_a_name(call, wrong):
    with pytest.raises(TypeError, match="name it, such as abs=(1e-3|0.001)"):
        call(wrong)


def test_damage():
    stream = bytearray(h5z_terp.compress(waves((50, 50)), abs=1e-3))
    stream[len(stream) // 2] ^= 1
    for damaged in (stream, stream[:20], b"", b"no stream of terp's"):
        with pytest.raises(h5z_terp.TerpError):
            h5z_terp.decompress(damaged)
        with pytest.raises(h5z_terp.TerpError):
            h5z_terp.info(damaged)


def test_settings_are_a_mapping():
    settings = h5z_terp.Terp(rel=1e-3, effort="best")
    assert dict(settings) == {"compression": h5z_terp.FILTER_ID,
                              "compression_opts": settings.cd_values}
    assert settings == h5z_terp.Terp(**settings.config)
    assert settings != h5z_terp.Terp(rel=1e-3)
    assert repr(settings) == "Terp(rel=0.001, effort='best')"
    with pytest.raises(TypeError):
        h5z_terp.compress(waves((3,)), settings, rel=1)
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert copy.deepcopy(settings) == settings
    of_numpy = h5z_terp.Terp(pwr=np.float32(0.5), floor=np.float64(2),
                             dims=np.array([8, 8])).config
    assert h5z_terp.Terp(**json.loads(json.dumps(of_numpy))).config == of_numpy


@pytest.mark.skipif(sys.platform != "linux", reason="libraries name a libc")
def test_wheel_for_another_libc(tmp_path):
    package = tmp_path / "h5z_terp"
    shutil.copytree(Path(h5z_terp.__file__).parent, package)
    library = package / "lib" / "libterp.so.1"
    content = library.read_bytes()
    assert b"libc.so.6" in content
    library.write_bytes(content.replace(b"libc.so.6", b"libc.so.X"))
    done = subprocess.run([sys.executable, "-c", "import h5z_terp"],
                          env={**os.environ, "PYTHONPATH": str(tmp_path)},
                          capture_output=True, text=True)
    assert done.returncode == 1
    assert "ImportError: cannot load terp's library: libc.so.X" in done.stderr
    assert "another system or C library" in done.stderr
