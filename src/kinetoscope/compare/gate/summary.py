"""A gate's answer in words: a sentence, and the Markdown for a pull request.

Names come from traces, and the Markdown goes where others see it: they stand in code spans that nothing in them ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from kinetoscope.compare.gate.causes import Cause
from kinetoscope.compare.gate.gate import Check, Gate, is_doubtful
from kinetoscope.compare.statistics.numbers import THROUGHPUT, Numbers
from kinetoscope.views.numbers import MISSING, shown
from kinetoscope.views.text import brief, printable

_NAME: Final = 80
_NOTES: Final = 12

_WORDS: Final = {"worse": "worse", "better": "better", "same": "within the limit", "inconclusive": "inconclusive"}
_MARKS: Final = {True: "✗", False: "✓"}


def sentence(found: Gate) -> str:
    """The answer in one line."""
    failed = [check for check in found.checks if check.failed]
    if failed:
        worst = max(failed, key=lambda check: _worse_by(check) - check.limit.share)
        more = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
        return f"The gate failed: {_said(worst)}{more}."
    doubtful = found.doubtful
    if doubtful:
        which = doubtful[0].metric if len(doubtful) == 1 else f"{len(doubtful)} metrics"
        return (
            f"The gate passed, with doubt: whether {printable(which)} got worse cannot be told from these runs; more"
            " runs tell more (--strict fails this)."
        )
    return "The gate passed."


def markdown(found: Gate, causes: Sequence[Cause] = ()) -> str:
    """The summary for a pull request."""
    state = "failed" if not found.passed else "passed, with doubt" if found.doubtful else "passed"
    lines = [f"## Performance gate: {state}", "", _escaped(sentence(found)), "", *_table(found), "", _about(found)]
    if causes:
        lines += ["", "**What changed most in a step**", "", *_causes(causes)]
    if found.notes:
        notes = [f"- {_escaped(note)}" for note in found.notes[:_NOTES]]
        lines += ["", *notes]
    return "\n".join(lines) + "\n"


def interval(check: Check) -> str:
    """`+3.1% … +8.6%`, and how sure that is."""
    verdict = check.verdict
    if verdict.low is None or verdict.high is None or verdict.p_value is None:
        return MISSING
    return f"{signed(verdict.low)} … {signed(verdict.high)}"


def signed(value: float | None) -> str:
    """A change as people write it: `+5.2%`."""
    if value is None:
        return MISSING
    if math.isinf(value):
        return "new"
    text = shown(abs(value), "fraction")
    return text if value == 0 else f"{'+' if value > 0 else '−'}{text}"


def valued(value: float | None, check: Check) -> str:
    """A value of the metric with its unit."""
    text = shown(value, check.unit)
    return f"{text} samples/s" if check.metric == THROUGHPUT and text != MISSING else text


def changed(cause: Cause) -> str:
    """The change of a call's time: `+1.25 ms`."""
    return f"{'+' if cause.change >= 0 else '−'}{shown(abs(cause.change), 'ns')}"


def _said(check: Check) -> str:
    verdict, name = check.verdict, brief(printable(check.metric), _NAME)
    values = f"{valued(verdict.base, check)} → {valued(verdict.new, check)}"
    if verdict.word != "worse":
        return f"{name} may be worse ({values}), which --strict does not let pass"
    worse = signed(verdict.change) if verdict.change is None or not math.isinf(verdict.change) else "from nothing"
    return f"{name} is worse, {values} ({worse}), and may be worse by {shown(verdict.limit, 'fraction')}"


def _worse_by(check: Check) -> float:
    change = check.verdict.change or 0.0
    return change if check.verdict.higher_is_worse else -change


def _table(found: Gate) -> Iterator[str]:
    yield "| | metric | base | new | change | interval | limit | verdict |"
    yield "| --- | --- | ---: | ---: | ---: | --- | ---: | --- |"
    for check in found.checks:
        verdict = check.verdict
        mark = "?" if not check.failed and is_doubtful(verdict) else _MARKS[check.failed]
        word = _WORDS[verdict.word]
        cells = [
            mark,
            _code(check.metric),
            valued(verdict.base, check),
            valued(verdict.new, check),
            signed(verdict.change),
            interval(check),
            shown(verdict.limit, "fraction"),
            f"**{word}**" if check.failed else word,
        ]
        yield f"| {' | '.join(cells)} |"


def _causes(causes: Sequence[Cause]) -> Iterator[str]:
    yield "| call or kernel | base | new | change | |"
    yield "| --- | ---: | ---: | ---: | --- |"
    for each in causes:
        why = _escaped(each.status or each.kind)
        cells = [_code(each.name), shown(each.base, "ns"), shown(each.new, "ns"), changed(each), why]
        yield f"| {' | '.join(cells)} |"


def _about(found: Gate) -> str:
    sides = " against ".join(_counted(side) for side in (found.base, found.new))
    devices = sorted({name for run in (*found.base, *found.new) for name in run.environment.devices})
    on = f", on {' and '.join(map(_code, devices))}" if devices else ""
    return f"{sides}{on}."


def _counted(side: Sequence[Numbers]) -> str:
    steps = sorted({run.steps for run in side})
    many = f"{steps[0]}" if len(steps) == 1 else f"{steps[0]} to {steps[-1]}"
    runs = f"{len(side)} run{'s' if len(side) != 1 else ''}"
    return f"{runs} of {many} step{'s' if steps[-1] != 1 else ''}"


def _code(name: str) -> str:
    """A code span in a cell of a table: no backtick ends it, no bar ends the cell."""
    text = brief(printable(name), _NAME).replace("`", "'").replace("|", "\\|")
    return f"`{text}`"


def _escaped(text: str) -> str:
    """A note as text: no markup, no links, nobody is called by an @."""
    text = printable(text)
    for mark in "\\`*_[]<>#|~!":
        text = text.replace(mark, f"\\{mark}" if mark != "<" else "&lt;")
    return text.replace("@", "@\u200b").replace("://", ":\u200b//")
