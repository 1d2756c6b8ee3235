"""Commands and calls that show the evidence of a finding."""

from __future__ import annotations

import shlex
from typing import Any, Final

from kinetoscope.advisor.finding import Evidence
from kinetoscope.analyses import named, names
from kinetoscope.model.steps.grammar import parameter_value, time_range_text
from kinetoscope.views.text import printable

_NS_PER_US: Final = 1000
_SHORTEST_ROUNDED_NS: Final = 10**6
"""End of a range from which on its ends are whole microseconds."""


def command(evidence: Evidence, path: str, ranks: int) -> str:
    """`kinetoscope show step-breakdown run --ranks 3 --time-range 1.2ms..3.4ms`; "" where no analysis shows it.

    Args:
        evidence: of a finding.
        path: the run, as the command names it.
        ranks: of the job; of one rank, the command names none.
    """
    if not evidence.analysis:
        return ""
    chosen = arguments(evidence, ranks)
    options = {"ranks": chosen.get("ranks"), **chosen.get("params", {}), "time-range": chosen.get("time")}
    words = ["kinetoscope", "show", evidence.analysis.replace("_", "-"), printable(path)]
    for name, value in options.items():
        if value is not None:
            words += [f"--{name.replace('_', '-')}", printable(str(value))]
    return " ".join(map(shlex.quote, words))


def call_of(evidence: Evidence) -> str:
    """`kinetoscope.idle_breakdown(job, by="stream", select=kinetoscope.Selection(time=(0, 10)))`."""
    if evidence.analysis is None:
        return ""
    if evidence.analysis not in names():
        return f"kinetoscope.{evidence.analysis}(job)"
    types = {each.name: each for each in named(evidence.analysis).parameters}
    words = ["job"]
    for name, text in evidence.params.items():
        words.append(f"{name}={parameter_value(types[name], str(text))!r}" if name in types else f"{name}={text!r}")
    if evidence.time_range is not None:
        words.append(f"select=kinetoscope.Selection(time={evidence.time_range})")
    return f"kinetoscope.{evidence.analysis}({', '.join(words)})"


def arguments(evidence: Evidence, ranks: int) -> dict[str, Any]:
    """Options of the evidence's analysis: its ranks, parameters and time, as far as they are not all."""
    chosen: dict[str, Any] = {}
    if evidence.rank is not None and ranks > 1:
        chosen["ranks"] = str(evidence.rank)
    if evidence.params:
        chosen["params"] = dict(evidence.params)
    if evidence.time_range is not None:
        chosen["time"] = time_range_text(*_outwards(*evidence.time_range))
    return chosen


def _outwards(start: int, end: int) -> tuple[int, int]:
    """A range widened to whole microseconds."""
    if end < _SHORTEST_ROUNDED_NS:
        return start, end
    return start // _NS_PER_US * _NS_PER_US, -(-end // _NS_PER_US) * _NS_PER_US
