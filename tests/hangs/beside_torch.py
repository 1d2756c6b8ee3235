"""What torch's analyser says of the same jobs: `python -m tests.hangs.beside_torch [--ranks 8] [--times N] [CAUSE...]`.

The dumps are written as torch names them, a prefix and the rank, and read by
`python -m torch.distributed.flight_recorder.fr_trace`, which needs tabulate: without it a mismatch ends in a NameError.
"""

from __future__ import annotations

import argparse
import pickle
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from kinetoscope.model.hangs.verdict import verdicts
from tests.hangs.causes import Planted, chosen
from tests.hangs.scoring import is_right, job

ANALYSER = ("-m", "torch.distributed.flight_recorder.fr_trace")
PREFIX = "nccl_trace_rank_"


def write(folder: Path, dumps: dict[int, dict[str, object]]) -> None:
    """Dumps as torch writes them: pickles of protocol 2, whose name ends with the rank."""
    for rank, dump in dumps.items():
        (folder / f"{PREFIX}{rank}").write_bytes(pickle.dumps(dump, protocol=2))


def said_by_torch(folder: Path, planted: Planted) -> str:
    """What the analyser says: which ranks it names as missing or as culprits, and the kinds of mismatches."""
    command = [sys.executable, *ANALYSER, str(folder), "--allow-incomplete-ranks", "-p", PREFIX]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    text = ran.stdout + ran.stderr
    if ran.returncode:
        return f"crash ({text.strip().splitlines()[-1].partition(':')[0]})"
    named = {*map(int, re.findall(r"Culprit rank (\d+)", text))}
    for ranks in re.findall(r"missing ranks: {([\d, ]*)}", text):
        named |= {*map(int, ranks.split(", "))}
    kinds = " ".join(sorted({*re.findall(r"Error type: (\w+)", text)})).lower()
    if not named:
        return "cannot decide" if "cannot decide" in text else "nothing"
    is_there = bool(named & {*planted.ranks})
    right = "the rank" if named <= {*planted.ranks, *planted.others} else f"the rank and {len(named) - 1} more"
    return f"{right if is_there else 'other ranks'} {kinds or 'missing'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("causes", nargs="*")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--times", type=int, default=1)
    options = parser.parse_args()
    print(f"{'cause':20} {'torch':70} Kinetoscope")
    for name in chosen(options.causes):
        torch: Counter[str] = Counter()
        ours: Counter[str] = Counter()
        for seed in range(options.times):
            planted, form, recorded = job(name, options.ranks, seed)
            with tempfile.TemporaryDirectory() as folder:
                write(Path(folder), recorded.dumps)
                torch[said_by_torch(Path(folder), planted)] += 1
            said = verdicts(*recorded.tables())[0]
            ours["right" if is_right(planted, form, said) else f"wrong: {said.cause}"] += 1
        print(f"{name:20} {_text(torch):70} {_text(ours)}", flush=True)


def _text(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {text}" for text, count in counts.most_common())


if __name__ == "__main__":
    main()
