"""Memory under other settings: what is answered, and when nothing is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kinetoscope
from kinetoscope.errors import UsageError
from kinetoscope.schema import Result
from tests.drawn import job, op
from tests.snapshots.allocator import Allocator, Block, BlockPool, OutOfMemory
from tests.snapshots.process import Process
from tests.snapshots.writing import write

MIB = 1 << 20


class LastFit(Allocator):
    """An allocator that gives the largest free block instead of the best one."""

    def _get_free_block(self, pool: BlockPool, stream: int, size: int) -> Block | None:
        assert stream == 0
        return pool.blocks.pop() if pool.blocks and pool.blocks[-1].size >= size else None


def fragmented(total: int = 1 << 30, kind: type[Allocator] = Allocator) -> Process:
    """Ever longer tensors, of each of which a half is taken again, so that the next does not fit beside it."""
    process = Process(total=total, other=0)
    process.allocators = [kind(process.settings, total, clock=process._tick, level=None)]
    process.record()
    for size in range(40, 140, 10):
        process.free(process.alloc("empty", size * MIB))
        process.alloc("empty", (size // 2 + 2) * MIB)
    return process


def asked(process: Process, folder: Path, **params: Any) -> Result:
    path = write(folder / "snapshot.pickle", process.snapshot())
    answer: Result = kinetoscope.memory_what_if(kinetoscope.read(str(path)), **params)
    return answer


def by_settings(answer: Result, column: str) -> dict[str, object]:
    return dict(answer.frame.select("settings", column).iter_rows())


def test_segments_that_grow_have_no_holes(tmp_path: Path) -> None:
    answer = asked(fragmented(), tmp_path)
    reserved = by_settings(answer, "reserved")
    assert reserved["recorded"] == reserved["replayed"] == 850 * MIB
    assert reserved["expandable_segments:True"] == 520 * MIB
    assert set(answer.frame["trust"]) == {1.0}
    assert (
        "Replayed from an empty allocator, at most 545 MB are reserved on cuda:0 with expandable_segments:True,"
        " and 891 MB with the recorded settings, as was recorded."
        in [note.replace("\xa0", " ") for note in answer.notes]
    )


def test_a_setting_under_which_nothing_fails_is_said(tmp_path: Path) -> None:
    process = fragmented(total=900 * MIB)
    with pytest.raises(OutOfMemory):
        process.alloc("empty", 420 * MIB)
    answer = asked(process, tmp_path, conf="max_split_size_mb:64; expandable_segments:True")
    failed = by_settings(answer, "failed")
    assert (failed["recorded"], failed["replayed"], failed["expandable_segments:True"]) == (1, 1, 0)
    assert any(
        note.startswith("Replayed with expandable_segments:True, no request on cuda:0 fails") for note in answer.notes
    )


def test_a_smaller_device_and_smaller_tensors(tmp_path: Path) -> None:
    small = asked(fragmented(), tmp_path, memory=600 * MIB)
    assert by_settings(small, "failed")["expandable_segments:True"] == 0
    assert by_settings(small, "ended")["replayed"] is not None
    halved = asked(fragmented(), tmp_path, scale="temporary=0.5,unknown=0.5,activation=0.5")
    assert by_settings(halved, "reserved")["replayed"] < by_settings(halved, "reserved")["recorded"]  # type: ignore[operator]


def test_a_history_that_another_allocator_wrote_has_no_numbers(tmp_path: Path) -> None:
    process = fragmented(kind=LastFit)
    for _ in range(10):
        process.alloc("empty", 3 * MIB)
    answer = asked(process, tmp_path)
    assert answer.frame["settings"].to_list() == ["recorded"]
    assert "it gives no numbers for other settings" in answer.notes[0]


def test_without_a_snapshot_that_is_said(tmp_path: Path) -> None:
    answer = kinetoscope.memory_what_if(job(tmp_path, op("work", 0, 10)))
    assert not len(answer.frame)
    assert answer.notes[0].code == "NOT_RECORDED"


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"conf": "expandable"}, "PYTORCH_CUDA_ALLOC_CONF"),
        ({"conf": "max_split_size_mb:10"}, "no value of max_split_size_mb"),
        ({"conf": "backend:cudaMallocAsync"}, "cannot be replayed"),
        ({"memory": 0}, "memory is 0"),
        ({"scale": "activations=0.5"}, "activation=0.5"),
        ({"scale": "activation=0"}, "above 0"),
    ],
)
def test_what_cannot_be_played_is_refused(params: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words):
        asked(fragmented(), tmp_path, **params)
