"""All cases: one module a family, `CASES` in each; and the healthy programs, `HEALTHY` where a family has its own."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import Final

from tests.faults import healthy as alone
from tests.faults.case import Case, Healthy

FAMILIES: Final = {
    "data": "Data",
    "host": "Host",
    "device": "Device",
    "memory": "Memory",
    "ranks": "Across ranks",
    "serving": "Serving",
    "recording": "Recording",
    "autograd": "Autograd",
    "causes": "Other causes",
    "mixes": "Mixes",
    "light": "Light faults",
    "efficiency": "Device efficiency",
}


def cases() -> tuple[Case, ...]:
    """Those of all families, in their order."""
    return tuple(replace(case, family=case.family or family) for family, module in _modules() for case in module.CASES)


def healthy() -> tuple[Healthy, ...]:
    """Programs of one rank, then those of families that have more."""
    return (*alone.HEALTHY, *(each for _, module in _modules() for each in getattr(module, "HEALTHY", ())))


def _modules() -> Iterator[tuple[str, ModuleType]]:
    for name, family in FAMILIES.items():
        path = f"{__name__}.{name}"
        if importlib.util.find_spec(path):
            yield family, importlib.import_module(path)
