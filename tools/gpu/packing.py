"""Packs what was recorded into a few archives of limited size; what is worth least is left out, and named.

A machine that is lent gives back few files. Records are compressed already, so that an archive is a plain tar.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tools.gpu.running import SCRATCH

MAX_ARCHIVES: Final = 8
MAX_ARCHIVE_BYTES: Final = 16 << 20
PACKED: Final = "packed.json"
"""In the first archive: what was left out."""

_MAX_ALL_BYTES: Final = 64 << 20
"""Bytes of all archives."""

_BLOCK: Final = 512
_END: Final = 20 * _BLOCK
"""A tar ends with empty blocks, up to a record of twenty."""

_TOLD: Final = 200
"""Files left out that are named in the archive."""

_SMALL: Final = 1 << 16
"""Files of up to so many bytes are packed first, of all parts: what was measured, and why a task failed."""


def pack(
    work: Path,
    out: Path,
    parts: Sequence[str],
    *,
    about: dict[str, Any],
    archives: int = MAX_ARCHIVES,
    each: int = MAX_ARCHIVE_BYTES,
    together: int = _MAX_ALL_BYTES,
) -> list[str]:
    """Write the archives anew; the files that found no room, as lines.

    Args:
        work: what was recorded, a folder for each part.
        out: the folder of the archives.
        parts: the most valuable first.
        about: what is told of the machine.
        archives: at most so many.
        each: bytes of one.
        together: bytes of all.
    """
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("gpu-*.tar"):
        old.unlink()
    reserve = 1 << 17  # of the first archive, for what is told
    rooms = [min(each, together) - _END - reserve]
    chosen: list[list[Path]] = [[]]
    dropped = []
    for file in _by_value(work, parts):
        need = _need(file.stat().st_size)
        spent = sum(min(each, together) - _END - room for room in rooms)
        if spent + need + len(rooms) * _END > together:
            place = None
        else:
            place = next((place for place, room in enumerate(rooms) if room >= need), None)
            if place is None and len(rooms) < archives and need <= each - _END:
                rooms.append(each - _END)
                chosen.append([])
                place = len(rooms) - 1
        if place is None:
            dropped.append(f"{file.relative_to(work).as_posix()} ({file.stat().st_size:,} bytes)")
            continue
        rooms[place] -= need
        chosen[place].append(file)
    told = json.dumps({**about, "dropped": len(dropped), "first_dropped": dropped[:_TOLD]}, indent=1).encode()
    for number, files in enumerate(chosen, 1):
        with tarfile.open(out / f"gpu-{number}.tar", "w", format=tarfile.USTAR_FORMAT) as archive:
            if number == 1:
                _add(archive, PACKED, told)
            for file in files:
                _add(archive, file.relative_to(work).as_posix(), file.read_bytes())
    return dropped


def unpack(archives: Sequence[Path], folder: Path) -> None:
    """The files of archives, into a folder; what several have is taken from the last."""
    for path in archives:
        with tarfile.open(path) as archive:
            archive.extractall(folder, filter="data")


def _by_value(work: Path, parts: Sequence[str]) -> Iterator[Path]:
    """Small files of all parts first; then the parts in order, and of each task what is smallest."""
    files = [
        (place, file)
        for place, part in enumerate(parts)
        for file in sorted((work / part).rglob("*"))
        if file.is_file() and SCRATCH not in file.relative_to(work).parts
    ]
    key = {file: (file.stat().st_size > _SMALL, place, file.stat().st_size) for place, file in files}
    return iter(sorted(key, key=key.__getitem__))


def _need(size: int) -> int:
    """Bytes of a file in a tar."""
    return _BLOCK + -(-size // _BLOCK) * _BLOCK


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    """Under a name, without the owner, the rights and the time of the file."""
    about = tarfile.TarInfo(name)
    about.size = len(content)
    archive.addfile(about, io.BytesIO(content))
