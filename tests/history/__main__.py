"""Scores of the answers about whole runs.

    python -m tests.history [--times N] [--seed S]

draws forty runs with something planted in them and ten healthy ones, N times, from seed S on.
"""

from __future__ import annotations

import argparse

from tests.history.cases import healthy_runs, planted_runs
from tests.history.scored import score


def main() -> int:
    """Print what went wrong, and how often."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--all", action="store_true", help="print what is right, too")
    given = parser.parse_args()
    worst = 0
    for seed in range(given.seed, given.seed + given.times):
        scores = [score(run, seed * 1000 + place) for place, run in enumerate(planted_runs(seed))]
        healthy = [score(run, seed * 1000 + 500 + place) for place, run in enumerate(healthy_runs(seed))]
        for each in [*scores, *healthy]:
            if given.all or not each.is_caused:
                print(each)
        there, caused = sum(each.is_there for each in scores), sum(each.is_caused for each in scores)
        alarms = sum(not each.is_there for each in healthy)
        print(f"seed {seed}: {there} of {len(scores)} at their place, {caused} with their cause, {alarms} false alarms")
        worst = max(worst, len(scores) - there, alarms)
    return worst


if __name__ == "__main__":
    raise SystemExit(bool(main()))
