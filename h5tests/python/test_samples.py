"""h5z_terp.Samples: which samples come, in which order, from which processes, and
what happens on errors. test_torch.py tests PyTorch's wrapper."""

import multiprocessing
import os
import pickle
import shutil
import threading

import h5py
import numpy as np
import pytest

import h5z_terp
from fields import waves
from h5z_terp import Samples

ROWS = waves((100, 20, 30))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("samples") / "train.h5")
    lossless = h5z_terp.Terp(lossless=True)
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=ROWS, chunks=(8, 10, 30),
                            compression=lossless)
        file.create_dataset("y", data=np.arange(100), chunks=(33,))
        file.create_dataset("plain", data=ROWS)
        file.create_dataset("gzip", data=ROWS, chunks=(7, 20, 30),
                            compression="gzip")
        file.create_dataset("big", data=ROWS.astype(">f8"), chunks=(8, 20, 30),
                            compression=lossless)
        file.create_dataset("short", data=ROWS[:99])
    return path


@pytest.fixture
def path(made, tmp_path):
    """A file that a test may change."""
    return shutil.copy(made, tmp_path)


def labels(samples):
    """The numbers of the rows; checks that values belong to them."""
    found = []
    for x, y in samples:
        np.testing.assert_array_equal(x, ROWS[y])
        found.append(int(y))
    return found


@pytest.mark.parametrize("name", ["x", "plain", "gzip", "big"])
def test_rows_come_in_their_order(path, name):
    samples = Samples(path, name, shuffle=False)
    assert len(samples) == 100
    found = list(samples)
    np.testing.assert_array_equal(np.stack(found), ROWS)
    assert found[0].dtype == (">f8" if name == "big" else "f4")


def test_the_seed_and_the_epoch_give_the_order(path):
    samples = Samples(path, ["x", "y"], seed=1)
    first = labels(samples)
    assert sorted(first) == list(range(100)) and first != sorted(first)
    assert labels(samples) == first
    samples.set_epoch(1)
    assert sorted(labels(samples)) == list(range(100))
    assert labels(samples) != first
    assert labels(Samples(path, ["x", "y"], seed=2)) != first
    other = Samples(path, ["x", "y"])
    assert labels(other) != labels(other)


def test_the_order_does_not_depend_on_threads(path):
    orders = [labels(Samples(path, ["x", "y"], seed=1, threads=threads))
              for threads in (1, 2, 5)]
    assert orders[0] == orders[1] == orders[2]


def test_blocks_are_mixed(path, monkeypatch):
    monkeypatch.setitem(h5z_terp._samples._BLOCK_NBYTES, None, 1)
    # One block at a time: the rows of a chunk stay together.
    pairs = [np.count_nonzero(np.diff(np.array(labels(Samples(
        path, ["x", "y"], seed=1, mix=mix))) // 8) == 0) for mix in (1, 13)]
    assert pairs[0] >= 100 - 13 and pairs[1] < 50


@pytest.mark.parametrize("window, stride", [
    (10, None), ((10, 7), (3, 4)), ((8, 10, 30), None), ((10, 7, 9), (5, 7, 4)),
    ((100, 20, 30), 1), ((1, 1, 1), (9, 7, 11)), ((40, 9), 11), (3, 40)])
@pytest.mark.parametrize("nbytes", [1, 1 << 20])
def test_windows_are_those_of_numpy(path, monkeypatch, window, stride, nbytes):
    monkeypatch.setitem(h5z_terp._samples._BLOCK_NBYTES, None, nbytes)
    size = np.atleast_1d(window)
    step = size if stride is None else np.broadcast_to(stride, size.shape)
    expected = []
    for first in np.ndindex(*[(dim - n) // s + 1 for dim, n, s in
                              zip(ROWS.shape, size, step)]):
        at = np.array(first) * step
        expected.append(ROWS[tuple(slice(a, a + n) for a, n in zip(at, size))])
    for shuffle in False, True:
        samples = Samples(path, "x", window=window, stride=stride,
                          shuffle=shuffle, seed=3)
        found = list(samples)
        assert len(found) == len(samples) == len(expected)
        assert (sorted(w.tobytes() for w in found) ==
                sorted(w.tobytes() for w in expected))


def test_a_window_that_does_not_fit_gives_no_samples(path):
    samples = Samples(path, "x", window=101)
    assert len(samples) == 0
    assert list(samples) == []


def test_batches(path):
    rows = Samples(path, ["x", "y"], shuffle=False, batch=32)
    assert [len(y) for _, y in rows] == [32, 32, 32, 4]
    assert len(rows) == 4
    np.testing.assert_array_equal(np.concatenate([x for x, _ in rows]), ROWS)
    few = Samples(path, "y", batch=32, drop_last=True, seed=0)
    assert [len(y) for y in few] == [32, 32, 32]
    assert len(few) == 3
    whole = next(iter(Samples(path, "x", batch=7, window=(5, 4))))
    assert whole.shape == (7, 5, 4, 30)


def test_files_and_shards_hold_all_samples(path, tmp_path, monkeypatch):
    monkeypatch.setitem(h5z_terp._samples._BLOCK_NBYTES, None, 1)
    other = str(tmp_path / "more.h5")
    with h5py.File(other, "w") as file:
        file["y"] = np.arange(100, 145)
    samples = Samples([path, other], "y", seed=5)
    assert sorted(map(int, samples)) == list(range(145))
    shares = [samples.shard(i, 4, equal=False) for i in range(4)]
    found = [list(map(int, share)) for share in shares]
    assert sorted(sum(found, [])) == list(range(145))
    assert [len(share) for share in shares] == list(map(len, found))
    equal = [list(map(int, samples.shard(i, 3))) for i in range(3)]
    assert list(map(len, equal)) == [48, 48, 48]
    assert len(set(sum(equal, []))) == 144
    # Shards of shards, as ranks with workers.
    nested = [list(map(int, samples.shard(1, 3).shard(i, 2, equal=False)))
              for i in range(2)]
    assert sorted(sum(nested, [])) == sorted(equal[1])
    with pytest.raises(ValueError, match="need a seed"):
        Samples(path, "y").shard(0, 2)
    with pytest.raises(ValueError, match="below the count"):
        samples.shard(2, 2)


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("names, window", [("y", None), ("x", (7, 6))])
def test_equal_shards_of_few_blocks(path, names, window, shuffle):
    """All samples are in one block."""
    samples = Samples(path, names, window=window, shuffle=shuffle, seed=3)
    whole = [sample.tobytes() for sample in samples]
    for count in 2, 3, 8:
        shares = [samples.shard(i, count) for i in range(count)]
        found = [[sample.tobytes() for sample in share] for share in shares]
        assert [len(share) for share in shares] == list(map(len, found))
        assert set(map(len, found)) == {len(whole) // count}
        assert len(set(sum(found, []))) == len(whole) // count * count
        assert set(sum(found, [])) <= set(whole)
        if not shuffle:
            assert sum(found, []) == whole[:len(whole) // count * count]


def test_arrays_are_those_of_other_libraries(path):
    sample = next(iter(Samples(path, "x")))
    assert sample.__dlpack_device__()[0] == 1
    np.testing.assert_array_equal(np.from_dlpack(sample), sample)


def test_objects_may_be_pickled_and_forked(path):
    samples = Samples(path, ["x", "y"], seed=1)
    expected = labels(samples)
    assert labels(pickle.loads(pickle.dumps(samples))) == expected
    if hasattr(os, "fork"):
        iterator = iter(samples)  # leaves files open and threads alive
        next(iterator)
        queue = multiprocessing.get_context("fork").Queue()
        child = multiprocessing.get_context("fork").Process(
            target=lambda: queue.put(labels(samples)))
        child.start()
        assert queue.get(timeout=60) == expected
        child.join()
        iterator.close()


def test_threads_may_iterate_at_the_same_time(path):
    samples, found = Samples(path, ["x", "y"], seed=1), []
    threads = [threading.Thread(target=lambda: found.append(labels(samples)))
               for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3 and found[0] == found[1] == found[2]


def test_an_iteration_may_end_early(path):
    before = threading.active_count()
    iterator = iter(Samples(path, "x"))
    next(iterator)
    iterator.close()
    assert threading.active_count() == before
    with h5py.File(path, "a") as file:  # no file is still open
        file.attrs["changed"] = 1


def test_few_blocks_are_read_ahead(path, monkeypatch):
    monkeypatch.setitem(h5z_terp._samples._BLOCK_NBYTES, None, 1)
    calls = []
    read = h5z_terp._samples.read
    monkeypatch.setattr(h5z_terp._samples, "read", lambda *words, **named:
                        calls.append(words) or read(*words, **named))
    monkeypatch.setattr(h5z_terp._samples, "_AHEAD_NBYTES", 1)
    iterator = iter(Samples(path, "x", shuffle=False, threads=1))
    next(iterator)
    assert len(calls) <= 3
    assert len(list(iterator)) == 99
    assert len(calls) == 13


def test_damaged_chunks_are_named(path):
    with h5py.File(path, "a") as file:
        skipped, stream = file["x"].id.read_direct_chunk((40, 10, 0))
        damaged = stream[:30] + bytes([stream[30] ^ 1]) + stream[31:]
        file["x"].id.write_direct_chunk((40, 10, 0), damaged, skipped)
    with pytest.raises(h5z_terp.TerpError, match=r"'/x', chunk at \(40, 10, 0\)"):
        list(Samples(path, "x"))


def test_wrong_arguments(path, tmp_path):
    for error, names, named in [
            (KeyError, "z", {}),
            (ValueError, ["x", "short"], {}),
            (ValueError, "x", {"window": (1, 2, 3, 4)}),
            (ValueError, "x", {"window": 0}),
            (ValueError, "x", {"window": (4, 4), "stride": (4,)}),
            (ValueError, "x", {"window": 4, "stride": 0}),
            (ValueError, "x", {"batch": 0}),
            (ValueError, "x", {"batch": 1.5}),
            (ValueError, "x", {"mix": 0}),
            (ValueError, "x", {"seed": -1}),
            (ValueError, "x", {"seed": "a"}),
            (ValueError, "x", {"threads": -1}),
            (ValueError, "x", {"threads": 1.5}),
            (ValueError, [], {}),
            (ValueError, "x", {"library": "torch"}),
            (ValueError, "x", {"device": "tpu"})]:
        with pytest.raises(error):
            Samples(path, names, **named)
    with pytest.raises(OSError):
        Samples(str(tmp_path / "no.h5"), "x")
    for epoch in -1, "a":
        with pytest.raises(ValueError, match="epoch"):
            Samples(path, "x").set_epoch(epoch)
    assert len(list(Samples(path, "x", threads=0))) == 100


@pytest.mark.skipif("TERP_TEST_CUDART" not in os.environ,
                    reason="no CUDA runtime")
def test_samples_on_a_device(path, monkeypatch):
    import emulated_arrays

    monkeypatch.setitem(h5z_terp._samples._BLOCK_NBYTES, "cuda", 20000)
    named = {"device": "cuda", "library": emulated_arrays}
    rows = list(Samples(path, "x", shuffle=False, **named))
    assert isinstance(rows[0], emulated_arrays.Array)
    np.testing.assert_array_equal(np.stack([row.get() for row in rows]), ROWS)
    windows = list(Samples(path, "x", window=(8, 10), batch=4, shuffle=False,
                           **named))
    assert windows[0].shape == (4, 8, 10, 30)
    np.testing.assert_array_equal(windows[0].get()[1], ROWS[:8, 10:])
