"""`kinetoscope convert PATH --to json|parquet|perfetto [-o OUT]`: write a trace in another format.

json      lossless: all events, arguments and top-level values in order, and valid JSON even if the source is
          damaged; compressed if OUT ends in .gz
parquet   a folder with one file per table of the trace; Kinetoscope reads it instead of the trace, faster
perfetto  JSON for ui.perfetto.dev: all events, with counter tracks (utilization, memory, queue length, bandwidth);
          spans that Perfetto would drop because they overlap others get a track of their own;
          in Perfetto's own format, which is smaller, if OUT ends in .pftrace; of several traces, 'DIR/*.pftrace'

For several traces, OUT is a folder. For perfetto it can be a file, too (all.json.gz): then all ranks are in it, each
rank's processes apart and named, on one clock that is set by the ends of collectives.

--shard I/N converts every Nth trace, starting with trace I (from 0), so that N processes, such as a Slurm array or an
indexed Kubernetes job, convert a run together. Complete and current traces in OUT are skipped and partial ones are
replaced: the command can be repeated at any time.
"""

from __future__ import annotations

import dataclasses
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kinetoscope.cli.shared.open_job import opened
from kinetoscope.cli.shared.options import Parser, add_reading, typed
from kinetoscope.cli.shared.sharding import Shard, run_and_folder, shard
from kinetoscope.errors import InputError, UsageError
from kinetoscope.views.text import printable

if TYPE_CHECKING:
    import argparse

    from kinetoscope.cli.shared.progress import Meter
    from kinetoscope.model.job import Job

_FORMS: Final = ("json", "parquet", "perfetto")


def run(arguments: list[str]) -> int:
    """Write every trace of the job."""
    parser = Parser(prog="kinetoscope convert", description=__doc__)
    add_reading(parser)
    parser.add_argument("--to", required=True, choices=_FORMS, help="the format to write")
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        help="a file or a folder; for perfetto, by default a file in the current folder",
    )
    parser.add_argument("--critical-path", action="store_true", help="perfetto: mark the critical path with arrows")
    parser.add_argument(
        "--merge-ranks",
        action="store_true",
        help="perfetto: all ranks in one file, on one clock (as with -o all.json.gz)",
    )
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
    from kinetoscope.outputs.convert import check, convert, described

    check(args.output, args.to, critical_path=args.critical_path, merge_ranks=args.merge_ranks)
    if args.shard:
        return _convert_shard(args, args.shard)
    with opened(args) as (job, meter):
        written = convert(
            _one_by_one(job, meter),
            args.output,
            to=args.to,
            critical_path=args.critical_path,
            merge_ranks=args.merge_ranks or None,
        )
    if args.to == "perfetto":
        sys.stdout.writelines(f"{printable(line)}\n" for line in described(written))
    return 0


def _convert_shard(args: argparse.Namespace, share: Shard) -> int:
    """Write the traces of one share; 1 if one of them cannot be read."""
    from kinetoscope.cli.shared.sharding import convert
    from kinetoscope.model.trace.text import number_of
    from kinetoscope.outputs.convert import refuse_input, targets, write

    with opened(args) as (job, meter):
        job = _one_by_one(job, meter)
        places = list(targets(job, args.output, args.to, always_folder=True))
        for _, target in places:
            refuse_input(job, target)
        try:
            share_of_all = [(source, Path(target)) for source, target in share.of(places)]
            done = convert(share_of_all, lambda source, target: write(job, source, target, args.to))
        except OSError as error:
            raise InputError(f"{args.output}: cannot be written: {error.strerror or error}") from error
    sys.stderr.writelines(f"kinetoscope: {printable(line)}\n" for line in done.failed)
    parts = [f"{number_of(done.written, 'trace')} written"]
    parts += [f"{done.there:,} there already"] if done.there else []
    parts += [f"{len(done.failed):,} cannot be read"] if done.failed else []
    sys.stdout.write(f"shard {share.index}/{share.count}: {', '.join(parts)}\n")
    return 1 if done.failed else 0


def _one_by_one(job: Job, meter: Meter) -> Job:
    """The job with none of its traces kept, however few they are."""
    from kinetoscope.engines.threads import Threads
    from kinetoscope.readers.registry import load

    return dataclasses.replace(job, engine=Threads(partial(load, progress=meter), jobs=1, keep=0))
