"""The library as users of pandas and Polars expect it: paths, rows, columns, and one line for each slip."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import kinetoscope
from kinetoscope import Selection
from kinetoscope.cli import main
from kinetoscope.errors import NotFoundError, UsageError
from kinetoscope.model.job import part_of
from tests.catalog.samples import BUNDLED

SMALL = BUNDLED / "mlp_default.pt.trace.json.gz"


@pytest.fixture(scope="module")
def job() -> kinetoscope.Job:
    return kinetoscope.read(SMALL)


@pytest.fixture(scope="module")
def operators(job: kinetoscope.Job) -> kinetoscope.Result:
    return kinetoscope.operators(job)


# --- what is read


@pytest.mark.parametrize("path", [SMALL, str(SMALL), [SMALL], {0: SMALL}, str(SMALL.with_name("mlp_defaul?.*"))])
def test_an_analysis_reads_what_read_takes(path: str | Path, operators: kinetoscope.Result) -> None:
    assert kinetoscope.operators(path).frame.equals(operators.frame)


@pytest.mark.slow
def test_advice_and_summary_read_a_path(job: kinetoscope.Job) -> None:
    assert kinetoscope.advise(SMALL).findings == kinetoscope.advise(job).findings
    assert str(kinetoscope.summary(SMALL)) == str(kinetoscope.summary(job))


def test_every_function_about_a_job_reads_a_path() -> None:
    assert kinetoscope.diff(SMALL, str(SMALL)).change == 0
    assert len(kinetoscope.ledger([SMALL, SMALL])) == 2
    assert len(kinetoscope.delivery([SMALL, SMALL])) == 0
    assert kinetoscope.gate(SMALL, [SMALL]).passed
    assert kinetoscope.sql(SMALL, "SELECT COUNT(*) AS ops FROM ops")["ops"][0] > 0
    assert len(kinetoscope.critical_path_graph(SMALL).nodes) > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kinetoscope.operators(5), "5 is no job: give what kinetoscope.read() returns, a path, or a list"),  # type: ignore[arg-type]
        (lambda: kinetoscope.operators([SMALL, 5]), "5 is no job"),  # type: ignore[list-item]
        (lambda: kinetoscope.diff(SMALL, None), "None is no job"),  # type: ignore[arg-type]
        (lambda: kinetoscope.ledger(str(SMALL)), "is one run: give a list of runs"),
        (lambda: kinetoscope.operators([]), "no path was given"),
    ],
)
def test_what_is_no_job_is_refused_in_a_line(call: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        call()
    assert message in str(raised.value)


def test_a_path_without_a_trace_says_so() -> None:
    with pytest.raises(NotFoundError):
        kinetoscope.operators("no/such.json")


# --- slips


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda job: kinetoscope.operators(job, select={"steps": (6,)}),  # type: ignore[arg-type]
            "select is {'steps': (6,)}; it can be a kinetoscope.Selection, as Selection(steps=(3, 4))",
        ),
        (lambda job: kinetoscope.advise(job, select=6), "select is 6; it can be"),  # type: ignore[arg-type]
        (
            lambda job: kinetoscope.queue_length(job, full_at="many"),  # type: ignore[arg-type]
            "full_at is 'many'; it can be a whole number",
        ),
        (lambda job: kinetoscope.flame(job, operators="no"), "operators is 'no'; it can be True or False"),  # type: ignore[arg-type]
        (
            lambda job: kinetoscope.operators(job, groupby="name"),  # type: ignore[call-arg]
            "operators has no parameter 'groupby' (did you mean 'group_by'?); it has select, group_by",
        ),
        (lambda job: kinetoscope.operators(job, group_by="shape"), "group_by is 'shape'; it can be name, shapes"),  # type: ignore[arg-type]
        (lambda _: Selection(steps=6), "steps is 6; it can be a tuple of numbers, such as (0, 1), a range or 'steady'"),  # type: ignore[arg-type]
        (lambda _: Selection(steps="all"), "steps is 'all'; it can be"),  # type: ignore[arg-type]
        (lambda _: Selection(time=5), "time is 5; it can be a pair of ns"),  # type: ignore[arg-type]
        (lambda _: Selection(name=5), "name is 5; it can be a name, such as 'aten::mm'"),  # type: ignore[arg-type]
        (lambda _: Selection(step=(6,)), "a Selection has no 'step' (did you mean 'steps'?); it has steps, time"),  # type: ignore[call-arg]
    ],
)
def test_a_slip_is_one_line_with_what_it_can_be(
    job: kinetoscope.Job, call: Callable[[kinetoscope.Job], object], message: str
) -> None:
    with pytest.raises(UsageError) as raised:
        call(job)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


def test_a_wrong_name_of_the_package_names_the_nearest_once() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'step_breakdwon' \(did you mean 'step_breakdown'\?\)$"):
        kinetoscope.step_breakdwon  # type: ignore[attr-defined]  # noqa: B018


def test_a_selection_takes_lists_and_is_the_same_as_with_tuples() -> None:
    assert Selection(steps=[2, 3]) == Selection(steps=(2, 3))  # type: ignore[arg-type]
    assert hash(Selection(steps=[2, 3])) == hash(Selection(steps=(2, 3)))  # type: ignore[arg-type]


def test_ranks_of_a_selection_leave_the_others_unread() -> None:
    job = kinetoscope.read({0: SMALL, 1: SMALL.with_name("mlp.pt.trace.json.gz")})
    part, rest = part_of(job, Selection(ranks=(1,), steps=(1,)))
    assert part.ranks == (1,)
    assert rest == Selection(steps=(1,))
    assert kinetoscope.operators(job, select=Selection(ranks=(1,)))["rank"].unique().to_list() == [1]
    with pytest.raises(UsageError, match=r"has no rank 7; it has 0-1|has no rank 7; it has 0, 1"):
        kinetoscope.operators(job, select=Selection(ranks=(7,)))


# --- results


def test_a_result_is_indexed_as_a_frame_of_polars(operators: kinetoscope.Result) -> None:
    frame = operators.frame
    assert operators.columns == frame.columns
    assert operators["name"].equals(frame["name"])
    assert operators[["name", "calls"]].equals(frame.select("name", "calls"))
    assert operators[:3].equals(frame[:3])
    assert operators[pl.col("calls") > 1].equals(frame.filter(pl.col("calls") > 1))
    assert operators[operators["calls"] > 1].equals(frame.filter(pl.col("calls") > 1))
    assert "calls" in operators
    assert "callz" not in operators
    for wrong in ("callz", ["name", "callz"]):
        with pytest.raises(
            UsageError, match=r"there is no column 'callz' \(did you mean 'calls'\?\); there are rank, "
        ):
            operators[wrong]


def test_a_result_gives_its_rows_as_dictionaries(operators: kinetoscope.Result) -> None:
    rows = list(operators)
    assert len(rows) == len(operators)
    assert rows[0] == operators.frame.row(0, named=True)


@pytest.mark.parametrize("ending", ["csv", "json", "parquet", "xlsx", "md"])
def test_a_result_is_saved_in_the_format_of_the_ending(
    tmp_path: Path, operators: kinetoscope.Result, ending: str
) -> None:
    file = tmp_path / f"operators.{ending}"
    operators.save(file)
    if ending == "parquet":
        assert pl.read_parquet(file).equals(operators.frame)
    elif ending == "csv":
        assert pl.read_csv(file)["calls"].to_list() == operators["calls"].to_list()
    elif ending == "json":
        assert len(json.loads(file.read_text())["rows"]) == len(operators)
    else:
        assert file.read_bytes()[:2] == (b"PK" if ending == "xlsx" else b"| ")


def test_an_ending_without_a_format_is_refused(tmp_path: Path, operators: kinetoscope.Result) -> None:
    with pytest.raises(UsageError, match=r"it can be \.json, \.csv, \.parquet, \.xlsx, \.md"):
        operators.save(tmp_path / "operators.txt")
    assert not list(tmp_path.iterdir())


def test_advice_is_a_sequence_of_findings(job: kinetoscope.Job) -> None:
    advice = kinetoscope.advise(job)
    assert list(advice) == list(advice.findings)
    assert len(advice) == len(advice.findings) > 0
    first = advice[0]
    assert advice[first.code].code == first.code
    assert first.code in advice
    assert first in advice
    assert advice[:1] == (first,)
    with pytest.raises(UsageError, match=f"no finding is {first.code[:-1] + 'X'!r}"):
        advice[first.code[:-1] + "X"]


def test_a_difference_takes_a_selection_for_each_run(job: kinetoscope.Job, capsys: pytest.CaptureFixture[str]) -> None:
    steps = kinetoscope.step_breakdown(job)
    first, second = steps[["step", "duration"]].rows()[:2]
    found = kinetoscope.diff(job, job, base_select=Selection(steps=(first[0],)), select=Selection(steps=(second[0],)))
    assert (found.base, found.new) == (first[1], second[1])
    words = ["--base-steps", str(first[0]), "--steps", str(second[0]), "--format", "json"]
    assert main(["diff", str(SMALL), str(SMALL), *words]) == 0
    table = json.loads(capsys.readouterr().out)
    names = [column["name"] for column in table["columns"]]
    sums = [sum(row[names.index(side)] for row in table["rows"]) for side in ("base", "new")]
    assert sums == [first[1], second[1]]
