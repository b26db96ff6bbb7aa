"""h5z_terp.compress, decompress, info: shapes, types, bounds, wrong calls."""

import math
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import h5z_terp
from fields import noise, waves

SHAPES = [(1,), (1000,), (33, 17), (16, 16, 16), (5, 7, 9, 11),
          (2, 3, 4, 5, 6), (1, 40, 1, 30), ()]


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", ">f8"])
@pytest.mark.parametrize("shape", SHAPES)
def test_round_trip(shape, dtype):
    values = waves(shape, dtype) if shape else np.array(2.5, dtype)
    stream = h5z_terp.compress(values, abs=1e-3)
    read = h5z_terp.decompress(stream)
    assert read.dtype == values.dtype
    assert read.size == values.size
    assert np.abs(read.reshape(shape) - values).max() <= 1e-3
    found = h5z_terp.info(stream)
    assert found["shape"] == read.shape
    assert found["dtype"] == values.dtype
    assert found["stream_nbytes"] == len(stream)


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
    assert read.dtype == np.dtype(np.uint8 if dtype == "?" else dtype)
    # Integers are rounded down to a whole bound.
    error = h5z_terp.decompress(h5z_terp.compress(values, abs=2.5)) - (
        values.astype("u1") if dtype == "?" else values)
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
                  np.empty((20, 20), "f4")[:, ::2]):
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
        expected = read[(slice(None, None, step),) * read.ndim]
        assert coarse.dtype == expected.dtype
        np.testing.assert_array_equal(coarse, expected)
    for step in 0, -4, 3, 2**64:
        with pytest.raises(ValueError, match="is no power of two"):
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


@pytest.mark.parametrize("values", [np.array(["a"]), np.zeros(3, "M8[s]")])
def test_wrong_types(values):
    with pytest.raises(TypeError):
        h5z_terp.compress(values, abs=1)


def test_no_values():
    with pytest.raises(h5z_terp.TerpError):
        h5z_terp.compress(np.empty((3, 0), "f4"), abs=1)


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
    assert "ImportError: terp's library cannot be loaded: libc.so.X" in done.stderr
    assert "another system or C library" in done.stderr
