"""The page about a run as one HTML file that opens without a server or a network."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from kinetoscope.advisor.advice import advise
from kinetoscope.analyses import RECORDED, asked, names
from kinetoscope.compare.trials.tried import folder_of, load
from kinetoscope.errors import InputError, UsageError, nearest
from kinetoscope.model.job import Job, Readable, part_of
from kinetoscope.model.steps import grammar
from kinetoscope.model.steps.selection import ALL, Selection, default_to_steady
from kinetoscope.outputs.opening import write_file
from kinetoscope.outputs.summary import summary
from kinetoscope.readers.files.stream import is_url
from kinetoscope.reading import read
from kinetoscope.schema import Result
from kinetoscope.server.app import Server, report_of
from kinetoscope.server.report import pages_of_report
from kinetoscope.server.runs.run import ReadKeywords
from kinetoscope.server.runs.workspace import Workspace
from kinetoscope.server.source_code import Sources
from kinetoscope.views.exports.excel import to_xlsx

_MAX_NAMES: Final = 5
"""Paths and runs that an error names."""


def report(
    of: Job | Readable,
    output: str | os.PathLike[str],
    *,
    sections: Sequence[str] | None = None,
    rank: int | None = None,
    steps: str | None = None,
    time: tuple[int, int] | None = None,
    select: Selection = ALL,
    source: Sequence[str] = (),
    budget: int | None = None,
    reading: ReadKeywords | None = None,
) -> str:
    """Write the page about a run as one HTML file.

    If its name ends in `.md`, it is the summary as Markdown; if in `.xlsx`, a workbook with the table of each analysis.

    Args:
        of: a job, or what `read` takes.
        output: the file to write, or its URL.
        sections: the views to include, such as `overview` and `kernels`; by default all; of HTML only.
        rank: the rank to report on; by default the whole job.
        steps: only these steps, as text: `2-4`, `all`; by default all without the warm-up.
        time: only this time, from and to, ns after the first event.
        select: what else is looked at, of Markdown and Excel: names of calls, devices, ranks.
        source: folders below which source files are included.
        budget: tokens of the Markdown at most, about; None for no limit.
        reading: how paths are read.

    Returns:
        Where it was written.

    Raises:
        UsageError: there is no such section, several runs are at the path, or a page cannot show what is selected.
        InputError: the run cannot be read, or the file not be written.
    """
    wanted = _sections(sections)
    name = os.fspath(output)
    if not is_url(name) and not Path(name).parent.is_dir():
        raise InputError(f"{Path(name).parent} is no folder; make it first, or write elsewhere")
    options = reading or ReadKeywords()
    if not isinstance(of, (Job, str, os.PathLike)):
        of = read(of, **options)
    shown = {
        "rank": "" if rank is None else str(rank),
        "steps": steps or "",
        "time": grammar.time_range_text(*time) if time else "",
    }
    if name.endswith((".md", ".xlsx")):
        job = of if isinstance(of, Job) else read(of, **options)
        numbers = grammar.steps(steps) if steps else select.steps
        job, part = part_of(job, replace(select, steps=numbers, time=time or select.time))
        job = replace(job, sources=tuple(source for source in job.sources if rank in (None, source.rank)))
        if name.endswith(".md"):
            write_file(summary(job, select=part).to_markdown(budget).encode(), name)
        else:
            write_file(to_xlsx(_tables(job, part)), name)
        return name
    if select != ALL:
        raise UsageError(
            "a page is of ranks, steps and a time alone; .md and .xlsx take names of calls and devices, too"
        )
    if isinstance(of, Job):
        workspace = Workspace((of.path,), options, job=of)
    else:
        workspace = Workspace((os.fspath(of),), options)
    write_file(report_of(Server(workspace, Sources.of(source)), _run(workspace), wanted, shown), name)
    return name


def _tables(job: Job, select: Selection) -> dict[str, Result]:
    """The findings, and the answer of each analysis that has any rows."""
    steady = default_to_steady(select)
    questions = {name: asked(name, select=select if name in RECORDED else steady) for name in names()}
    answers = {"advise": advise(job, select=steady).result, **job.ask(questions)}
    return {name: answer for name, answer in answers.items() if answer.frame.height}


def _sections(names: Sequence[str] | None) -> tuple[str, ...]:
    there = pages_of_report()
    if names is None:
        return there
    wanted = [name.strip().replace("-", "_") for name in names if name.strip()]
    for name in wanted:
        if name not in there:
            raise UsageError(f"there is no section {name!r}{nearest(name, there)}; sections: {', '.join(there)}")
    return tuple(dict.fromkeys(wanted))


def _run(workspace: Workspace) -> str:
    """The only run; of trials the program as it is; of several others the newest would be a guess: they are named."""
    listed, path = workspace.runs(), workspace.paths[0]
    folder = None if is_url(path) else folder_of(path)
    if folder is not None and folder == Path(path).absolute():
        own = folder / load(folder).trace
        listed = replace(listed, runs=tuple(run for run in listed.runs if Path(run.files.path) == own) or listed.runs)
    if not listed.runs:
        raise InputError(listed.wrong[0] if listed.wrong else f"{path}: no trace there")
    if len(listed.runs) > 1:
        names = ", ".join(run.files.name for run in listed.runs[:_MAX_NAMES])
        raise UsageError(f"{path}: {len(listed.runs)} runs; name one of them: {names}")
    return listed.runs[0].id
