"""Memory snapshots from seeds: small histories of the generator's, and all that may be done to them."""

from __future__ import annotations

import copy
import gzip
import json
import pickle
import random
from contextlib import suppress
from functools import cache
from typing import Any, Final

from tests.snapshots.allocator import OutOfMemory, Settings
from tests.snapshots.process import Process
from tests.snapshots.training import Model, Training
from tests.snapshots.writing import torch_pickle, written_by

Dice = random.Random

_NUMBERS: Final = (
    *(
        0,
        1,
        -1,
        511,
        512,
        513,
        1 << 20,
        1 << 21,
        (1 << 31) - 1,
        1 << 32,
        1 << 40,
        (1 << 50) - 1,
        1 << 50,
        (1 << 62) + 1,
    ),
    *((1 << 63) - 1, 1 << 63, (1 << 64) - 1, -(1 << 31), -(1 << 63), 1_700_000_000_000_000, 4_600_000_000_000_000),
)
_TEXTS: Final = (
    *(
        "",
        "N/A",
        "a\nb",
        "\x1b[31m",
        "=1+1",
        "ü\u202e",
        "\\",
        '"',
        "x" * 3000,
        "<b>",
        '{"step": 1}',
        '{"step": -5}',
        "{",
    ),
    *(
        '{"step": 99999999999999999999}',
        '{"step": "one"}',
        "alloc",
        "free_completed",
        "segment_free",
        "segment_map",
        "oom",
    ),
    *("annotate", "snapshot", "other", "inactive", "active_allocated", "active_pending_free", "START", "END"),
    *("expandable_segments:True", "max_split_size_mb:x", "roundup_power2_divisions:[256:1,>:4]", "forward", "step"),
)


@cache
def _bases() -> tuple[dict[str, Any], ...]:
    """Trainings that end with a request that cannot be served: with and without expandable segments, on two devices."""
    model = Model(layers=1, width=64, batch=1, tokens=32, vocabulary=100)
    answer = []
    for settings, total in ((Settings(), 1 << 33), (Settings(expandable_segments=True), 1 << 32)):
        process = Process(settings, total=total, other=0)
        process.record()
        training = Training(process, model, metadata=True)
        training.build()
        training.run(4)
        with suppress(OutOfMemory):
            process.alloc("empty", 1 << 34)
        answer.append(process.snapshot())
    two = copy.deepcopy(answer[0])
    two["device_traces"].append(copy.deepcopy(two["device_traces"][0]))
    two["segments"] += [segment | {"device": 1} for segment in copy.deepcopy(two["segments"])]
    return (*answer, two)


def snapshot_document(seed: int) -> tuple[str, bytes, tuple[str, ...]]:
    """Name and content of a file, and what was done to it."""
    dice = Dice(seed)
    whole = written_by(copy.deepcopy(dice.choice(_bases())), dice.choice([(2, 1), (2, 8), (2, 15), (2, 15)]))
    done = list[str]()
    for _ in range(dice.choice((0, 1, 1, 2, 4, 20))):
        change = dice.choice((_value, _value, _value, _less, _more, _other_order))
        change(dice, whole)
        done.append(change.__name__.lstrip("_"))
    form = dice.choice(("4", "5", "2", "c++", "json"))
    content = _spelled(whole, form)
    if dice.random() < 0.2:
        at = dice.randrange(len(content))
        content = content[:at] + bytes([dice.randrange(256)]) + content[at + dice.choice((0, 1, 5, 100)) :]
        done.append("bytes")
    name = "snapshot.json" if form == "json" else "snapshot.pickle"
    if dice.random() < 0.2:
        name, content = f"{name}.gz", gzip.compress(content, 1)
    return name, content, (form, *done)


def _spelled(whole: dict[str, Any], form: str) -> bytes:
    try:
        if form == "json":
            return json.dumps(whole).encode()
        return torch_pickle(whole) if form == "c++" else pickle.dumps(whole, int(form))
    except Exception:  # noqa: BLE001 - torch's form has no place for all that was put in
        return pickle.dumps(whole, 4)


def _place(dice: Dice, whole: dict[str, Any]) -> dict[str, Any] | None:
    """A dict somewhere inside."""
    segments, traces = whole["segments"], whole["device_traces"]
    events = dice.choice(traces) if traces else []
    segment = dice.choice(segments) if segments else {"blocks": []}
    lists = ([segment], segment.get("blocks") or [], events, events, whole.get("external_annotations") or [], [whole])
    chosen = dice.choice(lists)
    if chosen and dice.random() < 0.1 and chosen[0].get("frames"):
        chosen = chosen[0]["frames"]
    return dice.choice(chosen) if chosen else None


def _value(dice: Dice, whole: dict[str, Any]) -> None:
    """Another value of the same type, mostly."""
    place = _place(dice, whole)
    if not place:
        return
    key = dice.choice(list(place))
    if key in ("segments", "device_traces"):
        return
    known: Any = {int: _NUMBERS, str: _TEXTS, bool: (True, False), tuple: ((0, 0), (0, 1), (7, 1 << 62))}
    place[key] = dice.choice(known.get(type(place[key]), (None, [], {}))) if dice.random() < 0.9 else None


def _less(dice: Dice, whole: dict[str, Any]) -> None:
    """A stretch of events, or segments, or a key, is not there."""
    rows = dice.choice([*whole["device_traces"], whole["segments"]])
    if not isinstance(rows, list) or dice.random() < 0.3:
        place = _place(dice, whole)
        if place and place is not whole:
            del place[dice.choice(list(place))]
        return
    at = dice.randrange(len(rows) + 1)
    del rows[at : at + dice.choice((1, 3, 50, 10**6))]


def _more(dice: Dice, whole: dict[str, Any]) -> None:
    """A stretch of events, or segments, is there twice."""
    rows = dice.choice([*whole["device_traces"], whole["segments"]])
    at = dice.randrange(len(rows) + 1)
    rows[at:at] = copy.deepcopy(rows[at : at + dice.choice((1, 3, 50))])


def _other_order(dice: Dice, whole: dict[str, Any]) -> None:
    """Events or segments in another order."""
    rows = dice.choice([*whole["device_traces"], whole["segments"]])
    dice.shuffle(rows) if dice.random() < 0.5 else rows.reverse()
