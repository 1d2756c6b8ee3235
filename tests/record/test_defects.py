"""Each way in which torch.profiler ends a run or loses a trace: shown with torch alone, and then not with us.

A defect is in torch 2.13 to 2.15, unless its test names the version without it.
"""

from __future__ import annotations

import json
import resource
import signal
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.record.jobs import document, names, parts, run, sidecar, traces

pytestmark = pytest.mark.torch

_LOOP = "    for _ in range(6): train(); prof.step()\nresult()\n"


def since_214() -> bool:
    """Whether torch is so new that an exception in a handler is only raised and a quote in a name is replaced."""
    major, minor, *_ = version("torch").split(".")
    return (int(major), int(minor)) >= (2, 14)


# --- a handler that raises ----------------------------------------------------------------------------------------

_RAISES = """
def broken(prof): raise OSError("no space left")
"""
_CYCLES = "schedule=schedule(wait=0, warmup=1, active=1)"


def test_a_handler_that_raises_ends_the_process_of_torch_alone(tmp_path: Path) -> None:
    plain = run(
        f"{_RAISES}\nwith torch.profiler.profile(activities=CPU, {_CYCLES}, on_trace_ready=broken) as prof:\n{_LOOP}",
        tmp_path,
    )
    assert plain.code == (1 if since_214() else -signal.SIGSEGV)
    assert "result" not in plain.out


def test_a_handler_that_raises_is_told_in_a_line(tmp_path: Path) -> None:
    ours = run(f"{_RAISES}\nwith profile(DIR, {_CYCLES}, on_trace_ready=broken) as prof:\n{_LOOP}", tmp_path)
    assert (ours.code, ours.out.startswith("result")) == (0, True), ours.err
    assert any("no space left" in line for line in ours.said)
    assert len(traces(tmp_path)) == 3


def test_our_handler_never_raises(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    handler = "on_trace_ready=trace_handler(DIR + '/file/x')"
    ours = run(f"with torch.profiler.profile(activities=CPU, {_CYCLES}, {handler}) as prof:\n{_LOOP}", tmp_path)
    assert (ours.code, ours.out.startswith("result")) == (0, True), ours.err
    assert ours.said


# --- a full disk --------------------------------------------------------------------------------------------------

_LIMIT = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"


def test_on_a_full_disk_torch_alone_leaves_half_a_file(tmp_path: Path) -> None:
    plain = run(
        f"{_LIMIT}\nwith torch.profiler.profile(activities=CPU, schedule=schedule(wait=0, warmup=1, active=3, "
        f"repeat=1), on_trace_ready=torch.profiler.tensorboard_trace_handler(DIR)) as prof:\n{_LOOP}",
        tmp_path,
    )
    whole = [path for path in traces(tmp_path) if _valid(path)]
    assert plain.code != 0 or not whole


def _valid(path: Path) -> bool:
    try:
        json.loads(path.read_text())
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(
    "begin",
    [
        "profile(DIR)",
        "torch.profiler.profile(schedule=schedule(wait=0, warmup=1, active=3), on_trace_ready=trace_handler(DIR))",
    ],
)
def test_on_a_full_disk_nothing_is_left_and_training_goes_on(tmp_path: Path, begin: str) -> None:
    assert resource.RLIMIT_FSIZE is not None
    ours = run(f"{_LIMIT}\nwith {begin} as prof:\n{_LOOP}", tmp_path)
    assert (ours.code, ours.out.startswith("result")) == (0, True), ours.err
    assert "full" in " ".join(ours.said)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_nearly_full_is_left_alone(tmp_path: Path) -> None:
    ours = run(f"with profile(DIR, options=RecordOptions(keep_free=1 << 60)) as prof:\n{_LOOP}", tmp_path)
    assert ours.code == 0
    assert "are free" in " ".join(ours.said)
    assert list(tmp_path.iterdir()) == []


# --- names that torch cannot write --------------------------------------------------------------------------------

_QUOTES = """
def train(was=train):
    with record_function('say "hi"'): was()
"""


def test_a_quote_in_a_name_makes_the_trace_of_torch_alone_invalid_or_is_replaced(tmp_path: Path) -> None:
    run(
        f"{_QUOTES}\nwith torch.profiler.profile(activities=CPU) as prof:\n{_LOOP}\n"
        "prof.export_chrome_trace(DIR + '/x.pt.trace.json')",
        tmp_path,
    )
    trace = tmp_path / "x.pt.trace.json"
    assert _valid(trace) == since_214()
    assert ("say 'hi'" in trace.read_text()) == since_214()


def test_a_quote_in_a_name_loses_no_trace(tmp_path: Path) -> None:
    ours = run(f"{_QUOTES}\nwith profile(DIR) as prof:\n{_LOOP}", tmp_path)
    (trace,) = traces(tmp_path)
    written_again = not since_214()
    assert names(trace).count('say "hi"' if written_again else "say 'hi'") == 3, ours.err
    assert ("Python" in sidecar(trace)["export"]) == written_again
    assert parts(tmp_path) == []


def test_metadata_with_quotes_is_written_again(tmp_path: Path) -> None:
    ours = run(
        "with torch.profiler.profile(activities=CPU, on_trace_ready=trace_handler(DIR)) as prof:\n"
        "    prof.add_metadata('key', 'say \"hi\"')\n" + _LOOP,
        tmp_path,
    )
    (trace,) = traces(tmp_path)
    assert document(trace)["key"] == 'say "hi"', ours.err


def test_where_both_exporters_fail_the_events_are_kept(tmp_path: Path) -> None:
    run(
        "with torch.profiler.profile(activities=CPU, on_trace_ready=trace_handler(DIR)) as prof:\n"
        "    prof.add_metadata_json('key', 'no json at all')\n" + _LOOP,
        tmp_path,
    )
    (trace,) = traces(tmp_path)
    assert "aten::linear" in names(trace)
    assert "mended" in sidecar(trace)["export"]
    assert sidecar(trace)["lost_events"] == 0


def test_what_users_say_of_a_run_never_meets_the_trace(tmp_path: Path) -> None:
    run(f"with profile(DIR, run='a \"b\"', about={{'\"': '\\\\ \\n \"x\"', 'lr': 0.1}}) as prof:\n{_LOOP}", tmp_path)
    (trace,) = traces(tmp_path)
    assert sidecar(trace)["about"] == {'"': '\\ \n "x"', "lr": 0.1}
    assert sidecar(trace)["run"] == 'a "b"'
    assert sidecar(trace)["export"] == "torch"


# --- two profilers ------------------------------------------------------------------------------------------------


def test_nested_the_outer_one_of_torch_alone_loses_everything(tmp_path: Path) -> None:
    plain = run(
        """
with torch.profiler.profile(activities=CPU) as outer:
    train()
    with torch.profiler.profile(activities=CPU) as inner: train()
print(len(outer.events()), len(inner.events()) > 0)
""",
        tmp_path,
    )
    assert plain.out.split() == ["0", "True"], plain.err


def test_nested_inside_ours_both_keep_what_they_recorded(tmp_path: Path) -> None:
    ours = run(
        """
with profile(DIR, wait=0, warmup=0, active=9) as prof:
    train(); prof.step(); train()
    with torch.profiler.profile(activities=CPU) as inner: train()
    prof.step(); train(); prof.step()
print(len(inner.events()) > 0)
""",
        tmp_path,
    )
    assert (ours.code, ours.out.strip()) == (0, "True"), ours.err
    (trace,) = traces(tmp_path)
    assert names(trace).count("Optimizer.step#SGD.step") == 2
    assert sidecar(trace)["truncated"] == "another profiler was started"


def test_ours_declines_inside_another(tmp_path: Path) -> None:
    ours = run(
        f"""
with torch.profiler.profile(activities=CPU) as outer:
    with profile(DIR) as prof:
        for _ in range(6): train(); prof.step()
print(len(outer.events()) > 100)
{_OTHER_THREAD}
""",
        tmp_path,
    )
    assert (ours.code, ours.out.split()) == (0, ["True", "True"]), ours.err
    assert "nothing was recorded: another profiler is recording" in ours.said
    assert traces(tmp_path) == []


_OTHER_THREAD = """
started, go, found = threading.Event(), threading.Event(), []
def record():
    with torch.profiler.profile(activities=CPU) as other:
        train(); started.set(); go.wait()
    found.append(len(other.events()) > 0)
thread = threading.Thread(target=record); thread.start(); started.wait()
with profile(DIR, wait=0) as prof:
    for _ in range(6): train(); prof.step()
go.set(); thread.join(); print(*found)
"""


# --- no step(), no end --------------------------------------------------------------------------------------------


def test_without_step_torch_alone_writes_nothing(tmp_path: Path) -> None:
    plain = run(
        "with torch.profiler.profile(activities=CPU, schedule=schedule(wait=1, warmup=1, active=3),"
        " on_trace_ready=torch.profiler.tensorboard_trace_handler(DIR)) as prof:\n    for _ in range(6): train()\n",
        tmp_path,
    )
    assert (plain.code, traces(tmp_path)) == (0, [])


@pytest.mark.parametrize(
    ("begin", "early"),
    [("with profile(DIR) as prof:", False), ("prof = profile(DIR); prof.start()\nif True:", True)],
    ids=["the block ends", "the program ends"],
)
def test_without_step_what_was_there_is_written(tmp_path: Path, begin: str, early: bool) -> None:
    ours = run(f"{begin}\n    for _ in range(6): train()\n", tmp_path)
    assert ours.code == 0, ours.err
    (trace,) = traces(tmp_path)
    assert names(trace).count("Optimizer.step#SGD.step") == 6
    assert bool(sidecar(trace)["truncated"]) == early
    assert any("ended early" in line for line in ours.said) == early


_TERMINATED = """
    while True:
        train(); prof.step()
        if prof.step_num == 4: print("now", flush=True); os.kill(os.getpid(), signal.SIGTERM)
"""


def test_on_sigterm_torch_alone_writes_nothing(tmp_path: Path) -> None:
    plain = run(
        "with torch.profiler.profile(activities=CPU, schedule=schedule(wait=1, warmup=1, active=30),"
        f" on_trace_ready=torch.profiler.tensorboard_trace_handler(DIR)) as prof:\n{_TERMINATED}",
        tmp_path,
    )
    assert (plain.code, traces(tmp_path)) == (-signal.SIGTERM, [])


def test_on_sigterm_a_marked_trace_is_written(tmp_path: Path) -> None:
    ours = run(f"with profile(DIR, active=30, options=RecordOptions(grace=300)) as prof:\n{_TERMINATED}", tmp_path)
    assert ours.code == -signal.SIGTERM, ours.err
    (trace,) = traces(tmp_path)
    assert document(trace)["kinetoscope"]["truncated"] == sidecar(trace)["truncated"] == "SIGTERM"
    assert "aten::linear" in names(trace)


def test_a_handler_of_sigterm_that_was_there_before_is_called(tmp_path: Path) -> None:
    ours = run(
        "signal.signal(signal.SIGTERM, lambda *_: (print('mine', flush=True), sys.exit(3)))\n"
        f"with profile(DIR, active=30, options=RecordOptions(grace=300)) as prof:\n{_TERMINATED}",
        tmp_path,
    )
    assert (ours.code, ours.out.split()) == (3, ["now", "mine"]), ours.err
    assert len(traces(tmp_path)) == 1


def test_an_exception_leaves_a_marked_trace_and_goes_its_way(tmp_path: Path) -> None:
    ours = run(
        "with profile(DIR, wait=0, warmup=0) as prof:\n    train(); prof.step(); train(); raise ValueError('mine')",
        tmp_path,
    )
    assert (ours.code, ours.err.strip().splitlines()[-1]) != (0, "")
    assert "ValueError: mine" in ours.err
    (trace,) = traces(tmp_path)
    assert sidecar(trace)["truncated"] == "exception: ValueError"
    assert sidecar(trace)["last_step"] == 0


# --- saving twice -------------------------------------------------------------------------------------------------


def test_torch_alone_saves_once(tmp_path: Path) -> None:
    plain = run(
        "with torch.profiler.profile(activities=CPU) as prof: train()\n"
        "prof.export_chrome_trace(DIR + '/a'); prof.export_chrome_trace(DIR + '/b')",
        tmp_path,
    )
    assert plain.code == 1
    assert "already saved" in plain.err


def test_ours_saves_beside_others(tmp_path: Path) -> None:
    ours = run(
        "first, second = trace_handler(DIR), trace_handler(DIR)\n"
        "both = lambda prof: (first(prof), second(prof))\n"
        "with torch.profiler.profile(activities=CPU, on_trace_ready=both): train()\n"
        "mine = lambda prof: prof.export_chrome_trace(DIR + '/mine.json')\n"
        "with profile(DIR, wait=0, warmup=0, active=1, on_trace_ready=mine) as prof: train(); prof.step()\n",
        tmp_path,
    )
    assert ours.code == 0, ours.err
    assert ["aten::linear" in names(trace) for trace in traces(tmp_path)] == [True] * 3
    assert _valid(tmp_path / "mine.json")


# --- threads ------------------------------------------------------------------------------------------------------

_TEN = """
def work():
    for _ in range(10): torch.sigmoid(torch.ones(4))
def in_thread():
    thread = threading.Thread(target=work); thread.start(); thread.join()
"""


def test_torch_alone_does_not_record_threads(tmp_path: Path) -> None:
    plain = run(
        f"{_TEN}\nwith torch.profiler.profile(activities=CPU) as prof: train(); in_thread()\n"
        "print(sum(each.name == 'aten::sigmoid' for each in prof.events()))",
        tmp_path,
    )
    assert plain.out.strip() == "0", plain.err


def test_all_threads_are_recorded_if_asked_for(tmp_path: Path) -> None:
    ours = run(
        f"{_TEN}\nwith profile(DIR, wait=0, warmup=0, active=1, all_threads=True) as prof:\n"
        "    train(); in_thread(); prof.step()",
        tmp_path,
    )
    (trace,) = traces(tmp_path)
    assert names(trace).count("aten::sigmoid") == 10, ours.err


def test_a_step_from_another_thread_does_no_harm(tmp_path: Path) -> None:
    ours = run(
        """
with profile(DIR, wait=0, warmup=0, active=2) as prof:
    train()
    thread = threading.Thread(target=prof.step); thread.start(); thread.join()
    train(); prof.step(); train(); prof.step()
result()
""",
        tmp_path,
    )
    assert (ours.code, len(traces(tmp_path))) == (0, 1), ours.err
    assert any("another thread" in line for line in ours.said)


def test_a_thread_that_trains_is_asked_to_end(tmp_path: Path) -> None:
    ours = run(
        """
def loop():
    with profile(DIR, wait=0, warmup=0, active=10**6) as prof:
        while True: train(); prof.step(); time.sleep(0.02)
threading.Thread(target=loop, daemon=True).start(); time.sleep(1)
""",
        tmp_path,
    )
    assert ours.code == 0, ours.err
    (trace,) = traces(tmp_path)
    assert sidecar(trace)["truncated"] == "the program ended"
