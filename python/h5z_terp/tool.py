"""The tool ``terp``, which runs with h5py's HDF5: the package has none."""

import ctypes
import os
import sys

from ._codec import PREFIX


def main() -> None:
    # The tool uses the functions of HDF5 1.10, which later versions keep.
    os.environ["HDF5_DISABLE_VERSION_CHECK"] = "2"
    import h5py  # noqa: F401, loads the library

    from . import _hdf5, _loaded

    _hdf5.register()
    # On Windows the tool finds the library by its name, hdf5.dll.
    suffix = "dll" if sys.platform == "win32" else "so"
    if sys.platform != "win32":
        for path in _loaded.loaded_libraries("libhdf5"):
            ctypes.CDLL(path, os.RTLD_GLOBAL | os.RTLD_LAZY)
    tool = ctypes.CDLL(str(PREFIX / "lib" / f"terp_tool.{suffix}"))
    words = [os.fsencode(word) for word in ("terp", *sys.argv[1:])]
    sys.exit(tool.main(len(words), (ctypes.c_char_p * (len(words) + 1))(*words)))


if __name__ == "__main__":
    main()
