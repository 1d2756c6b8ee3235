# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""A program of the zoo on the device: recorded with its fault and without, and both timed in turns without a recorder.

The programs are scripts for a CPU. So torch's default device is set before them, which slows each call of torch a
little, in both twins alike; a script that does not run so runs as it is, and frameworks find the device themselves.
"""

from __future__ import annotations

import contextlib
import io
import runpy
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from tests.zoo.catalogue import programs
from tools.gpu.programs.asked import Asked, asked
from tools.gpu.running import why_ended
from tools.gpu.tasks import ROOT

_WARM: Final = 4
"""Steps of a run that do not count."""

_SCRIPT: Final = (
    "import runpy, sys; from tools.gpu.programs.zoo import place; place(sys.argv[1]); "
    "sys.argv = sys.argv[2:]; runpy.run_path(sys.argv[0], run_name='__main__')"
)


def place(device: str) -> None:
    """Have tensors made on a device, but for what optimizers count steps with: that belongs on the host."""
    if device == "cpu":
        return
    torch.set_default_device(device)
    register_optimizer_step_pre_hook(lambda *_: torch.set_default_device("cpu"))
    register_optimizer_step_post_hook(lambda *_: torch.set_default_device(device))


def recorded(told: Asked, script: Path, twin: str, device: str) -> bool:
    """Record a twin as a user does; whether it ended well."""
    program = [sys.executable, "-W", "ignore", "-c", _SCRIPT, device, str(script), *_arguments(twin)]
    command = [sys.executable, "-m", "kinetoscope", "record", "-o", str(told.out / twin), "--run", twin, "--", *program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    (told.out / f"{twin}.txt").write_text(done.stdout[-4000:] + done.stderr[-8000:], "utf-8")
    return not done.returncode and any((told.out / twin).glob("*.pt.trace.json.gz"))


def _arguments(twin: str) -> list[str]:
    return ["--fixed"] if twin == "fixed" else []


def timed(script: Path, twin: str, wait: Callable[[], Any]) -> float:
    """Seconds of an optimizer's step and what is between two: the mean of a run of the script in this process."""
    ends: list[float] = []

    def stepped(*_: Any) -> None:
        if len(ends) == _WARM:
            wait()
        ends.append(time.perf_counter())

    handle = register_optimizer_step_post_hook(stepped)
    try:
        with _as_script([str(script), *_arguments(twin)]):
            runpy.run_path(str(script), run_name="__main__")
    finally:
        handle.remove()
    wait()
    count = len(ends) - 1 - _WARM
    return (time.perf_counter() - ends[_WARM]) / count if count > 0 else 0.0


@contextlib.contextmanager
def _as_script(arguments: list[str]) -> Iterator[None]:
    """As if the interpreter had been started with these; what it prints is not of interest, nor is its exit code 0."""
    before = sys.argv
    sys.argv = arguments
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.argv = before


def main() -> None:
    """Times and where it ran go to `measured.json`."""
    told = asked(named=True)
    program = next(each for each in programs() if each.name == told.name)
    script = program.file
    device = told.device
    if not recorded(told, script, "faulty", device):
        device = "cpu"
        if not recorded(told, script, "faulty", device):
            sys.exit(why_ended(told.out / "faulty.txt"))
    measured: dict[str, Any] = {"what": program.what, "rules": program.rules, "default_device": device}
    told.tell(**measured)
    if not program.rules:
        return
    recorded(told, script, "fixed", device)
    place(device)
    times: dict[str, list[float]] = {"faulty": [], "fixed": []}
    for _ in range(1 if told.small else 3):
        for twin, each in times.items():
            each.append(timed(script, twin, told.wait))
    told.tell(**measured, plain=times)


if __name__ == "__main__":
    main()
