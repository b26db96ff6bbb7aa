"""Reads and writes selections of HDF5 datasets with all cores or a GPU.

HDF5 fetches and stores streams; the codec codes many of them at once. HDF5 itself
reads and writes whatever is not a stream of terp, and parts of chunks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
import ctypes
import itertools
from math import prod
import operator
import threading as _threading
from typing import Any, NamedTuple, Optional, TypeVar, Union, cast

import numpy as np
from numpy.typing import NDArray

from . import _codec, _device, _hdf5, _words
from ._settings import FILTER_ID

# What a thread takes at a time, so that small chunks do not cost more in Python
# than in the codec, and what a batch on a device takes.
_TASK_NBYTES = 1 << 20
_DEVICE_BATCH_NBYTES = 256 << 20
# Tasks that wait for a thread or for their result, for each thread.
_NTASKS_PER_THREAD = 4
_ALIGNMENT = 16  # of streams on a device
_NO_FILTER_FOR_PARTIAL_CHUNKS = 2  # H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS

_Result = TypeVar("_Result")
_Slices = tuple  # of slices, one for each dim


class _Range(NamedTuple):
    """What is selected along one dim."""

    start: int
    length: int
    step: int
    is_scalar: bool


class _Piece(NamedTuple):
    """The selected values of one chunk."""

    offset: tuple[int, ...]  # of the chunk
    inside: _Slices  # in the chunk
    outside: _Slices  # in the array of all selected values
    of_dataset: _Slices
    is_whole: bool  # all values of the chunk that lie in the dataset
    is_partial: bool  # the chunk reaches beyond the dataset
    step: int  # a power of two that divides all positions in the chunk


def _ranges_of(selection: Any, shape: tuple[int, ...]) -> list[_Range] | None:
    """None for a selection that only h5py knows."""
    if not isinstance(selection, tuple):
        selection = (selection,)
    nellipses = sum(word is Ellipsis for word in selection)
    nmissing = len(shape) - len(selection) + nellipses
    if nellipses > 1 or nmissing < 0:
        return None
    if nellipses == 0:
        selection += (Ellipsis,)
    at = next(i for i, word in enumerate(selection) if word is Ellipsis)
    words = (*selection[:at], *[slice(None)] * nmissing, *selection[at + 1:])
    ranges = []
    for word, dim in zip(words, shape):
        if isinstance(word, slice):
            try:
                start, stop, step = word.indices(dim)
            except (TypeError, ValueError):
                return None
            if step < 1:
                return None
            ranges.append(_Range(start, len(range(start, stop, step)), step,
                                 False))
            continue
        try:
            index = operator.index(word)
        except TypeError:
            return None
        if isinstance(word, (bool, np.bool_)) or not -dim <= index < dim:
            return None
        ranges.append(_Range(index % dim, 1, 1, True))
    return ranges


def _largest_step(positions: Sequence[int]) -> int:
    """The largest power of two that divides all positions; 0: any does."""
    joined = 0
    for position in positions:
        joined |= position
    return joined & -joined


def _pieces_along(wanted: _Range, chunk: int, dim: int
                  ) -> list[tuple[int, slice, slice, slice, bool, bool, int]]:
    """The members of _Piece for one dim, for each chunk that has values."""
    found = []
    taken = 0
    while taken < wanted.length:
        first = wanted.start + taken * wanted.step
        offset = first - first % chunk
        end = min(offset + chunk, dim)
        count = min(-(-(end - first) // wanted.step), wanted.length - taken)
        local = first - offset
        last = local + (count - 1) * wanted.step
        positions = [local] if count == 1 else [local, wanted.step]
        found.append((
            offset, slice(local, last + 1, wanted.step),
            slice(taken, taken + count),
            slice(first, offset + last + 1, wanted.step),
            count == end - offset, offset + chunk > dim,
            _largest_step(positions)))
        taken += count
    return found


def _pieces(ranges: list[_Range], chunk: tuple[int, ...],
            shape: tuple[int, ...]) -> Iterator[_Piece]:
    for along in itertools.product(*map(_pieces_along, ranges, chunk, shape)):
        offset, inside, outside, of_dataset, whole, partial, steps = zip(*along)
        yield _Piece(offset, inside, outside, of_dataset, all(whole),
                     any(partial), _largest_step(steps))


def _long(dims: Sequence[int]) -> tuple[int, ...]:
    return tuple(dim for dim in dims if dim > 1)


class _Storage:
    """A dataset whose chunks are streams of terp."""

    def __init__(self, dataset: Any, words: _words.Words) -> None:
        assert words.chunk is not None
        self.dataset = dataset
        self.name = dataset.name
        self.id = dataset.id
        self.dtype = dataset.dtype
        self.shape = dataset.shape
        self.chunk_shape: tuple[int, ...] = dataset.chunks
        self.nbytes = prod(self.chunk_shape) * self.dtype.itemsize
        self.chunk = words.chunk
        self.params = words.params
        if words.has_own_bounds:
            self.params.bound_mode, self.params.bound = 1, 0.0  # of new chunks
            self.params.floor = 0.0
        if words.missing is not None:
            component = self.dtype.type(0).real.dtype.newbyteorder("<")
            bits = _codec.bits_of_missing(words.missing, component)
            if bits is not None:
                self.params.has_missing = True
                self.params.missing_bits = bits

    def fetch(self, piece: _Piece) -> bytes | None:
        """A chunk's stream; None if HDF5 must read the chunk."""
        from h5py import _objects

        try:
            with _objects.phil:  # h5py 3.14 calls HDF5 here without its lock
                skipped, stream = self.id.read_direct_chunk(piece.offset)
        except (OSError, RuntimeError, ValueError):
            # HDF5 knows whether the chunk was never written, or what is wrong.
            return None
        if (skipped or not stream.startswith(b"TERP") or
                stream.startswith(_codec.CONTAINER)):  # the filter decodes containers
            return None
        return cast(bytes, stream)

    def error(self, piece: _Piece, status: int, why: str = "") -> Exception:
        return _codec.TerpError(f"{self.name!r}, chunk at {piece.offset}: "
                                f"{_codec.status_text(status)}{why}")

    def chunk_of(self, piece: _Piece, stream: bytes) -> _codec.Chunk:
        """The chunk that a stream announces. Its dims may differ from those of
        other chunks."""
        at = np.frombuffer(stream, np.uint8).ctypes.data
        status, chunk = _codec.try_decoded_chunk(at, len(stream))
        if status != 0:
            raise self.error(piece, status)
        if _codec.chunk_nbytes(chunk) != self.nbytes:
            raise _codec.TerpError(f"{self.name!r}, chunk at {piece.offset}: the "
                                   "stream has another size than the chunk")
        return chunk

    def step_of(self, piece: _Piece, chunk: _codec.Chunk) -> int:
        """The step with which to decode the piece's values of a chunk."""
        if piece.step == 1 or _long(chunk.shape) != _long(self.chunk_shape):
            return 1
        limit = 1 << (max(self.chunk_shape) - 1).bit_length()
        return min(piece.step or limit, limit)

    def decode(self, piece: _Piece, stream: bytes, to: int, step: int,
               threads: int) -> None:
        """Decodes a chunk, or every step-th value of it, to an address."""
        at = np.frombuffer(stream, np.uint8).ctypes.data
        status = _codec.try_decode(at, len(stream), step, to, self.nbytes,
                                   threads)
        if status != 0:
            raise self.error(piece, status)

    def padding(self) -> NDArray[Any]:
        """The value that HDF5 puts beyond the end of the dataset."""
        from h5py import h5d

        creation = self.id.get_create_plist()
        value = np.zeros((), self.dtype)
        if (creation.get_fill_time() != h5d.FILL_TIME_NEVER and
                creation.fill_value_defined() != h5d.FILL_VALUE_UNDEFINED):
            creation.get_fill_value(value)
        return value

    def filters_partial_chunks(self) -> bool:
        """False if HDF5 does not filter chunks that reach beyond the dataset, or
        does not tell."""
        from h5py import _objects

        ask = _hdf5.function_of_h5py("H5Pget_chunk_opts")
        if ask is None:
            return False
        options = ctypes.c_uint()
        with _objects.phil:
            creation = self.id.get_create_plist()
            status = ask(ctypes.c_int64(creation.id), ctypes.byref(options))
        return (status >= 0 and
                not options.value & _NO_FILTER_FOR_PARTIAL_CHUNKS)


def _open(dataset: Any) -> _Storage | None:
    """None for a dataset that HDF5 must read and write."""
    if dataset.chunks is None or dataset.file.driver == "mpio":
        return None
    filters = _hdf5.filters_of(dataset)
    if [number for number, _ in filters] != [FILTER_ID]:
        return None
    try:
        words = _words.parse(filters[0][1])
    except ValueError:
        return None
    if words.chunk is None or dataset.dtype.kind not in "fciub":
        return None
    storage = _Storage(dataset, words)
    if (_codec.chunk_nbytes(words.chunk) != storage.nbytes or
            words.chunk.dtype.itemsize != storage.dtype.itemsize):
        return None
    return storage


# ---- threads ----


def _tasks(pieces: Iterator[_Piece], nbytes: int) -> Iterator[list[_Piece]]:
    count = max(1, _TASK_NBYTES // nbytes)
    while task := list(itertools.islice(pieces, count)):
        yield task


class _Crew:
    """Runs tasks in threads; hands their results over in the order of the
    tasks."""

    def __init__(self, threads: int, ntasks: int) -> None:
        self._nworkers = min(threads, ntasks)
        # Few chunks: several threads code each.
        self.threads_per_task = max(1, threads // max(ntasks, 1))
        self._pool = (ThreadPoolExecutor(self._nworkers, "h5z_terp")
                      if self._nworkers > 1 else None)
        self._waiting: deque[Future[Any]] = deque()
        self._local = _threading.local()

    def __enter__(self) -> _Crew:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            for future in self._waiting:
                future.cancel()
            self._pool.shutdown()

    def scratch(self, nbytes: int) -> NDArray[np.uint8]:
        """Memory of the calling thread."""
        memory: Optional[NDArray[np.uint8]] = getattr(self._local, "memory",
                                                      None)
        if memory is None or len(memory) < nbytes:
            memory = self._local.memory = np.empty(nbytes, np.uint8)
        return memory[:nbytes]

    def run(self, function: Callable[..., _Result], tasks: Iterator[Any]
            ) -> Iterator[_Result]:
        """Takes tasks only as fast as threads finish them."""
        if self._pool is None:
            yield from (function(*task) for task in tasks)
            return
        for task in tasks:
            self._waiting.append(self._pool.submit(function, *task))
            if len(self._waiting) >= _NTASKS_PER_THREAD * self._nworkers:
                yield self._waiting.popleft().result()
        while self._waiting:
            yield self._waiting.popleft().result()


def _count_tasks(ranges: list[_Range], storage: _Storage) -> int:
    npieces = prod(
        (wanted.start + (wanted.length - 1) * wanted.step) // chunk -
        wanted.start // chunk + 1
        for wanted, chunk in zip(ranges, storage.chunk_shape))
    return int(-(-npieces // max(1, _TASK_NBYTES // storage.nbytes)))


def _shape_of(ranges: list[_Range]) -> tuple[int, ...]:
    return tuple(wanted.length for wanted in ranges)


def _index_of_scalars(ranges: list[_Range]) -> tuple[Any, ...]:
    return tuple(0 if wanted.is_scalar else slice(None) for wanted in ranges)


def _address(array: NDArray[Any]) -> int:
    return int(array.ctypes.data)


# ---- reading ----


def _read_host(storage: _Storage, ranges: list[_Range], out: NDArray[Any],
               threads: int | None) -> None:
    """Reads into `out`, which has all dims of the dataset."""

    def decode(task: list[tuple[_Piece, bytes]]) -> None:
        for piece, stream in task:
            step = storage.step_of(piece, storage.chunk_of(piece, stream))
            target = out[piece.outside]
            if (step == 1 and piece.is_whole and not piece.is_partial and
                    target.dtype == storage.dtype and
                    target.flags.c_contiguous and target.flags.aligned):
                storage.decode(piece, stream, _address(target), 1,
                               crew.threads_per_task)
                continue
            memory = crew.scratch(storage.nbytes)
            storage.decode(piece, stream, _address(memory), step,
                           crew.threads_per_task)
            shape = tuple(-(-dim // step) for dim in storage.chunk_shape)
            chunk = memory[:prod(shape) * storage.dtype.itemsize].view(
                storage.dtype).reshape(shape)
            target[...] = chunk[_coarse(piece.inside, step)]

    def fetch() -> Iterator[tuple[list[tuple[_Piece, bytes]]]]:
        for task in _tasks(_pieces(ranges, storage.chunk_shape, storage.shape),
                           storage.nbytes):
            streams = []
            for piece in task:
                stream = storage.fetch(piece)
                if stream is None:
                    out[piece.outside] = storage.dataset[piece.of_dataset]
                else:
                    streams.append((piece, stream))
            yield (streams,)

    with _Crew(_codec.thread_count(threads),
               _count_tasks(ranges, storage)) as crew:
        for _ in crew.run(decode, fetch()):
            pass


def _coarse(inside: _Slices, step: int) -> _Slices:
    """The places in a chunk of every step-th value."""
    return tuple(slice(at.start // step, (at.stop - 1) // step + 1,
                       max(at.step // step, 1)) for at in inside)


def _check_out(out: Any, shape: tuple[int, ...]) -> None:
    if tuple(out.shape) != shape:
        raise ValueError(f"out has the shape {tuple(out.shape)}, but the "
                         f"selection {shape}")


def read(dataset: Any, selection: Any = (), *, out: Any = None,
         device: str | None = None, library: Any = None,
         threads: int | None = None) -> Any:
    """Reads a selection of an HDF5 dataset, such as ``dataset[selection]`` does,
    and decodes its chunks with all cores or on a GPU::

        rho = h5z_terp.read(file["rho"])
        part = h5z_terp.read(file["rho"], np.s_[:, 100:200, ::4])
        rho = h5z_terp.read(file["rho"], device="cuda")

    ``dataset`` is an h5py.Dataset, or a variable of h5netcdf. ``selection`` is
    everything that h5py takes. Returns an array of the dataset's dtype, or a
    scalar where h5py returns one; or ``out``, a writable array of the
    selection's shape, whose dtype numpy converts values to.

    ``device`` None or ``"cpu"``: an array of numpy. ``"cuda"``: an array on the
    current GPU, in native byte order, of CuPy or PyTorch: ``library`` names one
    (``"cupy"``, ``"torch"``); None takes the imported one, CuPy first. Other
    libraries take the array by DLPack. The GPU decodes if the CUDA engine is
    installed, and otherwise the CPU does; values are the same. Only streams are
    then copied to the GPU.

    ``threads`` is the number of CPU threads; None means all that the process may
    use. HDF5 itself is called by the calling thread only, and several threads
    may call ``read``.

    h5py reads selections by masks or lists, datasets that have other filters or
    none, chunks that were never written, and chunks that are not terp's streams.
    With a step of 2, 4, 8... along all dims terp decodes only coarse levels.

    Raises TerpError for a damaged stream, and names the chunk; RuntimeError if
    ``device="cuda"`` and there is neither CuPy nor PyTorch, or no GPU; and the
    errors of h5py.
    """
    dataset = _hdf5.h5py_dataset(dataset)
    _device.check_names(device, library)
    arrays = _device.Library(library) if device == "cuda" else None
    ranges = _ranges_of(selection, dataset.shape) if dataset.shape else None
    storage = _open(dataset) if ranges and 0 not in _shape_of(ranges) else None
    if arrays is not None:
        return _read_device(arrays, dataset, selection, storage, ranges, out,
                            threads)
    if storage is None or ranges is None:
        values = dataset[selection]
        if out is None:
            return values
        _check_out(out, np.shape(values))
        out[...] = values
        return out
    shape = tuple(r.length for r in ranges if not r.is_scalar)
    if out is not None:
        if not isinstance(out, np.ndarray):
            raise TypeError("out must be an array of numpy: an array of PyTorch "
                            "on the host has one, tensor.numpy()")
        _check_out(out, shape)
        full = out[tuple(None if r.is_scalar else slice(None) for r in ranges)]
    else:
        full = np.empty(_shape_of(ranges), storage.dtype)
    _read_host(storage, ranges, full, threads)
    return out if out is not None else full[_index_of_scalars(ranges)]


def _read_device(arrays: _device.Library, dataset: Any, selection: Any,
                 storage: _Storage | None, ranges: list[_Range] | None,
                 out: Any, threads: int | None) -> Any:
    if (storage is None or ranges is None or
            not arrays.can_hold(storage.dtype)):
        values = np.asarray(read(dataset, selection, threads=threads))
        found = arrays.of_host(values)
    else:
        found = arrays.empty(_shape_of(ranges), storage.dtype)
        if not _decode_on_device(arrays, storage, ranges, found, threads):
            found = arrays.of_host(
                np.asarray(read(dataset, selection, threads=threads)))
        else:
            found = found[_index_of_scalars(ranges)]
    if out is None:
        return found
    _check_out(out, tuple(found.shape))
    out[...] = found
    return out


def _batches(storage: _Storage, ranges: list[_Range]
             ) -> Iterator[list[_Piece]]:
    pieces = _pieces(ranges, storage.chunk_shape, storage.shape)
    count = max(1, _DEVICE_BATCH_NBYTES // storage.nbytes)
    while batch := list(itertools.islice(pieces, count)):
        yield batch


def _decode_on_device(arrays: _device.Library, storage: _Storage,
                      ranges: list[_Range], out: Any,
                      threads: int | None) -> bool:
    """False if no device works; `out` is then unspecified."""
    for batch in _batches(storage, ranges):
        fetched = [(piece, storage.fetch(piece)) for piece in batch]
        for piece, stream in fetched:
            if stream is None:
                out[piece.outside] = arrays.of_host(
                    storage.dataset[piece.of_dataset])
        coded = [(piece, stream) for piece, stream in fetched
                 if stream is not None]
        if not coded:
            continue
        ends = np.cumsum([-(-len(stream) // _ALIGNMENT) * _ALIGNMENT
                          for _, stream in coded])
        starts = [0, *ends[:-1].tolist()]
        packed = np.zeros(ends[-1], np.uint8)
        for start, (_, stream) in zip(starts, coded):
            packed[start:start + len(stream)] = np.frombuffer(stream, np.uint8)
        streams = arrays.of_host(packed)
        chunks = arrays.empty((len(coded), *storage.chunk_shape), storage.dtype)
        status, statuses, why = _device.decode_streams(
            streams, starts, [len(stream) for _, stream in coded], chunks,
            storage.chunk, storage.nbytes, threads)
        if status == _codec.ERR_DEVICE:
            return False
        for i, (piece, stream) in enumerate(coded):
            if statuses[i] == _codec.ERR_ARGUMENT:  # of a chunk of other dims
                storage.chunk_of(piece, stream)
                host = np.empty(storage.chunk_shape, storage.dtype)
                storage.decode(piece, stream, _address(host), 1,
                               _codec.thread_count(threads))
                out[piece.outside] = arrays.of_host(host[piece.inside])
            elif statuses[i] != 0:
                raise storage.error(piece, statuses[i], why)
            else:
                out[piece.outside] = chunks[i][piece.inside]
    return True


# ---- writing ----


def _converts(have: np.dtype[Any], want: np.dtype[Any]) -> bool:
    """Whether numpy converts as HDF5 does."""
    return (np.can_cast(have, want, "safe") or
            (have.kind, want.kind, want.itemsize) == ("f", "f", 4))


def write(dataset: Any, values: Any, selection: Any = (), *,
          device: str | None = None, library: Any = None,
          threads: int | None = None) -> None:
    """Writes values to a selection of an HDF5 dataset, as ``dataset[selection] =
    values`` does, and encodes whole chunks with all cores or on a GPU::

        rho = file.create_dataset("rho", shape, "f4", compression=bound,
                                  chunks=h5z_terp.chunks(shape))
        h5z_terp.write(rho, values)

    ``values`` are an array of numpy, or an array on a GPU, of CuPy, PyTorch or
    another library with ``__cuda_array_interface__`` or DLPack; h5py's rules of
    broadcasting hold. ``device`` None: the GPU encodes arrays on the GPU, and the
    CPU others. ``"cpu"`` and ``"cuda"`` copy the values there first; ``library``
    is as in ``read``. ``threads`` is the number of CPU threads; None means all.

    The file is the same as through the filter. Each chunk is coded with the
    dataset's own settings. h5py writes chunks of which the selection holds a
    part, selections with steps, and datasets that have other filters or none.

    Values that were read from the dataset are encoded anew: unlike the filter,
    ``write`` does not recognise them, and they may change by another bound. For
    changes in place use h5py.

    The errors are those of h5py and of ``read``. After an error some chunks may
    have been written. No other thread may write to the dataset at the same time.
    """
    dataset = _hdf5.h5py_dataset(dataset)
    _device.check_names(device, library)
    values = _device.of_dlpack(values)
    if device == "cuda" and not _device.has(values):
        values = _device.Library(library).of_host(np.asarray(values))
    if device == "cpu" and _device.has(values):
        values = _device.Library(values).to_host(values)
    ranges = _ranges_of(selection, dataset.shape) if dataset.shape else None
    # h5py refuses to write to a file that is open for reading.
    storage = (_open(dataset) if ranges and 0 not in _shape_of(ranges) and
               dataset.file.mode != "r" else None)
    arrays = _device.Library(values) if _device.has(values) else None
    if arrays is None:
        values = np.asarray(values)
    elif storage is None or not _is_simple(storage, ranges, values):
        values, arrays = arrays.to_host(values), None
    if (storage is None or ranges is None or
            any(wanted.step != 1 and wanted.length > 1 for wanted in ranges) or
            not _converts(np.dtype(values.dtype) if arrays is None
                          else storage.dtype, storage.dtype)):
        dataset[selection] = values
        return
    if arrays is not None:
        full = values.reshape(_shape_of(ranges))
        _write_device(arrays, storage, ranges, full, threads)
        return
    shape = tuple(r.length for r in ranges if not r.is_scalar)
    try:
        full = np.broadcast_to(values, shape)
    except ValueError:
        dataset[selection] = values
        return
    _write_host(storage, ranges, full.reshape(_shape_of(ranges)), threads)


def _is_simple(storage: _Storage, ranges: list[_Range] | None,
               values: Any) -> bool:
    """Whether values on a device are the selection's, without conversion."""
    view = _device.View(values, any_strides=True)
    return (ranges is not None and view.dtype == storage.dtype and
            view.shape == tuple(r.length for r in ranges if not r.is_scalar) and
            all(wanted.step == 1 or wanted.length == 1 for wanted in ranges))


def _store(storage: _Storage, piece: _Piece, stream: bytes) -> None:
    from h5py import _objects

    with _objects.phil:  # as in fetch
        storage.id.write_direct_chunk(piece.offset, stream, 0)


def _whole_pieces(storage: _Storage, ranges: list[_Range],
                  write_part: Callable[[_Piece], None]) -> Iterator[_Piece]:
    """The pieces that are chunks; HDF5 writes others."""
    may_be_partial: Union[bool, None] = None
    for piece in _pieces(ranges, storage.chunk_shape, storage.shape):
        if piece.is_partial and may_be_partial is None:
            may_be_partial = storage.filters_partial_chunks()
        if piece.is_whole and (not piece.is_partial or may_be_partial):
            yield piece
        else:
            write_part(piece)


def _write_host(storage: _Storage, ranges: list[_Range], values: NDArray[Any],
                threads: int | None) -> None:
    padding = storage.padding()
    capacity = _codec.encode_bound(storage.chunk)

    def encode(task: list[_Piece]) -> list[tuple[_Piece, bytes]]:
        coded = []
        memory = crew.scratch(storage.nbytes + capacity)
        chunk = memory[:storage.nbytes].view(storage.dtype).reshape(
            storage.chunk_shape)
        stream = memory[storage.nbytes:]
        for piece in task:
            source = values[piece.outside]
            if (piece.is_partial or source.dtype != storage.dtype or
                    not source.flags.c_contiguous or
                    not source.flags.aligned):
                if piece.is_partial:
                    chunk[...] = padding
                with np.errstate(over="ignore"):
                    chunk[piece.inside] = source
                source = chunk
            status, nbytes = _codec.try_encode(
                storage.params, storage.chunk, _address(source),
                _address(stream), capacity, crew.threads_per_task)
            if status != 0:
                raise storage.error(piece, status)
            coded.append((piece, stream[:nbytes].tobytes()))
        return coded

    def write_part(piece: _Piece) -> None:
        storage.dataset[piece.of_dataset] = values[piece.outside]

    pieces = _whole_pieces(storage, ranges, write_part)
    with _Crew(_codec.thread_count(threads),
               _count_tasks(ranges, storage)) as crew:
        for coded in crew.run(encode, ((task,) for task in
                                       _tasks(pieces, storage.nbytes))):
            for piece, stream in coded:
                _store(storage, piece, stream)


def _write_device(arrays: _device.Library, storage: _Storage,
                  ranges: list[_Range], values: Any,
                  threads: int | None) -> None:
    padding = storage.padding().item()

    def write_part(piece: _Piece) -> None:
        storage.dataset[piece.of_dataset] = arrays.to_host(values[piece.outside])

    pieces = _whole_pieces(storage, ranges, write_part)
    count = max(1, _DEVICE_BATCH_NBYTES // storage.nbytes)
    while batch := list(itertools.islice(pieces, count)):
        chunks = arrays.empty((len(batch), *storage.chunk_shape), storage.dtype)
        for i, piece in enumerate(batch):
            if piece.is_partial:
                chunks[i] = padding
            chunks[(i, *piece.inside)] = values[piece.outside]
        status, streams, why = _device.encode_chunks(
            arrays, chunks, storage.params, storage.chunk, storage.nbytes,
            threads)
        if status != 0:
            raise storage.error(batch[0], status, why)
        for piece, stream in zip(batch, streams):
            _store(storage, piece, stream)
