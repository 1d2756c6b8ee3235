"""What to change: a finding is copied as Markdown, as `kinetoscope advise --format markdown` writes it."""

from __future__ import annotations

import pytest

from tests.web.conftest import Served, Tab

pytestmark = pytest.mark.slow


def test_a_finding_is_copied_as_markdown(at_theirs: Tab, theirs: Served) -> None:
    page, run = at_theirs.page, theirs.run("resnet50_v100/num_workers_0")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    at_theirs.open(run, "findings")
    blocks = theirs.client.get(f"runs/{run}/pages/findings")["blocks"]
    first = next(block for block in blocks if block["block"] == "findings")["findings"][0]
    page.get_by_role("button", name="Copy as Markdown").first.click()
    page.get_by_role("button", name="Copied").wait_for()
    text = page.evaluate("navigator.clipboard.readText()")
    assert text == first["markdown"]
    assert text.startswith("### 1. ")
    assert first["code"] in text
    assert ("```diff" in text) == bool(first["change"])
