"""How changes that were tried are made permanent: a diff of the user's files, settings, and what to do by hand.

No file is written. What cannot be edited for sure is said in words: the place is in a library, the file was changed,
arguments come from elsewhere.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kinetoscope.compare.trials.source_edits import SourceEdits
from kinetoscope.compare.trials.source_tree import CannotEditError, SourceTree
from kinetoscope.record.trials.trial import Edit

_NO_NEWLINE: Final = "\\ No newline at end of file\n"


@dataclass(frozen=True, kw_only=True)
class Applied:
    """A change that is to stay.

    Attributes:
        edit: how it is made permanent.
        facts: what it chose in the process.
        places: file and line of each call that it changed.
        title: what it does, for what is left to do by hand.
    """

    edit: Edit
    facts: Mapping[str, Any] = field(default_factory=dict)
    places: Sequence[tuple[str, int]] = ()
    title: str = ""


@dataclass(frozen=True)
class Patch:
    """The edits and settings that make changes permanent.

    Attributes:
        diff: a unified diff of all files; "" without one.
        settings: variables to set, as lines of a shell.
        by_hand: what is left to do, as sentences without their full stops.
    """

    diff: str = ""
    settings: tuple[str, ...] = ()
    by_hand: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All of it as one text that `git apply` and `patch` read: what is no diff stands before it, as comments."""
        said = [f"# {each}\n" for text in (*self.settings, *self.by_hand) for each in text.splitlines()]
        return "".join(said) + self.diff


def patch_of(
    changes: Sequence[Applied],
    *,
    program: str = "",
    root: Path | None = None,
    read: Callable[[str], str] | None = None,
) -> Patch:
    """The patch that makes all changes permanent.

    Args:
        changes: in the order in which they were kept.
        program: the user's script, which gets lines that belong to no call; "" where it is not known.
        root: the folder that names in the diff are relative to; the current one if it is None.
        read: the text of a file; raises OSError or ValueError where there is none.
    """
    files = _Files(read or _read)
    settings: dict[str, None] = {}
    by_hand: dict[str, None] = {}
    for change in changes:
        edit = change.edit
        for name, value in edit.environment.items():
            settings[f"export {_filled(name, change.facts)}={_filled(value, change.facts)}"] = None
        if not _edits_files(edit):
            if not edit.environment or edit.text:
                by_hand[in_words(edit, change.facts)] = None
        elif why := _left_to_do(change, files, program):
            by_hand[f"{in_words(edit, change.facts)} ({why})"] = None
    diff = "".join(_diff(name, old, new, root or Path.cwd()) for name, old, new in files.edited())
    return Patch(diff, tuple(settings), tuple(by_hand))


def in_words(edit: Edit, facts: Mapping[str, Any]) -> str:
    """An edit as a sentence without its full stop."""
    if edit.text:
        return _filled(edit.text, facts)
    if edit.lines:
        return "after the imports of the program: " + "\n".join(_filled(line, facts) for line in edit.lines)
    if edit.environment:
        return "set " + ", ".join(f"{_filled(each, facts)}={_filled(edit.environment[each], facts)}"
                                  for each in edit.environment)  # fmt: skip
    given = ", ".join(f"{name}={_filled(text, facts)}" for name, text in edit.keywords.items() if text)
    return f"give the call {given}" if given else "change it by hand"


def _edits_files(edit: Edit) -> bool:
    return bool(edit.removes or edit.instead or edit.keywords or edit.within or edit.after_made or edit.lines)


def _left_to_do(change: Applied, files: _Files, program: str) -> str:
    """Make the edits of a change in the files; why one could not be made, "" if all were."""
    edit, facts = change.edit, change.facts
    is_of_calls = edit.removes or edit.instead or edit.keywords or edit.within or edit.after_made
    if not change.places or not is_of_calls:
        if not edit.lines:
            return "its place in the program is not known"
        lines = [_filled(line, facts) for line in edit.lines]
        return files.edit(program, lambda file: file.add_after_imports(lines)) if program else "no script is known"
    why = ""
    for name, line in dict.fromkeys((each[0], each[1]) for each in change.places):
        why = files.edit(name, lambda file, line=line: _edit_at(file, line, edit, facts)) or why  # type: ignore[misc]
    return why


def _edit_at(file: SourceEdits, line: int, edit: Edit, facts: Mapping[str, Any]) -> None:
    """Make the edit at a line of a file."""
    if edit.removes or edit.instead:
        _replace(file, line, edit)
    elif edit.keywords:
        call = file.tree.call(line, (*edit.calls, *edit.keywords_of))
        wanted = next(
            (edit.keywords_of[each] for each in edit.keywords_of if file.tree.is_named(call.func, (each,))), None
        )
        filled = {name: _filled(text, facts) for name, text in (wanted or edit.keywords).items()}
        file.set_arguments(call, filled, () if wanted else edit.positional)
    elif edit.within:
        context = _filled(edit.within, facts)
        file.put_within(file.tree.statement_at(line), context)
        _import_torch(file, context)
    else:
        statement, called = file.tree.made(line, str(facts.get("module", "")))
        lines = [_filled(each, {**facts, "called": called}) for each in edit.after_made]
        file.add_after(statement, lines)
        _import_torch(file, *lines)


def _replace(file: SourceEdits, line: int, edit: Edit) -> None:
    call = file.tree.call(line, edit.calls)
    statement = file.tree.statement(call)
    if edit.removes and getattr(statement, "value", None) is call and type(statement).__name__ == "Expr":
        file.remove(statement)
    elif edit.instead:
        file.replace_call(call, edit.instead)
        _import_torch(file, edit.instead)
    else:
        raise CannotEditError("what the call returns is used")


def _import_torch(file: SourceEdits, *texts: str) -> None:
    if any("torch." in text for text in texts) and not file.tree.binds("torch"):
        file.add_after_imports(["import torch"])


def _filled(text: str, facts: Mapping[str, Any]) -> str:
    return text.format_map(_Facts(facts))


class _Facts(dict[str, Any]):
    """Facts of a change; a name that is none stays as it is in the text: `{was}`."""

    def __missing__(self, name: str) -> str:
        return "{" + name + "}"


class _Files:
    """The files that are edited, each parsed once; a change is made to a file as a whole, or not at all."""

    def __init__(self, read: Callable[[str], str]) -> None:
        self._read = read
        self._texts: dict[str, str] = {}
        self._edits: dict[str, list[Callable[[SourceEdits], None]]] = {}

    def edit(self, name: str, act: Callable[[SourceEdits], None]) -> str:
        """Make an edit beside those that were made; why it cannot be made, "" if it was."""
        try:
            text = self._texts.setdefault(name, self._read(name)) if name not in self._texts else self._texts[name]
            acts = [*self._edits.get(name, ()), act]
            _edited(text, acts)
        except (OSError, ValueError) as error:
            return f"{Path(name).name}: {getattr(error, 'strerror', None) or error}"
        self._edits[name] = acts
        return ""

    def edited(self) -> list[tuple[str, str, str]]:
        """Name, old text and new text of each file."""
        return [(name, self._texts[name], _edited(self._texts[name], acts)) for name, acts in self._edits.items()]


def _edited(text: str, acts: Sequence[Callable[[SourceEdits], None]]) -> str:
    file = SourceEdits(SourceTree(text))
    for act in acts:
        act(file)
    return file.edited()


def _read(name: str) -> str:
    with Path(name).open(encoding="utf-8", newline="") as file:
        return file.read()


def _diff(name: str, old: str, new: str, root: Path) -> str:
    """The unified diff of a file, with its name as `git apply` wants it."""
    path = Path(name)
    shown = path.relative_to(root).as_posix() if path.is_relative_to(root) else os.fspath(path).lstrip("/")
    lines = difflib.unified_diff(_lines(old), _lines(new), f"a/{shown}", f"b/{shown}")
    return "".join(line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}" for line in lines)


def _lines(text: str) -> list[str]:
    """Lines with their ends, which are line feeds alone: a text may hold others."""
    return [line + "\n" for line in text.split("\n")[:-1]] + ([last] if (last := text.rpartition("\n")[2]) else [])
