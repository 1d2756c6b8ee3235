"""Where files go: in place of plain ones, through all else."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from kinetoscope.views.exports.target import written


def write(path: Path, data: bytes = b"new") -> None:
    with written(path) as file:
        file.write(data)


def test_a_new_file_has_the_usual_mode_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    write(tmp_path / "out")
    (tmp_path / "usual").write_bytes(b"")
    assert (tmp_path / "out").read_bytes() == b"new"
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "usual").stat().st_mode
    assert {path.name for path in tmp_path.iterdir()} == {"out", "usual"}


def test_a_file_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b"old")
    path.chmod(0o600)
    write(path)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    for name, target in ("link", "real"), ("dangling", "later"):
        (tmp_path / name).symlink_to(target)
        write(tmp_path / name)
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / target).read_bytes() == b"new"


def test_a_fifo_and_a_device_are_written_through(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    seen: list[bytes] = []
    reader = threading.Thread(target=lambda: seen.append(fifo.read_bytes()))
    reader.start()
    write(fifo)
    reader.join()
    assert seen == [b"new"]
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    write(Path(os.devnull))
    assert Path(os.devnull).is_char_device()


def test_what_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    with pytest.raises(TypeError), written(path) as file:
        file.writelines([b"half", None])  # type: ignore[list-item]
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"old"]
