"""`strip.py` takes away what must not be published and nothing else; the committed traces are clean."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.traces.strip import leftovers, problems, strip_bytes, strip_text

ROOT = Path(__file__).parents[2]
COMMITTED = sorted([*Path(__file__).parent.rglob("*.json.gz"), *(ROOT / "src/kinetoscope/demo").glob("*.json.gz")])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"host_name": "node-17.example.org"', '"host_name": "host"'),
        ('"username":"ann \\"a\\" b"', '"username":"user"'),
        ('"traceName": "/scratch/ann/run/mlp.pt.trace.json"', '"traceName": "mlp.pt.trace.json"'),
        ('"/opt/venv/lib/python3.11/site-packages/torch/nn/linear.py(12): f"', '"torch/nn/linear.py(12): f"'),
        ('"/usr/lib/python3.11/threading.py(9): run"', '"threading.py(9): run"'),
        ('"a.py(1): f;/home/ann/my-job/b.py(2): g;"', '"a.py(1): f;b.py(2): g;"'),
        ('"kernel_file": "/data/cache_ann/xy/cxy.py"', '"kernel_file": "cxy.py"'),
        ('"C:/Users/ann/job.py(3): f"', '"job.py(3): f"'),
        ('"note": "first\\n/home/jos\\u00e9/job.py"', '"note": "first\\njob.py"'),
    ],
)
def test_takes_away(before: str, after: str) -> None:
    assert leftovers(before)
    assert strip_text(before) == after
    assert not leftovers(after)


@pytest.mark.parametrize(
    "text",
    [
        '"ts": 4390350487968.150, "dur": 1e3, "x": 0.10',
        '"torch/nn/modules/linear.py(114): forward"',
        '"../job/train.py(1): <module>"',
        '"<built-in method add of type object at 0x7f9a43715390>"',
        '"https://example.org/a/b"',
        '"ratio": "bytes / second / rank", "folder": "/data"',
        # Broken the way torch 2.13 breaks files: unescaped quotes, a backslash turned round, raw control characters.
        '"name": "load "train" batch", "note": "say /"hi/""',
        '"note": "first\nsecond\ttab\x01"',
        '"name": "\udcff\udcfe"',
    ],
)
def test_leaves_alone(text: str) -> None:
    assert strip_text(text) == text
    assert not leftovers(text)


def test_files_keep_their_bytes_and_lose_the_gzip_header() -> None:
    dirty = gzip.compress(b'{"host_name": "node-17", "name": "\xff"}', mtime=1)
    assert problems(dirty) == ["a time or a name in the gzip header", '"host_name": "node-17"']
    clean = strip_bytes(dirty)
    assert gzip.decompress(clean) == b'{"host_name": "host", "name": "\xff"}'
    assert clean[3:8] == bytes(5)
    assert strip_bytes(clean) == clean
    assert problems(clean) == []


def test_committed_traces_are_there_and_few() -> None:
    assert len(COMMITTED) > 15
    assert sum(path.stat().st_size for path in COMMITTED) < 1_500_000


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_committed_traces_are_clean_and_small(path: Path) -> None:
    content = path.read_bytes()
    assert problems(content) == []
    assert len(content) < 155_000
