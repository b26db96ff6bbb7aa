"""terp as a codec of numcodecs, thus of Zarr's version 2 and of kerchunk.

The chunk is one stream, as in HDF5. doc/zarr.md is the specification.
"""

import numpy as np
from numcodecs.abc import Codec
from numcodecs.compat import ensure_contiguous_ndarray_like, ndarray_copy

from . import _codec
from ._settings import Terp


class TerpCodec(Codec):
    """``TerpCodec(rel=1e-3)``: arguments as ``h5z_terp.Terp``.

    Chunks of a dtype that terp does not compress raise TypeError. With no
    arguments it decodes only.
    """

    codec_id = "terp"

    def __init__(self, **settings):
        self._settings = Terp(**settings) if settings else None

    def encode(self, buf):
        if self._settings is None:
            raise ValueError("this terp codec has no bound, it decodes only")
        return self._settings.compress(np.asarray(buf), threads=1)

    def decode(self, buf, out=None):
        decoded = _codec.decode(ensure_contiguous_ndarray_like(buf), None, 1)
        return decoded if out is None else ndarray_copy(decoded, out)

    def get_config(self):
        config = self._settings.config if self._settings else {}
        return {"id": self.codec_id, **config}
