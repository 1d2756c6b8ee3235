"""What is recorded, the most valuable first: parts of tasks, each a process of its own."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from tests.zoo.catalogue import Program, programs

ROOT: Final = Path(__file__).resolve().parents[2]

MAX_PART_S: Final = 480
"""Seconds that a part takes at most."""

NO_CUDA: Final = "no CUDA device"

_PROGRAMS: Final = "tools.gpu.programs"
_ZOO_SHARE: Final = 20
"""Programs of the zoo that are recorded."""

_FAULTS: Final = ROOT / "tests" / "faults" / "programs"
_NOT_ON_A_DEVICE: Final = ("ddp", "needless_contiguous")
"""How the names of programs begin that are not run here: several processes over gloo, and what a device does not do."""


@dataclass(frozen=True)
class Setting:
    """How the tasks run.

    Attributes:
        device: of torch.
        small: the programs take little: a test that they run.
    """

    device: str
    small: bool = False


@dataclass(frozen=True)
class Task:
    """One process.

    Attributes:
        part: the part that it belongs to.
        name: unique in its part.
        command: of Python: a module and its arguments, of which `{out}` is the task's folder and `{device}` the device.
        seconds: after which it is ended.
        needs: modules without which it is skipped.
        cuda: it needs a CUDA device.
    """

    part: str
    name: str
    command: tuple[str, ...]
    seconds: int
    needs: tuple[str, ...] = ()
    cuda: bool = False

    @property
    def key(self) -> str:
        """What selects it."""
        return f"{self.part}/{self.name}"

    def arguments(self, setting: Setting, out: Path) -> list[str]:
        """The command line."""
        small = ["--small"] if setting.small and self.command[0] in _CAN_BE_SMALL else []
        words = [word.format(out=out, device=setting.device) for word in self.command]
        seconds = ["0.02" if setting.small and word == _CALIBRATION_S else word for word in words]
        return [sys.executable, "-W", "ignore", "-m", *seconds, *small]

    def missing(self, setting: Setting) -> str:
        """Why it is skipped; "" if it is not."""
        if self.cuda and not setting.device.startswith("cuda"):
            return NO_CUDA
        lacking = _lacking(self.needs)
        return f"without {', '.join(lacking)}" if lacking else ""


def _lacking(needs: Sequence[str]) -> list[str]:
    return [name for name in needs if find_spec(name) is None]


_CALIBRATION_S: Final = "0.5"
_PAIRS: Final = "tests.faults.programs"
_FLOORS: Final = "benchmarks.floor_cases"


def tasks() -> Iterator[Task]:
    """All of them, in the order in which they run and are kept."""
    yield Task("selftest", "selftest", ("kinetoscope.record.selftest",), 120)
    yield _own("tutorial", 300)
    yield _own("graphs", 120, cuda=True)
    yield _own("memory", 120, cuda=True)
    yield _own("compiled", 240)
    yield Task("calibration", "calibration", ("kinetoscope.record.calibration", "{device}", _CALIBRATION_S), 180)
    yield Task("floors", "floors", (_FLOORS, "{out}", "--device", "{device}"), 180)
    yield _own("nccl", 120, cuda=True)
    yield _own("overhead", 120)
    for name in pairs():
        yield Task("promises", name, (_PAIRS, name, "{out}", "--rounds", "5", "--device", "{device}"), 90)
    for program in zoo():
        command = (f"{_PROGRAMS}.zoo", program.name, "{out}", "--device", "{device}")
        yield Task("zoo", program.name, command, 120, _needs(program))


def _own(name: str, seconds: int, *, cuda: bool = False) -> Task:
    return Task(name, name, (f"{_PROGRAMS}.{name}", "{out}", "--device", "{device}"), seconds, cuda=cuda)


_CAN_BE_SMALL: Final = frozenset({_FLOORS, _PAIRS}) | frozenset(
    f"{_PROGRAMS}.{name}" for name in ("tutorial", "graphs", "memory", "compiled", "nccl", "overhead", "zoo")
)


def pairs() -> list[str]:
    """Programs with one thing wrong, and their twins: what only a device shows first."""
    here = sorted(file.stem for file in _FAULTS.glob("*.py") if "\nCODE, " in file.read_text("utf-8"))
    return [*on_device(), *(name for name in here if not name.startswith(_NOT_ON_A_DEVICE))]


def on_device() -> tuple[str, ...]:
    """Those that a CPU shows nothing of."""
    return tuple(_literal(_FAULTS / "on_device.py", "NAMES"))


def zoo() -> list[Program]:
    """Programs of the zoo that run in one process, of each framework in turn.

    Those whose frameworks are here come first, and of them those with a twin, as promises are held against these.
    """
    alone = sorted((each for each in programs() if each.ranks == 1), key=lambda each: (not each.rules, each.name))
    families = Counter[str]()
    turns = []
    for each in alone:
        turns.append((families[each.family], each.name, each))
        families[each.family] += 1
    turns.sort(key=lambda turn: (len(_lacking(_needs(turn[2]))) > 0, *turn[:2]))
    return [each for _, _, each in turns][:_ZOO_SHARE]


def _needs(program: Program) -> tuple[str, ...]:
    """What a program says that it needs beyond torch, and what it imports beside: NumPy need not be there."""
    imported = set[str]()
    for statement in ast.walk(ast.parse(program.file.read_text("utf-8"))):
        if isinstance(statement, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in statement.names}
        elif isinstance(statement, ast.ImportFrom) and statement.module:
            imported.add(statement.module.partition(".")[0])
    more = imported - sys.stdlib_module_names - {"torch", *program.needs}
    return (*program.needs, *sorted(more))


def _literal(file: Path, name: str) -> Any:
    """The value of a name of a module, which is not imported; {} if it has none."""
    for node in ast.parse(file.read_text("utf-8")).body:
        targets: Sequence[Any] = getattr(node, "targets", ()) or (getattr(node, "target", None),)
        if any(getattr(target, "id", "") == name for target in targets):
            return ast.literal_eval(node.value)  # type: ignore[attr-defined]
    return {}


def selected(words: Sequence[str], first: str = "") -> list[Task]:
    """Those whose part or `part/name` is among the words, or all; from the first one of this name on.

    Raises:
        ValueError: a word names nothing.
    """
    every = list(tasks())
    names = [(each.part, each.key) for each in every]
    if unknown := [word for word in (*words, *filter(None, [first])) if not any(word in each for each in names)]:
        parts = dict.fromkeys(each.part for each in every)
        raise ValueError(f"no such part: {', '.join(unknown)}; there are {', '.join(parts)}, and part/name of each")
    begin = next((place for place, each in enumerate(names) if first in each), 0)
    return [task for task in every[begin:] if not words or task.part in words or task.key in words]
