"""Runs the benchmarks, each in processes of its own, and prints a table of time, rate and peak memory.

    python -m benchmarks                         all of them
    python -m benchmarks --filter gzip           those whose name has "gzip" in it
    python -m benchmarks --size 1GB --trace T    on a file of that size, made from the trace T
    python -m benchmarks --list                  their names

The numbers go to benchmarks/results as JSON too, with what they were measured on. Compare only numbers of one machine
with little else to do; the minimum says more than the median where there is other work.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.measure import Measured, measured

MODULES = ("benchmarks.bench_reading", "benchmarks.bench_analyses", "benchmarks.bench_snapshots")
RESULTS = Path(__file__).resolve().parent / "results"
_KINDS = ("time_", "peakmem_")


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One method with one case. `label` is how it is shown and filtered."""

    module: str
    owner: str
    method: str
    case: str

    @property
    def label(self) -> str:
        return f"{self.owner}.{self.method}[{self.case}]"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was measured: seconds of each sample, bytes of JSON that each read (0 if that means nothing), peak bytes."""

    label: str
    status: str
    seconds: tuple[float, ...] = ()
    size: int = 0
    peak: int = 0
    error: str = ""


def benchmarks() -> Iterator[Benchmark]:
    """All benchmarks, in the order of the modules."""
    for module in MODULES:
        for owner, thing in vars(import_module(module)).items():
            if isinstance(thing, type) and thing.__module__ == module:
                given: Any = vars(thing)["params"]
                params = given() if callable(given) else given
                methods = [name for name in vars(thing) if name.startswith(_KINDS)]
                yield from (Benchmark(module, owner, method, case) for method in methods for case in params)


def outcome(benchmark: Benchmark, repeat: int, timeout: float) -> Outcome:
    """Runs one benchmark: first what is not measured, such as making its file and compiling, then the samples."""
    prepared = _child(benchmark, "prepare", 1, timeout)
    if prepared.status != "done":
        return Outcome(benchmark.label, prepared.status, error=prepared.error)
    if benchmark.method.startswith("time_"):
        run = _child(benchmark, "time", repeat, timeout)
        if run.status != "done":
            return Outcome(benchmark.label, run.status, error=run.error)
        said = json.loads(run.out.splitlines()[-1])
        return Outcome(benchmark.label, "done", tuple(said["seconds"]), said["size"])
    runs = [_child(benchmark, "peakmem", 1, timeout) for _ in range(2)]  # the first may have to compile
    bad = next((run for run in runs if run.status != "done"), None)
    if bad is not None:
        return Outcome(benchmark.label, bad.status, error=bad.error)
    return Outcome(benchmark.label, "done", peak=min(run.peak for run in runs))


def _child(benchmark: Benchmark, task: str, repeat: int, timeout: float) -> Measured:
    words = [*asdict(benchmark).values(), task, str(repeat)]
    return measured([sys.executable, "-m", "benchmarks.child", *words], timeout=timeout)


def line(found: Outcome) -> str:
    """A row of the table."""
    if found.status != "done":
        reason = found.error.strip().splitlines()[-1:] or [""]
        return f"{found.label:<52} {found.status}: {reason[0]}"
    if not found.seconds:
        return f"{found.label:<52} {'':>9} {'':>9} {'':>9} {found.peak / 1e6:>9,.0f}"
    least, middle = min(found.seconds), statistics.median(found.seconds)
    rate = f"{found.size / 1e6 / least:,.0f}" if found.size else ""
    return f"{found.label:<52} {least:>9.3f} {middle:>9.3f} {rate:>9}"


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    cpu = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    model = next((row.partition(":")[2].strip() for row in cpu.splitlines() if row.startswith("model name")), "")
    packages = {name: version(name) for name in ("numpy", "numba", "polars", "isal")}
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load": os.getloadavg(),
        **packages,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--filter", default="", help="only benchmarks whose name has this text in it")
    parser.add_argument("--list", action="store_true", help="print the names and end")
    parser.add_argument("--repeat", type=int, default=5, help="samples of each time (5)")
    parser.add_argument("--size", default="250MB", help="JSON in the files that are read (250MB)")
    parser.add_argument("--trace", type=Path, help="trace to make the files of; by default the one of the demo")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one benchmark (600)")
    given = parser.parse_args(arguments)
    chosen = [each for each in benchmarks() if given.filter.lower() in each.label.lower()]
    if given.list:
        print("\n".join(each.label for each in chosen))
        return 0
    os.environ["KINETOSCOPE_BENCH_SIZE"] = given.size
    if given.trace is not None:
        os.environ["KINETOSCOPE_BENCH_TRACE"] = str(given.trace.resolve())
    print(f"{'':<52} {'min s':>9} {'median s':>9} {'MB/s':>9} {'peak MB':>9}")
    found = []
    for benchmark in chosen:
        found.append(outcome(benchmark, given.repeat, given.timeout))
        print(line(found[-1]), flush=True)
    RESULTS.mkdir(exist_ok=True)
    kept = RESULTS / f"{time.strftime('%Y%m%d-%H%M%S')}.json"
    facts = {"machine": machine(), "size": given.size, "trace": str(given.trace or "demo")}
    kept.write_text(json.dumps({**facts, "outcomes": [asdict(each) for each in found]}, indent=1))
    print(f"kept in {kept}")
    return 0 if all(each.status == "done" for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
