"""One program recorded in one way, in processes of its own."""

from __future__ import annotations

import functools
import json
import re
import statistics
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from tests.record import processes
from tests.zoo.catalogue import Program

RUNNER: Final = Path(__file__).with_name("runner.py")

RECORD: Final[Mapping[str, tuple[str, ...]]] = {"record": (), "record, stacks": ("--with-stack", "--with-flops")}
"""Options of `kinetoscope record`, which records shapes and memory unless it is asked not to."""

PROFILE: Final[Mapping[str, dict[str, Any]]] = {
    "profile": {"record_shapes": False, "profile_memory": False},
    "profile, stacks": {"with_stack": True, "with_modules": True},
}
"""Options of `kinetoscope.profile`."""

WAYS: Final = (*RECORD, *PROFILE)

_RESULT: Final = re.compile(r"^\W*(?:result|digest|loss)\b.*", re.MULTILINE)
_TURNS: Final = 3
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
    if way in RECORD:
        command = [sys.executable, "-m", "kinetoscope", "record", "-o", str(folder), *RECORD[way], "--"]
        command += _launched(program, [str(program.file)])
    else:
        command = _launched(program, [str(RUNNER), str(folder), json.dumps(PROFILE[way]), str(program.file)])
    done = _run([*command, *_twin(fixed)], folder)
    begin = "kinetoscope: "
    said = [line.removeprefix(begin) for line in done.stderr.splitlines() if line.startswith(begin)]
    return Recording(
        program, way, fixed, folder, done.returncode, tuple(said), results(done.stdout), done.stderr[-3000:]
    )


@functools.cache
def plain(program: Program, *, fixed: bool = False) -> tuple[str, ...]:
    """What the program says of its result when nobody records."""
    with tempfile.TemporaryDirectory() as folder:
        done = _run([*_launched(program, [str(program.file)]), *_twin(fixed)], Path(folder))
    assert done.returncode == 0, done.stderr[-3000:]
    return results(done.stdout)


def gain(program: Program) -> float | None:
    """Share of a step that the fix brings, without a profiler; None where no optimizer marks steps.

    The twins run in turns. Of each run counts the median step, of each twin its best run.
    """
    best: dict[bool, float] = {}
    for _ in range(_TURNS):
        for fixed in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "ends"
                command = _launched(program, [str(RUNNER), str(file), "null", str(program.file)])
                done = _run([*command, *_twin(fixed)], Path(folder))
                ends = json.loads(file.read_text()) if done.returncode == 0 and file.exists() else []
            took = [end - begin for begin, end in pairwise(ends[_WARM:])]
            if not took:
                return None
            best[fixed] = min(best.get(fixed, float("inf")), statistics.median(took))
    return (best[False] - best[True]) / best[False]


def results(out: str) -> tuple[str, ...]:
    """The lines that say what a program computed, in order: several processes may write in any."""
    return tuple(sorted(each.strip() for each in _RESULT.findall(out)))


def _launched(program: Program, words: list[str]) -> list[str]:
    command = [sys.executable, "-W", "ignore"]
    if program.ranks > 1:
        command += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(program.ranks)]
    return command + words


def _twin(fixed: bool) -> list[str]:
    return ["--fixed"] if fixed else []


def _run(command: list[str], folder: Path) -> Any:
    given = processes.environment(
        CUDA_VISIBLE_DEVICES="", TOKENIZERS_PARALLELISM="false", DS_ACCELERATOR="cpu", HF_HUB_OFFLINE="1"
    )
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        return processes.run(command, env={**given, "TMPDIR": scratch}, cwd=scratch)
