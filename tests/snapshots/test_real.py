"""Files of torch's own allocator (`real/README.md`): read whole, played backwards without a fault, causes named."""

from __future__ import annotations

import gzip
from itertools import pairwise
from pathlib import Path

import pytest

from kinetoscope.model.snapshot.replay import NONE, Level, history_of, level_of
from kinetoscope.readers.snapshot import load
from tests.snapshots.real.record import RECORDED

LEVELS: tuple[Level, ...] = ("allocated", "active", "reserved")

FILES = sorted((Path(__file__).parent / "real").glob("*.pickle.gz"))


def test_each_program_was_recorded_with_two_versions() -> None:
    assert {path.name for path in FILES} == {
        f"{name}_{version}.pickle.gz" for name in RECORDED for version in ("2.13.0", "2.15.0")
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.removesuffix(".pickle.gz"))
def test_it_is_read_whole_and_played_back_to_nothing(path: Path) -> None:
    snapshot = load(str(path), iter([gzip.decompress(path.read_bytes())]))
    assert list(snapshot.devices) == ([0, 1] if path.name.startswith("two_devices") else [0])
    for device in snapshot.devices:
        past = history_of(snapshot, device)
        assert past is not None
        assert past.impossible == 0
        assert not (past.taken == NONE).any()  # the history began before the first allocation
        levels = [level_of(snapshot, past, what) for what in LEVELS]
        assert all(each[0] == 0 for each in levels)
        for lower, upper in pairwise(levels):
            assert (lower <= upper).all()
        held = snapshot.segments.device == device
        assert levels[-1][-1] == snapshot.segments.size[held].sum()
