"""Gate: did anything get worse, beyond noise? A sentence, a line for each metric, and what changed most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kinetoscope.compare.gate.causes import Causes, ChangedCall
from kinetoscope.compare.gate.gate import Check, Gate, is_doubtful
from kinetoscope.compare.statistics.numbers import Numbers
from kinetoscope.pages.blocks import Block, NoteBlock, Page
from kinetoscope.pages.grid import GridBlock, GridRow
from kinetoscope.pages.sentences.gate import sentence, signed, value_text
from kinetoscope.views.numbers import MISSING, shown

_METRICS: Final = ("metric", "base", "new", "change", "interval", "limit", "verdict")
_CALLS: Final = ("call or kernel", "base", "new", "change", "")


def of_gate(gate: Gate, causes: Causes | None = None) -> Page:
    """The whole answer; with `causes`, what made it fail."""
    metrics = GridBlock("", _METRICS, [*map(_metric, gate.checks)], named=True, whole=True)
    blocks = (metrics, *(_causes(causes) if causes is not None else ()))
    return Page("gate", "", sentence(gate), (_runs(gate),), blocks, gate.notes)


def _metric(check: Check) -> GridRow:
    verdict = check.verdict
    interval = MISSING
    if verdict.low is not None and verdict.high is not None and verdict.p_value is not None:
        interval = f"{signed(verdict.low)} … {signed(verdict.high)}"
    mark = "✗" if check.failed else "?" if is_doubtful(verdict) else "✓"
    values = (value_text(verdict.base, check), value_text(verdict.new, check), signed(verdict.change), interval)
    word = f"{mark} {verdict.word}{': fails' if check.failed else ''}"
    return GridRow((check.metric, *values, shown(verdict.limit, "fraction"), word), strong=check.failed)


def _causes(causes: Causes) -> Iterator[Block]:
    if causes.sentence:
        yield NoteBlock(causes.sentence)
    if causes.calls:
        yield GridBlock("What changed most in a step", _CALLS, [*map(_call, causes.calls)], named=True, whole=True)


def _call(call: ChangedCall) -> GridRow:
    change = f"{'+' if call.change >= 0 else '−'}{shown(abs(call.change), 'ns')}"
    return GridRow((call.name, shown(call.base, "ns"), shown(call.new, "ns"), change, call.status or call.kind))


def _runs(gate: Gate) -> str:
    """How many runs are held against how many, and on which devices."""
    sides = " against ".join(_counted(side) for side in (gate.base, gate.new))
    devices = sorted({name for run in (*gate.base, *gate.new) for name in run.environment.devices})
    on = f", on {' and '.join(devices)}" if devices else ""
    return f"{sides}{on}."


def _counted(side: Sequence[Numbers]) -> str:
    steps = sorted({run.steps for run in side})
    many = f"{steps[0]}" if len(steps) == 1 else f"{steps[0]} to {steps[-1]}"
    return f"{len(side)} run{'s' if len(side) != 1 else ''} of {many} step{'s' if steps[-1] != 1 else ''}"
