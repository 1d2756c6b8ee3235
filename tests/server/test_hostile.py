"""A trace is untrusted: whatever its strings are, they come out as JSON text, and nothing else happens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kinetoscope.analyses import NAMES
from kinetoscope.pages import PAGES
from kinetoscope.server.http.access import CONTENT_SECURITY
from tests.conftest import OURS
from tests.drawn import Event, annotation, kernel, launch, op, python, written
from tests.server.serving import Client, serving

ODD = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "\u202eRTL \u2066x",
    "\x1b[31mred\x1b[0m\x07",
    "'; DROP TABLE ops;--",
    "{{7*7}} ${7*7}",
    "\u0000nul",
    "\ud800 half",
    '=HYPERLINK("http://evil.com")',
    "a\r\nSet-Cookie: x=1",
    "../../etc/passwd",
    "x" * 50_000,
    "\u2028\u2029",
    "漢字 🙂",
    "",
]


def with_args(event: Event, *keys: str) -> Event:
    """The event with further arguments, each of them its own value."""
    return {**event, "args": {**event["args"], **{key: key for key in keys}}}


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd") / "<script>alert(1)<"
    folder.mkdir()
    events = []
    for number, text in enumerate(ODD):
        at = 1_000_000 * (number + 1)
        events += [
            annotation(f"ProfilerStep#{number}", at, 900_000),
            annotation(text, at, 800_000),
            python(f"{text}.py({number}): {text}", at, 700_000),
            with_args(op(text, at + 10, 500_000), "Input Dims", text),
            launch(at + 20, 100, number),
            with_args(kernel(text, at + 200_000, 100_000, number), "grid", text),
        ]
    written(folder / "rank0.json", *events, **{ODD[0]: ODD, "deviceProperties": [{"id": 0, "name": ODD[0]}]})
    return folder


def test_strings_come_out_as_they_are(odd: Path) -> None:
    with serving(odd) as client:
        path = f"runs/{client.run()}/analyses/operators"
        names = {row[1] for row in client.get(path)["rows"]}
        assert {"<script>alert(1)</script>", "\u202eRTL \u2066x", "\x1b[31mred\x1b[0m\x07", "漢字 🙂"} <= names
        for text in ODD[:4]:
            assert text in {row[1] for row in client.get(path, {"search": text})["rows"]}


def test_everything_is_json_with_the_headers(odd: Path) -> None:
    with serving(odd) as client:
        run = client.run()
        asked = [f"runs/{run}", "runs", "server", f"runs/{run}/sql", f"runs/{run}/progress"]
        asked += [f"runs/{run}/analyses/{name}" for name in NAMES]
        asked += [f"runs/{run}/analyses/{name}/chart" for name in NAMES]
        asked += [f"runs/{run}/pages/{name}" for name in PAGES]
        for path in asked:
            answer = client.ask(f"/api/{path}")
            assert answer.status in (200, 400, 404), (path, answer.body)
            assert answer.headers["Content-Type"] == "application/json"
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Content-Security-Policy"] == CONTENT_SECURITY
            assert answer.headers.get("Set-Cookie") is None
            json.loads(answer.body)


def test_names_of_files_are_harmless(odd: Path) -> None:
    with serving(odd) as client:
        answer = client.ask(f"/api/runs/{client.run()}/analyses/operators", {"format": "csv"})
        disposition = answer.headers["Content-Disposition"]
        assert disposition.startswith('attachment; filename="')
        assert not set(disposition.removeprefix("attachment; filename=").strip('"')) & set("<>\"'\r\n;/\\")
        assert b"\n=HYPERLINK" not in answer.body.replace(b",=", b"\n=")  # no spreadsheet runs it


@pytest.mark.slow
@pytest.mark.parametrize("name", ["name_quote", "meta_newline", "class_quote"])
def test_traces_that_are_no_json(name: str) -> None:
    _everything_answers(OURS / f"{name}.pt.trace.json.gz")


@pytest.mark.slow
def test_hostile_traces(shared_traces: Path) -> None:
    for file in sorted((shared_traces / "hostile").glob("*.json*")):
        _everything_answers(file)


def _everything_answers(file: Path) -> None:
    with serving(file) as client:
        run = client.run()
        for path in (f"runs/{run}", *(f"runs/{run}/analyses/{name}" for name in NAMES)):
            _told(client, path)


def _told(client: Client, path: str) -> None:
    answer = client.ask(f"/api/{path}")
    assert answer.status in (200, 409), (path, answer.body)
    assert answer.json
