"""Whether one call became slower, or the host as a whole: on drawn loops whose cause is known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from kinetoscope.compare.diff.diff import Diff, diff
from kinetoscope.compare.gate.causes import causes
from kinetoscope.compare.gate.gate import gate
from kinetoscope.model.job import Job
from kinetoscope.pages.answers.gate import of_gate
from kinetoscope.reading import read
from kinetoscope.screens.values import gate_text
from tests.compare.drawing import loop
from tests.drawn import Event, kernel, launch, op

NAMES = ("aten::add", "aten::mul", "aten::cat", "aten::relu")
Stretch = Callable[[str], float]


def step(host: Stretch, device: Stretch, launches: float = 1.0, *, collective: float = 1.0) -> list[Event]:
    """A step of four operators with a launch and a kernel each, and an all-reduce."""
    events: list[Event] = []
    at = 0
    for number, name in enumerate(NAMES):
        took = round(80 * host(name))
        called = round(10 * launches)
        events += [op(name, at, took + called), launch(at + 5, called, number + 1)]
        events.append(kernel(f"{name[6:]}_kernel", at + 40, round(30 * device(name)), number + 1))
        at += took + called + 5
    events += [op("nccl:all_reduce", at, 20), launch(at + 1, round(10 * launches), 9)]
    return [*events, kernel("ncclDevKernel_AllReduce_Sum", at + 20, round(100 * collective), 9)]


def same(_: str) -> float:
    return 1.0


def by_a_half(_: str) -> float:
    return 1.5


def by_nine(_: str) -> float:
    return 10.0


def only_cat(name: str) -> float:
    return 5.0 if name == "aten::cat" else 1.0


def run(folder: Path, events: list[Event]) -> Job:
    """Twelve such steps, which end with their last event."""
    end = max(round((each["ts"] + each["dur"]) * 1000) for each in events)
    return loop(folder, *([events] * 12), length=end + 10, deviceProperties=[{"id": 0, "name": "V100"}])


def compared(folder: Path, new: list[Event]) -> Diff:
    return diff(run(folder / "base", step(same, same)), run(folder / "new", new))


def test_a_slower_host_is_named_with_its_numbers(tmp_path: Path) -> None:
    found = compared(tmp_path, step(by_a_half, same, 1.5, collective=2))
    words = " ".join(found.slower_host.split())
    assert "4 of 5 operators" in words
    assert "a launch costs 10 ns → 15 ns" in words
    assert "Kernels that run as often take 120 ns → 120 ns" in words
    assert "Collectives take longer, too (100 ns → 200 ns" in words
    assert found.slower_host in found.sentence
    for quantity in found.slower_host.quantities:
        assert quantity.source is not None
        assert quantity.source.look_up(lambda _, __: found.means) == quantity.value


@pytest.mark.parametrize(
    "new",
    [
        step(only_cat, same, 1.5),
        step(by_a_half, same, 1.0),
        step(same, by_nine, 1.0),
        step(same, same, 1.5),
    ],
    ids=["one operator", "launches as before", "the device", "only launches"],
)
def test_anything_else_has_a_call_to_blame(tmp_path: Path, new: list[Event]) -> None:
    found = compared(tmp_path, new)
    assert found.new > found.base
    assert not found.slower_host


def test_what_came_is_in_no_mean(tmp_path: Path) -> None:
    found = compared(tmp_path, [*step(same, same), op("aten::sort", 600, 300)])
    assert found.means.frame.filter(pl.col("name") == "aten::sort").is_empty()


def test_a_gate_says_it_where_it_fails(tmp_path: Path) -> None:
    new = run(tmp_path / "new", step(by_a_half, same, 1.5, collective=3))
    verdict = gate(run(tmp_path / "base", step(same, same)), [new], ["kernel:ncclDevKernel_AllReduce_Sum"])
    assert not verdict.passed
    why = causes(verdict, read)
    assert "the host became slower" in gate_text(verdict, why)
    assert "the host became slower" in of_gate(verdict, why).to_markdown()
