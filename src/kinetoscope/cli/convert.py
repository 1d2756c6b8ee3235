"""`kinetoscope convert PATH --to json|parquet|perfetto [-o OUT]`: a trace in another form.

JSON is lossless: all events, arguments and top-level values, in order, and valid even where the source was not. It is
compressed if OUT ends in .gz.

Parquet is a folder: the tables of the trace, one file each, with the meaning of their columns; and all that makes the
trace anew, so that OUT can be read in place of the original, faster.

Perfetto is JSON for ui.perfetto.dev: the events as they are, with counters beside them (utilization, memory, queues,
bandwidth); spans that Perfetto would drop, because they overlap others of their lane, go to a lane of their own.

Of several traces, OUT is a folder.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kinetoscope.cli.opening import opened
from kinetoscope.cli.options import Parser, add_reading
from kinetoscope.errors import InputError, UsageError
from kinetoscope.views.text import printable

if TYPE_CHECKING:
    import argparse

    from kinetoscope.cli.progress import Meter
    from kinetoscope.model.job import Job
    from kinetoscope.model.source import Source
    from kinetoscope.views.perfetto import Written

ENDINGS = {"json": ".json", "parquet": "", "perfetto": ".perfetto.json.gz"}
"""The forms, and how the names of files end that nobody named."""

_ENDINGS = (".zst", ".gz", ".json")


def run(arguments: list[str]) -> int:
    """Write every trace of the job."""
    parser = Parser(prog="kinetoscope convert", description=__doc__)
    add_reading(parser)
    parser.add_argument("--to", required=True, choices=tuple(ENDINGS), help="the form to write")
    parser.add_argument(
        "-o", "--output", metavar="OUT", help="a file, or a folder; for perfetto by default in this folder"
    )
    parser.add_argument(
        "--critical-path", action="store_true", help="perfetto: mark the critical path, with arrows along it"
    )
    args = parser.parse_args(arguments)
    if args.critical_path and args.to != "perfetto":
        raise UsageError(f"--critical-path is drawn for Perfetto, not in {args.to}: write --to perfetto")
    if args.output is None and args.to != "perfetto":
        raise UsageError(f"--to {args.to} needs -o OUT: {'a folder' if args.to == 'parquet' else 'a file'} to write")
    said = []
    with opened(args) as (job, meter):
        for source, target in _targets(job, args.output, args.to):
            _spare_input(job, target)
            try:
                said.append(_write(_alone(job, source, meter), target, args))
            except OSError as error:
                raise InputError(f"{target}: cannot be written: {error.strerror or error}") from error
    sys.stdout.writelines(f"{printable(line)}\n" for line in said if line)
    return 0


def _targets(job: Job, output: str | None, form: str) -> Iterator[tuple[Source, Path]]:
    """Each trace and where it goes; two files of one name in different folders do not overwrite one another."""
    if len(job) == 1:
        source = job.sources[0]
        yield source, Path(output) if output else Path(_stem(source) + ENDINGS[form])
        return
    taken: set[str] = set()
    for source in job.sources:
        stem = _stem(source)
        if stem in taken:
            stem = f"{stem}.rank{source.rank}.{source.cycle}"
        taken.add(stem)
        yield source, Path(output or ".") / f"{stem}{ENDINGS[form]}"


def _stem(source: Source) -> str:
    stem = source.name
    for ending in _ENDINGS:
        stem = stem.removesuffix(ending)
    return stem.removesuffix(".perfetto") or "trace"


def _spare_input(job: Job, target: Path) -> None:
    """Refuse to write over what is read.

    Raises:
        UsageError: the target is a file or folder of the input.
    """
    whole = target.resolve()
    if any("://" not in source.url and Path(source.url).resolve() == whole for source in job.sources):
        raise UsageError(f"{target} is the trace itself: name another place with -o")


def _alone(job: Job, source: Source, meter: Meter) -> Job:
    """A job of one trace, which is read once and kept for all that is asked of it."""
    from kinetoscope.engines.threads import Threads
    from kinetoscope.reading import load

    engine = Threads(partial(load, progress=meter), jobs=1)
    return dataclasses.replace(job, sources=(source,), engine=engine, notes=())


def _write(job: Job, target: Path, args: argparse.Namespace) -> str:
    """Write one trace, and say in a line what is worth saying about it."""
    trace = job.engine.trace(job.sources[0])
    target.parent.mkdir(parents=True, exist_ok=True)
    if args.to == "json":
        from kinetoscope.views import trace_json

        trace_json.write(trace, target)
        return ""
    if args.to == "parquet":
        from kinetoscope.views import trace_parquet

        trace_parquet.write(trace, target)
        return ""
    from kinetoscope.cli.overlay import critical_path, series
    from kinetoscope.views import perfetto

    marked = critical_path(job) if args.critical_path else None
    written = perfetto.write(trace, target, series=series(job), marked=marked)
    return _summary(target, len(trace), written, marked=marked is not None)


def _summary(target: Path, events: int, written: Written, *, marked: bool) -> str:
    from kinetoscope.model.health import many

    parts = [many(events, "event", "events"), many(written.counters, "counter track", "counter tracks")]
    if written.moved:
        spans = "overlapping span in a lane of its own", "overlapping spans in lanes of their own"
        parts.append(many(written.moved, *spans))
    if written.renumbered:
        parts.append(f"{many(written.renumbered, 'lane', 'lanes')} renumbered")
    if written.overlapping:
        parts.append(f"{written.overlapping:,} of them overlap there too, and Perfetto will drop them")
    if marked:
        marks = many(written.marked, "event", "events"), many(written.arrows, "arrow", "arrows")
        parts.append(f"{' and '.join(marks)} on the critical path")
    return f"{target}: {', '.join(parts)}. Open it at https://ui.perfetto.dev"
