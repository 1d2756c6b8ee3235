"""The runs of a folder of trials, each a line of JSON as soon as it ends, so that an interrupted try goes on."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from kinetoscope.compare.trials.runs import TimedRun
from kinetoscope.errors import InputError

FILE: Final = "runs.jsonl"

Key = tuple[Any, ...]


class RunStore:
    """The runs that were made, by what they were runs of.

    Args:
        folder: where the file is.
        about: what all runs share; runs of another program or with other steps are not gone on with.

    Raises:
        InputError: there are runs already and `resume` is not wanted, they are of something else, or the folder cannot
            be written.
    """

    def __init__(self, folder: Path, about: dict[str, Any], *, resume: bool) -> None:
        self._path = folder / FILE
        self._runs: dict[str, TimedRun] = {}
        first = json.dumps(about)
        lines = self._lines()
        if lines and not resume:
            raise InputError(f"{folder} holds a try already; --resume goes on with it, -o DIR names another folder")
        if lines and lines[0] != first:
            raise InputError(f"{folder} holds a try of another program or with other options; -o DIR names another one")
        for line in lines[1:]:
            try:
                key, run = json.loads(line)
            except ValueError:  # the machine went down while it was written
                continue
            self._runs[json.dumps(key)] = TimedRun(**{name: _tuple(value) for name, value in run.items()})
        if not lines:
            self._write(first)

    @property
    def count(self) -> int:
        """How many runs there are."""
        return len(self._runs)

    @property
    def seconds(self) -> float:
        """How long they took."""
        return sum(run.seconds for run in self._runs.values())

    def get(self, key: Key) -> TimedRun | None:
        """The run, if it was made before."""
        return self._runs.get(json.dumps(key))

    def add(self, key: Key, run: TimedRun) -> None:
        """Keep a run.

        Raises:
            InputError: it cannot be written.
        """
        self._runs[json.dumps(key)] = run
        self._write(json.dumps([key, dataclasses.asdict(run)]))

    def _lines(self) -> Sequence[str]:
        try:
            return self._path.read_text("utf-8").splitlines()
        except OSError:
            return ()

    def _write(self, line: str) -> None:
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            raise InputError(f"{self._path}: {error.strerror or error}; what was measured before is kept") from error


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
