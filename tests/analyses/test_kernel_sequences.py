from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope import Selection, kernel_sequences, read
from kinetoscope.errors import UsageError
from kinetoscope.schema import Result
from tests import drawn
from tests.conftest import few_examples


def answer(folder: Path, *events: drawn.Event, **asked: Any) -> Result:
    return kernel_sequences(drawn.job(folder, *events), **asked)


def rows(result: Result) -> list[tuple[Any, ...]]:
    names = ("operator", "sequence", "kernels", "calls", "device_time", "host_time")
    return [tuple(row[name] for name in names) for row in result.frame.to_dicts()]


def linear(start: int, correlation: int, kernel: str = "gemm") -> list[drawn.Event]:
    """A call of 100 ns that launches a copy of 10 ns by itself and a kernel of 20 ns in an operator inside it."""
    return [
        drawn.op("aten::linear", start, 100),
        drawn.launch(start + 5, 5, correlation),
        drawn.op("aten::addmm", start + 20, 70),
        drawn.launch(start + 30, 5, correlation + 1),
        drawn.kernel("copy", start + 50, 10, correlation),
        drawn.kernel(kernel, start + 70, 20, correlation + 1),
    ]


def test_a_sequence_is_all_that_a_call_launches(tmp_path: Path) -> None:
    events = [*linear(0, 1), *linear(1000, 3), *linear(2000, 5, "splitk")]
    result = answer(tmp_path, *events, operator="aten::linear")
    assert rows(result) == [
        ("aten::linear", "copy -> gemm", 2, 2, 60, 200),
        ("aten::linear", "copy -> splitk", 2, 1, 30, 100),
    ]
    assert result.frame["share"].to_list() == [60 / 90, 30 / 90]
    assert rows(answer(tmp_path, *events, operator="aten::addmm"))[0] == ("aten::addmm", "gemm", 1, 2, 40, 140)


def test_calls_count_at_every_depth(tmp_path: Path) -> None:
    """HTA counts those at the shallowest depth only."""
    deeper = [drawn.op("aten::mlp", 1000 - 10, 200), *linear(1000, 3)]
    assert rows(answer(tmp_path, *linear(0, 1), *deeper, operator="aten::linear")) == [
        ("aten::linear", "copy -> gemm", 2, 2, 60, 200)
    ]


def test_a_frame_that_ends_late_takes_no_kernels_away(tmp_path: Path) -> None:
    region = drawn.op("Torch-Compiled Region: 0/0", 1000 - 10, 150)
    late = drawn.python("compiled_fn.py(3): call", 1000 - 5, 146)
    found = answer(tmp_path, *linear(0, 1), region, late, *linear(1000, 3))
    assert rows(found)[0] == ("Torch-Compiled Region: 0/0", "copy -> gemm", 2, 1, 30, 150)
    assert found.frame["device_time"].sum() == 60


def test_calls_that_run_by_turns_have_a_sequence_each(tmp_path: Path) -> None:
    turns = [drawn.op("a", 0, 100, tid=1), drawn.op("a", 0, 100, tid=2)]
    for number in range(4):
        turns.append(drawn.launch(10 + 20 * number, 5, 1 + number, tid=1 + number % 2))
        turns.append(drawn.kernel("k", 200 + 30 * number, 10, 1 + number))
    assert rows(answer(tmp_path, *turns, operator="a")) == [("a", "k -> k", 2, 2, 40, 200)]


def test_the_name_is_the_whole_name(tmp_path: Path) -> None:
    """HTA takes every name that holds it."""
    other = [drawn.op("aten::linear_backward", 1000, 50), drawn.launch(1010, 5, 9), drawn.kernel("k", 2000, 5, 9)]
    assert len(rows(answer(tmp_path, *linear(0, 1), *other, operator="aten::linear"))) == 1
    with pytest.raises(UsageError, match="'linear'"):
        answer(tmp_path, *linear(0, 1), operator="linear")


def test_overloads_and_annotations_are_found_too(tmp_path: Path) -> None:
    events = [drawn.annotation("block", 0, 300), drawn.op("aten::mm.out", 10, 50), drawn.launch(20, 5, 1)]
    events.append(drawn.kernel("gemm", 90, 30, 1))
    assert rows(answer(tmp_path, *events, operator="aten::mm")) == [("aten::mm", "gemm", 1, 1, 30, 50)]
    assert rows(answer(tmp_path, *events, operator="block")) == [("block", "gemm", 1, 1, 30, 300)]


def test_a_call_directly_inside_one_of_its_name_is_that_call(tmp_path: Path) -> None:
    twice = [drawn.op("aten::to", 0, 100), drawn.op("aten::to", 10, 80), drawn.launch(20, 5, 1)]
    twice.append(drawn.kernel("copy", 200, 7, 1))
    assert rows(answer(tmp_path, *twice, operator="aten::to")) == [("aten::to", "copy", 1, 1, 7, 100)]
    recursive = [*twice, drawn.launch(92, 5, 2), drawn.kernel("more", 300, 9, 2)]
    assert rows(answer(tmp_path, *recursive, operator="aten::to")) == [("aten::to", "copy -> more", 2, 1, 16, 100)]
    between = [drawn.op("aten::to", 0, 100), drawn.op("aten::_to_copy", 5, 90), *recursive[1:]]
    assert rows(answer(tmp_path, *between, operator="aten::to")) == [
        ("aten::to", "copy -> more", 2, 1, 16, 100),
        ("aten::to", "copy", 1, 1, 7, 80),
    ]


def test_the_order_is_that_of_the_launches(tmp_path: Path) -> None:
    events = [drawn.op("op", 0, 100), drawn.launch(10, 5, 1), drawn.launch(20, 5, 2)]
    late = [drawn.kernel("first", 500, 10, 1, stream=7), drawn.kernel("second", 400, 10, 2, stream=8)]
    assert rows(answer(tmp_path, *events, *late))[0][1] == "first -> second"


def test_what_a_graph_launches_comes_in_order_of_start(tmp_path: Path) -> None:
    events = [drawn.op("op", 0, 100), drawn.launch(10, 5, 1, name="cudaGraphLaunch")]
    nodes = [drawn.kernel("b", 500, 10, 1), drawn.kernel("a", 400, 10, 1), drawn.kernel("c", 600, 10, 1)]
    assert rows(answer(tmp_path, *events, *nodes))[0][1] == "a -> b -> c"


def test_without_an_operator_each_kernel_is_of_one_outermost_operator(tmp_path: Path) -> None:
    step = drawn.op("ProfilerStep#3", 0, 5000)  # as files of 2021 have it
    alone = [drawn.launch(4000, 5, 9), drawn.kernel("lonely", 4100, 10, 9)]
    host_only = drawn.op("aten::view", 3000, 10)
    result = answer(tmp_path, step, *linear(100, 1), *alone, host_only)
    assert rows(result) == [("aten::linear", "copy -> gemm", 2, 1, 30, 100)]
    assert result.notes == ("1 of 3 pieces of device work were launched in no recorded operator.",)


def test_short_sequences_can_be_left_out_and_empty_ones_shown(tmp_path: Path) -> None:
    events = [*linear(0, 1), drawn.op("aten::linear", 1000, 10)]
    result = answer(tmp_path, *events, operator="aten::linear")
    assert len(result) == 1
    assert result.notes == ("1 of 2 calls launched less than min_length and are not shown.",)
    empty = answer(tmp_path, *events, operator="aten::linear", min_length=0)
    assert rows(empty)[-1] == ("aten::linear", None, 0, 1, 0, 10)
    assert len(answer(tmp_path, *events, operator="aten::linear", min_length=3)) == 0


def test_selections(tmp_path: Path) -> None:
    windows = [drawn.annotation(f"ProfilerStep#{k}", 1000 * k, 1000) for k in range(2)]
    events = [*windows, *linear(0, 1), *linear(1000, 3, "splitk")]
    chosen = answer(tmp_path, *events, operator="aten::linear", select=Selection(steps=(1,)))
    assert rows(chosen) == [("aten::linear", "copy -> splitk", 2, 1, 30, 100)]
    assert chosen.frame["share"].to_list() == [1.0]
    # A call that starts in the range counts with all that it launched, whenever that ran.
    chosen = answer(tmp_path, *events, operator="aten::linear", select=Selection(time=(0, 60)))
    assert rows(chosen) == [("aten::linear", "copy -> gemm", 2, 1, 30, 100)]


# --- against plain counting


class Call(NamedTuple):
    name: str
    start: int
    end: int


@st.composite
def calls(draw: st.DrawFn) -> list[Call]:
    """Calls that nest, of two names."""
    found: list[Call] = []

    def inside(start: int, end: int, depth: int) -> None:
        at = start + 1
        for _ in range(draw(st.integers(0, 3)) if depth < 4 else 0):
            length = draw(st.integers(3, 12)) * 2 ** (3 - depth)
            if at + length >= end:
                return
            found.append(Call(draw(st.sampled_from("ab")), at, at + length))
            inside(at, at + length, depth + 1)
            at += length + draw(st.integers(1, 5))

    inside(0, 400, 0)
    return found


@few_examples
@given(calls=calls(), launched=st.dictionaries(st.integers(1, 399), st.sampled_from("xyz"), min_size=1, max_size=30))
def test_it_counts_as_plain_counting_does(tmp_path: Path, calls: list[Call], launched: dict[int, str]) -> None:
    # Calls begin and end at even times, launches are at odd ones. A call directly inside one of its name is that call.
    events = [drawn.op(call.name, 2 * call.start, 2 * (call.end - call.start)) for call in calls]
    events += [drawn.op("mark", 2 * call.start + 1, 0) for call in calls]
    for number, (time, name) in enumerate(sorted(launched.items())):
        events += [drawn.launch(2 * time + 1, 0, number + 1), drawn.kernel(name, 2000 - number, 1, number + 1)]
    expected = Counter(
        " -> ".join(name for time, name in sorted(launched.items()) if call.start <= time < call.end)
        for call in calls
        if call.name == "a" and _around(call, calls) != "a"
    )
    if expected:
        found = answer(tmp_path, *events, operator="a", min_length=0).frame.to_dicts()
        assert {row["sequence"] or "": row["calls"] for row in found} == expected


def _around(call: Call, calls: list[Call]) -> str:
    """The name of the innermost call around one; "" for none."""
    outer = [each for each in calls if each.start < call.start and call.end <= each.end]
    return min(outer, key=lambda each: each.end - each.start).name if outer else ""


# --- HTA's own answers


def test_hta_drops_calls_of_linear_that_stand_deeper(shared_traces: Path) -> None:
    """The reference: 355 of 505 calls."""
    job = read(shared_traces / "trace_diff/control", jobs=1)
    select = Selection(steps=tuple(range(1009, 1014)))
    assert kernel_sequences(job, operator="aten::linear", select=select).frame["calls"].sum() == 505
