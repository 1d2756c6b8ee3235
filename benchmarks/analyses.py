"""Each analysis on a large trace, beside what HTA and the TensorBoard plugin have for the same question.

    python -m benchmarks.analyses                          a million events, made of the demo's trace
    python -m benchmarks.analyses --trace T                made of the trace T
    python -m benchmarks.analyses --curve 1 2 5 10 20      ours alone on so many million events: does it grow in line?
    python -m benchmarks.analyses --no-peers               ours alone

All on one core, on a trace that is loaded already; of ours the time of a first answer, with everything that it needs of
the trace derived anew. Peers are those of `benchmarks.peers`, in environments of their own.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks import data
from benchmarks.analysis_work import MARK
from benchmarks.measure import measured
from benchmarks.peer_tools import PEERS, install, last_line, version
from benchmarks.run import RESULTS, machine

_WORK = Path(__file__).with_name("analysis_work.py")
_MILLION = 1_000_000

SAME_QUESTION = {
    "get_temporal_breakdown": "temporal_breakdown",
    "get_gpu_kernel_breakdown": "kernel_kinds",
    "get_idle_time_breakdown": "idle_breakdown",
    "get_comm_comp_overlap": "overlap",
    "get_queue_length_summary": "queue_length",
    "get_queue_length_time_series": "queue_length_series",
    "get_memory_bw_summary": "memory_bandwidth",
    "get_memory_bw_time_series": "memory_bandwidth_series",
    "get_cuda_kernel_launch_stats": "launches",
    "get_gpu_user_annotation_breakdown": "annotations",
    "get_gpu_kernels_with_user_annotations": "annotations",
    "critical_path_analysis": "critical_path",
    "get_frequent_cuda_kernel_sequences": "kernel_sequences",
    "get_aten_op_kernels_and_delay": "operator_launch_delay",
}
"""Which of our analyses answers what a function of HTA does. Its critical path is of one step, ours of all."""


@dataclass(frozen=True, slots=True)
class Took:
    """One analysis of one tool: seconds, or the reason why there are none; a count where that is the answer."""

    name: str
    seconds: float | None = None
    error: str = ""
    count: int = 0


def took(tool: str, python: Path, path: Path, *, repeat: int, timeout: float) -> list[Took]:
    """All analyses of a tool on one trace, in a process of its own."""
    run = measured([python, _WORK, tool, path, str(repeat)], timeout=timeout)
    lines = [line.removeprefix(MARK) for line in run.out.splitlines() if line.startswith(MARK)]
    found = [Took(**json.loads(line)) for line in lines]
    if run.status != "done":
        found.append(Took("(the rest)", error=f"{run.status}: {last_line(run.error)}"))
    return found


def beside(ours: Sequence[Took], peers: dict[str, list[Took]]) -> list[str]:
    """The table: a line for each analysis of ours, with what peers took for the same question."""
    seconds = {each.name: each.seconds for each in ours}
    lines = [f"{'analysis':<28} {'s':>8}   {'peer':<42} {'s':>8} {'× ours':>8}"]
    for each in ours:
        if each.name == "events":
            continue
        lines.append(f"{each.name:<28} {_seconds(each)}")
        for tool, others in peers.items():
            for other in others:
                if SAME_QUESTION.get(other.name) == each.name:
                    ratio = f"{other.seconds / each.seconds:>8,.1f}" if other.seconds and each.seconds else ""
                    lines.append(f"{'':<28} {'':>8}   {f'{tool} {other.name}':<42.42} {_seconds(other)} {ratio}")
    known = {name for name in SAME_QUESTION if SAME_QUESTION[name] in seconds}
    for tool, others in peers.items():
        for other in others:
            if other.name not in known:
                lines.append(f"{'':<28} {'':>8}   {f'{tool} {other.name}':<42.42} {_seconds(other)}")
    return lines


def _seconds(each: Took) -> str:
    return f"{each.seconds:>8.3f}" if each.seconds is not None else f"{'':>8} {each.error}"


def curve(given: argparse.Namespace) -> dict[str, list[Took]]:
    """Ours on traces of growing length, and nanoseconds an event: a flat line of them is linear growth."""
    found = {}
    for millions in given.curve:
        path = data.large(given.trace, ".json.gz", repeat=_copies(given.trace, millions * _MILLION))
        found[f"{millions:g}M"] = took("kinetoscope", Path(sys.executable), path, repeat=1, timeout=given.timeout)
        print(f"measured {millions:g} million events", file=sys.stderr)
    counts = {size: next(each.count for each in rows if each.name == "events") for size, rows in found.items()}
    print(f"{'ns an event':<28} " + " ".join(f"{f'{count:,}':>12}" for count in counts.values()))
    for name in [each.name for each in next(iter(found.values())) if each.name != "events"]:
        cells = []
        for size, rows in found.items():
            spent = next((each.seconds for each in rows if each.name == name), None)
            cells.append(f"{'' if spent is None else format(spent / counts[size] * 1e9, '.0f'):>12}")
        print(f"{name:<28} " + " ".join(cells))
    return found


def _copies(trace: Path, events: int) -> int:
    """How often the trace is repeated to have about so many events."""
    import kinetoscope

    return max(1, round(events / len(kinetoscope.read(trace, jobs=1).trace())))


def compare(given: argparse.Namespace) -> dict[str, list[Took]]:
    """Ours and the peers on about a million events."""
    path = data.large(given.trace, ".json.gz", repeat=_copies(given.trace, given.events))
    ours = took("kinetoscope", Path(sys.executable), path, repeat=given.repeat, timeout=given.timeout)
    peers: dict[str, list[Took]] = {}
    for peer in PEERS if given.peers else ():
        if peer.key not in ("hta", "tb_profiler"):
            continue
        reason = install(peer)
        rows = (
            [Took("", error=reason)] if reason else took(peer.key, peer.python, path, repeat=1, timeout=given.timeout)
        )
        peers[f"{peer.label}"] = rows
        print(f"{peer.label}: {version(peer)}")
    count = next((each.count for each in ours if each.name == "events"), 0)
    print(f"{path.name}: {count:,} events\n" + "\n".join(beside(ours, peers)))
    return {"kinetoscope": ours, **peers}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.analyses", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--trace", type=Path, help="what the large trace is made of; by default the demo with a device")
    parser.add_argument("--events", type=int, default=_MILLION, help="events of the large trace (1000000)")
    parser.add_argument("--repeat", type=int, default=3, help="samples of each of ours, of which the least counts (3)")
    parser.add_argument("--curve", type=float, nargs="+", metavar="M", help="millions of events: ours on each")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="ours alone")
    parser.add_argument("--timeout", type=float, default=900, help="seconds for one tool (900)")
    given = parser.parse_args(arguments)
    given.trace = given.trace or data.source()
    found = curve(given) if given.curve else compare(given)
    RESULTS.mkdir(exist_ok=True)
    kept = RESULTS / f"analyses-{time.strftime('%Y%m%d-%H%M%S')}.json"
    rows: dict[str, Any] = {tool: [asdict(each) for each in answers] for tool, answers in found.items()}
    kept.write_text(json.dumps({"machine": machine(), "trace": given.trace.name, **rows}, indent=1))
    print(f"kept in {kept}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
