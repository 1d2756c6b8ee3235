"""Both halves of what is done on the day that a GPU is there: recording in parts, and judging without a device."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.faults.judging import Judged
from tests.traces.strip import problems
from tools.gpu import running, sections, tasks
from tools.gpu.judging import table
from tools.gpu.packing import PACKED, pack, unpack
from tools.gpu.tasks import NO_CUDA, Setting, Task

CPU = Setting("cpu")
CUDA = Setting("cuda")


def task(name: str, statement: str, *, part: str = "part", seconds: int = 60, cuda: bool = False) -> Task:
    """A process that runs a statement once."""
    return Task(part, name, ("timeit", "-n", "1", "-r", "1", statement), seconds, cuda=cuda)


def outcome(work: Path, each: Task) -> running.Outcome:
    found = running.outcome_of(running.folder_of(work, each))
    assert found is not None
    return found


def test_a_failure_is_written_down_and_the_next_goes_on(tmp_path: Path) -> None:
    said: list[str] = []
    parts: list[int] = []
    farewell = "import atexit, sys; atexit.register(print, 'goodbye', file=sys.stderr)"
    bad, absent = task("bad", f"{farewell}; raise ValueError('as planned')"), task("absent", "pass", cuda=True)
    good = task("good", "open('{out}/made', 'w').write('x' * 10)", part="other")
    left = running.run_all(
        [bad, absent, good],
        CPU,
        tmp_path,
        minutes=1,
        after_part=lambda: parts.append(len(said)),
        say=said.append,
    )
    assert left == []
    assert outcome(tmp_path, bad).state == "failed"
    assert outcome(tmp_path, bad).why == "ValueError: as planned"
    assert (outcome(tmp_path, absent).state, outcome(tmp_path, absent).why) == ("skipped", NO_CUDA)
    assert outcome(tmp_path, good).state == "done"
    assert (running.folder_of(tmp_path, good) / "made").read_text() == "x" * 10
    assert parts == [2, 3]  # what is recorded is packed after each part


def test_what_is_done_is_not_run_again(tmp_path: Path) -> None:
    count = "open('{out}/../ran', 'a').write('x')"
    good, bad = task("good", count), task("bad", f"{count}; 1 / 0")
    killed = running.folder_of(tmp_path, task("killed", count))
    killed.mkdir(parents=True)  # without its end: it is run anew
    every = [good, bad, task("killed", count)]
    for again in (False, False, True):
        running.run_all(every, CPU, tmp_path, minutes=1, again=again, say=lambda _: None)
    assert len((tmp_path / "part" / "ran").read_text()) == 3 + 1  # with --again, what failed


@pytest.mark.slow
def test_a_task_that_takes_too_long_is_ended_with_what_it_started(tmp_path: Path) -> None:
    start = "import subprocess, sys, time; p = subprocess.Popen(['sleep', '100'])"
    slow = task("slow", f"{start}; open('{{out}}/pid', 'w').write(str(p.pid)); time.sleep(100)", seconds=8)
    running.run_all([slow], CPU, tmp_path, minutes=1, say=lambda _: None)
    assert outcome(tmp_path, slow).state == "too long"
    status = Path("/proc", (running.folder_of(tmp_path, slow) / "pid").read_text(), "stat")
    for _ in range(50):  # it was killed; how soon it is gone is the system's business
        if ended := (not status.exists() or status.read_text().split()[2] == "Z"):
            break
        time.sleep(0.1)
    assert ended


def test_no_task_is_begun_without_time_for_it(tmp_path: Path) -> None:
    long, short = task("long", "pass", seconds=400), task("short", "pass", seconds=10)
    assert running.run_all([long, short], CPU, tmp_path, minutes=1, say=lambda _: None) == [long]
    assert outcome(tmp_path, short).state == "done"
    assert running.outcome_of(running.folder_of(tmp_path, long)) is None


def test_archives_keep_their_limits_and_what_is_worth_most(tmp_path: Path) -> None:
    work = tmp_path / "work"
    for part, count in (("first", 3), ("second", 4)):
        for number in range(count):
            file = work / part / "task" / f"{number}.gz"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(os.urandom(400_000))
        (work / part / "task" / "measured.json").write_text("{}")
    (work / "first" / "task" / "huge").write_bytes(bytes(2_000_000))
    dropped = pack(
        work, tmp_path / "out", ["first", "second"], about={}, archives=3, each=1_000_000, together=2_600_000
    )
    archives = sorted((tmp_path / "out").iterdir())
    assert len(archives) == 3
    assert max(file.stat().st_size for file in archives) <= 1_000_000
    assert sum(file.stat().st_size for file in archives) <= 2_600_000
    unpack(archives, tmp_path / "back")
    back = {file.relative_to(tmp_path / "back").as_posix() for file in (tmp_path / "back").rglob("*") if file.is_file()}
    assert {f"first/task/{number}.gz" for number in range(3)} < back
    assert {"first/task/measured.json", "second/task/measured.json", PACKED} < back
    lost = {line.split()[0] for line in dropped}
    assert "first/task/huge" in lost
    assert lost - {"first/task/huge"} == {f"second/task/{number}.gz" for number in range(4)} - back
    assert json.loads((tmp_path / "back" / PACKED).read_text())["dropped"] == len(dropped)
    for name in ("first/task/0.gz", "second/task/measured.json"):
        assert (tmp_path / "back" / name).read_bytes() == (work / name).read_bytes()


def test_parts_are_selected_by_name() -> None:
    every = tasks.selected([])
    assert all(each.seconds <= tasks.MAX_PART_S for each in every)
    assert [each.key for each in tasks.selected(["tutorial", "promises/garbage"])] == [
        "tutorial/tutorial",
        "promises/garbage",
    ]
    assert tasks.selected([], "overhead") == every[[each.part for each in every].index("overhead") :]
    assert tasks.selected(["promises"], "promises/garbage")[0].key == "promises/garbage"
    with pytest.raises(ValueError, match="no such part: nothing; there are selftest, tutorial"):
        tasks.selected(["nothing"])


def test_programs_of_the_zoo_are_those_whose_frameworks_are_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def spec(name: str) -> object:
        return None if name in ("lightning", "transformers") else name

    monkeypatch.setattr(tasks, "find_spec", spec)
    chosen = tasks.zoo()
    assert len(chosen) == 20
    assert not {"lightning", "transformers"} & {need for each in chosen for need in each.needs}
    assert {"torch", "diffusers"} < {each.family for each in chosen}


def test_a_promise_is_kept_or_not() -> None:
    about = {"device": "cuda", "small": False}
    recorded = sections.Recorded(Path(), about)
    given = {"code": "HOST002", "family": "", "name": "a fault", "timed": True, "faulty": 1e7, "step": 1e7}
    told = {"severity": "warning", "low": 1e6, "high": 4e6, "place": 1, "message": "", "false": ()}

    def verdict(fixed: float, **more: object) -> str:
        return sections._promise("promises", Judged(**{**given, **told, "fixed": fixed, **more}), recorded).verdict  # type: ignore[arg-type]

    assert verdict(8e6) == sections.KEPT
    assert verdict(9.5e6) == verdict(5e6) == sections.BROKEN
    assert verdict(8e6, severity="") == sections.BROKEN  # the rule is silent about its fault
    assert verdict(9.5e6, timed=False) == sections.MOOT


def test_a_section_that_cannot_be_judged_costs_no_other(tmp_path: Path) -> None:
    for name in ("selftest", "overhead"):
        folder = tmp_path / name / name
        folder.mkdir(parents=True)
        (folder / running.TOLD).write_text(json.dumps({"part": name, "name": name, "state": "done"}))
    (tmp_path / "overhead" / "overhead" / "measured.json").write_text('{"plain": 1.0, "torch": 1.3, "ours": 1.5}')
    about = {"device": "cuda", "devices": [{"name": "A | B"}], "torch": "2", "cuda": "13", "python": "3", "driver": []}
    rows = list(sections.sections(sections.Recorded(tmp_path, {**about, "dropped": 0})))
    verdicts = {row.part: row.verdict for row in rows}
    assert verdicts == {"machine": sections.MOOT, "selftest": sections.BROKEN, "overhead": sections.BROKEN}
    assert "| A \\| B |" in table(rows)


@pytest.mark.slow
def test_what_only_a_device_records_is_held_to_what_was_counted_there(tmp_path: Path) -> None:
    """Of other recordings, which lie in the places of those of a device."""

    def place(part: str, measured: object) -> Path:
        folder = tmp_path / part / part
        folder.mkdir(parents=True, exist_ok=True)
        (folder / running.TOLD).write_text(json.dumps({"part": part, "name": part, "state": "done"}))
        (folder / "measured.json").write_text(json.dumps(measured))
        return folder

    def rows(part: Callable[[sections.Recorded], Iterator[sections.Row]]) -> list[tuple[str, str, str]]:
        about = {"device": "cuda", "small": False}
        return [(row.what, row.found, row.verdict) for row in part(sections.Recorded(tmp_path, about))]

    snapshots = ROOT / "tests" / "snapshots" / "real"
    ran_out = {"steps": 3, "said": "CUDA out of memory. Tried to allocate"}
    counted = 666_370_048
    memory = place("memory", {"training": {"allocated": counted}, "out_of_memory": ran_out})
    for name, file in (("training", "leak_2.13.0.pickle.gz"), ("out_of_memory", "too_much_2.13.0.pickle.gz")):
        (memory / name / "snapshots").mkdir(parents=True)
        shutil.copy(snapshots / file, memory / name / "snapshots")
    assert [row[2] for row in rows(sections.memory)] == [sections.KEPT, sections.KEPT]
    assert rows(sections.memory)[1][1] == "live data"
    place("memory", {"training": {"allocated": int(1.02 * counted)}})
    assert [row[2] for row in rows(sections.memory)] == [sections.BROKEN, sections.MOOT]

    shutil.copytree(ROOT / "tests" / "traces" / "compiled", place("compiled", {}) / "default")
    assert rows(sections.compiled) == [("default", "11 of 11 fused kernels have lines", sections.KEPT)]

    eager = place("graphs", {"whole_step": {}, "annotated": {"problem": "ImportError: torch 2.11"}}) / "whole_step"
    eager.mkdir()
    shutil.copy(ROOT / "tests" / "traces" / "mlp.pt.trace.json.gz", eager)
    assert [row[2] for row in rows(sections.graphs)] == [sections.BROKEN, sections.MOOT]  # no replay was found

    made = {"name": "NVIDIA H200", "memory": 150_754_820_096, "multiprocessors": 132, "capability": [9, 0]}
    rates = {"rates": {"bf16": 7.7e14, "memory": 9.0e12}, "missing": {"fp8": "not here"}}
    (place("calibration", {}) / "out.txt").write_text(json.dumps({**made, **rates}))
    assert [row[2] for row in rows(sections.calibration)] == [sections.KEPT, sections.BROKEN, sections.MOOT]
    assert "NVIDIA H200" in sections.peaks_of(sections.Recorded(tmp_path, {})).read_text()


@pytest.mark.torch
@pytest.mark.slow
def test_both_halves_run_here(tmp_path: Path) -> None:
    """On the CPU, with little to do; of our dependencies recording imports none."""
    lacking = tmp_path / "lacking"
    lacking.mkdir()
    for name in ("fsspec", "isal", "numba", "polars", "starlette", "uvicorn", "backports.zstd"):
        (lacking / f"{name.partition('.')[0]}.py").write_text(
            f"raise ModuleNotFoundError('{name} is not for recording')"
        )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    out, work = tmp_path / "out", tmp_path / "work"
    parts = ["selftest", "tutorial", "graphs", "overhead", "promises/values_fetched_in_each_step"]
    command = [sys.executable, "-m", "tools.gpu", "record", "--small", "--device", "cpu", "--out", out, "--work", work]
    path = os.pathsep.join(map(str, (lacking, ROOT / "src", ROOT)))
    done = subprocess.run(
        [*map(str, command), "--parts", *parts],
        env={**environment, "PYTHONPATH": path},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" done ") == 4
    assert f"skipped  {NO_CUDA}" in done.stdout.replace("skipped    ", "skipped  ")
    with tarfile.open(out / "gpu-1.tar") as archive:
        assert "tutorial/tutorial/measured.json" in archive.getnames()

    kept = tmp_path / "kept"
    judge = [sys.executable, "-m", "tools.gpu", "judge", out / "gpu-1.tar", "-o", tmp_path / "judged", "--keep", kept]
    path = os.pathsep.join(map(str, (ROOT / "src", ROOT)))
    done = subprocess.run(
        [*map(str, judge)],
        env={**environment, "PYTHONPATH": path},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [tuple(cell.strip() for cell in line.strip("| \n").split(" | ")) for line in done.stdout.splitlines()]
    parts_told = {row[0] for row in rows}
    assert {"machine", "selftest", "graphs", "tutorial", "overhead", "promises", "screens", "kept"} < parts_told
    assert sections.BROKEN not in done.stdout
    assert sum(row[0] == "tutorial" for row in rows) == 6
    assert NO_CUDA in next(row for row in rows if row[0] == "promises")
    screens = list((tmp_path / "judged" / "screens").iterdir())
    assert len(screens) == 7 + 2
    assert all("A step takes" in screen.read_text() for screen in screens)
    traces = list(kept.iterdir())
    assert traces
    assert [problem for trace in traces for problem in problems(trace.read_bytes())] == []


@pytest.mark.torch
def test_programs_of_the_device_are_those_that_are_named() -> None:
    pytest.importorskip("torch")
    from tests.faults.programs import on_device

    assert tuple(on_device.PROGRAMS) == tasks.on_device() == on_device.NAMES
