"""One program recorded in one way, in a process of its own, or several.

What needs torch alone runs in a fork of a process that has it, where the recorder begins as it begins in a program that
`kinetoscope record` starts. What needs more is started by the command line.
"""

from __future__ import annotations

import functools
import json
import re
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.record import jobs, processes
from tests.zoo.catalogue import Program

RUNNER: Final = Path(__file__).with_name("runner.py")
TURNS: Final = Path(__file__).with_name("turns.py")

RECORD: Final[Mapping[str, tuple[str, ...]]] = {"record": (), "record, stacks": ("with_stack", "with_flops")}
"""Options of `kinetoscope record`, which records shapes and memory unless it is asked not to."""

PROFILE: Final[Mapping[str, dict[str, Any]]] = {
    "profile": {"record_shapes": False, "profile_memory": False},
    "profile, stacks": {"with_stack": True, "with_modules": True},
}
"""Options of `kinetoscope.profile`."""

WAYS: Final = (*RECORD, *PROFILE)

_SCRIPT: Final = """
import os, sys, tempfile, types
os.environ.update(CUDA_VISIBLE_DEVICES="")
os.chdir(tempfile.mkdtemp())
sys.argv = {argv!r}
sys.path.insert(0, os.path.dirname({file!r}))
module = sys.modules["__main__"] = types.ModuleType("__main__")
module.__file__ = {file!r}
exec(compile(open({file!r}).read(), {file!r}, "exec"), vars(module))
"""

_RESULT: Final = re.compile(r"^[^\w\n]*(?:result|digest|loss)\b.*", re.MULTILINE)
_PATIENCE_S: Final = 400
_TURNS: Final = 4
_WARM: Final = 3


@dataclass(frozen=True)
class Recording:
    """What a recorded run left.

    Attributes:
        program, way, fixed: what was recorded; `fixed`: the twin.
        folder: where the traces are.
        code: how the program ended.
        said: lines of the recorder.
        result: lines of the program that say what it computed.
        errors: the end of what it wrote to its standard error.
    """

    program: Program
    way: str
    fixed: bool
    folder: Path
    code: int
    said: tuple[str, ...]
    result: tuple[str, ...]
    errors: str


def record(program: Program, way: str, folder: Path, *, fixed: bool = False) -> Recording:
    """Record it into the folder."""
    if way in PROFILE:
        done = _run(program, [str(RUNNER), str(folder), json.dumps(PROFILE[way]), str(program.file)], fixed)
    elif _needs_torch_alone(program):
        chosen = dict.fromkeys(RECORD[way], True)
        done = jobs.recorded(_script([str(program.file), *_twin(fixed)]), folder, options=chosen)
    else:
        options = [f"--{each.replace('_', '-')}" for each in RECORD[way]]
        command = [sys.executable, "-m", "kinetoscope", "record", "-o", str(folder), *options, "--"]
        done = _run(program, [str(program.file)], fixed, command)
    return Recording(program, way, fixed, folder, done.code, tuple(done.said), results(done.out), done.err[-3000:])


@functools.cache
def plain(program: Program, *, fixed: bool = False) -> tuple[str, ...]:
    """What the program says of its result when nobody records."""
    done = _run(program, [str(program.file)], fixed)
    assert done.code == 0, done.err[-3000:]
    return results(done.out)


def gain(program: Program) -> float | None:
    """Share of a step that the fix brings, without a profiler; None where nothing marks steps.

    The twins run in turns. Of each step counts the shortest of all turns: other processes make a step longer, never
    shorter. A step that is always long, as one that saves a checkpoint, keeps its weight.
    """
    runs = [_twin(fixed) for _ in range(_TURNS) for fixed in (False, True)]
    starts = [runs] if program.ranks == 1 else [[each] for each in runs]  # a rendezvous serves once
    times = [each[_WARM : program.phase] for start in starts for each in _times(program, start)]
    slow, mended = (statistics.fmean([*map(min, zip(*times[at::2], strict=False))] or [0.0]) for at in (0, 1))
    return (slow - mended) / slow if slow and mended else None


def _times(program: Program, runs: list[list[str]]) -> list[list[float]]:
    """How long each step of each run took, ns."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "times"
        done = _run(program, [str(TURNS), str(file), json.dumps(runs), str(program.file)], False)
        if done.code:
            raise RuntimeError(f"{program.name} ended with {done.code}: {done.err[-1000:]}")
        times: list[list[float]] = json.loads(file.read_text())
        return times


def results(out: str) -> tuple[str, ...]:
    """The lines that say what a program computed, in order: several processes may write in any."""
    return tuple(sorted(each.strip() for each in _RESULT.findall(out)))


def _needs_torch_alone(program: Program) -> bool:
    return not program.needs and program.ranks == 1


def _script(words: list[str]) -> str:
    return _SCRIPT.format(argv=words, file=words[0])


def _twin(fixed: bool) -> list[str]:
    return ["--fixed"] if fixed else []


def _run(program: Program, words: list[str], fixed: bool, begin: Sequence[str] = ()) -> jobs.Done:
    """Run a file with arguments, by torchrun if there are several ranks, behind the words of a command."""
    words = [*words, *_twin(fixed)]
    if _needs_torch_alone(program):
        return jobs.recorded(_script(words), None)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(program.ranks)]
    command = [*begin, sys.executable, "-W", "ignore", *(launcher if program.ranks > 1 else ()), *words]
    more = {"CUDA_VISIBLE_DEVICES": "", "TOKENIZERS_PARALLELISM": "false", "DS_ACCELERATOR": "cpu"}
    given = processes.environment(**more, HF_HUB_OFFLINE="1")
    with tempfile.TemporaryDirectory() as scratch:
        done = processes.run(command, env={**given, "TMPDIR": scratch}, cwd=scratch, timeout=_PATIENCE_S)
    return jobs.Done(done.returncode, done.stdout, done.stderr)
