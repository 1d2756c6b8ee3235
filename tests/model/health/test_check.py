"""What is odd about a trace: a drawn trace for each symptom, and what is found in real ones."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kinetoscope import operators, trace_info
from kinetoscope.model.flight_recorder.of_trace import DAMAGED
from kinetoscope.model.trace.symptoms import Health
from kinetoscope.reading import read
from tests.drawn import Event, annotation, event, job, kernel, launch, memory, op, python

ROOT = Path(__file__).resolve().parents[3]
SHARED = ROOT.parent / "shared" / "traces"
SYMPTOMS = dict(
    re.findall(r"^\| `([A-Z_0-9]+)` \| (.+) \|$", (ROOT / "docs/reading-traces.md").read_text(), re.MULTILINE)
)

STEP = annotation("ProfilerStep#3", 0, 10_001)
CALL = python("train.py(3): step", 57, 9_000)
SHAPES: dict[str, Any] = {"External id": 1, "Input Dims": [[2, 2], [2, 2]]}
OP = op("aten::mm", 103, 1_003, **SHAPES)
LAUNCH = launch(301, 101, 11)
KERNEL = kernel("gemm", 507, 2_000, 11)
TAKEN: Event = memory(201, 64)
TAKEN["args"]["Addr"] = 4096
HEALTHY = (STEP, CALL, OP, LAUNCH, KERNEL, TAKEN)


def health(folder: Path, *events: Event, **top: object) -> Health:
    return job(folder, *events, **top).trace().health


def codes(folder: Path, *events: Event, **top: object) -> list[str]:
    return [symptom.code for symptom in health(folder, *events, **top)]


def without(*left_out: Event) -> list[Event]:
    return [each for each in HEALTHY if each not in left_out]


# --- the catalogue


def test_the_catalogue_has_every_code_that_the_source_makes() -> None:
    source = "".join(file.read_text() for file in (ROOT / "src").rglob("*.py"))
    made = set(re.findall(r'Note\(\s*"([A-Z_0-9]+)"', source))
    assert 'Note(f"RECORDER_{key}"' in source
    assert set(SYMPTOMS) - made == {"RECORDER_ERROR", "RECORDER_WARNING", "RECORDER_INFO", DAMAGED}
    rooms = [ROOT / "src/kinetoscope" / room for room in ("model/health", "readers/json", "model/trace")]
    of_health = "".join(file.read_text() for room in rooms for file in room.rglob("*.py"))
    assert set(re.findall(r'Note\(\s*"([A-Z_0-9]+)"', of_health)) - set(SYMPTOMS) == {"NOT_RECORDED", "NO_TIMELINE"}


def test_the_catalogue_is_made_of_sentences() -> None:
    assert [code for code, text in SYMPTOMS.items() if not (text[0].isupper() or text.startswith("torch"))] == []
    assert [code for code, text in SYMPTOMS.items() if not text.endswith(".")] == []


# --- each symptom


def test_a_healthy_trace_has_none(tmp_path: Path) -> None:
    assert codes(tmp_path, *HEALTHY) == []


def test_no_events(tmp_path: Path) -> None:
    assert "NO_EVENTS" in codes(tmp_path)


def test_no_calls_but_marks_of_steps(tmp_path: Path) -> None:
    """Another thread than the one that records computes."""
    assert "NO_EVENTS" in codes(tmp_path, STEP)
    assert "NO_EVENTS" not in codes(tmp_path, STEP, CALL)


def test_no_device_work(tmp_path: Path) -> None:
    assert codes(tmp_path, *without(LAUNCH, KERNEL)) == ["NO_DEVICE_WORK"]


def test_no_steps(tmp_path: Path) -> None:
    found = health(tmp_path, *without(STEP))
    assert [symptom.code for symptom in found] == ["NO_STEPS"]
    assert found["NO_STEPS"].startswith("No steps were marked")


def test_an_empty_step(tmp_path: Path) -> None:
    """The profiler waits for the device in it."""
    more = annotation("ProfilerStep#4", 10_100, 300), launch(10_150, 100, 0, name="cudaDeviceSynchronize")
    found = health(tmp_path, *HEALTHY, *more)
    assert [symptom.code for symptom in found] == ["EMPTY_STEP"]
    assert found["EMPTY_STEP"].startswith("No operator runs in the last step (4), as where prof.step()")


def test_no_shapes(tmp_path: Path) -> None:
    assert codes(tmp_path, *without(OP), op("aten::mm", 103, 1_003)) == ["NO_SHAPES"]


def test_no_stacks(tmp_path: Path) -> None:
    assert codes(tmp_path, *without(CALL)) == ["NO_STACKS"]
    stack: dict[str, Any] = {"Call stack": "a.py(1): f"}
    assert codes(tmp_path, *without(CALL), op("aten::add", 2_000, 10, **stack)) == []


def test_no_memory(tmp_path: Path) -> None:
    assert codes(tmp_path, *without(TAKEN)) == ["NO_MEMORY"]


def test_memory_without_addresses(tmp_path: Path) -> None:
    assert codes(tmp_path, *without(TAKEN), memory(201, 64)) == ["NO_ADDRESSES"]


def test_collectives_of_an_unknown_rank(tmp_path: Path) -> None:
    comm = op("record_param_comms", 3_000, 10)
    assert codes(tmp_path, *HEALTHY, comm) == ["NO_DISTRIBUTED_INFO"]
    assert codes(tmp_path, *HEALTHY, comm, distributedInfo={"rank": 0}) == []
    on_device = [launch(450, 3, 12), kernel("ncclDevKernel_AllReduce", 3_000, 10, 12)]
    assert codes(tmp_path, *HEALTHY, *on_device) == ["NO_DISTRIBUTED_INFO"]


def test_what_the_recorder_logged(tmp_path: Path) -> None:
    found = health(tmp_path, *HEALTHY, ERROR=["it\n failed", "twice"], WARNING="mind this", INFO=["x" * 999])
    assert [symptom.code for symptom in found] == ["RECORDER_ERROR", "RECORDER_WARNING", "RECORDER_INFO"]
    assert found["RECORDER_ERROR"] == "The recorder left 2 errors, the first: it failed"
    assert len(found["RECORDER_INFO"]) < 250


def test_several_recordings(tmp_path: Path) -> None:
    spans = [event("Trace", name, 0, 20_000) for name in ("PyTorch Profiler (0)", "child (-1)")]
    assert codes(tmp_path, *HEALTHY, spans[0]) == []
    assert codes(tmp_path, *HEALTHY, *spans) == ["SEVERAL_SPANS"]


def test_the_python_exporter(tmp_path: Path) -> None:
    span = event("cpu_instant_event", "[memory]", 900, 0, Addr=1, Bytes=64)
    assert codes(tmp_path, *HEALTHY, span) == ["PYTHON_EXPORT"]


@pytest.mark.parametrize("time", [0, None, float("nan"), "no time", 10**15, -(10**12)])
def test_an_event_without_a_time_among_times_since_1970(time: Any, tmp_path: Path) -> None:
    since_1970 = 1_700_000_000_000_000_000
    events = [{**each, "ts": each["ts"] + since_1970 / 1000} for each in HEALTHY]
    lost = {**op("aten::add", 0, 5_000), "ts": time}
    whole = trace_info(job(tmp_path, *events)).frame.filter(item="window")
    found = job(tmp_path, *events, lost)
    assert found.trace().health["STRAY_TIMES"].number == 1
    assert trace_info(found).frame.filter(item="window").equals(whole)
    assert len(list(found.trace().events())) == len(HEALTHY) + 1  # it is kept


def test_pairs_of_a_beginning_and_an_end_are_spans(tmp_path: Path) -> None:
    def pair(event: Event) -> list[Event]:
        begin = {key: value for key, value in event.items() if key != "dur"}
        end = {"ph": "E", "ts": round(event["ts"] + event["dur"], 3), "pid": event["pid"], "tid": event["tid"]}
        return [{**begin, "ph": "B"}, end]

    paired = [each for event in HEALTHY for each in (pair(event) if event["ph"] == "X" else [event])]
    assert codes(tmp_path, *paired) == codes(tmp_path, *HEALTHY) == []
    expected, found = (operators(job(tmp_path, *events)).frame for events in (HEALTHY, paired))
    assert found.equals(expected)
    lone = pair(op("aten::add", 3_000, 20))
    assert [codes(tmp_path, *HEALTHY, each) for each in lone] == [["UNPAIRED_EVENTS"]] * 2
    assert list(job(tmp_path, *paired).trace().events()) == paired


def test_what_is_of_no_known_kind(tmp_path: Path) -> None:
    odd = [event("dequeue", "a", 600, 10), {**event("", "b", 700, 10), "ph": "b"}]
    found = health(tmp_path, *HEALTHY, *odd)
    message = "2 events are of no category or phase that is known (dequeue, phase b): no question counts them."
    assert [(symptom.code, str(symptom)) for symptom in found] == [("UNKNOWN_EVENTS", message)]


def test_durations_below_zero(tmp_path: Path) -> None:
    assert codes(tmp_path, *HEALTHY, op("aten::add", 3_000, -7)) == ["NEGATIVE_DURATIONS"]


@pytest.mark.parametrize(
    "broken",
    [op("aten::add", 9_500, 2 * 86_400 * 10**9, tid=2), kernel("add", 3_000, 40_000, 12, stream=8)],
    ids=["longer than a day", "longer than the host's window"],
)
def test_durations_that_cannot_be(tmp_path: Path, broken: Event) -> None:
    found = health(tmp_path, *HEALTHY, launch(2_500, 10, 12), broken)
    assert [symptom.code for symptom in found][:1] == ["IMPOSSIBLE_DURATIONS"]
    assert found["IMPOSSIBLE_DURATIONS"].number == 1


def test_a_long_kernel_that_the_host_waits_for_is_possible(tmp_path: Path) -> None:
    long = [launch(2_500, 10, 12), kernel("add", 4_000, 90_000, 12, stream=8)]
    waits = launch(10_100, 91_000, 0, name="cudaDeviceSynchronize")
    assert codes(tmp_path, *HEALTHY, *long, waits) == []


def test_times_in_whole_microseconds(tmp_path: Path) -> None:
    ops = [op("aten::add", 20_000 + 3_000 * i, 1_000) for i in range(50)]
    kernels = [kernel("add", 20_000 + 7_000 * i, 0, 11, stream=9) for i in range(2)]
    found = health(tmp_path, *ops, *kernels)
    assert found["WHOLE_MICROSECONDS"].endswith("; 2 of 2 pieces of device work seem to take no time.")


def test_times_that_went_through_doubles(tmp_path: Path) -> None:
    """As a float64, the microseconds since 1970 have steps of a quarter; exact text has not."""
    times = [1_711_964_646_000_000_000 + 1_373 * i + i * i for i in range(50)]
    assert "COARSE_TIMES" in codes(tmp_path, *(op("aten::add", time, 1_000) for time in times))
    exact = ",".join(f'{{"ph":"X","cat":"cpu_op","ts":{time // 1000}.{time % 1000:03d},"dur":1}}' for time in times)
    (tmp_path / "exact.json").write_text(f'{{"traceEvents":[{exact}]}}')
    assert "COARSE_TIMES" not in read(tmp_path / "exact.json").trace().health


def test_a_clock_that_ticks_every_32_nanoseconds_is_exact_enough(tmp_path: Path) -> None:
    assert "COARSE_TIMES" not in codes(tmp_path, *(op("aten::add", 32 * (7 * i + i * i), 32) for i in range(50)))


def test_overlap_on_one_stream(tmp_path: Path) -> None:
    call = launch(450, 3, 12)
    found = health(tmp_path, *HEALTHY, call, kernel("add", 2_000, 1_000, 12))
    assert [(symptom.code, symptom.severity) for symptom in found] == [("OVERLAPPING_WORK", "warning")]
    assert "507 ns twice (16.9% of the device time)" in found["OVERLAPPING_WORK"]
    inside = health(tmp_path, *HEALTHY, call, kernel("add", 1_000, 500, 12))
    assert "500 ns twice" in inside["OVERLAPPING_WORK"]
    assert codes(tmp_path, *HEALTHY, call, kernel("add", 2_000, 1_000, 12, stream=8)) == []


def test_overlap_of_calls(tmp_path: Path) -> None:
    found = health(tmp_path, *HEALTHY, op("a", 4_000, 100), op("b", 4_050, 100))
    assert [(symptom.code, symptom.severity) for symptom in found] == [("PARTIAL_OVERLAP", "note")]
    assert "1 host call ends after" in found["PARTIAL_OVERLAP"]


@pytest.mark.parametrize(("launched", "severity"), [(4_010, "note"), (4_060, "warning"), (4_110, "note")])
def test_overlap_of_calls_is_a_warning_where_it_holds_device_time(tmp_path: Path, launched: int, severity: str) -> None:
    calls = python("opens.py(1): f", 4_000, 100), annotation("forward", 4_050, 200)
    work = launch(launched, 3, 12), kernel("add", 9_500, 1_000, 12)
    found = health(tmp_path, *HEALTHY, *calls, *work)["PARTIAL_OVERLAP"]
    assert found.severity == severity
    assert ("1.0 µs of device work (33.3% of the device time)" in found) == (severity == "warning")


def test_spans_cut_off_at_the_end(tmp_path: Path) -> None:
    taken: Event = {**TAKEN, "args": {**TAKEN["args"], "finished": False}}  # there it means nothing
    assert codes(tmp_path, *HEALTHY, taken) == []
    assert codes(tmp_path, *HEALTHY, annotation("epoch", 9_100, 10, finished=False)) == ["UNFINISHED"]
    assert codes(tmp_path, *HEALTHY, annotation("epoch", 9_100, 10, finished=True)) == []


def test_replayed_kernels(tmp_path: Path) -> None:
    assert codes(tmp_path, *HEALTHY, event("cuda_profiler_range", "gemm", 9_000, 10)) == ["KERNEL_REPLAY"]


def test_work_launched_before_the_recording(tmp_path: Path) -> None:
    found = health(tmp_path, *HEALTHY, kernel("before", 100, 400, 3), kernel("hidden", 8_000, 100, 4))
    assert [(symptom.code, symptom.severity) for symptom in found] == [("UNLINKED_WORK", "warning")]
    assert found["UNLINKED_WORK"] == (
        "2 of 3 pieces of device work (20.0% of the device time) have no recorded launch; 1 of them run before all "
        "others of their stream, so they were launched before the recording began. 2 count to no operator."
    )


def test_a_little_unlinked_work_is_a_note(tmp_path: Path) -> None:
    assert health(tmp_path, *HEALTHY, kernel("before", 100, 3, 3))["UNLINKED_WORK"].severity == "note"


def test_no_correlation_ids(tmp_path: Path) -> None:
    bare = event("kernel", "gemm", 507, 2_000, pid=0, tid=7)
    assert codes(tmp_path, *without(KERNEL), bare) == ["NO_CORRELATION"]


def test_no_device_number(tmp_path: Path) -> None:
    bare = {**event("kernel", "gemm", 507, 2_000, tid=7, correlation=11), "pid": "gpu"}
    assert codes(tmp_path, *without(KERNEL), bare) == ["NO_DEVICE_NUMBER"]


def test_graphs(tmp_path: Path) -> None:
    found = health(tmp_path, *HEALTHY, kernel("second", 3_000, 10, 11))
    assert [symptom.code for symptom in found] == ["GRAPHS"]
    assert found["GRAPHS"].startswith("1 launch started 2 pieces of device work, up to 2 each")


def test_the_worst_comes_first(tmp_path: Path) -> None:
    found = health(tmp_path, *without(CALL), op("aten::add", 3_000, -7))
    assert [symptom.severity for symptom in found] == ["warning", "note"]


# --- real traces

MICROS = "WHOLE_MICROSECONDS"
LEAN = "NO_STACKS NO_MEMORY"
BARE = "NO_SHAPES NO_STACKS NO_MEMORY"

OWN_TRACES = [
    ("class_quote", "REPAIRED PARTIAL_OVERLAP NO_DEVICE_WORK NO_SHAPES NO_MEMORY"),
    ("conv", "NO_DEVICE_WORK NO_STACKS"),
    ("dataloader", "NO_DEVICE_WORK NO_STACKS"),
    ("dataloader_workers", "NO_DEVICE_WORK NO_STACKS"),
    ("ddp2/rank0", "NO_DEVICE_WORK NO_STACKS"),
    ("ddp2/rank1", "NO_DEVICE_WORK NO_STACKS"),
    ("leak", "NO_DEVICE_WORK NO_STACKS"),
    ("meta_newline", f"REPAIRED_METADATA NO_DEVICE_WORK NO_STEPS {BARE}"),
    ("mlp", "PARTIAL_OVERLAP NO_DEVICE_WORK"),
    ("mlp_default", f"NO_DEVICE_WORK {BARE}"),
    ("name_quote", f"REPAIRED NO_DEVICE_WORK {BARE}"),
    ("no_steps", f"NO_DEVICE_WORK NO_STEPS {LEAN}"),
    ("python_export", "PARTIAL_OVERLAP NO_DEVICE_WORK PYTHON_EXPORT"),
    ("threads", f"NO_DEVICE_WORK {BARE}"),
    ("transformer", "NO_DEVICE_WORK NO_STACKS"),
]
SHARED_TRACES = [
    ("alexnet_a100/*", f"{MICROS} NO_STEPS {BARE}"),
    ("broken/meta_backslash.plain.py", "REPAIRED_METADATA NO_DEVICE_WORK NO_STEPS PYTHON_EXPORT NO_STACKS"),
    ("broken/meta_backslash.stack.py", "REPAIRED_METADATA NO_DEVICE_WORK NO_STEPS PYTHON_EXPORT"),
    ("broken/meta_key_quote.plain.cpp", "REPAIRED_METADATA NO_DEVICE_WORK NO_STEPS NO_STACKS"),
    ("broken/meta_key_quote.stack.cpp", "REPAIRED_METADATA NO_DEVICE_WORK NO_STEPS"),
    ("broken/meta_newline.plain.cpp", "REPAIRED_METADATA NO_DEVICE_WORK NO_STEPS NO_STACKS"),
    ("broken/meta_newline.plain.py", "REPAIRED_METADATA NO_DEVICE_WORK NO_STEPS PYTHON_EXPORT NO_STACKS"),
    ("broken/meta_newline.stack.cpp", "REPAIRED_METADATA NO_DEVICE_WORK NO_STEPS"),
    ("broken/meta_newline.stack.py", "REPAIRED_METADATA NO_DEVICE_WORK NO_STEPS PYTHON_EXPORT"),
    ("broken/meta_quote.plain.cpp", "REPAIRED_METADATA NO_DEVICE_WORK NO_STEPS NO_STACKS"),
    ("broken/meta_quote.stack.cpp", "REPAIRED_METADATA NO_DEVICE_WORK NO_STEPS"),
    ("broken/metajson_escaped.plain.cpp", "REPAIRED_METADATA NO_DEVICE_WORK NO_STEPS NO_STACKS"),
    ("broken/metajson_escaped.stack.cpp", "REPAIRED_METADATA NO_DEVICE_WORK NO_STEPS"),
    ("broken/metajson_invalid.plain.cpp", "REPAIRED_METADATA NO_DEVICE_WORK NO_STEPS NO_STACKS"),
    ("broken/metajson_invalid.plain.py", "REPAIRED_METADATA NO_DEVICE_WORK NO_STEPS PYTHON_EXPORT NO_STACKS"),
    ("broken/metajson_invalid.stack.cpp", "REPAIRED_METADATA NO_DEVICE_WORK NO_STEPS"),
    ("broken/metajson_invalid.stack.py", "REPAIRED_METADATA NO_DEVICE_WORK NO_STEPS PYTHON_EXPORT"),
    ("broken/name_quote.plain.cpp", "REPAIRED NO_DEVICE_WORK NO_STEPS NO_STACKS"),
    ("broken/name_quote.stack.cpp", "REPAIRED PARTIAL_OVERLAP NO_DEVICE_WORK NO_STEPS"),
    ("broken/truncated", "TRUNCATED NO_DEVICE_WORK NO_MEMORY"),
    ("broken/truncated_gzip", "STREAM TRUNCATED NO_DEVICE_WORK NO_MEMORY"),
    ("broken/truncated_inside", "TRUNCATED NO_DEVICE_WORK NO_MEMORY"),
    ("broken/weird_class_name.stack.cpp", "REPAIRED NO_DEVICE_WORK NO_STEPS"),
    ("broken/weird_code_filename.stack.cpp", "REPAIRED NO_DEVICE_WORK NO_STEPS"),
    ("cpu_only/*", f"NO_DEVICE_WORK RECORDER_INFO {LEAN}"),
    ("critical_path/cuda_event_sync/*", f"{MICROS} RECORDER_INFO {BARE}"),
    ("critical_path/cuda_event_sync_multi_stream/*", f"{MICROS} NO_STEPS RECORDER_INFO {BARE}"),
    ("critical_path/simple_add/*", f"{MICROS} NO_STEPS {BARE}"),
    ("cupti_counters/*", f"KERNEL_REPLAY {MICROS} NO_DEVICE_WORK NO_STEPS SEVERAL_SPANS {BARE}"),
    ("ddp_nccl_a100/*", f"RECORDER_INFO {BARE}"),
    ("dlrm_ddp_v100_8rank/worker0_step_12.1694128201545", f"{MICROS} {LEAN}"),
    ("dlrm_ddp_v100_8rank/worker1_step_12.1694128201556", f"UNLINKED_WORK {MICROS} {LEAN}"),
    ("dlrm_ddp_v100_8rank/worker2_step_12.1694128201554", f"{MICROS} {LEAN}"),
    ("dlrm_ddp_v100_8rank/worker3_step_12.1694128201557", f"UNLINKED_WORK {MICROS} {LEAN}"),
    ("dlrm_ddp_v100_8rank/worker4_step_12.1694128201547", f"{MICROS} {LEAN}"),
    ("dlrm_ddp_v100_8rank/worker5_step_12.1694128201549", f"{MICROS} {LEAN}"),
    ("dlrm_ddp_v100_8rank/worker6_step_12.1694128201553", f"{MICROS} {LEAN}"),
    ("dlrm_ddp_v100_8rank/worker7_step_12.1694128201553", f"{MICROS} {LEAN}"),
    ("eager_b200/*", "OVERLAPPING_WORK PARTIAL_OVERLAP NO_STEPS NO_MEMORY"),
    ("execution_trace/*trace.json.gz", f"{MICROS} NO_STEPS {BARE}"),
    ("hostile/distributed_info_not_found.json.gz", f"NO_DISTRIBUTED_INFO {MICROS} NO_DEVICE_WORK NO_MEMORY"),
    ("hostile/rank_non_gpu.json.gz", f"{MICROS} NO_DEVICE_WORK NO_MEMORY"),
    ("hostile/rank_not_found.json.gz", f"NO_DISTRIBUTED_INFO {MICROS} NO_DEVICE_WORK NO_MEMORY"),
    ("hostile/trace_view.json", f"NO_CORRELATION ROUNDED_TIMES UNKNOWN_EVENTS {BARE}"),
    ("mi250_train/*", f"EMPTY_STEP {LEAN}"),
    (
        "mtia/*",
        f"UNLINKED_WORK RECORDER_ERROR PARTIAL_OVERLAP LOST_AT_END GRAPHS UNFINISHED NO_STEPS RECORDER_INFO {LEAN}",
    ),
    ("owlv2_h100/*", "PARTIAL_OVERLAP"),
    ("queue_length/*", f"UNLINKED_WORK {MICROS} OVERLAPPING_WORK GRAPHS {LEAN}"),
    ("resnet50_v100/num_workers_0/worker0.1623143089861", f"{MICROS} NO_ADDRESSES"),
    ("resnet50_v100/num_workers_0/worker0.1623143566756", f"{MICROS} NO_ADDRESSES"),
    ("resnet50_v100/num_workers_4/worker0.1623212756351", f"{MICROS} NO_ADDRESSES"),
    ("resnet50_v100/num_workers_4/worker0.1623213129365", f"{MICROS} NO_ADDRESSES"),
    ("resnet_ddp_mi300/*", "UNLINKED_WORK PARTIAL_OVERLAP NO_MEMORY"),
    ("sampled_2rank/sampled_rank-0.json.gz", f"{MICROS} {LEAN}"),
    ("sampled_2rank/sampled_rank-1.json.gz", f"{MICROS} {LEAN}"),
    ("torch_2_13_cpu/compile", "PARTIAL_OVERLAP NO_DEVICE_WORK"),
    ("torch_2_13_cpu/conv", "PARTIAL_OVERLAP NO_DEVICE_WORK"),
    ("torch_2_13_cpu/dataloader2", "PARTIAL_OVERLAP NO_DEVICE_WORK"),
    ("torch_2_13_cpu/ddp4_rank0", "NO_DEVICE_WORK NO_STACKS"),
    ("torch_2_13_cpu/ddp4_rank1", "NO_DEVICE_WORK NO_STACKS"),
    ("torch_2_13_cpu/ddp4_rank2", "NO_DEVICE_WORK NO_STACKS"),
    ("torch_2_13_cpu/ddp4_rank3", "NO_DEVICE_WORK NO_STACKS"),
    ("torch_2_13_cpu/leak", "PARTIAL_OVERLAP NO_DEVICE_WORK"),
    ("torch_2_13_cpu/leak_light", "NO_DEVICE_WORK NO_STACKS"),
    ("torch_2_13_cpu/mlp", "PARTIAL_OVERLAP NO_DEVICE_WORK"),
    ("torch_2_13_cpu/mlp_default", f"NO_DEVICE_WORK {BARE}"),
    ("torch_2_13_cpu/transformer", "PARTIAL_OVERLAP NO_DEVICE_WORK"),
    ("trace_compare/base/*", f"UNLINKED_WORK {MICROS} NO_MEMORY"),
    ("trace_compare/test/*", f"UNLINKED_WORK {MICROS} LOST_AT_END NO_MEMORY"),
    ("trace_diff/control/*", f"{MICROS} NO_MEMORY"),
    ("trace_diff/test/*", f"UNLINKED_WORK {MICROS} OVERLAPPING_WORK GRAPHS NO_MEMORY"),
]


def found_in(folder: Path, name: str) -> list[str]:
    paths = [*folder.glob(name), *folder.glob(f"{name}.pt.trace.json*")]
    if not paths:
        pytest.skip(f"{name} is not here: shared traces are not part of the project")
    return [symptom.code for symptom in read(next(p for p in paths if p.is_file()), jobs=1).trace().health]


@pytest.mark.parametrize(("name", "expected"), OWN_TRACES)
def test_own_traces(name: str, expected: str) -> None:
    assert found_in(ROOT / "tests" / "traces", name) == expected.split()


@pytest.mark.parametrize(("name", "expected"), SHARED_TRACES)
def test_shared_traces(name: str, expected: str) -> None:
    assert found_in(SHARED, name) == expected.split()


def test_a_server_is_not_asked_to_call_the_profiler(tmp_path: Path) -> None:
    events = [annotation(f"step[DECODE bs={k + 1}]", 100 * k, 90) for k in range(3)]
    said = health(tmp_path, *events)["NO_STEPS"]
    assert said == "The 3 steps are those that SGLang named, 'step[…]'. Other annotations are steps with --steps-by."
