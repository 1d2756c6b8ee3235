"""Dumps read as columns say what `pickle.load` would have said, in every form and version."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.model.flight_recorder.dump import FlightDump
from kinetoscope.readers.flight_recorder import is_dump, load
from tests.conftest import SHARED, first_quick
from tests.notes import codes
from tests.readers.flight_recorder.plain import rows_of, rows_written
from tests.readers.flight_recorder.writing import FRAMES, START, Dump, as_json, content, dump, entry

DATA = Path(__file__).parent / "data"
SAMPLES = SHARED.parent / "samples" / "flight_recorder"
VERSIONS = ["1.4", "2.1", "2.2", "2.3", "2.4", "2.9", "2.10"]


def blocks(content: bytes, size: int = 1 << 22) -> Iterator[bytes]:
    """Content in pieces."""
    return (content[place : place + size] for place in range(0, len(content), size))


def drawn() -> Dump:
    """A dump with everything that may occur in one."""
    other = {"pg_id": 3, "process_group": ("7", "mesh_pp"), "is_p2p": True, "p2p_seq_id": 4, "input_sizes": []}
    waiting: dict[str, Any] = {
        "time_discovered_started_ns": None, "time_discovered_completed_ns": None, "state": "scheduled",
        "retired": False, "frames": [],
    }  # fmt: skip
    written = dump(
        [
            entry(5),
            entry(6, input_sizes=[[]], output_sizes=[[], []], frames=[*reversed(FRAMES)]),
            entry(7, profiling_name="nccl:send 0->1", collective_seq_id=0, input_dtypes=[], **other),
            entry(8, input_sizes=[[3], [], [2, 5, 7]], input_dtypes=["Float", "Int", "Float"], duration_ms=12),
            entry(9, profiling_name="gloo:barrier", input_sizes=[], output_sizes=[]),
            entry(10, **waiting, thread_name="naïve"),
        ],
        world=8,
    )
    for each in written["entries"][-2:]:
        del each["duration_ms"]
    return written


@pytest.mark.parametrize("size", [1 << 22, 97])
@pytest.mark.parametrize("form", ["c++", 2, 3, 4, 5])
def test_all_that_was_written_is_read(form: Literal["c++"] | int, size: int) -> None:
    written = drawn()
    pickled = content(written) if form == "c++" else content(written, "pickle", form)
    assert is_dump(pickled[:65536])
    read = load("drawn", blocks(pickled, size))
    assert rows_of(read) == rows_written(written)
    assert (read.version, read.library, read.notes) == ("2.10", "2.27.5", ())
    status = [(each.last_enqueued, each.last_started, each.last_completed) for each in read.groups]
    assert status == [(6, 10, 10), (-1, -1, -1), (6, 10, 10)]


@pytest.mark.parametrize("size", [1 << 22, 97])
def test_json_says_the_same_without_stacks(size: int) -> None:
    text = content(drawn(), "json")
    assert is_dump(text[:65536])
    read = load("drawn.json", blocks(text, size))
    assert rows_of(read) == [{**row, "frames": ()} for row in rows_written(drawn())]
    assert read.groups == load("drawn", [content(drawn())]).groups


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("form", ["c++", "pickle", "json"])
def test_every_version_is_read(version: str, form: Literal["c++", "pickle", "json"]) -> None:
    written = dump([entry(0), entry(1, profiling_name="nccl:recv 1<-0", is_p2p=True), entry(2)], version, world=4)
    read = load("drawn", [content(written, form)])
    rows = rows_written(written)
    assert rows_of(read) == ([{**row, "frames": ()} for row in rows] if form == "json" else rows)
    assert read.version == version


SIZES = st.lists(st.lists(st.integers(0, 1 << 40), max_size=5), max_size=4)
TIMES = st.none() | st.integers(START, START + 10**12)
ENTRIES = st.builds(
    entry,
    st.integers(0, 1 << 40),
    profiling_name=st.sampled_from(["nccl:all_reduce", "gloo:barrier", "xccl:_all_gather_base", "nccl:send 0->3"]),
    process_group=st.tuples(st.sampled_from(["0", "é", "a b"]), st.sampled_from(["", "mesh_tp"])),
    pg_id=st.integers(0, 3),
    collective_seq_id=st.integers(0, 1 << 50),
    p2p_seq_id=st.integers(0, 1 << 50),
    input_sizes=SIZES,
    output_sizes=SIZES,
    input_dtypes=st.lists(st.sampled_from(["Float", "BFloat16"]), max_size=3),
    duration_ms=st.integers(0, 1 << 20) | st.floats(0, 1e6).map(lambda value: round(value, 6)),
    time_discovered_started_ns=TIMES,
    time_discovered_completed_ns=TIMES,
    state=st.sampled_from(["scheduled", "started", "completed"]),
    is_p2p=st.booleans(),
    retired=st.booleans(),
    frames=st.lists(st.sampled_from(FRAMES), max_size=4),
    thread_name=st.text(max_size=3).filter(str.isprintable),
)


@given(st.lists(ENTRIES, max_size=5), st.sampled_from(["c++", "pickle", "json"]))
def test_what_is_drawn_is_read_as_the_plain_twin_reads_it(
    entries: list[dict[str, Any]], form: Literal["c++", "pickle", "json"]
) -> None:
    written = dump(entries, world=3)
    pickled = content(written, form)
    rows = rows_written(as_json(written) if form == "json" else pickle.loads(pickled))
    assert _small(rows_of(load("drawn", blocks(pickled, 1 << 12)))) == _small(rows)


def _small(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without numbers of elements that 64 bits do not hold."""
    return [
        {key: value for key, value in row.items() if not ("elements" in key and (value == 0 or value >= 1 << 62))}
        for row in rows
    ]


def test_long_lists_and_many_entries_stay_in_order() -> None:
    written = dump([entry(k, op_id=k * 7) for k in range(2345)], world=1500)
    for form in ("c++", "pickle", "json"):
        read = load("long", blocks(content(written, form)))
        assert read.entries.op.tolist() == [k * 7 for k in range(2345)]
        assert read.groups[0].ranks == (*range(1500),)


# --- real ones


@pytest.mark.parametrize("rank", [0, 1])
def test_what_torch_wrote_is_read(rank: int) -> None:
    """Of gloo in torch 2.13, by tests/readers/flight_recorder/record.py: the pickle, and the same as JSON."""
    pickled = (DATA / f"nccl_trace_rank_{rank}").read_bytes()
    text = (DATA / f"nccl_trace_rank_{rank}.json").read_bytes()
    read, same = load("pickle", [pickled]), load("json", [text])
    rows = rows_written(pickle.loads(pickled))
    assert rows_of(read) == rows
    assert rows_of(same) == [{**row, "frames": ()} for row in rows]
    assert rows_written(json.loads(text)) == rows_of(same)
    assert read.groups == same.groups
    assert [each.ranks for each in read.groups] == [(), ()]


@pytest.mark.parametrize("path", first_quick(sorted(SAMPLES.glob("fr*"))), ids=lambda path: path.name)
def test_samples_are_read(path: Path) -> None:
    written = path.read_bytes()
    rows = rows_written(json.loads(written) if path.suffix else pickle.loads(written))
    assert rows_of(load(path.name, [written])) == rows


# --- what else may stand there


def test_entries_that_cannot_be_are_counted_and_left_out() -> None:
    entries = [entry(0), entry(1, profiling_name=None), entry(2, collective_seq_id=-1), {"record_id": 3}, entry(4)]
    read = load("odd", [pickle.dumps({**dump([entry(0)]), "entries": entries})])
    assert read.entries.record.tolist() == [0, 4]
    assert [(note.code, note.number) for note in read.notes] == [("ENTRIES_LEFT_OUT", 3)]


def test_odd_values_and_unknown_keys_are_told() -> None:
    odd = entry(1, time_discovered_started_ns="yesterday", input_sizes="[4]", frames=7, what_is_new=[1, 2], more={})
    read = load("odd", [content(dump([entry(0), odd]))])
    assert read.entries.started.tolist()[1] == read.entries.input_sizes.tolist()[1] == read.entries.stack[1] == -1
    assert codes(read.notes) == ["ODD_ENTRIES", "UNKNOWN_KEYS"]
    assert read.notes[0].number == 3


def test_other_facts_of_the_top_are_kept_as_texts() -> None:
    state = {"0x1": {"rank": "0", "ops": "7"}}
    read = load("more", [content({**dump([entry(0)]), "nccl_comm_state": state, "new": 2.5, "empty": {}})])
    assert {key: json.loads(value) for key, value in read.more.items()} == {"nccl_comm_state": state, "new": 2.5}


def test_a_dump_without_entries_is_one() -> None:
    for written in ({"version": "2.10", "entries": []}, {"version": "2.10", "pg_config": {}, "pg_status": {}}):
        for form in ("c++", "json", "pickle"):
            data = content({"pg_status": {}, **written, "entries": []}, form)
            assert is_dump(data)
            assert isinstance(load("empty", [data]), FlightDump)


def test_other_files_are_no_dumps() -> None:
    others = [b"", b"\x80", b"\x80\x04}.", b'{"traceEvents": [', b"[1]", pickle.dumps({"segments": []})]
    others += [pickle.dumps({"version": 3}), json.dumps({"version": 3, "weights": []}).encode()]
    assert not any(map(is_dump, others))
