"""A gate's answer in words: a sentence; a table of the metrics; what changed most. As text, or Markdown for a review.

Names come from traces, and the Markdown goes where others see it: they stand in code spans that nothing in them ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from kinetoscope.compare.gate.causes import Causes, ChangedCall
from kinetoscope.compare.gate.gate import Check, Gate, is_doubtful
from kinetoscope.compare.statistics.numbers import THROUGHPUT, Numbers
from kinetoscope.views.markdown import CODE_CELLS, code, escaped, notes, table_row
from kinetoscope.views.names import briefs
from kinetoscope.views.numbers import MISSING, shown
from kinetoscope.views.terminal.lines import Line, plain, without_colour
from kinetoscope.views.text import brief, cells, padded, printable, wrapped

MAX_LINE_CELLS: Final = 110
"""Longer lines are hard to read."""

_METRIC_CELLS, _CALL_CELLS = 44, 52

_METRICS: Final = ("metric", "base", "new", "change", "interval", "limit", "verdict")
_CALLS: Final = ("base", "new", "change")
_MARKDOWN_WORDS: Final = {"same": "within the limit"}


def sentence(gate: Gate) -> str:
    """The answer in one line."""
    failed = [check for check in gate.checks if check.failed]
    if failed:
        worst = max(failed, key=_excess)
        more = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
        return f"The gate failed: {_failure(worst)}{more}."
    doubtful = gate.doubtful
    if doubtful:
        which = doubtful[0].metric if len(doubtful) == 1 else f"{len(doubtful)} metrics"
        return (
            f"The gate passed, with doubt: these runs do not show whether {printable(which)} got worse;"
            " more runs may (--strict fails this)."
        )
    return "The gate passed."


def lines(gate: Gate, causes: Causes | None = None, *, width: int = MAX_LINE_CELLS) -> Iterator[Line]:
    """The whole answer, in at most `width` cells but for the tables."""
    width = min(width, MAX_LINE_CELLS)
    yield from (plain(line, "bold") for line in wrapped(sentence(gate), width))
    yield plain()
    yield from _aligned(table(gate))
    if causes and causes.sentence:
        yield plain()
        yield from (plain(line) for line in wrapped(causes.sentence, width))
    if causes and causes.calls:
        yield plain()
        names = briefs([call.name for call in causes.calls], _CALL_CELLS)
        calls = [[name, *_times(call), _reason(call)] for name, call in zip(names, causes.calls, strict=True)]
        yield from _aligned([["what changed most in a step", *_CALLS, ""], *calls])
    if gate.notes:
        yield plain()
    for note in gate.notes:
        yield from (plain(line, "dim") for line in wrapped(f"· {printable(note)}", width, indent="  "))


def table(gate: Gate) -> list[Sequence[str]]:
    """The head, and a row for each metric."""
    rows = [
        [name, *_measures(check), f"{check.verdict.word}: fails" if check.failed else check.verdict.word]
        for name, check in zip(briefs([check.metric for check in gate.checks], _METRIC_CELLS), gate.checks, strict=True)
    ]
    return [_METRICS, *rows]


def text(gate: Gate, causes: Causes | None = None) -> str:
    """The same without colour."""
    return without_colour(lines(gate, causes))


def markdown(gate: Gate, causes: Causes | None = None) -> str:
    """The summary for a pull request."""
    state = "failed" if not gate.passed else "passed, with doubt" if gate.doubtful else "passed"
    out = [f"## Performance gate: {state}", "", escaped(sentence(gate)), ""]
    out += [table_row(["", *_METRICS]), "| --- | --- | ---: | ---: | ---: | --- | ---: | --- |"]
    for check in gate.checks:
        mark = "✗" if check.failed else "?" if is_doubtful(check.verdict) else "✓"
        word = _MARKDOWN_WORDS.get(check.verdict.word, check.verdict.word)
        out.append(table_row([mark, code(check.metric), *_measures(check), f"**{word}**" if check.failed else word]))
    out += ["", _runs(gate)]
    if causes and causes.sentence:
        out += ["", escaped(causes.sentence)]
    if causes and causes.calls:
        out += ["", "**What changed most in a step**", "", table_row(["call or kernel", *_CALLS, ""])]
        out += ["| --- | ---: | ---: | ---: | --- |"]
        out += [table_row([code(call.name), *_times(call), escaped(_reason(call))]) for call in causes.calls]
    if gate.notes:
        out += ["", *notes(gate.notes)]
    return "\n".join(out) + "\n"


# --- cells


def _measures(check: Check) -> list[str]:
    """Base, new, change, interval and limit of a metric."""
    verdict = check.verdict
    interval = MISSING
    if verdict.low is not None and verdict.high is not None and verdict.p_value is not None:
        interval = f"{signed(verdict.low)} … {signed(verdict.high)}"
    values = [_valued(verdict.base, check), _valued(verdict.new, check)]
    return [*values, signed(verdict.change), interval, shown(verdict.limit, "fraction")]


def _times(call: ChangedCall) -> list[str]:
    """Base, new and change of a call: `+1.25 ms`."""
    change = f"{'+' if call.change >= 0 else '−'}{shown(abs(call.change), 'ns')}"
    return [shown(call.base, "ns"), shown(call.new, "ns"), change]


def _reason(call: ChangedCall) -> str:
    return printable(call.status or call.kind)


def signed(value: float | None) -> str:
    """A change as people write it: `+5.2%`."""
    if value is None:
        return MISSING
    if math.isinf(value):
        return "new"
    number = shown(abs(value), "fraction")
    return number if value == 0 else f"{'+' if value > 0 else '−'}{number}"


def _valued(value: float | None, check: Check) -> str:
    """A value of the metric with its unit."""
    number = shown(value, check.unit)
    return f"{number} samples/s" if check.metric == THROUGHPUT and number != MISSING else number


def _failure(check: Check) -> str:
    verdict, name = check.verdict, brief(printable(check.metric), CODE_CELLS)
    values = f"{_valued(verdict.base, check)} → {_valued(verdict.new, check)}"
    if verdict.word != "worse":
        return f"{name} may be worse ({values}), which --strict does not let pass"
    worse = signed(verdict.change) if verdict.change is None or not math.isinf(verdict.change) else "from nothing"
    return f"{name} is worse, {values} ({worse}), where {shown(verdict.limit, 'fraction')} is the limit"


def _excess(check: Check) -> float:
    """By how much the metric is worse than its limit."""
    change = check.verdict.change or 0.0
    return (change if check.verdict.higher_is_worse else -change) - check.limit.share


def _runs(gate: Gate) -> str:
    sides = " against ".join(_counted(side) for side in (gate.base, gate.new))
    devices = sorted({name for run in (*gate.base, *gate.new) for name in run.environment.devices})
    on = f", on {' and '.join(map(code, devices))}" if devices else ""
    return f"{sides}{on}."


def _counted(side: Sequence[Numbers]) -> str:
    steps = sorted({run.steps for run in side})
    many = f"{steps[0]}" if len(steps) == 1 else f"{steps[0]} to {steps[-1]}"
    return f"{len(side)} run{'s' if len(side) != 1 else ''} of {many} step{'s' if steps[-1] != 1 else ''}"


# --- text


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[Line]:
    """The rows as a table: the first column and the last at the left, the others at the right."""
    widths = [max(map(cells, column)) for column in zip(*rows, strict=True)]
    last = len(widths) - 1
    for place, row in enumerate(rows):
        parts = [padded(part, widths[at], right=0 < at < last) for at, part in enumerate(row)]
        yield plain("  ".join(parts).rstrip(), "dim" if place == 0 else "")
