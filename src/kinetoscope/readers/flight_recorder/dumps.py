"""A dump of the Flight Recorder from a pickle or from JSON: blocks of the file in, columns out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Int32s, Int64s
from kinetoscope.algorithms.grouping import group
from kinetoscope.errors import BrokenTraceError, NotATraceError
from kinetoscope.model.flight_recorder.dump import NONE, DumpedGroup, DumpEntries, FlightDump
from kinetoscope.model.flight_recorder.of_trace import DAMAGED
from kinetoscope.model.trace.text import number_of
from kinetoscope.notes import Note
from kinetoscope.readers.flight_recorder.distinct import DerivedTexts, distinct_texts, distinct_values, elements_of
from kinetoscope.readers.flight_recorder.entries import EntryChunks
from kinetoscope.readers.flight_recorder.salvage import close_dump
from kinetoscope.readers.pickled import machine as m
from kinetoscope.readers.pickled.objects import Objects
from kinetoscope.readers.pickled.running import Words, run_until_damage
from kinetoscope.readers.pickled.tables import MachineTables
from kinetoscope.readers.pickled.texts import strings_of
from kinetoscope.readers.reader import MAX_RANK

_WORDS: Final = Words("a Flight Recorder dump", "write another one, as by torch._C._distributed_c10d._dump_fr_trace()")
_COST: Final = 2.0
"""Bytes of memory that a byte of a dump may cost: an entry in NCCL's form has 180 bytes, and its columns 140."""
_MAX_GROUPS: Final = 1 << 16
_RANKS: Final = re.compile(r"\[[\d, ]*\]")
_SHARED_TEXT: Final = 1 << 16
"""Bytes of a list of members up to which it is kept for the other ranks."""
_READ: Final = ("version", "entries", "pg_config", "pg_status", "comm_lib_version", "nccl_version")
"""Keys of the top that are read; the others are texts of `more`."""
_P2P: Final = ("send", "recv")
_STATUS: Final = ("last_enqueued_collective", "last_started_collective", "last_completed_collective")


@lru_cache(1 << 9)
def _members(text: str) -> tuple[int, ...]:
    """The ranks that a text lists: all members of a group write the same."""
    if not _RANKS.fullmatch(text):
        return ()
    ranks = [int(number) for number in re.findall(r"\d+", text) if len(number) < len(str(MAX_RANK)) + 1]
    return tuple(rank for rank in ranks if rank < MAX_RANK)


def load(url: str, blocks: Iterable[bytes]) -> FlightDump:
    """The dump in a pickle or in JSON, given as blocks of its decompressed bytes.

    Raises:
        NotATraceError: it is a pickle of something else, or calls something.
        BrokenTraceError: it is cut, or damaged, before an entry of it is whole; else what stands before that is read.
    """
    chunks = EntryChunks()
    tables = MachineTables(entries=chunks)
    room, damage = run_until_damage(url, blocks, tables, _WORDS, _COST)
    if damage is not None and not close_dump(tables):
        raise damage
    tables.keep_results()
    return _DumpAssembly(url, tables, chunks, room, str(damage or "").removeprefix(f"{url}: ")).dump()


class _DumpAssembly:
    """A dump of what the machine left."""

    def __init__(self, url: str, tables: MachineTables, chunks: EntryChunks, room: int, damage: str) -> None:
        self._url = url
        self._damage = damage.partition(";")[0]
        self._tables = tables
        self._chunks = chunks
        arena = tables.arrays["arena"][: tables.at[m.ARENA]]
        strings = strings_of(arena, tables.rows("offsets", m.STRINGS), room)
        if strings is None:
            raise BrokenTraceError(f"{url}: more text than any dump holds; {_WORDS.copy}")
        self._strings = strings
        self._objects = Objects(tables, strings, _MAX_GROUPS)
        self._ends = tables.rows("ends", m.SEQUENCES)
        self._top = self._objects.of(int(tables.arrays["kinds"][0]), int(tables.arrays["values"][0]))
        if not {"entries", "pg_config"} & self._top.keys():
            keys = ", ".join(list(self._top)[:5]) or "none"
            raise NotATraceError(f"{url}: a pickle that is no Flight Recorder dump (its keys: {keys}); {_WORDS.anew}")

    def dump(self) -> FlightDump:
        """All of it."""
        columns, left_out = self._columns()
        labels, of_name = distinct_texts(columns["name"], self._strings.label)
        backends, names = [label.rpartition(":")[0] for label in labels], [label.rpartition(":")[2] for label in labels]
        groups, of_entry = self._groups(columns, backends, of_name)
        by_name = np.array([name.startswith(_P2P) for name in names], np.bool_)[of_name]
        sizes = {key: self._sizes(columns[key]) for key in ("input_sizes", "output_sizes")}
        texts = DerivedTexts()
        codes = {
            "name": texts.numbers(names)[of_name],
            **{key: texts.numbers(each)[of] for key, (each, _, of) in sizes.items()},
            **{key: self._types(columns[key], texts) for key in ("input_types", "output_types")},
        }
        strings, final = texts.after(self._strings)
        stacks, of_stack = self._stacks(columns["stack"])
        taken = ("record", "seq", "p2p_seq", "op", "created", "started", "completed", "duration", "timeout", "state")
        entries = DumpEntries(
            **{key: columns[key] for key in (*taken, "thread")},
            **{key: final[each] for key, each in codes.items()},
            group=of_entry,
            is_p2p=np.where(columns["is_p2p"] == NONE, by_name, columns["is_p2p"] == 1),
            input_elements=sizes["input_sizes"][1],
            output_elements=sizes["output_sizes"][1],
            retired=columns["retired"] == 1,
            stack=of_stack,
        )
        return FlightDump(
            url=self._url,
            version=self._text("version"),
            groups=groups,
            entries=entries,
            stacks=stacks,
            strings=strings,
            library=self._text("comm_lib_version") or self._text("nccl_version"),
            damage=self._damage,
            more=self._more(),
            notes=tuple(self._notes(left_out)),
        )

    def _columns(self) -> tuple[dict[str, NDArray[Any]], int]:
        """The columns of the entries in the list of them, and how many are left out."""
        kind, value = self._top.get("entries", (m.NONE, 0))
        if kind not in (m.NEW_LIST, m.NONE, m.ENTRY_LIST):
            raise BrokenTraceError(f"{self._url}: 'entries' of the dump is no list of entries; {_WORDS.copy}")
        first, count = self._tables.rows("lists", m.LISTS)[value].tolist() if kind == m.ENTRY_LIST else (0, 0)
        columns = {name: column[first : first + count] for name, column in self._chunks.columns().items()}
        is_out = columns.pop("left_out") == 1
        if is_out.any():
            columns = {name: column[~is_out] for name, column in columns.items()}
        return columns, int(is_out.sum())

    # --- groups

    def _groups(
        self, columns: dict[str, NDArray[Any]], backends: Sequence[str], of_name: Int32s
    ) -> tuple[tuple[DumpedGroup, ...], Int32s]:
        """The groups, and the place of each entry's among them: first those of entries, as these have them."""
        distinct = [*dict.fromkeys(backends)]
        of_backend = np.array([*map(distinct.index, backends), NONE], np.int64)[of_name]
        codes, rows = group(of_backend, columns["process_group"], columns["pg"])
        config, status = self._config(), self._objects.of(*self._top.get("pg_status", (m.NONE, 0)))
        groups, places = list[DumpedGroup](), dict[tuple[str, str, str], int]()
        place = np.zeros(len(rows), np.int32)
        for code, row in enumerate(rows.tolist()):
            pg = int(columns["pg"][row])
            named = self._sequence(int(columns["process_group"][row])) or (str(pg), "")
            name, desc = named[0], named[1] if len(named) > 1 else ""
            key = (str(distinct[of_backend[row]]), name, desc)
            if key not in places:
                places[key] = len(groups)
                _, ranks = config.get(name, ("", ()))
                groups.append(DumpedGroup(name, desc, key[0], ranks, *self._status(status.get(str(pg)))))
            place[code] = places[key]
        known = {each.name for each in groups}
        groups += [
            DumpedGroup(name, desc, "", ranks, *self._status(status.get(name)))
            for name, (desc, ranks) in config.items()
            if name not in known and ranks
        ]
        return tuple(groups), place[codes]

    def _config(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Description and members of each group by its name; in torch 2.3 by its number, and only members."""
        config = {}
        for name, value in self._objects.of(*self._top.get("pg_config", (m.NONE, 0))).items():
            facts = self._objects.of(*value) or {"ranks": value}
            desc = self._objects.value(*facts.get("desc", (m.NONE, 0)))
            config[name] = (desc if isinstance(desc, str) else "", self._ranks(*facts.get("ranks", (m.NONE, 0))))
        return config

    def _ranks(self, kind: int, value: int) -> tuple[int, ...]:
        text = self._strings.label(value) if kind in (m.TEXT, m.NUMBERS) else ""
        return _members(text) if len(text) < _SHARED_TEXT else _members.__wrapped__(text)

    def _status(self, value: tuple[int, int] | None) -> tuple[int, int, int]:
        """The last that was enqueued, started and completed: numbers, in JSON as texts."""
        facts = self._objects.of(*value) if value else {}
        values = [self._objects.value(*facts.get(key, (m.NONE, 0))) for key in _STATUS]
        numbers = [int(each) if re.fullmatch(r"-?\d{1,18}", str(each)) else NONE for each in values]
        return numbers[0], numbers[1], numbers[2]

    # --- sequences

    def _sequence(self, number: int) -> tuple[str, ...]:
        """The texts of a sequence of texts."""
        items = self._items(number)
        return tuple(self._strings.labels((~items[items < 0]).tolist()))

    def _items(self, number: int) -> Int32s:
        if not 0 <= number < len(self._ends):
            return np.zeros(0, np.int32)
        begin = int(self._ends[number - 1]) if number else 0
        items: Int32s = self._tables.arrays["items"][begin : int(self._ends[number])]
        return items

    def _sizes(self, column: Int32s) -> tuple[list[str], Int64s, Int32s]:
        """Distinct sizes as texts, the elements of each entry's, and the place of each entry's text."""

        def text(number: int) -> str:
            return ", ".join(["[]"] * (-number - 2) if number < NONE else self._sequence(number))

        texts, of = distinct_texts(column, text)
        elements = np.array([*map(elements_of, texts), 0], np.int64)
        return texts, elements[of], of

    def _types(self, column: Int32s, texts: DerivedTexts) -> Int32s:
        labels, of = distinct_texts(column, lambda number: ", ".join(dict.fromkeys(self._sequence(number))))
        return texts.numbers(labels)[of]

    def _stacks(self, column: Int32s) -> tuple[tuple[tuple[str, ...], ...], Int32s]:
        """Distinct stacks, and the place of each entry's."""
        numbers, of = distinct_values(column)
        stacks, label = [self._items(number).tolist() for number in numbers], self._strings.label
        needed = [*{row for stack in stacks for row in stack}]
        frames = self._tables.rows("frames", m.FRAMES_READ)[needed].tolist() if needed else []
        texts = [f"{label(name)} {label(file)}:{max(line, 0)}" for name, file, line in frames]
        text = dict(zip(needed, texts, strict=True))
        return tuple(tuple(text[row] for row in stack) for stack in stacks), of

    # --- the rest

    def _text(self, key: str) -> str:
        value = self._objects.value(*self._top.get(key, (m.NONE, 0)))
        return value if isinstance(value, str) else ""

    def _more(self) -> dict[str, str]:
        """The other facts of the top, such as the state of NCCL's communicators."""
        values = {key: self._objects.value(*value) for key, value in self._top.items() if key not in _READ}
        return {key: json.dumps(value, ensure_ascii=False) for key, value in values.items() if value}

    def _notes(self, left_out: int) -> Iterator[Note]:
        """Notes on what could not be read of the entries."""
        if self._damage:
            name = self._url.rpartition("/")[2]
            text = f"{name} is damaged: {self._damage}. The calls before that are read; those after it are unknown."
            yield Note(DAMAGED, text, "error")
        if left_out:
            which = number_of(left_out, "entry of the Flight Recorder has", "entries of the Flight Recorder have")
            yield Note(
                "ENTRIES_LEFT_OUT",
                f"{which} no name, group or number, and {'is' if left_out == 1 else 'are'} left out.",
                number=left_out,
            )
        if self._chunks.odd:
            which = number_of(self._chunks.odd, "value", "values")
            text = f"{which} of entries of the Flight Recorder cannot be, such as a time that is no number: unknown."
            yield Note("ODD_ENTRIES", text, number=self._chunks.odd)
        if self._chunks.unknown:
            keys = ", ".join(self._strings.labels(sorted(self._chunks.unknown)[:5]))
            yield Note("UNKNOWN_KEYS", f"Entries of the Flight Recorder have keys that are not read: {keys}.")
