"""Libraries that this process has loaded, on Linux, macOS and Windows."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator


def _paths_linux() -> Iterator[str]:
    with open("/proc/self/maps") as maps:
        for line in maps:
            if "/" in line:
                yield line.split(None, 5)[5].rstrip("\n")


def _paths_macos() -> Iterator[str]:
    system = ctypes.CDLL(None)
    name = system._dyld_get_image_name
    name.restype = ctypes.c_char_p
    for i in range(system._dyld_image_count()):
        yield os.fsdecode(name(ctypes.c_uint32(i)) or b"")


def _paths_windows() -> Iterator[str]:
    kernel = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined]
    process = ctypes.c_void_p(-1)  # this one
    modules = (ctypes.c_void_p * 4096)()
    nbytes = ctypes.c_uint32()
    kernel.K32EnumProcessModules(process, modules,
                                 ctypes.c_uint32(ctypes.sizeof(modules)),
                                 ctypes.byref(nbytes))
    path = ctypes.create_unicode_buffer(4096)
    for module in modules[:nbytes.value // ctypes.sizeof(ctypes.c_void_p)]:
        kernel.GetModuleFileNameW(ctypes.c_void_p(module), path,
                                  ctypes.c_uint32(len(path)))
        yield path.value


_paths = {"win32": _paths_windows, "darwin": _paths_macos}.get(sys.platform,
                                                              _paths_linux)


def loaded_libraries(name: str) -> list[str]:
    """Paths of the loaded libraries whose names begin with `name`, such as
    libhdf5; Windows drops "lib"."""
    if sys.platform == "win32":
        name = name.removeprefix("lib")
    return sorted({path for path in _paths()
                   if os.path.basename(path).startswith(name)
                   and "_hl" not in os.path.basename(path)})


def open_loaded(path: str) -> ctypes.CDLL:
    """Opens a loaded library, never the new file that may have replaced it."""
    if sys.platform == "win32":
        return ctypes.CDLL(path)
    return ctypes.CDLL(path, os.RTLD_NOLOAD | os.RTLD_LAZY)
