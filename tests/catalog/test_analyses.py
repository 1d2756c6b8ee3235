"""What holds of every analysis: how it is declared, and what its answers are like on every trace we have."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import pickle
import typing
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import kinetoscope
from kinetoscope import ALL, ANALYSES, Job, Result, Selection, Trace, read
from kinetoscope.advisor.advice import advise
from kinetoscope.analyses import named
from kinetoscope.analyses.step_breakdown import CATEGORIES
from kinetoscope.engines.threads import Threads
from kinetoscope.model.analysis import Analysis, Question, together
from kinetoscope.model.answer import Answer, Partial
from kinetoscope.model.critical_path.path import CAUSES
from kinetoscope.model.trace.recording import not_recorded
from kinetoscope.model.trace.source import Source
from kinetoscope.readers.registry import load
from kinetoscope.schema import MeanBy, Param, RatioOf, ShareOf, Unit
from tests import drawn
from tests.catalog.samples import BUNDLED, ERAS, ROOT, SHARED, answers_of, everywhere, required

each_analysis = pytest.mark.parametrize("analysis", ANALYSES, ids=lambda analysis: analysis.name)

SUMS = {
    "critical_path": (CAUSES, "duration"),
    "graphs": (("busy", "idle"), "duration"),
    "overlap": (("overlap", "exposed_communication"), "communication"),
    "rank_balance": (
        ("computation", "overlap", "exposed_communication", "exposed_memory", "other"),
        "duration",
    ),
    "step_breakdown": (CATEGORIES, "duration"),
    "temporal_breakdown": (("computation", "exposed_communication", "exposed_memory", "idle"), "window"),
}
"""Of which columns of an analysis another is the sum, exactly."""
HEADINGS = ("Method.", "How to read it.", "Limits.")
RATES = ("fraction", "bytes/s")
"""Units of floating-point columns; times and sizes are whole numbers."""


# --- declarations


def test_the_folder_equals_the_list() -> None:
    files = {path.stem for path in (ROOT / "src" / "kinetoscope" / "analyses").glob("*.py")} - {"__init__"}
    listed = [analysis.function.__module__.rpartition(".")[2] for analysis in ANALYSES]
    assert sorted(listed) == sorted(files)
    for analysis in ANALYSES:
        assert importlib.import_module(analysis.function.__module__).ANALYSIS is analysis


@each_analysis
def test_it_has_the_name_of_its_module_and_is_public(analysis: Analysis) -> None:
    assert analysis.function.__module__ == f"kinetoscope.analyses.{analysis.name}"
    assert getattr(kinetoscope, analysis.name).__wrapped__ is analysis.function
    assert analysis.name in kinetoscope.__all__


@each_analysis
def test_it_opens_with_a_question_and_has_the_fixed_headings(analysis: Analysis) -> None:
    assert analysis.question.endswith("?")
    paragraphs = analysis.doc.split("\n\n")
    places = [next((k for k, text in enumerate(paragraphs) if text.startswith(heading)), -1) for heading in HEADINGS]
    assert -1 not in places, dict(zip(HEADINGS, places, strict=True))
    assert places == sorted(places)
    assert analysis.title
    assert not analysis.title.endswith(".")


@each_analysis
def test_it_takes_a_job_and_documented_keywords_with_defaults(analysis: Analysis) -> None:
    functions = [each for each in (analysis.function, analysis.finish) if each is not None]
    trace, select, *_ = inspect.signature(analysis.function).parameters.values()
    hints = {k: v for each in functions for k, v in typing.get_type_hints(each, include_extras=True).items()}
    assert (hints[trace.name], hints[select.name], select.name) == (Trace, Selection, "select")
    assert typing.get_type_hints(analysis.function)["return"] == Partial
    job, part, *keywords = analysis.signature.parameters.values()
    assert (job.name, part.name, part.default) == ("job", "select", ALL)
    keywords = [keyword for keyword in keywords if keyword.name != "across_ranks"]
    for keyword in keywords:
        assert keyword.kind is keyword.KEYWORD_ONLY
        assert keyword.default is not keyword.empty
    own = [parameter for parameter in analysis.parameters if parameter.name != "across_ranks"]
    for parameter in own:
        assert parameter.doc.endswith(".")
        assert parameter.unit in typing.get_args(Unit)
        assert any(isinstance(fact, Param) for fact in typing.get_args(hints[parameter.name]))
        assert not parameter.choices or parameter.default in parameter.choices
    assert [parameter.name for parameter in own] == [keyword.name for keyword in keywords]


@each_analysis
def test_every_number_says_how_ranks_become_one(analysis: Analysis) -> None:
    if analysis.across_ranks:
        return
    for column in analysis.schema.per_rank:
        if column.dtype not in (pl.String, pl.Boolean):
            assert column.across is not None, f"{column.name}: name it in the `across` of the schema"
        if isinstance(column.across, RatioOf | ShareOf | MeanBy):
            used = [value for value in dataclasses.astuple(column.across) if value and isinstance(value, str)]
            assert all(analysis.schema[name].across == "sum" for name in used)


@each_analysis
def test_its_columns_are_documented_and_the_first_is_the_rank(analysis: Analysis) -> None:
    assert analysis.schema.names[0] == "rank"
    for column in analysis.schema:
        assert column.name.isidentifier()
        assert column.name.islower()
        assert column.doc.endswith(".")
        assert column.unit in typing.get_args(Unit)
        if column.unit in ("ns", "bytes"):
            assert column.dtype in (pl.Int64, pl.Float64)
        if column.unit in RATES:
            assert column.dtype == pl.Float64


@each_analysis
def test_it_can_be_sent(analysis: Analysis) -> None:
    assert pickle.loads(pickle.dumps(analysis.function)) is analysis.function


# --- answers


def trace_of(file: Path, threads: int) -> Trace:
    [source] = read(file, jobs=1).sources
    return load(replace(source, options=replace(source.options, threads=threads)))


class Sending:
    """An engine that sends each question and each answer through pickle, as one on other machines does."""

    def __init__(self, traces: dict[Source, Trace]) -> None:
        self._traces = traces

    def trace(self, source: Source) -> Trace:
        return self._traces[source]

    def close(self) -> None:
        """See `Engine`."""

    def ask(self, sources: Sequence[Source], questions: Sequence[Question]) -> tuple[Answer, ...]:
        sent: list[Question] = pickle.loads(pickle.dumps([each.to_send for each in questions]))
        answers = [[each.of_rank(source, self._traces[source]) for each in sent] for source in reversed(sources)]
        return functools.reduce(functools.partial(together, questions), pickle.loads(pickle.dumps(answers)))


def asked(trace: Trace) -> dict[str, Result]:
    """The answers of all analyses, from a trace of which nothing has been derived yet."""
    trace.forget()
    job = Job(trace.source.url, (trace.source,), Sending({trace.source: trace}))
    return {analysis.name: analysis(job) for analysis in ANALYSES}


WORST_FIRST = ("stragglers",)
"""Of many ranks few matter: they stand first."""


OF_SEVERAL_RANKS = ("collectives", "process_groups")
"""Whose rows may be of several ranks: those have none."""


def is_sound(result: Result) -> None:
    frame = result.frame
    assert frame.schema == result.schema.empty().schema
    assert frame["rank"].null_count() == 0 or result.analysis in OF_SEVERAL_RANKS
    assert frame["rank"].drop_nulls().is_sorted() or result.analysis in WORST_FIRST
    for column in result.schema:
        values = frame[column.name].drop_nulls()
        if column.dtype == pl.Float64:
            assert values.is_finite().all(), column.name
        if column.unit == "fraction" and column.name != "efficiency":  # what lies in a cache can beat its floor
            assert values.is_between(0, 1).all(), column.name
    if result.analysis in SUMS:
        parts, whole = SUMS[result.analysis]
        assert (frame.select(pl.sum_horizontal(parts)).to_series() == frame[whole]).all()
        assert (frame.select(pl.min_horizontal(*parts, whole)).to_series() >= 0).all()
    assert all(note.endswith((".", ")")) for note in result.notes), result.notes


@pytest.mark.parametrize("file", everywhere())
def test_answers_are_sound(file: Path) -> None:
    for answer in answers_of(file).values():
        is_sound(answer)


@pytest.mark.slow
@pytest.mark.parametrize("file", ERAS, ids=lambda file: file.parent.name)
def test_answers_and_advice_are_the_same_again_however_many_threads_parse(file: Path) -> None:
    trace = trace_of(required(file), 1)
    answers = asked(trace)
    assert advise(read(file, jobs=1)).findings == advise(read(file, jobs=2)).findings
    for others in (asked(trace), asked(trace_of(file, 2))):
        for name, other in others.items():
            assert other.frame.equals(answers[name].frame), name
            assert other.notes == answers[name].notes


OF_DEVICES = (
    *("device_utilization", "device_utilization_series", "idle_breakdown", "kernel_kinds", "kernel_sequences"),
    *("kernel_spread", "kernels", "launch_statistics", "launches", "memory_bandwidth", "memory_bandwidth_series"),
    *("overlap", "queue_length", "queue_length_series", "temporal_breakdown"),
)


@pytest.mark.parametrize("name", OF_DEVICES)
def test_without_device_work_there_is_no_row_and_a_note_says_why(tmp_path: Path, name: str) -> None:
    result = named(name)(drawn.job(tmp_path, drawn.op("aten::mm", 0, 10)))
    assert (len(result), result.notes[-1]) == (0, not_recorded("device work"))


# --- several ranks

JOBS = [
    pytest.param(BUNDLED / "ddp2", "rank*", range(2), id="ddp2"),
    pytest.param(SHARED / "torch_2_13_cpu", "ddp4*", range(4), id="ddp4", marks=pytest.mark.slow),
    pytest.param(SHARED / "dlrm_ddp_v100_8rank", "*.json.gz", range(8), id="dlrm", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("folder", "pattern", "ranks"), JOBS)
def test_ranks_are_joined_in_order(folder: Path, pattern: str, ranks: range) -> None:
    job = read(required(folder) / pattern, jobs=2)
    alone = {rank: read(folder / pattern, ranks=[rank], jobs=1) for rank in ranks}
    assert job.ranks == tuple(ranks)
    for analysis in ANALYSES:
        result = analysis(job)
        is_sound(result)
        present = result.frame["rank"].unique(maintain_order=True).to_list()
        if analysis.across_ranks:
            assert set(present) <= {*ranks, None}
            continue
        assert present in (list(ranks), [])
        for rank in ranks:
            assert result.frame.filter(rank=rank).equals(analysis(alone[rank]).frame), analysis.name


@pytest.mark.slow
def test_one_job_at_a_time_answers_the_same() -> None:
    job = read(BUNDLED / "ddp2", jobs=2)
    alone = replace(job, engine=Threads(load, jobs=1, keep=0))
    for analysis in ANALYSES:
        assert analysis(job).frame.equals(analysis(alone).frame), analysis.name
        assert analysis(job).notes == analysis(alone).notes, analysis.name
