"""Which rank and which cycle of the profiler each file of a run holds, and on what that rests.

Knows looks, not files: what was seen in their beginnings, and their names. In this order: `distributedInfo`; the
collectives, whose arguments name the ranks that take part; the file's name; another file of the same process; the
order of names. Ignores where a file lies in the list: the order that they are given in does not matter.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, Literal

from kinetoscope.model.trace.names import listed

Basis = Literal["", "text", "collectives", "name"]

TEXT: Final = "text"

HIGHEST: Final = 1 << 22
"""What says that it has a higher rank, or is of a larger job, is not believed."""

_RANK_IN_NAME: Final = re.compile(r"(?<![a-z])(?:rank|worker)[-_=]?(\d{1,9})(?!\d)", re.IGNORECASE)
_PROCESS: Final = re.compile(r"(?P<process>.*_\d+)\.\d{10,19}(?:\.pt)?(?:\.trace)?\.json(?:\.\w+)?\Z")
"""What torch's tensorboard_trace_handler calls its files: host_pid.time.pt.trace.json; time in ms, newer ones in ns."""

_CAPTURE: Final = re.compile(r"(?:^|/)(?:capture_traces|graph_capture_profile)/|(?:^|/)(?:cuda_)?graph_capture[^/]*\Z")
"""Where vLLM and SGLang put the traces that they record while they capture CUDA graphs, and what they call them."""

_NUMBER: Final = re.compile(r"([0-9]{1,18})")
_PACKED: Final = re.compile(r"\.(?:gz|zst)\Z")


@dataclass(frozen=True, slots=True)
class Look:
    """What the beginning of a file, and its name, tell.

    Attributes:
        file: which one.
        rank: the rank that it says it holds; None if nothing tells.
        world: how many ranks the job had; 0 if it does not say.
        basis: what tells the rank: its text (`distributedInfo`), its collectives, or its name.
        other: what it is instead of a trace; "" if it may be one.
        mark: the same for a file and its copies, packed otherwise perhaps; "" where that was not looked at.
        size: bytes as stored; None where that is not known.
        whole: nothing that could tell the rank was left unread.
        packed: it is compressed.
    """

    file: str
    rank: int | None = None
    world: int = 0
    basis: Basis = ""
    other: str = ""
    mark: str = ""
    size: int | None = None
    whole: bool = True
    packed: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where a file stands in its job."""

    file: str
    rank: int
    cycle: int
    size: int | None


def natural(text: str) -> list[tuple[int, int, str]]:
    """A key that sorts names as people count: rank2 before rank10."""
    parts = _NUMBER.split(text)
    return [(0, int(part), "") if odd % 2 else (1, 0, part) for odd, part in enumerate(parts) if part]


def rank_in_name(file: str) -> int | None:
    """The rank in the name of a file, else in that of its folder; None if neither has one."""
    folder, _, name = file.replace("\\", "/").rpartition("/")
    for text in (name, folder.rpartition("/")[2]):
        found = _RANK_IN_NAME.findall(text)
        if found and int(found[-1]) < HIGHEST:
            return int(found[-1])
    return None


def named(look: Look) -> Look:
    """The same; with the rank that its name has, where its text tells none."""
    rank = rank_in_name(look.file) if look.rank is None else None
    return look if rank is None else replace(look, rank=rank, basis="name")


def assigned(looks: Iterable[Look]) -> tuple[list[Place], list[str]]:
    """Rank and cycle of each trace, ordered by them, and what is to be said about it."""
    traces = [named(look) for look in sorted(looks, key=lambda look: (natural(look.file), look.file))]
    notes: list[str] = []
    traces = _without_captures(_without_copies(traces, notes), notes)
    processes = _ranks_of_processes(traces)
    known = [_of_process(look, processes) for look in traces]
    if len(traces) == 1 and traces[0].rank is None and not traces[0].whole:
        notes.append("The trace does not say its rank where it was looked for, at its ends: it is taken as rank 0.")
    numbered = _numbered(known)
    if len(traces) > 1:
        notes += _on_basis(traces)
    places = []
    cycles: Counter[int] = Counter()
    for look, rank in zip(known, numbered, strict=True):
        places.append(Place(look.file, rank, cycles[rank], look.size))
        cycles[rank] += 1
    if len(traces) > 1:
        notes += [*_on_cycles(cycles, known, numbered), *_on_worlds(known, numbered), *_on_gaps(cycles, known)]
    return sorted(places, key=lambda place: (place.rank, place.cycle)), notes


def _without_copies(traces: list[Look], notes: list[str]) -> list[Look]:
    """The traces but those that are another one again: the same rank, beginning, and either size or name."""
    kept: list[Look] = []
    copies: list[str] = []
    seen: set[tuple[int, str, str]] = set()
    for look in traces:
        if not look.mark or look.rank is None:
            kept.append(look)
            continue
        same = [(look.rank, look.mark, f"name {_PACKED.sub('', look.file)}")]
        if look.size:
            same.append((look.rank, look.mark, f"size {look.size}"))
        if seen.isdisjoint(same):
            kept.append(look)
        else:
            copies.append(_last(look.file))
        seen.update(same)
    if copies:
        notes.append(f"Left out, for they are copies of others: {shortened(copies)}.")
    return kept


def _without_captures(traces: list[Look], notes: list[str]) -> list[Look]:
    """The traces of the run itself: a serving engine captures its graphs before it serves, into files of their own."""
    captures = [look for look in traces if _CAPTURE.search(look.file.replace("\\", "/"))]
    if not captures or len(captures) == len(traces):
        return traces
    names = shortened([_last(look.file) for look in captures])
    notes.append(f"Left out, for they record the capture of CUDA graphs, not the run: {names}. Open them by name.")
    return [look for look in traces if look not in captures]


def _process(file: str) -> str:
    """Folder, host and process in the name that torch gives a file; "" if it has another name."""
    match = _PROCESS.match(file)
    return match["process"] if match else ""


def _ranks_of_processes(traces: Iterable[Look]) -> dict[str, int]:
    """The rank of each process of which one file tells it."""
    told: defaultdict[str, set[int]] = defaultdict(set)
    for look in traces:
        if look.rank is not None:
            told[_process(look.file)].add(look.rank)
    return {process: ranks.pop() for process, ranks in told.items() if process and len(ranks) == 1}


def _of_process(look: Look, processes: dict[str, int]) -> Look:
    return replace(look, rank=processes.get(_process(look.file))) if look.rank is None else look


def _numbered(traces: Sequence[Look]) -> list[int]:
    """A rank for each; those without one get the free numbers in order, the files of one process the same."""
    taken = {look.rank for look in traces}
    free = (rank for rank in range(len(traces) + len(taken)) if rank not in taken)
    given: dict[str, int] = {}
    ranks = []
    for look in traces:
        rank = look.rank
        if rank is None:
            process = _process(look.file) or look.file
            if process not in given:
                given[process] = next(free)
            rank = given[process]
        ranks.append(rank)
    return ranks


# --- what is said


def _on_basis(traces: Sequence[Look]) -> list[str]:
    """One note for each thing that ranks rest on, other than what the traces say outright."""
    all_of_them = len(traces)
    notes = []
    if count := sum(look.basis == "collectives" for look in traces):
        notes.append(f"{count} of {all_of_them} files do not say their rank; it follows from their collectives.")
    if by_name := [look for look in traces if look.basis == "name" and look.rank is not None]:
        where = "" if all(look.whole for look in by_name) else " where it was looked for"
        notes.append(
            f"{len(by_name)} of {all_of_them} files do not say their rank{where}; it is taken from their names"
            f" ({listed([look.rank for look in by_name if look.rank is not None])})."
        )
    unknown = [look for look in traces if look.rank is None]
    if unknown:
        several = len({_process(look.file) or look.file for look in unknown}) < len(unknown)
        how = "by process, in order of name" if several else "in order of name"
        notes.append(f"{len(unknown)} of {all_of_them} files do not say their rank; they are numbered {how}.")
    return notes


def _on_cycles(cycles: Counter[int], traces: Sequence[Look], ranks: Sequence[int]) -> list[str]:
    repeated = [rank for rank, count in cycles.items() if count > 1]
    if not repeated:
        return []
    processes: defaultdict[int, set[str]] = defaultdict(set)
    for look, rank in zip(traces, ranks, strict=True):
        processes[rank].add(_process(look.file))
    said = f"Several files hold the same rank ({listed(repeated)})"
    notes = [f"{said}: they are taken as cycles of the profiler, in order of name."]
    if mixed := [rank for rank in repeated if len(processes[rank] - {""}) > 1]:
        notes.append(
            f"Files of the same rank come of different processes ({listed(mixed)}): this may be more than one run."
        )
    return notes


def _on_worlds(traces: Sequence[Look], ranks: Sequence[int]) -> list[str]:
    """One note if the traces do not agree about how many ranks there were."""
    worlds: defaultdict[int, list[int]] = defaultdict(list)
    for look, rank in zip(traces, ranks, strict=True):
        if look.world:
            worlds[look.world].append(rank)
    if len(worlds) < 2:
        return []
    each = "; ".join(f"{world} ({_ranks(worlds[world])})" for world in sorted(worlds))
    return [f"The traces disagree about how many ranks the job had: {each}. This may be more than one run."]


def _on_gaps(cycles: Counter[int], traces: Sequence[Look]) -> list[str]:
    world = max(look.world for look in traces)
    if world:
        missing = set(range(world)) - set(cycles)
        return [f"The job had {world} ranks; not here: {listed(missing)}."] if missing else []
    missing = set(range(min(cycles), max(cycles))) - set(cycles)
    return [f"Between the ranks that are here these are missing: {listed(missing)}."] if missing else []


def _ranks(ranks: list[int]) -> str:
    return f"rank{'s' if len(set(ranks)) > 1 else ''} {listed(ranks)}"


def _last(file: str) -> str:
    return file.rstrip("/").rpartition("/")[2]


def shortened(texts: list[str]) -> str:
    """The first few of them."""
    return ", ".join([*texts[:5], f"and {len(texts) - 5} more"] if len(texts) > 5 else texts)


# --- what a text says


_DISTRIBUTED: Final = re.compile(rb'"distributedInfo"\s*:\s*(?=\{)')
_RANK_IN_TEXT: Final = re.compile(rb'"rank"\s*:\s*(\d{1,9})')
_WORLD_IN_TEXT: Final = re.compile(rb'"world_size"\s*:\s*(\d{1,9})')
_GROUP: Final = re.compile(rb'"Process Group Ranks"\s*:\s*"\[([\d, ]+)\]"')
_GROUP_SIZE: Final = re.compile(rb'"Group size"\s*:\s*"?(\d{1,9})')
_OWN: Final = re.compile(rb'"Rank"\s*:\s*"?(\d{1,9})')
_COLLECTIVE: Final = re.compile(rb'"Collective name"\s*:\s*"([^"]{0,60})"')
_OWN_RANK_IN: Final = re.compile(rb"all_?reduce|all_?gather|reduce_scatter|all_?to_?all|barrier", re.IGNORECASE)
"""Collectives whose argument `Rank` is the rank of the process in its group; in others it is the root, or the peer."""

_COLLECTIVES_AT_MOST: Final = 2000
_ARGUMENTS_AT_MOST: Final = 4000
"""Bytes of an event's arguments before and after the ranks of its group."""


def distributed(text: bytes, decode: Callable[[str], object]) -> tuple[int | None, int]:
    """Rank and number of ranks as `distributedInfo` in a piece of text tells them; the last one counts.

    decode: decodes the JSON value that a text begins with.
    """
    matches = list(_DISTRIBUTED.finditer(text)) if b'"distributedInfo"' in text else []  # which is faster
    if not matches:
        return None, 0
    rest = text[matches[-1].end() :]
    try:
        facts = decode(rest.decode("utf-8", "replace"))
    except (ValueError, RecursionError):  # cut, or broken
        facts = None
    if isinstance(facts, dict):
        return _believed(facts.get("rank")), _believed(facts.get("world_size")) or 0
    found = [pattern.search(rest) for pattern in (_RANK_IN_TEXT, _WORLD_IN_TEXT)]
    rank, world = (_believed(int(match[1])) if match else None for match in found)
    return rank, world or 0


def _believed(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= HIGHEST else None


def in_collectives(text: bytes) -> int | None:
    """The rank that the arguments of the collectives in a piece of text leave; None if they leave several, or none.

    A process takes part in the collectives of its groups only, so it is in all of them; and those that all ranks of a
    group do alike say at which place of its group it is. Lists of ranks that are cut short tell nothing.
    """
    if b'"Process Group Ranks"' not in text:
        return None
    common: set[int] | None = None
    own: set[int] = set()
    for found in islice(_GROUP.finditer(text), _COLLECTIVES_AT_MOST):
        begin = max(text.rfind(b"{", max(found.start() - _ARGUMENTS_AT_MOST, 0), found.start()), 0)
        end = text.find(b"}", found.end(), found.end() + _ARGUMENTS_AT_MOST)
        arguments = text[begin : end if end >= 0 else found.end()]
        group = [int(number) for number in re.findall(rb"\d{1,9}", found[1])]
        size = _GROUP_SIZE.search(arguments)
        if size and int(size[1]) != len(group):
            continue
        common = set(group) if common is None else common & set(group)
        name, place = _COLLECTIVE.search(arguments), _OWN.search(arguments)
        if name and place and _OWN_RANK_IN.search(name[1]) and int(place[1]) < len(group):
            own.add(group[int(place[1])])
    candidates = own if len(own) == 1 else common or set()
    if common is not None and len(own) == 1 and not own <= common:  # they contradict each other
        return None
    rank = candidates.pop() if len(candidates) == 1 else None
    return rank if rank is None or rank <= HIGHEST else None
