"""The tool, ``terp``, in h5py's HDF5: the package brings none of its own."""

import ctypes
import os
import sys

from ._codec import PREFIX


def main() -> None:
    # It uses functions as HDF5 1.10 declared them, which later ones keep.
    os.environ["HDF5_DISABLE_VERSION_CHECK"] = "2"
    import h5py  # noqa: F401, loads the library

    from . import _hdf5, _loaded

    _hdf5.register()
    # On Windows the tool asks for the library by its name, hdf5.dll.
    suffix = "dll" if sys.platform == "win32" else "so"
    if sys.platform != "win32":
        for path in _loaded.loaded_libraries("libhdf5"):
            ctypes.CDLL(path, os.RTLD_GLOBAL | os.RTLD_LAZY)
    tool = ctypes.CDLL(str(PREFIX / "lib" / f"terp_tool.{suffix}"))
    words = [os.fsencode(word) for word in ("terp", *sys.argv[1:])]
    sys.exit(tool.main(len(words), (ctypes.c_char_p * (len(words) + 1))(*words)))


if __name__ == "__main__":
    main()
