"""Rules about data on real traces: what the runs themselves say is wrong, and what the fix brought."""

from __future__ import annotations

import pytest

from kinetoscope.advisor.advice import Advice, advise
from kinetoscope.reading import read
from tests.catalog.samples import SHARED, required


def advice(name: str) -> Advice:
    return advise(read(required(SHARED) / name, jobs=1))


def test_the_loader_without_workers_is_the_first_finding_and_the_measured_gain_is_promised() -> None:
    before, after = advice("resnet50_v100/num_workers_0"), advice("resnet50_v100/num_workers_4")
    first = before.findings[0]
    assert first.code == "DATA001"
    assert first.severity in ("warning", "critical")
    assert first.stake.low < before.step - after.step < first.stake.high
    assert first.evidence[0].file == "resnet50_profiler_api.py"
    assert not {each.code for each in after.findings} & {"DATA001", "DATA002", "DATA003", "DATA004"}


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("owlv2_h100", {"DATA001"}),
        ("torch_2_13_cpu/dataloader2.pt.trace.json.gz", {"DATA002"}),
        ("torch_2_13_cpu/leak_light.pt.trace.json.gz", {"MEMORY005"}),
        ("torch_2_13_cpu/transformer.pt.trace.json.gz", set()),
        ("torch_2_13_cpu/conv.pt.trace.json.gz", set()),
        ("trace_diff/control", set()),
        ("resnet_ddp_mi300", set()),
        ("ddp_nccl_a100", set()),
        ("queue_length", set()),
        ("mtia", set()),
    ],
)
def test_what_is_wrong_with_data_and_memory(name: str, codes: set[str]) -> None:
    found = {each.code for each in advice(name).findings if each.code.startswith(("DATA", "MEMORY"))}
    assert found == codes
