"""The page in the frame of a notebook's cell: the widget's own script in a browser, its own Python as the kernel."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

import kinetoscope
from tests.conftest import OURS
from tests.web.conftest import Tab

pytestmark = pytest.mark.slow

pytest.importorskip("anywidget", reason="needs anywidget (pip install 'kinetoscope[notebook]')")

CELL = """<!doctype html><div id="cell"></div><script type="module">
const listeners = [];
const model = {
  get: (name) => window.traits[name],
  send: (said) => window.toKernel(JSON.stringify(said)).then((answers) => {
    for (const [said, text] of JSON.parse(answers)) {
      const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
      for (const each of listeners) each(said, [new DataView(bytes.buffer)]);
    }
  }),
  on: (_, listener) => listeners.push(listener),
  off: () => {},
};
window.traits = await window.traitsOf();
const module = await import(URL.createObjectURL(new Blob([window.traits.esm], { type: "text/javascript" })));
module.default.render({ model, el: document.getElementById("cell") });
</script>"""


def test_the_timeline_in_a_cell(tab: Tab) -> None:
    job = kinetoscope.read(OURS / "mlp.pt.trace.json.gz")
    widget = kinetoscope.view(job)
    sent: list[tuple[dict[str, Any], str]] = []
    widget.send = lambda said, buffers: sent.append((said, base64.b64encode(buffers[0]).decode()))

    def to_kernel(said: str) -> str:
        sent.clear()
        widget._on_message(widget, json.loads(said), [])
        return json.dumps(sent)

    page = tab.page
    tab.address = "http://cell.test"
    page.route("http://cell.test/", lambda route: route.fulfill(body=CELL, content_type="text/html"))
    page.expose_function("toKernel", to_kernel)
    page.expose_function("traitsOf", lambda: {"page": widget.page, "height": 640, "esm": str(widget._esm)})
    page.goto("http://cell.test/")
    frame = page.frame_locator("iframe")
    frame.locator("h1").filter(has_text="In view").wait_for(timeout=60_000)
    assert frame.locator("canvas").count() >= 1
    frame.get_by_role("navigation").get_by_text("Overview", exact=True).click()
    overview = widget._inside.get(f"runs/{run_id(widget)}/pages/overview?rank=0").plain()
    frame.locator("h1").filter(has_text=overview["sentence"]).wait_for(timeout=60_000)
    frame.get_by_role("navigation").get_by_text("Operators", exact=True).click()
    frame.get_by_role("grid").get_by_role("row").nth(3).wait_for(timeout=60_000)
    tab.shot("notebook")


def run_id(widget: Any) -> str:
    return str(widget._inside.get("runs").plain()["runs"][0]["id"])
