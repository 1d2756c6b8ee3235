"""What the Flight Recorder's dumps of a rank say of its calls, groups and host."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Bools, Int64s
from kinetoscope.model.execution.frames import SEPARATOR, frame_text, is_users_file
from kinetoscope.model.flight_recorder.dump import COMPLETED, NONE, STATES, DumpedGroup, FlightDump
from kinetoscope.model.hangs.records import CALLS, GROUPS, HOSTS
from kinetoscope.model.trace import polars_columns

LAST_CALLS: Final = 50
"""Calls of a group that are kept, besides all that are not done."""

DEFAULT_GROUP: Final = "default_pg"
"""Description of the group of all ranks."""

_PEER: Final = re.compile(r"(send|recv|recv_any)(?:_any)? +(\d+|\?) ?(?:->|<-) ?(\d+|\?)")
_FRAME: Final = re.compile(r"(.*) (.*):(\d+)", re.DOTALL)


def done_of(dump: FlightDump) -> Bools:
    """Calls that are done: bool [entries].

    The watchdog of NCCL and its kin retires also what has timed out, and its states say what is done. gloo and others
    have no states: there what is retired is done, or has failed, which nothing tells apart.
    """
    entries = dump.entries
    has_states = np.array(["ccl" in each.backend for each in dump.groups], np.bool_)
    by_state = has_states[entries.group] if len(dump.groups) else np.zeros(len(entries), np.bool_)
    done: Bools = (entries.state == COMPLETED) | (entries.retired & ~by_state)
    return done


def records_of_dumps(rank: int, dumps: Sequence[FlightDump]) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Rows of `CALLS`, `GROUPS` and `HOSTS` of a rank, by its dumps: of several backends, or one after another."""
    frames = [_calls(rank, dump) for dump in dumps]
    calls = frames[0]
    if len(dumps) > 1:  # an entry may be in several dumps: what the latest says of it counts
        latest = sorted(range(len(dumps)), key=lambda place: dumps[place].last_time)
        every = pl.concat([frames[place] for place in latest])
        calls = every.unique(["group", "is_p2p", "record", "created"], keep="last", maintain_order=True)
        calls = calls.sort("created", maintain_order=True)
    calls = calls.with_columns(order=pl.int_range(pl.len(), dtype=pl.Int64))
    groups = _groups(rank, dumps, calls)
    return CALLS.conform(_last(calls).drop("record")), groups, _host(rank, dumps)


def _last(calls: pl.DataFrame) -> pl.DataFrame:
    """The last calls of each group and all that are not done."""
    from_end = pl.int_range(pl.len()).reverse().over("group", "is_p2p")
    return calls.filter((from_end < LAST_CALLS) | (pl.col("state") != STATES[COMPLETED]))


def _calls(rank: int, dump: FlightDump) -> pl.DataFrame:
    """All entries of a dump as calls, with their `record`."""
    entries, strings = dump.entries, dump.strings
    is_done = done_of(dump)
    texts = {
        "input_sizes": entries.input_sizes,
        "output_sizes": entries.output_sizes,
        "types": np.where(entries.input_types == NONE, entries.output_types, entries.input_types),
    }
    numbers = {"started": entries.started, "completed": entries.completed, "timeout": entries.timeout}
    lines = [user_line(stack) for stack in dump.stacks]
    stacks = [stack_text(stack) for stack in dump.stacks]
    stack = np.where(entries.stack < 0, len(stacks), entries.stack)
    seq = np.where(entries.is_p2p, entries.p2p_seq, entries.seq)
    return pl.DataFrame(
        {
            "rank": np.full(len(entries), rank, np.int64),
            "group": _text(entries.group, lambda place: dump.groups[place].key),
            "seq": polars_columns.rows(np.where(seq < 0, entries.seq, seq)),
            "is_p2p": entries.is_p2p,
            "peer": polars_columns.rows(_peers(dump)),
            "name": _text(entries.name, lambda code: strings.label(code).partition(" ")[0]),
            **{key: _text(codes, strings.label) for key, codes in texts.items()},
            "input_elements": entries.input_elements,
            "output_elements": entries.output_elements,
            "state": _text(np.where(is_done, COMPLETED, entries.state), STATES.__getitem__),
            "created": entries.created,
            **{key: polars_columns.rows(column) for key, column in numbers.items()},
            "line": pl.Series([*lines, None], dtype=pl.String).gather(stack),
            "stack": pl.Series([*stacks, None], dtype=pl.String).gather(stack),
            "record": entries.record,
        }
    )


def _groups(rank: int, dumps: Sequence[FlightDump], calls: pl.DataFrame) -> pl.DataFrame:
    """The groups of all dumps, each once, and how far the rank is in each."""
    known: dict[str, DumpedGroup] = {}
    for group in (each for dump in dumps for each in dump.groups):
        if group.key not in known or not known[group.key].ranks:
            known[group.key] = group
    seq = pl.col("seq").filter(~pl.col("is_p2p"))
    is_done = pl.col("state").filter(~pl.col("is_p2p")) == STATES[COMPLETED]
    reached = calls.group_by("group").agg(called=seq.max(), done=seq.filter(is_done).max(), first_seq=seq.min())
    groups = pl.DataFrame(
        {
            "rank": [rank] * len(known),
            "group": [*known],
            "desc": [each.desc or None for each in known.values()],
            "backend": [each.backend or None for each in known.values()],
            "ranks": [each.ranks or None for each in known.values()],
        },
        schema={name: GROUPS.types[name] for name in ("rank", "group", "desc", "backend", "ranks")},
    )
    return GROUPS.conform(groups.join(reached, on="group", how="left", maintain_order="left"))


def _host(rank: int, dumps: Sequence[FlightDump]) -> pl.DataFrame:
    groups = [each for dump in dumps for each in dump.groups]
    world = max((len(each.ranks) for each in groups if each.desc == DEFAULT_GROUP or each.name == "0"), default=0)
    written = max(dump.written for dump in dumps)
    row = {
        "rank": rank,
        "world": world or None,
        "last_time": max(dump.last_time for dump in dumps),
        "written": written if written != NONE else None,
        "source": "flight recorder",
    }
    return HOSTS.frame([{**dict.fromkeys(HOSTS.names), **row}])


def _peers(dump: FlightDump) -> Int64s:
    """The rank within the group at the other end of each send and receive; NONE for none."""
    codes, places = np.unique(dump.entries.name, return_inverse=True)
    matches = [_PEER.fullmatch(dump.strings.label(code)) for code in codes.tolist()]
    peers = [int(match[3]) if match and match[3] != "?" else NONE for match in matches]
    return np.array(peers, np.int64)[places] if peers else np.zeros(0, np.int64)


def _text(codes: NDArray[Any], label: Callable[[int], str]) -> pl.Series:
    return polars_columns.labelled(codes, label).cast(pl.String)


# --- stacks


def user_line(stack: Sequence[str]) -> str | None:
    """The line of the innermost frame that is the user's own, such as train.py:38; frames as a dump has them."""
    for frame in stack:
        match = _FRAME.fullmatch(frame)
        file = match[2].replace("\\", "/") if match else ""
        if match and file.endswith(".py") and is_users_file(file):
            return f"{PurePosixPath(file).name}:{match[3]}"
    return None


def stack_text(stack: Sequence[str]) -> str:
    """The frames as other stacks have them: outermost first, `file(line): function`."""
    matches = [_FRAME.fullmatch(frame) for frame in reversed(stack)]
    return SEPARATOR.join(frame_text(f"{match[2]}({match[3]}): {match[1]}") for match in matches if match)
