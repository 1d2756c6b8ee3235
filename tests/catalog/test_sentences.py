"""Each number, name and who in a sentence is looked up in the table that it comes from: all faces, all traces."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kinetoscope
from kinetoscope.advisor.advice import advise
from kinetoscope.advisor.plan import plan
from kinetoscope.analyses import named
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import ALL, default_to_steady
from kinetoscope.pages import PAGES
from kinetoscope.pages import named as page_named
from kinetoscope.pages.blocks import Block, FindingRow, FindingsBlock, NoteBlock, Page
from kinetoscope.pages.grid import GridBlock, GridRow
from kinetoscope.schema import Result
from kinetoscope.views.sentences import Sentence
from tests.catalog.samples import advice_of, everywhere, job_of, samples
from tests.sentences import agrees, same

_DIGIT = re.compile(r"(?<![\w.:#-])\d")
"""A number, not a digit in a name: `FP16`, `cuda:0`."""

_NAMES = re.compile(r"`[^`]*`")

COMPOSED = tuple(name for name, view in PAGES.items() if view.composed and view.runs == 1)
"""Pages of one job; sentences about several runs are tested where runs are compared."""


@pytest.fixture(scope="module", params=[*everywhere(), *samples()])
def file(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.fixture(scope="module")
def job(file: Path) -> Job:
    return job_of(file)


@dataclasses.dataclass
class Tables:
    """Answers, each asked once more for all sentences about it."""

    job: Job
    answers: dict[str, Result] = dataclasses.field(default_factory=dict)

    def ask(self, analysis: str, params: Mapping[str, Any]) -> Result:
        key = f"{analysis} {sorted(params.items(), key=lambda pair: pair[0])}"
        if key not in self.answers:
            if analysis == "advise":
                self.answers[key] = advise(self.job, select=params.get("select", ALL)).result
            elif analysis == "plan":
                self.answers[key] = plan(self.job, select=params.get("select", ALL)).result
            else:
                self.answers[key] = named(analysis)(self.job, **params)
        return self.answers[key]

    @functools.cached_property
    def facts(self) -> set[tuple[str, str]]:
        """The facts of all findings, as shown."""
        params = {} if (select := default_to_steady(ALL)) == ALL else {"select": select}
        rows = self.ask("advise", params).frame.get_column("facts").to_list()
        return {(fact["text"], fact["unit"]) for row in rows for fact in row}

    def wrong(self, sentence: str) -> Iterator[str]:
        """What is wrong with a sentence: a number without a cell, or one that its cell does not have."""
        if not isinstance(sentence, Sentence):
            if _DIGIT.search(_NAMES.sub("", sentence)):
                yield f"no cells: {sentence}"
            return
        for quantity in sentence.quantities:
            if quantity.text not in sentence:
                yield f"{quantity} is not in: {sentence}"
            if not agrees(quantity):
                yield f"{quantity} does not show {quantity.value}: {sentence}"
            if quantity.source is None:
                if (quantity.text, quantity.unit) not in self.facts:
                    yield f"{quantity} has no cell, and is no fact of a finding: {sentence}"
            else:
                found = quantity.source.look_up(self.ask)
                if not same(found, quantity.value):
                    yield f"{quantity} is {found} in its table, not {quantity.value}: {sentence}"


def sentences_of(thing: Any) -> Iterator[str]:
    """All sentences of a page, of a block, and of what is in them."""
    if isinstance(thing, Page):
        yield from (thing.sentence, *(each for block in thing.blocks for each in sentences_of(block)))
    elif isinstance(thing, Block):
        yield from filter(None, [thing.note, thing.text if isinstance(thing, NoteBlock) else ""])
        yield from filter(None, [thing.headline if isinstance(thing, FindingsBlock) else ""])
        for field in dataclasses.fields(thing):
            value = getattr(thing, field.name)
            if isinstance(value, Sequence) and not isinstance(value, str):
                yield from (
                    each for part in value if isinstance(part, FindingRow) for each in (part.message, part.detail)
                )


def page_of(name: str, job: Job) -> Page:
    """The page as it opens."""
    select = ALL if PAGES[name].recorded else default_to_steady(ALL)
    part = replace(job, sources=job.sources[:1]) if PAGES[name].ranks == "one" else job
    return page_named(name).page(part, select, {})


def test_each_number_on_each_page_is_in_its_table(job: Job) -> None:
    wrong = []
    for name in COMPOSED:
        tables = Tables(replace(job, sources=job.sources[:1]) if PAGES[name].ranks == "one" else job)
        wrong += [f"{name}: {each}" for said in sentences_of(page_of(name, job)) for each in tables.wrong(said)]
    assert wrong == []


def test_each_number_of_the_summary_is_in_its_table(job: Job) -> None:
    tables, page = Tables(job), kinetoscope.summary(job)
    said = [*sentences_of(page), *(cell for row in spread_of(page) for cell in row.cells if isinstance(cell, Sentence))]
    assert [each for sentence in said for each in tables.wrong(sentence)] == []


def test_each_number_of_a_plan_is_in_its_table(job: Job) -> None:
    planned, tables = plan(job), Tables(job)
    limits = [planned.limit_after(number) for number in range(1, len(planned) + 1)]
    assert [each for said in filter(None, (planned.headline, *limits)) for each in tables.wrong(said)] == []


def spread_of(page: Page) -> Iterator[GridRow]:
    """The rows of steps or ranks."""
    yield from (row for block in page.blocks if isinstance(block, GridBlock) for row in block.rows)


def test_each_number_of_a_finding_is_one_of_its_facts(file: Path) -> None:
    tables, advice = Tables(job_of(file)), advice_of(file)
    rows = advice.result.frame.to_dicts()
    wrong = list(tables.wrong(advice.headline))
    for finding, row in zip(advice.findings, rows, strict=True):
        said = [("message", finding.message), ("why", finding.why), *(("evidence", e.text) for e in finding.evidence)]
        wrong += [f"{finding.code} {part}: {each}" for part, text in said for each in tables.wrong(text)]
        facts = [(fact["part"], fact["text"]) for fact in row["facts"]]
        assert facts == [(part, quantity.text) for part, quantity in finding.facts]
    assert wrong == []
