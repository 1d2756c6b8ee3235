"""`kinetoscope convert PATH --to json|parquet -o OUT`: a trace in another form.

JSON is lossless: all events, arguments and top-level values, in order, and valid even where the source was not. It is
compressed if OUT ends in .gz. Parquet is a folder with the tables of the trace, one file each. Of several traces, OUT
is a folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kinetoscope.cli.opening import opened
from kinetoscope.cli.options import Parser, add_reading
from kinetoscope.errors import InputError

if TYPE_CHECKING:
    from kinetoscope.model.job import Job
    from kinetoscope.model.source import Source

FORMS = ("json", "parquet")

_ENDINGS = (".zst", ".gz", ".json")


def run(arguments: list[str]) -> int:
    """Write every trace of the job."""
    parser = Parser(prog="kinetoscope convert", description=__doc__)
    add_reading(parser)
    parser.add_argument("--to", required=True, choices=FORMS, help="the form to write")
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help="a file, or a folder")
    args = parser.parse_args(arguments)
    write = {"json": _write_json, "parquet": _write_tables}[args.to]
    with opened(args) as (job, _):
        for source, target in _targets(job, Path(args.output), args.to):
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                write(job, source, target)
            except OSError as error:
                raise InputError(f"{target}: cannot be written: {error.strerror or error}") from error
    return 0


def _targets(job: Job, output: Path, form: str) -> Iterator[tuple[Source, Path]]:
    """Each trace and where it goes; two files of one name in different folders do not overwrite one another."""
    if len(job) == 1:
        yield job.sources[0], output
        return
    taken: set[str] = set()
    for source in job.sources:
        stem = source.name
        for ending in _ENDINGS:
            stem = stem.removesuffix(ending)
        if stem in taken:
            stem = f"{stem}.rank{source.rank}.{source.cycle}"
        taken.add(stem)
        yield source, output / (f"{stem}.json" if form == "json" else stem)


def _write_json(job: Job, source: Source, target: Path) -> None:
    from kinetoscope.views.trace_json import write

    write(job.trace(source.rank, cycle=source.cycle), target)


def _write_tables(job: Job, source: Source, target: Path) -> None:
    from kinetoscope.model.tables import TABLES, table

    trace = job.trace(source.rank, cycle=source.cycle)
    target.mkdir(exist_ok=True)
    for name, declared in TABLES.items():
        declared.schema.conform(table(trace, name)).write_parquet(target / f"{name}.parquet")
