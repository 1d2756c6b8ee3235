"""The runs that can be asked about: those below some folders, and nothing else of this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kinetoscope.compare.trials.tried import folder_of
from kinetoscope.errors import NotFoundError, UsageError
from kinetoscope.integrations.assistant.wording import brief
from kinetoscope.model.job import Job
from kinetoscope.server.query import numbers
from kinetoscope.server.runs.run import Run
from kinetoscope.server.runs.workspace import Workspace

MAX_UNLISTED_RUNS: Final = 4
"""Open runs that are not in the list."""


class Folders:
    """The runs below some folders.

    Args:
        folders: where they are.
        allow_run: whoever asks may have programs run, whose traces are written below the first folder.

    Raises:
        NotFoundError: one of the folders is not there.
    """

    def __init__(self, folders: Sequence[str], *, allow_run: bool = False) -> None:
        for each in folders:
            if not Path(each).exists():
                raise NotFoundError(f"{each}: no such folder")
        self.allow_run = allow_run
        self._roots = tuple(Path(each).resolve() for each in folders)
        self._workspace = Workspace(tuple(str(each) for each in self._roots))
        self._others: dict[Path, Workspace] = {}

    def job(self, given: Mapping[str, Any], name: str = "path") -> Job:
        """The run that is asked about, and only the ranks that are.

        Raises:
            KinetoscopeError: there is none of this name, it lies elsewhere, or it cannot be read.
        """
        run = self._listed(given[name])
        ranks = numbers("ranks", given["ranks"]) if given.get("ranks") else None
        job = run.part(ranks, None)
        for source in job.sources:
            self._require_inside(source.url, given[name])
        return job

    def runs(self) -> list[Run]:
        """The runs below the folders, newest first; links that lead out of them are no runs."""
        return [run for run in self._workspace.runs().runs if self._is_whole_inside(run)]

    def shown(self, run: Run) -> str:
        """The name of a run, which unlike its path tells nothing about the machine."""
        return str(run.files.name)

    @property
    def first(self) -> Path:
        """The first folder."""
        return self._roots[0]

    def trials(self) -> list[str]:
        """The folders of `kinetoscope try` below the folders, as `place` takes them, by their newest runs."""
        folders = (folder_of(run.files.path) for run in self.runs())
        inside = (each for each in dict.fromkeys(folders) if each is not None and self._is_inside(each))
        return [
            next(str(each.relative_to(root)) for root in self._roots if root in (each, *each.parents))
            for each in inside
        ]

    def place(self, name: str) -> Path:
        """The file or folder that a path below the folders means.

        Raises:
            KinetoscopeError: there is none, or it lies elsewhere.
        """
        return self._inside(name)

    def _listed(self, name: str) -> Run:
        listed = self.runs()
        for run in listed:
            if name in (run.id, self.shown(run), run.files.path):
                return run
        path = self._inside(name)
        same = [run for run in listed if Path(run.files.path) == path]
        return same[0] if same else self._opened(path, name)

    def _inside(self, name: str) -> Path:
        """The place that a path means, with links followed."""
        if "\0" in name or "://" in name:
            raise UsageError(f"{brief(name)}: only paths below the served folders can be asked about")
        for root in self._roots:
            place = (root / name).resolve()
            if not self._is_inside(place):
                continue
            if place.exists():
                return place
        if all(not self._is_inside((root / name).resolve()) for root in self._roots):
            raise UsageError(f"{brief(name)}: only paths below the served folders can be asked about")
        raise NotFoundError(f"{brief(name)}: no such run; list_runs names them")

    def _opened(self, path: Path, name: str) -> Run:
        """A run that the list does not have as one, such as a single file of several."""
        if path not in self._others:
            while len(self._others) >= MAX_UNLISTED_RUNS:
                self._others.pop(next(iter(self._others))).close()
            self._others[path] = Workspace((str(path),))
        listed = self._others[path].runs()
        if not listed.runs:
            raise NotFoundError(f"{brief(name)}: no traces there; list_runs names the runs")
        if len(listed.runs) > 1:
            names = ", ".join(brief(self.shown(run)) for run in listed.runs[:5])
            raise UsageError(f"{brief(name)} holds {len(listed.runs)} runs ({names}, …): ask about one; see list_runs")
        return listed.runs[0]

    def _is_inside(self, path: str | Path) -> bool:
        place = Path(os.path.realpath(path))
        return any(place == root or root in place.parents for root in self._roots)

    def _is_whole_inside(self, run: Run) -> bool:
        return all(self._is_inside(file.candidate.url) for file in run.files.files)

    def _require_inside(self, path: str, name: str) -> None:
        if not self._is_inside(path):
            raise UsageError(f"{brief(name)}: it leads out of the served folders")
