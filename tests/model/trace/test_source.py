from __future__ import annotations

import pickle

import pytest

from kinetoscope.model.trace.source import OwnPeaks, Source, SourceOptions


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("runs/rank0.json.gz", "rank0.json.gz"),
        ("rank0.json", "rank0.json"),
        ("s3://bucket/run/rank0.json.zst", "rank0.json.zst"),
        ("memory://run/", "run"),
        ("/", "/"),
    ],
)
def test_its_name_is_the_last_part_of_its_path(url: str, name: str) -> None:
    assert Source(url).name == name


def test_it_can_be_sent() -> None:
    source = Source("rank3.json", 3, 1, options=SourceOptions(max_size=10, peaks=OwnPeaks((("bf16", 8e14),))))
    assert pickle.loads(pickle.dumps(source)) == source
    assert hash(source) == hash(pickle.loads(pickle.dumps(source)))
