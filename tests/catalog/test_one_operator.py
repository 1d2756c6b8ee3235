"""The time of one operator is one on all faces, also where calls overlap only in part."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from kinetoscope import flame, modules, operator_stacks, operators, step_breakdown
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import ALL
from kinetoscope.model.timeline.area import LanesOfRank, area_table
from kinetoscope.model.timeline.layout import timeline
from kinetoscope.model.timeline.range import in_range
from kinetoscope.outputs.summary import summary
from kinetoscope.pages import sources
from kinetoscope.pages.blocks import BarsBlock
from tests import drawn

US = 1000
STEP = 1_000 * US
UPDATE = "aten::_fused_adamw_"
TAIL = 20 * US
"""How long the frame of the optimizer goes on after the step has ended in it."""


def recorded(folder: Path) -> Job:
    """Three steps as a hook on the optimizer marks them: each ends within the frame of `optimizer.step()`."""
    events = [drawn.python("train.py(3): main", 0, 3 * STEP + 100 * US)]
    for step in range(3):
        at = step * STEP + TAIL
        wrapper = at + 500 * US
        events += [
            drawn.annotation(f"ProfilerStep#{step}", at, STEP),
            drawn.python("nn.Module: Net_0", at + 40 * US, 300 * US),
            drawn.python("net.py(7): forward", at + 45 * US, 290 * US),
            drawn.op("aten::mm", at + 50 * US, 200 * US),
            drawn.python("torch/optim/optimizer.py(514): wrapper", wrapper, 500 * US + TAIL),
            drawn.annotation("Optimizer.step#AdamW.step", wrapper + 2 * US, 450 * US),
            drawn.op(UPDATE, wrapper + 10 * US, 400 * US),
            drawn.python("kinetoscope/record/always_on/hooks.py(194): __exit__", wrapper + 480 * US, 10 * US + TAIL),
        ]
    return drawn.job(folder, *events)


def host_self(frame: pl.DataFrame) -> dict[str, int]:
    return dict(frame.group_by("name").agg(pl.col("host_self").sum()).iter_rows())


def test_an_operator_has_one_share_on_all_faces(tmp_path: Path) -> None:
    job = recorded(tmp_path)
    trace = job.trace()
    steps = step_breakdown(job).frame["duration"].sum()
    assert steps == 3 * STEP
    update, step = 3 * 400 * US, 3 * (STEP - (200 + 450) * US)
    expected = {UPDATE: update, "ProfilerStep*": step}

    plain = host_self(operators(job).frame)
    assert {name: plain[name] for name in expected} == expected
    assert sum(plain.values()) == steps, "the steps, and nothing twice"

    deep = operators(job, python=True).frame
    assert host_self(deep)[UPDATE] == update
    assert min(deep["host_self"].to_list()) >= 0
    assert deep["host_self"].sum() == 3 * STEP + 100 * US, "the outermost frame"

    stacks = operator_stacks(job).frame
    assert host_self(stacks) == plain
    [most] = [block for block in summary(job).blocks if isinstance(block, BarsBlock)]
    assert {bar.name: bar.share for bar in most.bars}[UPDATE] == update / steps
    assert set(stacks["file"].drop_nulls()) == {"train.py", "net.py"}, "nothing of the recorder"

    frames = flame(job, weight="host").frame
    assert frames["value"].sum() == 3 * STEP + 100 * US
    assert frames.filter(pl.col("stack").str.ends_with(UPDATE))["value"].sum() == update
    [module] = modules(job).frame["host_self"].to_list()
    assert module == 3 * 300 * US

    in_range_top = {trace.strings.label(each.name): each.time for each in in_range(trace, 0, 3 * STEP + TAIL).host_top}
    assert in_range_top[UPDATE] == update
    table = area_table([LanesOfRank(trace, timeline(trace).lanes, 0, 3 * STEP + 100 * US)], "name").frame
    in_area = dict(table.select("name", "self").iter_rows())
    assert in_area[UPDATE] == update
    assert sum(in_area.values()) == 3 * STEP + 100 * US


def test_the_recorder_is_no_place_in_the_program(tmp_path: Path) -> None:
    """Its hook on `backward` runs what torch runs; the line is that of the call of `backward`."""
    job = drawn.job(
        tmp_path,
        drawn.python("train.py(3): main", 0, 100),
        drawn.python("kinetoscope/record/always_on/hooks.py(283): backward", 10, 80),
        drawn.op("aten::mm", 20, 50),
    )
    assert operator_stacks(job).frame.select("file", "line").row(0) == ("train.py", 3)
    assert "main · train.py:3" in sources.page(job, ALL, {}).sentence


@pytest.mark.parametrize("beside", [[], [drawn.op("aten::empty", 12, 5)]], ids=["alone", "beside another"])
def test_a_call_in_a_call_of_its_name_counts_once(tmp_path: Path, beside: list[drawn.Event]) -> None:
    """As `aten::mm` calls its out-variant, with or without an `aten::empty` beside it."""
    variant = drawn.op("aten::mm", 20, 60)
    job = drawn.job(
        tmp_path,
        drawn.op("aten::mm", 10, 80),
        *beside,
        variant,
        drawn.launch(30, 5, 1),
        drawn.kernel("gemm", 90, 40, 1),
    )
    [row] = operators(job).frame.filter(name="aten::mm").to_dicts()
    assert (row["calls"], row["host_total"], row["device_total"], row["device_self"]) == (1, 80, 40, 40)
    assert row["host_self"] == 80 - 5 * (1 + len(beside))


def test_totals_of_a_recursion_count_an_instant_once(tmp_path: Path) -> None:
    job = drawn.job(
        tmp_path,
        drawn.python("a.py(1): visit", 0, 100),
        drawn.python("a.py(9): child", 10, 80),
        drawn.python("a.py(1): visit", 20, 50),
        drawn.op("aten::mm", 30, 10),
        drawn.launch(35, 2, 1),
        drawn.kernel("gemm", 90, 40, 1),
    )
    [row] = operators(job, python=True).frame.filter(name="a.py(1): visit").to_dicts()
    assert (row["calls"], row["host_total"], row["host_self"], row["device_total"]) == (2, 100, 20 + 40, 40)
    trace = job.trace()
    table = area_table([LanesOfRank(trace, timeline(trace).lanes, 0, 100)], "name").frame
    [row] = table.filter(name="a.py(1): visit").to_dicts()
    assert (row["count"], row["total"], row["self"], row["share"]) == (2, 100, 60, 1.0)
