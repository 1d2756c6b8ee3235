"""The part in `kinetoscope record`: what an earlier run left is put aside, what processes could not finish is finished.

Where everything ended well and nothing hung, nothing stays: ranks that end write what they did last, as others may wait
for them, and that is removed then.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kinetoscope.record.always_on import mailbox
from kinetoscope.record.hangs import evidence, frozen
from kinetoscope.record.hangs.agent import leave_exit
from kinetoscope.record.hangs.watch import WATCHED
from kinetoscope.record.session.child_config import RecordPlan
from kinetoscope.record.session.options import rank_identity

_OURS: Final = re.compile(rf"{evidence.FOLDER}(-\d{{1,5}})?")
_OF_RANK: Final = re.compile(r"\w*_rank_(\d{1,9})(?:\.txt)?")
_LATER_S: Final = 10.0
"""Stacks that a frozen process left count if they are so much younger than those that it wrote itself."""


def _folders(run: str) -> list[Path]:
    """The folders of the ranks' files, that of the last restart last."""
    named = [each for each in Path(run).glob(f"{evidence.FOLDER}*") if _OURS.fullmatch(each.name) and each.is_dir()]
    return sorted(named, key=lambda each: (len(each.name), each.name))


def put_aside(run: str) -> None:
    """Rename what an earlier run to this folder left: it is of other processes."""
    when = time.strftime("%Y%m%d-%H%M%S")
    for folder in _folders(run):
        folder.rename(folder.with_name(f"earlier-{folder.name}-{when}"))


@dataclass(frozen=True)
class LeftByHang:
    """What the ranks of a run have left.

    Attributes:
        folder: of the last restart that left something.
        ranks: that have written something there.
        world: ranks of the job; 0 where unknown.
        hung: of these, ranks in which a step took much too long, and did not end.
        late: ranks in which one took much too long, but ended.
    """

    folder: Path
    ranks: tuple[int, ...]
    world: int
    hung: tuple[int, ...]
    late: tuple[int, ...]


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
    folders = _folders(plan.dir)
    if not folders:
        return None
    notes = [note for folder in folders for note in mailbox.read_all(folder, "note_").values()]
    if not code and all(note.get("why") == "end" for note in notes):
        for folder in folders:
            _remove(folder)
        return None
    return _left(folders[-1])


def _left(folder: Path) -> LeftByHang:
    notes = [*mailbox.read_all(folder, "note_").values()]
    matches = filter(None, (_OF_RANK.fullmatch(each.name) for each in folder.iterdir()))
    late = {int(note["rank"]) for note in notes if "went_on_after" in note}
    hung = {int(note["rank"]) for note in notes if note.get("why") in _HANGS} - late
    world = max((int(note.get("world") or 0) for note in notes), default=0)
    return LeftByHang(
        folder, tuple(sorted({int(each[1]) for each in matches})), world, _in_order(hung), _in_order(late)
    )


_HANGS: Final = ("step", "before the first step", frozen.FROZEN)


def _in_order(ranks: set[int]) -> tuple[int, ...]:
    return tuple(sorted(ranks))


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
    for name, note in mailbox.read_all(folder, "note_").items():
        if note.get("host") == host:
            for file in _files_of(folder, str(note.get("rank"))):
                file.unlink(missing_ok=True)
            (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def _files_of(folder: Path, rank: str) -> Iterator[Path]:
    for file in folder.iterdir():
        match = _OF_RANK.fullmatch(file.name)
        if match and match[1] == rank:
            yield file


def said(left: LeftByHang | None) -> str:
    """One line for the end of `kinetoscope record --hang`."""
    if left is None:
        return "nothing hung"
    ranks = f"{len(left.ranks)} of {left.world} ranks" if left.world else "the ranks"
    where = f"stacks and collectives of {ranks} are in {left.folder}"
    if left.late and not left.hung:
        return f"a step took much longer than those before on {_many(left.late)}, and ended; {where}"
    return f"{where}; `kinetoscope hang {left.folder}` says what they wait for"


def _many(ranks: tuple[int, ...]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"{len(ranks)} ranks"
