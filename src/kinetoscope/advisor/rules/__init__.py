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
        "too_few_workers",
        "slow_first_batch",
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
def families() -> dict[str, tuple[Rule, ...]]:
    """All rules by family, in the order of `FAMILIES`."""
    return {
        family: tuple(importlib.import_module(f"{__name__}.{name}").RULE for name in names)
        for family, names in FAMILIES.items()
    }


@cache
def rules() -> tuple[Rule, ...]:
    """All rules, in the order of `FAMILIES`."""
    return tuple(rule for of_family in families().values() for rule in of_family)
