"""What patterns of a Selection choose: by name, under, before and after calls of a name."""

from __future__ import annotations

import argparse
import zipfile
from pathlib import Path

import numpy as np
import pytest
from starlette.datastructures import QueryParams

import kinetoscope
from kinetoscope import Job, Selection
from kinetoscope.analyses import named
from kinetoscope.cli.shared.open_job import chosen as chosen_by_options
from kinetoscope.cli.shared.options import add_selection
from kinetoscope.errors import UsageError
from kinetoscope.integrations.assistant.arguments import selection as of_tool
from kinetoscope.model.analysis import WHOLE_RANK
from kinetoscope.model.steps.scope import scope
from kinetoscope.outputs.report import report
from kinetoscope.server.query import selection as of_address
from tests import drawn
from tests.catalog.samples import BUNDLED
from tests.notes import codes


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """Two steps: a linear with its product, an update, and in the first a copy; a kernel of each."""
    events: list[drawn.Event] = []
    for step in (0, 1):
        at = 1000 * step
        events += [
            drawn.annotation(f"ProfilerStep#{step}", at, 1000),
            drawn.op("aten::linear", at + 100, 200),
            drawn.op("aten::mm.out", at + 150, 100),
            drawn.launch(at + 160, 10, 10 * step + 1),
            drawn.kernel("gemm [128x128]", at + 300, 50, 10 * step + 1),
            drawn.op("aten::add_", at + 500, 100),
            drawn.launch(at + 520, 10, 10 * step + 2),
            drawn.kernel("add_kernel", at + 600, 30, 10 * step + 2),
        ]
    copy = [drawn.op("aten::copy_", 800, 50), drawn.launch(810, 10, 9), drawn.kernel("copy_kernel", 850, 20, 9)]
    return drawn.job(tmp_path, *events, *copy)


def chosen(job: Job, **fields: str) -> tuple[list[str], list[str]]:
    """Operators and kernels that a selection leaves, in order of time."""
    trace = job.trace()
    view = scope(trace, Selection(**fields))  # type: ignore[arg-type]
    rows = np.flatnonzero(view.host_mask)
    rows = rows[np.argsort(trace.start[rows], kind="stable")]
    operators = [name for name in trace.strings.labels(trace.name[rows].tolist()) if name.startswith("aten::")]
    work = view.device_work.rows[view.device_work_mask]
    work = work[np.argsort(trace.start[work], kind="stable")]
    return operators, trace.strings.labels(trace.name[work].tolist())


@pytest.mark.parametrize(
    ("fields", "operators", "kernels"),
    [
        ({"name": "aten::linear"}, ["aten::linear"] * 2, ["gemm [128x128]"] * 2),
        ({"name": "aten::mm"}, ["aten::mm.out"] * 2, ["gemm [128x128]"] * 2),
        ({"name": "add_*"}, [], ["add_kernel"] * 2),
        ({"name": "gemm [128x128]"}, [], ["gemm [128x128]"] * 2),
        ({"name": "aten::add_|copy_*"}, ["aten::add_"] * 2, ["add_kernel", "copy_kernel", "add_kernel"]),
        ({"under": "aten::lin*"}, ["aten::linear", "aten::mm.out"] * 2, ["gemm [128x128]"] * 2),
        ({"before": "aten::add_"}, ["aten::linear", "aten::mm.out"] * 2, ["gemm [128x128]"] * 2),
        ({"after": "aten::add_"}, ["aten::copy_"], ["copy_kernel"]),
        ({"after": "aten::linear", "before": "aten::copy_"}, ["aten::add_"], ["add_kernel"]),
        ({"after": "aten::copy_"}, [], []),
        ({"under": "aten::linear", "name": "aten::mm"}, ["aten::mm.out"] * 2, ["gemm [128x128]"] * 2),
    ],
)
def test_patterns_choose_calls_and_what_they_launched(
    job: Job, fields: dict[str, str], operators: list[str], kernels: list[str]
) -> None:
    assert chosen(job, **fields) == (operators, kernels)


def test_patterns_compose_with_steps(job: Job) -> None:
    answer = kinetoscope.kernels(job, select=Selection(steps=(1,), under="aten::linear"))
    assert answer[["name", "calls"]].rows() == [("gemm [128x128]", 1)]


def test_an_answer_says_how_much_was_left_out(job: Job) -> None:
    (note,) = (
        note for note in kinetoscope.kernels(job, select=Selection(name="aten::mm")).notes if "The selection" in note
    )
    assert note == (
        "The selection has what is named 'aten::mm': 2 of 14 calls, "
        "2 of 5 pieces of device work (55.6% of device time)."
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "aten::mn"}, r"no call and no kernel is called 'aten::mn' in this trace \(did you mean 'aten::"),
        ({"under": "gemm*"}, "no call of the host is called 'gemm.' in this trace"),
    ],
)
def test_a_pattern_that_fits_nothing_is_refused(job: Job, fields: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        chosen(job, **fields)


@pytest.mark.parametrize("name", [each.name for each in kinetoscope.ANALYSES])
def test_every_analysis_says_whether_it_heeds_names_of_calls(name: str) -> None:
    job, analysis = kinetoscope.read(BUNDLED / "ddp2"), named(name)
    whole, part = analysis(job), analysis(job, select=Selection(under="aten::addmm"))
    said = "SELECTED_CALLS" in codes(part.notes)
    assert (said, WHOLE_RANK in part.notes) == (analysis.of_calls, not analysis.of_calls)
    assert analysis.of_calls or part.frame.equals(whole.frame)


def test_every_face_takes_the_same_words() -> None:
    wanted = Selection(name="aten::mm|nccl*", under="aten::linear", before="a", after="b")
    words = {"name": "aten::mm|nccl*", "under": "aten::linear", "before": "a", "after": "b"}
    assert of_address(QueryParams(words)) == wanted
    assert of_tool({"event_name": words["name"], **words, "name": "kernels"}) == wanted
    parser = argparse.ArgumentParser()
    add_selection(parser)
    assert chosen_by_options(parser.parse_args([f"--{name}={text}" for name, text in words.items()])) == wanted


def test_a_report_is_of_the_selection_and_a_page_says_what_it_takes(tmp_path: Path) -> None:
    file = drawn.written(tmp_path / "t.json", drawn.op("aten::mm", 0, 10), drawn.op("aten::add", 20, 10))
    report(file, tmp_path / "run.xlsx", select=Selection(name="aten::add"))
    texts = zipfile.ZipFile(tmp_path / "run.xlsx").read("xl/sharedStrings.xml").decode()
    assert "The selection has what is named 'aten::add': 1 of 2 calls." in texts
    with pytest.raises(UsageError, match="a page is of ranks, steps and a time alone"):
        report(file, tmp_path / "run.html", select=Selection(name="aten::add"))
