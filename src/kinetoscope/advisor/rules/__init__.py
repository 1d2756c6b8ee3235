"""The rules: one module each, one line each here.

A module has `RULE`, a `Rule`; its function's docstring says what is checked, why it matters and what to do.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Final

from kinetoscope.advisor.rule import Rule

FAMILIES: Final[dict[str, tuple[str, ...]]] = {
    "Data": (
        "loading_in_the_main_process",
    ),
    "Host": (
    ),
    "Device": (
    ),
    "Memory": (
    ),
    "Across ranks": (
    ),
    "Recording": (
    ),
}  # fmt: skip
"""All rules, below what they are about, in the order of their codes."""


@cache
def rules() -> tuple[Rule, ...]:
    """All rules, in the order of `FAMILIES`."""
    return tuple(importlib.import_module(f"{__name__}.{name}").RULE for names in FAMILIES.values() for name in names)
