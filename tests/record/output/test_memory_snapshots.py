"""Snapshots of memory beside the traces; where a torch for CUDA is named, from its own allocator."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import kinetoscope
from kinetoscope.model.snapshot.replay import history_of
from kinetoscope.model.snapshot.snapshot import Snapshot
from kinetoscope.readers.snapshot import load
from kinetoscope.record.always_on.idle import agreed_window
from kinetoscope.record.output import memory_snapshots
from tests.record import jobs
from tests.record.processes import SOURCE, environment
from tests.record.programs import kinetoscope as command
from tests.snapshots.real import simulated

pytest.importorskip("torch", reason="torch is not installed: `make test-recorder` installs it")
pytestmark = pytest.mark.torch
on_device = pytest.mark.skipif(bool(simulated.missing()), reason=simulated.missing() or "-")

_OLD = ("enabled", "context", "stacks", "max_entries", "device")
_CLEAR = (*_OLD, "clear_history", "compile_context", "global_record_annotations")
_SKIP = (*_CLEAR, "skip_actions")
_PINNED = (*_SKIP, "record_pinned_host_memory", "record_cuda")
PARAMETERS = {
    "2.1.2": _OLD, "2.4.1": _OLD, "2.6.0": _OLD, "2.8.0": _CLEAR, "2.10.0": _CLEAR,
    "2.12.0": _SKIP, "2.13.0": _SKIP, "2.14.1": _PINNED, "2.15.0": _PINNED,
}  # fmt: skip
"""Parameters of `_record_memory_history`, read from the wheel of each version."""

TRAIN = """
import sys, torch
from kinetoscope.record.profile import profile
from kinetoscope.record.ranges import range as span
from kinetoscope.record.session.options import RecordOptions
def train(prof, steps, big=-1):
    net = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 256)).cuda()
    optimizer = torch.optim.AdamW(net.parameters())
    for step in range(steps):
        with span("a phase of the program"):
            try:
                loss = net(torch.zeros(1 << 24 if step == big else 64, 256, device="cuda")).mean()
            except torch.OutOfMemoryError:
                print("caught")
                continue
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        prof.step()
"""


@pytest.mark.parametrize("version", PARAMETERS)
def test_each_torch_gets_the_arguments_that_it_has(version: str) -> None:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD

    def record(*_: Any, **__: Any) -> None: ...

    record.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in PARAMETERS[version]])  # type: ignore[attr-defined]
    given = memory_snapshots.arguments(record, 77)
    inspect.signature(record).bind_partial("all", **given)
    assert given["max_entries"] == 77
    assert given.get("global_record_annotations", version < "2.8") or version == "2.10.0"


def test_a_torch_without_a_history_is_refused() -> None:
    def legacy(enabled: bool, record_context: bool = True, trace_alloc_max_entries: int = 1) -> None: ...

    with pytest.raises(RuntimeError, match="this torch has no history of memory"):
        memory_snapshots.arguments(legacy, 1)


def test_a_limit_of_the_process_is_no_memory_of_the_device() -> None:
    mega = 1 << 20
    of = memory_snapshots.why_out_of_memory
    assert of(0, 32 * mega, 8000 * mega, 16 * mega, 8000 * mega) == (
        "out of memory: 32 MB asked for on device 0, 16 of 8000 MB free"
    )
    limited = "out of memory: 32 MB asked for on device 0, 7114 MB of it free, and the process may have 1090 MB"
    assert of(0, 32 * mega, 1090 * mega, 7114 * mega, 8000 * mega) == limited
    assert of(0, 32 * mega, 1090 * mega, 7114 * mega, 0) == limited


def test_a_job_without_a_device_is_as_without_us_and_says_so_once(tmp_path: Path) -> None:
    text = (
        "with profile(DIR, memory_snapshot={}, active=1, repeat=2) as prof:\n"
        "    for _ in range(7): train(); prof.step()\n"
        "result()"
    )
    plain, done = (jobs.run(text.format(wanted), tmp_path / str(wanted)) for wanted in (False, True))
    assert done.out == plain.out
    assert [line for line in done.said if "memory" in line] == [
        "no snapshot of memory was taken: this process uses no CUDA device"
    ]
    assert len(jobs.traces(tmp_path / "True")) == 2
    assert not (tmp_path / "True" / "snapshots").exists()


def test_a_request_may_want_a_snapshot() -> None:
    asked = agreed_window({"id": "1", "memory_snapshot": True}, None)
    assert asked.options == {"memory_snapshot": True}
    assert agreed_window({"id": "1", "memory_snapshot": False}, None).options == {}


def device(program: str, folder: Path, *, size: int = 4 << 30, **variables: object) -> jobs.Done:
    """Run a program that trains on a simulated device."""
    given = environment(**simulated.environment(size=size, PYTHONPATH=SOURCE, **variables))
    words = [os.environ[simulated.VARIABLE], "-W", "ignore", "-c", TRAIN + program, str(folder)]
    done = subprocess.run(words, env=given, capture_output=True, text=True, timeout=200, check=False)
    return jobs.Done(done.returncode, done.stdout, done.stderr)


def snapshots(folder: Path) -> list[Path]:
    return sorted((folder / "snapshots").iterdir(), key=lambda path: path.stat().st_mtime_ns)


def texts(found: Snapshot) -> list[str]:
    return found.strings.labels(range(len(found.strings)))


def loaded(path: Path) -> Snapshot:
    with path.open("rb") as file:
        return load(str(path), iter(lambda: file.read(1 << 20), b""))


@on_device
def test_a_window_has_its_snapshot_with_stacks_steps_and_ranges(tmp_path: Path) -> None:
    done = device("with profile(sys.argv[1], memory_snapshot=True) as prof: train(prof, 7)", tmp_path)
    assert done.code == 0, done.err
    (trace,), (path,) = jobs.traces(tmp_path), snapshots(tmp_path)
    assert path.name == trace.name.replace(".pt.trace.json.gz", ".memory.pickle")
    about = jobs.sidecar(trace)
    assert about["memory_snapshot"] == f"snapshots/{path.name}"
    assert 0 < about["costs"]["snapshot_seconds"] < 60
    found = loaded(path)
    past = history_of(found, 0)
    assert past is not None
    assert past.impossible == 0
    known = set(texts(found))
    assert {'{"step": 0}', '{"step": 4}'} <= known  # the window ends with step 4
    assert '{"step": 5}' not in known
    assert "a phase of the program" in known  # in the first steps too, when no profiler runs
    job = kinetoscope.read(str(tmp_path))
    assert [each.rpartition("/")[2] for each in job.sources[0].files("snapshot")] == [path.name]


@on_device
@pytest.mark.parametrize("big", [0, 3, 6])
def test_out_of_memory_leaves_a_snapshot_and_the_window_and_changes_nothing(tmp_path: Path, big: int) -> None:
    program = "with profile(sys.argv[1], memory_snapshot={}) as prof: train(prof, 8, {})"
    plain, done = (device(program.format(wanted, big), tmp_path / str(wanted)) for wanted in (False, True))
    assert (done.code, done.out) == (plain.code, plain.out) == (0, "caught\n")
    ooms = [path for path in snapshots(tmp_path / "True") if ".oom." in path.name]
    assert len(ooms) == 1
    assert f".step{big}." in ooms[0].name
    note = next(text for text in texts(loaded(ooms[0])) if text.startswith("out of memory {"))
    facts = json.loads(note.removeprefix("out of memory "))
    assert facts["asked"] == 4 * 256 << 24 or facts["asked"] == 4 * 1024 << 24
    assert facts["total"] == 4 << 30
    (trace,) = jobs.traces(tmp_path / "True")
    early = jobs.sidecar(trace)["truncated"]
    assert early.startswith("out of memory: ") == (big == 3), early
    if big == 3:  # the window that ends there has this snapshot, and takes no other
        assert jobs.sidecar(trace)["memory_snapshot"] == f"snapshots/{ooms[0].name}"


@on_device
def test_only_the_last_snapshots_for_want_of_memory_are_kept(tmp_path: Path) -> None:
    text = (
        "with profile(sys.argv[1], memory_snapshot=True) as prof:\n"
        "    for step in range(6):\n"
        "        try: torch.empty(1 << 40, device='cuda')\n"
        "        except torch.OutOfMemoryError: prof.step()"
    )
    done = device(text, tmp_path)
    assert done.code == 0, done.err
    assert [path.name.split(".")[2] for path in snapshots(tmp_path) if ".oom." in path.name] == [
        "step3", "step4", "step5",
    ]  # fmt: skip


@on_device
def test_the_programs_own_history_stays_as_it_is(tmp_path: Path) -> None:
    text = (
        "torch.cuda.memory._record_memory_history(max_entries=9, context=None)\n"
        "torch.cuda.memory._set_memory_metadata('mine')\n"
        "with profile(sys.argv[1], memory_snapshot=True) as prof: train(prof, 7)\n"
        "own = torch.cuda.memory._snapshot()['device_traces'][0]\n"
        "print(len(own), {event['user_metadata'] for event in own})"
    )
    done = device(text, tmp_path)
    assert done.out == "9 {'mine'}\n", done.err
    ended = device(
        "with profile(sys.argv[1], memory_snapshot=True) as prof:\n"
        "    train(prof, 1)\n"
        "    torch.cuda.memory._record_memory_history(None)\n"
        "    train(prof, 6)\n"
        "print(torch._C._cuda_isHistoryEnabled())",
        tmp_path / "ended",
    )
    assert ended.out == "False\n", ended.err
    assert "no snapshot of memory was taken: nothing records its history" in ended.said


@on_device
def test_the_history_ends_with_the_recording(tmp_path: Path) -> None:
    text = (
        "with profile(sys.argv[1], memory_snapshot=True) as prof:\n"
        "    train(prof, 7)\n"
        "    print(torch._C._cuda_isHistoryEnabled())\n"
        "print(torch._C._cuda_isHistoryEnabled())"
    )
    done = device(text, tmp_path)
    assert done.out == "True\nFalse\n", done.err


@on_device
def test_record_keeps_the_history_from_the_first_allocation_on(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN.replace("prof.step()", "pass") + "train(None, 7, int(sys.argv[1]))")
    given = environment(**simulated.environment(size=4 << 30, PYTHONPATH=SOURCE))
    words = [os.environ[simulated.VARIABLE], str(tmp_path / "train.py"), "6"]
    done = subprocess.run(
        command("record", "--memory", "-o", tmp_path / "run", "--", *words),
        env=given, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "caught\n"
    assert "2 snapshots of memory in " in done.stderr
    window, oom = snapshots(tmp_path / "run")
    assert ".oom." in oom.name
    found = loaded(window)
    past = history_of(found, 0)
    assert past is not None
    assert not (past.allocated_at < 0).any()  # nothing was there before


@on_device
def test_another_backend_of_the_allocator_is_named(tmp_path: Path) -> None:
    text = "with profile(sys.argv[1], memory_snapshot=True) as prof: train(prof, 7)"
    done = device(text, tmp_path, PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")
    assert "the allocator cudaMallocAsync has no history: no snapshot of memory is taken" in done.said, done.err
