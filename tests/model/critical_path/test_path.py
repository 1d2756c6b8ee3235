from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope import Trace, read
from kinetoscope.algorithms.trees.longest_path import longest
from kinetoscope.model.critical_path.graph import DependencyKind, critical_graph
from kinetoscope.model.critical_path.path import CAUSES, CriticalPath, critical_path, run_path
from kinetoscope.model.critical_path.what_if import parse_rules, what_if
from kinetoscope.model.steps.steps import steps
from tests import drawn
from tests.catalog.samples import SHARED, everywhere, job_of, required


def fills(path: CriticalPath, trace: Trace) -> None:
    """The pieces of each step follow one upon the other from its beginning to its end."""
    windows = steps(trace, None).device
    assert (path.end >= path.start).all()
    assert (path.doubt.start <= path.doubt.end).all()
    long = path.end > path.start
    for step, (start, end) in enumerate(zip(windows.start.tolist(), windows.end.tolist(), strict=True)):
        here = long & (path.step == step)
        bounds = np.append(path.start[here], end)
        assert np.append(path.end[here], end)[: len(bounds) - 1].tolist() == bounds[1:].tolist()
        assert bounds[0] == (start if here.any() else end)
        assert here.any() or start == end


def holds(trace: Trace) -> None:
    graph = critical_graph(trace)
    assert longest(graph.time, graph.edges).tolist() == graph.time.tolist()
    fills(critical_path(trace), trace)
    fills(run_path(trace), trace)
    windows = steps(trace, None).device
    assert what_if(trace, parse_rules("/./=1; host=1")).duration.tolist() == (windows.end - windows.start).tolist()


@pytest.mark.parametrize("file", everywhere())
def test_the_path_fills_every_step_of_every_trace(file: Path) -> None:
    holds(job_of(file).trace())


@pytest.mark.parametrize("copied", ["Memcpy HtoD (Host -> Device)", "Memcpy DtoH (Device -> Host)"])
def test_a_copy_that_ends_after_its_call_hides_no_computation(tmp_path: Path, copied: str) -> None:
    trace = drawn.job(
        tmp_path,
        *(drawn.annotation("ProfilerStep#1", 0, 1_000_000), drawn.op("aten::mm", 0, 60_000)),
        *(drawn.launch(10_000, 10_000, 1), drawn.kernel("gemm", 30_000, 900_000, 1)),
        drawn.launch(40_000, 900_000, 2, name="hipMemcpyWithStream"),
        drawn.kernel(copied, 936_000, 7_000, 2, category="gpu_memcpy"),
    ).trace()
    holds(trace)
    path = critical_path(trace)
    assert (path.end - path.start)[path.cause == CAUSES.index("computation")].tolist() == [900_000]
    assert what_if(trace, parse_rules("computation=0")).duration.tolist() == [110_000]


times = st.integers(0, 30)
short = st.integers(0, 9)
calls = st.one_of(
    st.builds(lambda t, d, n: drawn.op("op", t, d, tid=n), times, short, st.integers(1, 2)),
    st.builds(lambda t, d, c, n: drawn.launch(t, d, c, tid=n), times, short, st.integers(1, 4), st.integers(1, 2)),
    st.builds(
        lambda t, d, n: drawn.event("cuda_runtime", n, t, d),
        times,
        st.integers(0, 20),
        st.sampled_from(["cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaStreamWaitEvent", "cudaFree"]),
    ),
    st.builds(
        lambda t, d, k: drawn.op("bwd", t, d, tid=2, **{"Sequence number": k, "Fwd thread id": 1}),
        times,
        short,
        st.integers(0, 2),
    ),
    st.builds(
        lambda t, d, c, s, k: drawn.kernel(k, t, d, c, stream=s),
        times,
        short,
        st.integers(1, 5),
        st.integers(7, 9),
        st.sampled_from(["gemm", "ncclKernel", "Memcpy DtoH (Device -> Pageable)"]),
    ),
    st.builds(lambda k, d: drawn.annotation(f"ProfilerStep#{k}", 10 * k, d), st.integers(0, 2), st.integers(1, 12)),
)


def test_a_wait_that_is_inferred_beside_a_later_tie_is_in_no_doubt(tmp_path: Path) -> None:
    """What hypothesis found: the call waits for a kernel, and what hands the thread back comes from later than that."""
    backward = drawn.op("bwd", 1, 1, tid=2, **{"Sequence number": 0, "Fwd thread id": 1})
    wait = drawn.event("cuda_runtime", "cudaStreamSynchronize", 0, 3)
    holds(drawn.job(tmp_path, drawn.op("first", 0, 1), wait, backward, drawn.kernel("gemm", 0, 1, 1)).trace())


@given(st.lists(calls, max_size=14))
def test_the_path_fills_every_step_of_anything(
    tmp_path_factory: pytest.TempPathFactory, events: list[drawn.Event]
) -> None:
    holds(drawn.job(tmp_path_factory.getbasetemp(), drawn.op("first", 0, 1), *events).trace())


# --- waits that were recorded, and the same path without them

FORWARD = "[param|pytorch.model.alex_net|0|0|0|measure|forward]"


@pytest.mark.parametrize(
    ("folder", "steps_by"),
    [
        ("alexnet_a100", None),
        ("alexnet_a100", FORWARD),
        ("critical_path/simple_add", None),
        ("critical_path/simple_add", FORWARD),
        ("critical_path/cuda_event_sync", None),
        ("critical_path/cuda_event_sync_multi_stream", None),
    ],
)
def test_the_path_is_the_same_if_recorded_waits_are_hidden(folder: str, steps_by: str | None) -> None:
    trace = read(required(SHARED) / folder, jobs=1).trace()
    with_them, without = critical_path(trace, steps_by), critical_path(trace, steps_by, use_recorded=False)
    for column in ("step", "start", "end", "cause", "row"):
        assert getattr(with_them, column).tolist() == getattr(without, column).tolist()


def test_what_rests_on_inferred_waits_is_where_the_path_would_be_else(tmp_path: Path) -> None:
    wait = drawn.event("cuda_runtime", "cudaStreamSynchronize", 30, 62)
    drawing = [drawn.op("op", 0, 100), drawn.launch(10, 5, 1), drawn.kernel("gemm", 20, 70, 1), wait]
    trace = drawn.job(tmp_path, *drawing).trace()
    path = critical_path(trace)
    assert path.inferred(steps(trace, None).device).tolist() == [90 - 30]
    pieces = [(CAUSES[c], int(b - a)) for c, a, b in zip(path.cause, path.start, path.end, strict=True) if b > a]
    assert pieces == [("host", 10), ("launch", 10), ("computation", 70), ("host", 2), ("host", 8)]


def test_an_edge_that_did_not_arrive_last_needs_what_is_usual(tmp_path: Path) -> None:
    launches = [drawn.launch(10 * k, 1, k) for k in range(4)]
    work = [drawn.kernel("gemm", 40 * k + 5, 39, k, stream=7) for k in range(4)]
    graph = critical_graph(drawn.job(tmp_path, drawn.op("op", 0, 50), *launches[1:], *work[1:]).trace())
    weights = {
        dependency: graph.edges.weight[graph.dependency == dependency].tolist()
        for dependency in (DependencyKind.LAUNCH, DependencyKind.STREAM)
    }
    assert weights == {DependencyKind.LAUNCH: [35, 35, 35], DependencyKind.STREAM: [1, 1]}
