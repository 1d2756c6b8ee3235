"""A page with the tables that it asks for: where no browser asks for them by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from kinetoscope.analyses import RECORDED, named
from kinetoscope.model.analysis import Question
from kinetoscope.model.job import Job
from kinetoscope.model.steps.grammar import parameter_value
from kinetoscope.model.steps.selection import Selection, default_to_steady
from kinetoscope.pages import PAGES, findings
from kinetoscope.pages import named as module_of
from kinetoscope.pages.blocks import Block, ElsewhereBlock, FindingsBlock, Page, RowsBlock, TableBlock
from kinetoscope.pages.sections.joined_tables import with_joined_tables
from kinetoscope.pages.sections.tables import table
from kinetoscope.schema import Result
from kinetoscope.views.numbers import grouped
from kinetoscope.views.rows import Arrangement, arranged


def page_of(name: str, job: Job, select: Selection, params: Mapping[str, str], **more: Any) -> Page:
    """The page of a view: of the steady steps unless others are selected, or the view is about all that was recorded.

    `more` is what views about several runs take.
    """
    view = PAGES[name]
    page = module_of(name).page(job, select if view.recorded else default_to_steady(select), params, **more)
    return with_joined_tables(page, job, params) if view.sums else page


def answered(page: Page, job: Job, select: Selection, *, rows: int = 0) -> Page:
    """The page with the rows of its tables (at most `rows` each; 0: all), and with what it shows of another page.

    Args:
        page: as a module of `pages` composes it.
        job: what it is about.
        select: what was asked for, before a default: tables of all that was recorded take it as it is.
        rows: of each table.
    """
    tables = {place: each for place, each in enumerate(page.blocks) if isinstance(each, TableBlock)}
    questions = {f"{place}": _question(each, select) for place, each in tables.items()}
    results = job.ask(questions) if questions else {}
    shown = (
        each for place, block in enumerate(page.blocks) for each in _shown(block, results.get(f"{place}"), job, select)
    )
    return replace(page, blocks=tuple(_limited(each, rows) for each in shown))


def _question(block: TableBlock, select: Selection) -> Question:
    """The question of a table."""
    analysis = named(block.analysis)
    declared = {each.name: each for each in analysis.parameters}
    params: dict[str, Any] = {name: parameter_value(declared[name], text) for name, text in block.params.items()}
    return analysis.asked(select=select if block.analysis in RECORDED else default_to_steady(select), **params)


def _shown(block: Block, result: Result | None, job: Job, select: Selection) -> Iterator[Block]:
    """A block as it is, with the answer of a table, or with what it shows of another page."""
    if isinstance(block, TableBlock) and result is not None:
        shown = arranged(result, _arrangement(block, result))
        yield table(block.title, shown.schema, shown.frame, block.note)
    elif isinstance(block, ElsewhereBlock):
        # The first findings. Only findings are shown elsewhere: they are the page that takes long.
        there = findings.page(job, default_to_steady(select), {})
        for each in there.blocks[:1]:
            if isinstance(each, FindingsBlock):
                yield replace(each, title=block.title, findings=each.findings[: block.limit], note=block.note)
    else:
        yield block


def _arrangement(block: TableBlock, result: Result) -> Arrangement:
    """What the block says of rows and columns; which trace a row is of is a column where there are several."""
    traces = [name for name in ("rank", "cycle") if name in result.schema and result.frame.n_unique(name) > 1]
    columns = dict.fromkeys([*traces, *block.columns]) if block.columns else {}
    column, _, rest = block.filter.partition(":")
    operation, _, value = rest.partition(":")
    return Arrangement(
        filters=((column, operation, value),) if block.filter else (),
        sort=tuple((name.removeprefix("-"), name.startswith("-")) for name in block.sort.split(",") if name),
        columns=tuple(name for name in columns if name in result.schema),
    )


def _limited(block: Block, rows: int) -> Block:
    """A table with its first rows; a note says how many there are."""
    if not isinstance(block, RowsBlock) or not rows or len(block.rows) <= rows:
        return block
    more = f"The first {grouped(rows)} of {grouped(len(block.rows))} rows."
    return replace(block, rows=block.rows[:rows], note=f"{more} {block.note}".strip())
