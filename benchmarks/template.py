"""A trace taken apart: what stands in it once, and one copy of what repeats, as bytes with slots.

Making it costs some seconds and some ten times the source in memory; writing copies from it costs next to nothing.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.layout import Piece, Style, decimals_of, event_pieces, frame, microseconds
from benchmarks.marking import Number, Slot, Spaces, marked, nanoseconds
from benchmarks.variety import Families, Pool


@dataclass(frozen=True, slots=True)
class Slots:
    """The copied part: literal bytes, and after `end[i]` of them the slot i. The other arrays are int64 [slots]."""

    literals: NDArray[np.uint8]
    end: NDArray[np.int64]
    form: NDArray[np.int64]
    space: NDArray[np.int64]
    value: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Template:
    """Everything from which a trace of any number of copies is written.

    Attributes:
        head: text before the first event that is copied.
        body: one copy; each of its events has a comma and a line break before it.
        first: whether the first copied event is the first event of all, and so has no comma.
        last: events that stand once, at the end; some of them reach over all copies.
        tail: text after the last event.
        strides: how far each number space moves from copy to copy.
        window: how far times move, ns; a whole number of microseconds.
        pools: texts for the slots of the form TEXT.
        events: how many events are in `head`, in one copy and in `last`.
    """

    head: bytes
    body: Slots
    first: bool
    last: tuple[Any, ...]
    tail: bytes
    strides: tuple[int, ...]
    window: int
    pools: tuple[Pool, ...]
    events: tuple[int, int, int]
    style: Style


def read(source: Path) -> Any:
    """The JSON of a trace, gzipped or not, numbers that are not integers as they are spelled.

    Raises:
        ValueError: it is not JSON, or not a trace.
    """
    raw = source.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    document = json.loads(
        raw.decode("utf-8", "surrogateescape"), strict=False, parse_float=Number, parse_constant=Number
    )
    if not isinstance(document, list) and not isinstance(document.get("traceEvents"), list):
        raise ValueError(f"{source} is not a trace: it has no list of traceEvents")
    return document


def template(
    document: Any, *, style: Style = "torch", strings: int = 0, shapes: int = 0, extra: Mapping[str, Any] | None = None
) -> Template:
    """Takes apart what `read` returned.

    Args:
        document: the trace.
        style: how the text is laid out.
        strings: how many distinct names, and call stacks where the trace has them, replace those of the trace; 0 none.
        shapes: how many distinct sets of arguments the events that have arguments get in addition; 0 none.
        extra: top-level keys to set, such as `distributedInfo`.

    Raises:
        ValueError: a time has more than three decimals.
    """
    events = document if isinstance(document, list) else document["traceEvents"]
    once, copied, last = _sorted_out(events)
    spaces, families = Spaces(), Families(strings, shapes)
    marks = (families.varied(marked(event, spaces, decimals_of(style))) for event in copied)
    body = _assembled(event_pieces(event, style) for event in marks)
    before, after = frame(None if isinstance(document, list) else _with(document, extra or {}), style)
    head = before + ",\n".join(_plain(event, style) for event in once)
    return Template(
        head=_encoded(head),
        body=body,
        first=not once,
        last=tuple(last),
        tail=_encoded(after),
        strides=tuple(spaces.strides()),
        window=spaces.stride("time"),
        pools=families.pools(style),
        events=(len(once), len(copied), len(last)),
        style=style,
    )


def last_event(event: Any, delay: int, style: Style) -> bytes:
    """The text of one of `Template.last` in a trace that is longer by `delay` ns."""
    if _is_whole(event) and ("dur" in event or event.get("name") == "Record Window End"):
        key = "dur" if "dur" in event else "ts"
        total, kind = nanoseconds(event[key]) + delay, type(event[key])
        event = {**event, key: total // 1000 if kind is int else kind(microseconds(total))}
    return _encoded(_plain(event, style))


def _sorted_out(events: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """Events that stand once before those that are copied, those that are copied, and those that stand once behind."""
    once: list[Any] = []
    copied: list[Any] = []
    last: list[Any] = []
    for event in events:
        if _is_whole(event):
            last.append(event)
        elif not isinstance(event, dict) or event.get("ph") == "M":
            (last if copied else once).append(event)
        else:
            copied.append(event)
    return once, copied, last


def _is_whole(event: Any) -> bool:
    """Whether it is the span of the whole recording, or the instant at its begin or its end."""
    if not isinstance(event, dict) or "ts" not in event:
        return False
    return event.get("cat") == "Trace" or (event.get("ph") == "i" and event.get("s") == "g")


def _with(document: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """The document with `extra`, before the events: readers of the first lines only look there."""
    added = {key: value for key, value in extra.items() if key not in document}
    return {**added, **{key: extra.get(key, value) for key, value in document.items()}}


def _plain(event: Any, style: Style) -> str:
    """The text of an event without slots."""
    return "".join(piece for piece in event_pieces(event, style) if isinstance(piece, str))


def _encoded(content: str) -> bytes:
    return content.encode("utf-8", "surrogateescape")


def _assembled(events: Iterable[Iterator[Piece]]) -> Slots:
    literals, pending = bytearray(), list[str]()
    slots: list[tuple[int, int, int, int]] = []
    for pieces in events:
        pending.append(",\n")
        for piece in pieces:
            if isinstance(piece, Slot):
                literals += _encoded("".join(pending))
                pending.clear()
                slots.append((len(literals), piece.form, piece.space, piece.value))
            else:
                pending.append(piece)
    literals += _encoded("".join(pending))
    end, form, space, value = _columns(slots)
    return Slots(np.frombuffer(bytes(literals), np.uint8), end, form, space, value)


def _columns(slots: Sequence[tuple[int, int, int, int]]) -> NDArray[np.int64]:
    table = np.array(slots, np.int64).reshape(-1, 4)
    return np.ascontiguousarray(table.T)
