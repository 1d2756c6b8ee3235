"""What a profiler would have recorded of a run: the events of each rank as lines of JSON, in the words of a dialect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tests.simulator.clocks import Clocks
from tests.simulator.dialects import FACTS, comms_id, group_arguments, kernel_name, words
from tests.simulator.groups import Ints
from tests.simulator.machine import Collective, Host, Machine, Work

BASE: Final = 1_790_857_026_000_000_000
"""`baseTimeNanoseconds`: whole quarters since 1970."""

_MAIN, _AUTOGRAD, _LOOP = 0, 1, 2
"""Threads of a rank, beyond its process id."""


_TOGETHER: Final = 200_000
"""Records whose text is held at once."""


@dataclass
class Lines:
    """Events of a block of ranks.

    Attributes:
        first: the first rank of it.
        events: of each rank.
        collectives: of each rank: the match, and which event it is.
    """

    first: int
    events: list[list[str]]
    collectives: list[list[tuple[int, int]]]


@dataclass
class Writer:
    """Turns the records of a machine into events."""

    machine: Machine
    clocks: Clocks
    _ids: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        model = self.machine.model
        self.dialect = model.dialect
        self.facts = FACTS[model.dialect]
        self._time: Callable[[int], str] = _whole if self.facts.whole else _exact
        self._base = BASE if self.facts.base else 0

    def blocks(self) -> Iterator[Lines]:
        """Some ranks after the other: text takes room."""
        size = max(1, min(_TOGETHER // max(1, len(self.machine.records)), 256))
        for first in range(0, self.machine.model.ranks, size):
            yield self.lines(first, min(first + size, self.machine.model.ranks))

    def lines(self, first: int, beyond: int) -> Lines:
        """The events of some ranks."""
        count = beyond - first
        lines = Lines(first, [[] for _ in range(count)], [[] for _ in range(count)])
        self._ids = 0
        for record in self.machine.records:
            self._ids += 8
            low, high = np.searchsorted(record.ranks, (first, beyond))
            if low < high:
                part = slice(int(low), int(high))
                if isinstance(record, Host):
                    self._host(record, part, lines)
                elif isinstance(record, Work):
                    self._work(record, part, lines)
                else:
                    self._collective(record, part, lines)
        return lines

    def _spans(self, ranks: Ints, start: Ints, end: Ints) -> list[str]:
        """`"ts": …, "dur": …` of each, in the clock of its host."""
        begins = self.clocks.read(ranks, start) - self._base
        ends = self.clocks.read(ranks, end) - self._base
        if self.facts.whole:
            begins, ends = begins // 1000, ends // 1000
        time = self._time
        takes = (ends - begins).tolist()
        return [f'"ts": {time(a)}, "dur": {time(b)}' for a, b in zip(begins.tolist(), takes, strict=True)]

    def _host(self, record: Host, part: slice, lines: Lines) -> None:
        ranks = record.ranks[part]
        head = f'{{"ph": "X", "cat": "{record.category}", "name": "{record.name}", "pid": '
        if record.category == "cuda_runtime":
            tail = f', "args": {{"External id": {self._ids}, "cbid": 165, "correlation": {self._ids}}}}}'
        else:
            tail = f', "args": {{"External id": {self._ids}}}}}'
        thread = _AUTOGRAD if record.backward else _MAIN
        for rank, span in zip(ranks.tolist(), self._spans(ranks, record.start[part], record.end[part]), strict=True):
            pid = 1000 + 10 * rank
            lines.events[rank - lines.first].append(f'{head}{pid}, "tid": {pid + thread}, {span}{tail}')

    def _work(self, record: Work, part: slice, lines: Lines) -> None:
        ranks, number = record.ranks[part], self._ids
        call_start, call_end = _within(record.op_start[part], record.op_end[part])
        ops = self._spans(ranks, record.op_start[part], record.op_end[part])
        calls = self._spans(ranks, call_start, call_end)
        works = self._spans(ranks, record.start[part], record.end[part])
        call = record.call.replace("cuda", "hip") if self.dialect == "rocm" else record.call
        correlated = f'"External id": {self._external(number)}, "cbid": 211, "correlation": {number}'
        place = f', "stream": {record.stream}, "correlation": {number}'
        thread = _AUTOGRAD if record.backward else _MAIN
        more = self._kernel_arguments() if record.category == "kernel" else f', "bytes": {record.bytes}'
        for rank, op, called, work in zip(ranks.tolist(), ops, calls, works, strict=True):
            pid, device = 1000 + 10 * rank, rank % self.machine.model.ranks_per_host
            tid = pid + thread
            where = f'{pid}, "tid": {tid}'
            args = f'"External id": {self._external(number)}, "device": {device}{place}{more}'
            lines.events[rank - lines.first] += (
                _event("cpu_op", record.op, where, op, f'"External id": {number}'),
                _event("cuda_runtime", call, where, called, correlated),
                _event(record.category, record.name, f'{device}, "tid": {record.stream}', work, args),
            )

    def _external(self, number: int) -> int:
        """In 2022 it was the correlation, and no operator's number."""
        return number + 1_000_000 if self.dialect == "2022" else number

    def _kernel_arguments(self) -> str:
        if self.dialect == "rocm":
            return ', "kind": "Dispatch Kernel", "grid": [216, 1, 1], "block": [256, 1, 1]'
        return (
            ', "queued": 0, "context": 1, "registers per thread": 64, "shared memory": 4096, "blocks per SM": 2.0, '
            '"warps per SM": 16.0, "grid": [216, 1, 1], "block": [256, 1, 1], "est. achieved occupancy %": 25'
        )

    def _collective(self, record: Collective, part: slice, lines: Lines) -> None:
        stream, shape = record.stream, self._kernel_arguments()
        ranks, number = record.ranks[part], self._ids
        op_start, op_end = record.op_start[part], record.op_end[part]
        spans = [self._spans(ranks, op_start, op_end)]
        start, end = op_start, op_end
        for _ in range(3):
            start, end = _within(start, end)
            spans.append(self._spans(ranks, start, end))
        works = self._spans(ranks, record.start[part], record.end[part])
        said = _Said(self, record)
        matches = record.match[part].tolist()
        thread = _AUTOGRAD if record.backward else _MAIN
        for place, (rank, op, params, annotation, call, work) in enumerate(
            zip(ranks.tolist(), *spans, works, strict=True), part.start
        ):
            named, arguments = words(said.kind(place)), said.arguments(place)
            pid, device = 1000 + 10 * rank, rank % self.machine.model.ranks_per_host
            where = f'{pid}, "tid": {pid + thread}'
            dims = f'"Input Dims": [[{record.elements_in}]], "Input type": ["{said.scalar}"]'
            events = lines.events[rank - lines.first]
            asked = f'"External id": {number}, "Input Dims": [[[{record.elements_in}]]]'
            events.append(_event("cpu_op", named.op, where, op, asked))
            on_host = self.dialect == "gloo" or self.machine.model.staged
            last = len(events) if on_host else len(events) + 3
            lines.collectives[rank - lines.first].append((matches[place - part.start], last))
            noted = f'"External id": {number + 2}, {dims}'
            if on_host:
                looped = f'{pid}, "tid": {pid + _LOOP}'
                events.append(_event("user_annotation", f"gloo:{said.annotation(place)}", looped, work, noted))
                continue
            launched = f'"External id": {self._external(number + 2)}, '
            called = f'{launched}"cbid": 652, "correlation": {number}'
            on_stream = f'{launched}"device": {device}, "stream": {stream}, "correlation": {number}{shape}'
            events += (
                _event("cpu_op", "record_param_comms", where, params, f'"External id": {number + 1}{arguments}'),
                _event("user_annotation", f"nccl:{said.annotation(place)}", where, annotation, noted),
                _event(*self.facts.launch, where, call, called),
                _event("kernel", said.kernel(place), f'{device}, "tid": {stream}', work, on_stream + arguments),
            )


class _Said:
    """What the events of one collective say of it, by the place of the rank."""

    def __init__(self, writer: Writer, record: Collective) -> None:
        self.facts, self.record, self._dialect = writer.facts, record, writer.dialect
        width = record.bytes // max(record.elements_in, record.elements_out)
        self.dtype = {2: "BFloat16", 4: "Float"}[width]
        self.scalar = {2: "c10::BFloat16", 4: "float"}[width]
        self._groups: dict[int, str] = {}
        self._kinds = _kinds(record)

    def kind(self, place: int) -> str:
        return self._kinds[place]

    def kernel(self, place: int) -> str:
        return kernel_name(self._dialect, self._kinds[place], self.dtype)

    def annotation(self, place: int) -> str:
        name = words(self._kinds[place]).annotation
        if self.record.sends is None:
            return name
        arrow = "->" if self.record.sends[place] else "<-"
        return f"{name} {self._index(place, own=True)}{arrow}{self._index(place, own=False)}"

    def _index(self, place: int, *, own: bool) -> int:
        """The place in its group of a rank or of its peer."""
        record = self.record
        rank = record.ranks[place] if own else record.peer[place]
        return int(np.flatnonzero(record.family.ranks[record.group[place]] == rank)[0])

    def arguments(self, place: int) -> str:
        """As JSON without braces, behind a comma; "" where a dialect has none."""
        record, facts = self.record, self.facts
        if not facts.arguments:
            return ""
        group = int(record.group[place])
        if group not in self._groups:
            self._groups[group] = group_arguments(facts, record.family, group)
        text = (
            f', "Collective name": "{words(self._kinds[place]).argument}", "In msg nelems": {record.elements_in}, '
            f'"Out msg nelems": {record.elements_out}, "dtype": "{self.dtype}", "In split size": "[]", '
            f'"Out split size": "[]", {self._groups[group]}'
        )
        if record.sends is not None:
            text += f', "{"Dst" if record.sends[place] else "Src"} Rank": {int(record.peer[place])}'
        if facts.sequence:
            sequence, ranks = int(record.sequence[place]), record.family.ranks[group]
            hashed = comms_id(record.family.names[group], sequence, record.sends is not None, int(ranks[0]), len(ranks))
            text += f', "Seq": {sequence}, "Comms Id": {hashed}'
        return text


def _kinds(record: Collective) -> Sequence[str]:
    if record.sends is None:
        return [record.kind] * len(record.ranks)
    return ["send" if sends else "recv" for sends in record.sends.tolist()]


def _event(category: str, name: str, where: str, span: str, args: str) -> str:
    return f'{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": {where}, {span}, "args": {{{args}}}}}'


def _within(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """A span inside another."""
    inset = (end - start) // 8
    return start + inset, end - inset


def _exact(ns: int) -> str:
    """Microseconds with three decimals."""
    return f"{ns // 1000}.{ns % 1000:03d}"


def _whole(us: int) -> str:
    return str(us)
