"""The copies of remote files: bounded, whole or not there, and shared by several processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kinetoscope.errors import UsageError
from kinetoscope.readers.files import cache
from kinetoscope.readers.files.cache import Cache, cache_at, name_of

FILL = """
import sys
from pathlib import Path
from kinetoscope.readers.files.cache import Cache
copies = Cache(Path(sys.argv[1]), 2500)
part = copies.begin(sys.argv[2], 1000)
part.write(b"x" * int(sys.argv[3]))
print("written", flush=True)
sys.stdin.read()
part.keep()
"""


def kept(copies: Cache, name: str, content: bytes, used: int = 0) -> None:
    part = copies.begin(name, len(content))
    assert part is not None
    part.write(content)
    part.keep()
    if used:
        os.utime(copies.folder / name, (used, used))


def names(copies: Cache) -> list[str]:
    return sorted(path.name for path in copies.folder.iterdir() if not path.name.startswith("."))


def test_a_copy_is_there_when_it_is_complete_and_not_before(tmp_path: Path) -> None:
    copies = Cache(tmp_path, 1000)
    part = copies.begin("a", 6)
    assert part is not None
    part.write(b"one")
    assert copies.open("a") is None
    part.write(b"two")
    part.keep()
    file = copies.open("a")
    assert file is not None
    with file:
        assert file.read() == b"onetwo"
    assert names(copies) == ["a"]


def test_what_is_cut_short_or_dropped_leaves_nothing(tmp_path: Path) -> None:
    copies = Cache(tmp_path, 1000)
    for end in ("keep", "drop"):
        part = copies.begin("a", 6)
        assert part is not None
        part.write(b"one")
        getattr(part, end)()
    assert names(copies) == []


def test_what_was_used_longest_ago_makes_room(tmp_path: Path) -> None:
    copies = Cache(tmp_path, 2500)
    kept(copies, "a", b"x" * 1000, used=100)
    kept(copies, "b", b"x" * 1000, used=200)
    file = copies.open("a")
    assert file is not None
    with file:  # a is used now
        kept(copies, "c", b"x" * 1000)
        assert names(copies) == ["a", "c"]
        kept(copies, "d", b"x" * 2500)
        assert (names(copies), len(file.read())) == (["d"], 1000)  # who reads it reads on


def test_what_is_being_written_counts_and_is_not_removed(tmp_path: Path) -> None:
    copies = Cache(tmp_path, 2500)
    part = copies.begin("a", 2000)
    assert part is not None
    assert copies.begin("b", 1000) is None
    part.drop()
    kept(copies, "b", b"x" * 1000)
    assert names(copies) == ["b"]


def test_what_is_larger_than_the_cache_is_not_kept(tmp_path: Path) -> None:
    copies = Cache(tmp_path, 2500)
    kept(copies, "a", b"x" * 1000)
    assert copies.begin("b", 2501) is None
    assert names(copies) == ["a"]


def test_the_disk_is_not_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: type("Usage", (), {"free": 3000}))
    copies = Cache(tmp_path, 1 << 40)
    assert copies.begin("a", 1501) is None
    kept(copies, "a", b"x" * 1500)
    assert names(copies) == ["a"]


def test_two_processes_that_write_the_same_copy_and_one_that_is_killed(tmp_path: Path) -> None:
    copies = Cache(tmp_path, 2500)
    writers = []
    for written in ("500", "1000"):
        command = [sys.executable, "-c", FILL, str(tmp_path), "a", written]
        writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        assert writer.stdout.readline() == "written\n"
        writers.append(writer)
    assert copies.begin("b", 1000) is None  # both of theirs count
    writers[0].kill()
    for writer in writers:
        writer.communicate()
    kept(copies, "b", b"x" * 1000)
    assert names(copies) == ["a", "b"]


def test_a_folder_that_cannot_be_is_no_cache(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert cache_at(str(tmp_path / "file" / "copies")) is None
    assert Cache(tmp_path / "gone", 1000).begin("a", 1) is None
    assert Cache(tmp_path / "gone", 1000).open("a") is None


def test_where_it_is_and_how_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (cache.FOLDER_VARIABLE, cache.SIZE_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    own = tmp_path / "kinetoscope" / "files"
    assert cache_at() == Cache(own, cache.DEFAULT_BYTES)
    assert own.stat().st_mode & 0o777 == 0o700
    assert cache_at(str(tmp_path / "here"), 5) == Cache(tmp_path / "here", 5)
    monkeypatch.setenv(cache.FOLDER_VARIABLE, str(tmp_path / "there"))
    monkeypatch.setenv(cache.SIZE_VARIABLE, "1.5GB")
    assert cache_at() == Cache(tmp_path / "there", 1_500_000_000)
    assert cache_at("off") is None
    assert cache_at("", 0) is None
    monkeypatch.setenv(cache.FOLDER_VARIABLE, "off")
    assert cache_at() is None
    monkeypatch.setenv(cache.SIZE_VARIABLE, "much")
    with pytest.raises(UsageError, match="KINETOSCOPE_CACHE_SIZE is 'much', which is no size"):
        cache_at()


def test_another_content_is_another_copy() -> None:
    assert len({name_of("s3://b/t", "1"), name_of("s3://b/t", "2"), name_of("s3://b/u", "1")}) == 3
