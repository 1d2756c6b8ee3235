"""From one rank to ten thousand: how cost and memory grow with ranks, on simulated jobs.

    python -m benchmarks.scale                     all of it: about five minutes and 1.5 GB on disk
    python -m benchmarks.scale --filter match      some of it
    python -m benchmarks.scale --list              the names

Each line is one process of its own, with what it must not exceed where the project set itself a limit. Files are kept
in .data/ and made once.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.data import FOLDER
from benchmarks.measure import Measured, measured
from benchmarks.run import RESULTS, machine

_MB = 1e6
_LARGE = 64, 20_000_000
_RANKS = 2_000


@dataclass(frozen=True, slots=True)
class Row:
    """One line: what was done, seconds of it alone, peak bytes, a remark, and whether it kept its limit."""

    name: str
    seconds: float
    peak: int
    remark: str = ""
    kept: bool | None = None


def threads() -> Iterator[Row]:
    """64 ranks of 20 MB: two threads beside one."""
    folder = large()
    took = {}
    for jobs in (1, 2):
        found, said = _run("ask", folder, "collectives", jobs)
        took[jobs] = said["seconds"]
        gain = took[1] / took[jobs]
        kept = found.peak <= 1.5e9 and (jobs == 1 or gain >= 1.4)
        yield Row(f"64 ranks × 20 MB, threads: {jobs}", took[jobs], found.peak, f"{gain:.2f} × as fast as one", kept)


def memory() -> Iterator[Row]:
    """The same, by number of ranks: does the peak grow?"""
    folder = large()
    for ranks in (4, 16, 64):
        some = _some(folder, ranks)
        found, said = _run("ask", some, "temporal_breakdown", 2)
        yield Row(f"{ranks} ranks × 20 MB, memory", said["seconds"], found.peak, "", found.peak <= 1.5e9)


def small() -> Iterator[Row]:
    """2,000 small ranks, from the model of the job to the rank that makes others wait."""
    folder = FOLDER / "scale-small"
    shutil.rmtree(folder, ignore_errors=True)
    found, said = _run("simulate", folder, _RANKS)
    late, size = said["late"], said["bytes"] / _MB
    yield Row(f"{_RANKS:,} ranks simulated", said["seconds"], found.peak, f"{size:,.0f} MB", said["seconds"] <= 60)
    for analysis in ("collectives", "stragglers"):
        found, said = _run("ask", folder, analysis, 2)
        remark = f"{said['rows']:,} rows" + (f", rank {late} is late" if analysis == "stragglers" else "")
        yield Row(f"{_RANKS:,} ranks, {analysis}", said["seconds"], found.peak, remark, found.peak <= 1.5e9)


def reduce() -> Iterator[Row]:
    """The frames of 10,000 ranks, 100 collectives each, become one answer."""
    for ranks in (1_000, 10_000):
        found, said = _run("reduce", ranks, 100)
        size = said["bytes"] / _MB
        kept = said["seconds"] <= 10 and found.peak <= 2e9
        yield Row(f"{ranks:,} ranks × 100 collectives, reduce", said["seconds"], found.peak, f"{size:,.0f} MB", kept)


def match() -> Iterator[Row]:
    """Which calls are the same collective: 64 ranks, more and more calls."""
    before = 0.0
    for calls in (2_500, 10_000, 40_000):
        found, said = _run("match", 64, calls)
        rate = said["seconds"] / said["calls"] * 1e9
        kept = said["unmatched"] == 0 and (said["seconds"] <= 1 if calls == 10_000 else None)
        before = before or rate
        remark = f"{rate:,.0f} ns a call, {rate / before:.2f} × the first"
        yield Row(f"64 ranks × {calls:,} collectives, match", said["seconds"], found.peak, remark, kept)


TASKS: dict[str, Callable[[], Iterator[Row]]] = {
    "threads": threads, "memory": memory, "small": small, "reduce": reduce, "match": match,
}  # fmt: skip


def large() -> Path:
    """The folder with 64 ranks of 20 MB."""
    from tests.simulator import Model, simulate

    ranks, size = _LARGE
    folder = FOLDER / "scale-large"
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        model = Model(ranks=ranks, layers=12, kernels=12, ranks_per_host=8, steps=1, clock_offset=10_000_000)
        one = simulate(model, folder)
        simulate(replace(model, steps=-(-size // one.files[0].stat().st_size)), folder)
        (folder / "done").touch()
    return folder


def _some(folder: Path, ranks: int) -> Path:
    """A folder with the first ranks of another."""
    part = FOLDER / f"scale-large-{ranks}"
    part.mkdir(exist_ok=True)
    for rank in range(ranks):
        name = f"rank{rank}.pt.trace.json"
        (part / name).unlink(missing_ok=True)
        (part / name).hardlink_to(folder / name)
    return part


def _run(*words: object) -> tuple[Measured, dict[str, Any]]:
    """A task in a process of its own, and what it said."""
    found = measured([sys.executable, "-m", "benchmarks.scale_work", *map(str, words)])
    if found.status != "done":
        raise SystemExit(f"{' '.join(map(str, words))}: {found.status}\n{found.error}")
    said: dict[str, Any] = json.loads(found.out.splitlines()[-1])
    return found, said


def line(row: Row) -> str:
    """As it is printed."""
    verdict = {True: "kept", False: "NOT KEPT", None: ""}[row.kept]
    return f"{row.name:<46} {row.seconds:>8.2f} s {row.peak / _MB:>7,.0f} MB  {verdict:<8} {row.remark}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--filter", default="", help="only those whose name has this text in it")
    parser.add_argument("--list", action="store_true", help="print the names and end")
    given = parser.parse_args(arguments)
    chosen = {name: task for name, task in TASKS.items() if given.filter in name}
    if given.list:
        print("\n".join(f"{name:<10}{task.__doc__}" for name, task in chosen.items()))
        return 0
    FOLDER.mkdir(exist_ok=True)
    rows = []
    for task in chosen.values():
        for row in task():
            rows.append(row)
            print(line(row), flush=True)
    RESULTS.mkdir(exist_ok=True)
    kept = RESULTS / f"scale-{time.strftime('%Y%m%d-%H%M%S')}.json"
    kept.write_text(json.dumps({"machine": machine(), "rows": [asdict(row) for row in rows]}, indent=1))
    print(f"kept in {kept}")
    return int(any(row.kept is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
