"""Calls, groups and host of a rank, by its dumps of the Flight Recorder."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any, Final, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Int32s, Int64s, rows_of
from kinetoscope.algorithms.grouping import group, reduce_by
from kinetoscope.model.execution.frames import SEPARATOR, frame_text, is_users_file
from kinetoscope.model.flight_recorder.dump import COMPLETED, NONE, STATES, FlightDump
from kinetoscope.model.flight_recorder.of_trace import by_age, done_of
from kinetoscope.model.hangs.records import CALLS, GROUPS, HOSTS

LAST_CALLS: Final = 50
"""Calls of a group that are kept, besides all that are not done."""

MAX_SEQ: Final = (1 << 63) - 1

DEFAULT_GROUP: Final = "default_pg"
"""Description of the group of all ranks."""

T = TypeVar("T")

_PEER: Final = re.compile(r"(?:send|recv|recv_any) \d+(?:->|<-)(\d+|\?)")


def records_of_dumps(rank: int, dumps: Sequence[FlightDump]) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Rows of `CALLS`, `GROUPS` and `HOSTS` of a rank, by its dumps: of several backends, or one after another."""
    in_order = by_age(dumps)
    calls = pl.concat([_calls(rank, dump) for dump in in_order])
    if len(dumps) > 1:  # an entry may be in several dumps: what the latest says of it counts
        calls = calls.unique(["group", "is_p2p", "seq", "created"], keep="last", maintain_order=True)
        calls = calls.sort("created", maintain_order=True).with_columns(order=pl.int_range(pl.len(), dtype=pl.Int64))
    return calls, _groups(rank, in_order), _host(rank, in_order)


def _calls(rank: int, dump: FlightDump) -> pl.DataFrame:
    """The last calls of each group of a dump, and all that are not done.

    A few hundred rows of lists: a Polars expression for each column and rank takes longer.
    """
    every, strings = dump.entries, dump.strings
    is_done = done_of(dump)
    codes, _ = group(every.group, every.is_p2p.view(np.int8))
    rows = np.flatnonzero((_places_from_end(codes) < LAST_CALLS) | ~is_done)
    entries = rows_of(every, rows)
    columns = {
        "rank": [rank] * len(rows),
        "group": _texts(entries.group, lambda place: dump.groups[place].key),
        "seq": _known(np.where(entries.is_p2p & (entries.p2p_seq >= 0), entries.p2p_seq, entries.seq)),
        "order": rows,
        "is_p2p": entries.is_p2p,
        "peer": _texts(entries.name, lambda code: _peer(strings.label(code))),
        "name": _texts(entries.name, lambda code: strings.label(code).partition(" ")[0]),
        "input_sizes": _texts(entries.input_sizes, strings.label),
        "output_sizes": _texts(entries.output_sizes, strings.label),
        "input_elements": entries.input_elements,
        "output_elements": entries.output_elements,
        "types": _texts(
            np.where(entries.input_types == NONE, entries.output_types, entries.input_types), strings.label
        ),
        "state": _texts(np.where(is_done[rows], np.int8(COMPLETED), entries.state), STATES.__getitem__),
        "created": _known(entries.created),
        "started": _known(entries.started),
        "completed": _known(entries.completed),
        "timeout": _known(entries.timeout),
        "line": _texts(entries.stack, lambda stack: user_line(dump.stacks[stack]) or None),
        "stack": _texts(entries.stack, lambda stack: stack_text(dump.stacks[stack]) or None),
    }
    return pl.DataFrame(columns, schema=CALLS.types)


def _places_from_end(codes: Int32s) -> Int64s:
    """How many rows of the same code follow each: int64 [rows]."""
    order = np.argsort(codes, kind="stable")[::-1]
    backwards = codes[order]
    first = np.flatnonzero(np.diff(backwards, prepend=-1))
    place = np.empty(len(codes), np.int64)
    place[order] = np.arange(len(codes)) - np.repeat(first, np.diff(first, append=len(codes)))
    return place


def _groups(rank: int, dumps: Sequence[FlightDump]) -> pl.DataFrame:
    """The groups of all dumps, each once, and how far the rank is in each."""
    rows: dict[str, dict[str, Any]] = {}
    for dump in dumps:
        entries, is_done, is_collective = dump.entries, done_of(dump), ~dump.entries.is_p2p
        every = reduce_by(np.where(is_collective, entries.group, NONE), len(dump.groups), entries.seq)
        done = reduce_by(np.where(is_collective & is_done, entries.group, NONE), len(dump.groups), entries.seq)
        for place, each in enumerate(dump.groups):
            row = rows.setdefault(each.key, {"rank": rank, "group": each.key, "desc": each.desc or None})
            row["backend"] = each.backend or None
            row["ranks"] = [*each.ranks] or row.get("ranks")
            if every.rows[place]:
                row["called"] = max(int(every.greatest[place]), row.get("called", NONE))
                row["first_seq"] = min(int(every.least[place]), row.get("first_seq", MAX_SEQ))
            if done.rows[place]:
                row["done"] = max(int(done.greatest[place]), row.get("done", NONE))
    return GROUPS.frame([{**dict.fromkeys(GROUPS.names), **row} for row in rows.values()])


def _host(rank: int, dumps: Sequence[FlightDump]) -> pl.DataFrame:
    written = max(dump.written for dump in dumps)
    row = {
        "rank": rank,
        "world": _world(dumps),
        "last_time": max(dump.last_time for dump in dumps),
        "written": written if written != NONE else None,
        "source": "flight recorder",
        "damage": "; ".join(filter(None, (dump.damage for dump in dumps))) or None,
    }
    return HOSTS.frame([{**dict.fromkeys(HOSTS.names), **row}])


def _world(dumps: Sequence[FlightDump]) -> int | None:
    groups = [each for dump in dumps for each in dump.groups]
    sizes = (len(each.ranks) for each in groups if each.desc == DEFAULT_GROUP or each.name == "0")
    return max(sizes, default=0) or None


def _peer(name: str) -> int | None:
    """The rank within the group at the other end of a send or receive; None for none."""
    match = _PEER.fullmatch(name)
    return int(match[1]) if match and match[1] != "?" else None


def _texts(codes: NDArray[np.integer[Any]], label: Callable[[int], T]) -> list[T | None]:
    """The label of each code, None for NONE; each label is made once."""
    values = codes.tolist()
    labels: dict[int, T | None] = {code: label(code) for code in set(values) if code != NONE}
    labels[NONE] = None
    return [*map(labels.__getitem__, values)]


def _known(column: Int64s) -> list[int | None]:
    return [value if value >= 0 else None for value in column.tolist()]


# --- stacks


def user_line(stack: Sequence[str]) -> str:
    """The line of the innermost frame that is the user's own, such as train.py:38; "" for none."""
    return next((line for frame in stack if (line := _parts(frame)[1])), "")


def stack_text(stack: Sequence[str]) -> str:
    """The frames as other stacks have them: outermost first, `file(line): function`."""
    return SEPARATOR.join(_parts(frame)[0] for frame in reversed(stack))


@lru_cache(1 << 16)
def _parts(frame: str) -> tuple[str, str]:
    """A frame as other stacks have it, and its line if it is the user's own. Stacks share most of their frames."""
    place, _, line = frame.rpartition(":")
    of_cpp = "(" in place or "::" in place  # only its names have blanks
    name, _, file = place.rpartition(" ") if of_cpp else place.partition(" ")
    path = file.replace("\\", "/")
    users = path.endswith(".py") and is_users_file(path)
    return frame_text(f"{file}({line}): {name}"), f"{PurePosixPath(path).name}:{line}" if users else ""
