"""Notes: text that keeps its code wherever it is sent, and codes that are of one thing each."""

from __future__ import annotations

import copy
import json
import pickle
import re
import runpy
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from kinetoscope.notes import Note

ROOT = Path(__file__).parents[1]
NOTE = Note("SHORT_GAPS", "3 gaps are short.", "warning", 3, 0.5, "cuda:0")


@pytest.mark.parametrize("sent", [lambda note: pickle.loads(pickle.dumps(note)), copy.copy, copy.deepcopy])
def test_it_is_sent_whole(sent: Any) -> None:
    there = sent(NOTE)
    assert (there, there.code, there.severity, there.number, there.lost, there.about) == (
        "3 gaps are short.",
        "SHORT_GAPS",
        "warning",
        3,
        0.5,
        "cuda:0",
    )


def test_it_is_text_for_whoever_prints_it() -> None:
    assert (f"{NOTE}", json.dumps([NOTE]), repr(NOTE)) == (
        "3 gaps are short.",
        '["3 gaps are short."]',
        "'3 gaps are short.'",
    )
    assert {NOTE, Note("OTHER", "3 gaps are short.")} == {"3 gaps are short."}


def test_other_words_have_the_same_code() -> None:
    other = NOTE.reworded("rank 1: 3 gaps are short.")
    assert (other, other.code, other.about) == ("rank 1: 3 gaps are short.", "SHORT_GAPS", "cuda:0")


def test_a_plain_text_is_a_note_without_a_code() -> None:
    assert (Note.of(NOTE) is NOTE, Note.of("plain").code) == (True, "")


def test_a_code_is_of_one_room() -> None:
    rooms = defaultdict(set)
    for each in runpy.run_path(str(ROOT / "docs/notes.py"))["made"]():
        assert re.fullmatch("[A-Z][A-Z_0-9]+", each.code), each
        rooms[each.code].add(each.module if "/health/" not in each.module else "health")
    assert {code: sorted(found) for code, found in rooms.items() if len(found) > 1} == {}
    assert len(rooms) > 250


def test_no_code_reads_the_words_of_a_note() -> None:
    reads = re.compile(r"\bnotes?\.(startswith|partition|split|endswith)\(|if .* in note\b|\.notes\[")
    lines = [
        f"{file.name}: {line.strip()}"
        for file in (ROOT / "src/kinetoscope").rglob("*.py")
        for line in file.read_text().splitlines()
        if reads.search(line) and "server/runs" not in str(file)
    ]
    assert lines == []
