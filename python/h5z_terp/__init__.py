"""terp for Python: an error-bounded lossy codec, and its HDF5 filter.

After importing this package, h5py, netCDF4 and xarray read and write HDF5 files
with terp, without further settings::

    import h5py, h5z_terp

    with h5py.File("out.h5", "w") as file:
        file.create_dataset("rho", data=rho, chunks=(64, 64, 64),
                            **h5z_terp.Terp(rel=1e-3))

``compress`` and ``decompress`` do the same without HDF5. All functions are
thread-safe.
"""

from . import _hosts
from ._chunks import chunks
from ._codec import TerpError, version
from ._config import get_config
from ._datasets import read, write
from ._hdf5 import PLUGIN_DIR, plugin_path, register, set_filter
from ._samples import Samples
from ._settings import FILTER_ID, Terp, compress, decompress, encoding, info

__all__ = ["FILTER_ID", "PLUGIN_DIR", "Samples", "Terp", "TerpError", "chunks", "compress",
           "decompress", "encoding", "get_config", "info", "plugin_path", "read",
           "register", "set_filter", "write"]
__version__ = version()

register()
_hosts.teach()
