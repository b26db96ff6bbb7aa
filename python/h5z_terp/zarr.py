"""terp as an array-to-bytes codec ("serializer") of Zarr version 3.

A chunk is one stream, as in HDF5. doc/zarr.md is the specification.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from zarr.abc.codec import ArrayBytesCodec, BytesBytesCodec

from . import _codec
from ._settings import Settings, Terp, bound_is_named, decompress, shows_settings

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True, init=False, repr=False)
class TerpCodec(ArrayBytesCodec):
    """``TerpCodec(rel=1e-3)`` takes the arguments of ``h5z_terp.Terp``.

    Values that equal the array's fill value stay exact unless the fill value is
    zero. Creating an array of a dtype that terp does not compress raises
    TypeError.
    """

    is_fixed_size = False

    settings: Terp

    @shows_settings
    @bound_is_named
    def __init__(self, **settings: Unpack[Settings]) -> None:
        object.__setattr__(self, "settings", Terp(**settings))

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
                           Terp(**settings) if settings else None)

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
