"""How much of the device time of real traces the formulas cover, and that no floor is above what was measured."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import kinetoscope
from kinetoscope.model.device.peaks import known_peaks
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.roofline.calls import costed_calls
from kinetoscope.model.roofline.formulas.registry import ENTRIES
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.trace import Trace

COVERED = {
    "owlv2_h100": 0.99,
    "resnet50_v100/num_workers_0": 0.99,
    "resnet50_v100/num_workers_4": 0.99,
    "resnet_ddp_mi300": 0.99,
    "eager_b200": 0.99,
    "trace_diff/control": 0.97,
    "trace_diff/test": 0.95,
    "mi250_train": 0.99,
    "dlrm_ddp_v100_8rank": 0.99,
}
"""Device time with a formula, of what operators launched whose shapes were recorded and can tell."""


@cache
def trace_of(traces: Path, name: str) -> Trace:
    return kinetoscope.read(sorted((traces / name).glob("*.gz"))[0]).trace()


@pytest.mark.parametrize("name", COVERED)
def test_formulas_cover_the_device_time_of_operators_with_shapes(shared_traces: Path, name: str) -> None:
    trace = trace_of(shared_traces, name)
    work, costs = device_work(trace), costed_calls(trace)
    told = np.append(arguments.has(trace, "input_dims"), np.False_)[work.op]
    unknown = [trace.strings.code(name) for name, entry in ENTRIES.items() if entry.no_formula]
    counts = told & ~np.isin(np.append(trace.name, -1)[work.op], unknown)
    moved = costs.of_calls([variant.bytes for variant in costs.variants])
    covered = np.append(~np.isnan(moved) | (costs.flop > 0), np.False_)[costs.call]
    assert work.duration[counts & covered].sum() >= COVERED[name] * work.duration[counts].sum()


@pytest.mark.parametrize("name", COVERED)
def test_no_call_moves_more_than_its_memory_could(shared_traces: Path, name: str) -> None:
    """A part of the data as large as the cache may still lie in it; the rest passes the memory."""
    trace = trace_of(shared_traces, name)
    work, costs = device_work(trace), costed_calls(trace)
    peak = known_peaks(trace, int(work.device[work.device >= 0][0])).peak
    assert peak is not None
    assert peak.bandwidth is not None
    charged = np.flatnonzero(costs.call >= 0)
    time = np.bincount(costs.call[charged], work.duration[charged], len(costs))
    of_memory = np.array([variant.link == "none" for variant in costs.variants], np.bool_)[costs.variant]
    moved = costs.of_calls([variant.bytes for variant in costs.variants])
    cache = peak.cache or 0
    too_fast = of_memory & (time > 0) & (moved - cache > time * 1e-9 * peak.bandwidth)
    assert not [costs.variants[place].name for place in costs.variant[too_fast].tolist()]
