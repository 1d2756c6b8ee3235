"""A trace in another format: JSON without loss, tables as Parquet, or JSON for Perfetto with counters and a path."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from kinetoscope.engines.threads import Threads
from kinetoscope.errors import InputError, UsageError
from kinetoscope.model.analysis import Question
from kinetoscope.model.answer import Failure, Partial
from kinetoscope.model.collectives.calls import collective_calls, with_source
from kinetoscope.model.job import Job, Readable, job_of
from kinetoscope.model.matching.match import join, offsets_of, origin_row
from kinetoscope.model.steps.scope import origin_of_time
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.recording import has_timeline, no_timeline
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.text import number_of
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.outputs.opening import destination
from kinetoscope.outputs.perfetto_overlay import critical_path as marked_path
from kinetoscope.outputs.perfetto_overlay import series
from kinetoscope.readers.files.stream import is_url
from kinetoscope.schema import Schema
from kinetoscope.views.exports import perfetto, perfetto_merged, trace_json, trace_parquet
from kinetoscope.views.exports.perfetto import PerfettoAdditions
from kinetoscope.views.exports.perfetto_merged import RankPart
from kinetoscope.views.exports.target import spare_half_url

Form = Literal["json", "parquet", "perfetto"]

ENDINGS: Final[dict[Form, str]] = {"json": ".json", "parquet": "", "perfetto": ".perfetto.json.gz"}
"""The forms, and how the names of files end that nobody named."""

_ENDINGS: Final = (".zst", ".gz", ".json", ".pftrace", ".perfetto-trace")
_FILE_ENDINGS: Final = (".json", ".gz", ".pftrace", ".perfetto-trace")
"""Of an output that is a file, not a folder."""


@dataclass(frozen=True, slots=True, repr=False)
class WrittenTrace:
    """One trace of a job, as it was written.

    Attributes:
        path: the file, or the folder of Parquet files.
        rank, cycle: of the trace.
        events: of the trace.
        additions: what was added for Perfetto; None in the other forms.
        marked: whether the critical path is among them.
        notes: of a merged file, how the clocks of ranks were set, and what is left out.
    """

    path: str
    rank: int
    cycle: int
    events: int
    additions: PerfettoAdditions | None = None
    marked: bool = False
    notes: tuple[Note, ...] = ()

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
    merge_ranks: bool | None = None,
) -> tuple[WrittenTrace, ...]:
    """Write each trace of a job in another format, or all of them into one file for Perfetto.

    Args:
        of: a job, or what `read` takes.
        output: a file; for several traces a folder, or `DIR/*.pftrace`, which says how their names end; for Perfetto,
            by default files in the current folder.
        to: `json` keeps all events and arguments, and is compressed if the name ends in .gz; `parquet` makes a folder
            with a file for each table, which `read` takes too; `perfetto` adds counter tracks (utilization, memory,
            queue length, bandwidth) for ui.perfetto.dev, in its own format if the name ends in .pftrace.
        critical_path: in a file for Perfetto, the critical path is marked, with arrows along it.
        merge_ranks: for Perfetto, one file of all ranks, on one clock; by default if there are several traces and the
            output has the name of a file (`all.json.gz`).

    Raises:
        UsageError: an output is missing or is the trace itself; a form, or what the form does not have.
        InputError: a trace cannot be read, or a file not be written.
    """
    name = None if output is None else os.fspath(output)
    check(name, to, critical_path=critical_path, merge_ranks=bool(merge_ranks))
    job = job_of(of)
    is_file = (name or "").endswith(_FILE_ENDINGS) and not (Path(name or "").is_dir() or _pattern(name))
    if merge_ranks or (merge_ranks is None and to == "perfetto" and len(job) > 1 and is_file):
        return _merged(job, _merged_name(job, name, is_file=is_file), critical_path=critical_path)
    results = []
    for source, target in targets(job, name, to):
        refuse_input(job, target)
        with destination(target) as file:
            results.append(write(job, source, file, to, name=target, critical_path=critical_path))
    return tuple(results)


def check(output: str | None, to: Form, *, critical_path: bool = False, merge_ranks: bool = False) -> None:
    """Whether a job can be written so, before it is read.

    Raises:
        UsageError: an output is missing or cannot be; a form, or what the form does not have.
    """
    if to not in ENDINGS:
        raise UsageError(f"there is no form {to!r}; forms: {', '.join(ENDINGS)}")
    if critical_path and to != "perfetto":
        raise UsageError(f"the critical path is drawn for Perfetto, not in {to}: convert to perfetto")
    if merge_ranks and to != "perfetto":
        raise UsageError(f"ranks are merged for Perfetto, not in {to}: convert to perfetto")
    if output is None and to != "perfetto":
        raise UsageError(f"{to} needs an output (-o OUT): {'a folder' if to == 'parquet' else 'a file'} to write")
    spare_half_url(output or "")
    if to == "parquet" and is_url(output or ""):
        raise UsageError(f"{output}: convert writes Parquet to folders of this machine, such as a mounted store")


def targets(job: Job, output: str | None, form: Form, *, always_folder: bool = False) -> Iterator[tuple[Source, str]]:
    """Each trace and where it goes; two files of one name in different folders do not overwrite one another."""
    if len(job) == 1 and not always_folder:
        source = job.sources[0]
        yield source, (output or _stem(source) + ENDINGS[form]).replace("*", _stem(source) if _pattern(output) else "*")
        return
    folder, ending = _pattern(output) or ((output or ".").rstrip("/") or "/", ENDINGS[form])
    taken: set[str] = set()
    for source in job.sources:
        stem = _stem(source)
        if stem in taken:
            stem = f"{stem}.rank{source.rank}.{source.cycle}"
        taken.add(stem)
        yield source, f"{folder}/{stem}{ending}"


def _pattern(output: str | None) -> tuple[str, str] | None:
    """The folder and the ending that `DIR/*.pftrace` names; None of an output that is no such pattern."""
    folder, _, name = (output or "").rpartition("/")
    ending = name.removeprefix("*")
    return (folder or ".", ending) if name.startswith("*.") and ending in _FILE_ENDINGS else None


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
    alone = _alone(job, source)
    trace = _on_a_clock(alone, source, form)
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


def _on_a_clock(alone: Job, source: Source, form: Form) -> Trace:
    """The trace as recorded; as Parquet one without timeline, too, which that form keeps as what it is.

    Raises:
        UsageError: it has no timeline that another program could show.
    """
    trace = alone.engine.trace(source).as_recorded()
    if form != "parquet" and not has_timeline(trace):
        raise UsageError(f"{source.url}: {no_timeline(trace)} Convert it to parquet.")
    return trace


def _merged_name(job: Job, output: str | None, *, is_file: bool) -> str:
    """The file to write: the output, a file in the folder that it names, or one in the current folder."""
    name = f"{Path(job.path.rstrip('/')).name or 'trace'}{ENDINGS['perfetto']}"
    if output is None:
        return name
    in_folder = output.endswith("/") or (not is_file and Path(output).is_dir())
    return f"{output.rstrip('/')}/{name}" if in_folder else output


def _merged(job: Job, name: str, *, critical_path: bool) -> tuple[WrittenTrace, ...]:
    """Write all ranks into one file: they are read once for their clocks, and again, one by one, to be written."""
    refuse_input(job, name)
    [answer] = job.engine.ask(job.sources, [Question(_collectives, Schema(), combine=join)])
    failures = {rank: failure for rank, failure in answer.of_rank.items() if isinstance(failure, Failure)}
    if answer.folded is None or answer.folded.extra is None:
        raise InputError(next(iter(failures.values())).message)
    origins = answer.folded.extra.sort("rank", "cycle")
    shifts, notes = offsets_of(answer.folded.frame, origins)
    first = min(shifts)
    offsets = dict(zip(origins.select("rank", "cycle").rows(), shifts, strict=True))

    def parts() -> Iterator[RankPart]:
        for source in job.sources:
            if (source.rank, source.cycle) not in offsets:
                continue
            alone = _alone(job, source)
            trace = _on_a_clock(alone, source, "perfetto")
            shift = offsets[source.rank, source.cycle] - first - origin_of_time(trace)
            yield RankPart(trace, shift, series(alone), marked_path(alone) if critical_path else None)

    with destination(name) as file:
        file.parent.mkdir(parents=True, exist_ok=True)
        written = perfetto_merged.write(parts(), file, base=int(origins["end"][0]) + first)
    left_out = (f"Rank {rank} is left out: {failure.message}." for (rank, _), failure in failures.items())
    impossible = sum(part.left_out for part in written)
    odd = (f"{number_of(impossible, 'event')} with impossible times left out.",) if impossible else ()
    agreed = ("The clocks of the ranks agree as recorded: none was moved.",)
    about = (*(notes or agreed), *odd, *left_out)
    return tuple(
        WrittenTrace(name, part.rank, part.cycle, part.events, part.additions, critical_path, about) for part in written
    )


def described(written: Sequence[WrittenTrace]) -> Iterator[str]:
    """A line for each file, and for what is to be said of it."""
    if len({trace.path for trace in written}) == len(written):
        yield from map(str, written)
        return
    added = [trace.additions for trace in written if trace.additions]
    facts = (
        number_of(len({trace.rank for trace in written}), "rank"),
        number_of(sum(trace.events for trace in written), "event"),
        number_of(sum(each.counters for each in added), "counter track"),
    )
    yield f"{written[0].path}: {', '.join(facts)}. Open it at https://ui.perfetto.dev"
    yield from (f"  {note}" for note in written[0].notes)
    if overlapping := sum(each.overlapping for each in added):
        yield f"  {number_of(overlapping, 'span')} overlap in all lanes: Perfetto will drop them."


def _collectives(trace: Trace, select: Selection) -> Partial:
    """What clocks are aligned by, and the time 0 of the trace."""
    del select
    return Partial(with_source(collective_calls(trace), trace), extra=origin_row(trace))


def _alone(job: Job, source: Source) -> Job:
    """A job of one trace, which is read once and kept for all that is asked of it."""
    return dataclasses.replace(job, sources=(source,), engine=Threads(job.engine.trace, jobs=1), notes=())


def _stem(source: Source) -> str:
    stem = source.name
    for ending in _ENDINGS:
        stem = stem.removesuffix(ending)
    return "-".join(filter(None, (stem.removesuffix(".perfetto") or "trace", source.part)))
