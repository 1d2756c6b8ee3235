"""Serving: the pictures are of the steps that the names tell, and their parts sum to the duration of a step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinetoscope import serving_steps
from kinetoscope.errors import UsageError
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import ALL
from kinetoscope.pages import named
from kinetoscope.pages.blocks import BarsBlock, ChartBlock, NoteBlock, Page, PartsBlock, TableBlock
from kinetoscope.pages.serving import KINDS
from kinetoscope.reading import read
from kinetoscope.views.charts.palette import OWNERS
from tests import drawn
from tests.drawn import Event, annotation, kernel, launch


def steps(*, slower: int = 0) -> list[Event]:
    """Two decode steps and one of prefill; `slower` is what the kernel of the last takes longer."""
    events: list[Event] = []
    names = ("context_0(0)_generation_4(4)", "context_1(60)_generation_0(0)", "context_0(0)_generation_6(6)")
    for place, name in enumerate(names):
        at, correlation = 1000 * place, place + 1
        length = (200, 500, 240 + slower)[place]
        events += [annotation(f"execute_{name}", at, 300), launch(at + 90, 10, correlation)]
        events.append(kernel("flash_fwd_kernel", at + 120, length, correlation))
    return events


def page(of: Job, **params: str) -> Page:
    return named("serving").page(of, ALL, params)


def block(of: Page, kind: type, title: str = "") -> Any:
    return next(each for each in of.blocks if isinstance(each, kind) and title in getattr(each, "title", ""))


def points(of: Page, title: str) -> list[dict[str, Any]]:
    """The data of the dots: the last layer has those of the chart."""
    spec: Any = block(of, ChartBlock, title).spec
    return list(spec["data"]["values"])


def test_a_sentence_says_what_the_engine_did(tmp_path: Path) -> None:
    of = page(drawn.job(tmp_path, *steps()))
    plain = of.sentence.replace("\u00a0", " ")
    assert plain.startswith("2 decode steps (median 530 ns), 1 prefill step (1.30 µs). Before steps the device waits")
    assert plain.endswith(" of it for what was not recorded.")
    assert of.facts[0] == "vLLM"
    assert any("VLLM_CUSTOM_SCOPES_FOR_PROFILING=1" in words for words in of.cannot)


def test_each_step_is_a_dot_that_leads_to_the_timeline(tmp_path: Path) -> None:
    dots = points(page(drawn.job(tmp_path, *steps())), "over time")
    assert [dot["group"] for dot in dots] == ["decode", "prefill", "decode"]
    first, last = dots[1]["link"]["time"]
    assert first < 1000
    assert last > 1620
    assert "prefill step 1, 1 request, 60 tokens" in dots[1]["name"]
    against = points(page(drawn.job(tmp_path, *steps()), size="tokens"), "against tokens")
    assert sorted(dot["x"] for dot in against) == [4, 6, 60]


def test_the_parts_sum_to_the_duration_of_a_step(tmp_path: Path) -> None:
    job = drawn.job(tmp_path, *steps())
    frame = serving_steps(job).frame
    parts = block(page(job), PartsBlock).parts
    assert sum(part.value for part in parts) == pytest.approx(frame["duration"].mean())
    bars = block(page(job), BarsBlock, "before steps").bars
    assert sum(bar.value for bar in bars) == frame["gap"].sum()
    assert sum(bar.share for bar in bars) == pytest.approx(1)


def test_what_its_reader_chooses_is_what_is_shown(tmp_path: Path) -> None:
    of = page(drawn.job(tmp_path, *steps()), kind="decode")
    assert {dot["group"] for dot in points(of, "over time")} == {"decode"}
    assert block(of, TableBlock, "Slowest").filter == "kind:eq:decode"
    assert sum(part.value for part in block(of, PartsBlock, "decode").parts) == 530
    with pytest.raises(UsageError, match="kind is 'warm'"):
        page(drawn.job(tmp_path, *steps()), kind="warm")


def test_the_slowest_rank_of_a_step_is_the_one_that_others_wait_for(tmp_path: Path) -> None:
    for rank in range(2):
        reduced = kernel("ncclDevKernel_AllReduce_Sum_bf16", 2500, 20, 3)
        top = {"distributedInfo": {"rank": rank, "world_size": 2}}
        drawn.written(tmp_path / f"rank{rank}.json", *steps(slower=50 * rank), reduced, **top)
    of = page(read(str(tmp_path), jobs=1))
    cells: Any = block(of, ChartBlock, "Waiting of each rank").spec
    waits = {(cell["row"], cell["column"]): cell["text"] for cell in cells["data"]["values"]}
    assert waits["0", "2"].replace("\u00a0", " ") == "50 ns"
    assert waits["1", "2"].startswith("0")


def test_a_program_that_serves_nobody_has_no_steps(tmp_path: Path) -> None:
    of = page(drawn.job(tmp_path, drawn.op("aten::mm", 0, 10)))
    assert of.sentence == "No step of a serving engine was recorded."
    assert "execute_" in block(of, NoteBlock).text


def test_each_kind_but_the_unnamed_has_a_colour_of_its_own() -> None:
    assert len(KINDS) - 1 <= len(OWNERS)
