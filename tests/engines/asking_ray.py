"""Asks a real Ray with two worker processes, in a process of its own; the last line it prints is JSON with the answers.

    python -m tests.engines.asking_ray FOLDER

Run it in a network namespace of its own: Ray listens on all addresses of the machine.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from kinetoscope import ANALYSES, Job, Result, read
from kinetoscope.engines.cluster import Cluster
from kinetoscope.errors import UsageError
from kinetoscope.model.analysis import Question
from tests.catalog.samples import BUNDLED
from tests.engines.questions import HALVES, WHO, added, ends_always, ends_once, halves, mistaken, refused, who


def differing(job: Job, threads: Job) -> list[str]:
    """Names of the analyses that answer them differently."""
    found = []
    for analysis in ANALYSES:
        one, other = analysis(job), analysis(threads)
        if not one.frame.equals(other.frame) or one.notes != other.notes:
            found.append(analysis.name)
    return found


def same(one: Result, other: Result) -> float:
    """The share of ranks that the same process answered for both times; a busy machine gives some to another."""
    rows = set(one.frame.iter_rows())
    return sum(row in rows for row in other.frame.iter_rows()) / len(rows)


def answers(job: Job, run: Path, folder: Path) -> dict[str, Any]:
    """What the test looks at."""
    found: dict[str, Any] = {}
    threads = read(run)
    interrupted, plain = job.map(ends_once, WHO, rank=7, mark=str(folder / "mark")), threads.map(who, WHO)
    found["was_killed"] = (folder / "mark").exists()
    found["complete"] = interrupted.frame.select("rank", "events").equals(plain.frame.select("rank", "events"))
    found["notes"] = list(interrupted.notes) == list(plain.notes)
    found["differing"] = differing(job, threads)
    sums = [each.answer(Question(halves, HALVES, combine=added)).frame["value"].item() for each in (job, threads)]
    found["sums"] = sums
    found["kept"] = max(same(job.map(who, WHO), job.map(who, WHO)) for _ in range(3))
    given_up = job.map(ends_always, WHO, rank=2)
    found["given_up"] = [note for note in given_up.notes if "died" in note]
    found["others"] = given_up.frame["rank"].to_list()
    for question in (mistaken, refused):
        try:
            replace(job, sources=job.sources[:2]).map(question, WHO)
        except (ZeroDivisionError, UsageError) as error:
            found[question.__name__] = type(error).__name__
    return found


def main(folder: Path) -> None:
    """Ask, and print."""
    run = folder / "run"
    job = read(run, engine="ray", jobs=2)
    found = answers(job, run, folder)
    ddp2 = read(BUNDLED / "ddp2", engine="ray", jobs=2)  # by the Ray that is there already
    found["ddp2"] = differing(ddp2, read(BUNDLED / "ddp2"))
    for each in (ddp2, job):
        assert isinstance(each.engine, Cluster)
        each.engine.close()
    sys.stdout.write(f"\n{json.dumps(found)}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
