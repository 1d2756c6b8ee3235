"""What differs between two copies of a recording in one trace: its times, its ids, the numbers of its steps.

An event goes in as parsed JSON and comes out with marks where each copy gets a text of its own. All else stays:
threads, streams, addresses and sizes are the same in each copy, as they are in a job that repeats its step.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from typing import Any

# Ids that mean the same thing, whatever key they stand under, move together: that is what keeps the links.
SPACE_OF_KEY = {
    "correlation": "correlation",
    "wait_on_cuda_event_record_corr_id": "correlation",
    "External id": "external",
    "external id": "external",
    "Record function id": "record function",
    "rf_id": "record function",
    "Ev Idx": "event index",
    "Profiler Event Index": "event index",
    "Python id": "python",
    "Python parent id": "python",
    "Sequence number": "sequence",
    "Seq": "collective sequence",
    "seq_num": "command sequence",
    "wait_on_cuda_event_id": "cuda event",
    "cuda_event_id": "cuda event",
    "connection_id": "connection",
    "correlation_id": "connection",
    "Task Id": "task",
}
# Flows of these categories go from a launch to its kernel, and their id is the correlation id of both.
LAUNCH_FLOWS = frozenset({"ac2g", "async_cpu_to_gpu", "async"})
# Where 0 says that there is none. A number below 0 says so everywhere.
ZERO_IS_NONE = frozenset({"correlation", "external", "record function"})
# Times that stand among the arguments.
TIME_ARGUMENTS = frozenset({"external ts"})

_STEP_NAME = re.compile(r"(ProfilerStep\s*#)(\d+)")
_TIME = re.compile(r"(-?)(\d+)(?:\.(\d{1,3}))?")


class Number(str):
    """A number that is not an integer, as it was spelled: a time must not pass through binary floating point."""

    __slots__ = ()


class Form(IntEnum):
    """How a slot is written."""

    INTEGER = 0
    MICROSECONDS = 1  # of a value in ns: a whole number
    THREE_DECIMALS = 2  # of a value in ns: microseconds as the C++ exporter writes them
    SHORT_DECIMALS = 3  # of a value in ns: microseconds without zeros at the end, as json.dump writes them
    TEXT = 4  # an entry of a pool


@dataclass(frozen=True, slots=True)
class Slot:
    """A place where each copy has a text of its own.

    `value` moves by one stride of the number space `space` from copy to copy. For the form TEXT, `space` says which
    pool and `value` is the position among the slots of that pool.
    """

    form: Form
    space: int
    value: int


@dataclass(frozen=True, slots=True)
class Quoted:
    """A JSON string that ends in a slot; `before` is escaped already."""

    before: str
    slot: Slot


class Spaces:
    """The number spaces that a trace uses, each with the range that one copy takes."""

    def __init__(self) -> None:
        self._ranges: dict[str, tuple[int, int]] = {}
        self._index: dict[str, int] = {}

    def slot(self, space: str, value: int, form: Form = Form.INTEGER, end: int | None = None) -> Slot:
        """The slot of `value`, which counts for the range of its space, as does `end` if it is given."""
        low, high = self._ranges.get(space, (value, value))
        self._ranges[space] = (min(low, value), max(high, value if end is None else end))
        return Slot(form, self._index.setdefault(space, len(self._index)), value)

    def strides(self) -> list[int]:
        """How far each space moves from copy to copy: just so far that no two copies share a number.

        Times move by whole microseconds, so that integer times stay integers.
        """
        found = {name: high - low + 1 for name, (low, high) in self._ranges.items()}
        if "time" in found:
            found["time"] = -(-found["time"] // 1000) * 1000
        return [found[name] for name in self._index]

    def range(self, space: str) -> tuple[int, int]:
        """Lowest and highest number in `space`, (0, 0) where there is none."""
        return self._ranges.get(space, (0, 0))

    def stride(self, space: str) -> int:
        """How far `space` moves from copy to copy, 0 where it has no number."""
        return self.strides()[self._index[space]] if space in self._index else 0


def nanoseconds(value: object) -> int:
    """A time in microseconds, as JSON gave it, in ns.

    Raises:
        ValueError: it is not a plain number of at most three decimals.
    """
    match = _TIME.fullmatch(str(value)) if isinstance(value, int | str) else None
    if match is None:
        raise ValueError(f"cannot shift the time {value!r}: not a number of microseconds with at most three decimals")
    sign, whole, fraction = match.groups()
    amount = int(whole) * 1000 + int((fraction or "0").ljust(3, "0"))
    return -amount if sign else amount


def marked(event: Mapping[str, Any], spaces: Spaces, decimals: Form) -> dict[str, Any]:
    """`event` with slots for all that is new in each copy; times with a fraction are written in the form `decimals`.

    Raises:
        ValueError: a time that cannot be shifted exactly.
    """
    out = dict(event)
    if "ts" in event:
        out["ts"] = _time(event["ts"], spaces, decimals, _length(event.get("dur")))
    if "id" in event:
        category = str(event.get("cat", ""))
        out["id"] = _id(event["id"], "correlation" if category in LAUNCH_FLOWS else f"flow {category}", spaces)
    step = _STEP_NAME.fullmatch(event["name"]) if type(event.get("name")) is str else None
    if step is not None:
        out["name"] = Quoted(step[1], spaces.slot("step", int(step[2])))
    if isinstance(event.get("args"), dict):
        out["args"] = {key: _argument(key, value, spaces, decimals) for key, value in event["args"].items()}
    return out


def _argument(key: str, value: Any, spaces: Spaces, decimals: Form) -> Any:
    if key in SPACE_OF_KEY:
        return _id(value, SPACE_OF_KEY[key], spaces)
    return _time(value, spaces, decimals, 0) if key in TIME_ARGUMENTS else value


def _length(value: Any) -> int:
    """A duration, which stays as it is and may be anything, in ns and rounded up; 0 for what is none."""
    try:
        return max(math.ceil(Decimal(value) * 1000), 0)
    except (ArithmeticError, TypeError, ValueError):
        return 0


def _time(value: Any, spaces: Spaces, decimals: Form, length: int) -> Slot | Quoted:
    start = nanoseconds(value)
    form = decimals if "." in str(value) else Form.MICROSECONDS
    slot = spaces.slot("time", start, form, end=start + length)
    return Quoted("", slot) if type(value) is str else slot


def _id(value: Any, space: str, spaces: Spaces) -> Any:
    if type(value) is str:
        if value.isascii() and value.isdigit():
            return Quoted("", spaces.slot(space, int(value)))
        return Quoted(f"{json.dumps(value)[1:-1]}.", spaces.slot(f"copies of text in {space}", 0))
    if type(value) is not int or value < 0 or (value == 0 and space in ZERO_IS_NONE):
        return value
    return spaces.slot(space, value)
