"""TraceLens' golden values: what it prints for each operator and shape of two traces, and what we say of these."""

from __future__ import annotations

import csv
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from kinetoscope import Trace, read
from kinetoscope.algorithms.trees.tree import ancestor
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.execution.calls import call_name
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.roofline.calls import costed_calls
from kinetoscope.model.roofline.formulas.arguments import Arguments, Tensor, arguments_of
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.event_kinds import EventKind
from tests.catalog.samples import SHARED

NAME: Final = "TraceLens"
FOLDER: Final = Path(__file__).parent / "tracelens"
"""A file for each trace: facts that TraceLens printed, of which its repository holds the tables."""

TRACES: Final = {
    "owlv2_h100": "owlv2_h100/google_owlv2-large-patch14-ensemble__1016001.json.gz",
    "resnet_ddp_mi300": "resnet_ddp_mi300/resnet_act_checkpoint.json.gz",
}
_LETTERS: Final = {
    "c10::BFloat16": "b", "float": "f", "double": "d", "long int": "l", "int": "i", "unsigned char": "u", "bool": "?",
    "TensorList": "T",
}  # fmt: skip

NO_MODEL: Final = "TraceLens has no formula for it"


@dataclass(frozen=True)
class Figures:
    """What calls of one operator with the same shapes do, on average.

    Attributes:
        calls: how many there are.
        flop, bytes: of a call; None where it has no formula, or none of its work is on a device.
        microseconds: device time of a call.
        given: the arguments of one of them.
        links: what its transfers pass.
    """

    calls: int
    flop: float | None
    bytes: float | None
    microseconds: float
    given: Arguments
    links: frozenset[str]


@functools.cache
def table(name: str) -> dict[str, dict[str, str]]:
    """The rows of a trace, by operator, shapes and types."""
    lines = [line for line in (FOLDER / f"{name}.tsv").read_text().splitlines() if not line.startswith("#")]
    rows = csv.DictReader(lines, delimiter="\t")
    return {f"{row['operator']} {row['shapes']} {row['types']}": row for row in rows}


@functools.cache
def sections() -> tuple[tuple[str, str], ...]:
    """Trace and row of all golden values."""
    return tuple((name, section) for name in TRACES for section in table(name))


NOT_THIS: Final = {section: NO_MODEL for name, section in sections() if not table(name)[section]["flop"]}
"""Rows that have no model, and why they cannot be compared."""


@dataclass(frozen=True)
class Case:
    """A row of the golden values of a trace."""

    name: str
    section: str

    error: None = None

    @property
    def golden(self) -> dict[str, float]:
        """TraceLens' answer: calls; operations, bytes and device time of a call; without what it does not say."""
        row = table(self.name)[self.section]
        return {column: float(row[column]) for column in ("calls", "flop", "bytes", "microseconds") if row[column]}

    @property
    def figures(self) -> Figures:
        """Ours of the same calls."""
        return _figures(self.name)[self.section]


@functools.lru_cache(maxsize=2)
def _figures(name: str) -> dict[str, Figures]:
    trace = read(SHARED / TRACES[name], jobs=1).trace()
    rows: dict[str, list[int]] = {}
    wanted = table(name)
    for row, key in _keys(trace):
        if key in wanted:
            rows.setdefault(key, []).append(row)
    return {key: _of_calls(trace, np.array(each, np.int32)) for key, each in rows.items()}


def _keys(trace: Trace) -> Iterator[tuple[int, str]]:
    """Each call of an operator with the text by which the golden values know it."""
    ops = trace.rows(EventKind.HOST_OP)
    dims, types, concrete = (
        arguments.codes(trace, each, ops).tolist() for each in ("input_dims", "input_types", "concrete_inputs")
    )
    known: dict[Any, str] = {}
    for row, *codes in zip(ops.tolist(), trace.name[ops].tolist(), dims, types, concrete, strict=True):
        text = known.get(tuple(codes))
        if text is None and codes[1] >= 0 and codes[2] >= 0:
            label = call_name(trace.strings.label(codes[0]), EventKind.HOST_OP)
            shapes, letters = _written(trace.strings.nested(codes[1]), trace.strings.nested(codes[2]))
            if label == "aten::arange":
                label += "(" + ",".join(each for each in trace.strings.nested(codes[3]) if each) + ")"
            text = known[tuple(codes)] = f"{label} {shapes} {letters}"
        if text is not None:
            yield row, text


def _written(dims: list[Any], types: list[str]) -> tuple[str, str]:
    """Shapes and types of the arguments that are tensors."""
    shapes, letters = [], ""
    for sizes, type_ in zip(dims, types, strict=True):
        if type_ not in _LETTERS:
            continue
        letters += _LETTERS[type_]
        if sizes and isinstance(sizes[0], list):
            shapes.append("[" + " ".join("x".join(map(str, each)) for each in sizes) + "]")
        else:
            shapes.append("x".join(map(str, sizes)) or "()")
    return " ".join(shapes), letters


def _of_calls(trace: Trace, rows: Any) -> Figures:
    """The figures of calls: the work of all that they call, and its costs, each once."""
    work, costed = device_work(trace), costed_calls(trace)
    is_wanted = np.zeros(len(trace), np.bool_)
    is_wanted[rows] = True
    owner = np.where(work.caller >= 0, ancestor(call_tree(trace).parent, is_wanted)[work.caller], -1)
    mine = np.flatnonzero(owner >= 0)
    charged = np.unique(costed.call[mine])
    variants = [costed.variants[place] for place in costed.variant[charged[charged >= 0]].tolist()]
    moved = [each.bytes for each in variants]
    codes = [
        int(arguments.codes(trace, each, rows[:1])[0])
        for each in ("input_dims", "input_types", "input_strides", "concrete_inputs")
    ]
    given = arguments_of(*(trace.strings.nested(code) if code >= 0 else None for code in codes))
    known = bool(variants) and (charged >= 0).all()
    return Figures(
        calls=len(rows),
        flop=sum(each.flop + each.cost.vector_flop for each in variants) / len(rows) if known else None,
        bytes=sum(each for each in moved if each is not None) / len(rows) if known and None not in moved else None,
        microseconds=float(work.duration[mine].sum()) / 1000 / len(rows),
        given=given,
        links=frozenset(each.link for each in variants),
    )


def tensors(given: Arguments) -> list[Tensor]:
    """The tensors among arguments, those of lists too."""
    listed: list[Tensor] = []
    for value in given.values:
        listed += value if isinstance(value, tuple) else [value] if value is not None else []
    return listed
