"""The plugin's tree of calls of a thread: which operator is inside which."""

from __future__ import annotations

from typing import Any

from tests.golden.comparison import fewest
from tests.golden.comparisons.plugin_operators import MODULES, NO_OPERATORS, OVERLOADS, tree
from tests.golden.outcome import Outcome
from tests.golden.plugin import Case
from tests.golden.plugin_tree import Node

ANALYSIS = "operators"
SECTIONS = ("tree",)
LIGHTNING = "of Lightning its ranges only"
RULES = (OVERLOADS, MODULES, LIGHTNING)

Span = tuple[int, int]
"""Start and end, ns; an operator has at most one of each."""


def compare(case: Case) -> Outcome:
    golden: dict[Span, Span | None] = {}
    _collect(case.golden, None, golden)
    return fewest(_listed(golden), lambda rules: _listed(_ours(case, rules)), RULES, 2 if case.in_doubles else 0)


def _listed(found: dict[Span, Span | None]) -> list[list[int]]:
    """Start and end of each operator and of the one around it, in order."""
    return [[*span, *(found[span] or (0, 0))] for span in sorted(found, key=lambda span: (span[0], -span[1]))]


def _collect(node: Any, around: Span | None, found: dict[Span, Span | None]) -> None:
    span = _ns(node["start_time"]), _ns(node["end_time"])
    if node["type"] == "Operator" and not node["name"].startswith(NO_OPERATORS):
        found[span], around = around, span
    for child in node["children"]:
        _collect(child, around, found)


def _ns(time: float) -> int:
    return round(time * 1000)


def _ours(case: Case, rules: frozenset[str]) -> dict[Span, Span | None]:
    """Of the thread that the plugin shows: the first."""
    trace = case.job.trace()
    if LIGHTNING in rules and trace.metadata.get("Framework") == "pytorch-lightning":
        return {}
    thread = int(case.golden["tid"])
    tids = trace.tracks.integer_tids()
    found: dict[Span, Span | None] = {}
    for node in tree(trace, rules).values():
        if tids[trace.track[node.row]] == thread and _counts(node):
            around = node.parent
            while around and not _counts(around):
                around = around.repeats or around.parent
            found[_span(trace, node)] = _span(trace, around) if around else None
    return found


def _counts(node: Node) -> bool:
    return node.operator and not node.repeats and not node.name.startswith(NO_OPERATORS)


def _span(trace: Any, node: Node) -> Span:
    return int(trace.start[node.row]), int(trace.end[node.row])
