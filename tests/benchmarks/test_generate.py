"""The generated trace is the source again and again: nothing collides, every link holds, times are exact."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.generate import generate, parsed_size
from benchmarks.marking import LAUNCH_FLOWS, SPACE_OF_KEY, ZERO_IS_NONE
from tests.catalog.samples import required

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

ROOT = Path(__file__).parents[2]
OURS = ROOT / "tests" / "traces"
THEIRS = ROOT.parent / "shared" / "traces"

Event = dict[str, Any]


def source(folder: Path, *events: Event, **metadata: Any) -> Path:
    path = folder / "source.json"
    path.write_text(json.dumps({"schemaVersion": 1, **metadata, "traceEvents": [*events], "traceName": "é\u2028 last"}))
    return path


def op(name: str, ts: Any, dur: Any = 5.25, cat: Any = "cpu_op", **args: Any) -> Event:
    event: Event = {"ph": "X", "cat": cat, "name": name, "pid": 7, "tid": 8, "ts": ts, "dur": dur}
    return {**event, "args": args} if args else event


def flow(ph: str, cat: str, number: Any, ts: float) -> Event:
    return {"ph": ph, "id": number, "pid": 7, "tid": 8, "ts": ts, "cat": cat, "name": cat}


def parsed(path: Path) -> Any:
    """The JSON, times as Decimal."""
    raw = path.read_bytes()
    return json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw, parse_float=Decimal, strict=False)


def events_of(path: Path) -> list[Event]:
    document = parsed(path)
    return list(document if isinstance(document, list) else document["traceEvents"])


def is_copied(event: Event) -> bool:
    return event.get("ph") != "M" and event.get("cat") != "Trace" and event.get("s") != "g"


def copies_of(path: Path, copies: int) -> list[list[Event]]:
    found = [event for event in events_of(path) if is_copied(event)]
    size = len(found) // copies
    assert size * copies == len(found)
    return [found[at : at + size] for at in range(0, len(found), size)]


def ids_of(event: Event) -> Iterator[tuple[str, Any]]:
    """The space and the number of each id of an event that is one."""
    if "id" in event:
        yield ("correlation" if event.get("cat") in LAUNCH_FLOWS else f"flow {event.get('cat')}"), event["id"]
    for key, value in (event.get("args") or {}).items():
        space = SPACE_OF_KEY.get(key)
        if space and isinstance(value, int) and (value > 0 or (value == 0 and space not in ZERO_IS_NONE)):
            yield space, value


def without_what_moves(event: Event) -> Event:
    args = {key: value for key, value in (event.get("args") or {}).items() if key not in {*SPACE_OF_KEY, "external ts"}}
    name = event.get("name", "").partition("#")[0] if "ProfilerStep" in event.get("name", "") else event.get("name")
    return {**event, "args": args, "name": name, "ts": 0, "id": 0}


def assert_copies(original: Path, made: Path, copies: int) -> None:
    """All that the generator promises, of any trace."""
    (before,), after = copies_of(original, 1), copies_of(made, copies)
    once = [event for event in events_of(original) if not is_copied(event)]
    assert len(events_of(made)) == len(once) + len(before) * copies
    taken: dict[tuple[str, Any], int] = {}
    for number, copy in enumerate(after):
        renamed: dict[tuple[str, Any], Any] = {}
        for old, new in zip(before, copy, strict=True):
            assert without_what_moves(new) == without_what_moves(old)
            for (space, was), (_, is_now) in zip(ids_of(old), ids_of(new), strict=True):
                assert renamed.setdefault((space, was), is_now) == is_now  # what was linked still is
                assert taken.setdefault((space, is_now), number) == number  # and to no other copy
        assert len({(space, is_now) for (space, _), is_now in renamed.items()}) == len(renamed)  # and to nothing else
    delays = [delay_of(before, copy) for copy in after]
    assert delays == [number * delays[1] for number in range(copies)]
    starts = [Decimal(event["ts"]) for event in before if "ts" in event]
    assert delays[1] > max(starts) - min(starts)


def delay_of(before: list[Event], copy: list[Event]) -> Decimal:
    """By how much the times of `copy` are later, in microseconds: all by the same."""
    pairs = [(old["ts"], new["ts"]) for old, new in zip(before, copy, strict=True) if "ts" in old]
    assert all(type(new) is type(old) for old, new in pairs)
    (delay,) = {Decimal(new) - Decimal(old) for old, new in pairs}
    return delay


REAL = [
    OURS / "mlp.pt.trace.json.gz",
    OURS / "transformer.pt.trace.json.gz",
    OURS / "python_export.pt.trace.json.gz",
    THEIRS / "alexnet_a100/benchmark_result_2869224_1695835535_trace.json.gz",
    THEIRS / "dlrm_ddp_v100_8rank/worker0_step_12.1694128201545.pt.trace.json.gz",
    THEIRS / "hostile/trace_view.json",
    THEIRS / "mi250_train/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    THEIRS / "trace_compare/base/base.json.gz",
]


@pytest.mark.slow
@pytest.mark.parametrize("path", REAL, ids=lambda path: path.parent.name + "-" + path.name.partition(".")[0])
@pytest.mark.parametrize("style", ["torch", "indent"])
def test_real_traces_repeat_without_collision(tmp_path: Path, path: Path, style: Any) -> None:
    required(path)
    out = tmp_path / "out.json"
    made = generate(path, out, repeat=3, style=style)
    assert (made.copies, made.events, made.size) == (3, len(events_of(out)), out.stat().st_size)
    assert_copies(path, out, 3)


@pytest.mark.slow
def test_one_copy_says_what_the_source_says(tmp_path: Path) -> None:
    path = OURS / "transformer.pt.trace.json.gz"
    generate(path, tmp_path / "out.json", repeat=1)
    assert parsed(tmp_path / "out.json") == parsed(path)


@pytest.mark.slow
def test_one_indented_copy_is_the_text_of_a_dump(tmp_path: Path) -> None:
    document = json.loads(gzip.decompress((OURS / "conv.pt.trace.json.gz").read_bytes()))
    path = tmp_path / "source.json"
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False))
    generate(path, tmp_path / "out.json", repeat=1, style="indent")
    assert (tmp_path / "out.json").read_text() == path.read_text()


def test_the_default_layout_is_that_of_torch(tmp_path: Path) -> None:
    kernel = op("k", 10.5, 2.0, "kernel", correlation=3, grid=[1, 2])
    generate(source(tmp_path, kernel, flow("f", "ac2g", 3, 10.5)), tmp_path / "out.json", repeat=1)
    assert """[
  {
    "ph": "X", "cat": "kernel", "name": "k", "pid": 7, "tid": 8,
    "ts": 10.500, "dur": 2.000,
    "args": {
      "correlation": 3, "grid": [1, 2]
    }
  },
  {
    "ph": "f", "id": 3, "pid": 7, "tid": 8, "ts": 10.500,
    "cat": "ac2g", "name": "ac2g"
  }
  ],""" in (tmp_path / "out.json").read_text()


def test_launches_kernels_flows_and_parents_stay_linked(tmp_path: Path) -> None:
    path = source(
        tmp_path,
        op("aten::mm", 1.0, **{"External id": 4, "Ev Idx": 0, "Sequence number": 0, "Record function id": 0}),
        op("cudaLaunchKernel", 2.0, 1.0, "cuda_runtime", **{"correlation": 40, "External id": 4}),
        op("gemm", 9.0, 4.5, "kernel", **{"correlation": 40, "External id": 4, "stream": 7}),
        flow("s", "ac2g", 40, 2.0),
        flow("f", "ac2g", 40, 9.0),
        flow("s", "fwdbwd", 1, 1.0),
        op("wait", 3.0, 1.0, "cuda_sync", wait_on_cuda_event_record_corr_id=40, wait_on_cuda_event_id=2, stream=-1),
        op("unlinked", 3.5, 1.0, "cuda_sync", wait_on_cuda_event_record_corr_id=-1),
        op("main", 0.5, 12.0, "python_function", **{"Python id": 10, "Python parent id": None}),
        op("train", 0.75, 11.0, "python_function", **{"Python id": 11, "Python parent id": 10}),
    )
    generate(path, tmp_path / "out.json", repeat=2)
    assert_copies(path, tmp_path / "out.json", 2)
    mm, launch, gemm, start, finish, forward, wait, unlinked, main, train = copies_of(tmp_path / "out.json", 2)[1]
    assert launch["args"]["correlation"] == gemm["args"]["correlation"] == start["id"] == finish["id"] != 40
    assert wait["args"]["wait_on_cuda_event_record_corr_id"] == start["id"]
    assert mm["args"]["External id"] == launch["args"]["External id"] == gemm["args"]["External id"] != 4
    assert unlinked["args"]["wait_on_cuda_event_record_corr_id"] == -1
    assert main["args"]["Python parent id"] is None
    assert train["args"]["Python parent id"] == main["args"]["Python id"]
    assert (mm["args"]["Record function id"], gemm["args"]["stream"], forward["id"]) == (0, 7, 2)
    assert mm["args"]["Sequence number"] == mm["args"]["Ev Idx"] == 1


def test_steps_count_on(tmp_path: Path) -> None:
    host = [op(f"ProfilerStep#{number}", 10.0 * number, 9.0, "user_annotation") for number in (5, 6)]
    device = op("ProfilerStep#5", 52.0, 9.0, "gpu_user_annotation")
    generate(source(tmp_path, *host, device), tmp_path / "out.json", repeat=3)
    names = [event["name"] for event in events_of(tmp_path / "out.json")]
    assert names == [f"ProfilerStep#{number}" for number in (5, 6, 5, 7, 8, 7, 9, 10, 9)]


def test_metadata_stands_once_and_the_whole_span_is_stretched(tmp_path: Path) -> None:
    path = source(
        tmp_path,
        {"ph": "M", "name": "process_name", "ts": 0.5, "pid": 7, "tid": 0, "args": {"name": "python"}},
        op("a", 1.0, 2.0),
        op("PyTorch Profiler (0)", 0.25, 5.5, "Trace"),
        {"ph": "i", "s": "g", "name": "Iteration Start: PyTorch Profiler", "pid": "Traces", "tid": "t", "ts": 0.25},
        {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 6.0},
    )
    generate(path, tmp_path / "out.json", repeat=3)
    meta, *ops, span, begin, end = events_of(tmp_path / "out.json")
    assert (meta["ts"], begin["ts"]) == (Decimal("0.5"), Decimal("0.25"))
    window = ops[1]["ts"] - ops[0]["ts"]
    assert [event["ts"] for event in ops] == [1 + window * number for number in range(3)]
    assert span["dur"] == Decimal("5.5") + 2 * window
    assert end["ts"] == 6 + 2 * window


def test_integer_times_stay_integers(tmp_path: Path) -> None:
    path = source(tmp_path, op("a", 1623142623529071, 3, **{"external ts": 1623142623529070}), op("b", "1699.125", 0.5))
    generate(path, tmp_path / "out.json", repeat=2)
    a, b = copies_of(tmp_path / "out.json", 2)[1]
    delay = a["ts"] - 1623142623529071
    assert type(a["ts"]) is int
    assert type(a["args"]["external ts"]) is int
    assert a["args"]["external ts"] == 1623142623529070 + delay
    assert b["ts"] == str(Decimal("1699.125") + delay)


@given(st.lists(st.integers(0, 2 * 10**18), min_size=1, max_size=8), st.integers(0, 10**9))
def test_times_shift_by_whole_nanoseconds(
    tmp_path_factory: pytest.TempPathFactory, starts: list[int], length: int
) -> None:
    folder = tmp_path_factory.mktemp("shift")
    spelled = [f"{start // 1000}.{start % 1000:03d}" for start in starts]
    events = ",".join(f'{{"ph":"X","cat":"c","name":"n","ts":{ts},"dur":{length / 1000}}}' for ts in spelled)
    (folder / "source.json").write_text(f'{{"traceEvents":[{events}]}}')
    generate(folder / "source.json", folder / "out.json", repeat=3)
    first, second, third = ([event["ts"] * 1000 for event in copy] for copy in copies_of(folder / "out.json", 3))
    window = int(second[0] - first[0])
    assert first == starts
    assert second == [start + window for start in starts]
    assert third == [start + 2 * window for start in starts]
    assert max(starts) + length < min(starts) + window
    assert (folder / "out.json").read_text().count(".") == 3 * 2 * len(starts)


def test_a_time_that_cannot_move_exactly_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cannot shift the time '1\.2345'"):
        generate(source(tmp_path, op("a", 1.2345)), tmp_path / "out.json", repeat=2)


def test_distinct_strings_are_as_many_as_asked_for(tmp_path: Path) -> None:
    names = ["aten::mm", "ncclKernel_AllReduce", "ProfilerStep#1"]
    kernels = [op(name, 2.0 + at, 1.0, "kernel", correlation=at + 1) for at, name in enumerate(names)]
    stacks = [op("aten::add", 9.0, **{"Call stack": "a.py(1): f;"}), op('quote"d', 9.5, cat="python_function", x=1)]
    path = source(tmp_path, *kernels, *stacks)
    generate(path, tmp_path / "out.json", repeat=10, distinct_strings=20)
    events = events_of(tmp_path / "out.json")
    found = [event["name"] for event in events if "<" in event["name"]]
    found += [event["args"]["Call stack"] for event in events if "Call stack" in event["args"]]
    assert (len(found), len(set(found))) == (40, 20)
    assert {name.partition("<")[0] for name in found} == {"aten::mm", "aten::add", "a.py(1): f;", 'quote"d'}
    assert sum(event["name"] == "ncclKernel_AllReduce" for event in events) == 10
    assert_ids_as_before(path, tmp_path / "out.json", 10)


def assert_ids_as_before(original: Path, made: Path, copies: int) -> None:
    (before,), after = copies_of(original, 1), copies_of(made, copies)
    assert [list(ids_of(event)) for event in after[0]] == [list(ids_of(event)) for event in before]


@pytest.mark.parametrize("style", ["torch", "indent"])
def test_distinct_shapes_are_sets_of_argument_keys(tmp_path: Path, style: Any) -> None:
    path = source(tmp_path, op("a", 1.0, one=1), op("b", 2.0), op("c", 3.0, two=[2]))
    generate(path, tmp_path / "out.json", repeat=4, distinct_shapes=5, style=style)
    shapes = {tuple(event["args"])[1:] for event in events_of(tmp_path / "out.json") if "args" in event}
    assert len(shapes) == 5
    assert all(keys for keys in shapes)


def test_compressed_is_the_same_text_and_always_the_same_bytes(tmp_path: Path) -> None:
    path = OURS / "mlp_default.pt.trace.json.gz"
    outs = [tmp_path / name for name in ("a.json", "b.json.gz", "c.json.gz", "d.json.zst")]
    sizes = {generate(path, out, repeat=2, distinct_strings=50).size for out in outs}
    plain, packed, again, other = (out.read_bytes() for out in outs)
    assert sizes == {len(plain)}
    assert gzip.decompress(packed) == zstd.decompress(other) == plain
    assert again == packed


def test_a_size_is_reached_and_not_far_exceeded(tmp_path: Path) -> None:
    path = OURS / "mlp_default.pt.trace.json.gz"
    one = generate(path, tmp_path / "one.json", repeat=1)
    made = generate(path, tmp_path / "out.json", size=2_000_000)
    assert 2_000_000 <= made.size < 2_000_000 + 2 * one.size


@pytest.mark.parametrize("amount", [{}, {"repeat": 1, "size": 1}, {"repeat": 0}])
def test_the_amount_must_be_said_once(tmp_path: Path, amount: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"either the number of copies or the size|at least 1"):
        generate(source(tmp_path, op("a", 1.0)), tmp_path / "out.json", **amount)


def test_what_is_not_a_trace_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "source.json").write_text('{"a": 1}')
    with pytest.raises(ValueError, match="is not a trace"):
        generate(tmp_path / "source.json", tmp_path / "out.json", repeat=1)


def test_no_events_make_a_trace_without_events(tmp_path: Path) -> None:
    assert generate(source(tmp_path), tmp_path / "out.json", repeat=2).events == 0
    assert events_of(tmp_path / "out.json") == []


@pytest.mark.parametrize(("given_size", "size"), [("1GB", 10**9), ("1.5 mb", 1_500_000), ("12", 12), ("2k", 2000)])
def test_sizes_are_read(given_size: str, size: int) -> None:
    assert parsed_size(given_size) == size


def test_the_script_writes_one_file_a_rank(tmp_path: Path) -> None:
    path = source(tmp_path, op("a", 1.0), distributedInfo={"backend": "gloo", "rank": 5, "pg_count": 1})
    script = [sys.executable, str(ROOT / "benchmarks" / "generate.py"), str(path), str(tmp_path / "rank{rank}.json")]
    environment = {"PYTHONPATH": str(ROOT / "src"), "HOME": str(tmp_path)}
    amount = ["--repeat", "2", "--ranks", "2"]
    subprocess.run([*script, *amount], env=environment, cwd=tmp_path, check=True, timeout=60)
    for rank in range(2):
        info = parsed(tmp_path / f"rank{rank}.json")["distributedInfo"]
        assert info == {"backend": "gloo", "rank": rank, "pg_count": 1, "world_size": 2}
