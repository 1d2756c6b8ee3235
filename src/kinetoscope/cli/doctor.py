"""`kinetoscope doctor PATH`: what is damaged, missing or unusual in the traces themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kinetoscope.cli.shared.open_job import opened
from kinetoscope.cli.shared.options import Parser, add_engine, add_reading, add_table
from kinetoscope.errors import InputError

if TYPE_CHECKING:
    from kinetoscope.model.answer import Partial
    from kinetoscope.model.job import Job
    from kinetoscope.model.steps.selection import Selection
    from kinetoscope.model.trace.trace import Trace
    from kinetoscope.notes import Note
    from kinetoscope.schema import Result
    from kinetoscope.views.terminal.lines import Line

RankSymptom = tuple[int, str, "Note"]
"""A rank, the name of its file, and one thing that is odd about it."""


def run(arguments: list[str]) -> int:
    """Read every trace and print its symptoms."""
    from kinetoscope.cli.shared.output import deliver, width, write_lines

    parser = Parser(prog="kinetoscope doctor", description=__doc__)
    add_reading(parser)
    add_engine(parser)
    add_table(parser)
    args = parser.parse_args(arguments)
    with opened(args) as (job, _):
        symptoms = list(_of_job(job))
        remarks = job.notes
    if args.format in (None, "table") and not (args.where or args.sort or args.columns or args.output):
        write_lines(report(symptoms, remarks, traces=len(job), width=min(width(), 100)))
    else:
        deliver(as_result(symptoms), args)
    return 0


def _of_job(job: Job) -> Iterator[RankSymptom]:
    """What is odd about each trace; of many, one that cannot be read is a finding too."""
    from kinetoscope.model.analysis import Question
    from kinetoscope.model.answer import Failure
    from kinetoscope.notes import Note
    from kinetoscope.schema import Schema

    [answers] = job.engine.ask(job.sources, [Question(_of_trace, Schema())])
    for source in job.sources:
        answer = answers.of_rank[source.rank, source.cycle]
        if isinstance(answer, Failure):
            if len(job) == 1:
                raise InputError(answer.message)
            yield source.rank, source.name, Note("UNREADABLE", answer.message, "error")
            continue
        yield from ((source.rank, source.name, Note(**row)) for row in answer.frame.iter_rows(named=True))


def _of_trace(trace: Trace, select: Selection) -> Partial:  # noqa: ARG001 - as for every question
    """What is odd about a trace, as it comes back from where the trace is."""
    import polars as pl

    from kinetoscope.model.answer import Partial
    from kinetoscope.model.health.check import examine

    schema = {"code": pl.String, "text": pl.String, "severity": pl.String, "number": pl.Int64}
    rows = [(each.code, str(each), each.severity, each.number) for each in examine(trace)]
    return Partial(pl.DataFrame(rows, schema=schema, orient="row"))


def as_result(symptoms: Sequence[RankSymptom]) -> Result:
    """The same as a table, for scripts."""
    import polars as pl

    from kinetoscope.schema import Column, Result, Schema

    schema = Schema(
        Column("rank", pl.Int64, "Rank of the trace."),
        Column("file", pl.String, "Name of its file."),
        Column("severity", pl.String, "error: data was lost; warning: numbers are affected; note: good to know."),
        Column("code", pl.String, "Stable name of the symptom."),
        Column("count", pl.Int64, "How many events (or bytes, strings, …) it concerns."),
        Column("message", pl.String, "The symptom, and what follows from it."),
    )
    rows = [(rank, name, each.severity, each.code, each.number, str(each)) for rank, name, each in symptoms]
    return Result(schema.frame(rows), schema, (), "doctor")


def report(symptoms: Sequence[RankSymptom], remarks: Sequence[str] = (), *, traces: int, width: int) -> Iterator[Line]:
    """Each finding once, with the ranks that have it, the worst first; then remarks on the files as a whole."""
    from kinetoscope.views.terminal.lines import plain
    from kinetoscope.views.text import printable, wrapped

    what = f"{traces} trace{'s' * (traces != 1)} read"
    counts = {severity: sum(each.severity == severity for _, _, each in symptoms) for severity in _ORDER}
    said = ", ".join(f"{count} {severity}{'s' * (count != 1)}" for severity, count in counts.items() if count)
    yield plain(f"{what}: {said or 'nothing is wrong or odd'}.", "bold")
    for symptom, where in _together(symptoms):
        yield plain()
        text = f"  {printable(_where(where))}" if traces > 1 else ""
        yield ((symptom.severity, _STYLES[symptom.severity]), (f"  {symptom.code}", "bold"), (text, "dim"))
        yield from (plain("  " + line) for line in wrapped(printable(symptom), width - 2))
    for remark in remarks:
        yield plain()
        yield from (plain(line, "dim") for line in wrapped(f"· {printable(remark)}", width, indent="  "))


_ORDER = ("error", "warning", "note")
_STYLES = {"error": "warn", "warning": "communication", "note": "dim"}


def _together(symptoms: Sequence[RankSymptom]) -> list[tuple[Note, dict[int, str]]]:
    """Findings that say the same, with their ranks and files, the worst first."""
    where: dict[tuple[str, str], dict[int, str]] = {}
    first: dict[tuple[str, str], Note] = {}
    for rank, name, symptom in symptoms:
        key = symptom.code, str(symptom)
        first.setdefault(key, symptom)
        where.setdefault(key, {})[rank] = name
    return sorted(((first[key], where[key]) for key in first), key=lambda pair: _ORDER.index(pair[0].severity))


def _where(files: Mapping[int, str]) -> str:
    """`ranks 0, 8–15`; of one rank also its file."""
    from kinetoscope.model.trace.text import listed

    if len(files) == 1:
        return "".join(f"rank {rank}: {name}" for rank, name in files.items())
    return f"ranks {listed(files, len(files)).replace('-', '–')}"
