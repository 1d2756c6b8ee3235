"""The answer of a gate in one sentence, and its numbers as people write them."""

from __future__ import annotations

import math

from kinetoscope.compare.gate.gate import Check, Gate
from kinetoscope.compare.statistics.numbers import THROUGHPUT
from kinetoscope.views.markdown import CODE_CELLS
from kinetoscope.views.numbers import MISSING, shown
from kinetoscope.views.text import brief, printable


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


def signed(value: float | None) -> str:
    """A change as people write it: `+5.2%`."""
    if value is None:
        return MISSING
    if math.isinf(value):
        return "new"
    number = shown(abs(value), "fraction")
    return number if value == 0 else f"{'+' if value > 0 else '−'}{number}"


def value_text(value: float | None, check: Check) -> str:
    """A value of the metric with its unit."""
    number = shown(value, check.unit)
    return f"{number} samples/s" if check.metric == THROUGHPUT and number != MISSING else number


def _failure(check: Check) -> str:
    verdict, name = check.verdict, brief(printable(check.metric), CODE_CELLS)
    values = f"{value_text(verdict.base, check)} → {value_text(verdict.new, check)}"
    if verdict.word != "worse":
        return f"{name} may be worse ({values}), which --strict does not let pass"
    worse = signed(verdict.change) if verdict.change is None or not math.isinf(verdict.change) else "from nothing"
    return f"{name} is worse, {values} ({worse}), where {shown(verdict.limit, 'fraction')} is the limit"


def _excess(check: Check) -> float:
    """By how much the metric is worse than its limit."""
    change = check.verdict.change or 0.0
    return (change if check.verdict.higher_is_worse else -change) - check.limit.share
