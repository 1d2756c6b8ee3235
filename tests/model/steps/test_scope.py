from __future__ import annotations

from pathlib import Path

import pytest

from kinetoscope import Selection, categories, kernels
from kinetoscope.errors import UsageError
from kinetoscope.model.steps.scope import Scope, origin_of_time, scope
from tests import drawn

DRAWING = {
    "step 3": drawn.annotation("ProfilerStep#3", 1000, 100),
    "step 4": drawn.annotation("ProfilerStep#4", 1100, 100),
    "mm": drawn.op("aten::mm", 1010, 50),
    "launch": drawn.launch(1020, 5, 1),
    "add": drawn.op("aten::add", 1110, 50, tid=2),
    "launch 2": drawn.launch(1120, 5, 2, tid=2),
    "forward": drawn.annotation("forward", 1105, 70, tid=2),
    "inner forward": drawn.annotation("forward", 1106, 3, tid=2),
    "after": drawn.op("aten::relu", 1180, 5, tid=2),
    "kernel": drawn.kernel("gemm", 1090, 30, 1),
    "kernel 2": drawn.kernel("gemm", 1130, 30, 2, device=1, stream=8),
    "unlinked": drawn.kernel("gemm", 1140, 20, 9, device=1, stream=9),
}
NAMES = list(DRAWING)


def view(folder: Path, **selected: object) -> Scope:
    return scope(drawn.job(folder, *DRAWING.values()).trace(), Selection(**selected))  # type: ignore[arg-type]


def host(of: Scope) -> set[str]:
    return {NAMES[row] for row in of.host_mask.nonzero()[0] if "kernel" not in NAMES[row] and NAMES[row] != "unlinked"}


def work(of: Scope) -> set[str]:
    return {NAMES[row] for row in of.device_work.rows[of.device_work_mask]}


def test_all_is_everything(tmp_path: Path) -> None:
    everything = view(tmp_path)
    assert everything.host_mask.all()
    assert everything.device_work_mask.all()
    assert everything.places.tolist() == [0, 1]


def test_device_work_belongs_to_the_step_of_its_launch_else_of_its_start(tmp_path: Path) -> None:
    third, fourth = view(tmp_path, steps=(3,)), view(tmp_path, steps=(4,))
    assert (work(third), work(fourth)) == ({"kernel"}, {"kernel 2", "unlinked"})
    assert host(third) == {"step 3", "mm", "launch"}
    assert (fourth.steps.number.tolist(), fourth.places.tolist()) == ([4], [1])


def test_work_from_before_the_recording_is_in_no_step_whatever_the_host_did_meanwhile(tmp_path: Path) -> None:
    before = [drawn.kernel("gemm", 1000 + 20 * each, 20, 90 + each) for each in range(4)]
    own = [drawn.launch(1030, 5, 1), drawn.kernel("gemm", 1085, 30, 1)]
    own += [drawn.launch(1095, 5, 2), drawn.kernel("gemm", 1128, 2, 2)]
    lost = drawn.kernel("gemm", 1118, 10, 99)  # begins while the host is past the step, and the device in it
    job = drawn.job(tmp_path, drawn.annotation("ProfilerStep#3", 1000, 100), *before, *own, lost)
    select = Selection(steps=(3,))
    chosen = scope(job.trace(), select)
    assert (chosen.steps.device.start.tolist(), chosen.device_work.start[chosen.device_work_mask].tolist()) == (
        [1080],
        [1085, 1128, 1118],
    )
    totals = {categories(job, select=select).frame["total"].sum(), kernels(job, select=select).frame["total"].sum()}
    assert totals == {30 + 10 + 2}


def test_an_annotation_chooses_what_begins_inside_it_on_its_thread(tmp_path: Path) -> None:
    inside = view(tmp_path, annotation="forward")
    assert host(inside) == {"forward", "inner forward", "add", "launch 2"}  # also after the inner one is over
    assert work(inside) == {"kernel 2"}
    assert inside.notes == ("1 of 3 pieces of device work belong to no recorded call and are left out.",)


def test_threads_choose_host_events_and_what_was_launched_there(tmp_path: Path) -> None:
    other = view(tmp_path, threads=(2, 77))
    assert host(other) == {"add", "launch 2", "forward", "inner forward", "after"}
    assert work(other) == {"kernel 2"}


def test_a_stream_is_no_thread_even_if_it_has_the_same_number(tmp_path: Path) -> None:
    unlinked = drawn.kernel("gemm", 20, 5, 9, stream=2)
    trace = drawn.job(tmp_path, drawn.op("aten::mm", 0, 10, tid=2), unlinked).trace()
    assert not scope(trace, Selection(threads=(2,))).device_work_mask.any()


def test_devices_and_streams_choose_device_work_only(tmp_path: Path) -> None:
    assert work(view(tmp_path, devices=(1,))) == {"kernel 2", "unlinked"}
    assert work(view(tmp_path, streams=(7, 9))) == {"kernel", "unlinked"}
    assert view(tmp_path, devices=(1,), streams=(9,)).host_mask.all()


def test_filters_join(tmp_path: Path) -> None:
    assert work(view(tmp_path, steps=(4,), streams=(9,))) == {"unlinked"}


def test_a_range_of_time_counts_what_starts_in_it_and_measures_what_reaches_into_it(tmp_path: Path) -> None:
    clipped = view(tmp_path, time=(30, 110))  # the first event is at 1000
    assert host(clipped) == {"step 4", "forward", "inner forward"}
    assert clipped.host_mask_untimed.all()
    assert work(clipped) == {"kernel"}
    cut = clipped.clipped(clipped.device_work.start, clipped.device_work.end)
    assert cut.start.tolist() == [1090, 1110, 1110]
    assert cut.end.tolist() == [1110, 1110, 1110]  # what lies outside is empty


def test_a_range_of_time_leaves_out_steps_that_do_not_reach_into_it(tmp_path: Path) -> None:
    assert view(tmp_path, time=(0, 50)).places.tolist() == [0]
    assert view(tmp_path, time=(150, 160)).places.tolist() == [1]
    assert view(tmp_path, time=(0, 50), steps=(4,)).places.tolist() == []


def test_time_counts_from_the_first_event_that_is_shown(tmp_path: Path) -> None:
    name = {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "ts": 0, "args": {"name": "python"}}
    span = drawn.event("Trace", "PyTorch Profiler (0)", 500, 900)
    trace = drawn.job(tmp_path, name, span, drawn.op("aten::mm", 700, 5)).trace()
    assert origin_of_time(trace) == 700


@pytest.mark.parametrize(
    ("selected", "message"),
    [
        ({"steps": (7, 8)}, "no step 7-8 in this trace; it has 3-4"),
        ({"devices": (5,)}, "no device 5 in this trace; it has 0-1"),
        ({"streams": (1,)}, "no stream 1 in this trace; it has 7-9"),
        ({"threads": (9,)}, "no thread 9 in this trace; it has 1-2"),
        ({"annotation": "backward"}, "no annotation is called 'backward' in this trace"),
        ({"time": (50, 20)}, "the range of time from 50 to 20 ns ends before it starts; give start and end"),
    ],
    ids=lambda value: str(*value) if isinstance(value, dict) else "",
)
def test_what_is_not_there_cannot_be_selected(tmp_path: Path, selected: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        view(tmp_path, **selected)
    assert str(caught.value) == message


def test_where_there_is_no_device_none_can_be_selected(tmp_path: Path) -> None:
    trace = drawn.job(tmp_path, drawn.op("aten::mm", 0, 5)).trace()
    with pytest.raises(UsageError, match="no device 0 in this trace; it has none"):
        scope(trace, Selection(devices=(0,)))


def test_one_of_several_that_is_there_is_enough(tmp_path: Path) -> None:
    assert view(tmp_path, steps=(4, 99)).places.tolist() == [1]


def test_steps_are_also_counted_from_the_end(tmp_path: Path) -> None:
    assert view(tmp_path, steps=(-1,)).steps.number.tolist() == [4]
    assert view(tmp_path, steps=(-2, -1)).steps.number.tolist() == [3, 4]
    with pytest.raises(UsageError, match="no step -3 in this trace"):
        view(tmp_path, steps=(-3,))


def test_a_range_of_steps_may_reach_beyond_the_last(tmp_path: Path) -> None:
    assert view(tmp_path, steps=range(4, 10**9)).places.tolist() == [1]
    assert view(tmp_path, steps=range(3, 4)).places.tolist() == [0]
    with pytest.raises(UsageError, match="no step from 5 on in this trace; it has 3-4"):
        view(tmp_path, steps=range(5, 10**9))


@pytest.mark.parametrize(
    ("lengths", "left"),
    [
        ([900, 300, 100, 110, 90, 100], [2, 3, 4, 5]),
        ([100, 100, 900, 100], [0, 1, 2, 3]),  # only leading steps warm up
        ([126, 100, 100], [1, 2]),
        ([125, 100, 100], [0, 1, 2]),
        ([800, 400, 200, 100], [2, 3]),  # half of them stay
        ([7], [0]),
    ],
)
def test_steady_steps_are_all_but_those_of_the_warm_up(tmp_path: Path, lengths: list[int], left: list[int]) -> None:
    starts = [sum(lengths[:k]) for k in range(len(lengths))]
    marks = [drawn.annotation(f"ProfilerStep#{k}", starts[k], length) for k, length in enumerate(lengths)]
    found = scope(drawn.job(tmp_path, *marks).trace(), Selection(steps="steady"))
    assert found.steps.number.tolist() == left
    assert [note for note in found.notes if "warm-up" in note] == (
        [f"Left out as warm-up: {'steps 0-1' if left[0] == 2 else 'step 0'}."] if left[0] else []
    )


@pytest.mark.parametrize(("length", "left"), [(20, ([0, 1], ("Left out as empty: step 2.",))), (80, ([0, 1, 2], ()))])
def test_a_short_last_step_without_operators_is_not_steady(
    tmp_path: Path, length: int, left: tuple[list[int], tuple[str, ...]]
) -> None:
    """As where `prof.step()` is called after the last iteration, too."""
    marks = [drawn.annotation(f"ProfilerStep#{k}", 100 * k, 90 if k < 2 else length) for k in range(3)]
    ops = [drawn.op("aten::mm", 10, 50), drawn.op("aten::mm", 110, 50)]
    waits = drawn.launch(210, 5, 0, name="cudaDeviceSynchronize")
    found = scope(drawn.job(tmp_path, *marks, *ops, waits).trace(), Selection(steps="steady"))
    assert (found.steps.number.tolist(), found.notes) == left


def test_other_words_are_no_steps(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="steps is 'warm'; it can be a tuple of numbers"):
        view(tmp_path, steps="warm")
