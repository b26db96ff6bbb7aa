"""Makes the plugin known to every HDF5 of this process, and netCDF4's variables
known to the plugin.

h5py and netCDF4 bring each its own library. One that is loaded later finds the
plugin by HDF5_PLUGIN_PATH; one that has begun is told by its own function.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
from pathlib import Path
import sys
import sysconfig
from typing import TYPE_CHECKING, Any

import numpy as np

from ._codec import PREFIX, type_of
from ._loaded import loaded_libraries, open_loaded
from ._settings import FILTER_ID, Settings, Terp, settings_of, shows_settings

if TYPE_CHECKING:
    from typing_extensions import Unpack

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


def _netcdf4_dirs() -> list[str]:
    """The folder of filters that netCDF4's wheel brings, and names to HDF5 only
    where HDF5_PLUGIN_PATH is not set."""
    try:
        spec = importlib.util.find_spec("netCDF4")
    except ValueError:  # a module that was made by hand
        spec = None
    places = (spec.submodule_search_locations or []) if spec else []
    return [str(folder) for folder in (Path(at) / "plugins" for at in places)
            if any(folder.glob("*nczhdf5filters*"))]


def plugin_path() -> str:
    """A value of HDF5_PLUGIN_PATH with which HDF5 finds terp's plugins and all
    that it finds now: by the variable, or by default where that is not set, and
    netCDF4's own filters."""
    before = os.environ.get("HDF5_PLUGIN_PATH")
    dirs = [PLUGIN_DIR,
            *(before.split(os.pathsep) if before else _DEFAULT_DIRS),
            *_netcdf4_dirs()]
    return os.pathsep.join(dict.fromkeys(dirs))


def register() -> None:
    """Called when the package is imported; again, by a program that has changed
    HDF5's plugin paths since, or loaded another HDF5 that does not read
    HDF5_PLUGIN_PATH."""
    os.environ["HDF5_PLUGIN_PATH"] = plugin_path()
    objects = sys.modules.get("h5py._objects")
    with objects.phil if objects else contextlib.nullcontext():
        for path in loaded_libraries("libhdf5"):
            _prepend(path)


# What to do with a variable that is not netCDF4's, by the package it is of.
_OTHERS = {
    "h5py": "create_dataset(name, data=..., **h5z_terp.Terp(rel=1e-3))",
    "h5netcdf": "create_variable(name, dims, ..., **h5z_terp.Terp(rel=1e-3))",
    "xarray": "to_netcdf(path, engine=\"h5netcdf\", encoding={name: "
              "h5z_terp.encoding(rel=1e-3)})",
}
_FILTERS = {1: "zlib", 2: "shuffle", 3: "fletcher32", 4: "szip", 307: "bzip2",
            32001: "blosc", 32015: "zstd"}
# Before terp: it takes the one away, and the other behind itself.
_HARMLESS = {"shuffle", "fletcher32"}


def _check_variable(variable: Any) -> None:
    """TypeError unless it is a variable of netCDF4 with values for terp."""
    if not hasattr(variable, "_grpid") or not hasattr(variable, "_varid"):
        kind = type(variable)
        other = _OTHERS.get(kind.__module__.partition(".")[0])
        raise TypeError(
            f"{kind.__module__}.{kind.__qualname__} is not a variable of "
            "netCDF4" + (f": the filter is given when it is written, {other}"
                         if other else ""))
    if getattr(variable, "_isvlen", False):
        raise TypeError("terp does not compress values of variable length")
    type_of(np.dtype(variable.dtype))


def _filters_of(library: ctypes.CDLL, variable: Any) -> list[str]:
    """The filters that a variable has, in their order."""
    if not hasattr(library, "nc_inq_var_filter_ids"):  # netCDF before 4.8
        return [name for name, value in (variable.filters() or {}).items()
                if name in _FILTERS.values() and value]
    of = ctypes.c_int(variable._grpid), ctypes.c_int(variable._varid)
    count = ctypes.c_size_t(0)
    library.nc_inq_var_filter_ids(*of, ctypes.byref(count), None)
    ids = (ctypes.c_uint * count.value)()
    library.nc_inq_var_filter_ids(*of, ctypes.byref(count), ids)
    return [_FILTERS.get(i, str(i)) for i in ids]


@shows_settings
def set_filter(variable: Any, settings: Terp | None = None,
               **bound: Unpack[Settings]) -> None:
    """Has netCDF4 compress a variable, which was created with ``chunksizes`` and
    without other filters, and holds no values yet::

        rho = dataset.createVariable("rho", "f4", dims, chunksizes=(64, 64, 64))
        h5z_terp.set_filter(rho, rel=1e-3)

    TypeError where it is not a variable of netCDF4, or one of values that terp
    does not compress. ValueError where it has other filters than shuffle and
    fletcher32: terp takes values, and netCDF would put it behind them.
    RuntimeError where the netCDF library refuses.
    """
    _check_variable(variable)
    words = settings_of(settings, bound).cd_values
    path = next(iter(loaded_libraries("libnetcdf")), None)
    if path is None:
        raise RuntimeError("no netCDF library is loaded")
    library = ctypes.CDLL(path)
    others = _filters_of(library, variable)
    if others[:1] != [str(FILTER_ID)] and not _HARMLESS.issuperset(others):
        raise ValueError(
            f"{variable.name!r} has other filters: {', '.join(others)}. terp "
            "takes values, and cannot stand behind them: create the variable "
            "without zlib and compression")
    status = library.nc_def_var_filter(
        ctypes.c_int(variable._grpid), ctypes.c_int(variable._varid),
        ctypes.c_uint(FILTER_ID), ctypes.c_size_t(len(words)),
        (ctypes.c_uint * len(words))(*words))
    if status != 0:
        library.nc_strerror.restype = ctypes.c_char_p
        reason = library.nc_strerror(status).decode()
        raise RuntimeError(
            f"no filter for {variable.name!r}: {reason}. It is set in a file of "
            "format NETCDF4 that is open for writing, for a variable with "
            "dimensions, before its first values")
