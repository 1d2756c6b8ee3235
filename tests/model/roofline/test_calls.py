"""Which calls are counted: against plain counting on calls that nest at will."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.model.roofline.calls import costed_calls
from tests import drawn

TOLD, UNKNOWN_PRECISION, OTHER = "aten::mm", "aten::conv2d", "other"


@st.composite
def trees(draw: st.DrawFn) -> list[tuple[str, int, int]]:
    """Calls that nest: name, start and end."""
    found: list[tuple[str, int, int]] = []

    def inside(start: int, end: int, depth: int) -> None:
        at = start + 1
        for _ in range(draw(st.integers(0, 3)) if depth < 4 else 0):
            length = draw(st.integers(3, 12)) * 2 ** (3 - depth)
            if at + length >= end:
                return
            found.append((draw(st.sampled_from([TOLD, UNKNOWN_PRECISION, OTHER])), at, at + length))
            inside(at, at + length, depth + 1)
            at += length + draw(st.integers(1, 5))

    inside(0, 400, 0)
    return found


@given(calls=trees())
def test_the_innermost_calls_that_tell_are_counted(tmp_path: Path, calls: list[tuple[str, int, int]]) -> None:
    args: dict[str, Any] = {"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]}
    events = [drawn.op(name, 2 * start, 2 * (end - start), **args) for name, start, end in calls]
    events += [drawn.launch(2 * start + 1, 0, k + 1) for k, (_, start, _) in enumerate(calls)]
    events += [drawn.kernel("k", 1000 + k, 1, k + 1) for k in range(len(calls))]
    counts = costed_calls(drawn.job(tmp_path, *events).trace())

    def within(name: str, around: tuple[str, int, int]) -> bool:
        return any(each[0] == name and around[1] < each[1] < around[2] for each in calls)

    told = [place for place, call in enumerate(calls) if call[0] == TOLD and not within(TOLD, call)]
    assert counts.rows.tolist() == told
    assert counts.flop.tolist() == [48] * len(told)
    launched = [
        next((k for k, place in enumerate(told) if calls[place][1] <= call[1] < calls[place][2]), -1) for call in calls
    ]
    assert counts.call.tolist() == launched
    missed = [
        place
        for place, call in enumerate(calls)
        if call[0] == UNKNOWN_PRECISION
        and not within(TOLD, call)
        and not within(UNKNOWN_PRECISION, call)
        and not any(calls[each][1] < call[1] < calls[each][2] for each in told)
    ]
    assert counts.uncounted.tolist() == missed


IMAGE, WEIGHT, OUT = [32, 3, 224, 224], [64, 3, 7, 7], [32, 64, 112, 112]
FLOP = 2 * 32 * 112 * 112 * 64 * 3 * 7 * 7


def convolution(**args: Any) -> list[drawn.Event]:
    """A convolution of a file without strides, with the operators that pass it on."""
    shapes = {"Input Dims": [IMAGE, WEIGHT, [], []], "Input type": ["float", "float", "", ""], **args}
    numbered = {**shapes, "Sequence number": 7, "Fwd thread id": 0}
    return [
        drawn.op("aten::conv2d", 0, 90, **numbered),
        drawn.op("aten::cudnn_convolution", 10, 70, **numbered),
        drawn.launch(20, 5, 1),
        drawn.kernel("winogradForwardData4x4", 100, 10, 1),
        drawn.launch(30, 5, 2),
        drawn.kernel("volta_sgemm_64x64_nn", 110, 100, 2),
    ]


def following(name: str, dims: list[int], start: int = 200, **args: Any) -> drawn.Event:
    return drawn.op(name, start, 10, **{"Input Dims": [dims], "Input type": ["float"], **args})


NODE = following("CudnnConvolutionBackward", OUT, 1000, tid=2, **{"Sequence number": 7, "Fwd thread id": 1})


@pytest.mark.parametrize(
    ("later", "flop"),
    [
        ([following("aten::add", []), NODE], [FLOP]),  # the batch norm's count comes first, so the node tells
        ([following("aten::relu", OUT)], [FLOP]),  # there is no backward pass
        ([following("aten::add", [])], []),
        ([following("aten::relu", OUT[:2])], []),
    ],
)
def test_what_comes_of_a_convolution_tells_its_size(
    tmp_path: Path, later: list[drawn.Event], flop: list[float]
) -> None:
    calls = costed_calls(drawn.job(tmp_path, *convolution(), *later).trace())
    assert calls.flop[calls.is_product].tolist() == flop
    assert calls.uncounted.tolist() == ([] if flop else [1])


def test_where_strides_were_recorded_they_tell(tmp_path: Path) -> None:
    strides = {"Concrete Inputs": ["", "", "[3, 3]", "[4, 4]", "[1, 1]"]}
    calls = costed_calls(drawn.job(tmp_path, *convolution(**strides), NODE).trace())
    assert calls.flop.tolist() == [FLOP // 4]


def test_of_winograds_algorithm_any_kernel_of_a_call_tells(tmp_path: Path) -> None:
    """Its longest kernel is an ordinary product."""
    calls = costed_calls(drawn.job(tmp_path, *convolution(), NODE).trace())
    assert [(each.flop, each.least_flop) for each in calls.variants if each.is_product] == [(FLOP, FLOP // 4)]


def test_the_step_around_a_call_says_how_long_its_sequences_are(tmp_path: Path) -> None:
    shapes: dict[str, Any] = {
        "Input Dims": [[2, 8, 64], [2, 2, 64], [2, 2, 64], [2, 8, 64]],
        "Input type": ["c10::Half"] * 4,
    }
    events = []
    for k, name in enumerate(
        ["step[DECODE bs=2 g_sk=30 g_sqsq=2 g_sqsk=30]", "step[DECODE bs=2 g_sk=70 g_sqsq=2 g_sqsk=70]"]
    ):
        events += [
            drawn.annotation(name, 100 * k, 90),
            drawn.op("vllm::unified_attention_with_output", 100 * k + 5, 50, **shapes),
            drawn.launch(100 * k + 10, 5, k + 1),
            drawn.kernel("attention", 100 * k + 20, 10, k + 1),
        ]
    found = costed_calls(drawn.job(tmp_path, *events).trace())
    assert [found.variants[place].cost.flop_most for place in found.variant] == [2 * 8 * 128 * 30, 2 * 8 * 128 * 70]
