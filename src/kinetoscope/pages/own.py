"""Your own: the analyses of extensions, each as its question, its chart and its table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kinetoscope.analyses import OWN, groups, named
from kinetoscope.errors import InputError
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.pages.blocks import Block, ChartBlock, NoteBlock, Page, TableBlock
from kinetoscope.views.charts.chart import specification
from kinetoscope.views.sentences import say


def page(job: Job, select: Selection, params: Mapping[str, str]) -> Page:
    """The answers of all analyses that extensions declare."""
    del params
    names = groups().get(OWN, ())
    if not names:
        return Page("own", OWN, "No extension declares an analysis: `kinetoscope --extend ./mine.py view` names one.")
    blocks = tuple(block for name in names for block in _blocks(name, job, select))
    titles = ", ".join(f"`{named(name).title}`" for name in names)
    return Page("own", OWN, say("The answers of extensions: {titles}.", titles=titles), blocks=blocks)


def _blocks(name: str, job: Job, select: Selection) -> Iterator[Block]:
    analysis = named(name)
    try:
        result = analysis(job, select=select)
    except InputError as error:
        yield NoteBlock(f"{analysis.title}: {error}")
        return
    if result.chart_facts is not None and result.frame.height:
        yield ChartBlock(analysis.title, specification(result, width=None), note=analysis.question)
    yield TableBlock(analysis.title, name, note=" ".join((analysis.question, *result.notes)))
