"""Tables out of the pages of a file: the columns that SQLite itself gives of them, and none where something is odd."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kinetoscope.errors import InputError
from kinetoscope.readers.sqlite import database
from kinetoscope.readers.sqlite.database import Database, ReadColumns, Wanted
from kinetoscope.readers.sqlite.pages import page_file
from tests.conftest import first_quick

WANTED = Wanted(("id", "a", "b"), ("text",), ("number",), ("content",))
DEFINITION = "CREATE TABLE t (id INTEGER PRIMARY KEY, a INT, text TEXT, number REAL, b INT, content)"
VALUES: tuple[Any, ...] = (
    *(None, 0, 1, -1, 127, -129, 1 << 20, -(1 << 30), 1 << 40, -(1 << 47), 1 << 62, -(1 << 63)),
    *(0.5, float("inf"), "", "text", "ä" * 40, b"", b"\xff\0", "long " * 300, b"long" * 3000),
)


def drawn(file: Path, *, page: int = 512, rows: int = 200, seed: int = 0, definition: str = DEFINITION) -> Path:
    rng = random.Random(seed)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA page_size = {page}")
        connection.execute(definition)
        several = [(3 * number, *rng.choices(VALUES, k=5)) for number in range(rows)]
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", several)
        connection.commit()
    return file


def columns(read: ReadColumns) -> list[Sequence[Any]]:
    """All values, so that equal ones compare so."""
    numbers = [[str(each) for each in column.tolist()] for column in read.numbers.values()]
    texts = [*(each.listed() for each in read.texts.values()), *(each.contents() for each in read.bytes.values())]
    return [*(read.integers[name].tolist() for name in sorted(read.integers)), *numbers, *texts]


def both(file: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Sequence[Any]] | str, list[Sequence[Any]] | str]:
    """The columns, or why they are refused: out of pages where that can be, and by SQLite."""
    answers: list[list[Sequence[Any]] | str] = []
    for way in (page_file, lambda *_: None):
        with monkeypatch.context() as patched:
            patched.setattr(database, "page_file", way)
            try:
                with Database(str(file), "file") as opened:
                    answers.append(columns(opened.read("t", WANTED)))
            except InputError as error:
                answers.append(str(error))
    return answers[0], answers[1]


def is_out_of_pages(file: Path) -> bool:
    with Database(str(file), "file") as opened:
        return opened._out_of_pages(opened._tables["t"], WANTED) is not None


@pytest.mark.parametrize("page", [512, 4096, 65536])
def test_all_types_and_sizes_are_what_sqlite_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: int) -> None:
    file = drawn(tmp_path / "x.sqlite", page=page)
    assert is_out_of_pages(file)
    ours, theirs = both(file, monkeypatch)
    assert ours == theirs
    assert len(ours[0]) == 200


@pytest.mark.parametrize(
    "definition",
    [
        DEFINITION + " WITHOUT ROWID",
        DEFINITION.replace("PRIMARY KEY", "PRIMARY KEY DESC"),
        DEFINITION.replace("a INT", "a REAL"),  # integers of it are real numbers
    ],
)
def test_other_tables_are_for_sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, definition: str) -> None:
    file = drawn(tmp_path / "x.sqlite", definition=definition)
    assert not is_out_of_pages(file)
    ours, theirs = both(file, monkeypatch)
    assert ours == theirs


def test_columns_that_were_added_later_have_their_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = drawn(tmp_path / "x.sqlite", definition=DEFINITION.replace("a INT", "z INT"))
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("ALTER TABLE t ADD COLUMN a INT DEFAULT 7")
    ours, theirs = both(file, monkeypatch)
    assert ours == theirs
    assert ours[0] == [7] * 200


@pytest.mark.parametrize("seed", first_quick(range(60)))
def test_damaged_files_are_read_as_sqlite_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    file = drawn(tmp_path / "x.sqlite", page=rng.choice((512, 1024)), rows=60, seed=seed)
    whole = file.read_bytes()
    for _ in range(10):
        data = bytearray(whole)
        for _ in range(rng.choice((1, 2, 5, 30))):
            in_head = rng.randrange(len(data) // 512) * 512 + rng.randrange(24)
            data[rng.choice((in_head, rng.randrange(100, len(data))))] = rng.choice((0, 5, 13, 255, rng.randrange(256)))
        file.write_bytes(data[: rng.randint(len(data) // 2, len(data))] if rng.random() < 0.2 else data)
        ours, theirs = both(file, monkeypatch)
        assert "\n" not in (ours if isinstance(ours, str) else "")
        assert ours == theirs or isinstance(theirs, str)
