"""`kinetoscope convert PATH --to json|parquet|perfetto [-o OUT]`: write a trace in another format.

json      lossless: all events, arguments and top-level values in order, and valid JSON even if the source is
          damaged; compressed if OUT ends in .gz
parquet   a folder with one file per table of the trace; Kinetoscope reads it instead of the trace, faster
perfetto  JSON for ui.perfetto.dev: all events, with counter tracks (utilization, memory, queue length, bandwidth);
          spans that Perfetto would drop because they overlap others get a track of their own

For several traces, OUT is a folder.

--shard I/N converts every Nth trace, starting with trace I (from 0), so that N processes, such as a Slurm array or an
indexed Kubernetes job, convert a run together. Complete and current traces in OUT are skipped and partial ones are
replaced: the command can be repeated at any time.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kinetoscope.cli.shared.open_job import opened
from kinetoscope.cli.shared.options import Parser, add_reading, typed
from kinetoscope.cli.shared.output import destination
from kinetoscope.cli.shared.sharding import Shard, run_and_folder, shard
from kinetoscope.errors import InputError, UsageError
from kinetoscope.readers.files.stream import is_url
from kinetoscope.views.text import printable

if TYPE_CHECKING:
    import argparse

    from kinetoscope.cli.shared.progress import Meter
    from kinetoscope.model.job import Job
    from kinetoscope.model.trace.source import Source
    from kinetoscope.views.exports.perfetto import PerfettoAdditions

ENDINGS = {"json": ".json", "parquet": "", "perfetto": ".perfetto.json.gz"}
"""The forms, and how the names of files end that nobody named."""

_ENDINGS = (".zst", ".gz", ".json")


def run(arguments: list[str]) -> int:
    """Write every trace of the job."""
    parser = Parser(prog="kinetoscope convert", description=__doc__)
    add_reading(parser)
    parser.add_argument("--to", required=True, choices=tuple(ENDINGS), help="the format to write")
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        help="a file or a folder; for perfetto, by default a file in the current folder",
    )
    parser.add_argument("--critical-path", action="store_true", help="perfetto: mark the critical path with arrows")
    parser.add_argument(
        "--shard",
        type=typed(shard),
        metavar="I/N",
        help="parquet: convert every Nth trace, starting with trace I (from 0)",
    )
    args = parser.parse_intermixed_args(arguments)
    if args.shard and args.to != "parquet":
        raise UsageError(f"--shard makes a folder of traces as Parquet, not {args.to}: write --to parquet")
    if args.shard:
        args.path, args.output = run_and_folder(args.path, args.output)
    if args.critical_path and args.to != "perfetto":
        raise UsageError(f"--critical-path is drawn for Perfetto, not in {args.to}: write --to perfetto")
    if args.output is None and args.to != "perfetto":
        raise UsageError(f"--to {args.to} needs -o OUT: {'a folder' if args.to == 'parquet' else 'a file'} to write")
    if args.to == "parquet" and is_url(args.output):
        raise UsageError(f"{args.output}: convert writes Parquet to folders of this machine, such as a mounted store")
    if args.shard:
        return _convert_shard(args, args.shard)
    said = []
    with opened(args) as (job, meter):
        for source, target in _targets(job, args.output, args.to):
            _spare_input(job, target)
            with destination(target) as file:
                said.append(_write(_alone(job, source, meter), file, args, target))
    sys.stdout.writelines(f"{printable(line)}\n" for line in said if line)
    return 0


def _convert_shard(args: argparse.Namespace, share: Shard) -> int:
    """Write the traces of one share; 1 if one of them cannot be read."""
    from kinetoscope.cli.shared.sharding import convert
    from kinetoscope.model.trace.text import number_of

    with opened(args) as (job, meter):
        targets = list(_targets(job, args.output, args.to, always_folder=True))
        for _, target in targets:
            _spare_input(job, target)
        try:
            share_of_all = [(source, Path(target)) for source, target in share.of(targets)]
            done = convert(share_of_all, lambda source, target: _parquet(_alone(job, source, meter), target))
        except OSError as error:
            raise InputError(f"{args.output}: cannot be written: {error.strerror or error}") from error
    sys.stderr.writelines(f"kinetoscope: {printable(line)}\n" for line in done.failed)
    parts = [f"{number_of(done.written, 'trace')} written"]
    parts += [f"{done.there:,} there already"] if done.there else []
    parts += [f"{len(done.failed):,} cannot be read"] if done.failed else []
    sys.stdout.write(f"shard {share.index}/{share.count}: {', '.join(parts)}\n")
    return 1 if done.failed else 0


def _parquet(job: Job, target: Path) -> None:
    from kinetoscope.views.exports import trace_parquet

    trace_parquet.write(job.trace(), target)


def _targets(job: Job, output: str | None, form: str, *, always_folder: bool = False) -> Iterator[tuple[Source, str]]:
    """Each trace and where it goes; two files of one name in different folders do not overwrite one another."""
    if len(job) == 1 and not always_folder:
        source = job.sources[0]
        yield source, output or _stem(source) + ENDINGS[form]
        return
    taken: set[str] = set()
    for source in job.sources:
        stem = _stem(source)
        if stem in taken:
            stem = f"{stem}.rank{source.rank}.{source.cycle}"
        taken.add(stem)
        yield source, f"{(output or '.').rstrip('/') or '/'}/{stem}{ENDINGS[form]}"


def _stem(source: Source) -> str:
    stem = source.name
    for ending in _ENDINGS:
        stem = stem.removesuffix(ending)
    return stem.removesuffix(".perfetto") or "trace"


def _spare_input(job: Job, target: str) -> None:
    """Refuse to write over what is read.

    Raises:
        UsageError: the target is a file or folder of the input.
    """
    if is_url(target):
        same = any(source.url.rstrip("/") == target.rstrip("/") for source in job.sources)
    else:
        whole = Path(target).resolve()
        same = any(not is_url(source.url) and Path(source.url).resolve() == whole for source in job.sources)
    if same:
        raise UsageError(f"{target} is the trace itself: name another place with -o")


def _alone(job: Job, source: Source, meter: Meter) -> Job:
    """A job of one trace, which is read once and kept for all that is asked of it."""
    from kinetoscope.engines.threads import Threads
    from kinetoscope.readers.registry import load

    engine = Threads(partial(load, progress=meter), jobs=1)
    return dataclasses.replace(job, sources=(source,), engine=engine, notes=())


def _write(job: Job, target: Path, args: argparse.Namespace, name: str) -> str:
    """Write one trace, and say in a line what is worth saying about it; `name` is what its output is called."""
    trace = job.engine.trace(job.sources[0])
    target.parent.mkdir(parents=True, exist_ok=True)
    if args.to == "json":
        from kinetoscope.views.exports import trace_json

        trace_json.write(trace, target)
        return ""
    if args.to == "parquet":
        from kinetoscope.views.exports import trace_parquet

        trace_parquet.write(trace, target)
        return ""
    from kinetoscope.cli.shared.perfetto_overlay import critical_path, series
    from kinetoscope.views.exports import perfetto

    marked = critical_path(job) if args.critical_path else None
    written = perfetto.write(trace, target, series=series(job), marked=marked)
    return _summary(name, len(trace), written, marked=marked is not None)


def _summary(target: str, events: int, written: PerfettoAdditions, *, marked: bool) -> str:
    from kinetoscope.model.trace.text import number_of

    parts = [number_of(events, "event"), number_of(written.counters, "counter track")]
    if written.moved:
        spans = "overlapping span in a lane of its own", "overlapping spans in lanes of their own"
        parts.append(number_of(written.moved, *spans))
    if written.renumbered:
        parts.append(f"{number_of(written.renumbered, 'lane')} renumbered")
    if written.overlapping:
        parts.append(f"{written.overlapping:,} of them overlap there too, and Perfetto will drop them")
    if marked:
        marks = number_of(written.marked, "event"), number_of(written.arrows, "arrow")
        parts.append(f"{' and '.join(marks)} on the critical path")
    return f"{target}: {', '.join(parts)}. Open it at https://ui.perfetto.dev"
