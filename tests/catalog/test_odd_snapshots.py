"""Every analysis answers of every memory snapshot, whatever it lacks and however wrong it is."""

from __future__ import annotations

import pickle
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope import ANALYSES, Job, Selection, read
from kinetoscope.advisor.advice import advise
from kinetoscope.errors import KinetoscopeError, UsageError
from tests.catalog.test_analyses import is_sound
from tests.catalog.test_rules import is_whole
from tests.conftest import few_examples
from tests.snapshots.everything import ODD, everything

pytestmark = pytest.mark.slow
SELECTIONS = (Selection(steps=(1,)), Selection(devices=(1,)), Selection(time=(0, 1_000_000)))
ODDITIES: tuple[object, ...] = (
    *(None, True, "", "alloc", "segment_free", "oom", "ü", "\x1b[31m", [], {}, [[]], (), 1.5, -1, 0, 1, 511, 2**31),
    *(2**40, 2**62, 2**63 - 1, 2**63, -(2**63), 10**30, float("nan")),
)


def answers(job: Job) -> None:
    for analysis in ANALYSES:
        is_sound(analysis(job))
        for select in SELECTIONS:
            with suppress(UsageError):
                is_sound(analysis(job, select=select))
    advice = advise(job)
    assert not [note for note in advice.notes if note.code == "RULE_FAILED"]
    for finding in advice.findings:
        is_whole(finding, job)


@pytest.mark.parametrize("name", ODD)
def test_every_analysis_answers(tmp_path: Path, name: str) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(ODD[name](), 4))
    answers(read(path, jobs=1))


@given(st.integers(0, 2**32))
@few_examples
def test_values_of_any_kind(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    snapshot = everything(expandable=bool(seed % 2)).snapshot()
    spoil(snapshot, random.Random(seed))
    path = tmp_path_factory.getbasetemp() / "odd.pickle"
    path.write_bytes(pickle.dumps(snapshot, 4))
    try:
        job = read(path, jobs=1)
        job.trace()
    except KinetoscopeError:
        return
    answers(job)


def spoil(snapshot: dict[str, Any], chance: random.Random) -> None:
    """Some values of some rows become something else, or go."""
    rows = [event for trace in snapshot["device_traces"] for event in trace]
    rows += [block for segment in snapshot["segments"] for block in segment["blocks"]]
    rows += [*snapshot["segments"], *snapshot["external_annotations"], snapshot["allocator_settings"], snapshot]
    for _ in range(chance.choice([1, 1, 2, 5])):
        row = chance.choice(chance.choice([rows, rows[-20:], rows[:50]]))
        key = chance.choice([*row, "new"])
        if chance.random() < 0.2:
            row.pop(key, None)
        else:
            alike = [each for each in ODDITIES if type(each) is type(row.get(key))]
            row[key] = chance.choice(alike if alike and chance.random() < 0.8 else ODDITIES)
