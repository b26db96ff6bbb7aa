"""Runs functions when other packages have imported their modules.

h5z_terp does not import packages that a program may not need. What it tells
them, it tells them once they are imported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
import importlib.abc
import importlib.machinery
import sys
import threading
from types import ModuleType
from typing import Any
import warnings

Action = Callable[[Any], None]

_lock = threading.RLock()
_actions: dict[str, Action] = {}


def _run(action: Action, module: ModuleType) -> None:
    """An unknown version of a package must not fail because of terp."""
    try:
        action(module)
    except Exception as error:  # noqa: BLE001
        warnings.warn(f"h5z_terp does not know this version of {module.__name__}: "
                      f"{error!r}", RuntimeWarning, stacklevel=2)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds nothing itself: lets the other finders find a module, and makes its
    loader run the action afterwards."""

    def find_spec(self, name: str, path: Sequence[str] | None,
                  target: ModuleType | None = None
                  ) -> importlib.machinery.ModuleSpec | None:
        with _lock:
            action = _actions.get(name)
        if action is None:
            return None
        spec: importlib.machinery.ModuleSpec | None = None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = (find(name, path, target)
                    if find is not None and finder is not self else None)
            if spec is not None:
                break
        if spec is None:
            return None
        loader: Any = spec.loader
        if not hasattr(loader, "exec_module"):
            return None
        load = loader.exec_module

        def load_and_run(module: ModuleType) -> None:
            load(module)
            with _lock:
                waiting = _actions.pop(name, None)
            if waiting is not None:
                _run(waiting, module)

        loader.exec_module = load_and_run
        return spec


def when_imported(name: str, action: Action) -> None:
    """Runs ``action(module)`` now if the module is imported, and otherwise right
    after its first import."""
    module = sys.modules.get(name)
    if module is not None:
        _run(action, module)
        return
    with _lock:
        if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
            sys.meta_path.insert(0, _Finder())
        _actions[name] = action
