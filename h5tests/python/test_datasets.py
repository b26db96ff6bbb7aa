"""h5z_terp.read and h5z_terp.write give what h5py gives, whatever the dataset,
the selection and the number of threads."""

from concurrent.futures import ThreadPoolExecutor
import threading

import h5py
import numpy as np
import pytest

import h5z_terp
from fields import noise, waves
from h5z_terp import Terp, _datasets

VALUES = waves((40, 33, 20))
BOUND = Terp(abs=1e-3)


@pytest.fixture
def file(tmp_path):
    # HDF5's cache would give values back that were never coded.
    with h5py.File(tmp_path / "a.h5", "w", rdcc_nbytes=0) as file:
        yield file


@pytest.fixture
def cached_file(tmp_path):
    """For lossless datasets: older h5py writes a broadcast array row by row."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        yield file


@pytest.fixture
def without_hdf5(monkeypatch):
    """Lets a test fail if h5py reads or writes values."""
    def refuse(*_):
        raise AssertionError("h5py was called")

    monkeypatch.setattr(h5py.Dataset, "__getitem__", refuse)
    monkeypatch.setattr(h5py.Dataset, "__setitem__", refuse)


def make(file, values=VALUES, chunks=(16, 16, 16), name="a", compression=BOUND,
         **options):
    return file.create_dataset(name, data=values, chunks=chunks,
                               compression=compression, **options)


def same(read, expected):
    assert type(read) is type(expected)
    assert read.dtype == expected.dtype and read.shape == expected.shape
    np.testing.assert_array_equal(read, expected)


def streams_of(dataset):
    found = {}
    for i in range(dataset.id.get_num_chunks()):
        offset = dataset.id.get_chunk_info(i).chunk_offset
        found[offset] = dataset.id.read_direct_chunk(offset)
    return found


# ---- reading ----

SELECTIONS = [
    (), ..., np.s_[:], np.s_[:, :, :], np.s_[3:20], np.s_[..., 5:6], np.s_[5],
    np.s_[-1], np.s_[5, 6, 7], np.s_[0:16, 16:32, 0:16], np.s_[15:17, 32:, 19],
    np.s_[::2], np.s_[::2, ::2, ::2], np.s_[::4, ::4, ::4], np.s_[::8, ::8, ::8],
    np.s_[::16, ::16, ::16], np.s_[::32, ::32, ::32], np.s_[2::4, ::2, 6::2],
    np.s_[::3, 1::5, ::7], np.s_[8:24:8, 16, ::4], np.s_[1::2, 1::2, 1::2],
    np.s_[4, ::4, ::4], np.s_[16, 0, ::2], np.s_[5:5], np.s_[30:10], np.s_[100:],
    np.s_[-10:-2, ..., -3:], (np.int64(3), np.s_[np.uint8(2):np.int32(9)]),
    np.s_[:40:39, :33:32, :20:19],
    # Only h5py knows these.
    [1, 5, 6], np.s_[[0, 39], :, 3], VALUES > 1.5, np.s_[:, [True] * 20 + [False]
                                                         * 13, 0]]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("selection", SELECTIONS, ids=repr)
def test_selections(file, selection, threads):
    data = make(file)
    same(h5z_terp.read(data, selection, threads=threads), data[selection])


@pytest.mark.parametrize("selection", SELECTIONS[:29], ids=repr)
def test_terp_reads_selections_of_slices(file, selection, request):
    data = make(file)
    expected = data[selection]
    if np.size(expected) == 0:
        return
    request.getfixturevalue("without_hdf5")
    same(h5z_terp.read(data, selection), expected)


@pytest.mark.parametrize("selection", [
    np.s_[0, 0, 0, 0], np.s_[::-1], np.s_[50], np.s_[-41], np.s_[..., ...],
    np.s_["x"], np.s_[1.5], np.s_[None]], ids=repr)
def test_wrong_selections_give_h5pys_errors(file, selection):
    data = make(file)
    with pytest.raises(Exception) as expected:
        data[selection]
    with pytest.raises(type(expected.value)):
        h5z_terp.read(data, selection)


SHAPES = [((1000,), (64,)), ((100,), (100,)), ((33, 70), (8, 32)),
          ((5, 1, 40, 30), (2, 1, 16, 30)), ((3, 4, 5, 6, 7), (2, 3, 4, 5, 6)),
          ((2, 3, 1, 5, 6, 7), (1, 3, 1, 2, 6, 7)), ((1, 1), (1, 1)),
          ((40, 30), (40, 30)), ((40, 30), (7, 30))]


@pytest.mark.parametrize("shape, chunks", SHAPES)
def test_shapes(file, shape, chunks):
    values = waves(shape)
    data = make(file, values, chunks)
    same(h5z_terp.read(data), data[...])
    for step in 2, 3, 4:
        selection = (slice(None, None, step),) * len(shape)
        same(h5z_terp.read(data, selection), data[selection])
    written = file.create_dataset("b", shape, "f4", chunks=chunks,
                                  compression=BOUND)
    h5z_terp.write(written, values)
    assert streams_of(written) == streams_of(data)


@pytest.mark.parametrize("settings", [
    BOUND, Terp(lossless=True), Terp(rel=1e-3, missing=5), Terp(psnr=50),
    Terp(abs=1e-2, keep_sign="values", valid_range=(0, 2)),
    Terp(digits=3, floor=1e-3), Terp(abs=1e-3, dims=(8, 16)),
    Terp(abs=1e-3, pipeline="huffman", predictor="lorenzo", effort="best")],
    ids=repr)
@pytest.mark.parametrize("fillvalue", [None, 5, -1e30])
def test_settings_and_fill_values(file, settings, fillvalue):
    values = VALUES.copy()
    values[10:14, 3:9] = 5
    values[39, 30:] = -1e30
    data = make(file, values, compression=settings, fillvalue=fillvalue)
    same(h5z_terp.read(data), data[...])
    same(h5z_terp.read(data, np.s_[::4, ::4, ::4]), data[::4, ::4, ::4])
    written = file.create_dataset("b", values.shape, "f4", chunks=(16, 16, 16),
                                  compression=settings, fillvalue=fillvalue)
    h5z_terp.write(written, values)
    assert streams_of(written) == streams_of(data)


@pytest.mark.parametrize("dtype", [
    "f4", ">f4", "f8", ">f8", "f2", "i1", "u1", "i2", ">i2", "i4", "u4", "i8",
    "u8", "c8", "c16", "?"])
def test_types(file, dtype):
    values = (10 * VALUES).astype(dtype)
    data = make(file, values)
    same(h5z_terp.read(data), data[...])
    same(h5z_terp.read(data, np.s_[3, ::2, 4:9]), data[3, ::2, 4:9])
    written = file.create_dataset("b", values.shape, dtype, chunks=(16, 16, 16),
                                  compression=BOUND)
    h5z_terp.write(written, values)
    assert streams_of(written) == streams_of(data)


def test_enumerations(file):
    dtype = h5py.enum_dtype({"dry": 0, "wet": 1}, "u1")
    data = make(file, (VALUES > 0).astype(dtype), compression=Terp(lossless=True))
    read = h5z_terp.read(data)
    same(read, data[...])
    assert h5py.check_enum_dtype(read.dtype) == {"dry": 0, "wet": 1}


# Datasets that h5py has to read and write.
OTHERS = {
    "contiguous": {"chunks": None, "compression": None},
    "gzip": {"compression": "gzip"},
    "fletcher32": {"fletcher32": True},
    "plain chunks": {"compression": None},
}


@pytest.mark.parametrize("options", OTHERS.values(), ids=OTHERS)
def test_other_datasets(file, options):
    data = make(file, **options)
    for selection in (), np.s_[::2, 5, 3:9]:
        same(h5z_terp.read(data, selection), data[selection])
        out = np.zeros_like(data[selection])
        assert h5z_terp.read(data, selection, out=out) is out
        same(out, data[selection])
    h5z_terp.write(data, VALUES[:10] + 1, np.s_[:10])
    assert abs(data[...][:10] - VALUES[:10] - 1).max() <= 1e-3


def test_scalars_and_empty_datasets(file):
    file["scalar"] = 5.5
    assert h5z_terp.read(file["scalar"]) == 5.5
    h5z_terp.write(file["scalar"], 6.5)
    assert file["scalar"][()] == 6.5
    data = file.create_dataset("empty", (0, 5), "f4", maxshape=(None, 5),
                               chunks=(4, 5), compression=BOUND)
    assert h5z_terp.read(data).shape == (0, 5)
    h5z_terp.write(data, np.zeros((0, 5)))
    text = file.create_dataset("text", data=["a", "b"])
    assert h5z_terp.read(text)[1] == b"b"


def test_data_that_passes_through(tmp_path):
    # Values that look like the begin of a stream.
    values = VALUES.copy()
    values[0, 0, 0] = np.frombuffer(b"TERP", "f4")[0]
    raw = values[:16, :16, :16].tobytes()
    with h5py.File(tmp_path / "a.h5", "w") as file:
        make(file, np.arange(100).astype("S3"), chunks=(10,), name="text")
        make(file).id.write_direct_chunk((0, 0, 0), raw, 1)
    with h5py.File(tmp_path / "a.h5") as file:
        same(h5z_terp.read(file["text"]), file["text"][...])
        read = h5z_terp.read(file["a"])
        same(read, file["a"][...])
    assert (read[:16, :16, :16] == values[:16, :16, :16]).all()


@pytest.mark.parametrize("fillvalue", [None, -7])
def test_chunks_that_were_never_written(file, fillvalue):
    data = file.create_dataset("a", (40, 33), "f4", chunks=(16, 16),
                               compression=BOUND, fillvalue=fillvalue)
    data[16:32, 16:32] = 2
    same(h5z_terp.read(data), data[...])
    assert (h5z_terp.read(data)[:16] == (fillvalue or 0)).all()
    same(h5z_terp.read(data, np.s_[::4, ::4]), data[::4, ::4])


def test_chunks_of_other_bounds_and_boxes(file):
    """As terp repack stores for levels of AMReX."""
    data = make(file, compression=Terp(abs=1e-3))
    chunk = VALUES[:16, :16, :16]
    data.id.write_direct_chunk((0, 0, 0), h5z_terp.compress(
        chunk, abs=0.1, dims=(8, 16), plain=True))
    for selection in (), np.s_[::4, ::4, ::4]:
        same(h5z_terp.read(data, selection), data[selection])
    assert abs(h5z_terp.read(data) - VALUES).max() > 1e-2


def test_values_in_the_chunk_cache(file):
    data = make(file, compression=Terp(lossless=True))
    data[5, 5, 5] = 77  # is in HDF5's cache only
    assert h5z_terp.read(data)[5, 5, 5] == 77
    h5z_terp.write(data, VALUES + 1)
    same(data[...], VALUES + 1)


@pytest.mark.parametrize("dtype", ["f4", "f8", ">f4"])
def test_out(file, dtype):
    data = make(file)
    out = np.full((2, 40, 33, 20), -1, dtype)[1]
    assert h5z_terp.read(data, out=out) is out
    np.testing.assert_array_equal(out, data[...])
    out = np.zeros((33, 40), dtype).T
    h5z_terp.read(data, np.s_[:, :, 3], out=out)
    np.testing.assert_array_equal(out, data[:, :, 3])
    one = np.zeros((), dtype)
    h5z_terp.read(data, np.s_[3, 4, 5], out=one)
    assert one == data[3, 4, 5]


def test_wrong_arguments(file):
    data = make(file)
    with pytest.raises(ValueError, match=r"out has the shape \(40, 33\)"):
        h5z_terp.read(data, out=np.zeros((40, 33), "f4"))
    with pytest.raises(TypeError, match="numpy"):
        h5z_terp.read(data, out=[1.0])
    with pytest.raises(ValueError, match="device 'gpu'"):
        h5z_terp.read(data, device="gpu")
    with pytest.raises(ValueError, match="device 'gpu'"):
        h5z_terp.write(data, VALUES, device="gpu")
    with pytest.raises(ValueError, match="library 'torch' is for device"):
        h5z_terp.read(data, library="torch")
    with pytest.raises(ValueError, match="library 'torch' is for device"):
        h5z_terp.write(data, VALUES, device="cpu", library="torch")
    with pytest.raises(TypeError, match="ndarray is not a dataset"):
        h5z_terp.read(VALUES)
    with pytest.raises(TypeError, match="Group is not a dataset"):
        h5z_terp.write(file["/"], VALUES)
    with pytest.raises(ValueError, match="library 'jax'"):
        h5z_terp.read(data, device="cuda", library="jax")


def test_no_library_of_arrays_on_the_gpu(file, monkeypatch):
    import sys

    data = make(file)
    for name in "cupy", "torch":
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(RuntimeError, match="needs CuPy or PyTorch"):
        h5z_terp.read(data, device="cuda")
    with pytest.raises(RuntimeError, match="needs PyTorch"):
        h5z_terp.write(data, VALUES, device="cuda", library="torch")


@pytest.mark.parametrize("threads", [1, 4])
def test_damage_is_told_with_the_chunk(file, threads):
    data = make(file)
    stream = bytearray(data.id.read_direct_chunk((16, 0, 0))[1])
    stream[-1] ^= 1
    data.id.write_direct_chunk((16, 0, 0), bytes(stream))
    with pytest.raises(h5z_terp.TerpError, match=r"'/a', chunk at \(16, 0, 0\)"):
        h5z_terp.read(data, threads=threads)
    same(h5z_terp.read(data, np.s_[:16]), data[:16])
    stream = h5z_terp.compress(waves((16, 16, 8)), abs=1e-3)
    data.id.write_direct_chunk((16, 0, 0), stream)
    with pytest.raises(h5z_terp.TerpError, match="another size"):
        h5z_terp.read(data, threads=threads)
    data.id.write_direct_chunk((16, 0, 0), b"nonsense")
    with pytest.raises(OSError):
        h5z_terp.read(data, threads=threads)


def test_closed_files(file):
    data = make(file)
    file.close()
    with pytest.raises(ValueError):
        h5z_terp.read(data)
    with pytest.raises(ValueError):
        h5z_terp.write(data, VALUES)


def test_variables_of_h5netcdf(tmp_path):
    h5netcdf = pytest.importorskip("h5netcdf")
    with h5netcdf.File(tmp_path / "a.nc", "w") as nc:
        nc.dimensions = {"x": 40, "y": 33, "z": 20}
        variable = nc.create_variable("v", ("x", "y", "z"), "f4",
                                      chunks=(16, 16, 16), **BOUND)
        h5z_terp.write(variable, VALUES)
        same(h5z_terp.read(variable), variable[...])


def test_many_small_chunks(file):
    values = waves((60, 50, 40))
    data = make(file, values, (4, 4, 4))
    same(h5z_terp.read(data), data[...])
    written = file.create_dataset("b", values.shape, "f4", chunks=(4, 4, 4),
                                  compression=BOUND)
    h5z_terp.write(written, values, threads=3)
    assert streams_of(written) == streams_of(data)


def test_threads_that_read_at_once(file):
    data = make(file, waves((64, 64, 64)))
    expected = data[...]
    wrong = []

    def read(i):
        for _ in range(5):
            if (h5z_terp.read(data, np.s_[i:], threads=2) != expected[i:]).any():
                wrong.append(i)

    crew = [threading.Thread(target=read, args=(i,)) for i in range(4)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    assert not wrong


def test_threads_that_read_small_chunks(file):
    """Most of the time is in HDF5, which one thread may call at a time."""
    data = make(file, chunks=(8, 8, 8))
    expected = data[...]
    with ThreadPoolExecutor(4) as crew:
        for read in crew.map(lambda _: h5z_terp.read(data), range(40)):
            same(read, expected)


def test_streams_are_fetched_and_stored_under_the_lock_of_h5py(file, monkeypatch):
    from h5py._objects import phil

    held = []

    class Watched:
        def __init__(self, inner):
            self.inner = inner

        def __getattr__(self, name):
            if name.endswith("direct_chunk"):
                free = crew.submit(phil.acquire, False).result()
                if free:
                    crew.submit(phil.release).result()
                held.append((name, not free))
            return getattr(self.inner, name)

    def open_watched(dataset):
        storage = opened(dataset)
        storage.id = Watched(storage.id)
        return storage

    opened = _datasets._open
    data = make(file)
    monkeypatch.setattr(_datasets, "_open", open_watched)
    with ThreadPoolExecutor(1) as crew:
        h5z_terp.read(data)
        h5z_terp.write(data, VALUES)
    assert set(held) == {("read_direct_chunk", True),
                         ("write_direct_chunk", True)}


def test_few_large_chunks_take_several_threads(file, monkeypatch):
    data = make(file, waves((64, 64, 64)), (64, 64, 64))
    seen = []
    decode = _datasets._codec.try_decode
    monkeypatch.setattr(_datasets._codec, "try_decode", lambda *words: (
        seen.append(words[-1]), decode(*words))[1])
    same(h5z_terp.read(data, threads=4), data[...])
    assert seen == [4]


@pytest.mark.parametrize("selection, steps", [
    (np.s_[::4, ::4, ::4], {4}), (np.s_[::2, 16, ::8], {2}), (np.s_[::4, 1], {1}),
    (np.s_[2::4, ::4, ::4], {2}), (np.s_[16, 16, 0], {16}), ((), {1})])
@pytest.mark.parametrize("dims", [(), (16, 16)])
def test_only_coarse_levels_are_decoded(file, monkeypatch, selection, steps,
                                        dims):
    data = make(file, compression=Terp(abs=1e-3, dims=dims))
    expected = data[selection]
    seen = set()
    decode = _datasets._codec.try_decode
    monkeypatch.setattr(_datasets._codec, "try_decode", lambda *words: (
        seen.add(words[2]), decode(*words))[1])
    same(h5z_terp.read(data, selection), expected)
    assert seen == steps


# ---- writing ----


def test_terp_writes_whole_chunks(file, without_hdf5):
    data = file.create_dataset("a", VALUES.shape, "f4", chunks=(16, 16, 16),
                               compression=BOUND)
    h5z_terp.write(data, VALUES)
    h5z_terp.write(data, VALUES[16:40] + 1, np.s_[16:40])
    read = h5z_terp.read(data)
    assert abs(read[:16] - VALUES[:16]).max() <= 1e-3
    assert abs(read[16:] - VALUES[16:] - 1).max() <= 1e-3


WRITTEN = [(), np.s_[3:20], np.s_[0:16, 16:33, 2:], np.s_[5], np.s_[..., 19],
           np.s_[::2], np.s_[5:5], np.s_[5, 6, 7], np.s_[16:, :, -4:],
           np.s_[[1, 5]], np.s_[8:40:32]]


@pytest.mark.parametrize("selection", WRITTEN, ids=repr)
@pytest.mark.parametrize("threads", [1, 3])
def test_written_selections(file, selection, threads):
    datasets = [make(file, VALUES, name=name, compression=Terp(lossless=True))
                for name in "ab"]
    values = noise(datasets[0][selection].shape)
    datasets[0][selection] = values
    h5z_terp.write(datasets[1], values, selection, threads=threads)
    same(h5z_terp.read(datasets[1]), datasets[0][...])


@pytest.mark.parametrize("values", [
    7, 2.5, np.float64(1) / 3, np.arange(20), np.arange(20, dtype="i8"),
    np.linspace(0, 1, 660).reshape(33, 20), VALUES.astype("f8") / 3,
    VALUES.astype(">f4"), np.asfortranarray(VALUES), VALUES[::-1],
    VALUES.tolist(), (100 * VALUES).astype("i2"), VALUES > 0, 1e300 * (VALUES > 1),
    VALUES[None], np.ones((40, 1, 1))],
    ids=lambda values: f"{type(values).__name__}-{np.shape(values)}-"
    f"{np.asarray(values).dtype}")
def test_values_are_converted_as_by_h5py(cached_file, values):
    datasets = [make(cached_file, name=name, compression=Terp(lossless=True))
                for name in "ab"]
    try:
        datasets[0][...] = values
    except (TypeError, ValueError) as error:
        with pytest.raises(type(error)):
            h5z_terp.write(datasets[1], values)
        return
    h5z_terp.write(datasets[1], values)
    same(h5z_terp.read(datasets[1]), datasets[0][...])


@pytest.mark.parametrize("dtype", ["i2", "u1", "f2", "f8"])
@pytest.mark.parametrize("have", ["f8", "f4", "i4", "i8", "u1"])
def test_types_are_converted_as_by_h5py(cached_file, dtype, have):
    values = (1e5 * noise((20, 30), "f8")).astype(have)
    datasets = [cached_file.create_dataset(name, (20, 30), dtype, chunks=(8, 8),
                                    compression=Terp(lossless=True))
                for name in "ab"]
    datasets[0][...] = values
    h5z_terp.write(datasets[1], values)
    same(h5z_terp.read(datasets[1]), datasets[0][...])


def test_values_that_do_not_fit_are_refused(file):
    data = make(file)
    with pytest.raises((TypeError, ValueError)):
        h5z_terp.write(data, np.zeros((3, 4, 5)))


@pytest.mark.parametrize("driver", [{}, {"driver": "core"}])
def test_files_for_reading_are_not_written(tmp_path, driver):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        make(file)
    with h5py.File(tmp_path / "a.h5", **driver) as file:
        before = streams_of(file["a"])
        with pytest.raises(OSError, match="no write intent"):
            h5z_terp.write(file["a"], VALUES + 1)
        assert streams_of(file["a"]) == before


def test_partial_chunks_without_filter(file):
    """H5Pset_chunk_opts, which h5py does not have."""
    import ctypes

    from h5py import h5d, h5p, h5s, h5t

    creation = h5p.create(h5p.DATASET_CREATE)
    creation.set_chunk((16, 16))
    creation.set_filter(h5z_terp.FILTER_ID, 0, BOUND.cd_values)
    library = ctypes.CDLL(h5p.__file__)
    assert library.H5Pset_chunk_opts(ctypes.c_int64(creation.id),
                                     ctypes.c_uint(2)) >= 0
    data = h5py.Dataset(h5d.create(file.id, b"a", h5t.IEEE_F32LE,
                                   h5s.create_simple((40, 33)), creation))
    h5z_terp.write(data, VALUES[:, :, 0])
    read = h5z_terp.read(data)
    same(read, data[...])
    assert (read[32:] == VALUES[32:, :, 0]).all()
    assert 0 < abs(read - VALUES[:, :, 0]).max() <= 1e-3


def test_growing_datasets(file):
    data = file.create_dataset("a", (0, 30), "f4", maxshape=(None, 30),
                               chunks=(8, 30), compression=BOUND)
    values = waves((21, 30))
    for i in range(0, 21, 8):
        step = values[i:i + 8]
        data.resize(i + len(step), 0)
        h5z_terp.write(data, step, np.s_[i:])
    assert abs(h5z_terp.read(data) - values).max() <= 1e-3
    same(h5z_terp.read(data), data[...])
