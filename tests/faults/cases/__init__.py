"""All cases: one module a family, `CASES` in each; and the healthy programs."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import replace
from typing import Final

from tests.faults.case import Case

FAMILIES: Final = {
    "data": "Data",
    "host": "Host",
    "device": "Device",
    "memory": "Memory",
    "ranks": "Across ranks",
    "recording": "Recording",
    "mixes": "Mixes",
}


def cases() -> tuple[Case, ...]:
    """Those of all families, in their order."""
    found: list[Case] = []
    for module, family in FAMILIES.items():
        path = f"{__name__}.{module}"
        if importlib.util.find_spec(path):
            found += [replace(case, family=case.family or family) for case in importlib.import_module(path).CASES]
    return tuple(found)
