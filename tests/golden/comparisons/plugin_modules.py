"""The plugin's modules: calls, operators, and time on the host and on the device, of the forward pass."""

from __future__ import annotations

import re
from typing import Any

from kinetoscope import Trace, modules
from kinetoscope.model.execution.marks import MODULE
from tests.golden import plugin_tree
from tests.golden.comparison import fewest
from tests.golden.outcome import Outcome
from tests.golden.plugin import Case

ANALYSIS = "modules"
SECTIONS = ("module",)
SELF = "self time without operators"
RULES = (SELF,)


def compare(case: Case) -> Outcome:
    golden: dict[tuple[str, ...], Any] = {}
    for module in case.golden["data"]:
        _collect(module, (), golden)
    return fewest(golden, lambda rules: _ours(case, rules), RULES, 0.01)


def _collect(module: Any, around: tuple[str, ...], found: dict[tuple[str, ...], Any]) -> None:
    """A module that is called several times stands several times in the plugin's tree, each time with all calls."""
    path = (*around, module["name"].rpartition(".")[2])  # Lightning's are dotted
    found[path] = {
        "calls": module["occurences"],
        "operators": module["operators"],
        "host": module["host_duration"],
        "host_self": module["self_host_duration"],
        "device": module["device_duration"],
    }
    for child in module["children"]:
        _collect(child, path, found)


def _ours(case: Case, rules: frozenset[str]) -> dict[tuple[str, ...], Any]:
    found = {
        tuple(_TYPE.sub("", name) for name in row["path"].split("/")): {
            "calls": row["calls"],
            "operators": row["operators"],
            "host": row["host_forward"] / 1000,
            "host_self": row["host_self"] / 1000,
            "device": (row["device_forward"] or 0) / 1000,
        }
        for row in modules(case.job).frame.to_dicts()
    }
    if SELF in rules:
        for path, time in _self_times(case.job.trace()).items():
            found[path]["host_self"] = time
    return found


_TYPE = re.compile(r"\(\w+\)$")
"""What we add to the names of Lightning's modules."""


def _self_times(trace: Trace) -> dict[tuple[str, ...], float]:
    """The plugin's own: without operators, and without the backward pass."""
    found: dict[tuple[str, ...], float] = {}
    for node in plugin_tree.nodes(trace, str, annotations=False, backward_outside_modules=True).values():
        if _module(node):
            inside = sum(_duration(trace, child) for child in node.children)
            found[_path(node)] = found.get(_path(node), 0) + (_duration(trace, node) - inside) / 1000
    return found


def _path(node: plugin_tree.Node | None) -> tuple[str, ...]:
    if node is None:
        return ()
    return (*_path(node.parent), *([_module(node)] if _module(node) else []))


def _module(node: plugin_tree.Node) -> str:
    """Its name; "" for what is no module."""
    if node.name.startswith(LIGHTNING):
        return node.name.rpartition(": ")[2].rpartition(".")[2]
    return node.name.removeprefix(MODULE) if node.name.startswith(MODULE) else ""


def _duration(trace: Trace, node: plugin_tree.Node) -> int:
    return int(trace.end[node.row] - trace.start[node.row])


LIGHTNING = "[pl][module]"
