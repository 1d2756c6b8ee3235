"""Operators: against a brute-force twin, torch's own tables, and the TensorBoard plugin's."""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinetoscope.analyses.operators import operators
from kinetoscope.model.device import device_work
from kinetoscope.model.selection import ALL, Selection
from kinetoscope.reading import read
from kinetoscope.schema import Result
from tests.drawn import Event, annotation, event, job, kernel, launch, memory, op, python

OWN = Path(__file__).parents[1] / "traces"
SHARED = Path(__file__).resolve().parents[3] / "shared"

NUMBERS = (
    "calls",
    "host_total",
    "host_self",
    "device_total",
    "device_self",
    "device_total_busy",
    "device_self_busy",
    "host_memory_total",
    "host_memory_self",
)
Key = tuple[str, ...]


def by_key(result: Result, *keys: str, numbers: tuple[str, ...] = NUMBERS) -> dict[Key, list[int | None]]:
    rows = {tuple(row[key] for key in keys): [row[n] for n in numbers] for row in result.frame.iter_rows(named=True)}
    assert len(rows) == len(result)
    return rows


def load(path: Path) -> Any:
    opened = gzip.open(path) if path.suffix == ".gz" else path.open("rb")
    with opened as stream:
        return json.load(stream)


def shared(*parts: str) -> Path:
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{path.name} is not here: shared traces and golden values are not part of the project")
    return path


# --- the brute-force twin


@dataclass(eq=False)
class Node:
    event: Event
    inside: list[Node] = field(default_factory=list)
    around: Node | None = None

    @property
    def name(self) -> str:
        return re.sub("ProfilerStep#.*", "ProfilerStep*", self.event["name"])

    @property
    def kind(self) -> str:
        kinds = {"cpu_op": "operator", "user_annotation": "annotation", "cuda_runtime": "runtime"}
        return kinds.get(self.event["cat"], "python")

    @property
    def span(self) -> tuple[int, int]:
        start = round(self.event["ts"] * 1000)
        return start, start + round(self.event["dur"] * 1000)

    def leave_out(self) -> None:
        """What is inside it is then inside what is around it."""
        for each in self.inside:
            each.around = self.around
        if self.around:
            self.around.inside.remove(self)
            self.around.inside += self.inside

    def path(self) -> list[Node]:
        return [self, *(self.around.path() if self.around else [])]


def nested(events: list[Event]) -> list[Node]:
    nodes = []
    for tid in (1, 2):
        stack: list[Node] = []
        here = [Node(each) for each in events if each["tid"] == tid and each["ph"] == "X" and each["cat"] != "kernel"]
        for node in sorted(here, key=lambda node: (node.span[0], -node.span[1])):
            if node.name == "aten::is_leaf":
                continue
            nodes.append(node)
            if node.name.startswith("gloo:"):
                continue
            while stack and (node.span[0] >= stack[-1].span[1] or node.span[1] > stack[-1].span[1]):
                stack.pop()
            if stack:
                node.around = stack[-1]
                stack[-1].inside.append(node)
            stack.append(node)
    while repeats := [n for n in nodes if n.around and n.around.name == n.name and n.around.inside == [n]]:
        repeats[0].leave_out()
        nodes.remove(repeats[0])
        # What it launched and what stood in it is from now on the business of the call around.
        repeats[0].inside = [repeats[0].around] if repeats[0].around else []
        SUBSTITUTE[id(repeats[0].event)] = repeats[0].around
    return nodes


SUBSTITUTE: dict[int, Node | None] = {}
