"""Codes of notes, which tests ask for instead of their words."""

from __future__ import annotations

from collections.abc import Iterable

from kinetoscope.notes import Note


def codes(notes: Iterable[str]) -> list[str]:
    """The codes in order; "" of a text that has none."""
    return [note.code if isinstance(note, Note) else "" for note in notes]
