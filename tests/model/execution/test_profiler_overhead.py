"""The profiler's own buffers: which call they interrupt, and that they are no time of the program."""

from __future__ import annotations

from pathlib import Path

from kinetoscope import idle_breakdown, operators
from kinetoscope.model.execution.profiler_overhead import profiler_overhead
from tests import drawn

US = 1000


def events(*, inside_launch: bool) -> list[drawn.Event]:
    """Two products; the buffer of the first one takes 1.8 of 2.1 ms, on the track 0 that is no thread's."""
    at = 2_010 * US if inside_launch else 100 * US
    return [
        drawn.kernel("before", 0, 10 * US, 9),
        drawn.op("aten::mm", 20 * US, 3_980 * US),
        drawn.op("another thread", 0, 5_000 * US, tid=2),
        drawn.event("overhead", "Activity Buffer Request", at, 1_800 * US, tid=0),
        drawn.event("overhead", "Lazy Function Loading", 1_950 * US, 10 * US, tid=0),
        drawn.launch(2_000 * US, 1_900 * US, 1),
        drawn.kernel("gemm", 3_900 * US, 100 * US, 1),
    ]


def test_a_buffer_belongs_to_the_innermost_call_that_it_lies_in(tmp_path: Path) -> None:
    found = profiler_overhead(drawn.job(tmp_path, *events(inside_launch=False)).trace())
    assert (found.row.tolist(), found.call.tolist()) == ([3], [1])
    found = profiler_overhead(drawn.job(tmp_path, *events(inside_launch=True)).trace())
    assert (found.row.tolist(), found.call.tolist()) == ([3], [5])


def test_idle_time_names_the_profiler(tmp_path: Path) -> None:
    job = drawn.job(tmp_path, *events(inside_launch=False))
    time = dict(idle_breakdown(job).frame.select("detail", "time").iter_rows())
    assert time["profiler"] == 1_800 * US
    assert time["host operator"] == (1_980 - 1_800) * US
    job = drawn.job(tmp_path, *events(inside_launch=True))
    time = dict(idle_breakdown(job).frame.select("detail", "time").iter_rows())
    assert (time["profiler"], time["launch call"]) == (1_800 * US, 100 * US)
    assert (
        operators(job).notes[-1 - ("Memory" in operators(job).notes[-1])].startswith("The profiler's own buffers took")
    )


def test_what_lies_in_no_call_interrupts_none(tmp_path: Path) -> None:
    job = drawn.job(tmp_path, drawn.op("a", 0, 10), drawn.event("overhead", "Buffer Flush", 20, 10, tid=0))
    assert profiler_overhead(job.trace()).call.tolist() == [-1]
    assert not any("profiler's" in note for note in operators(job).notes)
