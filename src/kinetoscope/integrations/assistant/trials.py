"""Trials for an assistant: which there are, what came of those in a folder, and, where it is allowed, one more try."""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from kinetoscope.errors import UsageError
from kinetoscope.integrations.assistant.runs import Folders
from kinetoscope.integrations.assistant.wording import MAX_LEVELS, MAX_TEXT_CHARACTERS, clean, table

_MAX_PATCH_LINES: Final = 400

_running: Final = threading.Lock()
"""Held while a program runs: two at once would measure each other."""


def list_trials(folders: Folders, given: Mapping[str, Any]) -> dict[str, Any]:
    """The rows of a result; without a path the trials that there are, and where results lie."""
    from kinetoscope.compare.trials.tried import FILE, load

    if given.get("path"):
        place = folders.place(given["path"])
        file = folders.place(f"{given['path']}/{FILE}") if place.is_dir() else place
        return _answer(load(file), given)
    return {"trials": [*map(_about, _known().values())], "results": folders.trials()}


def try_change(folders: Folders, given: Mapping[str, Any]) -> dict[str, Any]:
    """Run a command with changes and without, and answer as `list_trials` does.

    Raises:
        KinetoscopeError: it cannot be run, measures nothing, or another one runs.
    """
    from kinetoscope.trying.session import try_changes

    only = tuple(filter(None, (each.strip() for each in given.get("only", "").split(","))))
    try:
        command = shlex.split(given["command"])
    except ValueError as error:
        raise UsageError(f"command is no command line: {error}") from error
    if not _running.acquire(blocking=False):
        raise UsageError("another program is being tried; ask again when it is done")
    try:
        name = f"tries/{time.strftime('%Y%m%d-%H%M%S')}"
        seconds = float(given.get("seconds", 600))
        tried = try_changes(command, folder=str(folders.first / name), only=only, budget=seconds)
    finally:
        _running.release()
    return {"path": name, **_answer(tried, given)}


def _known() -> Mapping[str, Any]:
    from kinetoscope.record.trials import by_name

    return by_name(())


def _about(trial: Any) -> dict[str, Any]:
    about = {
        "name": trial.name,
        "to": trial.title,
        "answers": list(trial.answers),
        "effect_on_results": trial.effect,
        "needs": trial.needs,
        "only_if_allowed": trial.allow,
    }
    return {key: value for key, value in about.items() if value not in ("", [])}


def _answer(tried: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The gain in a sentence, a row for each trial, how to keep it."""
    from kinetoscope.pages.answers.trial_words import sentence

    patch = [clean(line, MAX_LEVELS) for line in tried.patch.splitlines()[:_MAX_PATCH_LINES]]
    edits = [
        {"code": clean(code, 20), "title": clean(title, MAX_TEXT_CHARACTERS), "change": clean(change, MAX_LEVELS)}
        for code, title, change in tried.edits[:20]
    ]
    answer = {
        "answer": clean(sentence(tried), MAX_LEVELS),
        "kept": [clean(name, MAX_TEXT_CHARACTERS) for name in tried.kept[:50]],
        "patch": patch,
        "only_by_edit": edits,
        "stopped": clean(tried.stopped, MAX_LEVELS),
    }
    return {**{key: value for key, value in answer.items() if value not in ("", [])}, **table(tried.result, given)}
