"""Runs in an object store are served and reported as those on a disk are."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kinetoscope.cli import main
from tests.conftest import OURS
from tests.readers import servers
from tests.readers.files.test_remote import connected
from tests.readers.servers import Store
from tests.server.serving import serving

MLP = OURS / "mlp.pt.trace.json.gz"


@contextmanager
def filled(patch: pytest.MonkeyPatch, folder: Path) -> Iterator[Store]:
    """A bucket with one run."""
    with servers.moto() as store:
        servers.require(store.package)
        patch.setenv("KINETOSCOPE_CACHE", str(folder / "copies"))
        system = connected(store, patch)
        system.mkdir("jobs")
        system.pipe("jobs/baseline/rank0.pt.trace.json.gz", MLP.read_bytes())
        yield store


@pytest.mark.slow
def test_a_run_in_a_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with filled(monkeypatch, tmp_path) as store:
        with serving(f"{store.scheme}://jobs") as client:
            (run,) = client.get("runs")["runs"]
            assert run["name"].endswith("baseline")
            found = client.get(f"runs/{run['id']}/pages/overview", {"rank": 0})
        (tmp_path / "run").mkdir()
        shutil.copy(MLP, tmp_path / "run" / "rank0.pt.trace.json.gz")
        with serving(tmp_path / "run") as client:
            (run,) = client.get("runs")["runs"]
            assert client.get(f"runs/{run['id']}/pages/overview", {"rank": 0})["blocks"] == found["blocks"]
        out = tmp_path / "run.html"
        assert main(["report", f"{store.scheme}://jobs/baseline", "-o", str(out)]) == 0
        assert out.stat().st_size > 100_000
