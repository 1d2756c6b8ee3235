"""What each part's recordings are held to: rows of one table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import kinetoscope
from benchmarks.floor_cases import NAMES
from benchmarks.floors import TOLERANCE, attained
from kinetoscope.model.device.hardware import Device
from kinetoscope.model.device.own_peaks import keep_measured
from kinetoscope.model.device.peaks import HOST_NAME, UNITS, peak_of
from kinetoscope.views.numbers import shown
from tests.faults.judging import Judged
from tests.faults.real import judged_of
from tools.gpu.running import TOLD, Outcome, outcome_of
from tools.gpu.tasks import NO_CUDA, on_device

KEPT: Final = "kept"
BROKEN: Final = "BROKEN"
MOOT: Final = "–"

_CHANGES: Final = {
    "workers": "DATA001",
    "pinned": "DATA005",
    "larger_batch": "MEMORY001",
    "bytes": "DATA006",
    "dropped": "HOST005",
    "bits16": "DEVICE001",
    "compiled": "HOST003",
}
"""The rule that promises each change of the tutorial."""

_COUNTED_ERROR: Final = 0.01
"""Share by which a snapshot's peak may differ from the allocator's own count."""

_LEAST_COVERED: Final = 0.1
"""Share of an operator's time that has a floor, below which a host's floor says nothing."""

_MAX_OVERHEAD: Final = 1.03
"""Ours / torch.profiler's, as `benchmarks.recorder` holds it; of medians by the clock, so that it is said, not held."""


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Attributes:
        part, what: which recording.
        found: what was measured or read.
        against: what it is held to.
        verdict: KEPT, BROKEN, or MOOT where nothing can be held.
    """

    part: str
    what: str
    found: str
    against: str = ""
    verdict: str = MOOT


@dataclass(frozen=True)
class Recorded:
    """What came back.

    Attributes:
        folder: a folder for each part, and in it for each task.
        about: the machine.
    """

    folder: Path
    about: Mapping[str, Any]

    @property
    def on_cuda(self) -> bool:
        """Recorded on a CUDA device."""
        return str(self.about["device"]).startswith("cuda")

    def task(self, part: str, name: str = "") -> Path | None:
        """The folder of a task that ended well."""
        folder = self.folder / part / (name or part)
        outcome = outcome_of(folder)
        return folder if outcome is not None and outcome.state == "done" else None

    def outcomes(self) -> list[Outcome]:
        """How each task ended."""
        files = sorted(self.folder.glob(f"*/*/{TOLD}"))
        return [outcome for file in files if (outcome := outcome_of(file.parent)) is not None]

    def held(self, holds: bool) -> str:
        """A verdict; of small recordings there is none."""
        return MOOT if self.about.get("small") else KEPT if holds else BROKEN


def sections(recorded: Recorded) -> Iterator[Row]:
    """All rows; one that cannot be made says why, and costs no other."""
    makers: tuple[Callable[[Recorded], Iterator[Row]], ...] = (
        *(
            machine,
            ended,
            selftest,
            calibration,
            tutorial,
            graphs,
            memory,
            compiled,
        ),  # peaks come before what uses them
        *(floors, nccl, overhead, promises, zoo),
    )
    for make in makers:
        try:
            yield from make(recorded)
        except Exception as error:  # noqa: BLE001 - a part that was cut off must not cost what others found
            yield _unjudged(make.__name__, "", error)


def machine(recorded: Recorded) -> Iterator[Row]:
    """What it was recorded on, and what found no room."""
    about = recorded.about
    names = ", ".join(each["name"] for each in about["devices"]) or f"{about['processor']}, {about['cores']} cores"
    driver = ", ".join(sorted({each["driver_version"] for each in about["driver"] if "driver_version" in each}))
    found = f"torch {about['torch']}, CUDA {about['cuda'] or '–'}, driver {driver or '–'}, Python {about['python']}"
    yield Row("machine", names, found)
    if about["dropped"]:
        first = ", ".join(about["first_dropped"][:3])
        yield Row("machine", "left out", f"{about['dropped']} files found no room: {first}")


def ended(recorded: Recorded) -> Iterator[Row]:
    """Tasks that did not end well."""
    for each in recorded.outcomes():
        if each.state != "done":
            what = f"{each.state} {each.name}"
            verdict = MOOT if each.state == "skipped" else BROKEN
            yield Row(each.part, what, each.why or f"after {each.seconds:.0f} s", verdict=verdict)


def selftest(recorded: Recorded) -> Iterator[Row]:
    """What can be recorded there."""
    if (folder := recorded.task("selftest")) is None:
        return
    able = json.loads((folder / "out.txt").read_text("utf-8"))
    missing = [each["what"] for each in able if each["can"] == "no"]
    absent = [each["what"] for each in able if each["can"] == "absent"]
    found = f"{len(able) - len(missing) - len(absent)} things can be recorded"
    told = "".join(f"; {word}: {', '.join(each)}" for word, each in (("not", missing), ("not here", absent)) if each)
    yield Row("selftest", "the recorder", found + told, "each", KEPT if not missing else BROKEN)


def tutorial(recorded: Recorded) -> Iterator[Row]:
    """What each of seven changes brings for a sample, and what was promised before it."""
    if (folder := recorded.task("tutorial")) is None:
        return
    measured = json.loads((folder / "measured.json").read_text("utf-8"))
    samples = measured["samples"]
    names = list(measured["plain"])
    for before, after in pairwise(names):
        change = after.partition("_")[2]
        times = (("faulty", before), ("fixed", after))
        plain = {twin: [each / samples[name] for each in measured["plain"][name]] for twin, name in times}
        told = {"code": _CHANGES[change], "name": change, "plain": plain}
        yield _promise_of("tutorial", told, folder, recorded, runs=(before, after))


def promises(recorded: Recorded) -> Iterator[Row]:
    """What was promised of each planted fault, and what its twin took."""
    for folder in sorted((recorded.folder / "promises").glob("*/")):
        if recorded.task("promises", folder.name) is None:
            continue
        measured = json.loads((folder / "out.txt").read_text("utf-8"))
        row = _promise_of("promises", measured, folder, recorded)
        if folder.name in on_device() and not recorded.on_cuda:
            row = Row(row.part, row.what, row.found, NO_CUDA)
        yield row


def zoo(recorded: Recorded) -> Iterator[Row]:
    """Programs of the zoo: what their rules promise, where they have a twin."""
    for folder in sorted((recorded.folder / "zoo").glob("*/")):
        if recorded.task("zoo", folder.name) is None:
            continue
        measured = json.loads((folder / "measured.json").read_text("utf-8"))
        rules = measured["rules"]
        placed = f", default device {measured['default_device']}"
        if not rules or not min(measured.get("plain", {}).get("faulty", [0.0])):
            yield Row("zoo", folder.name, f"{measured['what']}{placed}")
            continue
        plain = {twin: [1e9 * each for each in times] for twin, times in measured["plain"].items()}
        advice = kinetoscope.advise(kinetoscope.read(str(folder / "faulty"), jobs=1))
        code = next((each.code for each in advice.findings if each.code in rules), rules[0])
        told = {"code": code, "name": folder.name, "plain": plain, "timed": True}
        yield _promise_of("zoo", told, folder, recorded)


def _promise_of(
    part: str,
    measured: Mapping[str, Any],
    folder: Path,
    recorded: Recorded,
    runs: tuple[str, str] = ("faulty", "fixed"),
) -> Row:
    """What advice on the recording of the first run promised, and what the second took."""
    try:
        return _promise(part, judged_of(measured, folder / runs[0], folder / runs[1]), recorded)
    except Exception as error:  # noqa: BLE001 - of many pairs one may lack a recording
        return _unjudged(part, measured["name"], error)


def _unjudged(part: str, what: str, error: Exception) -> Row:
    return Row(part, f"cannot be judged {what}".rstrip(), f"{type(error).__name__}: {error}", verdict=BROKEN)


def _promise(part: str, each: Judged, recorded: Recorded) -> Row:
    took = f"{each.faulty / 1e6:.2f} → {each.fixed / 1e6:.2f} ms"
    if not each.severity:
        verdict = recorded.held(False) if part != "tutorial" else MOOT
        return Row(part, each.name, f"{took}, gained {each.gain:.0%}", f"{each.code} is silent", verdict)
    low, high = each.promised
    against = f"{each.code} promised {low:.0%} … {high:.0%}"
    verdict = recorded.held(each.kept) if each.timed else MOOT
    return Row(part, each.name, f"{took}, gained {each.gain:.0%}", against, verdict)


def graphs(recorded: Recorded) -> Iterator[Row]:
    """Which graphs were joined with their captures."""
    if (folder := recorded.task("graphs")) is None:
        return
    measured = json.loads((folder / "measured.json").read_text("utf-8"))
    for name, told in measured.items():
        if "problem" in told:
            yield Row("graphs", name, told["problem"])
            continue
        frame = kinetoscope.graphs(kinetoscope.read(str(folder / name), jobs=1)).frame
        for each in frame.iter_rows(named=True):
            share = each["module_share" if name == "annotated" else "operator_share"] or 0.0
            found = f"{each['nodes']} nodes, {each['replays']} replays, joined by {each['source']}"
            yield Row("graphs", name, found, f"{share:.0%} of the time is named", recorded.held(share > 0.99))
        if frame.is_empty():
            yield Row("graphs", name, "no replay was found", "one", recorded.held(False))


def memory(recorded: Recorded) -> Iterator[Row]:
    """Snapshots, replayed: the peak against torch's own count; why memory ran out."""
    if (folder := recorded.task("memory")) is None:
        return
    measured = json.loads((folder / "measured.json").read_text("utf-8"))
    counted = measured["training"]["allocated"]
    snapshot = sorted((folder / "training" / "snapshots").glob("*.pickle*"))[-1]
    frame = kinetoscope.memory_peak(kinetoscope.read(str(snapshot))).frame
    found = int(frame["size"].sum())
    holds = abs(found - counted) <= _COUNTED_ERROR * counted
    against = f"torch counts {shown(counted, 'bytes')}"
    yield Row("memory", "peak of a snapshot", shown(found, "bytes"), against, recorded.held(holds))
    if "problem" in measured.get("out_of_memory", {"problem": ""}):
        yield Row("memory", "out of memory", measured.get("out_of_memory", {}).get("problem", "it ended before"))
        return
    last = sorted((folder / "out_of_memory" / "snapshots").glob("*.pickle*"))[-1]
    why = kinetoscope.memory_oom(kinetoscope.read(str(last))).frame
    verdicts = why["verdict"].drop_nulls().to_list()
    against = measured["out_of_memory"]["said"].partition(". ")[0]
    yield Row(
        "memory", "out of memory", "; ".join(verdicts) or "no request failed", against, recorded.held(bool(verdicts))
    )


def compiled(recorded: Recorded) -> Iterator[Row]:
    """Kernels of compiled code whose lines are known."""
    if (folder := recorded.task("compiled")) is None:
        return
    for run in sorted(each for each in folder.iterdir() if each.is_dir()):
        frame = kinetoscope.compiled_kernels(kinetoscope.read(str(run), jobs=1)).frame
        fused = frame.filter(frame["origin"] == "fused")
        known = int(fused["file"].is_not_null().sum())
        found = f"{known} of {len(fused)} fused kernels have lines"
        yield Row("compiled", run.name, found, "all", recorded.held(0 < known == len(fused)))


def calibration(recorded: Recorded) -> Iterator[Row]:
    """What products and copies attain, beside the datasheet; kept for the floors."""
    peaks_of(recorded).touch()
    if (folder := recorded.task("calibration")) is None:
        return
    made = json.loads((folder / "out.txt").read_text("utf-8"))
    rates = {name: made["rates"][name] for name in UNITS if name in made["rates"]}
    datasheet: Mapping[str, float] = {}
    if made["name"]:
        major, minor = made["capability"]
        device = Device(0, made["name"], made["memory"], made["multiprocessors"], (major, minor), {})
        peak = peak_of(device).peak
        datasheet = peak.rates if peak else {}
    keep_measured(peaks_of(recorded), made["name"] or HOST_NAME, rates, f"{date.today():%Y-%m-%d}")
    for name, rate in rates.items():
        stated = datasheet.get(name)
        against = f"{rate / stated:.0%} of {shown(stated, UNITS[name])}" if stated else "no datasheet"
        yield Row(
            "calibration",
            name,
            shown(rate, UNITS[name]),
            against,
            recorded.held(rate < 1.05 * stated) if stated else MOOT,
        )
    for name, why in made["missing"].items():
        yield Row("calibration", name, why[:80])


def peaks_of(recorded: Recorded) -> Path:
    """The file of the peaks that were measured there."""
    return recorded.folder / "peaks.toml"


def floors(recorded: Recorded) -> Iterator[Row]:
    """No operator is faster than its floor."""
    if (folder := recorded.task("floors")) is None:
        return
    for file, name in json.loads((folder / NAMES).read_text("utf-8")).items():
        each = attained(name, folder / file)
        against = f"floor {each.floor / 1e6:.3f} ms of {each.covered:.0%}: {each.share:.0%}"
        unknown = not recorded.on_cuda and each.covered < _LEAST_COVERED  # a host says no types of lists of tensors
        verdict = MOOT if unknown else recorded.held(0 < each.share <= TOLERANCE)
        yield Row("floors", name, f"{each.time / 1e6:.3f} ms", against, verdict)


def nccl(recorded: Recorded) -> Iterator[Row]:
    """All-reduces: the mean duration of a trace against what events of the device measured without a profiler."""
    if (folder := recorded.task("nccl")) is None:
        return
    measured = json.loads((folder / "measured.json").read_text("utf-8"))
    frame = kinetoscope.collectives(kinetoscope.read(str(folder / "all_reduce"), jobs=1)).frame
    durations = {each["bytes"]: each["mean_duration"] for each in frame.iter_rows(named=True)}
    for size, seconds in measured["seconds"].items():
        found = durations.get(int(size))
        told = f"{found / 1e3:.1f} µs a call in the trace" if found else "not in the trace"
        against = f"{seconds * 1e6:.1f} µs by events, {measured['world']} ranks"
        verdict = recorded.held(bool(found)) if measured["world"] > 1 else MOOT  # alone, NCCL has nothing to launch
        yield Row("nccl", f"all_reduce of {shown(int(size), 'bytes')}", told, against, verdict)


def overhead(recorded: Recorded) -> Iterator[Row]:
    """A step plain, with torch.profiler, with ours."""
    if (folder := recorded.task("overhead")) is None:
        return
    took = json.loads((folder / "measured.json").read_text("utf-8"))
    found = f"plain {took['plain'] * 1e3:.3f} ms, ours {took['ours'] / took['plain']:.2f} ×"
    share = took["ours"] / took["torch"]
    against = (
        f"torch.profiler {took['torch'] / took['plain']:.2f} ×; ours / torch's {share:.3f}, at most {_MAX_OVERHEAD}"
    )
    yield Row("overhead", "a step while it is recorded", found, against, recorded.held(share <= _MAX_OVERHEAD))
