"""A page has one selection: a step has one device time on all of them, also where work precedes the recording."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinetoscope.analyses import named
from kinetoscope.model.steps.selection import ALL, default_to_steady
from kinetoscope.pages import named as page_named
from kinetoscope.reading import read

STEADY = default_to_steady(ALL)


@pytest.mark.parametrize("name", ["qwen_h100", "compile_graphs_3060/trace_04.json.gz", "queue_length"])
def test_a_step_has_one_device_time(shared_traces: Path, name: str) -> None:
    job = read(shared_traces / name)
    kernels = named("kernels")(job, select=STEADY, copies=True).frame.get_column("total").sum()
    assert named("categories")(job, select=STEADY).frame.get_column("total").sum() == kernels
    roofline = {by: named("roofline")(job, select=STEADY, by=by).frame["device_time"].sum() for by in ("op", "step")}
    assert roofline == {"op": kernels, "step": kernels}
    linked = named("operators")(job, select=STEADY).frame.get_column("device_self").sum()
    assert linked <= kernels
    steps = named("step_breakdown")(job, select=STEADY).frame.get_column("duration").sum()
    assert kernels <= 1.1 * float(steps)  # these traces hardly run two kernels at a time


def test_the_share_of_tensor_cores_is_one_number(shared_traces: Path) -> None:
    job = read(shared_traces / "qwen_h100")
    used = named("device_utilization")(job, select=STEADY).frame
    said = page_named("kernels").page(job, STEADY, {}).sentence
    assert said.endswith("runs on matrix units.")
    assert said.quantities[-1].value == pytest.approx(used.item(0, "matrix_unit_share"))  # type: ignore[attr-defined]
