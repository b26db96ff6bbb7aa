"""Teaches other packages terp's filter. Importing h5z_terp calls `teach`; each
package learns when it is imported (_imports.py)."""

from __future__ import annotations

from typing import Any

from . import _imports
from ._settings import Terp


def _teach_h5py(filters: Any) -> None:
    """`compression` may be an object of Terp."""
    filters.FilterRefBase.register(Terp)


_LESSONS = {
    "h5py._hl.filters": _teach_h5py,
}


def teach() -> None:
    for name, lesson in _LESSONS.items():
        _imports.when_imported(name, lesson)
