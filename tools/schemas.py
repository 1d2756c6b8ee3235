"""Writes the schemas of the operators that have formulas: python tools/schemas.py, with torch.

Reading traces needs no torch, so `model/roofline/formulas/schemas.txt` keeps what torch declares: a line for each
overload, kinds and names of its arguments, without defaults and without places for results. Lines of operators that the
installed torch does not declare are kept: those of libraries, and of older releases, are written by hand.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

from kinetoscope.model.roofline.formulas.family import NamedFormula
from kinetoscope.model.roofline.formulas.registry import ENTRIES
from kinetoscope.model.roofline.formulas.schemas import TABLE

_SCRIPTING = re.compile(r"str|int|float|bool|complex|any|list_.*|.*hacked_twin")
"""Overloads that only TorchScript has."""


def main() -> None:
    """Write the table."""
    TABLE.write_text(table(), "utf-8")
    sys.stdout.write(f"{TABLE}: {len(table().splitlines())} lines\n")


def table() -> str:
    """The whole table."""
    import torch  # the other parts of this file are of use without it

    declared: dict[str, list[Any]] = {}
    for each in torch._C._jit_get_all_schemas():
        declared.setdefault(each.name, []).append(each)
    kept: dict[str, list[str]] = {}
    for line in TABLE.read_text("utf-8").splitlines():
        kept.setdefault(line.partition("(")[0], []).append(line)
    lines: list[str] = []
    for name in sorted(operators()):
        lines += dict.fromkeys(_overloads(declared[name])) if name in declared else kept.get(name, [])
    return "\n".join(lines) + "\n"


def operators() -> Iterator[str]:
    """Those whose formulas ask for arguments by name."""
    for name, entry in ENTRIES.items():
        if isinstance(entry.formula, NamedFormula) and entry.formula.is_by_name:
            yield name


def _overloads(declared: list[Any]) -> Iterator[str]:
    """A line for each overload, the usual one first."""
    tensors = [each for each in declared if any("Tensor" in str(argument.type) for argument in each.arguments)]
    usual = str(min(tensors, key=lambda each: bool(each.overload_name)).arguments[0].type)
    for each in sorted(tensors, key=lambda each: bool(each.overload_name)):
        is_of_lists = str(each.arguments[0].type) == "List[Tensor]" != usual
        if not _SCRIPTING.fullmatch(each.overload_name) and not is_of_lists:
            yield f"{each.name}({', '.join(_argument(argument) for argument in each.arguments if not argument.is_out)})"


def _argument(argument: Any) -> str:
    name = "input" if argument.name == "self" else argument.name
    kind = str(argument.type)
    if kind == "Tensor":
        return f"Tensor {name}"
    if kind == "Optional[Tensor]":
        return f"Tensor? {name}"
    return f"Tensor[] {name}" if "Tensor" in kind else name


if __name__ == "__main__":
    main()
