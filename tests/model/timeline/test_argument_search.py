"""Searches in arguments give the same events as a look at every argument of every event."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kinetoscope.model.timeline.argument_search import rows_with_argument
from kinetoscope.model.timeline.search import near, same_name_hits
from kinetoscope.model.trace.trace import Trace
from kinetoscope.reading import read
from tests.conftest import OURS
from tests.drawn import job, kernel, op


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    first: dict[str, Any] = {"External id": 12, "Input Dims": [[8, 64], [64, 1]], "Concrete Inputs": ["", "True"]}
    second: dict[str, Any] = {"External id": 112, "dtype": "bfloat16", "share": 0.5}
    events = [
        op("a", 0, 10, **first),
        op("b", 20, 10, **second),
        kernel("k", 40, 10, 1, grid=[4096, 1, 1], note='say "x"', stream=12),
        op("c", 60, 10, nothing=None, Größe="Ä"),
    ]
    return job(tmp_path, *events).trace()


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("External ID", [0, 1]),  # a key, in any case
        ("External id=12", [0]),  # a number equals, and does not merely begin so
        ("12", [0, 2]),
        ("stream=12", [2]),
        ("dims=8,64", [0]),
        ("[[8,  64],[64, 1]]", [0]),
        ("grid=4096, 1", [2]),
        ("grid=", [2]),
        ("FLOAT16", [1]),
        ("share=0.5", [1]),
        ("share=5e-1", [1]),
        ('"x"', [2]),
        ("größe", [3]),
        ("nothing", [3]),
        ("nowhere", []),
        ("grid=float", []),
        (".*", []),
    ],
)
def test_a_search(trace: Trace, text: str, rows: list[int]) -> None:
    assert rows_with_argument(trace, text).tolist() == rows


def _fits(arguments: dict[str, Any], text: str) -> bool:
    """The slow and plain twin, for a text without `=`."""

    def plain(value: Any) -> str:
        return re.sub(r"\s*([\[\]{}:,])\s*", r"\1", value if isinstance(value, str) else json.dumps(value)).lower()

    def equals(value: Any) -> bool:
        numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
        return numeric and re.fullmatch(r"-?[0-9.]+", text) is not None and float(text) == value

    return any(
        text in key.lower() or (isinstance(value, (str, list, dict)) and text in plain(value)) or equals(value)
        for key, value in arguments.items()
    )


@pytest.mark.parametrize("text", ["1", "256", "float", "[32,256]", "correlation", "ev idx", "true", "0", "-1", ","])
def test_it_finds_what_a_look_at_every_argument_does(text: str) -> None:
    trace = read(OURS / "mlp.pt.trace.json.gz").trace()
    expected = [row for row, event in enumerate(trace.events()) if _fits(event.get("args") or {}, text)]
    assert rows_with_argument(trace, text).tolist() == expected


def test_a_search_ends_when_it_is_told_to(trace: Trace) -> None:
    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        rows_with_argument(trace, "12", stop)


def test_events_of_one_name(tmp_path: Path) -> None:
    trace = job(tmp_path, op("a", 0, 10), op("aa", 20, 90), op("a", 40, 30), op("a", 80, 30)).trace()
    every = same_name_hits(trace, 2)
    assert every.rows.tolist() == [0, 2, 3]
    assert near(trace, every, 3, "next") == 0
