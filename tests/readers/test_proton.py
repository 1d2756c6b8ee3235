"""Trees of Triton's Proton: sums are exact, nothing that needs times is answered, and what is damaged is one line.

The three files in `proton/` were recorded with Triton 3.9 on a CPU, where it sees scopes but no kernels; trees with
kernels are drawn after the source of its writer.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import kinetoscope
from kinetoscope.analyses import NAMES, named
from kinetoscope.errors import InputError, UsageError
from kinetoscope.model.trace.event_kinds import EventKind
from tests.readers.proton_trees import TREE, frame, kernel

msgpack = pytest.importorskip("msgpack", reason="the extra proton is not installed")

RECORDED = Path(__file__).with_name("proton")


@pytest.fixture(params=["tree.hatchet", "tree.hatchet_msgpack"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    file: Path = tmp_path / request.param
    file.write_bytes(msgpack.packb(TREE) if file.suffix == ".hatchet_msgpack" else json.dumps(TREE).encode())
    return file


def test_sums_of_a_tree(tree: Path) -> None:
    job = kinetoscope.read(tree)
    kernels = kinetoscope.kernels(job).frame
    assert kernels.select("name", "calls", "total", "mean", "operator").rows() == [
        ("mm_kernel", 3, 100_000, 33_333, "attention"),
        ("softmax", 2, 40_001, 20_001, "attention"),
        ("copy_kernel", 1, 7, 7, "step"),
    ]
    assert kernels.select("min", "max", "median", "p99").null_count().row(0) == (3, 3, 3, 3)
    operators = {row[0]: row[1:] for row in kinetoscope.operators(job).frame.select("name", "device_total").rows()}
    assert operators == {"step": (140_008,), "attention": (140_001,)}
    stacks = kinetoscope.flame(job).frame.select("stack", "value").rows()
    assert ("step;attention;mm_kernel", 100_000) in stacks
    with pytest.raises(UsageError, match="no times"):
        kinetoscope.flame(job, weight="host")


def test_costs_that_kernels_say(tree: Path) -> None:
    rows = kinetoscope.roofline(kinetoscope.read(tree, peak=["memory=1e12", "fp16=100e12"]), by="kernel").frame
    row = rows.row(0, named=True)
    assert (row["flop"], row["bytes"], row["precision"], row["floor"]) == (6e9, 3e6, "fp16", 60_000)


@pytest.mark.slow
def test_what_needs_a_timeline_is_empty_and_said(tree: Path) -> None:
    job = kinetoscope.read(tree)
    answered = {"trace_info", "recording_kinds", "operators", "flame", "kernels", "categories", "roofline", "peaks"}
    for name in NAMES:
        notes = {note.code for note in named(name)(job).notes}
        assert ("NO_TIMELINE" in notes) == (name not in answered), name
    assert kinetoscope.recording_kinds(job).frame["kind"].to_list() == ["sums only"]
    assert "cannot be told" in str(kinetoscope.summary(job))
    assert [note.code for note in job.trace().health] == ["OF_PROTON"]
    assert job.sql("SELECT start, duration FROM kernels").frame["start"].null_count() == 6
    with pytest.raises(UsageError, match="not when anything ran"):
        kinetoscope.convert(job, tree.with_name("out.json"), to="json")


def test_parquet_keeps_that_there_is_no_timeline(tree: Path) -> None:
    kinetoscope.convert(tree, tree.with_name("out"), to="parquet")
    copy = kinetoscope.read(tree.with_name("out"))
    assert kinetoscope.kernels(copy).frame.equals(kinetoscope.kernels(kinetoscope.read(tree)).frame)
    assert [note.code for note in kinetoscope.idle_gaps(copy).notes] == ["NO_TIMELINE"]


def test_two_trees_compare(tmp_path: Path) -> None:
    for name, time in (("before", 100_000), ("after", 80_000)):
        (tmp_path / f"{name}.hatchet").write_text(json.dumps([frame("ROOT", kernel("mm", 3, time)), {}]))
    said = str(kinetoscope.diff(tmp_path / "before.hatchet", tmp_path / "after.hatchet"))
    assert said.startswith("All that was recorded takes 20.0% less time: 100\xa0µs → 80.0\xa0µs")
    assert "steps" not in said


@pytest.mark.parametrize(
    ("form", "scopes"), [("hatchet", ["inner", "outer", "timed"]), ("hatchet_msgpack", ["outer", "timed"])]
)
def test_recorded_scopes(form: str, scopes: list[str]) -> None:
    """Msgpack leaves out scopes in which nothing was measured."""
    trace = kinetoscope.read(RECORDED / f"scopes.{form}").trace()
    names = [trace.strings.label(code) for code in trace.name[trace.rows(EventKind.HOST_OP)].tolist()]
    assert sorted(names) == scopes


def test_recorded_chrome_trace() -> None:
    trace = kinetoscope.read(RECORDED / "scopes.chrome_trace").trace()
    assert len(trace.rows(EventKind.ANNOTATION)) == 4
    assert "UNKNOWN_EVENTS" not in {note.code for note in trace.health}


def test_a_folder_of_trees_has_a_rank_each(tmp_path: Path) -> None:
    for rank in (0, 1):
        (tmp_path / f"rank{rank}.hatchet").write_text(json.dumps(TREE))
    assert kinetoscope.read(tmp_path).ranks == (0, 1)


def test_numbers_that_cannot_be_are_left_out(tmp_path: Path) -> None:
    odd = [kernel("a", 0, 5), kernel("b", 1, -5), kernel("c", 1, 1 << 70), kernel("d", True, 5), kernel("e", 2, 4)]
    (tmp_path / "x.hatchet").write_text(
        json.dumps([frame("ROOT", *odd, {"frame": 3}, None, frame("f", flops=3)), {"CUDA": 3}])
    )
    trace = kinetoscope.read(tmp_path / "x.hatchet").trace()
    assert [note.code for note in trace.reading] == ["OF_PROTON", "KINDS_NOT_READ", "RECORDS_LEFT_OUT"]
    assert len(trace.rows(EventKind.KERNEL)) == 2


def test_a_bomb_of_calls_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.hatchet").write_text(json.dumps([frame("ROOT", kernel("a", 1 << 50, 5)), {}]))
    with pytest.raises(InputError, match="calls of kernels"):
        kinetoscope.read(tmp_path / "x.hatchet").trace()


@pytest.mark.parametrize("form", ["hatchet", "hatchet_msgpack"])
def test_mutilated_trees_are_read_or_refused(form: str, tmp_path: Path) -> None:
    """`python -m tests.readers.test_proton 20000` does so many."""
    whole = msgpack.packb(TREE) if form == "hatchet_msgpack" else json.dumps(TREE).encode()
    refusals = mutilated(whole, random.Random(7), tmp_path / f"x.{form}", 150)
    assert 0 < len(refusals) < 150
    assert not any("\n" in each for each in refusals)


def mutilated(whole: bytes, chance: random.Random, file: Path, times: int) -> list[str]:
    """The messages with which mutated copies are refused; of the others the kernels are asked."""
    refusals = []
    for _ in range(times):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            place = chance.randrange(len(data))
            match chance.randrange(4):
                case 0:
                    data[place] = chance.randrange(256)
                case 1:
                    del data[place : place + chance.randint(1, 20)]
                case 2:
                    data[place:place] = data[place : place + chance.randint(1, 20)]
                case _:
                    data = data[: place + 20]
        file.write_bytes(data)
        try:
            kinetoscope.kernels(kinetoscope.read(file))
        except InputError as error:
            refusals.append(str(error))
    return refusals


if __name__ == "__main__":
    import sys
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        for ending, text in (("hatchet", json.dumps(TREE).encode()), ("hatchet_msgpack", msgpack.packb(TREE))):
            count = int(sys.argv[1]) // 2
            said = mutilated(text, random.Random(1), Path(folder) / f"x.{ending}", count)
            print(ending, count, "of which refused", len(said), "in several lines", sum("\n" in each for each in said))
