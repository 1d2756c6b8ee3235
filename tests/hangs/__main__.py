"""Plants causes into jobs, and shows what the verdict says: `python -m tests.hangs [--ranks 64] [--times N] [CAUSE...]`."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tests.hangs.causes import chosen
from tests.hangs.scoring import Score, score


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("causes", nargs="*")
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    everything: list[Score] = []
    print(f"{'cause':20} right wrong unknown wrongly-sure    s  else said")
    for name in chosen(options.causes):
        scores = []
        for seed in range(options.seed, options.seed + options.times):
            scores.append(each := score(name, options.ranks, seed))
            if options.verbose and each.mark != "right":
                print(f"  {seed}: {each.planted}\n    {each.form}\n    {each.said}", file=sys.stderr)
        print(f"{name:20} {_row(scores)}", flush=True)
        everything += scores
    print(f"{'all':20} {_row(everything)}")
    return sum(each.mark != "right" for each in everything)


def _row(scores: list[Score]) -> str:
    marks = Counter(each.mark for each in scores)
    sure = sum(each.is_wrongly_sure for each in scores)
    said = Counter(f"{each.said.cause} ({each.said.certainty})" for each in scores if each.mark != "right")
    slowest = max(each.seconds for each in scores)
    rest = ", ".join(f"{count} {text}" for text, count in said.items())
    return f"{marks['right']:5} {marks['wrong']:5} {marks['unknown']:7} {sure:12} {slowest:5.2f}  {rest}"


if __name__ == "__main__":
    sys.exit(min(main(), 1))
