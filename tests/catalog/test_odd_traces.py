"""Every analysis answers, or says what is wrong with the question, whatever a file holds."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kinetoscope import ANALYSES, Job, Selection, read
from kinetoscope.advisor.advice import advise
from kinetoscope.errors import UsageError
from tests.catalog.test_analyses import is_sound
from tests.catalog.test_rules import is_whole
from tests.conftest import few_examples

oddities = st.sampled_from(
    [
        *(None, True, "", "7", "stream 7", "0x0", -1, 0, 1.5, -0.0, 2**31, 2**53 + 1, 2**63, -(2**63), 10**30, 1e300),
        *([], {}, [1, [2]], {"a": None}, "\ud800", "\x1b[31m", "<b>", "ü", float("nan"), float("inf")),
    ]
)


def one_of(texts: str) -> st.SearchStrategy[str]:
    """One of the texts between semicolons."""
    return st.sampled_from([text.strip() for text in texts.split(";")])


names = one_of("""
    ProfilerStep#1; ProfilerStep#2; ProfilerStep#99999999999999999999; enumerate(DataLoader)#X.__next__;
    Optimizer.step#A; aten::mm; aten::add.out; nccl:all_reduce; gloo:all_reduce; nn.Module: Net_0; queue.py(1): get;
    [pl][module]A; cudaLaunchKernel; ncclDevKernel; Memcpy HtoD; dma_request; event_wait; [memory]; fwdbwd; ac2g;
    process_name; thread_name; thread_sort_index; process_labels; Iteration Start: PyTorch Profiler
""")
categories = one_of("""
    cpu_op; Operator; user_annotation; python_function; cuda_runtime; cuda_driver; kernel; gpu_memcpy; gpu_memset;
    gpu_user_annotation; cuda_sync; cpu_instant_event; mtia_ccp_events; overhead; Trace; ac2g
""")
arguments = one_of("""
    correlation; External id; external id; device; stream; grid; block; blocks per SM; est. achieved occupancy %;
    registers per thread; bytes; memory bandwidth (GB/s); Bytes; Addr; Device Type; Device Id; Total Allocated;
    Total Reserved; Input Dims; Input type; Sequence number; Fwd thread id; Call stack; Python id; Python parent id;
    Collective name; finished; name; sort_index; labels
""")
members = st.fixed_dictionaries(
    {"ph": st.sampled_from(["X", "X", "X", "X", "i", "s", "f", "M", "C", "B"])},
    optional={
        "cat": categories | oddities,
        "name": names | oddities,
        "pid": st.integers(0, 2) | oddities,
        "tid": st.integers(0, 2) | oddities,
        "ts": st.integers(0, 50) | oddities,
        "dur": st.integers(0, 30) | oddities,
        "id": st.integers(0, 3),
        "args": st.dictionaries(arguments, st.integers(0, 3) | oddities, max_size=5) | oddities,
    },
)
facts = st.dictionaries(
    st.sampled_from(
        ["baseTimeNanoseconds", "deviceProperties", "distributedInfo", "record_shapes", "displayTimeUnit", "host_name"]
    ),
    oddities
    | st.just([{"id": 0, "name": 7, "numSms": "many", "totalGlobalMem": -1}, None])
    | st.just({"rank": "first", "world_size": -3, "pg_config": "none"}),
)


def drawn_job(folder: Path, events: list[Any], top: dict[str, Any]) -> Job:
    file = folder / "odd.json"
    file.write_text(json.dumps({**top, "traceEvents": [{"ph": "X"}, *events]}))
    return read(file, jobs=1)


selections = st.builds(
    Selection,
    steps=st.none() | st.just((1,)) | st.just((0, 2)),
    time=st.none() | st.tuples(st.integers(0, 40_000), st.integers(0, 40_000)),
    devices=st.none() | st.just((0,)),
    streams=st.none() | st.just((1, 2)),
    threads=st.none() | st.just((1,)),
    annotation=st.none() | st.just("ProfilerStep#1"),
    steps_by=st.none() | st.just("aten::mm"),
)


@given(st.lists(members, max_size=12), facts, selections)
@example([{"ph": "X", "cat": "cpu_op"}, {"ph": "X", "cat": "kernel", "name": None, "dur": 1}], {}, Selection())
@few_examples
def test_every_analysis_answers_every_selection_and_the_advisor_goes_on(
    tmp_path_factory: pytest.TempPathFactory, events: list[Any], top: dict[str, Any], select: Selection
) -> None:
    job = drawn_job(tmp_path_factory.getbasetemp(), events, top)
    for analysis in ANALYSES:
        is_sound(analysis(job))
        with suppress(UsageError):
            is_sound(analysis(job, select=select))
    advice = advise(job)
    assert not [note for note in advice.notes if note.code == "RULE_FAILED"]
    for finding in advice.findings:
        is_whole(finding, job)
