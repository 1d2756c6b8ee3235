"""Programs with trials put into them, as `kinetoscope try` does it, and what the trials say of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.record.jobs import Done, run_text
from tests.record.processes import environment, run

_PUT_IN = """
import gc, json, runpy, sys
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from kinetoscope.record.trials import by_name
from kinetoscope.record.trials.trial import Change
gc.unfreeze()  # what the process that forks the jobs has frozen
names, acting, extensions, file = json.loads(sys.argv.pop(1))
trials = by_name(extensions)
changes = [Change(trials[name], acts=name in acting) for name in names or trials]
for change in changes:
    change.trial.put_in(change)
stepped = []
def first(*_):
    if not stepped:
        stepped.append(True)
        for change in changes:
            change.first_step_ended()
register_optimizer_step_post_hook(first)
sys.argv[0] = file
program = runpy.run_path(file, run_name="__main__")
print("NOTES", json.dumps({change.trial.name: change.note() for change in changes}), flush=True)
"""


@dataclass(frozen=True)
class Attached:
    """A program that ended: what each trial notes, and what the program printed."""

    notes: dict[str, dict[str, Any]]
    out: str
    err: str

    def lines(self, name: str) -> list[int]:
        """The lines of the program that a trial applies to."""
        return [line for _, line in self.notes[name]["places"]]

    def said(self, name: str) -> tuple[int, list[str], str]:
        """How often it applies, why it was refused, and why it was not in effect."""
        note = self.notes[name]
        return note["count"], list(note["refused"]), note["ineffective"]


def attached(
    program: str,
    folder: Path,
    names: Sequence[str] = (),
    *,
    acts: Sequence[str] | None = None,
    extend: str = "",
    before: str = "",
) -> Attached:
    """Run a program with these trials, all if none is named; all of them act but where `acts` says which do.

    before: Python that runs before they are put in.
    """
    file = folder / "program.py"
    file.write_text(program)
    acting = list(names if acts is None else acts)
    given = json.dumps([list(names), acting, [extend] if extend else [], str(file)])
    done: Done = run_text(before + _PUT_IN, [given], 400)
    assert done.code == 0, done.err[-3000:] + done.out[-1000:]
    before, _, notes = done.out.partition("NOTES ")
    return Attached(json.loads(notes), before, done.err)


def ranks(program: str, folder: Path, names: Sequence[str]) -> list[dict[str, dict[str, Any]]]:
    """Run a program as two ranks with these trials acting, and what they note in each."""
    file, script = folder / "program.py", folder / "put_in.py"
    file.write_text(program)
    script.write_text(_PUT_IN)
    given = json.dumps([list(names), list(names), [], str(file)])
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    # each rank writes to a file of its own: what two print at a time may end up in one line
    command += ["--redirects=1", f"--log-dir={folder / 'log'}", str(script), given]
    done = run(command, env=environment(CUDA_VISIBLE_DEVICES=""))
    assert done.returncode == 0, done.stderr[-3000:]
    outputs = (file.read_text() for file in sorted((folder / "log").rglob("stdout.log")))
    return [json.loads(out.partition("NOTES ")[2]) for out in outputs]
