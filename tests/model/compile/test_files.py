"""Files beside a trace that are no such files: bounded, whatever is in them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kinetoscope.model.compile import files
from kinetoscope.model.compile.files import CompileFile


def test_a_line_without_an_end_stops_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def blocks(name: str) -> Iterator[bytes]:
        yield b"first\r\nsecond\n"
        for _ in range(100):
            read.append(name)
            yield b"x" * 64

    monkeypatch.setattr(files, "MAX_TEXT_BYTES", 256)
    assert list(CompileFile("log", "log", blocks).lines()) == ["first", "second"]
    assert len(read) == 5
    assert CompileFile("log", "log", blocks).text() == ""
