"""Kinetoscope and its peers on the same files, one after the other, in one table.

    make bench-peers                                   three files: 56 MB, 1 GB, and 1 GB of distinct names and shapes
    make bench-peers ARGS="--trace T --only small"     the trace T alone
    make bench-peers ARGS="--trace T"                  and the large files, made of T
    make bench-peers ARGS="--tracelens CHECKOUT"       with TraceLens, which PyPI does not have
    make bench-peers ARGS="--trace T --out benchmarks/measured/peers.json"   what README and its picture show

Peers are installed from PyPI, each into an environment of its own under benchmarks/.peers. Each measurement is a
process of its own, of which time, processor time and the peak of memory are taken, with its children; the stages in it
are timed by itself. A peer that cannot be installed, fails, or meets a limit stands in the table with the reason.

"whole" is a process from its start to its first answer. "warm" is the second time in one process, of small files:
modules are imported, what is compiled is loaded, and the file is in the system's cache, but the trace is read anew. The
last column divides the wall time by ours. The file is in the system's cache for all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks import data
from benchmarks.generate import parsed_size
from benchmarks.measure import Measured, measured
from benchmarks.peer_tools import OURS, PEERS, Peer, install, last_line, version
from benchmarks.peer_work import MARK
from benchmarks.run import RESULTS, machine

_COMMAND = "import sys; from kinetoscope.cli import main; sys.exit(main())"  # what the script `kinetoscope` does
_SMALL = 56_000_000
_STRINGS, _SHAPES = 500_000, 2000


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: seconds, MB of JSON a second, bytes; None where there is nothing to say."""

    file: str
    tool: str
    what: str
    wall: float | None = None
    cpu: float | None = None
    rate: float | None = None
    peak: int | None = None
    ratio: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class File:
    """What is read, and the limits for each process that reads it."""

    name: str
    path: Path
    size: int
    timeout: float
    memory: int

    @property
    def again(self) -> bool:
        """Whether it is small enough to be read twice by everybody."""
        return self.size < 2 * _SMALL


def rows(file: File, reasons: dict[str, str]) -> Iterator[Row]:
    """All measurements on one file, ours first; `reasons` says of each peer why it is left out, or ""."""
    show = [sys.executable, "-c", _COMMAND, "show", "step-breakdown", str(file.path)]
    whole = _row(file, OURS.label, "whole: show step-breakdown", _measured(file, show))
    warm = [row for row in _run(file, OURS) if row.what.startswith("warm") or row.note]
    ours = {row.what: row.wall for row in warm if not row.note}
    if not whole.note:
        ours["whole"] = whole.wall
    for row in [whole, *warm]:
        yield _beside(row, ours)
    for peer in PEERS:
        if reasons[peer.key]:
            yield Row(file.name, peer.label, "", note=reasons[peer.key])
            continue
        for row in _run(file, peer):
            yield _beside(row, ours)


def _run(file: File, peer: Peer) -> Iterator[Row]:
    """One tool: the whole process; where the file is small, what loading and answering take the second time."""
    again = peer.repeats and file.again
    if not again or peer is not OURS:
        yield _row(file, peer.label, f"whole: load + {peer.answer}", _measured(file, peer.command(file.path)))
    if again:
        run = _measured(file, [*peer.command(file.path), "again"])
        lines = [line.removeprefix(MARK) for line in run.out.splitlines() if line.startswith(MARK)]
        took = {stage["stage"]: stage["wall"] for stage in map(json.loads, lines)}
        if run.status != "done":
            yield _row(file, peer.label, "warm: load", run)
            return
        load = took["again load"]
        yield Row(file.name, peer.label, "warm: load", load, rate=file.size / 1e6 / load)
        if "again breakdown" in took:
            both = load + took["again breakdown"]
            yield Row(file.name, peer.label, "warm: load + answer", both, rate=file.size / 1e6 / both)


def _measured(file: File, command: Sequence[str | Path]) -> Measured:
    return measured(command, timeout=file.timeout, memory=file.memory)


def _row(file: File, tool: str, what: str, run: Measured) -> Row:
    row = Row(file.name, tool, what, run.wall, run.cpu, peak=run.peak)
    if run.status == "done":
        return replace(row, rate=file.size / 1e6 / run.wall)
    limits = {"timeout": f"ended after {file.timeout:.0f} s", "memory": f"ended at {file.memory / 1e9:.1f} GB"}
    return replace(row, note=limits.get(run.status) or f"failed: {last_line(run.error)}")


def _beside(row: Row, ours: dict[str, float | None]) -> Row:
    """The row with its ratio to ours: whole processes to whole ones, loads to loads."""
    base = ours.get("whole" if row.what.startswith("whole") else row.what)
    if base is None or row.wall is None or row.note:
        return row
    return replace(row, ratio=row.wall / base)


_HEAD = f"{'':<9} {'tool':<18} {'what':<38} {'wall s':>8} {'CPU s':>8} {'MB/s':>7} {'peak MB':>8} {'× ours':>7}"


def text(row: Row) -> str:
    """A line of the table."""

    def cell(value: float | None, spec: str) -> str:
        return "" if value is None else format(value, spec)

    numbers = f"{cell(row.wall, '.2f'):>8} {cell(row.cpu, '.2f'):>8} {cell(row.rate, ',.0f'):>7}"
    peak = cell(None if row.peak is None else row.peak / 1e6, ",.0f")
    line = f"{row.file:<9} {row.tool:<18} {row.what:<38} {numbers} {peak:>8} {cell(row.ratio, ',.1f'):>7}"
    return f"{line}  {row.note}".rstrip()


def files(given: argparse.Namespace) -> Iterator[File]:
    """The files to read, made when their turn comes."""
    suffix = ".json" if given.plain else ".json.gz"
    source = given.trace or data.source()
    varied = {"distinct_strings": _STRINGS, "distinct_shapes": _SHAPES}
    makers: dict[str, Callable[[], Path]] = {
        "small": lambda: data.ranked(given.trace) if given.trace else data.large(source, suffix, size=_SMALL),
        "large": lambda: data.large(source, suffix, size=given.size),
        "varied": lambda: data.large(source, suffix, size=given.size, **varied),
    }
    for name in given.only:
        path = makers[name]()
        yield File(name, path, data.json_size(path), given.timeout, given.memory)


def report(chosen: Iterable[File], reasons: dict[str, str], sizes: dict[str, int]) -> list[Row]:
    """Measures and prints, line by line; `sizes` gets the bytes of JSON of each file."""
    found = []
    for file in chosen:
        sizes[file.name] = file.size
        print(f"{file.name}: {file.path.name}, {file.size / 1e6:,.0f} MB of JSON\n{_HEAD}", flush=True)
        for row in rows(file, reasons):
            found.append(row)
            print(text(row), flush=True)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trace", type=Path, help="the small file, and what the others are made of")
    parser.add_argument("--size", type=parsed_size, default=10**9, help="JSON in the large files (1GB)")
    parser.add_argument("--only", nargs="+", choices=("small", "large", "varied"), default=["small", "large", "varied"])
    parser.add_argument("--plain", action="store_true", help="make files that are not compressed")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one process (600)")
    parser.add_argument("--memory", type=parsed_size, default=total * 4 // 5, help="for one process (4/5 of all)")
    parser.add_argument("--tracelens", metavar="SPEC", help="what pip installs as TraceLens: a folder or a URL")
    parser.add_argument("--out", type=Path, help="where the table is kept (benchmarks/results)")
    given = parser.parse_args(arguments)
    peers = [_from(peer, given.tracelens) for peer in PEERS]
    reasons = {peer.key: install(peer) for peer in peers}
    versions = {peer.label: version(peer) for peer in peers if not reasons[peer.key]}
    print("\n".join(f"{label}: {numbers}" for label, numbers in versions.items()))
    _warm_up()
    sizes: dict[str, int] = {}
    found = report(files(given), reasons, sizes)
    kept = given.out or RESULTS / f"peers-{time.strftime('%Y%m%d-%H%M%S')}.json"
    kept.parent.mkdir(exist_ok=True)
    facts = {"date": time.strftime("%Y-%m-%d"), "machine": machine(), "versions": versions, "sizes": sizes}
    kept.write_text(json.dumps({**facts, "rows": [asdict(row) for row in found]}, indent=1) + "\n")
    print(f"kept in {kept}")
    return 0


def _from(peer: Peer, spec: str | None) -> Peer:
    """The peer as pip can install it, if the user says from where."""
    return replace(peer, requirements=(spec,), unavailable="") if spec and peer.key == "tracelens" else peer


def _warm_up() -> None:
    """Compiles what is compiled once after an installation."""
    measured(OURS.command(data.DEMO))


if __name__ == "__main__":
    sys.exit(main())
