"""Registers the plugin with every HDF5 of this process, and sets the filter of
netCDF4's variables.

h5py and netCDF4 each contain an HDF5 library. HDF5_PLUGIN_PATH registers the
plugin for libraries that are loaded later; a function of HDF5 registers it for
those that are loaded already.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
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
# The default directories of HDF5 and of Debian's HDF5.
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


class _PluginList(ctypes.Structure):
    """NCPluginList of netCDF"""

    _fields_ = [("ndirs", ctypes.c_size_t),
                ("dirs", ctypes.POINTER(ctypes.c_char_p))]


def _prepend_netcdf(path: str) -> None:
    """netCDF 4.9.3 and later reads HDF5_PLUGIN_PATH when netCDF4 is imported, and
    looks there for the filters of Zarr stores."""
    library = open_loaded(path)
    if not hasattr(library, "nc_plugin_path_set"):
        return
    count = ctypes.c_size_t()
    if library.nc_plugin_path_ndirs(ctypes.byref(count)) != 0:
        return
    known = (ctypes.c_char_p * max(count.value, 1))()
    found = _PluginList(count.value, known)
    if library.nc_plugin_path_get(ctypes.byref(found)) != 0:
        return
    dirs = [folder for folder in known[:count.value] if folder is not None]
    if os.fsencode(PLUGIN_DIR) in dirs:
        return
    dirs.insert(0, os.fsencode(PLUGIN_DIR))
    changed = _PluginList(len(dirs), (ctypes.c_char_p * len(dirs))(*dirs))
    library.nc_plugin_path_set(ctypes.byref(changed))


def _netcdf4_dirs() -> list[str]:
    """The directory of filters in netCDF4's wheel. netCDF4 passes it to HDF5
    only if HDF5_PLUGIN_PATH is not set."""
    try:
        spec = importlib.util.find_spec("netCDF4")
    except ValueError:  # a module without a spec
        spec = None
    packages = (spec.submodule_search_locations or []) if spec else []
    return [str(folder) for folder in (Path(at) / "plugins" for at in packages)
            if any(folder.glob("*nczhdf5filters*"))]


def plugin_path() -> str:
    """A value of HDF5_PLUGIN_PATH for terp's plugins, all plugins that HDF5 finds
    now (by the variable or by default), and netCDF4's own filters."""
    before = os.environ.get("HDF5_PLUGIN_PATH")
    dirs = [PLUGIN_DIR,
            *(before.split(os.pathsep) if before else _DEFAULT_DIRS),
            *_netcdf4_dirs()]
    return os.pathsep.join(dict.fromkeys(dirs))


def register() -> None:
    """Registers the plugin with HDF5. Importing the package calls it. Call it
    again after changing HDF5's plugin paths, or after loading another HDF5 that
    does not read HDF5_PLUGIN_PATH."""
    os.environ["HDF5_PLUGIN_PATH"] = plugin_path()
    objects = sys.modules.get("h5py._objects")
    with objects.phil if objects else contextlib.nullcontext():
        for path in loaded_libraries("libhdf5"):
            _prepend(path)
        for path in loaded_libraries("libnetcdf"):
            _prepend_netcdf(path)


# How to set the filter in other packages.
_OTHERS = {
    "h5py": "create_dataset(name, data=..., **h5z_terp.Terp(rel=1e-3))",
    "h5netcdf": "create_variable(name, dims, ..., **h5z_terp.Terp(rel=1e-3))",
    "xarray": "to_netcdf(path, encoding={name: h5z_terp.encoding(rel=1e-3)})",
}
_FILTERS = {1: "zlib", 2: "shuffle", 3: "fletcher32", 4: "szip", 307: "bzip2",
            32001: "blosc", 32015: "zstd"}
# Filters that may come before terp: it removes shuffle, and moves fletcher32
# behind itself.
_HARMLESS = {"shuffle", "fletcher32"}


def check_variable(variable: Any) -> None:
    """TypeError unless this is a variable of netCDF4 that terp can compress."""
    if not hasattr(variable, "_grpid") or not hasattr(variable, "_varid"):
        kind = type(variable)
        other = _OTHERS.get(kind.__module__.partition(".")[0])
        raise TypeError(
            f"{kind.__module__}.{kind.__qualname__} is not a variable of "
            "netCDF4" + (f": set the filter when you write, {other}"
                         if other else ""))
    if getattr(variable, "_isvlen", False):
        raise TypeError("terp does not compress values of variable length")
    dtype = np.dtype(variable.dtype)
    if dtype.names is None:  # compounds are compressed by member
        type_of(dtype)


def _filters_of(library: ctypes.CDLL, variable: Any) -> list[str]:
    """The names of a variable's filters, in their order."""
    if not hasattr(library, "nc_inq_var_filter_ids"):  # netCDF before 4.8
        return [name for name, value in (variable.filters() or {}).items()
                if name in _FILTERS.values() and value]
    of = ctypes.c_int(variable._grpid), ctypes.c_int(variable._varid)
    count = ctypes.c_size_t(0)
    library.nc_inq_var_filter_ids(*of, ctypes.byref(count), None)
    ids = (ctypes.c_uint * count.value)()
    library.nc_inq_var_filter_ids(*of, ctypes.byref(count), ids)
    return [_FILTERS.get(i, str(i)) for i in ids]


def _netcdf() -> ctypes.CDLL:
    path = next(iter(loaded_libraries("libnetcdf")), None)
    if path is None:
        raise RuntimeError("no netCDF library is loaded")
    return ctypes.CDLL(path)


def _options_of_netcdf4(variable: Any) -> tuple[int, ...] | None:
    library = _netcdf()
    if _filters_of(library, variable)[:1] != [str(FILTER_ID)]:
        return None
    of = ctypes.c_int(variable._grpid), ctypes.c_int(variable._varid)
    number, count = ctypes.c_uint(), ctypes.c_size_t()
    words = None
    for _ in range(2):  # first asks for the number of words
        status = library.nc_inq_var_filter(*of, ctypes.byref(number),
                                           ctypes.byref(count), words)
        if status != 0:
            return None
        words = words or (ctypes.c_uint * count.value)()
    return tuple(words or ())


def h5py_dataset(dataset: Any) -> Any:
    """The h5py.Dataset that this object is, or that h5netcdf's variable holds.
    TypeError for other objects."""
    dataset = getattr(dataset, "_h5ds", dataset)
    h5py = sys.modules.get("h5py")
    if h5py is None or not isinstance(dataset, h5py.Dataset):
        kind = type(dataset)
        raise TypeError(f"{kind.__module__}.{kind.__qualname__} is not a dataset "
                        "of h5py or a variable of h5netcdf")
    if not dataset:
        raise ValueError("the file of the dataset is closed")
    return dataset


@functools.lru_cache(None)
def function_of_h5py(name: str) -> Any:
    """A function of the HDF5 that h5py uses; None on Windows, where h5py's modules
    do not lead to it. The caller holds h5py's lock."""
    from h5py import h5p

    try:  # looks the name up in the libraries that the module needs
        return getattr(ctypes.CDLL(h5p.__file__), name)
    except (AttributeError, OSError):
        return None


_MAX_NWORDS = 256  # that HDF5 hands out; terp's are fewer


def _filter_of(creation: Any, i: int) -> tuple[int, tuple[int, ...]]:
    get = function_of_h5py("H5Pget_filter2")
    if get is None:
        number, _, options, _ = creation.get_filter(i)
        return number, tuple(options)
    # h5py 3.8 reads beyond the end of more than 16 words.
    words = (ctypes.c_uint * _MAX_NWORDS)()
    count, flags, state = (ctypes.c_size_t(_MAX_NWORDS), ctypes.c_uint(),
                           ctypes.c_uint())
    number = get(ctypes.c_int64(creation.id), ctypes.c_uint(i),
                 ctypes.byref(flags), ctypes.byref(count), words,
                 ctypes.c_size_t(0), None, ctypes.byref(state))
    return number, tuple(words[:min(count.value, _MAX_NWORDS)])


def filters_of(dataset: Any) -> list[tuple[int, tuple[int, ...]]]:
    """The numbers and options of the filters of an h5py.Dataset."""
    from h5py import _objects

    with _objects.phil:
        creation = dataset.id.get_create_plist()
        return [_filter_of(creation, i) for i in range(creation.get_nfilters())]


def options_of(dataset: Any) -> tuple[int, ...]:
    """The options of a dataset's terp filter. ValueError if it has none."""
    if hasattr(dataset, "_grpid") and hasattr(dataset, "_varid"):
        options = _options_of_netcdf4(dataset)
        names = _filters_of(_netcdf(), dataset)
    else:
        dataset = h5py_dataset(dataset)
        filters = filters_of(dataset)
        options = next((words for number, words in filters
                        if number == FILTER_ID), None)
        names = [_FILTERS.get(number, str(number)) for number, _ in filters]
    if options is None:
        raise ValueError(f"{dataset.name!r} has no terp filter; its filters are: "
                         f"{', '.join(names) or 'none'}")
    return options


@shows_settings
def set_filter(variable: Any, settings: Terp | None = None,
               **bound: Unpack[Settings]) -> None:
    """Sets terp as the filter of a netCDF4 variable. Create the variable with
    ``chunksizes`` and without other filters, and write values afterwards::

        rho = dataset.createVariable("rho", "f4", dims, chunksizes=(64, 64, 64))
        h5z_terp.set_filter(rho, rel=1e-3)

    Raises TypeError if this is not a variable of netCDF4, or if terp does not
    compress its type; ValueError if it has other filters than shuffle and
    fletcher32, because netCDF would put terp behind them, and terp needs values;
    RuntimeError if the netCDF library refuses.
    """
    check_variable(variable)
    words = settings_of(settings, bound).cd_values
    library = _netcdf()
    others = _filters_of(library, variable)
    if others[:1] != [str(FILTER_ID)] and not _HARMLESS.issuperset(others):
        raise ValueError(
            f"{variable.name!r} has other filters: {', '.join(others)}. terp "
            "must be the first filter: create the variable without zlib and "
            "compression")
    status = library.nc_def_var_filter(
        ctypes.c_int(variable._grpid), ctypes.c_int(variable._varid),
        ctypes.c_uint(FILTER_ID), ctypes.c_size_t(len(words)),
        (ctypes.c_uint * len(words))(*words))
    if status != 0:
        library.nc_strerror.restype = ctypes.c_char_p
        reason = library.nc_strerror(status).decode()
        raise RuntimeError(
            f"cannot set the filter of {variable.name!r}: {reason}. It needs a "
            "file of format NETCDF4 that is open for writing, and a variable "
            "with dimensions and without values")
