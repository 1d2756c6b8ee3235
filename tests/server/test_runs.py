"""Which runs there are; that new ones appear, growing ones grow, and broken ones say what is wrong."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import pytest

from kinetoscope.algorithms.compile_events import on_compile
from kinetoscope.server.runs.progress import Progress, ReadProgress
from kinetoscope.server.runs.run import ReadKeywords, state_of
from kinetoscope.server.runs.scan_runs import RunScanner
from kinetoscope.server.runs.workspace import COMPILING, Workspace
from tests.conftest import DEMO
from tests.drawn import annotation, op, written
from tests.server.conftest import MLP, RANKS
from tests.server.serving import Client, serving


def until(true: Callable[[], Any]) -> Any:
    """What it says once it is true: the server looks again within seconds."""
    for _ in range(300):
        if found := true():
            return found
        time.sleep(0.05)
    raise AssertionError("that never became true")


def found(*paths: Path) -> dict[str, int]:
    """Name and number of files of each run."""
    runs, wrong = RunScanner([str(path) for path in paths]).scan()
    assert not wrong
    assert len({run.id for run in runs}) == len(runs)
    return {run.name: len(run.files) for run in runs}


def touched(folder: Path, *names: str) -> Path:
    for name in names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        written(file, op("aten::x", 0, 1000))
    return folder


@pytest.mark.parametrize(
    ("names", "runs"),
    [
        (["rank0.json", "rank1.json"], {"log": 2}),
        (["host_12.1700000000000.pt.trace.json", "host_13.1700000000001.pt.trace.json"], {"log": 2}),
        (["host_12.1700000000000.pt.trace.json", "host_12.1700000099000.pt.trace.json"], {"log": 2}),
        (["17.5-TP-0-DECODE.trace.json", "17.5-TP-1-DECODE.trace.json", "merged-17.5.trace.json"], {"log": 3}),
        (["dp0_pp0_tp0_rank0.17.pt.trace.json", "h_1.async_llm.17.pt.trace.json"], {"log": 2}),
        (["a.json", "b.json"], {"a": 1, "b": 1}),
        (["a.json", "ddp_rank0.json", "ddp_rank1.json"], {"a": 1, "ddp": 2}),
        (["x1_rank0.json", "x2_rank0.json"], {"x1": 1, "x2": 1}),
        (["rank0/trace.json", "rank1/trace.json"], {"log": 2}),
        (["monday/rank0.json", "monday/rank1.json", "tuesday/rank0.json"], {"monday": 2, "tuesday": 1}),
        (["monday/job.json", "tuesday/deep/job.json"], {"monday": 1, "tuesday/deep": 1}),
        (["monday/rank_0/t.json", "monday/rank_1/t.json", "tuesday/rank_0/t.json"], {"monday": 2, "tuesday": 1}),
        (["rank0.json", "rank1.json", "capture_traces/graph_capture_rank_0.json"], {"log": 2}),
        (["worker0.1623212756351.pt.trace.json", "worker1.1623212756399.pt.trace.json"], {"log": 2}),
    ],
)
def test_what_is_a_run(tmp_path: Path, names: list[str], runs: dict[str, int]) -> None:
    assert found(touched(tmp_path / "log", *names)) == runs


def test_contents_tell_ranks_where_names_do_not(tmp_path: Path) -> None:
    for rank, name in enumerate(["a.json", "b.json"]):
        written(tmp_path / name, op("aten::x", 0, 1000), distributedInfo={"rank": rank, "world_size": 2})
    assert list(found(tmp_path).values()) == [2]


def test_paths_of_all_kinds(tmp_path: Path) -> None:
    folder = touched(tmp_path, "one/a.json", "two/b.json")
    assert found(folder / "one", folder / "two" / "b.json") == {"one": 1, "two/b": 1}
    assert found(folder / "one" / "a.json") == {"a": 1}
    assert found(folder / "*" / "*.json") == {"one": 1, "two": 1}
    assert found(MLP, MLP) == {"mlp": 1}


def test_snapshots_below_a_folder_of_runs_are_runs(tmp_path: Path) -> None:
    folder = touched(tmp_path / "log", "one/rank0.json", "two/a.json", "two/b.json")
    taken = pickle.dumps({"segments": [], "device_traces": [[]]})
    own = ("memory/x.pickle", "memory/y.pickle", "two/late.pickle")
    of_runs = ("one/snapshots/rank0.memory.pickle", "one/any.pickle", "two/a.memory.pickle")
    for name in (*own, *of_runs):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(taken)
    (folder / "memory" / "weights.pkl").write_bytes(pickle.dumps({"weights": [1, 2]}))
    runs, wrong = RunScanner([str(folder)]).scan()
    names = {run.name for run in runs}
    assert names == {"one", "two/a", "two/b", "memory/x", "memory/y", "two/late"}
    assert not wrong
    assert {run.name for run in RunScanner([str(folder / "memory")]).scan()[0]} >= {"x", "y"}


def test_recordings_of_several_tools_are_runs(tmp_path: Path) -> None:
    folder = touched(tmp_path / "log", "one/rank0.json")
    (folder / "report.sqlite").write_bytes(b"SQLite format 3\0")
    assert found(folder) == {"log": 1, "log/one": 1}


def test_ids_are_stable_and_fit_for_a_url(tmp_path: Path) -> None:
    folder = touched(tmp_path, "a b/ü <&>?#.json", "c/%2f.json")
    (first, _), (second, _) = RunScanner([str(folder)]).scan(), RunScanner([str(folder)]).scan()
    assert [run.id for run in first] == [run.id for run in second]
    with serving(folder) as client:
        for run in client.get("runs")["runs"]:
            assert run["id"].replace("~", "").replace("_", "").replace("-", "").replace(".", "").isalnum()
            assert client.get(f"runs/{run['id']}")["events"] == 1


def test_a_run_keeps_its_id_when_another_comes_beside_it(tmp_path: Path) -> None:
    scanner = RunScanner([str(touched(tmp_path / "log", "a.json"))])
    (first,) = scanner.scan()[0]
    assert first.name == "log"
    touched(tmp_path / "log", "b.json", "rank0.json")
    ids = {run.name: run.id for run in scanner.scan()[0]}
    assert ids["a"] == first.id
    assert len(set(ids.values())) == 3
    (tmp_path / "log" / "a.json").unlink()
    assert {run.name: run.id for run in scanner.scan()[0]} == {name: ids[name] for name in ids if name != "a"}
    touched(tmp_path / "log", "a.json")
    assert {run.name: run.id for run in scanner.scan()[0]} == ids


def test_a_folder_of_parquet_is_a_run(tmp_path: Path) -> None:
    from kinetoscope.reading import read
    from kinetoscope.views.exports import trace_parquet

    trace_parquet.write(read(MLP).trace(), tmp_path / "copy")
    with serving(tmp_path / "copy") as client:
        told = client.get(f"runs/{client.run()}")
        assert (told["events"], told["bytes"] > 0) == (len(read(MLP).trace()), True)


@pytest.mark.slow
def test_files_of_an_object_store() -> None:
    import fsspec

    system = fsspec.filesystem("memory")
    system.pipe("/served/log/rank0.json.gz", MLP.read_bytes())
    with serving("memory://served/log") as client:
        run = client.run()
        before = client.get(f"runs/{run}")
        assert before["events"] > 100
        system.pipe("/served/log/rank1.json.gz", MLP.read_bytes())
        until(lambda: client.get(f"runs/{run}")["ranks"] == [0, 1])
    system.rm("/served", recursive=True)


@pytest.mark.slow
def test_new_runs_appear_and_old_ones_go(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        listed = client.get("runs")
        assert listed["runs"] == []
        assert "no traces in this folder" in listed["wrong"][0]
        touched(tmp_path, "one/a.json")
        first = until(lambda: client.get("runs")["runs"])[0]["id"]
        time.sleep(0.02)
        touched(tmp_path, "two/b.json")
        until(lambda: [run["name"] for run in client.get("runs")["runs"]] == ["two", "one"])  # the newest first
        assert client.get(f"runs/{first}")["events"] == 1
        shutil.rmtree(tmp_path / "one")
        until(lambda: len(client.get("runs")["runs"]) == 1)
        assert client.refused(f"runs/{first}")[0] == 404


@pytest.mark.slow
def test_a_run_that_grows_is_asked_anew(tmp_path: Path) -> None:
    file = touched(tmp_path, "rank0.json") / "rank0.json"
    with serving(tmp_path) as client:
        run = client.run()
        path = f"runs/{run}/analyses/operators"
        assert [row[1] for row in client.get(path)["rows"]] == ["aten::x"]
        version = client.get("runs")["runs"][0]["version"]
        assert client.get("runs")["runs"][0]["state"] == "growing"
        written(file, op("aten::y", 0, 1000), op("aten::z", 2000, 500))
        until(lambda: [row[1] for row in client.get(path)["rows"]] == ["aten::y", "aten::z"])
        assert client.get("runs")["runs"][0]["version"] != version
        touched(tmp_path, "rank1.json")
        until(lambda: client.get(f"runs/{run}")["ranks"] == [0, 1])
        for name in ("rank0.json", "rank1.json"):
            os.utime(tmp_path / name, (1, 1))
        until(lambda: client.get("runs")["runs"][0]["state"] == "ready")


@pytest.mark.slow
@pytest.mark.parametrize("packed", [False, True])
def test_half_written_files_are_retried_until_they_are_complete(tmp_path: Path, packed: bool) -> None:
    events = [op(f"aten::op{k % 7}", 10_000 * k, 5_000) for k in range(2000)]
    text = json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()
    data = gzip.compress(text) if packed else text
    file = tmp_path / ("rank0.json.gz" if packed else "rank0.json")
    with serving(tmp_path) as client:
        for length in (0, 5, 40, len(data) // 2, len(data) - 1):
            file.write_bytes(data[:length])
            run = until(lambda: client.get("runs")["runs"])[0]["id"]
            answer = client.ask(f"/api/runs/{run}/analyses/operators")
            assert answer.status in (200, 404, 409), answer.body  # never a traceback
            if answer.status != 200:
                assert answer.error
        file.write_bytes(data)
        until(lambda: client.ask(f"/api/runs/{run}").status == 200 and client.get(f"runs/{run}")["events"] == 2000)
        path = f"/api/runs/{run}/analyses/operators"
        until(lambda: client.ask(path).status == 200)
        table = client.get(
            f"runs/{run}/analyses/operators", {"time": "0ms..100s"}
        )  # steps would leave out the last calls
        calls = [column["name"] for column in table["columns"]].index("calls")
        assert sum(row[calls] for row in table["rows"]) == 2000
        assert client.get("runs")["runs"][0]["error"] == ""


def test_what_is_wrong_is_kept_and_told(tmp_path: Path) -> None:
    (tmp_path / "shopping.json").write_text('{"milk": 2}')
    os.utime(tmp_path / "shopping.json", (1, 1))
    with serving(tmp_path) as client:
        run = client.run()
        status, error = client.refused(f"runs/{run}")
        assert status == 409
        assert "shopping.json" in error
        entry = client.get("runs")["runs"][0]
        assert (entry["state"], entry["error"]) == ("error", error)
        for path in (
            f"runs/{run}/analyses/operators",
            f"runs/{run}/pages/overview",
            f"runs/{run}/analyses/kernels/chart",
        ):
            assert client.refused(path) == (409, error)


def test_one_broken_rank_does_not_hide_the_others(tmp_path: Path) -> None:
    touched(tmp_path, "rank0.json")
    (tmp_path / "rank1.json").write_bytes(b"\x1f\x8b\x08\x00 this is no gzip")
    with serving(tmp_path) as client:
        told = client.get(f"runs/{client.run()}/analyses/operators")
        assert [row[0] for row in told["rows"]] == [0]
        assert any("rank 1" in note for note in told["notes"])


def test_cycles_of_the_profiler(tmp_path: Path) -> None:
    for cycle in range(2):
        file = tmp_path / f"host_7.170000000000{cycle}.pt.trace.json"
        written(file, op(f"aten::of{cycle}", 0, 1000), annotation("ProfilerStep#0", 0, 5000))
    with serving(tmp_path) as client:
        run = client.run()
        assert client.get(f"runs/{run}")["cycles"] == 2
        path = f"runs/{run}/analyses/operators"
        query = {"search": "aten::"}
        assert [row[1] for row in client.get(path, {**query, "cycle": 0})["rows"]] == ["aten::of0"]
        assert [row[2] for row in client.get(path, {**query, "cycle": 1})["rows"]] == ["aten::of1"]
        everything = client.get(path, query)
        assert [row[1:3] for row in everything["rows"]] == [[0, "aten::of0"], [1, "aten::of1"]]
        assert everything["columns"][1]["name"] == "cycle"
        assert client.refused(path, {"cycle": 2})[0] == 404


def test_memory_is_bounded_and_everything_still_answered() -> None:
    with serving(RANKS, MLP, DEMO, memory=1) as client:
        for _ in range(2):
            for run in client.get("runs")["runs"]:
                assert client.get(f"runs/{run['id']}")["events"] > 0
                assert client.get(f"runs/{run['id']}/analyses/operators")["rows"]


def test_only_some_ranks_are_read() -> None:
    with serving(RANKS, reading=ReadKeywords(ranks=(1,))) as client:
        assert client.get(f"runs/{client.run()}")["ranks"] == [1]


def test_peaks_given_by_hand_are_those_of_the_page() -> None:
    with serving(MLP, reading=ReadKeywords(peak=("memory=40GB/s",))) as client:
        answer = client.get(f"runs/{client.run()}/analyses/peaks")
        [row] = answer["rows"]
        assert {"the host", "memory", 40e9, "given"} <= set(row)


def test_a_path_that_does_not_exist_is_told(tmp_path: Path) -> None:
    with serving(tmp_path / "nothing", MLP) as client:
        listed = client.get("runs")
        assert [run["name"] for run in listed["runs"]] == ["mlp"]
        assert "no such file or folder" in listed["wrong"][0]


def test_unknown_runs(mlp: Client) -> None:
    for name in ("nothing", "%00", "a" * 3000, "..", "%ff%fe", "mlp"):
        answer = mlp.ask(f"/api/runs/{name}/analyses/operators")
        assert answer.status == 404, answer.body


def test_progress_is_told_while_a_trace_is_read() -> None:
    progress = Progress()
    assert progress.now() == ReadProgress(0, 0, "")
    with progress.reading(100) as more:
        more(30)
        assert progress.now() == ReadProgress(30, 100, "reading")
        with progress.reading(50):
            more(90)
            assert progress.now() == ReadProgress(120, 150, "reading")
        more(90)
        assert progress.now() == ReadProgress(150, 150, "reading")  # never more than all
    assert progress.now() == ReadProgress(0, 0, "")


def test_compiling_is_told() -> None:
    workspace = Workspace((str(MLP),))
    (run,) = workspace.runs().runs
    workspace.watch()
    assert workspace.progress(run).what == ""
    with workspace.asked():
        assert workspace.progress(run).what == "analysing"
    seen = []
    compile_something(lambda: seen.append(workspace.progress(run).what))
    workspace.close()
    assert seen == [COMPILING]
    assert workspace.progress(run).what == ""


def compile_something(meanwhile: Callable[[], None]) -> None:
    def begins(_: str, is_begin: bool) -> None:
        if is_begin:
            meanwhile()

    def function(number: int) -> int:
        return number + 1

    njit: Any = numba.njit
    with on_compile(begins):
        njit(function)(1)


def test_the_clock_of_whoever_wrote_a_file_may_be_ahead(tmp_path: Path) -> None:
    file = touched(tmp_path, "rank0.json") / "rank0.json"
    os.utime(file, (time.time() + 10_000,) * 2)
    workspace = Workspace((str(tmp_path),))
    assert state_of(workspace.runs().runs[0]) == "ready"


def test_different_ranks_are_read_side_by_side_and_once() -> None:
    from concurrent.futures import ThreadPoolExecutor

    workspace = Workspace((str(RANKS),))
    (run,) = workspace.runs().runs
    with ThreadPoolExecutor(8) as pool:
        traces = list(pool.map(run.trace, [0, 1] * 8))
    assert len({id(trace) for trace in traces}) == 2
