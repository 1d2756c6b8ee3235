"""The part in `kinetoscope record`: what an earlier run left is put aside, what processes could not finish is finished.

Where everything ended well and nothing hung, nothing stays: ranks that end write what they did last, as others may wait
for them, and that is removed then.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from kinetoscope.record.always_on import mailbox
from kinetoscope.record.hangs import evidence, frozen
from kinetoscope.record.hangs.agent import leave_exit
from kinetoscope.record.hangs.watch import WATCHED
from kinetoscope.record.session.child_config import RecordPlan
from kinetoscope.record.session.options import rank_identity

_FOLDERS: Final = re.compile(rf"(?:{evidence.FOLDER}|{evidence.LATE_FOLDER}|{evidence.ASKED_FOLDER})(?:-\d{{1,5}})?")
_LATER_S: Final = 10.0
"""Stacks that a frozen process left count if they are so much younger than those that it wrote itself."""


def _folders(run: str, name: str = "") -> list[Path]:
    """The folders of files of ranks, those of the last restart last; `name`: of which kind."""
    ours = [each for each in Path(run).glob(f"{name}*") if _FOLDERS.fullmatch(each.name) and each.is_dir()]
    return sorted(ours, key=lambda each: (len(each.name), each.name))


def put_aside(run: str) -> None:
    """Rename what an earlier run to this folder left: it is of other processes."""
    when = time.strftime("%Y%m%d-%H%M%S")
    for folder in _folders(run):
        folder.rename(folder.with_name(f"earlier-{folder.name}-{when}"))


@dataclass(frozen=True)
class LeftByHang:
    """Files that the ranks of a run have left.

    Attributes:
        folder: of the last restart that left something.
        ranks: that have written something there.
        world: ranks of the job; 0 where unknown.
        is_late: steps took much too long there, but ended.
    """

    folder: Path
    ranks: tuple[int, ...]
    world: int
    is_late: bool = False


def collected(plan: RecordPlan, pid: int, code: int) -> LeftByHang | None:
    """Finish what is there, once the command has ended; None if nothing hung and all ended well.

    `pid`, `code`: the process that was started, and its exit code, negative for a signal.
    """
    control = Path(plan.control)
    watched = {int(note.get("pid") or 0): note for note in mailbox.read_all(control / WATCHED).values()}
    for each, note in watched.items():
        with contextlib.suppress(OSError):
            _thaw(plan, control / frozen.FOLDER / str(each), note)
    if pid in watched and code:
        leave_exit(plan.dir, watched[pid].get("rank", ""), {}, pid, code)
    folders = _folders(plan.dir, evidence.FOLDER)
    notes = [note for folder in folders for note in mailbox.read_all(folder, "note_").values()]
    if code or not all(note.get("why") == "end" for note in notes):
        return _left(folders[-1]) if folders else None
    for folder in folders:
        _remove(folder)
    late = _folders(plan.dir, evidence.LATE_FOLDER)
    return replace(_left(late[-1]), is_late=True) if late else None


def _left(folder: Path) -> LeftByHang:
    notes = mailbox.read_all(folder, "note_").values()
    matches = filter(None, (evidence.OF_RANK.fullmatch(each.name) for each in folder.iterdir()))
    world = max((int(note.get("world") or 0) for note in notes), default=0)
    return LeftByHang(folder, tuple(sorted({int(each[1]) for each in matches})), world)


def _thaw(plan: RecordPlan, stacks: Path, note: dict[str, Any]) -> None:
    """Put the stacks of a process that stood still, or that SIGTERM ended, to the others."""
    if not stacks.is_file() or not stacks.stat().st_size:
        return
    rank, folder = int(note["rank"]), evidence.folder_of(plan.dir, int(note.get("attempt") or 0))
    written = stacks.stat().st_mtime
    there = folder / evidence.STACKS.format(rank)
    if there.exists() and written < there.stat().st_mtime + _LATER_S:
        return
    folder.mkdir(parents=True, exist_ok=True)
    with stacks.open(encoding="utf-8", errors="replace") as file:
        why = frozen.FROZEN if file.readline(64).startswith("Timeout") else "SIGTERM"
    shutil.copyfile(stacks, there)
    if not (folder / evidence.NOTE.format(rank)).exists():
        evidence.leave_note(folder, {**note, "why": why, "written": int(written * 1e9)})


def _remove(folder: Path) -> None:
    """Remove what the ranks of this machine have left, and the folder if nothing else is in it."""
    host = rank_identity().host
    for note in mailbox.read_all(folder, "note_").values():
        if note.get("host") == host:
            for file in evidence.files_of(folder, int(note["rank"])):
                file.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def said(left: LeftByHang | None) -> str:
    """One line for the end of `kinetoscope record --hang`."""
    if left is None:
        return "nothing hung"
    ranks = f"{len(left.ranks)} of {left.world} ranks" if left.world else "the ranks"
    where = f"stacks and collectives of {ranks} are in {left.folder}"
    if left.is_late:
        return f"a step took much longer than those before, and ended: of then, {where}"
    return f"{where}; `kinetoscope hang {left.folder}` says what they wait for"
