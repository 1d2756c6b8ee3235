"""Results of `kinetoscope try`, drawn: in each state that a face has to show."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from kinetoscope.compare.trials.tried import FILE, TrialRow, Tried
from kinetoscope.notes import Note
from tests.conftest import OURS

MS = 1_000_000
HOSTILE = "\x1b[31m`<script>alert(1)</script>` | **bold** \u202e [a](http://x.example) @all"
PATCH = """--- a/train.py
+++ b/train.py
@@ -12,3 +12,3 @@
-loader = DataLoader(data, batch_size=64)
+loader = DataLoader(data, batch_size=64, num_workers=1, persistent_workers=True)
 model = Net()
# OMP_NUM_THREADS=1 python train.py
"""

TOGETHER = TrialRow(
    trial="workers+threads",
    title="load batches in workers, with one thread",
    outcome="kept",
    why="the step is shorter in each round",
    rounds=5,
    base_step=round(84.5 * MS),
    step=round(31.2 * MS),
    change=-0.631,
    change_low=-0.66,
    change_high=-0.60,
    samples_per_second=2051.0,
    codes=("DATA001",),
    promised_low=round(28.4 * MS),
    promised_high=round(53.6 * MS),
    recorded_step=90 * MS,
    loss="equal",
    memory=1_200_000_000,
    edit="give the loader workers",
    trace="traces/workers+threads",
)
FUSED = replace(
    TOGETHER,
    trial="fused",
    title="one kernel for all parameters",
    on_top_of=("workers", "threads"),
    pays_after=412,
    base_step=round(31.2 * MS),
    step=round(28.9 * MS),
    change=-0.074,
    change_low=-0.082,
    change_high=-0.066,
    samples_per_second=2215.0,
    codes=("HOST004",),
    promised_low=0,
    promised_high=round(3.1 * MS),
    recorded_step=90 * MS,
    loss="close",
    loss_difference=4e-7,
    edit="fused=True",
    trace="traces/fused",
)
NO_GAIN = replace(
    FUSED,
    trial="gc",
    title="collect no garbage inside steps",
    outcome="no gain",
    why="not faster in each of 3 rounds",
    pays_after=None,
    on_top_of=("workers", "threads", "fused"),
    rounds=3,
    base_step=round(28.9 * MS),
    step=round(28.7 * MS),
    change=-0.006,
    change_low=-0.021,
    change_high=0.008,
    codes=(),
    promised_low=None,
    promised_high=None,
    edit="",
)
SLOWER = replace(
    NO_GAIN,
    trial="bf16",
    outcome="slower",
    why="slower by 5 % or more in both rounds",
    rounds=2,
    step=round(40.1 * MS),
    change=0.388,
    change_low=0.2,
    change_high=0.6,
    loss="different",
    loss_difference=7e-3,
)
DIFFERS = replace(
    SLOWER,
    trial="channels_last",
    outcome="loss differs",
    why="the loss differs by 0.7 % in step 1",
    rounds=5,
    step=round(20 * MS),
    change=-0.3,
    change_low=-0.32,
    change_high=-0.28,
)
FAILED = TrialRow(
    trial="compile",
    title="compile the model",
    outcome="failed",
    why="torch._inductor.exc.InvalidCxxCompiler: no working C++ compiler was found",
    codes=("HOST001",),
    promised_low=MS,
    promised_high=9 * MS,
    recorded_step=90 * MS,
)
REFUSED = TrialRow(
    trial="pin_memory", title="pin", outcome="refused", why="an iterable data set may repeat its data in each worker"
)
NOT_ALLOWED = TrialRow(
    trial="batch-size",
    title="larger batches",
    outcome="not allowed",
    why="it changes the training; --allow batch-size tries it",
)
NOTHING = tuple(
    TrialRow(trial=name, title=name, outcome="nothing to change") for name in ("set_to_none", "anomaly", "inference")
)
NO_DEVICE = tuple(TrialRow(trial=name, title=name, outcome="no device") for name in ("tf32", "cudnn_benchmark"))

EMPTY = Tried(command=("python", "train.py"))
KEPT = Tried(
    command=("python", "train.py", "--batch-size", "64"),
    trials=(TOGETHER, FUSED, NO_GAIN, SLOWER, DIFFERS, FAILED, REFUSED, NOT_ALLOWED, *NOTHING, *NO_DEVICE),
    kept=("workers", "threads", "fused"),
    step=round(84.5 * MS),
    step_after=round(28.9 * MS),
    change=-0.658,
    change_low=-0.68,
    change_high=-0.64,
    samples_per_second=757.4,
    samples_after=2215.0,
    memory=1_100_000_000,
    memory_after=1_200_000_000,
    steps=38,
    noise=0.021,
    runs=46,
    seconds=171.0,
    loss="equal from run to run",
    patch=PATCH,
    notes=(Note("NO_SEED", "The program sets no seed."),),
    trace="traces/baseline",
    edits=(
        (
            "SYNC001",
            "`.item()` waits for the device in each step",
            "-    total += loss.item()\n+    total += loss.detach()",
        ),
        ("HOST007", "The program prints in each step", ""),
    ),
)
NONE_KEPT = replace(
    KEPT,
    trials=(replace(NO_GAIN, on_top_of=(), base_step=KEPT.step, step=KEPT.step - MS), *NOTHING),
    kept=(),
    step_after=None,
    change=None,
    change_low=None,
    change_high=None,
    samples_after=None,
    memory_after=None,
    patch="",
    edits=(),
)
LOSS_DIFFERS = replace(NONE_KEPT, trials=(replace(DIFFERS, on_top_of=()), *NOTHING))
ALL_FAILED = replace(NONE_KEPT, trials=(FAILED, *NOTHING))
NONE_APPLIES = replace(NONE_KEPT, trials=NOTHING, notes=())
NOT_MEASURED = replace(
    EMPTY, trials=NOTHING, stopped="two runs of the program as it is differ by 31 %, so no gain could be seen", runs=2
)
STOPPED = replace(
    KEPT,
    stopped="Ctrl-C",
    samples_after=None,
    memory_after=None,
    step_after=None,
    change=None,
    change_low=None,
    change_high=None,
)
ONE_KEPT = replace(
    KEPT,
    trials=(TOGETHER, *NOTHING),
    kept=("workers",),
    step_after=TOGETHER.step,
    change=-0.631,
    change_low=-0.66,
    change_high=-0.6,
    by_calls=True,
    ranks=2,
)
HOSTILE_NAMES = replace(
    KEPT,
    trials=tuple(replace(row, trial=HOSTILE + row.trial, title=HOSTILE, why=HOSTILE) for row in KEPT.trials),
    kept=(HOSTILE,),
    command=(HOSTILE,),
    loss=HOSTILE,
    patch=HOSTILE + "\n```\n# heading",
    edits=((HOSTILE, HOSTILE, HOSTILE),),
    notes=(Note("X", HOSTILE),),
    stopped=HOSTILE,
)

STATES = {
    "empty": EMPTY,
    "kept": KEPT,
    "none kept": NONE_KEPT,
    "loss differs": LOSS_DIFFERS,
    "all failed": ALL_FAILED,
    "none applies": NONE_APPLIES,
    "not measured": NOT_MEASURED,
    "stopped": STOPPED,
    "one kept": ONE_KEPT,
    "hostile": HOSTILE_NAMES,
}
"""All states by name."""


def try_folder(folder: Path, tried: Tried = KEPT) -> Path:
    """A folder as `kinetoscope try` leaves it: the result, and the recorded windows of three runs."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(tried.to_json(), encoding="utf-8")
    windows = {"baseline": "dataloader", "workers+threads": "dataloader_workers", "fused": "mlp"}
    for name, trace in windows.items():
        (folder / "traces" / name).mkdir(parents=True)
        shutil.copy(OURS / f"{trace}.pt.trace.json.gz", folder / "traces" / name / "trace.pt.trace.json.gz")
    return folder
