"""Sentences carry the cells of their numbers and names."""

from __future__ import annotations

import ast
import copy
import pickle

import polars as pl
import pytest

from kinetoscope.schema import Column, Result, Schema
from kinetoscope.views.sentences import cell, count, each, join, measured, say, total
from tests.conftest import ROOT

SCHEMA = Schema(
    Column("rank", pl.Int64, "Rank."), Column("lost", pl.Int64, "Lost.", "ns"), Column("cause", pl.String, "Why.")
)
RESULT = Result(
    SCHEMA.frame([(0, 2_000_000, "host gap"), (1, 0, None), (2, 1_000_000, "host\ngap")]), SCHEMA, (), "late"
)


def test_a_sentence_is_text_that_knows_its_cells() -> None:
    late = pl.col("lost") > 0
    said = say(
        "The others wait for ranks {who}: {lost} in all, {share} of it for rank {first}.",
        who=each(RESULT, "rank", late),
        lost=total(RESULT, "lost", late),
        share=cell(RESULT, "lost", rank=0) / total(RESULT, "lost"),
        first=cell(RESULT, "rank", lost=2_000_000),
    )
    assert said == "The others wait for ranks 0, 2: 3.00\u00a0ms in all, 66.7% of it for rank 0."
    assert [quantity.name for quantity in said.quantities] == ["who", "lost", "share", "first"]
    assert [quantity.value for quantity in said.quantities] == [(0, 2), 3_000_000, 2 / 3, 0]
    for quantity in said.quantities:
        assert quantity.source is not None
        assert quantity.source.look_up(lambda analysis, params: RESULT) == quantity.value


def test_a_number_without_a_cell_is_refused() -> None:
    with pytest.raises(TypeError, match=r"a number needs a cell"):
        say("It takes {time}.", time="12 ms")
    assert say("`{name}` takes {time}.", name="gemm", time=measured(2_000, "ns")) == "`gemm` takes 2.00\u00a0µs."
    assert say("{name} is slow.", name="`gemm_128x64`").quantities == ()


def test_an_ambiguous_cell_is_refused() -> None:
    with pytest.raises(LookupError, match="3 rows"):
        cell(RESULT, "lost")
    assert count(RESULT, lost=0).value == 1


def test_what_a_rule_measured_has_no_cell_but_a_name() -> None:
    ratio = measured(1.0, "ns") / measured(4.0, "ns")
    said = say("{part} of it waits.", part=ratio.words("a quarter"))
    assert (said, said.quantities[0].value, said.quantities[0].name) == ("a quarter of it waits.", 0.25, "part")
    assert said.quantities[0].source is None


def test_sentences_join_nest_and_travel() -> None:
    one = say("It takes {time}.", time=cell(RESULT, "lost", rank=0))
    two = join([one, "", say("{before} Rank {rank} waits.", before=one, rank=cell(RESULT, "rank", rank=1))])
    assert two == f"{one} {one} Rank 1 waits."
    assert len(two.quantities) == 3
    for other in (pickle.loads(pickle.dumps(two)), copy.deepcopy(two)):
        assert other == two
        assert [each.value for each in other.quantities] == [each.value for each in two.quantities]


def test_text_of_a_trace_stays_on_its_line() -> None:
    assert say("Why: {cause}.", cause=cell(RESULT, "cause", rank=2)) == "Why: host gap."


def test_templates_are_literals() -> None:
    """A template that is put together could hold data: a number without a cell, a brace out of a trace."""
    wrong = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "views.sentences import" in text else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "say":
                template = node.args[0]
                if not (isinstance(template, ast.Constant) and isinstance(template.value, str)):
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert wrong == []
