"""Which fault is planted where, what must be said of it, and the job that shows it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

PROGRAM: Final = Path(__file__).parent / "program.py"

HANG_AFTER: Final = 4.0
"""Seconds after which a step hangs; before the first one it is five times as much."""

TIMEOUT: Final = 14.0
"""Seconds after which gloo gives up."""

PATIENCE: Final = 300.0


@dataclass(frozen=True)
class Fault:
    """A fault.

    Attributes:
        causes: of `model.hangs.verdict`, any of which names it.
        both: the other rank may be named as well.
        among: others may be named as well: gloo aborts a process that receives more than it expects, and of two ranks
            that are left, nobody can say which is the one that differs.
        is_hang: the job does not end by itself.
    """

    causes: tuple[str, ...]
    both: bool = False
    among: bool = False
    is_hang: bool = True


FAULTS: Final[dict[str, Fault]] = {
    "skipped collective": Fault(("skipped call", "different collective")),
    "other shape": Fault(("different sizes", "rank ended"), among=True),
    "other type": Fault(("different types", "rank ended"), among=True),
    "other operation": Fault(("different collective",)),
    "other root": Fault(("different root", "unknown", "device or network", "skipped call"), both=True),
    "order of groups": Fault(("order of groups",), both=True),
    "killed": Fault(("rank ended",)),
    "os._exit": Fault(("rank ended",)),
    "exception swallowed": Fault(("skipped call", "different collective")),
    "host asleep": Fault(("host stalled",)),
    "exhausted loader": Fault(("rank ended",)),
    "unmatched send": Fault(("unmatched send",), both=True),
    "unmatched receive": Fault(("unmatched receive",), both=True),
    "slow rank": Fault(("no hang", "slow rank"), is_hang=False),
    "checkpoint": Fault(("checkpoint",)),
}


@dataclass(frozen=True)
class Planted:
    """What is planted in one job.

    Attributes:
        cause: name of the fault.
        world: ranks.
        rank: where it is.
        other: a rank that it has to do with.
        step: of it.
        size: of a tensor.
        steps: that the job would take.
        timeout: of gloo, in seconds.
        pause: how long a host is asleep, in seconds.
    """

    cause: str
    world: int
    rank: int
    other: int
    step: int
    size: int
    steps: int = 12
    timeout: float = TIMEOUT
    pause: float = 2 * TIMEOUT


def planted(cause: str, seed: int, most: int = 8) -> Planted:
    """What a seed plants; small jobs more often than large ones, which take a while to start."""
    chance = random.Random(f"{cause} {seed}")
    world = min(chance.choice((2, 2, 3, 3, 4, 4, 5, 8)), most)
    rank, other = chance.sample(range(world), 2)
    is_hang = FAULTS[cause].is_hang
    return Planted(
        cause, world, rank, other, chance.randrange(3, 9), chance.randrange(8, 4096),
        pause=2 * TIMEOUT if is_hang else 1.6 * HANG_AFTER,
    )  # fmt: skip


def run(what: Planted, folder: Path) -> subprocess.CompletedProcess[str]:
    """The job under `kinetoscope record --hang`; what is planted lies in the folder as `truth.json`."""
    plan = {name: value for name, value in asdict(what).items() if name != "world"}
    record = [sys.executable, "-m", "kinetoscope", "record", "--hang", "--hang-after", f"{HANG_AFTER}s", "-o"]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(what.world)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "truth.json").write_text(json.dumps(asdict(what)))
    done = subprocess.run(
        [*record, str(folder), "--", *launcher, str(PROGRAM), json.dumps(plan)],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=PATIENCE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    (folder / "printed.txt").write_text(done.stdout + done.stderr)
    return done
