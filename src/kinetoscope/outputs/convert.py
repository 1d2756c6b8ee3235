"""A trace in another format: JSON without loss, tables as Parquet, or JSON for Perfetto with counters and a path."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from kinetoscope.engines.threads import Threads
from kinetoscope.errors import UsageError
from kinetoscope.model.job import Job
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.text import number_of
from kinetoscope.outputs.opening import destination, opened
from kinetoscope.outputs.perfetto_overlay import critical_path as marked_path
from kinetoscope.outputs.perfetto_overlay import series
from kinetoscope.readers.files.stream import is_url
from kinetoscope.reading import Readable
from kinetoscope.views.exports import perfetto, trace_json, trace_parquet
from kinetoscope.views.exports.perfetto import PerfettoAdditions

Form = Literal["json", "parquet", "perfetto"]

ENDINGS: Final[dict[Form, str]] = {"json": ".json", "parquet": "", "perfetto": ".perfetto.json.gz"}
"""The forms, and how the names of files end that nobody named."""

_ENDINGS: Final = (".zst", ".gz", ".json")


@dataclass(frozen=True, slots=True, repr=False)
class WrittenTrace:
    """One trace of a job, as it was written.

    Attributes:
        path: the file, or the folder of Parquet files.
        rank, cycle: of the trace.
        events: of the trace.
        additions: what was added for Perfetto; None in the other forms.
        marked: whether the critical path is among them.
    """

    path: str
    rank: int
    cycle: int
    events: int
    additions: PerfettoAdditions | None = None
    marked: bool = False

    def __str__(self) -> str:
        added = self.additions
        parts = [number_of(self.events, "event")]
        if added is None:
            return f"{self.path}: {parts[0]}"
        parts.append(number_of(added.counters, "counter track"))
        if added.moved:
            spans = "overlapping span in a lane of its own", "overlapping spans in lanes of their own"
            parts.append(number_of(added.moved, *spans))
        if added.renumbered:
            parts.append(f"{number_of(added.renumbered, 'lane')} renumbered")
        if added.overlapping:
            parts.append(f"{added.overlapping:,} of them overlap there too, and Perfetto will drop them")
        if self.marked:
            marks = number_of(added.marked, "event"), number_of(added.arrows, "arrow")
            parts.append(f"{' and '.join(marks)} on the critical path")
        return f"{self.path}: {', '.join(parts)}. Open it at https://ui.perfetto.dev"

    def __repr__(self) -> str:
        return f"<{self}>"


def convert(
    of: Job | Readable,
    output: str | os.PathLike[str] | None = None,
    *,
    to: Form,
    critical_path: bool = False,
) -> tuple[WrittenTrace, ...]:
    """Write each trace of a job in another format.

    Args:
        of: a job, or what `read` takes.
        output: a file, or for several traces a folder; for Perfetto, by default files in the current folder.
        to: `json` keeps all events and arguments, and is compressed if the name ends in .gz; `parquet` makes a folder
            with a file for each table, which `read` takes too; `perfetto` adds counter tracks (utilization, memory,
            queue length, bandwidth) for ui.perfetto.dev.
        critical_path: in a file for Perfetto, the critical path is marked, with arrows along it.

    Raises:
        UsageError: an output is missing or is the trace itself; a form, or a path that the form does not draw.
        InputError: a trace cannot be read, or a file not be written.
    """
    name = None if output is None else os.fspath(output)
    check(name, to, critical_path=critical_path)
    job = opened(of)
    results = []
    for source, target in targets(job, name, to):
        refuse_input(job, target)
        with destination(target) as file:
            results.append(write(job, source, file, to, name=target, critical_path=critical_path))
    return tuple(results)


def check(output: str | None, to: Form, *, critical_path: bool = False) -> None:
    """Whether a job can be written so, before it is read.

    Raises:
        UsageError: an output is missing or cannot be; a form, or a path that the form does not draw.
    """
    if to not in ENDINGS:
        raise UsageError(f"there is no form {to!r}; forms: {', '.join(ENDINGS)}")
    if critical_path and to != "perfetto":
        raise UsageError(f"the critical path is drawn for Perfetto, not in {to}: convert to perfetto")
    if output is None and to != "perfetto":
        raise UsageError(f"{to} needs an output (-o OUT): {'a folder' if to == 'parquet' else 'a file'} to write")
    if to == "parquet" and is_url(output or ""):
        raise UsageError(f"{output}: convert writes Parquet to folders of this machine, such as a mounted store")


def targets(job: Job, output: str | None, form: Form, *, always_folder: bool = False) -> Iterator[tuple[Source, str]]:
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


def refuse_input(job: Job, target: str) -> None:
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


def write(
    job: Job, source: Source, target: Path, form: Form, *, name: str = "", critical_path: bool = False
) -> WrittenTrace:
    """Write one trace to a file, or a folder, of this machine; `name` is what its output is called."""
    # The trace is read once and kept for all that is asked of it.
    alone = dataclasses.replace(job, sources=(source,), engine=Threads(job.engine.trace, jobs=1), notes=())
    trace = alone.engine.trace(source)
    target.parent.mkdir(parents=True, exist_ok=True)
    additions = None
    if form == "json":
        trace_json.write(trace, target)
    elif form == "parquet":
        trace_parquet.write(trace, target)
    else:
        path = marked_path(alone) if critical_path else None
        additions = perfetto.write(trace, target, series=series(alone), marked=path)
    return WrittenTrace(name or str(target), source.rank, source.cycle, len(trace), additions, critical_path)


def _stem(source: Source) -> str:
    stem = source.name
    for ending in _ENDINGS:
        stem = stem.removesuffix(ending)
    return stem.removesuffix(".perfetto") or "trace"
