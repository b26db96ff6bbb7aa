"""Describes what h5z_terp uses in this process."""

from __future__ import annotations

import ctypes
from importlib import metadata
import os
import sys
from typing import Any

import numpy as np

from . import _codec, _device
from ._hdf5 import PLUGIN_DIR
from ._loaded import loaded_libraries, open_loaded

_PACKAGES = ("numpy", "h5py", "netCDF4", "h5netcdf", "xarray", "zarr",
             "numcodecs", "cupy", "torch", "hdf5plugin")


def _device_of_engine() -> tuple[str | None, str | None]:
    """The device that the CUDA engine uses, or why it uses none: lets it encode a
    few values."""
    params = _codec.Params(size=_codec.PARAMS_NBYTES, bound_mode=1)
    values = np.zeros(64, np.float32)
    chunk = _codec.chunk_of(values.dtype, values.shape, (), False)
    assert chunk is not None
    stream = np.empty(_codec.encode_bound(chunk), np.uint8)
    options = _device.RunOptions(size=ctypes.sizeof(_device.RunOptions),
                                 engine=_device.CUDA, nthreads=1)
    result = _device.RunResult(size=ctypes.sizeof(_device.RunResult))
    ref = ctypes.byref
    status = _codec.encode_batch(
        ref(options), params, chunk, 1, _device.pointers(values.ctypes.data),
        _device.pointers(stream.ctypes.data), ref(ctypes.c_uint64()),
        ref(result))
    device = result.device.decode() if result.device else None
    if status == 0 and result.used == _device.CUDA:
        return device, None
    reason = result.reason or b"the CUDA engine is not installed"
    return None, reason.decode()


def _version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _hdf5_of(path: str) -> dict[str, Any]:
    """The version and the plugin folders of a loaded HDF5."""
    library = open_loaded(path)
    numbers = [ctypes.c_uint() for _ in range(3)]
    known: dict[str, Any] = {"path": path, "version": None, "plugin_dirs": []}
    if hasattr(library, "H5get_libversion"):
        library.H5get_libversion(*(ctypes.byref(n) for n in numbers))
        known["version"] = ".".join(str(n.value) for n in numbers)
    if hasattr(library, "H5PLsize"):
        count, text = ctypes.c_uint(), ctypes.create_string_buffer(4096)
        library.H5PLsize(ctypes.byref(count))
        library.H5PLget.restype = ctypes.c_ssize_t
        for i in range(count.value):
            library.H5PLget(i, text, ctypes.c_size_t(len(text)))
            known["plugin_dirs"].append(os.fsdecode(text.value))
    return known


def get_config() -> dict[str, Any]:
    """What h5z_terp uses in this process, for a report of a fault; values that
    JSON takes::

        print(json.dumps(h5z_terp.get_config(), indent=2))

    - ``version``: terp's version; ``python`` and ``packages``: those of Python and
      of packages that work with terp, None if a package is not installed
    - ``library``: the path of libterp
    - ``engine``: the value of TERP_ENGINE, which tells the filter who codes
      chunks; ``"cpu"`` by default
    - ``instructions``: the instructions of the CPU's code, ``"avx2"`` or
      ``"baseline"``; None if an older libterp does not tell
    - ``threads``: the number of processors that this process may use
    - ``device``: the GPU that the CUDA engine uses, or None, and then
      ``no_device`` says why. To find out, terp opens the GPU.
    - ``plugin_dir``: the folder of terp's plugins; ``plugin_path``: the value of
      HDF5_PLUGIN_PATH
    - ``hdf5``: each loaded HDF5 library: its path, its version and the folders in
      which it looks for plugins
    """
    device, no_device = _device_of_engine()
    return {
        "version": _codec.version(),
        "python": sys.version.partition(" ")[0],
        "packages": {name: _version_of(name) for name in _PACKAGES},
        "library": _codec.LIBRARY_PATH,
        "engine": os.environ.get("TERP_ENGINE") or "cpu",
        "instructions": _codec.instructions(),
        "threads": _codec.thread_count(None),
        "device": device,
        "no_device": no_device,
        "plugin_dir": PLUGIN_DIR,
        "plugin_path": os.environ.get("HDF5_PLUGIN_PATH"),
        "hdf5": [_hdf5_of(path) for path in loaded_libraries("libhdf5")],
    }
