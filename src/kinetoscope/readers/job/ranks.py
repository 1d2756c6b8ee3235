"""Which rank and which cycle of the profiler each file of a run holds, and on what that rests.

A rank rests on the probe of a file and on its name, in this order: `distributedInfo`; the
collectives, whose arguments name the ranks that take part; the file's name; another file of the same process; the
order of names. Ignores where a file lies in the list: the order that they are given in does not matter.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.text import listed, numbered
from kinetoscope.notes import Note
from kinetoscope.readers.flight_recorder.alone import NAME as DUMP
from kinetoscope.readers.hosts import NAME as HOSTS
from kinetoscope.readers.job.names import placed, without_front_ends
from kinetoscope.readers.job.several import last_part, numbered_apart, richest, shortened
from kinetoscope.readers.reader import MAX_RANK, CandidateFile

_RANK_IN_NAME: Final = re.compile(r"(?<![a-z])(?:rank|worker)[-_=]?(\d{1,9})(?!\d)", re.IGNORECASE)
_RANK_OF_SNAPSHOT: Final = re.compile(r"(?:(\d{6,9})_step_\d+|snapshot_(\d{1,9}))\.(?:pickle|pkl)(?:\.\w+)?\Z")
"""Names of memory snapshots that say no `rank`: torchtitan's 000003_step_20.pickle, Megatron-LM's snapshot_3.pickle."""

_RANK_OF_DUMP: Final = re.compile(r"(\d{1,9})(?:\.(?:json|pickle|pkl))?(?:\.(?:gz|zst))?\Z")

_PROCESS: Final = re.compile(r"(?P<process>.*_\d+)\.\d{10,19}(?:\.pt)?(?:\.trace)?\.json(?:\.\w+)?\Z")
"""File names of torch's tensorboard_trace_handler: host_pid.time.pt.trace.json; time in ms, newer ones in ns."""

_NUMBER: Final = re.compile(r"([0-9]{1,18})")
_COMPRESSED: Final = re.compile(r"\.(?:gz|zst)\Z")


def natural(text: str) -> list[tuple[int, int, str]]:
    """A key that sorts names as people count: rank2 before rank10."""
    parts = _NUMBER.split(text)
    return [(0, int(part), "") if odd % 2 else (1, 0, part) for odd, part in enumerate(parts) if part]


def rank_in_name(file: str) -> int | None:
    """The rank in the name of a file, else in that of its folder; None if neither has one."""
    folder, _, name = file.replace("\\", "/").rpartition("/")
    for text in (name, folder.rpartition("/")[2]):
        numbers = _RANK_IN_NAME.findall(text)
        if numbers and int(numbers[-1]) < MAX_RANK:
            return int(numbers[-1])
    return None


def rank_in_snapshot_name(file: str) -> int | None:
    """The rank that a trainer's name for a memory snapshot has without the word; None if it is no such name."""
    match = _RANK_OF_SNAPSHOT.match(file.replace("\\", "/").rpartition("/")[2])
    rank = int(match[1] or match[2]) if match else MAX_RANK
    return rank if rank < MAX_RANK else None


def rank_in_dump_name(file: str) -> int | None:
    """The rank in the name of a dump of the Flight Recorder: a prefix of any kind, and the rank."""
    name = file.replace("\\", "/").rpartition("/")[2]
    match = _RANK_OF_DUMP.search(name)
    rank = rank_in_name(name)
    if rank is None and match and int(match[1]) < MAX_RANK:
        return int(match[1])
    return rank if rank is not None else rank_in_name(file)


def assigned(
    candidates: Iterable[CandidateFile], richness: Mapping[str, int] | None = None
) -> tuple[list[Source], list[Note]]:
    """A source for each trace, ordered by rank and cycle, and notes on what its rank rests on.

    richness: of the formats of tools, by the names of their readers: see `Reader.richness`.
    """
    notes: list[Note] = []
    traces = _without_copies(_of_engines(ordered(candidates), notes), notes)
    processes = _ranks_of_processes(traces)
    known = [
        replace(trace, rank=processes.get(_process(trace.url))) if trace.rank is None else trace for trace in traces
    ]
    if len(traces) == 1 and traces[0].rank is None and not traces[0].fully_probed:
        notes.append(Note("RANK_ASSUMED", "Neither end of the trace states its rank; rank 0 is assumed."))
    every = richness or {}
    known, ranks, of_roles = numbered_apart(known, every, _numbered)
    notes += of_roles
    if len(traces) > 1:
        notes += _on_basis(traces)
    known, ranks, of_tools = richest(known, ranks, every)
    notes += of_tools
    sources = []
    cycles: Counter[int] = Counter()
    for trace, rank in zip(known, ranks, strict=True):
        sources.append(Source(trace.url, rank, cycles[rank], trace.reader, size=trace.size, part=trace.part))
        cycles[rank] += 1
    if len(traces) > 1:
        notes += [*_on_cycles(cycles, known, ranks), *_on_worlds(known, ranks), *_on_gaps(cycles, known)]
    sources.sort(key=lambda source: (source.rank, source.cycle))
    return sources, notes


def ordered(candidates: Iterable[CandidateFile]) -> list[CandidateFile]:
    """The candidates by name, with the ranks of their names."""
    return [_with_rank_of_name(each) for each in sorted(candidates, key=lambda each: (natural(each.url), each.url))]


def _with_rank_of_name(candidate: CandidateFile) -> CandidateFile:
    """The candidate with the rank that its name has, where its text tells none."""
    rank = None
    if candidate.rank is None:
        rank = rank_in_name(candidate.url)
        rank = rank_in_snapshot_name(candidate.url) if rank is None else rank
        rank = rank_in_dump_name(candidate.url) if candidate.reader == DUMP else rank
    return candidate if rank is None else replace(candidate, rank=rank, basis="name")


def _without_copies(traces: list[CandidateFile], notes: list[Note]) -> list[CandidateFile]:
    """The traces but those that are another one again: the same rank, beginning, and either size or name."""
    kept: list[CandidateFile] = []
    copies: list[str] = []
    seen: set[tuple[int, str, str]] = set()
    for trace in traces:
        if not trace.digest or trace.rank is None:
            kept.append(trace)
            continue
        same = [(trace.rank, trace.digest, f"name {_COMPRESSED.sub('', trace.url)}")]
        if trace.size:
            same.append((trace.rank, trace.digest, f"size {trace.size}"))
        if seen.isdisjoint(same):
            kept.append(trace)
        else:
            copies.append(last_part(trace.url))
        seen.update(same)
    if copies:
        notes.append(Note("COPIES_LEFT_OUT", f"Left out as copies of other files: {shortened(copies)}."))
    return kept


def _of_engines(traces: list[CandidateFile], notes: list[Note]) -> list[CandidateFile]:
    """The traces of a serving engine's ranks, with the ranks that their names tell."""
    traces, front = without_front_ends(traces)
    if front:
        names = shortened([last_part(each.url) for each in front])
        notes.append(
            Note(
                "FRONT_END_LEFT_OUT",
                f"Left out as recordings of a front end, which drives no device: {names}. Open them by name.",
            )
        )
    traces, of_places = placed(traces)
    notes += of_places
    return traces


def _process(file: str) -> str:
    """Folder, host and process in the name that torch gives a file; "" if it has another name."""
    match = _PROCESS.match(file)
    return match["process"] if match else ""


def _ranks_of_processes(traces: Iterable[CandidateFile]) -> dict[str, int]:
    """The rank of each process of which one file tells it."""
    ranks: defaultdict[str, set[int]] = defaultdict(set)
    for trace in traces:
        if trace.rank is not None:
            ranks[_process(trace.url)].add(trace.rank)
    return {process: of.pop() for process, of in ranks.items() if process and len(of) == 1}


def _numbered(traces: Sequence[CandidateFile]) -> list[int]:
    """A rank for each; those without one get the free numbers in order, the files of one process the same."""
    taken = {trace.rank for trace in traces}
    free = (rank for rank in range(len(traces) + len(taken)) if rank not in taken)
    given: dict[str, int] = {}
    ranks = []
    for trace in traces:
        rank = trace.rank
        if rank is None:
            process = _process(trace.url) or trace.url
            if process not in given:
                given[process] = next(free)
            rank = given[process]
        ranks.append(rank)
    return ranks


# --- notes


def _on_basis(traces: Sequence[CandidateFile]) -> list[Note]:
    """One note for each thing that ranks rest on, other than what the traces say outright."""
    all_of_them = len(traces)
    notes = []
    if count := sum(trace.basis == "collectives" for trace in traces):
        notes.append(
            Note(
                "RANKS_BY_COLLECTIVES",
                f"{count} of {all_of_them} files do not state their rank; it is inferred from their collectives.",
            )
        )
    if by_name := [trace for trace in traces if trace.basis == "name" and trace.rank is not None]:
        where = "" if all(trace.fully_probed for trace in by_name) else " at their ends"
        notes.append(
            Note(
                "RANKS_BY_NAMES",
                f"{len(by_name)} of {all_of_them} files do not state their rank{where}; it is taken from their names"
                f" ({listed([trace.rank for trace in by_name if trace.rank is not None])}).",
            )
        )
    unknown = [trace for trace in traces if trace.rank is None]
    if unknown:
        several = len({_process(trace.url) or trace.url for trace in unknown}) < len(unknown)
        how = "by process, in order of name" if several else "in order of name"
        notes.append(
            Note(
                "RANKS_NUMBERED",
                f"No rank was found in {len(unknown)} of {all_of_them} files; they are numbered {how}.",
            )
        )
    return notes


def _on_cycles(cycles: Counter[int], traces: Sequence[CandidateFile], ranks: Sequence[int]) -> list[Note]:
    repeated = [rank for rank, count in cycles.items() if count > 1]
    if not repeated or all(trace.reader in (DUMP, HOSTS) for trace in traces):
        return []
    processes: defaultdict[int, set[str]] = defaultdict(set)
    for trace, rank in zip(traces, ranks, strict=True):
        processes[rank].add(_process(trace.url))
    which = f"Several files have the same rank ({listed(repeated)})"
    notes = [Note("CYCLES_BY_NAME", f"{which}: they are read as cycles of the profiler, in order of name.")]
    if mixed := [rank for rank in repeated if len(processes[rank] - {""}) > 1]:
        notes.append(
            Note(
                "SEVERAL_RUNS",
                f"Files of the same rank come from different processes ({listed(mixed)}): "
                "this may be more than one run.",
            )
        )
    return notes


def _on_worlds(traces: Sequence[CandidateFile], ranks: Sequence[int]) -> list[Note]:
    """One note if the traces do not agree about how many ranks there were."""
    worlds: defaultdict[int, list[int]] = defaultdict(list)
    for trace, rank in zip(traces, ranks, strict=True):
        if trace.world:
            worlds[trace.world].append(rank)
    if len(worlds) < 2:
        return []
    each = "; ".join(f"{world} ({numbered('rank', worlds[world])})" for world in sorted(worlds))
    return [
        Note(
            "WORLDS_DISAGREE",
            f"The traces disagree about how many ranks the job had: {each}. This may be more than one run.",
        )
    ]


def _on_gaps(cycles: Counter[int], traces: Sequence[CandidateFile]) -> list[Note]:
    world = max(trace.world for trace in traces)
    if world:
        missing = set(range(world)) - set(cycles)
        return [Note("RANKS_MISSING", f"The job had {world} ranks; missing: {listed(missing)}.")] if missing else []
    missing = set(range(min(cycles), max(cycles))) - set(cycles)
    return [Note("RANKS_MISSING_BETWEEN", f"Ranks missing in between: {listed(missing)}.")] if missing else []
