from __future__ import annotations

import subprocess
import sys

import pytest

import kinetoscope
from kinetoscope import ANALYSES
from kinetoscope.analyses import NAMES
from tests.catalog.samples import BUNDLED

SMALL = BUNDLED / "mlp_default.pt.trace.json.gz"
HEAVY = ("typing", "numba", "polars", "pandas", "torch", "numpy", "fsspec", "rich", "isal")


def loaded_by(program: str) -> set[str]:
    """Which heavy packages a fresh interpreter has loaded after a program."""
    code = f"{program}\nimport sys; print(*(name for name in {HEAVY} if name in sys.modules))"
    environment = {"PYTHONPATH": ":".join(sys.path)}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return set(run.stdout.split())


def test_importing_the_package_is_cheap() -> None:
    assert loaded_by("import kinetoscope") == set()


@pytest.mark.parametrize("module", ["errors", "cli", "model.trace.source", "model.steps.selection"])
def test_these_are_cheap_too(module: str) -> None:
    assert loaded_by(f"import kinetoscope.{module}") <= {"typing"}


def test_schemas_and_views_do_without_what_compiles() -> None:
    program = "import kinetoscope.schema, kinetoscope.views.terminal.screen, kinetoscope.views.charts.chart"
    assert not loaded_by(program) & {"numba", "torch", "pandas"}


def test_a_whole_answer_does_without_torch_and_pandas() -> None:
    program = f"import kinetoscope; str(kinetoscope.step_breakdown(kinetoscope.read({str(SMALL)!r})))"
    assert "numba" in (loaded := loaded_by(program))
    assert not loaded & {"torch", "pandas"}


def test_every_public_name_is_there_and_the_list_is_sorted() -> None:
    assert kinetoscope.__all__ == sorted(kinetoscope.__all__)
    for name in kinetoscope.__all__:
        assert getattr(kinetoscope, name) is not None
        assert name in dir(kinetoscope)
    assert set(kinetoscope.__all__) == {*kinetoscope.HOMES, *NAMES}


def test_every_analysis_is_a_public_name() -> None:
    for analysis in ANALYSES:
        assert getattr(kinetoscope, analysis.name).__wrapped__ is analysis.function


def test_other_names_are_not_there() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'idle_hours'"):
        kinetoscope.idle_hours  # type: ignore[attr-defined]  # noqa: B018
