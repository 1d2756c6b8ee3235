"""`python -m tests.fuzz [COUNT] [FIRST_SEED]`: documents from so many seeds, put to every verb on all cores."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections import Counter

from tests.fuzz.running import one
from tests.fuzz.verbs import QUESTIONS, Wrong


def main(count: int, first: int) -> int:
    """Run them, and print what is wrong with how to run it alone; 1 if anything is."""
    began, bad = time.monotonic(), 0
    kinds: Counter[str] = Counter()
    seeds = range(first, first + count)
    with multiprocessing.get_context("spawn").Pool(min(os.cpu_count() or 1, count)) as pool:
        for number, (seed, done, wrong) in enumerate(pool.imap_unordered(one, seeds), 1):
            bad += bool(wrong)
            for each in wrong:
                kinds[_kind(each)] += 1
                if kinds[_kind(each)] <= 3:  # one cause, many documents
                    sys.stdout.write(f"\nseed {seed} ({', '.join(done)}), {each.question}: {each.how}\n")
                    sys.stdout.write(f"  alone: python -m tests.fuzz 1 {seed}\n")
                    sys.stdout.flush()
            if number % 200 == 0:
                sys.stdout.write(f"{number:,} documents, {time.monotonic() - began:.0f} s, {bad} bad\n")
                sys.stdout.flush()
    for kind, times in kinds.most_common():
        sys.stdout.write(f"{times:6} × {kind}\n")
    sys.stdout.write(f"{count:,} documents × {len(QUESTIONS)} questions: {bad} bad; {time.monotonic() - began:.0f} s\n")
    return 1 if bad else 0


def _kind(wrong: Wrong) -> str:
    """What is the same in all documents that one mistake spoils: the place, or the end of the message."""
    places = [line.strip() for line in wrong.how.splitlines() if line.lstrip().startswith("File ")]
    return (places[-1] if places else f"{wrong.question}: {wrong.how[:80]}").strip()


if __name__ == "__main__":
    words = [int(word) for word in sys.argv[1:]]
    sys.exit(main(*(words + [200, 1][len(words) :])))
