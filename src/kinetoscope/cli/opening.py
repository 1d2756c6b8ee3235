"""From the options of the command line to an open Job and a Selection; the wait for it is shown."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kinetoscope.cli.progress import Meter, shown

if TYPE_CHECKING:
    from kinetoscope.model.job import Job


@contextmanager
def opened(args: argparse.Namespace) -> Iterator[Job]:
    """The job at `args.path`. Traces are read while it is used, so the wait is shown for as long as it is open.

    Raises:
        InputError: there is no trace, or it cannot be read.
    """
    from kinetoscope.reading import read

    limits = {} if args.max_size is None else {"max_size": args.max_size or _NO_LIMIT}
    meter = Meter()
    with shown(meter):
        job = read(args.path, ranks=args.ranks, jobs=args.jobs, progress=meter, **limits)
        meter.total = _stored(source.url for source in job.sources)
        yield job
