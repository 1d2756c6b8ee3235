"""How fast could this machine read a trace? A tokenizer without everything that makes one usable.

    python benchmarks/sketch.py TRACE.json

One pass over the events: each key, string and number becomes a row of typed columns, strings interned by their hash.
It checks no bound, compares no string, keeps no text, decodes no escape, repairs nothing, and it needs `traceEvents` to
be a valid list in memory with numbers as torch spells them. So it is no reader; it is the ceiling that our reader's
rate is printed beside.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from kinetoscope.algorithms.compiled import compiled, inlined

Bytes = NDArray[np.uint8]
Int64s = NDArray[np.int64]

_TABLE = 1 << 22  # entries for interned strings; more distinct ones than that never end
_BYTES_A_TOKEN = 8  # fewer than any trace has


@inlined
def _blank(byte: int) -> bool:
    return byte == 32 or byte == 10 or byte == 13 or byte == 9


@inlined
def _string(text: Bytes, at: int) -> tuple[int, int]:
    """From behind the opening quote to the closing one: its place, and a hash (FNV-1a) of what is between."""
    mixed = -3750763034362895579
    while True:
        byte = text[at]  # loaded once: with text[at] in its place the whole takes 1.6 times as long
        if byte == 34:
            return at, mixed
        if byte == 92:
            at += 1
            byte = text[at]
        mixed = (mixed ^ byte) * 1099511628211
        at += 1


@inlined
def _nested(text: Bytes, at: int) -> tuple[int, int]:
    """From an opening bracket to behind the one that closes it, and a hash."""
    depth = 0
    mixed = -3750763034362895579
    while True:
        byte = text[at]
        if byte == 34:
            at, inner = _string(text, at + 1)
            mixed = (mixed ^ inner) * 1099511628211
        else:
            mixed = (mixed ^ byte) * 1099511628211
            depth += (byte == 91 or byte == 123) - (byte == 93 or byte == 125)
            if depth == 0:
                return at + 1, mixed
        at += 1


@inlined
def _interned(table: Int64s, mixed: int) -> int:
    """The place of a hash in the table, where it is put if it is new."""
    mask = table.size - 1
    place = (mixed ^ (mixed >> 29)) & mask
    while table[place] != 0 and table[place] != mixed:
        place = (place + 1) & mask
    table[place] = mixed
    return place


@inlined
def _scaled(text: Bytes, at: int) -> tuple[int, int]:
    """From a number to behind it, and its value times 1000; more than three decimals are dropped."""
    negative = text[at] == 45
    at += negative
    value = 0
    while 48 <= text[at] <= 57:
        value = value * 10 + text[at] - 48
        at += 1
    missing = 3
    if text[at] == 46:
        at += 1
        while 48 <= text[at] <= 57:
            if missing > 0:
                value = value * 10 + text[at] - 48
                missing -= 1
            at += 1
    for _ in range(missing):
        value *= 10
    return at, -value if negative else value


@inlined
def _value(text: Bytes, at: int, table: Int64s) -> tuple[int, int]:
    """From a value to behind it, and what stands for it."""
    byte = text[at]
    if byte == 34:
        at, mixed = _string(text, at + 1)
        return at + 1, _interned(table, mixed)
    if byte == 45 or 48 <= byte <= 57:
        return _scaled(text, at)
    if byte == 91 or byte == 123:
        at, mixed = _nested(text, at)
        return at, _interned(table, mixed)
    while text[at] != 44 and text[at] != 125 and not _blank(text[at]):
        at += 1
    return at, 0


@compiled
def tokenize(text: Bytes, at: int, table: Int64s, keys: Int64s, values: Int64s, first: Int64s) -> int:
    """Takes apart the events from `at` on, behind the `[`; returns their number.

    Of each token its interned key and its value (a number, or where a string is in the table); of each event where its
    tokens begin.
    """
    events, tokens, depth = 0, 0, 0
    while True:
        while _blank(text[at]) or text[at] == 44:
            at += 1
        byte = text[at]
        if byte == 34:
            at, mixed = _string(text, at + 1)
            keys[tokens] = _interned(table, mixed)
            at += 1
            while _blank(text[at]) or text[at] == 58:
                at += 1
            if text[at] == 123 and depth == 1:  # the arguments: their members are tokens as well
                depth = 2
                at += 1
            else:
                at, values[tokens] = _value(text, at, table)
            tokens += 1
        elif byte == 125:
            depth -= 1
            events += depth == 0
            at += 1
        elif byte == 123:
            first[events] = tokens
            depth = 1
            at += 1
        else:
            return events


class Sketch:
    """The tokenizer with room for one trace; each thread needs a Sketch of its own."""

    def __init__(self, text: bytes) -> None:
        self._text: Bytes = np.frombuffer(text, np.uint8)
        self._start = text.index(b"[", text.index(b'"traceEvents"')) + 1
        self.keys, self.values, self.first = np.empty((3, len(text) // _BYTES_A_TOKEN), np.int64)

    def run(self) -> int:
        """Reads the trace; returns how many events it has."""
        return tokenize(self._text, self._start, np.zeros(_TABLE, np.int64), self.keys, self.values, self.first)


def run_all(sketches: Sequence[Sketch]) -> None:
    """Reads with all of them at once, each in a thread of its own."""
    with ThreadPoolExecutor(len(sketches)) as pool:
        for done in [pool.submit(sketch.run) for sketch in sketches]:
            done.result()


def main(path: Path) -> None:
    text = path.read_bytes()
    for threads in (1, 2):
        sketches = [Sketch(text) for _ in range(threads)]
        run_all(sketches)  # compiles, and touches the columns
        seconds = []
        for _ in range(5):
            began = time.perf_counter()
            run_all(sketches)
            seconds.append(time.perf_counter() - began)
        print(f"{threads} thread{'s'[: threads - 1]}: {len(text) * threads / 1e6 / min(seconds):,.0f} MB/s")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
