"""The garbage collector's work is seen in the trace."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: `make test-recorder` installs it")
pytestmark = pytest.mark.torch

from kinetoscope.advisor.advice import advise  # noqa: E402
from kinetoscope.reading import read  # noqa: E402
from kinetoscope.record.session.window import GC_NAME, Collections  # noqa: E402
from tests.record.jobs import run  # noqa: E402


def test_collections_are_spans_and_a_finding(tmp_path: Path) -> None:
    done = run(
        "import gc\n"
        "kept = [[index] for index in range(300_000)]\n"
        "gc.disable()\n"
        "before = list(gc.callbacks)\n"
        "with profile(DIR, wait=0, warmup=1, active=3) as prof:\n"
        "    for _ in range(5): train(); gc.collect(); prof.step()\n"
        "assert gc.callbacks == before\n",
        tmp_path,
    )
    assert done.code == 0, done.err
    job = read(tmp_path)
    names = job.sql("SELECT name FROM annotations").frame.get_column("name").to_list()
    assert names.count(GC_NAME) == 3
    assert "HOST006" in [finding.code for finding in advise(job).findings]


def test_what_goes_wrong_in_a_callback_stays_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise RuntimeError(name)

    monkeypatch.setattr(torch.profiler, "record_function", broken)
    collections = Collections()
    collections.open()
    gc.collect()
    collections.close()
    collections.close()
