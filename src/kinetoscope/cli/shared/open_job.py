"""From the options of the command line to an open Job and a Selection; the wait for it is shown."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from kinetoscope.cli.shared.progress import Meter, shown
from kinetoscope.readers.companions import COMPANIONS

_READING_OPTIONS: Final = (
    "ranks",
    "jobs",
    "engine",
    "address",
    "max_size",
    "max_event",
    "cache",
    "cache_size",
    "peak",
    *(each.name for each in COMPANIONS),
)

if TYPE_CHECKING:
    from kinetoscope.model.job import Job
    from kinetoscope.model.steps.selection import Selection


@contextmanager
def opened(args: argparse.Namespace) -> Iterator[tuple[Job, Meter]]:
    """The job at the paths in `args.path`, and the meter that counts what is read of it.

    Traces are read while the job is asked, so the wait is shown for as long as it is open.

    Raises:
        InputError: there is no trace, or it cannot be read.
    """
    meter = Meter()
    with shown(meter):
        from kinetoscope.outputs.opening import stored
        from kinetoscope.reading import read

        job = read(args.path, progress=meter, **reading(args))
        meter.total = stored(job.sources)
        try:
            yield job, meter
        finally:
            job.engine.close()


@contextmanager
def opened_at(args: argparse.Namespace, path: str) -> Iterator[tuple[Job, Meter]]:
    """The same for one path of several that a command takes."""
    with opened(argparse.Namespace(**{**vars(args), "path": [path]})) as job_and_meter:
        yield job_and_meter


def reading(args: argparse.Namespace) -> dict[str, Any]:
    """The options of `add_reading` and `add_engine` that are set, as keywords of `reading.read`."""
    return {name: value for name in _READING_OPTIONS if (value := getattr(args, name)) is not None}


def selection(args: argparse.Namespace) -> dict[str, Any]:
    """The keyword `select` for an analysis, if an option selects anything."""
    from kinetoscope.model.steps.selection import ALL

    asked = chosen(args)
    return {} if asked == ALL else {"select": asked}


def chosen(args: argparse.Namespace) -> Selection:
    """What the options select."""
    from kinetoscope.model.steps.selection import Selection

    return Selection(
        steps=args.steps,
        time=args.time_range,
        devices=args.device,
        streams=args.stream,
        threads=args.thread,
        annotation=args.annotation,
        steps_by=args.steps_by,
        name=args.event_name,
        under=args.under,
        before=args.before,
        after=args.after,
    )
