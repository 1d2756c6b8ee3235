"""The drawn device is linked as a real one is."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

from benchmarks.device import with_device
from benchmarks.marking import nanoseconds
from benchmarks.template import read

TRACE = Path(__file__).parents[1] / "traces" / "conv.pt.trace.json.gz"


def test_each_piece_of_device_work_has_one_launch_and_two_ends_of_a_flow() -> None:
    events = with_device(read(TRACE))["traceEvents"]
    launches = {event["args"]["correlation"]: event for event in events if event.get("cat") == "cuda_runtime"}
    work = [event for event in events if event.get("cat") in {"kernel", "gpu_memcpy", "gpu_memset"}]
    flows = Counter((event["ph"], event["id"]) for event in events if event.get("cat") == "ac2g")
    assert len(work) == len(launches) > 100
    assert flows == Counter({(phase, number): 1 for phase in "sf" for number in launches})
    ops = {event["args"]["External id"]: event for event in events if event.get("cat") == "cpu_op"}
    for event in work:
        launch = launches[event["args"]["correlation"]]
        op = ops[event["args"]["External id"]]
        assert nanoseconds(op["ts"]) <= nanoseconds(launch["ts"]) < nanoseconds(event["ts"])


def test_nothing_overlaps_on_a_stream() -> None:
    events = with_device(read(TRACE))["traceEvents"]
    for stream in (7, 20):
        work = [e for e in events if e.get("tid") == stream and e.get("pid") == 0 and "stream" in e.get("args", {})]
        spans = sorted((nanoseconds(event["ts"]), nanoseconds(event["dur"])) for event in work)
        assert len(spans) > 2
        assert all(start + length <= after for (start, length), (after, _) in pairwise(spans))


def test_the_recording_itself_is_kept() -> None:
    document = read(TRACE)
    assert with_device(document)["traceEvents"][: len(document["traceEvents"])] == document["traceEvents"]
