"""Notes on instants and ranges of a run: what its readers write on the timeline, kept in a file beside the traces.

Where that folder cannot be written to, or is elsewhere, they are kept in the user's own data folder. A file of notes
may come with the traces of a stranger: it is read within bounds, and what is odd about it is said and left as it is.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import tempfile
import threading
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, get_args

from kinetoscope.model.trace.strings import json_object
from kinetoscope.readers.files.stream import is_url
from kinetoscope.server.errors import BadValueError, ForbiddenError, MissingError, RefusedError
from kinetoscope.server.json_encoding import MAX_INTEGER

NoteColour = Literal["blue", "orange", "green", "purple", "red", "teal"]

COLOURS: Final[tuple[NoteColour, ...]] = get_args(NoteColour)

MAX_NOTES: Final = 1000
MAX_TEXT_CHARACTERS: Final = 2000
MAX_FILE_BYTES: Final = 1 << 23
"""More than so many notes of such length take."""

_NAME: Final = "kinetoscope.notes"
_ENDING: Final = ".notes"
_MARK: Final = "kinetoscope_notes"
"""The member that says that a JSON file is one of notes; its value is the version of the form."""

_VERSION: Final = 1
_ID: Final = re.compile(r"[a-z0-9]{8,32}")


class ChangedError(RefusedError):
    """Somebody else changed the note meanwhile."""

    status = 409


@dataclass(frozen=True, slots=True)
class TimelineNote:
    """A note.

    Attributes:
        id: its own.
        rank: whose clock its times are of, and in whose lanes its event is.
        start, end: ns after the first event of the rank; equal for an instant.
        text: what it says.
        colour: one of COLOURS.
        row: the event that it is about; None for none.
        revision: how often it was changed; of a new one 0.
    """

    id: str
    rank: int
    start: int
    end: int
    text: str
    colour: NoteColour
    row: int | None = None
    revision: int = 0

    @classmethod
    def of(cls, value: Any) -> TimelineNote:
        """A note as JSON has it.

        Raises:
            BadValueError: it is none.
        """
        if not isinstance(value, dict):
            raise BadValueError("a note is an object")
        rank, start, end, revision = (_integer(value, name) for name in ("rank", "start", "end", "revision"))
        row = _integer(value, "row") if value.get("row") is not None else None
        if not -MAX_INTEGER <= start <= end <= MAX_INTEGER or not 0 <= rank <= MAX_INTEGER or revision < 0:
            raise BadValueError("a note has a rank, and begins before it ends")
        text, colour, identity = (value.get(name) for name in ("text", "colour", "id"))
        if not isinstance(text, str) or not text.strip() or len(text) > MAX_TEXT_CHARACTERS:
            raise BadValueError(f"a note has a text of 1 to {MAX_TEXT_CHARACTERS:,} characters")
        of_ours = next((each for each in COLOURS if each == colour), None)
        if of_ours is None:
            raise BadValueError(f"the colour of a note is one of {', '.join(COLOURS)}")
        if not isinstance(identity, str) or not _ID.fullmatch(identity):
            raise BadValueError("the id of a note is 8 to 32 small letters and digits")
        return cls(identity, rank, start, end, text, of_ours, row, revision)


@dataclass(frozen=True, slots=True)
class TimelineNotes:
    """All notes of a run, what of their files cannot be read or changed, and the file that new ones are written to."""

    notes: Sequence[TimelineNote]
    problem: str
    where: str


def _integer(value: dict[str, Any], name: str) -> int:
    number = value.get(name, 0)
    if not isinstance(number, int) or isinstance(number, bool):
        raise BadValueError(f"the {name} of a note is a whole number")
    return number


@dataclass(frozen=True, slots=True)
class NoteFile:
    """What a file of notes holds; `problem` says why it is not all that is in it, and must not be written over."""

    notes: tuple[TimelineNote, ...] = ()
    problem: str = ""


_LOCK: Final = threading.Lock()


class Notes:
    """The notes of a run.

    Args:
        path: of the run: a folder, a file, or what its files' names have in common.
        own: the user's folder of notes; "" for the one that the environment says.
    """

    def __init__(self, path: str, own: str = "") -> None:
        self._next_to = None if is_url(path) else _next_to(path)
        digest = hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        self._own = (Path(own) if own else data_folder()) / f"{digest}{_ENDING}"

    def read(self) -> TimelineNotes:
        """All notes by start; of one that is in both files the user's own."""
        next_to, own = self._files()
        notes = {note.id: note for note in (*next_to.notes, *own.notes)}
        problems = [each.problem for each in (next_to, own) if each.problem]
        return TimelineNotes(
            notes=sorted(notes.values(), key=lambda note: (note.start, note.id)),
            problem=" ".join(problems),
            where=str(self._place()),
        )

    def put(self, note: TimelineNote) -> None:
        """Keep a note: a new one, or another version of one whose revision it names.

        Raises:
            RefusedError: it was changed or deleted meanwhile, there are too many, or the file cannot be written.
        """
        with _LOCK:
            place, before = self._writable()
            notes = {each.id: each for each in before.notes}
            self._require_latest(note.id, note.revision)
            if note.id not in notes and len(notes) >= MAX_NOTES:
                raise BadValueError(f"a run has {MAX_NOTES:,} notes at most")
            notes[note.id] = replace(note, revision=note.revision + 1)
            _write(place, notes.values())

    def delete(self, identity: str, revision: int) -> None:
        """Forget a note.

        Raises:
            RefusedError: there is none, it was changed meanwhile, or its file cannot be written.
        """
        with _LOCK:
            place, before = self._writable()
            self._require_latest(identity, revision)
            kept = [note for note in before.notes if note.id != identity]
            if len(kept) == len(before.notes):
                raise ForbiddenError("this note is in a folder that cannot be written to", f"It is in {self._next_to}.")
            _write(place, kept)

    def _require_latest(self, identity: str, revision: int) -> None:
        known = {note.id: note for each in self._files() for note in each.notes}.get(identity)
        if known is None and revision:
            raise MissingError("this note was deleted meanwhile")
        if known is not None and known.revision != revision:
            raise ChangedError("this note was changed meanwhile, in another window or by somebody else")

    def _files(self) -> tuple[NoteFile, NoteFile]:
        return NoteFile() if self._next_to is None else _read(self._next_to), _read(self._own)

    def _place(self) -> Path:
        """The file that notes are written to."""
        next_to = self._next_to
        return next_to if next_to is not None and os.access(next_to.parent, os.W_OK) else self._own

    def _writable(self) -> tuple[Path, NoteFile]:
        place = self._place()
        before = _read(place)
        if before.problem:
            raise ForbiddenError(before.problem, "Move the file away, or mend it.")
        return place, before


def change(notes: Notes, body: bytes) -> None:
    """Carry out what a request brings: `{"note": {…}}` keeps one, `{"delete": "id", "revision": 3}` forgets one.

    Raises:
        RefusedError: it is no such JSON, or it cannot be done.
    """
    request = json_object(body)
    if "note" in request:
        notes.put(TimelineNote.of(request["note"]))
    elif isinstance(request.get("delete"), str):
        notes.delete(request["delete"], _integer(request, "revision"))
    else:
        raise BadValueError("the body is JSON with a note, or with the id of one to delete")


def data_folder() -> Path:
    """The user's own folder of notes."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "kinetoscope" / "notes"


def _next_to(path: str) -> Path:
    return Path(path) / _NAME if Path(path).is_dir() else Path(f"{path}{_ENDING}")


def _read(place: Path) -> NoteFile:
    """The notes of a file, without those that are none."""
    try:
        if not stat.S_ISREG(place.lstat().st_mode):
            return NoteFile(problem=f"{place.name} is no plain file.")
        with place.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        value = json.loads(content) if len(content) <= MAX_FILE_BYTES else None
    except FileNotFoundError:
        return NoteFile()
    except (OSError, ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or value.get(_MARK) != _VERSION or not isinstance(value.get("notes"), list):
        return NoteFile(problem=f"{place.name} is no file of notes of this version; it is left as it is.")
    notes = {}
    for each in value["notes"][:MAX_NOTES]:
        try:
            note = TimelineNote.of(each)
        except BadValueError:
            continue
        notes[note.id] = note
    odd = len(value["notes"]) - len(notes)
    problem = f"{odd:,} of the notes in {place.name} cannot be read; the file is left as it is." if odd else ""
    return NoteFile(tuple(notes.values()), problem)


def _write(place: Path, notes: Iterable[TimelineNote]) -> None:
    """All at once: whoever reads meanwhile sees the notes before or those after."""
    content = json.dumps({_MARK: _VERSION, "notes": [asdict(note) for note in notes]}, indent=1, ensure_ascii=False)
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{_NAME}.") as folder:
            file = Path(folder) / place.name
            file.write_bytes(content.encode("utf-8", "replace"))
            file.replace(place)
    except OSError as error:
        raise ForbiddenError(f"the notes cannot be written to {place}: {error.strerror}") from error
