"""Absurd parameters are refused in one line, whatever they are."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import QueryParams

from kinetoscope.analyses import NAMES, named
from kinetoscope.errors import UsageError
from kinetoscope.server.errors import BadValueError
from kinetoscope.server.query import kind_of, parameters, run_part
from kinetoscope.server.results.table import arrangement_of, window_of
from tests.conftest import few_examples
from tests.server.serving import Client

HUGE = "9" * 19

ABSURD = [
    {"rank": "x"},
    {"rank": "1.5"},
    {"rank": "0x1"},
    {"rank": "٣"},
    {"ranks": "3-1"},
    {"ranks": "0-99999999"},
    {"ranks": ","},
    {"ranks": "0-99999,0-99999,0-99999"},
    {"rank": HUGE},
    {"cycle": "-"},
    {"cycle": "1e3"},
    {"steps": "first"},
    {"steps": "1--"},
    {"steps": HUGE},
    {"time": "5"},
    {"time": "5-5"},
    {"time": "9-1"},
    {"time": f"0-{HUGE}"},
    {"time": "1.5-2"},
    {"time": "a-b"},
    {"device": "x"},
    {"stream": "--1"},
    {"thread": "1;2"},
    {"thread": "1" * 5000},
    {"annotation": "x" * 5000},
    {"offset": "-1"},
    {"offset": "x"},
    {"offset": HUGE + "9"},
    {"limit": "10001"},
    {"limit": "-5"},
    {"limit": "∞"},
    {"format": "xls"},
    {"format": "../csv"},
    {"sort": "nothing"},
    {"sort": "-"},
    {"sort": "calls; drop"},
    {"filter": "calls"},
    {"filter": "calls:like:1"},
    {"filter": "calls:gt:x"},
    {"filter": "nothing:eq:1"},
    {"filter": "calls:contains:1"},
    {"filter": "calls:gt:1e400"},
    {"filter": "calls:gt:nan"},
    {"filter": ":::"},
    {"p.nothing": "1"},
    {"p.group_by": "colour"},
    {"p.python": "maybe"},
    {"p.": "1"},
    {"p.select": "1"},
    {"p.job": "1"},
    {"steps": "77777"},
    {"device": "77"},
    {"stream": "77"},
    {"thread": "424242"},
    {"annotation": "nothing is called that"},
]


@pytest.mark.parametrize("query", ABSURD, ids=str)
def test_absurd_values_are_refused(mlp: Client, query: dict[str, str]) -> None:
    status, error = mlp.refused(f"runs/{mlp.run()}/analyses/operators", query)
    assert status == 400, error
    assert len(error) < 1500


@pytest.mark.parametrize("name", ["nothing", "Operators", "operators.py", "__init__", "..", "os", "named"])
def test_only_analyses_are_analyses(mlp: Client, name: str) -> None:
    assert mlp.refused(f"runs/{mlp.run()}/analyses/{name}")[0] == 404


KEYS = [
    "rank",
    "ranks",
    "cycle",
    "steps",
    "time",
    "device",
    "stream",
    "thread",
    "annotation",
    "steps_by",
    "offset",
    "limit",
    "format",
    "sort",
    "search",
    "filter",
    "p.group_by",
    "p.python",
    "dark",
    "base",
]
odd = st.text(max_size=20) | st.sampled_from(["0", "-1", "0-3", "steady", "nan", "1e999", "calls:gt:1", "-calls", HUGE])


@given(st.dictionaries(st.sampled_from(KEYS), odd, max_size=4))
def test_no_query_is_a_mistake_of_ours(mlp: Client, query: dict[str, str]) -> None:
    answer = mlp.ask(f"/api/runs/{mlp.run()}/analyses/operators", _sendable(query))
    assert answer.status in (200, 400, 404), (query, answer.body)


@given(
    st.sampled_from(["overview", "operators", "kernels"]), st.dictionaries(st.sampled_from(KEYS[:10]), odd, max_size=2)
)
@few_examples
def test_nor_is_it_one_of_a_page(mlp: Client, page: str, query: dict[str, str]) -> None:
    answer = mlp.ask(f"/api/runs/{mlp.run()}/pages/{page}", _sendable(query))
    assert answer.status in (200, 400, 404), (query, answer.body)


def _sendable(query: dict[str, str]) -> dict[str, str]:
    return {key: value.encode("utf-8", "replace").decode() for key, value in query.items()}


@given(st.dictionaries(st.sampled_from(KEYS), st.text(max_size=30), max_size=6))
def test_whatever_is_asked_is_typed_or_refused(query: dict[str, str]) -> None:
    params = QueryParams(query)
    for ask in (run_part, arrangement_of, window_of, lambda params: parameters(named("operators"), params)):
        with contextlib.suppress(BadValueError):  # nothing else
            ask(params)


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_can_be_given_as_text(name: str) -> None:
    analysis = named(name)
    for parameter in analysis.parameters:
        value = parameter.default
        for each in parameter.choices or [value]:
            text = "" if each is None else str(each).lower() if isinstance(each, bool) else str(each)
            given_: dict[str, Any] = parameters(analysis, QueryParams({f"p.{parameter.name}": text}))
            assert given_ == {parameter.name: each}
            assert type(given_[parameter.name]) is type(each)
        if kind_of(parameter) in ("int", "float", "bool", "choice"):
            with pytest.raises(BadValueError):
                parameters(analysis, QueryParams({f"p.{parameter.name}": "neither here nor there"}))


def test_absurd_numbers_do_not_reach_the_algorithms(mlp: Client) -> None:
    """Each whole number at its ends and beyond."""
    for name in NAMES:
        for parameter in named(name).parameters:
            if kind_of(parameter) not in ("int", "float"):
                continue
            for text in ("-1", "0", str(1 << 61), f"-{1 << 61}", HUGE, "1e308", "-1e308"):
                answer = mlp.ask(f"/api/runs/{mlp.run()}/analyses/{name}", {f"p.{parameter.name}": text})
                assert answer.status in (200, 400), (name, parameter.name, text, answer.body)


def test_usage_errors_are_the_asker_s(mlp: Client) -> None:
    assert issubclass(UsageError, Exception)
    status, error = mlp.refused(f"runs/{mlp.run()}/analyses/kernels", {"steps": "99"})
    assert (status, "99" in error) == (400, True)
