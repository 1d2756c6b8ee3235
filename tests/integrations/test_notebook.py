"""The page in a cell, asked through a real Jupyter kernel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kinetoscope
from kinetoscope.errors import UsageError
from tests.conftest import OURS

pytest.importorskip("anywidget", reason="needs anywidget (pip install 'kinetoscope[notebook]')")

MLP = OURS / "mlp.pt.trace.json.gz"


class Heard(list[tuple[dict[str, Any], bytes]]):
    """What a widget sent."""

    def __call__(self, said: dict[str, Any], buffers: list[bytes]) -> None:
        self.append((said, buffers[0]))


def asked(path: str, method: str = "GET", body: str = "") -> tuple[dict[str, Any], Any]:
    page = kinetoscope.view(kinetoscope.read(MLP))
    heard = Heard()
    page.send = heard
    page._on_message(page, {"kinetoscope": 7, "method": method, "path": path, "body": body}, [])
    ((said, answer),) = heard
    assert said["kinetoscope"] == 7
    return said, json.loads(answer)


def run_id() -> str:
    return str(asked("runs")[1]["runs"][0]["id"])


def test_questions_are_answered_as_the_server_does() -> None:
    said, overview = asked(f"runs/{run_id()}/pages/overview?rank=0")
    assert said["status"] == 200
    assert overview["sentence"].startswith("A step takes")
    query = json.dumps({"query": "SELECT count(*) AS n FROM ops"})
    _, rows = asked(f"runs/{run_id()}/sql", "POST", query)
    assert rows["rows"] == [[kinetoscope.read(MLP).sql("SELECT count(*) AS n FROM ops").frame.item()]]


def test_a_job_that_is_open_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    job = kinetoscope.read(MLP)
    job.trace()
    page = kinetoscope.view(job)
    monkeypatch.setattr("kinetoscope.readers.json.kineto.load", lambda *_, **__: pytest.fail("read again"))
    heard = Heard()
    page.send = heard
    page._on_message(
        page, {"kinetoscope": 1, "method": "GET", "path": f"runs/{run_id_of(page)}/pages/operators?rank=0"}, []
    )
    assert heard[0][0]["status"] == 200


def run_id_of(page: Any) -> str:
    return str(json.loads(page._inside.get("runs").body)["runs"][0]["id"])


@pytest.mark.parametrize("said", [None, "x", {}, {"kinetoscope": "1"}, {"kinetoscope": 1, "path": "x" * 9999}])
def test_odd_messages_do_nothing(said: Any) -> None:
    page = kinetoscope.view(MLP)
    heard = Heard()
    page.send = heard
    page._on_message(page, said, [])
    assert not heard or heard[0][0]["status"] in (400, 404)


def test_a_view_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="no view 'timelin'"):
        kinetoscope.view(MLP, page="timelin")


@pytest.mark.slow
def test_a_cell_of_a_real_kernel_shows_it(tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient", reason="needs nbclient and ipykernel (pip install nbclient ipykernel)")
    nbformat = pytest.importorskip("nbformat")
    cells = [
        "import kinetoscope",
        f"job = kinetoscope.read({str(MLP)!r})",
        "kinetoscope.step_breakdown(job)",
        "kinetoscope.view(job)",
        "kinetoscope.view(job)._inside.get('runs').status",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    table, widget, status = (notebook.cells[place].outputs[-1] for place in (2, 3, 4))
    assert "<svg " in table["data"]["text/html"]
    assert "<table>" in table["data"]["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in widget["data"]
    assert "kinetoscope report" in notebook.cells[3].outputs[0]["data"]["text/html"]
    assert status["data"]["text/plain"] == "200"
