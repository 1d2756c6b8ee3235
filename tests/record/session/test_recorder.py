"""What a recorder does for a job, and what it leaves alone."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from kinetoscope.record.output import guards, run_info
from kinetoscope.record.ranges import range as span
from kinetoscope.record.session.options import rank_identity
from tests.record.jobs import document, names, parts, run, sidecar, traces

# --- in a job -----------------------------------------------------------------------------------------------------


@pytest.mark.torch
def test_a_run_and_its_sidecar(tmp_path: Path) -> None:
    done = run(
        "with profile(DIR, run='a run', about={'batch_size': 8}, step=100) as prof:\n"
        "    for _ in range(6): train(); prof.step(samples=8)\n",
        tmp_path,
    )
    assert done.code == 0, done.err
    (trace,) = traces(tmp_path)
    assert (rank_identity().host, "rank0of1", "step102") == (trace.name.split("_")[0], *trace.name.split(".")[1:3])
    assert [name[13:] for name in names(trace) if name.startswith("ProfilerStep#")] == ["102", "103", "104"]
    facts = sidecar(trace)
    assert [(each["step"], each["samples"]) for each in facts["steps"]] == [(102, 8), (103, 8), (104, 8)]
    assert all(each["start_ns"] < each["end_ns"] and each["resident_bytes"] > 0 for each in facts["steps"])
    assert (facts["run"], facts["about"], facts["world"], facts["truncated"]) == ("a run", {"batch_size": 8}, 1, "")
    assert facts["versions"]["torch"]
    assert [each["at"] for each in facts["clocks"]] == ["start", "stop"]
    assert any(f"trace: {trace}" in line and "kinetoscope summary" in line for line in done.said)
    assert parts(tmp_path) == []


@pytest.mark.torch
def test_samples_of_any_kind_lose_no_trace(tmp_path: Path) -> None:
    said = "torch.tensor(8), 8.5, 'x', None, -1, True"
    done = run(
        f"with profile(DIR, wait=0, warmup=0, active=6) as prof:\n    for each in ({said}): train(); prof.step(each)\n",
        tmp_path,
    )
    (trace,) = traces(tmp_path)
    assert [each["samples"] for each in sidecar(trace)["steps"]] == [8, None, None, None, None, 1], done.err


@pytest.mark.torch
def test_the_result_of_training_is_the_same_bit_for_bit(tmp_path: Path) -> None:
    plain = run("for _ in range(12): train()\nresult()", tmp_path)
    ours = run(
        "with profile(DIR, with_stack=True, repeat=0) as prof:\n    for _ in range(12): train(); prof.step()\nresult()",
        tmp_path,
    )
    assert plain.out == ours.out != "", ours.err
    assert traces(tmp_path)


@pytest.mark.torch
def test_windows_are_asked_for_from_anywhere(tmp_path: Path) -> None:
    done = run(
        """
from kinetoscope.record.output.writing import WindowOutcome
recorder, told = Recorder(DIR), []
train(); recorder.step()
asked = []
ask = lambda: asked.append(recorder.request(2, at_step=5, reason="mine", on_done=told.append))
thread = threading.Thread(target=ask); thread.start(); thread.join()
asked.append(recorder.request(9))
for _ in range(8): train(); recorder.step()
recorder.flush()
print(asked, [(each.first_step, each.last_step, each.reason, each.path is not None) for each in told], recorder.state)
asked = recorder.request(1); train(); recorder.step(step=1000)
for _ in range(3): train(); recorder.step()
recorder.close()
""",
        tmp_path,
    )
    assert done.out.strip() == "[True, False] [(5, 6, 'mine', True)] idle", done.err
    assert sorted(sidecar(trace)["first_step"] for trace in traces(tmp_path)) == [5, 1001]


@pytest.mark.torch
@pytest.mark.parametrize("limit", ["max_memory=30 << 20", "max_seconds=0.5", "max_events=3000"])
def test_a_window_that_grows_too_large_is_ended_even_in_the_midst_of_a_step(tmp_path: Path, limit: str) -> None:
    done = run(
        f"""
with profile(DIR, wait=0, warmup=0, active=2, options=RecordOptions({limit})) as prof:
    end = time.monotonic() + 60
    while prof._recorder.state == "recording" and time.monotonic() < end: train()
    prof.step()
    for _ in range(4): train(); prof.step()
result()
""",
        tmp_path,
    )
    assert (done.code, len(traces(tmp_path))) == (0, 1), done.err
    assert any("ended early" in line for line in done.said)
    assert sidecar(traces(tmp_path)[0])["truncated"]


@pytest.mark.torch
@pytest.mark.parametrize("steps", [0, 6])
def test_a_long_first_step_is_kept_only_if_no_step_ever_ends(tmp_path: Path, steps: int) -> None:
    done = run(
        f"""
with profile(DIR, options=RecordOptions(max_seconds=1.0)) as prof:
    end = time.monotonic() + 1.5
    while time.monotonic() < end: train()
    for _ in range({steps}): prof.step(); train()
""",
        tmp_path,
    )
    (trace,) = traces(tmp_path)
    assert "longer than 1 s" in sidecar(trace)["truncated"] if not steps else sidecar(trace)["last_step"] == 4, done.err


@pytest.mark.torch
def test_what_a_dead_process_left_is_finished_or_removed(tmp_path: Path) -> None:
    host = rank_identity().host
    whole, half = (
        tmp_path / f"{host}_4194303.rank0of1.step3.17.part",
        tmp_path / f"{host}_4194303.rank0of1.step4.18.part",
    )
    whole.write_text('{"traceEvents": [{"ph": "i", "name": "x", "ts": 1, "pid": 1, "tid": 1}],"traceName": "x" }')
    half.write_text('{"traceEvents": [')
    young = tmp_path / f"{host}_4194303.rank0of1.step5.19.part"
    young.touch()
    for path in (whole, half):
        os.utime(path, (time.time() - 1000,) * 2)
    run("with profile(DIR) as prof:\n    for _ in range(6): train(); prof.step()\n", tmp_path)
    assert parts(tmp_path) == [young]
    rescued = tmp_path / f"{host}_4194303.rank0of1.step3.17.pt.trace.json.gz"
    assert document(rescued)["kinetoscope"]["truncated"]


@pytest.mark.torch
def test_spans_of_ours_are_in_the_trace_and_cannot_break_it(tmp_path: Path) -> None:
    run(
        """
@span("around")
def work(): train()
with profile(DIR, wait=0, warmup=0, active=1) as prof:
    with span('a "b" \\\\ \\n é'): work()
    prof.step()
""",
        tmp_path,
    )
    (trace,) = traces(tmp_path)
    assert {"around", "a 'b' /   ?"} <= set(names(trace))
    assert sidecar(trace)["export"] == "torch"


@pytest.mark.torch
def test_spans_do_not_disturb_the_compiler(tmp_path: Path) -> None:
    done = run(
        """
compiled = []
def backend(graph, inputs): compiled.append(graph); return graph.forward
@torch.compile(backend=backend, fullgraph=True)
def work(value):
    with span("inside"): return value.sin()
work(torch.ones(3))
with torch.profiler.profile(activities=CPU): work(torch.ones(3))
print(len(compiled))
""",
        tmp_path,
    )
    assert done.out.strip() == "1", done.err


@pytest.mark.torch
def test_it_goes_to_a_url(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/far/away"
    done = run(f"with profile('{url}') as prof:\n    for _ in range(6): train(); prof.step()\n", tmp_path)
    (trace,) = traces(tmp_path / "far" / "away")
    assert sidecar(trace)["trace"] == trace.name, done.err


@pytest.mark.torch
def test_our_reader_reads_it(tmp_path: Path) -> None:
    import kinetoscope

    run("with profile(DIR, run='mine', repeat=2) as prof:\n    for _ in range(12): train(); prof.step()\n", tmp_path)
    assert len(traces(tmp_path)) == 2
    for trace in traces(tmp_path):
        assert kinetoscope.step_breakdown(kinetoscope.read(trace)).frame.height == 3
        rows = kinetoscope.trace_info(kinetoscope.read(trace)).frame
        assert ("run", "run", "mine") in set(rows.select("topic", "item", "value").iter_rows())


# --- parts of it --------------------------------------------------------------------------------------------------


def test_a_span_costs_next_to_nothing_where_nothing_records() -> None:
    with span("x") as opened:
        assert opened._span is None
    assert span("y")(lambda value: value + 1)(1) == 2


def test_what_is_said_of_a_run_is_cut_to_what_json_can_hold() -> None:
    class Odd:
        def __str__(self) -> str:
            raise ValueError

    said = {"a": float("nan"), "b": [1, {2}], "c": Odd(), "d": "\ud800", "e": 1 << 70, "api_key": "hidden", 3: b"x"}
    found = run_info.plain(said)
    json.dumps(found, allow_nan=False).encode()
    assert found == {"a": "nan", "b": [1, [2]], "c": "Odd", "d": "?", "e": str(1 << 70), "3": "b'x'"}


def test_a_commit_is_found_without_git(tmp_path: Path) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    folder = tmp_path / ".git"
    folder.mkdir()
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    assert run_info.git(tmp_path) == {"branch": "main"}
    (folder / "packed-refs").write_text(f"# pack-refs\n{commit} refs/heads/main\n")
    (tmp_path / "below").mkdir()
    assert run_info.git(tmp_path / "below") == {"branch": "main", "commit": commit}
    (folder / "HEAD").write_text("ref: ../../etc/passwd\n")
    assert run_info.git(tmp_path) == {}


def test_secrets_on_the_command_line_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.orig_argv", ["python", "x.py", "--hf-token", "abc", "--api_key=abc", "--lr", "0.1"])
    assert run_info.command() == ["python", "x.py", "--hf-token", "…", "--api_key=…", "--lr", "0.1"]


def test_the_rank_comes_from_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    assert (rank_identity().rank, rank_identity().world, rank_identity().local_rank) == (3, 8, 1)


def test_limits_are_those_of_this_machine() -> None:
    resident = guards.ResidentMemory()
    assert resident.bytes() > 1 << 20
    resident.close()
    assert resident.bytes() == 0
    assert guards.free_memory() > 1 << 20


def test_a_mistake_of_ours_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    @guards.harmless(7)
    def broken() -> int:
        raise ValueError("a\nb")

    assert broken() == 7
    assert "ValueError: a;" in capsys.readouterr().err


@pytest.mark.torch
def test_a_window_that_ends_while_the_program_traces_leaves_no_operator_in_its_graph(tmp_path: Path) -> None:
    script = """
from torch.fx.experimental.proxy_tensor import make_fx
r = Recorder(DIR, RecordOptions(activities=["cpu"]))
r.start_window(0, 9, provisional=True)
def traced(x):
    r.cut("it is traced")
    return x * 2
print([node.name for node in make_fx(traced, tracing_mode="fake")(torch.ones(3)).graph.nodes])
r.discard()
print(r.start_window(0, 9))
r.close()
"""
    assert run(script, tmp_path).out.splitlines() == ["['x_1', 'mul', 'output']", "True"]
