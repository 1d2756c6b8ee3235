"""The page in a cell of a notebook: Jupyter, VS Code, Colab, marimo.

The page stands in a frame of its own that has no address and no rights; it asks the cell, the cell asks the kernel,
and the kernel answers as the server would. So nothing listens at a port, and it works wherever the kernel runs.
"""

from __future__ import annotations

import secrets
from html import escape
from typing import Any, Final

import anywidget
import traitlets

from kinetoscope.errors import InputError
from kinetoscope.model.job import Job
from kinetoscope.server.app import Server, client_of
from kinetoscope.server.http.in_process_client import InProcessAnswer, address
from kinetoscope.server.report import standing_alone
from kinetoscope.server.runs.workspace import Workspace

_MAX_PATH_LENGTH: Final = 4000
"""Characters of a question."""

_RELAY: Final = """
function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.title = "Kinetoscope";
  frame.setAttribute("sandbox", "allow-scripts allow-downloads");
  frame.style.cssText = `width:100%;height:${model.get("height")}px;border:0;border-radius:6px`;
  const ask = (event) => {
    if (event.source !== frame.contentWindow || typeof event.data?.kinetoscope !== "number") return;
    const { kinetoscope, method, path, body } = event.data;
    model.send({ kinetoscope, method: String(method), path: String(path), body: String(body ?? "") });
  };
  const answer = (said, buffers) => {
    for (const each of document.querySelectorAll(`[data-kinetoscope="${model.get("name")}"]`)) each.hidden = true;
    const view = buffers[0];
    const buffer = view ? view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength) : new ArrayBuffer(0);
    frame.contentWindow?.postMessage({ ...said, buffer }, "*", [buffer]);
  };
  addEventListener("message", ask);
  model.on("msg:custom", answer);
  frame.srcdoc = model.get("page");
  el.append(frame);
  return () => {
    removeEventListener("message", ask);
    model.off("msg:custom", answer);
  };
}
export default { render };
"""


class PageWidget(anywidget.AnyWidget):  # type: ignore[misc,unused-ignore]
    """The page about one run, in a cell."""

    _esm = _RELAY
    page = traitlets.Unicode().tag(sync=True)
    height = traitlets.Int(640).tag(sync=True)
    name = traitlets.Unicode().tag(sync=True)

    def __init__(self, job: Job, view: str, height: int) -> None:
        """Show `job` in the view of this name."""
        workspace = Workspace((job.path,), job=job)
        runs = workspace.runs()
        if not runs.runs:
            raise InputError(runs.wrong[0])
        run = runs.runs[0]
        self._inside = client_of(Server(workspace))
        start = address(run.id, view)
        self._path = job.path
        super().__init__(page=standing_alone(run.files.name, f"#/{start}"), height=height, name=secrets.token_hex(8))
        self.on_msg(self._on_message)

    def _ipython_display_(self) -> None:
        """The page, and before it a line for an exported notebook, where nothing answers; the page hides it."""
        import IPython.display

        message = (
            f"Here is the page about {self._path} while a kernel runs. As a file that needs none:"
            " kinetoscope report PATH -o report.html"
        )
        line = f'<p data-kinetoscope="{self.name}">{escape(message)}</p>'
        show: Any = IPython.display.display
        show({"text/plain": message, "text/html": line}, raw=True)
        bundle = self._repr_mimebundle_()
        show(bundle[0] if isinstance(bundle, tuple) else bundle, raw=True)

    def _on_message(self, _: Any, message: Any, __: Any) -> None:
        number = message.get("kinetoscope") if isinstance(message, dict) else None
        if not isinstance(number, int):
            return
        answer = self._answer(message)
        self.send({"kinetoscope": number, "status": answer.status, "kind": answer.kind}, [answer.body])

    def _answer(self, message: dict[str, Any]) -> InProcessAnswer:
        path, body = str(message.get("path", "")), str(message.get("body", ""))
        if len(path) > _MAX_PATH_LENGTH or not path.isascii():
            return InProcessAnswer(400, "application/json", b'{"error": "the question is too long", "hint": ""}')
        if message.get("method") == "POST":
            return self._inside.post(path, body.encode("utf-8"))
        return self._inside.get(path)
