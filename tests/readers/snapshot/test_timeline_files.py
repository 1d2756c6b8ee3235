"""The memory timeline files of torch's profiler: the same series from both that hold numbers; the picture is named."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from kinetoscope import read
from kinetoscope.errors import BrokenTraceError, NotATraceError
from kinetoscope.model.memory.categories import GRADIENT, UNKNOWN
from kinetoscope.model.memory.category_series import TORCH_CATEGORIES, series_of
from kinetoscope.readers.snapshot.timeline_files import series_in
from tests.conftest import SHARED

NS = 1_700_000_000_000_000_000
RAW = [
    [-1, 0, 512, 0],  # PREEXISTING, a parameter
    [NS + 1000, 1, 4096, 7],  # CREATE
    [NS + 1000, 2, -512, 0],  # INCREMENT_VERSION
    [NS + 1000, 2, 512, 5],
    [NS + 3000, 3, -4096, 7],  # DESTROY
]
COALESCED = [
    [NS // 1000 + 1, NS // 1000 + 3],
    [[0, 0, 0, 0, 0, 0, 512, 0, 4096], [0, 0, 0, 0, 0, 0, 512, 0, 0]],
]


@pytest.mark.parametrize("content", [RAW, COALESCED])
def test_both_forms_hold_the_same_series(content: object, tmp_path: Path) -> None:
    path = tmp_path / "timeline.raw.json.gz"
    path.write_bytes(gzip.compress(json.dumps(content).encode()))
    trace = read(path).trace()
    series = series_of(trace)
    assert series is not None
    assert series.time.tolist() == [NS + 1000, NS + 3000]
    gradient, unknown = GRADIENT, UNKNOWN
    assert series.levels[:, [gradient, unknown]].tolist() == [[512, 4096], [512, 0]]
    assert series.levels.sum() == 512 + 512 + 4096


def test_a_timeline_of_torch() -> None:
    path = SHARED / "memory_timeline" / "memory_timeline.raw.gz"
    if not path.exists():
        pytest.skip("needs ../shared/traces")
    series = series_of(read(path).trace())
    assert series is not None
    rows = np.array(json.loads(gzip.decompress(path.read_bytes())))
    expected = [int(rows[rows[:, 3] == use, 2].sum()) for use in range(len(TORCH_CATEGORIES))]
    assert series.levels[-1, list(TORCH_CATEGORIES)].tolist() == expected


@pytest.mark.parametrize(
    "text", ["[[1, 0, 5]]", "[[1, 0, 5, 9]]", "[[1,0,5,1],[2,0,5", "[[1], [[0, 1]]]", "[[]]", "[[1,0,5.5,1]]"]
)
def test_what_is_no_timeline_is_refused(text: str) -> None:
    with pytest.raises(BrokenTraceError, match="no memory timeline; write it again"):
        series_in("timeline.json", [text.encode()])


def test_a_picture_of_a_timeline_is_named(tmp_path: Path) -> None:
    path = tmp_path / "timeline.html"
    path.write_text('<html>\n<head><meta charset="utf-8" /><title>GPU Memory Timeline HTML</title></head>')
    with pytest.raises(NotATraceError, match="picture of a memory timeline"):
        read(path).trace()
