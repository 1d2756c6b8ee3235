from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope import Job, Selection, memory_curve, memory_peak, read
from kinetoscope.errors import UsageError
from kinetoscope.model.snapshot.replay import level
from kinetoscope.views.exports.files import to_bytes
from tests.conftest import few_examples
from tests.drawn import Event, annotation, job, memory, op, python
from tests.notes import codes
from tests.snapshots import stacks as frames
from tests.snapshots.allocator import Settings
from tests.snapshots.process import Process
from tests.snapshots.training import Model, Training
from tests.snapshots.writing import write


def peak(folder: Path, *events: Event, **asked: Any) -> list[tuple[Any, ...]]:
    frame = memory_peak(job(folder, *events), **asked).frame
    return frame.select("device", "time", "name", "module", "blocks", "size").rows()


def took(time: int, size: int, address: int, total: int, **more: Any) -> Event:
    return memory(time, size, device=0, **{"Addr": address, "Total Allocated": total}, **more)


DRAWN = [
    python("nn.Module: Linear_0", 0, 30),
    op("aten::linear", 5, 20),
    op("aten::empty.memory_format", 8, 10),
    took(10, 64, 1, 1064),
    took(12, 8, 2, 1072),
    op("aten::add", 40, 10),
    took(42, 100, 3, 1172),
    took(60, -64, 1, 1108),
    took(70, -8, 2, 1100),
]


def test_what_was_in_use_and_what_took_it(tmp_path: Path) -> None:
    assert peak(tmp_path, *DRAWN) == [
        ("cuda:0", 42, "[before the recording]", None, None, 1000),
        ("cuda:0", 42, "aten::add", None, 1, 100),
        ("cuda:0", 42, "aten::linear", "Linear_0", 2, 72),
    ]
    assert memory_peak(job(tmp_path, *DRAWN)).frame["share"].to_list() == [1000 / 1172, 100 / 1172, 72 / 1172]


def test_by_shapes_and_types_of_the_inputs(tmp_path: Path) -> None:
    small: dict[str, Any] = {"Input Dims": [[2, 3]], "Input type": ["float"]}
    large: dict[str, Any] = {"Input Dims": [[4, 3]], "Input type": ["float"]}
    events = [op("aten::add", 0, 10, **small), op("aten::add", 20, 10, **large), op("aten::mul", 40, 10)]
    events += [took(5, 24, 1, 24), took(25, 48, 2, 72), took(45, 8, 3, 80)]
    frame = memory_peak(job(tmp_path, *events), group_by="shapes").frame
    assert frame.select("name", "size", "input_shapes", "input_types").rows() == [
        ("aten::add", 48, "[[4, 3]]", '["float"]'),
        ("aten::add", 24, "[[2, 3]]", '["float"]'),
        ("aten::mul", 8, None, None),
    ]
    assert peak(tmp_path, *events)[0][2:] == ("aten::add", None, 2, 72)


def test_at_a_time_of_choice(tmp_path: Path) -> None:
    before = ("[before the recording]", None, None, 1000)
    assert peak(tmp_path, *DRAWN, at=69) == [
        ("cuda:0", 69, *before),
        ("cuda:0", 69, "aten::add", None, 1, 100),
        ("cuda:0", 69, "aten::linear", "Linear_0", 1, 8),
    ]
    assert peak(tmp_path, *DRAWN, at=0) == [("cuda:0", 0, *before)]
    with pytest.raises(UsageError, match="at is -1; it can be a whole number of ns or None, 0 or more"):
        peak(tmp_path, *DRAWN, at=-1)


def test_the_beginning_is_the_peak_if_memory_is_only_given_back(tmp_path: Path) -> None:
    drawn = [op("a", 0, 99), took(10, -5, 9, 95), took(20, 1, 1, 96)]
    assert peak(tmp_path, *drawn) == [("cuda:0", 0, "[before the recording]", None, None, 100)]


def test_the_peak_of_a_range_of_time_may_be_where_it_begins(tmp_path: Path) -> None:
    rows = peak(tmp_path, *DRAWN, select=Selection(time=(50, 100)))
    assert (rows[0][1], sum(row[-1] for row in rows)) == (50, 1172)


def test_what_was_taken_in_no_operator(tmp_path: Path) -> None:
    drawn = [annotation("Optimizer.step#SGD.step", 0, 20), memory(10, 4, Addr=1), memory(30, 5, Addr=2)]
    assert [row[2:] for row in peak(tmp_path, *drawn)] == [
        ("[memory]", None, 1, 5),
        ("Optimizer.step#SGD.step", None, 1, 4),
    ]


def test_without_addresses_only_the_height_is_known(tmp_path: Path) -> None:
    result = memory_peak(job(tmp_path, memory(1, 5), memory(2, 7), memory(3, -5)))
    assert result.frame.select("name", "kind", "size").rows() == [("[without address]", "unpaired", 12)]
    assert [note.partition(" (")[0] for note in result.notes] == [
        "The file does not say how much was in use",
        "The file has no addresses of memory",
    ]


def test_nothing_in_use_is_said(tmp_path: Path) -> None:
    drawn = [op("a", 0, 5), memory(1, 5, **{"Addr": 1, "Total Allocated": 5})]
    assert codes(memory_peak(job(tmp_path, *drawn), at=0).notes) == ["NOTHING_IN_USE"]
    assert memory_peak(job(tmp_path, op("a", 0, 5))).notes == (
        "Memory was not recorded (profile_memory=True records it).",
    )


def test_numbers_that_no_memory_has_do_no_harm(tmp_path: Path) -> None:
    drawn = [took(1, 2**63 - 1, 1, -(2**63)), took(2, 2**63 - 1, 2, 2**63 - 1), memory(3, 2**63 - 1), memory(4, 1)]
    shares = memory_peak(job(tmp_path, op("a", 0, 2), *drawn)).frame["share"].drop_nulls()
    assert shares.is_between(0, 1).all()


def highest(job: Job) -> dict[str, int]:
    """By device, from the curve: the most that was in use after an instant, or before the first one."""
    found: dict[str, int] = {}
    for row in memory_curve(job).frame.iter_rows(named=True):
        found.setdefault(row["device"], row["allocated"] - row["change"])
        found[row["device"]] = max(found[row["device"]], row["allocated"])
    return found


def sums(job: Job, at: int | None = None) -> dict[str, int]:
    frame = memory_peak(job, at=at).frame
    for device in frame["device"].unique():
        of_device = frame.filter(device=device)
        assert of_device["share"].null_count() == (len(of_device) if (of_device["size"] < 0).any() else 0)
    return {device: int(frame.filter(device=device)["size"].sum()) for device in frame["device"].unique()}


Instants = st.lists(
    st.tuples(st.integers(0, 1), st.none() | st.integers(0, 3), st.integers(-4, 4), st.none() | st.integers(0, 20)),
    min_size=1,
    max_size=12,
)


@few_examples
@given(Instants)
def test_rows_sum_to_the_peak_whatever_is_recorded(instants: list[tuple[int, int | None, int, int | None]]) -> None:
    with TemporaryDirectory() as folder:
        drawn = [op("a", 0, 5), op("b", 5, 5)]
        for time, (device, address, size, total) in enumerate(instants):
            more = {"Addr": address, "Total Allocated": total}
            drawn.append(memory(time, size, device=device, **{key: x for key, x in more.items() if x is not None}))
        asked = job(Path(folder), *drawn)
        expected = {device: size for device, size in highest(asked).items() if size}
        assert {device: size for device, size in sums(asked).items() if size} == expected
        curve = memory_curve(asked).frame
        for time in curve["time"].unique().to_list():
            past = curve.filter(curve["time"] <= time).group_by("device").last()
            found = sums(asked, at=time)
            assert all(found.get(row["device"], 0) == row["allocated"] for row in past.iter_rows(named=True))


def test_what_was_there_before_may_be_a_third(shared_traces: Path) -> None:
    frame = memory_peak(read(shared_traces / "owlv2_h100")).frame
    [row] = frame.filter(device="cuda:0", kind="before").to_dicts()
    assert row["size"] == 917_445_120
    assert round(row["share"], 3) == 0.339


# --- from a snapshot


def trained(folder: Path, **facts: Any) -> Job:
    process = Process(Settings(), **facts)
    process.record()
    training = Training(process, Model(layers=6, width=256, batch=8, tokens=128, vocabulary=100), metadata=True)
    training.build()
    training.run(3)
    return read(write(folder / "taken.pickle", process.snapshot()), jobs=1)


def test_owners_at_the_peak_of_a_snapshot(tmp_path: Path) -> None:
    job = trained(tmp_path, stacks="python")
    rank = job.trace(job.ranks[0])
    highest = int(level(rank, 0, "requested").max())
    for group_by in ("call", "class", "shapes", "use", "module", "line", "stack"):
        frame = memory_peak(job, group_by=group_by).frame
        assert frame.get_column("size").sum() == highest
        assert frame.get_column("share").sum() == pytest.approx(1)
        assert set(frame.get_column("source")) == {"snapshot"}
    by_use = memory_peak(job, group_by="use").frame
    row = by_use.row(by_predicate=pl.col("name") == "activation", named=True)
    assert (row["repeats"], row["line"]) == (6, "model.py:61")
    assert row["size"] * 0.9 < row["repeats"] * row["each"] <= row["size"]
    assert row["evidence"] == "lifetime"
    stacks = memory_peak(job, group_by="stack")
    assert stacks.frame.get_column("stack").drop_nulls().str.contains("train.py(120): <module>", literal=True).any()
    folded = to_bytes(stacks, "folded").decode().splitlines()
    assert all(line.rpartition(" ")[2].isdecimal() for line in folded)


def test_what_a_layer_takes_is_all_that_its_line_took(tmp_path: Path) -> None:
    job = trained(tmp_path)
    by_use = memory_peak(job, group_by="use").frame.row(by_predicate=pl.col("name") == "activation", named=True)
    stacks = memory_peak(job, group_by="stack").frame.filter(pl.col("use") == "activation")
    inside = stacks.filter(pl.col("stack").str.contains("model.py(61)", literal=True)).get_column("size").sum()
    assert by_use["line"] == "model.py:61"
    assert by_use["repeats"] * by_use["each"] == pytest.approx(inside, abs=by_use["repeats"])


def test_a_layer_that_takes_most_of_its_memory_twice_from_one_line(tmp_path: Path) -> None:
    process = Process(Settings(), stacks="python")
    process.record()
    kept: list[Any] = []
    for _ in range(4):
        with process.module("model.py", 61):
            for _ in range(2):
                with process.at(frames.python("attend", "model.py", 37)):
                    kept.append(process.alloc("empty", 30 << 20))
            kept += [process.alloc("empty", 12 << 20), process.alloc("zeros", 10 << 20)]
    process.free(kept.pop())  # the last layer has one less
    process.alloc("empty", 10 << 20)
    job = read(write(tmp_path / "taken.pickle", process.snapshot()), jobs=1)
    [row] = memory_peak(job, group_by="use").frame.filter(name="activation").to_dicts()
    assert (row["repeats"], row["line"]) == (4, "model.py:61")
    assert row["each"] == (4 * 72 + 3 * 10 << 20) // 4


def test_the_peak_of_some_steps_of_a_snapshot(tmp_path: Path) -> None:
    job = trained(tmp_path)
    peaks = [memory_peak(job, select=Selection(steps=(step,))).frame for step in (0, 1, 2)]
    sizes = [frame.get_column("size").sum() for frame in peaks]
    assert sizes[0] < sizes[1] == sizes[2]  # the optimizer's state is taken at the end of the first
    assert peaks[0].get_column("time")[0] < peaks[1].get_column("time")[0]
    [first] = peaks[1].get_column("time").unique().to_list()
    assert memory_peak(job, at=first).frame.get_column("size").sum() == sizes[1]
    assert not memory_peak(job, select=Selection(devices=(5,))).frame.height


def test_by_use_module_line_and_stack_of_a_trace(tmp_path: Path) -> None:
    where = python("train.py(3): main", 0, 100)
    assert peak(tmp_path, where, *DRAWN, group_by="use")[0][2:] == ("[before the recording]", None, None, 1000)
    lines = memory_peak(job(tmp_path, where, *DRAWN), group_by="line").frame
    here = ("train.py:3", "line", "train.py:3")
    assert lines.select("name", "kind", "line", "use", "size").rows()[1:] == [
        (*here, "unknown", 100),
        (*here, "temporary", 72),
    ]
    assert peak(tmp_path, where, *DRAWN, group_by="module")[1:] == [
        ("cuda:0", 42, "aten::add", None, 1, 100),
        ("cuda:0", 42, "Linear_0", "Linear_0", 2, 72),
    ]
    stacks = memory_peak(job(tmp_path, where, *DRAWN), group_by="stack").frame
    assert "train.py(3): main;nn.Module: Linear_0" in stacks.get_column("stack").to_list()
