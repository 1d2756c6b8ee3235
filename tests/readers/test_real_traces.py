"""Each real trace: it reads, it says what it should, no time is lost, and every event can be had back."""

import gzip
import json
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from kinetoscope.errors import NotATraceError
from kinetoscope.model.trace.source import Source, SourceOptions
from kinetoscope.model.trace.trace import Trace
from kinetoscope.readers.json.kineto import load
from tests.conftest import DEMO, OURS

# file under ../shared/traces, events, codes of what reading has to say
SHARED = [
    ("alexnet_a100/benchmark_result_2869224_1695835535_trace.json.gz", 1408, ""),
    ("cpu_only/rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz", 30, ""),
    ("critical_path/cuda_event_sync/event_sync_trace.json.gz", 92, ""),
    ("critical_path/cuda_event_sync_multi_stream/event_sync_trace.json.gz", 149, ""),
    ("critical_path/simple_add/benchmark_result_493459_1694039959_trace.json.gz", 1348, ""),
    ("cupti_counters/benchmark_result_924719_1679055439_trace.json.gz", 4222, ""),
    ("ddp_nccl_a100/nccl_data.json.gz", 40573, ""),
    ("dlrm_ddp_v100_8rank/worker0_step_12.1694128201545.pt.trace.json.gz", 3290, ""),
    ("dlrm_ddp_v100_8rank/worker1_step_12.1694128201556.pt.trace.json.gz", 3424, ""),
    ("dlrm_ddp_v100_8rank/worker2_step_12.1694128201554.pt.trace.json.gz", 3268, ""),
    ("dlrm_ddp_v100_8rank/worker3_step_12.1694128201557.pt.trace.json.gz", 3474, ""),
    ("dlrm_ddp_v100_8rank/worker4_step_12.1694128201547.pt.trace.json.gz", 3310, ""),
    ("dlrm_ddp_v100_8rank/worker5_step_12.1694128201549.pt.trace.json.gz", 3250, ""),
    ("dlrm_ddp_v100_8rank/worker6_step_12.1694128201553.pt.trace.json.gz", 3272, ""),
    ("dlrm_ddp_v100_8rank/worker7_step_12.1694128201553.pt.trace.json.gz", 3250, ""),
    ("eager_b200/eager_trace.json.gz", 24656, ""),
    ("execution_trace/benchmark_simple_add_trace.json.gz", 111, ""),
    ("compile_graphs_3060/trace_04.json.gz", 9408, ""),
    ("compile_graphs_3060/trace_05.json.gz", 4175, ""),
    ("compile_graphs_3060/trace_06.json.gz", 4105, ""),
    ("hostile/distributed_info_not_found.json.gz", 2467, ""),
    ("hostile/rank_non_gpu.json.gz", 2467, ""),
    ("hostile/rank_not_found.json.gz", 2467, ""),
    ("hostile/trace_view.json", 3670, "ROUNDED_TIMES"),
    ("lost_kernels_a40/notebooks__trace.json", 823, ""),
    ("mi250_train/mi250_minitoy_train_ROCm6_2_kineto.json.gz", 220, ""),
    ("mtia/mtia_inference_rank_0.json.gz", 16158, ""),
    ("normalization_mi210/normalization_layer_test.json.gz", 8500, ""),
    ("owlv2_h100/google_owlv2-large-patch14-ensemble__1016001.json.gz", 132152, ""),
    ("owlv2_mi300/google_owlv2-large-patch14-ensemble__1016001.json.gz", 130780, ""),
    ("queue_length/rank0.json.gz", 108936, ""),
    ("qwen_h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz", 18221, ""),
    ("resnet_2080ti/resnet_kineto.json.gz", 111631, ""),
    ("timesformer_h100/facebook_timesformer-base-finetuned-k400__1016002.json.gz", 50125, ""),
    ("resnet50_v100/num_workers_0/worker0.1623143089861.pt.trace.json.gz", 75718, ""),
    ("resnet_ddp_mi300/resnet_act_checkpoint.json.gz", 56451, ""),
    ("sampled_2rank/sampled_rank-0.json.gz", 4855, ""),
    ("sampled_2rank/sampled_rank-1.json.gz", 4720, ""),
    ("torch_2_13_cpu/compile.pt.trace.json.gz", 7025, ""),
    ("torch_2_13_cpu/conv.pt.trace.json.gz", 4967, ""),
    ("torch_2_13_cpu/dataloader2.pt.trace.json.gz", 10031, ""),
    ("torch_2_13_cpu/ddp4_rank0.pt.trace.json.gz", 9428, ""),
    ("torch_2_13_cpu/ddp4_rank1.pt.trace.json.gz", 9427, ""),
    ("torch_2_13_cpu/ddp4_rank2.pt.trace.json.gz", 9412, ""),
    ("torch_2_13_cpu/ddp4_rank3.pt.trace.json.gz", 9423, ""),
    ("torch_2_13_cpu/leak.pt.trace.json.gz", 6188, ""),
    ("torch_2_13_cpu/leak_light.pt.trace.json.gz", 24724, ""),
    ("torch_2_13_cpu/mlp.pt.trace.json.gz", 6167, ""),
    ("torch_2_13_cpu/mlp_default.pt.trace.json.gz", 2256, ""),
    ("torch_2_13_cpu/transformer.pt.trace.json.gz", 23033, ""),
    ("trace_compare/base/base.json.gz", 33, ""),
    ("trace_compare/test/test.json.gz", 34, ""),
    ("trace_diff/control/control.json.gz", 109123, ""),
]
TWINS = {  # of the same make and size as one above: counted only, for the time it takes
    "resnet50_v100/num_workers_0/worker0.1623143566756.pt.trace.json.gz": 75718,
    "resnet50_v100/num_workers_4/worker0.1623212756351.pt.trace.json.gz": 71424,
    "resnet50_v100/num_workers_4/worker0.1623213129365.pt.trace.json.gz": 71424,
    "trace_diff/test/test.json.gz": 105167,
}
LARGE_EVENTS = 5_000
COUNTED = {name: events for name, events, codes in SHARED if events > LARGE_EVENTS}
REFUSED = {
    "execution_trace/benchmark_simple_add_et.json.gz": "execution trace",
    "memory_timeline/memory_timeline.raw.gz": "a JSON list",
}
OWN = [
    (OURS / "compiled" / "rank0.pt.trace.json.gz", 554),
    (OURS / "compiled_2_15" / "rank0.pt.trace.json.gz", 554),
    (OURS / "recompiled" / "torch-2.13" / "rank0.pt.trace.json.gz", 4636),
    (OURS / "recompiled" / "torch-2.15" / "rank0.pt.trace.json.gz", 5065),
    (OURS / "conv.pt.trace.json.gz", 1491),
    (OURS / "dataloader.pt.trace.json.gz", 1848),
    (OURS / "dataloader_workers.pt.trace.json.gz", 1026),
    (OURS / "ddp2" / "rank0.pt.trace.json.gz", 1010),
    (OURS / "ddp2" / "rank1.pt.trace.json.gz", 1010),
    (OURS / "leak.pt.trace.json.gz", 1196),
    (OURS / "mlp.pt.trace.json.gz", 2214),
    (OURS / "mlp_default.pt.trace.json.gz", 756),
    (OURS / "no_steps.pt.trace.json.gz", 451),
    (OURS / "python_export.pt.trace.json.gz", 903),
    (OURS / "threads.pt.trace.json.gz", 784),
    (OURS / "transformer.pt.trace.json.gz", 7639),
    (DEMO, 5660),
]


class Spelled(float):
    """A float that remembers how it was written."""

    text: str

    def __new__(cls, text: str) -> "Spelled":
        self = super().__new__(cls, text)
        self.text = text
        return self


def _document(file: Path) -> tuple[dict[str, Any], list[Any]]:
    content = file.read_bytes()
    content = gzip.decompress(content) if file.suffix == ".gz" else content
    document = json.loads(content, parse_float=Spelled)
    if isinstance(document, list):
        return {}, document
    return document, document.pop("traceEvents")


def _totals(events: list[Any]) -> dict[str, int]:
    """Nanoseconds by category, each duration rounded on its own."""
    totals: dict[str, int] = defaultdict(int)
    for event in events:
        duration = event.get("dur", 0)
        text = duration.text if isinstance(duration, Spelled) else str(duration)
        totals[event.get("cat", "")] += round(Decimal(text) * 1000)
    return {category: total for category, total in totals.items() if total}


def _totals_of(trace: Trace) -> dict[str, int]:
    totals: dict[str, int] = defaultdict(int)
    for category, start, end in zip(trace.category.tolist(), trace.start.tolist(), trace.end.tolist(), strict=True):
        totals[trace.strings.label(category)] += end - start
    return {category: total for category, total in totals.items() if total}


def _check(file: Path, events: int, codes: str) -> None:
    trace = load(Source(str(file)))
    assert len(trace) == events
    assert " ".join(symptom.code for symptom in trace.reading) == codes
    metadata, expected = _document(file)
    assert repr(list(trace.events())) == repr(expected)
    assert repr(dict(trace.metadata)) == repr(metadata)
    assert _totals_of(trace) == _totals(expected)


def _each() -> list[ParameterSet]:
    """The shared ones; `make test` counts the events of the large ones only."""
    slow = pytest.mark.slow
    return [pytest.param(*each, id=each[0], marks=[slow] if each[1] > LARGE_EVENTS else []) for each in SHARED]


@pytest.mark.parametrize(("name", "events", "codes"), _each())
def test_shared(shared_traces: Path, name: str, events: int, codes: str) -> None:
    _check(shared_traces / name, events, codes)


@pytest.mark.parametrize(("file", "events"), OWN, ids=[file.name for file, _ in OWN])
def test_own(file: Path, events: int) -> None:
    _check(file, events, "")


@pytest.mark.parametrize(("name", "events"), (TWINS | COUNTED).items())
def test_large_ones_are_read_on_two_threads(shared_traces: Path, name: str, events: int) -> None:
    trace = load(Source(str(shared_traces / name), options=SourceOptions(threads=2)))
    assert len(trace) == events
    assert not trace.reading


@pytest.mark.parametrize("name", REFUSED)
def test_refused(shared_traces: Path, name: str) -> None:
    with pytest.raises(NotATraceError, match=REFUSED[name]):
        load(Source(str(shared_traces / name)))


def test_all_are_listed(shared_traces: Path) -> None:
    listed = {name for name, _, _ in SHARED} | TWINS.keys() | REFUSED.keys()
    there = {file.relative_to(shared_traces).as_posix() for file in shared_traces.rglob("*.*") if file.is_file()}
    assert {name for name in there if not name.startswith("broken/") and name != "README.md"} == listed


def test_all_of_our_own_are_listed() -> None:
    listed = {file for file, _ in OWN}
    broken = {"class_quote", "meta_newline", "name_quote"}
    there = {file for file in OURS.rglob("*.pt.trace.json.gz") if file.name.partition(".")[0] not in broken}
    assert there | {DEMO} == listed
