from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Literal

import polars as pl
import pytest

from kinetoscope import Selection, Trace
from kinetoscope.charts import Bars
from kinetoscope.errors import UsageError
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Param, Parameter, Result, Schema
from tests import drawn

SCHEMA = Schema(
    Column("rank", pl.Int64, "Rank."), Column("name", pl.String, "Name."), Column("idle", pl.Int64, "Idle time.", "ns")
)


def test_columns_are_found_by_name() -> None:
    assert SCHEMA.names == ["rank", "name", "idle"]
    assert [column.name for column in SCHEMA] == SCHEMA.names
    assert (len(SCHEMA), SCHEMA["idle"].unit, SCHEMA["name"].unit) == (3, "ns", "")
    assert "name" in SCHEMA
    assert "names" not in SCHEMA
    with pytest.raises(KeyError):
        SCHEMA["names"]


def test_no_column_is_named_twice() -> None:
    with pytest.raises(ValueError, match="twice"):
        Schema(Column("a", pl.Int64, "A."), Column("a", pl.String, "A, too."))


def test_schemas_are_cut() -> None:
    assert SCHEMA.without("name").names == ["rank", "idle"]
    assert SCHEMA.only(["idle", "rank"]).names == ["idle", "rank"]
    assert repr(SCHEMA.without("name")) == "Schema(rank, idle)"


def test_an_empty_frame_has_the_types() -> None:
    assert SCHEMA.empty().schema == {"rank": pl.Int64, "name": pl.String, "idle": pl.Int64}


def test_a_frame_is_put_in_order_and_its_enums_become_text() -> None:
    names = pl.Series(["b", "a"], dtype=pl.Enum(["a", "b"]))
    frame = SCHEMA.conform(pl.DataFrame({"idle": pl.Series([1, None], dtype=pl.Int32), "name": names, "rank": [0, 1]}))
    assert frame.schema == SCHEMA.empty().schema
    assert frame.rows() == [(0, "b", 1), (1, "a", None)]


def test_a_frame_with_other_columns_is_refused() -> None:
    with pytest.raises(ValueError, match=r"missing \['idle', 'name'\], undeclared \['busy'\]"):
        SCHEMA.conform(pl.DataFrame({"rank": [0], "busy": [1]}))


def test_a_frame_with_values_that_do_not_fit_is_refused() -> None:
    with pytest.raises(pl.exceptions.InvalidOperationError):
        SCHEMA.conform(pl.DataFrame({"rank": [0], "name": ["a"], "idle": ["long"]}))


# --- an analysis is read from its function

Kind = Literal["gap", "wait"]


def idle_gaps(
    trace: Trace,
    select: Selection,
    *,
    min_gap: Annotated[int, Param("Shorter gaps count as noise.", "ns")] = 30,
    kind: Annotated[Kind, Param("Which.")] = "gap",
) -> Partial:
    """How long was the device idle?

    Method. By looking.
    """
    return Partial(SCHEMA.per_rank.empty(), (Note("A", "said"),))


GAPS = Analysis("Idle gaps", idle_gaps, SCHEMA, chart=Bars("name", "idle"))


def test_the_function_tells_name_question_and_text() -> None:
    assert (GAPS.name, GAPS.question) == ("idle_gaps", "How long was the device idle?")
    assert GAPS.doc == "How long was the device idle?\n\nMethod. By looking."


def test_the_signature_tells_the_parameters() -> None:
    assert GAPS.parameters == (
        Parameter("min_gap", int, 30, "Shorter gaps count as noise.", "ns"),
        Parameter("kind", Kind, "gap", "Which.", ""),  # type: ignore[arg-type]
    )
    assert [each.choices for each in GAPS.parameters] == [(), ("gap", "wait")]


def test_the_result_says_what_was_asked_and_how_it_is_drawn(tmp_path: Path) -> None:
    result = GAPS(drawn.job(tmp_path, drawn.op("mm", 0, 1)), min_gap=5)
    assert (result.analysis, result.params, result.chart_facts) == ("idle_gaps", {"min_gap": 5}, GAPS.chart)
    assert (result.notes, len(result)) == ((Note("A", "said"),), 0)


def test_a_value_that_is_none_of_the_choices_is_refused() -> None:
    with pytest.raises(UsageError, match="kind is 'nap'; it can be gap, wait"):
        GAPS(None, kind="nap")


# --- results


def test_pandas_keeps_integers_where_some_are_missing() -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pl.DataFrame({"rank": [0, 1], "name": ["a", None], "idle": [2**60 + 1, None]}, schema=SCHEMA.empty().schema)
    pandas = Result(frame, SCHEMA).to_pandas()
    assert list(pandas.columns) == SCHEMA.names
    assert int(pandas["idle"][0]) == 2**60 + 1
    assert pandas["idle"].isna().tolist() == [False, True]


WITHOUT_PANDAS = """
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] == "pandas" else super().find_spec(name, path, target)

sys.meta_path = [Without if finder is PathFinder else finder for finder in sys.meta_path]
from kinetoscope.schema import Result, Schema
Result(Schema().empty(), Schema()).to_pandas()
"""


def test_without_pandas_it_says_what_to_install() -> None:
    environment = {"PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", WITHOUT_PANDAS]
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert run.stderr.rstrip().endswith("needs an extra: pip install 'pandas>=2.2' 'pyarrow>=17'")


def test_a_result_shows_itself() -> None:
    result = Result(pl.DataFrame({"rank": [0], "name": ["<a>"], "idle": [1500]}), SCHEMA, (Note("A", "odd"),))
    assert "<a>" in str(result)
    assert "odd" in str(result)
    assert "&lt;a&gt;" in result._repr_html_()


def test_a_result_is_short_where_it_is_not_printed() -> None:
    result = Result(pl.DataFrame({"name": ["a"]}), Schema(Column("name", pl.String, "Name.")), analysis="operators")
    assert repr(result) == "<Result of operators: 1 row of name; print() shows them>"
