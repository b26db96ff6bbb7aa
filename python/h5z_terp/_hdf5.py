"""Makes the plugin known to every HDF5 of this process, and netCDF4's variables
known to the plugin.

h5py and netCDF4 bring each its own library. One that is loaded later finds the
plugin by HDF5_PLUGIN_PATH; one that has begun is told by its own function.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import sysconfig
from typing import Any

from ._codec import PREFIX
from ._loaded import loaded_libraries, open_loaded
from ._settings import FILTER_ID, Terp, settings_of

PLUGIN_DIR = str(PREFIX / "lib" / "hdf5" / "plugin")
# Where HDF5, and Debian's, looks if the variable is not set.
_DEFAULT_DIRS = (("%ALLUSERSPROFILE%/hdf5/lib/plugin",)
                 if sys.platform == "win32" else
                 ("/usr/local/hdf5/lib/plugin", "/usr/lib/%s/hdf5/serial/plugins"
                  % sysconfig.get_config_var("MULTIARCH")))


def _prepend(path: str) -> None:
    library = open_loaded(path)
    if not hasattr(library, "H5PLprepend"):
        return
    count = ctypes.c_uint()
    known = ctypes.create_string_buffer(4096)
    library.H5PLsize(ctypes.byref(count))
    library.H5PLget.restype = ctypes.c_ssize_t
    for i in range(count.value):
        library.H5PLget(i, known, ctypes.c_size_t(len(known)))
        if os.fsdecode(known.value) == PLUGIN_DIR:
            return
    library.H5PLprepend(os.fsencode(PLUGIN_DIR))


def register() -> None:
    """Called when the package is imported; again, by a program that has changed
    HDF5's plugin paths since, or loaded another HDF5 that does not read
    HDF5_PLUGIN_PATH."""
    before = (os.environ.get("HDF5_PLUGIN_PATH") or
              os.pathsep.join(_DEFAULT_DIRS))
    if PLUGIN_DIR not in before.split(os.pathsep):
        os.environ["HDF5_PLUGIN_PATH"] = os.pathsep.join((PLUGIN_DIR, before))
    objects = sys.modules.get("h5py._objects")
    with objects.phil if objects else contextlib.nullcontext():
        for path in loaded_libraries("libhdf5"):
            _prepend(path)


def set_filter(variable: Any, settings: Terp | None = None,
               **bound: Any) -> None:
    """Has netCDF4 compress a variable, which was created with ``chunksizes`` and
    holds no values yet::

        rho = dataset.createVariable("rho", "f4", dims, chunksizes=(64, 64, 64))
        h5z_terp.set_filter(rho, rel=1e-3)

    RuntimeError where the netCDF library refuses.
    """
    words = settings_of(settings, bound).cd_values
    path = next(iter(loaded_libraries("libnetcdf")), None)
    if path is None:
        raise RuntimeError("no netCDF library is loaded")
    library = ctypes.CDLL(path)
    status = library.nc_def_var_filter(
        ctypes.c_int(variable._grpid), ctypes.c_int(variable._varid),
        ctypes.c_uint(FILTER_ID), ctypes.c_size_t(len(words)),
        (ctypes.c_uint * len(words))(*words))
    if status != 0:
        library.nc_strerror.restype = ctypes.c_char_p
        raise RuntimeError(library.nc_strerror(status).decode())
