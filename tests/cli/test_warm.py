"""`kinetoscope warm`: afterwards nothing is left to compile."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.run import MLP, run
from tests.conftest import ROOT

pytestmark = pytest.mark.slow


def test_after_it_nothing_is_compiled(tmp_path: Path) -> None:
    cache = {"NUMBA_CACHE_DIR": str(tmp_path)}
    first = run("warm", **cache)
    assert first.returncode == 0, first.stderr
    assert re.fullmatch(r"[1-9]\d* functions compiled in \d+\.\d s\.\n", first.stdout)
    assert run("warm", **cache).stdout == "All was compiled.\n"
    kept = sorted(tmp_path.rglob("*.nbc"))
    for path in (MLP, str(ROOT / "tests/snapshots/real/too_much_2.15.0.pickle.gz")):
        assert run("summary", path, **cache).returncode == 0
    assert sorted(tmp_path.rglob("*.nbc")) == kept
