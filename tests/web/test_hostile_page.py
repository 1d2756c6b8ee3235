"""Markup, control characters and writing directions in a trace are text on the page, and do nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinetoscope.pages import menu
from tests.conftest import OURS
from tests.server.serving import serving
from tests.server.test_hostile import odd
from tests.tried import STATES, try_folder
from tests.web.conftest import Tab

pytestmark = pytest.mark.slow

__all__ = ["odd"]  # the fixture that draws the trace


@pytest.mark.parametrize("view", menu())
def test_odd_strings_are_text(tab: Tab, odd: Path, view: str) -> None:
    with serving(odd) as client:
        tab.address = f"http://127.0.0.1:{client.port}"
        (run,) = (each["id"] for each in client.get("runs")["runs"])
        tab.open(run, view)
        tab.page.wait_for_timeout(300)
        assert tab.page.locator("main img, main script, main iframe").count() == 0
        text = tab.page.evaluate("document.body.innerText")
        assert "\u202e" not in text
        assert "\x1b" not in text
        if view in ("operators", "kernels"):
            assert "<script>alert(1)</script>" in text
        assert not tab.errors
        tab.page.goto("about:blank")


def test_a_result_of_trials_that_somebody_wrote_is_text(tab: Tab, tmp_path: Path) -> None:
    with serving(try_folder(tmp_path, STATES["hostile"])) as client:
        tab.address = f"http://127.0.0.1:{client.port}"
        run = client.get("runs")["runs"][0]["id"]
        tab.open(run, "ledger")
        tab.page.locator("section.block-code").first.wait_for()
        assert tab.page.locator("main img, main script, main iframe").count() == 0
        text = tab.page.evaluate("document.body.innerText")
        assert "\u202e" not in text
        assert "\x1b" not in text
        assert "<script>alert(1)</script>" in text
        tab.shot("ledger_of_trials")
        tab.page.goto("about:blank")


def test_a_bundled_trace_with_quotes_in_names(at_ours: Tab, ours: object) -> None:
    from tests.web.conftest import Served

    assert isinstance(ours, Served)
    assert (OURS / "name_quote.pt.trace.json.gz").exists()
    for view in ("overview", "operators", "timeline"):
        at_ours.open(ours.run("name_quote"), view)
        assert at_ours.sentence
