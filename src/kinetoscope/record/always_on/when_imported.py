"""Modules that are changed as soon as the program has imported them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any


def when_imported(acts: Mapping[str, Callable[[Any], object]]) -> None:
    """Call each with the module of its name: at once if that is imported, else right after it has been executed."""
    for name, act in acts.items():
        if name in sys.modules:
            act(sys.modules[name])
    sys.meta_path.insert(0, _WhenImported({name: act for name, act in acts.items() if name not in sys.modules}))


class _WhenImported:
    """A finder that finds nothing itself: it lets the others find a module, and acts once it was executed."""

    def __init__(self, acts: Mapping[str, Callable[[Any], object]]) -> None:
        self._acts = acts

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> Any:
        """The module's spec with a loader that goes on to the act; None for all others."""
        act = self._acts.get(name)
        others = (each for each in sys.meta_path if each is not self)
        spec = next((spec for each in others if (spec := each.find_spec(name, path, target))), None) if act else None
        if act is None or spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            act(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
