"""Work that nobody waits for any more ends."""

from __future__ import annotations

import http.client
import threading

import pytest

from kinetoscope.caching import checkpoint
from kinetoscope.errors import StoppedError
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.pages import modules
from kinetoscope.pages.blocks import Page
from tests.conftest import OURS
from tests.server.serving import serving


def test_what_is_computed_for_a_client_that_leaves_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    began, ended = threading.Event(), threading.Event()
    answered: list[str] = []

    def page(job: Job, select: Selection, params: object) -> Page:
        began.set()
        for _ in range(1000):
            try:
                checkpoint()
            except StoppedError:
                ended.set()
                raise
            ended.wait(0.01)
        answered.append("to the end")
        return Page("modules", "Modules", "Done.")

    monkeypatch.setattr(modules, "page", page)
    with serving(OURS / "mlp.pt.trace.json.gz") as client:
        connection = http.client.HTTPConnection("127.0.0.1", client.port)
        connection.request("GET", f"/api/runs/{client.run()}/pages/modules")
        assert began.wait(20)
        connection.close()
        assert ended.wait(20)
        assert not answered
        assert client.get("runs")["runs"]


def test_a_question_of_a_trace_is_a_place_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    from kinetoscope.caching import ABANDONED
    from kinetoscope.model.execution.call_tree import call_tree
    from kinetoscope.reading import read

    trace = read(str(OURS / "mlp.pt.trace.json.gz")).trace()
    left = threading.Event()
    token = ABANDONED.set(left)
    try:
        left.set()
        with pytest.raises(StoppedError):
            call_tree(trace)
        left.clear()
        kept = call_tree(trace)
        left.set()
        assert call_tree(trace) is kept  # what is kept costs nothing
    finally:
        ABANDONED.reset(token)
