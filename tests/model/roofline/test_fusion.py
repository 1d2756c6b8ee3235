"""Chains of operators that one kernel could compute: hand-counted ones, and against plain search."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.model.roofline.calls import costed_calls
from kinetoscope.model.roofline.fusion import FusableChains, call_times, fusable_chains, saved_bytes
from kinetoscope.model.trace.trace import Trace
from tests import drawn

N = 1 << 20
WHOLE = 4 * N
"""Bytes of a tensor of N floats."""


class Call(NamedTuple):
    """An operator with the shapes of its tensors; a view launches nothing."""

    name: str
    shapes: list[list[int]]
    strides: list[list[int]] | None = None
    stream: int = 7


def contiguous(shape: list[int]) -> list[int]:
    """Strides of a tensor without gaps."""
    return [prod(shape[place + 1 :]) for place in range(len(shape))]


def events(*calls: Call, taken: bool = False) -> list[drawn.Event]:
    """The calls one after another, 100 ns each, with kernels of 1 µs; with `taken` each takes memory for its result,
    and gives back what the call before it took when it is over."""
    made: list[drawn.Event] = []
    for place, (name, shapes, strides, stream) in enumerate(calls):
        start = 1000 * place
        args: dict[str, Any] = {
            "Input Dims": shapes,
            "Input type": ["float"] * len(shapes),
            "Input Strides": strides or [contiguous(shape) for shape in shapes],
        }
        made.append(drawn.op(name, start, 100, **args))
        if name in ("aten::view", "aten::transpose"):
            continue
        made.append(drawn.launch(start + 10, 10, place + 1))
        made.append(drawn.kernel("k", start + 50, 1000, place + 1, stream=stream))
        if taken:
            made.append(drawn.memory(start + 5, WHOLE, device=0, Addr=place + 1))
            if place:
                made.append(drawn.memory(start + 200, -WHOLE, device=0, Addr=place))
    return made


def chains_of(folder: Path, *calls: Call, **more: Any) -> tuple[FusableChains, Trace]:
    trace = drawn.job(folder, *events(*calls, **more)).trace()
    return fusable_chains(trace), trace


def members(folder: Path, *calls: Call) -> list[list[int]]:
    """The chains as lists of places among the calls."""
    chains, trace = chains_of(folder, *calls)
    rows = costed_calls(trace).rows[chains.calls]
    places = (trace.start[rows] // 1000).tolist()
    offsets = chains.offsets.tolist()
    return [places[begin:end] for begin, end in pairwise(offsets)]


def on(name: str, *shapes: list[int]) -> Call:
    return Call(f"aten::{name}", list(shapes))


def test_what_a_chain_saves_is_its_intermediate_results(tmp_path: Path) -> None:
    """x · sigmoid(a x): two results are written and read that one kernel keeps; x and the end remain."""
    chains, trace = chains_of(tmp_path, on("mul", [N], []), on("sigmoid", [N]), on("mul", [N], [N]))
    assert len(chains) == 1
    assert chains.sums(chains.bytes).tolist() == [7 * WHOLE + 4]
    assert chains.sums(chains.saved).tolist() == [4 * WHOLE]
    assert chains.sums(chains.surely).tolist() == [3 * WHOLE]  # one of them may be needed later
    assert chains.left.tolist() == [2 * WHOLE + 4]
    assert saved_bytes(trace).tolist() == [WHOLE, 2 * WHOLE, WHOLE]
    time = call_times(trace)[chains.calls].astype(float)
    least, most = chains.saved_times(time)
    assert most.tolist() == pytest.approx([1000 * (1 / 2 + 1 + 1 / 3)], rel=1e-6)
    assert least.tolist() == pytest.approx([1000 * 3 / 3], rel=1e-6)


def test_results_that_are_given_back_need_not_be_written(tmp_path: Path) -> None:
    chains, _ = chains_of(tmp_path, on("mul", [N], [N]), on("sigmoid", [N]), on("mul", [N], [N]), taken=True)
    assert chains.sums(chains.surely).tolist() == chains.sums(chains.saved).tolist() == [4 * WHOLE]


def test_others_of_the_same_shape_must_have_the_same_strides(tmp_path: Path) -> None:
    turned = Call("aten::sigmoid", [[64, 32]], [[1, 64]])
    assert members(tmp_path, on("mul", [64, 32], [64, 32]), turned) == []
    assert members(tmp_path, on("mul", [64, 32], [64, 32]), on("sigmoid", [64, 32])) == [[0, 1]]


def test_a_view_of_the_result_may_be_read(tmp_path: Path) -> None:
    product, read = on("mul", [64, 32], [64, 32]), on("sigmoid", [2048])
    assert members(tmp_path, product, on("view", [64, 32]), read) == [[0, 2]]
    assert members(tmp_path, product, on("view", [32, 64]), read) == []
    assert members(tmp_path, product, read) == []


def test_other_work_in_between_parts_a_chain(tmp_path: Path) -> None:
    product = on("mm", [64, 64], [64, 64])
    assert members(tmp_path, on("mul", [64, 64], [64, 64]), product, on("sigmoid", [64, 64])) == []
    elsewhere = product._replace(stream=8)
    assert members(tmp_path, on("mul", [64, 64], [64, 64]), elsewhere, on("sigmoid", [64, 64])) == [[0, 2]]


def test_a_result_may_skip_operators_on_other_tensors(tmp_path: Path) -> None:
    calls = on("mul", [64], [64]), on("neg", [32]), on("neg", [32]), on("add", [64], [64])
    assert members(tmp_path, *calls) == [[1, 2], [0, 3]]


@pytest.mark.parametrize("name", ["copy_", "add_"])
def test_the_same_in_place_again_is_done_to_another_tensor(tmp_path: Path, name: str) -> None:
    assert members(tmp_path, on(name, [64], [64]), on(name, [64], [64])) == []


def test_copies_alone_make_no_chain(tmp_path: Path) -> None:
    assert members(tmp_path, on("clone", [64], []), on("clone", [64], [])) == []
    assert members(tmp_path, on("clone", [64], []), on("clone", [64], []), on("neg", [64])) == [[0, 1, 2]]


def test_what_copies_only_write_they_do_not_read(tmp_path: Path) -> None:
    assert members(tmp_path, on("copy_", [64], [64]), on("neg", [64])) == [[0, 1]]
    assert members(tmp_path, on("neg", [64]), on("copy_", [64], [32])) == []


def test_what_is_needed_twice_saves_nothing_for_sure(tmp_path: Path) -> None:
    norm = Call("aten::native_batch_norm", [[8, 4, 16, 16], [4], [4], [4], [4], [], [], []])
    chains, _ = chains_of(tmp_path, norm, on("relu_", [8, 4, 16, 16]), on("sigmoid", [8, 4, 16, 16]))
    image = 8 * 4 * 16 * 16 * 4
    assert chains.sums(chains.saved).tolist() == [4 * image]
    assert chains.sums(chains.surely).tolist() == [image]


def test_what_inductor_fused_is_in_no_chain(tmp_path: Path) -> None:
    fused = Call("triton_poi_fused_add_mul_0", [[64], [64]])
    assert members(tmp_path, on("neg", [64]), fused, on("neg", [64])) == []


def test_optimizers_are_in_no_chain(tmp_path: Path) -> None:
    made = events(on("mul", [N], [N]), on("sigmoid", [N]))
    trace = drawn.job(tmp_path, drawn.annotation("Optimizer.step#SGD.step", 0, 5000), *made).trace()
    assert not len(fusable_chains(trace))


def test_what_a_closure_computes_is_no_update(tmp_path: Path) -> None:
    node = drawn.op("autograd::engine::evaluate_function: MulBackward0", 3000, 100)
    made = [*events(on("mul", [N], [N]), on("sigmoid", [N])), node]
    trace = drawn.job(tmp_path, drawn.annotation("Optimizer.step#SGD.step", 0, 5000), *made).trace()
    assert len(fusable_chains(trace))


def test_on_a_host_calls_in_a_chain_s_calls_are_part_of_them(tmp_path: Path) -> None:
    args: dict[str, Any] = {"Input Dims": [[64], [64]], "Input type": ["float", "float"]}
    calls = [("aten::mul", 0, 100), ("aten::copy_", 20, 50), ("aten::add", 200, 100)]
    trace = drawn.job(tmp_path, *(drawn.op(name, start, length, **args) for name, start, length in calls)).trace()
    chains = fusable_chains(trace)
    assert trace.start[costed_calls(trace).rows[chains.calls]].tolist() == [0, 200]
    assert call_times(trace)[chains.calls].tolist() == [100, 100]


SHAPES = ([4], [2, 2], [8])


@given(
    calls=st.lists(
        st.tuples(st.sampled_from(["add", "neg", "mm", "view"]), st.lists(st.sampled_from(SHAPES), min_size=1)),
        max_size=24,
    )
)
def test_chains_are_those_of_plain_search(tmp_path: Path, calls: list[tuple[str, list[list[int]]]]) -> None:
    made = []
    for name, shapes in calls:
        count = {"add": 2, "neg": 1, "mm": 2, "view": 1}[name]
        made.append(on(name, *(([[2, 2]] if name == "mm" else shapes[:1]) * count)))
    run, where = 0, []
    for call in made:
        run += call.name == "aten::mm"
        where.append(run)
    fits = [place for place, call in enumerate(made) if call.name in ("aten::add", "aten::neg")]
    parent: dict[int, int] = {}
    for number, place in enumerate(fits):
        shape = made[place].shapes[0]
        for other in fits[number + 1 : number + 9]:
            read = made[other].shapes[0]
            viewed = Call("aten::view", [shape]) in made[place + 1 : other]
            same_size = [4] in (shape, read) and [2, 2] in (shape, read)
            if where[other] == where[place] and (read == shape or (same_size and viewed)):
                parent[place] = other
                break
    chains: dict[int, list[int]] = {}
    for place in fits:
        root = place
        while root in parent:
            root = parent[root]
        chains.setdefault(root, []).append(place)
    assert members(tmp_path, *made) == [each for _, each in sorted(chains.items()) if len(each) > 1]
