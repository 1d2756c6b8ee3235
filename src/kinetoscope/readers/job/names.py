"""The places in a parallel run that serving engines put into the names of traces, and the ranks that follow.

SGLang writes `[prefix-]id-TP-0[-DP-0][-PP-0][-EP-0][-DECODE].trace.json.gz`, vLLM `dp0_pp0_tp0_dcp0_ep0_rank0.time…`.
Data, pipeline and tensor parallel ranks number the processes; an expert is one of the same processes by another name.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from kinetoscope.notes import Note
from kinetoscope.readers.reader import MAX_RANK, CandidateFile, RankBasis

_SGLANG: Final = re.compile(
    r"(?:\A|(?P<run>.*)-)(?P<place>TP-\d{1,6}(?:-(?:DP|PP|EP)-\d{1,6})*)(?:-(?:ForwardMode\.)?(?P<stage>[A-Z_]+|\d))?"
    r"\.(?:trace\.)?json(?:\.\w+)?\Z"
)
_VLLM: Final = re.compile(
    r"(?:\A|(?P<run>.*?)[._-])(?P<place>(?:dp\d{1,6}_)?pp\d{1,6}_(?:pcp\d{1,6}_)?tp\d{1,6}(?:_dcp\d+)?(?:_ep\d+)?)"
    r"_rank\d{1,6}(?:\.\d+)?(?:\.pt)?\.trace\.json(?:\.\w+)?\Z"
)
_MERGED: Final = re.compile(r"merged-(?P<run>.+)\.trace\.json(?:\.\w+)?\Z")
"""One file of all ranks, which SGLang writes beside theirs."""

_NUMBER: Final = re.compile(r"(?<![a-z])(dp|pp|pcp|tp)-?(\d+)", re.IGNORECASE)
_STAGES: Final = {"1": "EXTEND", "2": "DECODE"}
"""Stages where Python 3.11 wrote the number of an IntEnum."""

_FRONT_END: Final = ".async_llm."
"""Word in the names of traces of vLLM's front end, the process that speaks to clients and drives no device."""


class Place(NamedTuple):
    """The numbers of a process in what is parallel, in the order of processes: the last one counts fastest."""

    data: int = 0
    pipeline: int = 0
    prefill_context: int = 0
    tensor: int = 0


class ServingName(NamedTuple):
    """What the name of a serving engine's trace tells.

    Attributes:
        run: what is equal for all files of one recording; "" if the name has nothing of the kind.
        place: of the process.
        stage: EXTEND (prefill), DECODE, …; "" where stages were not recorded apart.
    """

    run: str
    place: Place
    stage: str


def serving_name(trace: CandidateFile) -> ServingName | None:
    """What the name of a file, or the label of a rank in it, tells; None if no serving engine gave it."""
    if trace.part and trace.rank is None:
        return ServingName(trace.url, place_of(trace.part), "")
    name = _last(trace.url)
    if match := _SGLANG.match(name):
        stage = match["stage"] or ""
        return ServingName(match["run"] or "", place_of(match["place"]), _STAGES.get(stage, stage))
    if match := _VLLM.match(name):
        return ServingName("", place_of(match["place"]), "")
    return None


def place_of(text: str) -> Place:
    """The place that `TP-3-DP-0`, `TP03-DP00` or `dp0_pp0_tp3` names."""
    numbers = {name.lower(): int(number) for name, number in _NUMBER.findall(text)}
    return Place(*(numbers.get(name, 0) for name in ("dp", "pp", "pcp", "tp")))


def ranks_of(places: Collection[Place]) -> dict[Place, int]:
    """The rank of each place.

    Where attention alone is data parallel, each tensor parallel rank belongs to one data parallel rank: then that
    does not count, as it numbers no other processes.
    """
    within = {place[1:] for place in places}
    kept = [place._replace(data=0) if len(within) == len(places) > 1 else place for place in places]
    sizes = [1 + max(numbers) for numbers in zip(*kept, strict=True)]
    ranks = {}
    for place, each in zip(places, kept, strict=True):
        rank = 0
        for size, number in zip(sizes, each, strict=True):
            rank = rank * size + number
        ranks[place] = rank
    return ranks


def of_engine(trace: CandidateFile) -> bool:
    """Whether a serving engine gave the file its name: it belongs to one run with the others in its folder."""
    name = _last(trace.url)
    return bool(serving_name(trace) or _MERGED.match(name)) or _FRONT_END in name


def without_merged(traces: Sequence[CandidateFile]) -> tuple[list[CandidateFile], list[CandidateFile]]:
    """The traces but merged files of ranks whose own files are there, too; and those."""
    runs = {(_folder(each.url), name.run) for each in traces if (name := serving_name(each)) and not each.part}
    return _parted(traces, [_merged_run(each.url) in runs for each in traces])


def without_front_ends(traces: Sequence[CandidateFile]) -> tuple[list[CandidateFile], list[CandidateFile]]:
    """The traces of processes that drive devices; and those of front ends.

    A front end's trace has its name, or has neither rank nor place where an engine named others after their places.
    """
    named = any(map(serving_name, traces))
    front = [
        _FRONT_END in _last(each.url) or (named and each.rank is None and not serving_name(each)) for each in traces
    ]
    return _parted(traces, [False] * len(front) if all(front) else front)


def placed(traces: Sequence[CandidateFile]) -> tuple[list[CandidateFile], list[Note]]:
    """The traces with the ranks of the places in their names, stages in the order of recording, and notes.

    What the files themselves say counts more, where they say one rank of each place and another one of each other.
    """
    names = {each: name for each in traces if (name := serving_name(each))} | _on_hosts(traces)
    if not names:
        return list(traces), []
    server = _servers(names)
    place = {each: (server[each], name.place) for each, name in names.items()}
    ranks_at: defaultdict[tuple[int, Place], set[int]] = defaultdict(set)
    for each, where in place.items():
        if each.rank is not None and each.basis != "name":
            ranks_at[where].add(each.rank)
    known = {where: min(ranks) for where, ranks in ranks_at.items() if len(ranks) == 1}
    basis: RankBasis = "text"
    notes = []
    if len(set(known.values())) < len(set(place.values())):
        known, basis = _numbered(set(place.values())), "place"
        notes.append(_on_places(known, names, len(traces)))
    stages = {name.stage for name in names.values()} - {""}
    if len(stages) > 1:
        order = ", ".join(sorted(stages, key=_turn))
        notes.append(
            Note("CYCLES_ARE_STAGES", f"The cycles of a rank are the stages that were recorded apart: {order}.")
        )
    turns = sorted(names, key=lambda each: (names[each].run, *_turn(names[each].stage)))
    ordered = iter([replace(each, rank=min(known[place[each]], MAX_RANK), basis=basis) for each in turns])
    return [next(ordered) if each in names else each for each in traces], notes


def _numbered(places: Collection[tuple[int, Place]]) -> dict[tuple[int, Place], int]:
    """The rank of each place of each server: those of the next server follow."""
    ranks: dict[tuple[int, Place], int] = {}
    for server in sorted({server for server, _ in places}):
        first = 1 + max(ranks.values(), default=-1)
        here = ranks_of([place for of, place in places if of == server])
        ranks |= {(server, place): first + rank for place, rank in here.items()}
    return ranks


def _on_hosts(traces: Sequence[CandidateFile]) -> dict[CandidateFile, ServingName]:
    """Traces whose names have the ranks within a host, with which several hosts begin anew."""
    named = [each for each in traces if each.basis == "name" and each.host and not serving_name(each)]
    hosts: defaultdict[int | None, set[str]] = defaultdict(set)
    for each in named:
        hosts[each.rank].add(each.host)
    if max(map(len, hosts.values()), default=0) < 2:
        return {}
    return {each: ServingName("", Place(tensor=each.rank or 0), "") for each in named}


def _servers(names: Mapping[CandidateFile, ServingName]) -> dict[CandidateFile, int]:
    """The server that each file is from: its host's, else its folder's, where one name stands for several files."""
    homes: defaultdict[ServingName, set[str]] = defaultdict(set)
    home = {each: each.host or (_folder(each.url) if name.run else "") for each, name in names.items()}
    for each, name in names.items():
        homes[name].add(home[each])
    if max(map(len, homes.values())) == 1:
        return dict.fromkeys(names, 0)
    order = sorted(set(home.values()))
    return {each: order.index(home[each]) for each in names}


def _on_places(ranks: Mapping[tuple[int, Place], int], files: Collection[CandidateFile], of: int) -> Note:
    servers = 1 + max(server for server, _ in ranks)
    sizes = [1 + max(numbers) for numbers in zip(*(place for _, place in ranks), strict=True)]
    words = [f"{size} {name}" for size, name in zip(sizes, ("DP", "PP", "PCP", "TP"), strict=True) if size > 1]
    what = f" ({' × '.join(words)})" if words else ""
    if all(each.part for each in files):
        return Note("RANKS_BY_LABELS", f"The file holds {len(ranks)} ranks, by the labels of its processes{what}.")
    more = f", and that {servers} servers wrote files of the same names" if servers > 1 else ""
    return Note(
        "RANKS_BY_PLACES", f"The ranks of {len(files)} of {of} files follow from the places in their names{what}{more}."
    )


def _merged_run(url: str) -> tuple[str, str]:
    """Folder and recording of a merged file; "" and "" of another one."""
    match = _MERGED.match(_last(url))
    return (_folder(url), match["run"]) if match else ("", "")


def _parted(traces: Sequence[CandidateFile], aside: Sequence[bool]) -> tuple[list[CandidateFile], list[CandidateFile]]:
    pairs = list(zip(traces, aside, strict=True))
    return [each for each, yes in pairs if not yes], [each for each, yes in pairs if yes]


def _turn(stage: str) -> tuple[bool, str]:
    """A key that sorts stages: prefill is recorded first."""
    return stage != "EXTEND", stage


def _last(url: str) -> str:
    return url.replace("\\", "/").rstrip("/").rpartition("/")[2]


def _folder(url: str) -> str:
    return url.replace("\\", "/").rstrip("/").rpartition("/")[0]
