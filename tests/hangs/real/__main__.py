"""Real hangs and what `kinetoscope hang` says of them: `python -m tests.hangs.real [--times N] [CAUSE ...]`.

Of each cause N jobs with other ranks, steps and sizes; a line for each, and at the end how many were named rightly, and
how many wrongly as sure. `--keep DIR` keeps the folders of the runs; `--again DIR` asks about those of an earlier call.
A job mostly waits for time to pass, so `--beside N` has N of them at once.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.hangs.real.planted import FAULTS, Planted, planted, run


def verdicts_of(folder: Path) -> list[dict[str, Any]]:
    """The verdicts, the first cause first; none where nothing was left."""
    if not (folder / "hang").is_dir():
        return []
    command = [sys.executable, "-m", "kinetoscope", "hang", str(folder / "hang"), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        found = json.loads(done.stdout)
    except ValueError:
        return [{"cause": "unreadable", "certainty": "", "ranks": "", "line": done.stderr.strip()[-200:]}]
    names = [column["name"] for column in found["columns"]]
    return [dict(zip(names, row, strict=True)) for row in found["rows"]]


def ranks_of(text: str | None) -> set[int]:
    """`0, 2-4` as numbers."""
    ranks: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:\s*[-–]\s*(\d+))?", text or ""):
        ranks |= {*range(int(first), int(last or first) + 1)}
    return ranks


def is_right(what: Planted, found: list[dict[str, Any]]) -> bool:
    """Whether the first cause is the planted one, at its rank."""
    fault = FAULTS[what.cause]
    if not found:
        return not fault.is_hang
    if not fault.is_hang and found[0]["cause"] == "no hang":
        return True
    ranks = ranks_of(found[0]["ranks"])
    is_tie = what.world == 2 and found[0]["cause"].startswith("different")  # of two that differ nobody knows which
    allowed = {what.rank, what.other} if fault.both or is_tie else {what.rank}
    is_there = bool(ranks) and (ranks <= allowed or fault.among)
    return found[0]["cause"] in fault.causes and (is_there or "unknown" in fault.causes)


def asked(folder: Path, what: Planted) -> tuple[bool, bool]:
    """Ask about a run, and print what comes: whether it is right, and whether it is wrong and sure."""
    found = verdicts_of(folder)
    right = is_right(what, found)
    first = found[0] if found else {"cause": "nothing was left", "certainty": "", "ranks": "", "line": ""}
    said = f"{first['cause']} ({first['certainty']}) at {first['ranks']} {first.get('line') or ''}"
    truth = f"{what.cause} at {what.rank} (with {what.other}) of {what.world}, step {what.step}"
    sys.stdout.write(f"{'right' if right else 'WRONG'}  {truth}: {said}  {folder}\n")
    sys.stdout.flush()
    return right, not right and first["certainty"] == "sure"


def run_and_asked(folder: Path, what: Planted) -> tuple[bool, bool]:
    """Run a job, and ask about it."""
    run(what, folder)
    return asked(folder, what)


def main() -> int:
    """Run them, or ask again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("causes", nargs="*", metavar="CAUSE")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--most", type=int, default=8, help="ranks")
    parser.add_argument("--beside", type=int, default=1, help="jobs at once")
    parser.add_argument("--keep", metavar="DIR")
    parser.add_argument("--again", metavar="DIR")
    args = parser.parse_args()
    outcomes = []
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(args.keep or scratch)
        if args.again:
            for truth in sorted(Path(args.again).glob("*/truth.json")):
                outcomes.append(asked(truth.parent, Planted(**json.loads(truth.read_text()))))
        else:
            seeds = range(args.first, args.first + args.times)
            jobs = [planted(cause, seed, args.most) for seed in seeds for cause in args.causes or FAULTS]
            folders = [place / f"{number}-{what.cause.replace(' ', '-')}" for number, what in enumerate(jobs)]
            with ThreadPoolExecutor(args.beside) as pool:
                outcomes.extend(pool.map(run_and_asked, folders, jobs))
    right, wrong = sum(each for each, _ in outcomes), sum(each for _, each in outcomes)
    sys.stdout.write(f"{right} of {len(outcomes)} right, {wrong} wrong and sure\n")
    return 0 if right == len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
