"""Which programs there are, and what their authors say of them; none is imported for that."""

from __future__ import annotations

import ast
import functools
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.record import processes

_BUILT: Final = ("timm", "torchvision")
"""Packages that do not import beside a torch of another build."""

FOLDER: Final = Path(__file__).with_name("programs")


@dataclass(frozen=True)
class Program:
    """A script and its `ABOUT`.

    Attributes:
        name: of its file.
        file: where it is.
        what: what it is, in a phrase.
        needs: packages beyond torch.
        step: what its own step is.
        steps: how many it takes; None where no optimizer marks them.
        slow: what is slow in it, by the source; None where nothing is.
        rules: those that may rightly name it.
        true: what is true of it, written by someone who has read the source and the summary.
        ranks: processes that torchrun starts; 1 is run without it.
        phase: steps after which it is not slow any more, and a recording of its beginning says nothing of it.
    """

    name: str
    file: Path
    what: str
    needs: tuple[str, ...]
    step: str
    steps: int | None
    slow: str | None
    rules: tuple[str, ...]
    true: str
    ranks: int = 1
    phase: int | None = None

    @property
    def family(self) -> str:
        """The framework that it is of; plain torch for none."""
        return self.needs[0] if self.needs else "torch"

    @property
    def absent(self) -> tuple[str, ...]:
        """What it needs that is not installed, or is not built for this torch."""
        return tuple(each for each in ("torch", *self.needs) if not _is_here(each))


@functools.cache
def _is_here(package: str) -> bool:
    if importlib.util.find_spec(package) is None:
        return False
    return package not in _BUILT or processes.run([sys.executable, "-c", f"import {package}"]).returncode == 0


@functools.cache
def programs() -> tuple[Program, ...]:
    """All, in the order of their names."""
    return tuple(_program(file) for file in sorted(FOLDER.glob("*.py")))


def _program(file: Path) -> Program:
    for statement in ast.parse(file.read_text("utf-8")).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "ABOUT":
            about: dict[str, Any] = ast.literal_eval(statement.value)
            return Program(name=file.stem, file=file, **about)
    raise ValueError(f"{file} has no ABOUT")
