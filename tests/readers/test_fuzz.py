"""Damage at random to a real trace: nothing crashes or hangs, what is far from it is kept, one thread equals two."""

import gzip
import random
import re
from collections import Counter
from collections.abc import Callable

import pytest

from kinetoscope.errors import InputError
from kinetoscope.model.trace.trace import Trace
from kinetoscope.readers.json.columns import SIZES
from tests.conftest import OURS
from tests.readers.texts import TINY, read_text

SPICE = [
    '"',
    "\\",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\n",
    "\0",
    '{"ph"',
    '"ph": "X"',
    "}]}",
    "],",
    '"traceEvents": [',
    " " * 40,
    "1e999",
]


def _text() -> bytes:
    """The beginning and the end of a recorded trace, 120 events."""
    text = gzip.decompress((OURS / "mlp_default.pt.trace.json.gz").read_bytes())
    starts = [found.start() for found in re.finditer(rb'\{\s*"ph"', text)]
    return text[: starts[80]] + text[starts[-40] :]


TEXT = _text()
EVENTS = range(TEXT.index(b"[\n    \n") + 1, TEXT.rindex(b"]"))
WHOLE = Counter(map(repr, read_text(TEXT).events()))


def _flip(rng: random.Random, text: bytearray) -> None:
    text[rng.randrange(EVENTS.start, EVENTS.stop)] = rng.randrange(256)


def _insert(rng: random.Random, text: bytearray) -> None:
    at = rng.randrange(EVENTS.start, EVENTS.stop)
    text[at:at] = bytes([rng.randrange(256)])


def _delete(rng: random.Random, text: bytearray) -> None:
    at = rng.randrange(EVENTS.start, EVENTS.stop)
    del text[at : min(at + rng.choice([1, 2, 10, 100]), EVENTS.stop)]


def _double(rng: random.Random, text: bytearray) -> None:
    at = rng.randrange(EVENTS.start, EVENTS.stop)
    text[at:at] = text[at : at + rng.choice([1, 10, 300])]


def _season(rng: random.Random, text: bytearray) -> None:
    for _ in range(rng.randrange(1, 20)):
        at = rng.randrange(len(text))
        text[at : at + rng.randrange(2)] = rng.choice(SPICE).encode()


def _damaged(rng: random.Random, how: Callable[[random.Random, bytearray], None]) -> Trace | None:
    text = bytearray(TEXT)
    how(rng, text)
    block, sizes = rng.choice([100, 1000, 5000, 1 << 22]), rng.choice([SIZES, TINY])
    try:
        trace = read_text(bytes(text), block=block, threads=rng.randrange(1, 4), sizes=sizes)
    except InputError:
        return None
    assert list(map(repr, trace.events())) == list(map(repr, read_text(bytes(text)).events()))
    return trace


@pytest.mark.slow
@pytest.mark.parametrize(("how", "most"), [(_flip, 2), (_insert, 2), (_delete, 3), (_double, 3)])
def test_one_damage_costs_its_neighbours_at_most(how: Callable[[random.Random, bytearray], None], most: int) -> None:
    rng = random.Random(how.__name__)
    for _ in range(60):
        trace = _damaged(rng, how)
        assert trace is not None
        lost = (WHOLE - Counter(map(repr, trace.events()))).total()
        assert lost <= most
        assert lost <= 1 or trace.reading or how is _delete  # which can make one valid event of two


def test_any_damage_is_survived() -> None:
    rng = random.Random(2)
    kept = 0
    for _ in range(60):
        trace = _damaged(rng, _season)
        kept += trace is not None and len(trace) > 60
    assert kept > 45
