from __future__ import annotations

from pathlib import Path

from kinetoscope import Selection, memory_by_operator
from tests.drawn import Event, annotation, job, memory, op, python

NUMBERS = (
    "calls",
    "size_increase",
    "self_size_increase",
    "allocations",
    "self_allocations",
    "allocation_size",
    "self_allocation_size",
)


def table(folder: Path, *events: Event, select: Selection | None = None) -> dict[tuple[str, ...], list[int]]:
    frame = memory_by_operator(job(folder, *events), select=select or Selection()).frame
    return {
        (row["device"], row["name"], row["kind"]): [row[name] for name in NUMBERS]
        for row in frame.iter_rows(named=True)
    }


CALLS = [annotation("ProfilerStep#1", 0, 100), op("outer", 10, 50), python("f", 15, 30), op("aten::empty.x", 20, 10)]


def test_each_instant_is_charged_to_the_innermost_call_and_counts_around_it(tmp_path: Path) -> None:
    instants = memory(12, 5), memory(20, 100), memory(29, -30), memory(30, 7), memory(70, -5), memory(100, 9)
    assert table(tmp_path, *CALLS, *instants) == {
        ("cpu", "aten::empty", "operator"): [1, 70, 70, 1, 1, 100, 100],
        ("cpu", "outer", "operator"): [1, 82, 12, 3, 2, 112, 12],
        ("cpu", "ProfilerStep*", "annotation"): [1, 77, -5, 3, 0, 112, 0],
        ("cpu", "[memory]", "memory"): [1, 9, 9, 1, 1, 9, 9],
    }


def test_each_device_and_thread_for_itself(tmp_path: Path) -> None:
    instants = memory(12, 5, device=0), memory(22, 6), memory(23, 7, tid=2)
    assert table(tmp_path, *CALLS[1:], *instants, op("other", 22, 5, tid=2)) == {
        ("cuda:0", "outer", "operator"): [1, 5, 5, 1, 1, 5, 5],
        ("cpu", "other", "operator"): [1, 7, 7, 1, 1, 7, 7],
        ("cpu", "aten::empty", "operator"): [1, 6, 6, 1, 1, 6, 6],
        ("cpu", "outer", "operator"): [1, 6, 0, 1, 0, 6, 0],
    }


def test_a_recursive_call_counts_at_each_level(tmp_path: Path) -> None:
    calls = op("f", 0, 50), op("g", 5, 40), op("f", 10, 10)
    assert table(tmp_path, *calls, memory(15, 8)) == {
        ("cpu", "f", "operator"): [2, 16, 8, 2, 1, 16, 8],
        ("cpu", "g", "operator"): [1, 8, 0, 1, 0, 8, 0],
    }


def test_of_a_step_only_its_instants_and_calls(tmp_path: Path) -> None:
    steps = [annotation(f"ProfilerStep#{number}", 100 * number, 100) for number in (1, 2)]
    drawn = [*steps, op("f", 110, 10), op("f", 210, 10), op("f", 230, 10), memory(112, 1), memory(212, 2)]
    assert table(tmp_path, *drawn, select=Selection(steps=(2,))) == {
        ("cpu", "f", "operator"): [2, 2, 2, 1, 1, 2, 2],
        ("cpu", "ProfilerStep*", "annotation"): [1, 2, 0, 1, 0, 2, 0],
    }


def test_without_memory_it_says_why(tmp_path: Path) -> None:
    result = memory_by_operator(job(tmp_path, op("a", 0, 9)))
    assert (len(result), result.notes) == (0, ("Memory was not recorded (profile_memory=True records it).",))
