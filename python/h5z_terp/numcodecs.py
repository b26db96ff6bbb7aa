"""terp as a codec of numcodecs, for Zarr version 2 and kerchunk.

A chunk is one stream, as in HDF5. doc/zarr.md is the specification.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numcodecs.abc import Codec
from numcodecs.compat import ensure_contiguous_ndarray_like, ndarray_copy

from ._settings import (Settings, bound_is_named, decompress, for_arrays,
                        shows_settings)

if TYPE_CHECKING:
    from typing_extensions import Unpack


class TerpCodec(Codec):
    """``TerpCodec(rel=1e-3)`` takes the arguments of ``h5z_terp.Terp``.

    Chunks of a dtype that terp does not compress raise TypeError, and bounds of
    members ValueError. Without arguments the codec only decodes.

    Like other codecs of numcodecs, it keeps the order of values in memory: for
    an array in Fortran order (Zarr's ``order="F"``), the transposed array.
    """

    codec_id = "terp"

    @shows_settings
    @bound_is_named
    def __init__(self, **settings: Unpack[Settings]) -> None:
        self._settings = for_arrays(**settings) if settings else None

    def encode(self, buf: Any) -> bytes:
        if self._settings is None:
            raise ValueError("this terp codec only decodes, because it has no "
                             "bound: give one, such as TerpCodec(rel=1e-3)")
        array = np.asanyarray(buf)
        if array.flags.f_contiguous and not array.flags.c_contiguous:
            array = array.T
        return self._settings.compress(array, threads=1, plain=True)

    def decode(self, buf: Any, out: Any = None) -> Any:
        decoded = decompress(ensure_contiguous_ndarray_like(buf), threads=1)
        return ndarray_copy(decoded, out)

    def get_config(self) -> dict[str, Any]:
        config = self._settings.config if self._settings else {}
        return {"id": self.codec_id, **config}

    def __repr__(self) -> str:
        return f"TerpCodec({self._settings.arguments if self._settings else ''})"
