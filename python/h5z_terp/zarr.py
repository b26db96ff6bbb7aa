"""terp as an array-to-bytes codec ("serializer") of Zarr version 3.

The chunk is one stream, as in HDF5. doc/zarr.md is the specification.
"""

import asyncio
from dataclasses import dataclass

import numpy as np
from zarr.abc.codec import ArrayBytesCodec

from . import _codec
from ._settings import Terp


@dataclass(frozen=True, init=False)
class TerpCodec(ArrayBytesCodec):
    """``TerpCodec(rel=1e-3)``: arguments as ``h5z_terp.Terp``.

    Values that equal the array's fill value, where that is not zero, come back
    exactly. Arrays of a dtype that terp does not compress are refused when
    they are created (TypeError).
    """

    is_fixed_size = False

    settings: Terp

    def __init__(self, **settings):
        object.__setattr__(self, "settings", Terp(**settings))

    @classmethod
    def from_dict(cls, data):
        return cls(**data["configuration"])

    def to_dict(self):
        return {"name": "terp", "configuration": self.settings.config}

    def validate(self, *, shape, dtype, chunk_grid):
        _codec.type_of(dtype.to_native_dtype())

    def compute_encoded_size(self, input_byte_length, chunk_spec):
        raise NotImplementedError("how long a stream is depends on the values")

    def _encode_sync(self, chunk_array, chunk_spec):
        fill = chunk_spec.fill_value
        stream = self.settings.compress(
            chunk_array.as_numpy_array(),
            fill=fill if fill is not None and fill != 0 else None, threads=1)
        return chunk_spec.prototype.buffer.from_bytes(stream)

    def _decode_sync(self, chunk_bytes, chunk_spec):
        values = _codec.decode(chunk_bytes.as_numpy_array(), None, 1)
        values = values.reshape(chunk_spec.shape)
        return chunk_spec.prototype.nd_buffer.from_numpy_array(
            np.asarray(values, chunk_spec.dtype.to_native_dtype()))

    async def _encode_single(self, chunk_array, chunk_spec):
        return await asyncio.to_thread(self._encode_sync, chunk_array,
                                       chunk_spec)

    async def _decode_single(self, chunk_bytes, chunk_spec):
        return await asyncio.to_thread(self._decode_sync, chunk_bytes,
                                       chunk_spec)
