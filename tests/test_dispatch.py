from __future__ import annotations

import inspect
from importlib import import_module

import pytest

from kinetoscope.dispatch import FUNCTIONS
from kinetoscope.schema import Result
from tests.views.results import steps


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in FUNCTIONS.items() for name in names])
def test_each_function_takes_the_kind_that_it_is_listed_for(kind: str, name: str) -> None:
    module, _, function = FUNCTIONS[kind][name].rpartition(".")
    first, *_ = inspect.signature(getattr(import_module(f"kinetoscope.{module}"), function)).parameters.values()
    assert kind in (str(first.annotation).partition(" | ")[0], "object")


def test_a_derived_class_is_shown_as_its_base() -> None:
    class Marked(Result):
        pass

    marked = Marked(steps((1, 2, 3)).frame, steps((1, 2, 3)).schema)
    assert str(marked) == str(Result(marked.frame, marked.schema))
