"""That a file lost data, and how much of it, is said first, whoever asks."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from kinetoscope import operators, read
from kinetoscope.cli import main
from kinetoscope.model.trace.symptoms import Health
from kinetoscope.notes import Note
from tests.drawn import annotation, kernel, launch, op
from tests.server.serving import serving

SAID = "This file is damaged"

EVENTS = [annotation("ProfilerStep#0", 0, 10_000)]
for number in range(200):
    EVENTS += [op(f"aten::op{number}", 40 * number, 30), launch(40 * number, 9, number)]
EVENTS += [kernel("gemm", 9_000 + number, 1, number) for number in range(200)]


def of(text: bytes, tmp_path: Path) -> Path:
    path = tmp_path / "damaged.json"
    path.write_bytes(text)
    return path


def broken(tmp_path: Path) -> Path:
    """About three quarters of the list are no JSON any more."""
    text = json.dumps({"traceEvents": EVENTS}).encode()
    begin, end = len(text) // 5, len(text) - len(text) // 20
    return of(text[:begin] + b'"}@' * ((end - begin) // 3) + text[end:], tmp_path)


def test_the_share_is_that_of_the_bytes(tmp_path: Path) -> None:
    damage = Health(read(broken(tmp_path)).trace().reading).damage
    assert damage == f"{SAID}: 75% of it could not be read."


def test_a_whole_file_is_not_damaged(tmp_path: Path) -> None:
    assert not Health(read(of(json.dumps({"traceEvents": EVENTS}).encode(), tmp_path)).trace().reading).damage


def test_what_is_missing_at_the_end_cannot_be_told(tmp_path: Path) -> None:
    text = json.dumps({"traceEvents": EVENTS}).encode()
    for part in (text[: len(text) // 2], gzip.compress(text)[:-200]):
        damage = Health(read(of(part, tmp_path)).trace().reading).damage
        assert damage == f"{SAID}: it ends early, and how much is missing is unknown."


def test_shares_of_several_kinds_are_put_together() -> None:
    half, fifth = Note("STREAM", "", "error", lost=0.5), Note("LOST", "", "error", lost=0.2)
    assert Health((half, fifth)).damage == f"{SAID}: 60% of it could not be read."
    assert Health((Note("LOST", "", "error", 2),)).damage == f"{SAID}: events are lost."
    assert not Health((Note("TRAILING", "", "warning", lost=0.001),)).damage


def test_every_face_says_it_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = json.dumps({"traceEvents": [event for event in EVENTS if event["cat"] != "kernel"]}).encode()
    path = of(text[: len(text) // 2], tmp_path)
    said = f"{SAID}: it ends early, and how much is missing is unknown. That no device work is seen may be because"
    assert operators(read(path)).notes[0].startswith(said)
    for verb in (["summary"], ["advise"], ["show", "operators"]):
        assert main([*verb, str(path)]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert any(line.startswith(f"! {SAID}") for line in lines[:8])
    with serving(path) as client:
        assert client.get(f"runs/{client.run()}")["damage"].startswith(said)
