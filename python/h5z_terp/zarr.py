"""terp as an array-to-bytes codec ("serializer") of Zarr version 3.

A chunk is one stream, as in HDF5. doc/zarr.md is the specification.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from zarr.abc.codec import ArrayBytesCodec, BytesBytesCodec

from . import _codec, _device
from ._settings import (Settings, Terp, bound_is_named, decompress, for_arrays,
                        shows_settings)

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True, init=False, repr=False)
class TerpCodec(ArrayBytesCodec):
    """``TerpCodec(rel=1e-3)`` takes the arguments of ``h5z_terp.Terp``.

    Values that equal the array's fill value stay exact unless the fill value is
    zero. Creating an array of a dtype that terp does not compress raises
    TypeError, and bounds of members raise ValueError.
    """

    is_fixed_size = False

    settings: Terp

    @shows_settings
    @bound_is_named
    def __init__(self, **settings: Unpack[Settings]) -> None:
        object.__setattr__(self, "settings", for_arrays(**settings))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> TerpCodec:
        return cls(**data["configuration"])

    def to_dict(self) -> dict[str, Any]:
        return {"name": "terp", "configuration": self.settings.config}

    def __repr__(self) -> str:
        return f"TerpCodec({self.settings.arguments})"

    def validate(self, *, shape: Any, dtype: Any, chunk_grid: Any) -> None:
        _codec.type_of(dtype.to_native_dtype())

    def compute_encoded_size(self, input_byte_length: int,
                             chunk_spec: Any) -> int:
        raise NotImplementedError("the size of a stream depends on the values")

    def _encode_sync(self, chunk_data: Any, chunk_spec: Any) -> Any:
        fill = chunk_spec.fill_value
        stream = self.settings.compress(
            chunk_data.as_numpy_array(),
            fill=fill if fill is not None and fill != 0 else None, threads=1,
            plain=True)
        return chunk_spec.prototype.buffer.from_bytes(stream)

    def _decode_sync(self, chunk_data: Any, chunk_spec: Any) -> Any:
        values = decompress(chunk_data.as_numpy_array(), threads=1)
        values = values.reshape(chunk_spec.shape)
        return chunk_spec.prototype.nd_buffer.from_numpy_array(
            np.asarray(values, chunk_spec.dtype.to_native_dtype()))

    async def _encode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        return await asyncio.to_thread(self._encode_sync, chunk_data,
                                       chunk_spec)

    async def _decode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        return await asyncio.to_thread(self._decode_sync, chunk_data,
                                       chunk_spec)

    async def decode(self, chunks_and_specs: Iterable[tuple[Any, Any]]
                     ) -> Iterable[Any]:
        """Decodes chunks. Streams on a GPU are decoded there, those of one shape
        in one call."""
        work = list(chunks_and_specs)
        found: list[Any] = [None] * len(work)
        groups: dict[Any, list[int]] = {}
        for i, (data, spec) in enumerate(work):
            if data is not None and _is_on_device(data):
                dtype = spec.dtype.to_native_dtype()
                groups.setdefault((spec.shape, dtype), []).append(i)
        for (shape, dtype), members in groups.items():
            arrays = await asyncio.to_thread(
                _decode_on_device, [work[i][0].as_array_like() for i in members],
                shape, dtype, self.settings)
            for i, array in zip(members, arrays):
                if array is not None:
                    buffers = work[i][1].prototype.nd_buffer
                    found[i] = buffers.from_ndarray_like(array)
        left = [i for i, done in enumerate(found) if done is None]
        for i, done in zip(left, await super().decode([work[i] for i in left])):
            found[i] = done
        return found


def _is_on_device(data: Any) -> bool:
    return _device.has(data.as_array_like())


def _decode_on_device(streams: list[Any], shape: tuple[int, ...],
                      dtype: np.dtype[Any], settings: Terp) -> list[Any]:
    """The chunks of streams, as parts of one array. None: a stream that must be
    decoded alone, because its chunk has other dims, or that is damaged."""
    views = [_device.View(stream) for stream in streams]
    chunk = _codec.chunk_of(dtype, shape, settings.config.get("dims", ()), True)
    arrays = _device.Library(streams[0])
    if (chunk is None or not arrays.can_hold(dtype) or dtype.kind not in "fciu" or
            any(view.at % _device.ALIGNMENT for view in views)):
        return [None] * len(streams)
    chunks = arrays.empty((len(streams), *shape), dtype)
    status, statuses, _ = _device.decode_at(
        views[0], [view.at for view in views], [view.nbytes for view in views], chunks,
        chunk, prod(shape) * dtype.itemsize, None)
    if status == _codec.ERR_DEVICE:
        return [None] * len(streams)
    return [None if code else chunks[i] for i, code in enumerate(statuses)]


@dataclass(frozen=True, init=False, repr=False)
class TerpBytesCodec(BytesBytesCodec):
    """Reads streams as a codec from bytes to bytes, "numcodecs.terp": VirtualiZarr
    describes filters of HDF5 files by such codecs. It does not write; TerpCodec
    does. The arguments, which may be missing, are those of TerpCodec.
    """

    is_fixed_size = False

    settings: Terp | None

    @shows_settings
    @bound_is_named
    def __init__(self, **settings: Unpack[Settings]) -> None:
        object.__setattr__(self, "settings",
                           for_arrays(**settings) if settings else None)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> TerpBytesCodec:
        return cls(**data.get("configuration", {}))

    @property
    def codec_config(self) -> dict[str, Any]:
        """The configuration of the codec of numcodecs."""
        return {"id": "terp", **(self.settings.config if self.settings else {})}

    def to_dict(self) -> dict[str, Any]:
        return {"name": "numcodecs.terp",
                "configuration": self.settings.config if self.settings else {}}

    def __repr__(self) -> str:
        return (f"TerpBytesCodec({self.settings.arguments})" if self.settings
                else "TerpBytesCodec()")

    def compute_encoded_size(self, input_byte_length: int,
                             chunk_spec: Any) -> int:
        raise NotImplementedError("the size of a stream depends on the values")

    async def _encode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        raise ValueError("the codec numcodecs.terp only reads: write with "
                         "h5z_terp.zarr.TerpCodec")

    async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        def decode() -> Any:
            values = decompress(chunk_bytes.as_numpy_array(), threads=1)
            return chunk_spec.prototype.buffer.from_bytes(values.tobytes())

        return await asyncio.to_thread(decode)
