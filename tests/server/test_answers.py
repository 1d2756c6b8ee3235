"""Each endpoint answers, on a real trace, with exactly what its signature declares and the page's types say."""

from __future__ import annotations

import json
import typing
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from types import UnionType
from typing import Any, Literal, Union

import pytest

from kinetoscope.pages.blocks import Page
from kinetoscope.schema import Across, DType
from kinetoscope.server.app import Server, answered, routes
from kinetoscope.server.runs.workspace import Workspace
from kinetoscope.server.source_code import Sources
from kinetoscope.server.timeline.tile import TileHeader
from kinetoscope.views.exports.plain import field_names
from tests.conftest import OURS, ROOT
from tests.server.serving import Client, serving
from tests.server.timeline.test_routes import tile_of
from tests.snapshots.process import Process
from tests.snapshots.training import Model, Training
from tests.snapshots.writing import write
from web import generate

DECLARED = answered(routes(Server(Workspace(()))))
TIME = "0ms..5000ms"
OPERATORS = "/runs/{run}/analyses/{name}"
QUESTIONS: dict[str, Mapping[str, Any]] = {
    "/server": {},
    "/analyses": {},
    "/runs": {},
    "/runs/{run}": {},
    "/runs/{run}/progress": {},
    OPERATORS: {},
    f"{OPERATORS}/chart": {},
    "/runs/{run}/sql": {},
    "/runs/{run}/notes": {},
    "/runs/{run}/source": {"file": "conftest.py", "line": 2, "around": 3},
    "/runs/{run}/timeline/lanes": {"path": 1, "rank": "0,1"},
    "/runs/{run}/timeline/event": {"row": 100},
    "/runs/{run}/timeline/search": {"q": "aten"},
    "/runs/{run}/timeline/hits": {"q": "aten"},
    "/runs/{run}/timeline/range": {"time": TIME, "colour": "module"},
    "/runs/{run}/timeline/path": {"time": TIME},
    "/runs/{run}/timeline/area": {"time": TIME},
    "/runs/{run}/timeline/occurrence": {"time": TIME, "of": 0, "row": 100},
}
QUERY = "SELECT rank, row, name FROM ops"
POSTED: dict[str, Mapping[str, Any]] = {
    "/runs/{run}/sql": {"query": QUERY},
    "/runs/{run}/sql/lane": {"query": QUERY},
    "/runs/{run}/sql/stop": {"ticket": "none"},
}
OF_SNAPSHOT: dict[str, Mapping[str, Any]] = {
    "/runs/{run}/memory/bands": {"by": "event", "columns": 50},
    "/runs/{run}/memory/heap": {"event": 30, "pieces": 50},
    "/runs/{run}/memory/allocation": {"row": 3},
}

OF_HISTORY = ("/runs/{run}/history", "/runs/{run}/history/tile")
"""Held to their types in `history/test_routes.py`."""


def strange(value: Any, hint: Any, where: str = "") -> Iterator[str]:
    """Where a value of JSON is not what a type declares."""
    if hint is Any or hint == Across | None:
        return
    hint = str if hint == DType else hint
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, UnionType):
        fits = any(not list(strange(value, each)) for each in args)
    elif origin is Literal:
        fits = value in args
    elif origin is None and field_names(hint) is None:
        fits = type(value) in SCALARS.get(hint, (hint,))
    else:
        fits = type(value) is (dict if origin in (None, Mapping, dict) else list)
        if fits:
            for place, each, of in members(value, hint):
                yield from strange(each, of, f"{where}.{place}")
    if not fits:
        yield f"{where}: {value!r:.100} is no {hint}"


SCALARS: dict[Any, tuple[type, ...]] = {float: (float, int)}


def members(value: Any, hint: Any) -> Iterator[tuple[str, Any, Any]]:
    """The place, the value and the type of each member; of a missing or an unknown one the type is None."""
    args = typing.get_args(hint)
    if isinstance(value, list):
        of = args if typing.get_origin(hint) is tuple and args[-1] is not Ellipsis else args[:1] * len(value)
        for place, pair in enumerate(zip_longest(value, of)):
            yield str(place), *pair
    elif args:
        yield from ((key, each, args[1]) for key, each in value.items())
    else:
        hints = typing.get_type_hints(hint)
        for name in value.keys() | hints:
            yield name, value.get(name, "missing"), hints.get(name, type(None)) if name in value else type(None)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with serving(OURS / "ddp2", sources=Sources.of([str(ROOT / "tests")])) as served:
        yield served


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    process = Process()
    process.record()
    training = Training(process, Model(layers=2, width=256, batch=2, tokens=128, vocabulary=1000), metadata=True)
    training.build()
    training.run(3)
    path = tmp_path_factory.mktemp("memory") / "run.pickle"
    write(path, process.snapshot())
    with serving(path) as served:
        yield served


def address(client: Client, path: str) -> str:
    return f"/api{path.format(run=client.run(), name='operators')}"


@pytest.mark.parametrize("path", QUESTIONS)
def test_an_answer_is_as_declared(client: Client, path: str) -> None:
    answer = client.ask(address(client, path), QUESTIONS[path])
    assert (answer.status, list(strange(answer.json, DECLARED[f"GET {path}"]))) == (200, [])


@pytest.mark.parametrize("path", OF_SNAPSHOT)
def test_an_answer_about_a_snapshot_is_as_declared(snapshot: Client, path: str) -> None:
    answer = snapshot.ask(address(snapshot, path), {"device": 0, **OF_SNAPSHOT[path]})
    assert (answer.status, list(strange(answer.json, DECLARED[f"GET {path}"]))) == (200, [])


@pytest.mark.slow  # a query runs in a process of its own
@pytest.mark.parametrize("path", POSTED)
def test_an_answer_to_a_query_is_as_declared(client: Client, path: str) -> None:
    body = json.dumps(POSTED[path]).encode()
    answer = client.ask(address(client, path), {}, method="POST", body=body, Content_Type="application/json")
    assert (answer.status, list(strange(answer.json, DECLARED[f"POST {path}"]))) == (200, [])


def test_each_endpoint_is_asked() -> None:
    asked = {f"GET {path}" for path in (*QUESTIONS, *OF_SNAPSHOT, *OF_HISTORY)} | {f"POST {path}" for path in POSTED}
    assert set(DECLARED) - asked == {path for path, hint in DECLARED.items() if hint is Page}


@pytest.mark.parametrize(
    ("value", "hint"), [({}, TileHeader), (1.5, int), (None, str), (True, int), ([1], Sequence[str])]
)
def test_what_is_not_as_declared_is_seen(value: Any, hint: Any) -> None:
    assert list(strange(value, hint))


def test_the_header_of_a_tile_is_as_declared(client: Client) -> None:
    header, _ = tile_of(client, client.run(), z=20, i=0)
    assert list(strange(header, TileHeader)) == []


def test_the_types_of_the_page_are_those_of_python() -> None:
    assert generate.answers() == (ROOT / "web" / "src" / "api" / "answers.ts").read_text("utf-8")
    assert generate.blocks() == (ROOT / "web" / "src" / "api" / "blocks.ts").read_text("utf-8")
