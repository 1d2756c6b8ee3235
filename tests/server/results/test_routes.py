"""What the server answers equals what the library does."""

from __future__ import annotations

import io
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kinetoscope.analyses import ANALYSES, NAMES, RECORDED, named
from kinetoscope.model.steps.selection import ALL, Selection, default_to_steady
from kinetoscope.pages import PAGES, menu
from kinetoscope.pages import named as composer
from kinetoscope.pages.blocks import to_plain
from kinetoscope.reading import read
from kinetoscope.schema import Result
from kinetoscope.views.charts.chart import specification
from kinetoscope.views.exports import files
from tests.server.conftest import MLP, RANKS
from tests.server.serving import Client, serving

EXACT = 1 << 53


def plain(value: Any) -> Any:
    """As JSON for a browser must have it."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > EXACT:
        return str(value)
    return [plain(each) for each in value] if isinstance(value, list) else value


def usual(name: str) -> Selection:
    """What the page looks at unless told otherwise: the steady steps, of memory all that was recorded."""
    return ALL if name in RECORDED else default_to_steady(ALL)


def expected(result: Result) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(files.to_json(result))
    return told | {"rows": plain(told["rows"])}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("which", ["mlp", "device", "ranks"])
def test_each_analysis_answers_as_the_library_does(request: pytest.FixtureRequest, name: str, which: str) -> None:
    client: Client = request.getfixturevalue(which)
    job = client.workspace.runs().runs[0].job
    told = client.get(f"runs/{client.run()}/analyses/{name}", {"limit": 10_000})
    result = expected(named(name)(job, select=usual(name)))
    assert told["rows"] == result["rows"][:10_000]
    assert told["notes"] == [note["text"] for note in result["notes"]]
    assert (told["total"], told["all"]) == (len(result["rows"]), len(result["rows"]))
    assert [{key: column[key] for key in ("name", "dtype", "unit", "doc")} for column in told["columns"]] == result[
        "columns"
    ]


@pytest.mark.parametrize("name", [name for name in NAMES if named(name).chart])
def test_each_chart_is_the_library_s(device: Client, name: str) -> None:
    job = device.workspace.runs().runs[0].job
    for dark in (False, True):
        told = device.get(f"runs/{device.run()}/analyses/{name}/chart", {"dark": "1"} if dark else {})
        made = specification(named(name)(job, select=usual(name)), dark=dark, width=None)
        assert told == json.loads(json.dumps(made))


def test_an_analysis_without_a_chart_says_so(mlp: Client) -> None:
    without = next(name for name in NAMES if named(name).chart is None)
    assert mlp.refused(f"runs/{mlp.run()}/analyses/{without}/chart")[0] == 404


@pytest.mark.parametrize(
    ("query", "select"),
    [
        ({"steps": "1"}, Selection(steps=(1,))),
        ({"steps": "-1"}, Selection(steps=(-1,))),
        ({"steps": "2-"}, Selection(steps=range(2, (1 << 63) - 1))),
        ({"steps": "steady"}, Selection(steps="steady")),
        ({"time": "0-50000"}, Selection(time=(0, 50_000))),
        ({"stream": "8", "device": "0"}, Selection(streams=(8,), devices=(0,))),
        ({"thread": "1"}, Selection(threads=(1,))),
        ({"annotation": "ProfilerStep#2"}, Selection(annotation="ProfilerStep#2")),
        ({"steps_by": "aten::op0"}, Selection(steps_by="aten::op0")),
    ],
)
def test_the_selection_is_obeyed(device: Client, query: dict[str, str], select: Selection) -> None:
    job = device.workspace.runs().runs[0].job
    told = device.get(f"runs/{device.run()}/analyses/kernels", query)
    assert told["rows"] == expected(named("kernels")(job, select=default_to_steady(select)))["rows"]


def test_parameters_are_obeyed(device: Client) -> None:
    job = device.workspace.runs().runs[0].job
    told = device.get(f"runs/{device.run()}/analyses/operators", {"p.group_by": "name", "p.runtime": "include"})
    assert (
        told["rows"]
        == expected(named("operators")(job, select=default_to_steady(ALL), group_by="name", runtime="include"))["rows"]
    )
    assert told["params"] == {"group_by": "name", "runtime": "include"}


def test_ranks_are_chosen(ranks: Client) -> None:
    path = f"runs/{ranks.run()}/analyses/"
    everywhere = ranks.get(path + "operators", {"limit": 10_000})["rows"]
    for query, wanted in (({"rank": "1"}, {1}), ({"ranks": "0"}, {0}), ({"ranks": "0-1"}, {0, 1}), ({}, {0, 1})):
        rows = ranks.get(path + "operators", {**query, "limit": 10_000})["rows"]
        assert rows == [row for row in everywhere if row[0] in wanted]
    for name in (each.name for each in ANALYSES if each.across_ranks):  # of all ranks, whichever the header names
        assert ranks.get(path + name, {"rank": "1"}) == ranks.get(path + name)
    assert ranks.refused(path + "operators", {"rank": "7"})[0] == 404


def test_rows_of_ranks_are_joined_on_request(ranks: Client) -> None:
    path = f"runs/{ranks.run()}/analyses/operators"
    told = ranks.get(path, {"p.across_ranks": "sum", "limit": 10_000})
    wanted = named("operators")(read(RANKS), select=default_to_steady(ALL), across_ranks="sum")
    assert told["rows"] == expected(wanted)["rows"]
    assert told["columns"][0]["name"] == "ranks"


def test_files_hold_all_rows(mlp: Client) -> None:
    path = f"/api/runs/{mlp.run()}/analyses/operators"
    result = named("operators")(read(MLP), select=default_to_steady(ALL))
    query = {"limit": 1, "sort": "-calls"}
    ordered = result.frame.sort("calls", descending=True, nulls_last=True, maintain_order=True)
    told = {form: mlp.ask(path, {**query, "format": form}) for form in ("csv", "parquet", "arrow")}
    assert pl.read_parquet(io.BytesIO(told["parquet"].body)).equals(ordered)
    assert pl.read_ipc(io.BytesIO(told["arrow"].body)).equals(ordered)
    assert told["csv"].body.count(b"\n") >= ordered.height
    as_json = mlp.ask(path, {**query, "format": "json", "download": "1"})
    assert len(as_json.json["rows"]) == ordered.height
    for form, answer in {**told, "json": as_json}.items():
        assert answer.headers["Content-Disposition"] == f'attachment; filename="mlp-operators.{form}"'


@pytest.mark.parametrize("page", [name for name, view in PAGES.items() if view.composed and view.runs == 1])
@pytest.mark.parametrize("which", ["mlp", "device", "ranks"])
def test_each_page_is_the_library_s(request: pytest.FixtureRequest, page: str, which: str) -> None:
    client: Client = request.getfixturevalue(which)
    try:
        module = composer(page)
    except ModuleNotFoundError:
        pytest.skip("not written yet")
    run = client.workspace.runs().runs[0]
    view = PAGES[page]
    job = run.part((0,) if view.ranks == "one" else None, None)
    told = client.get(f"runs/{run.id}/pages/{page}")
    assert told.pop("select") == ({"rank": "0"} if view.ranks == "one" else {"ranks": "all"})
    made = json.loads(json.dumps(to_plain(module.page(job, ALL if view.recorded else default_to_steady(ALL), {}))))
    assert told == {key: value for key, value in made.items() if key != "select"}


def test_the_ledger_is_of_all_runs_oldest_first(tmp_path: Path) -> None:
    for name in ("second", "first", "third"):
        (tmp_path / name).mkdir()
        copy = shutil.copy(MLP, tmp_path / name)
        modified = 1_700_000_000 + {"first": 1, "second": 2, "third": 3}[name]
        os.utime(copy, (modified, modified))
    with serving(tmp_path) as client:
        page = client.get(f"runs/{client.get('runs')['runs'][0]['id']}/pages/ledger")
        rows = next(block for block in page["blocks"] if block["block"] == "rows")
        assert [row[0] for row in rows["rows"]] == ["first", "second", "third"]
        ids = [run["id"] for run in client.get("runs")["runs"]]
        chosen = client.get(f"runs/{ids[0]}/pages/ledger", {"p.runs": ids[2]})
        assert chosen["facts"] == ["2 of 3 runs, as chosen"]  # the open run is always among them


def test_two_runs_are_compared() -> None:
    with serving(MLP, RANKS) as client:
        runs = {run["name"].rpartition("/")[2]: run["id"] for run in client.get("runs")["runs"]}
        mlp, ranks = runs["mlp"], runs["ddp2"]
        told = client.get(f"runs/{ranks}/pages/compare", {"rank": 1, "base": mlp})
        page: Any = composer("compare")
        jobs = {run.id: run for run in client.workspace.runs().runs}
        expected = page.page(jobs[ranks].part((1,)), Selection(), {}, base=jobs[mlp].part((0,)))
        assert told == json.loads(json.dumps(to_plain(replace(expected, select={"rank": "1"}))))
        assert client.refused(f"runs/{ranks}/pages/compare") == (400, "choose a run to compare with")
        assert client.refused(f"runs/{ranks}/pages/compare", {"base": "nothing"})[0] == 404


def test_pages_that_are_not_there(mlp: Client) -> None:
    for page in ("nothing", "timeline", "blocks", "..", "overview.py"):
        assert mlp.refused(f"runs/{mlp.run()}/pages/{page}")[0] == 404


def test_the_same_question_is_answered_once(mlp: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    from concurrent.futures import ThreadPoolExecutor

    asked = []
    whole = Result.__post_init__

    def counting(self: Result) -> None:
        if self.analysis == "flame" and self.params:
            asked.append(self)
        whole(self)

    monkeypatch.setattr(Result, "__post_init__", counting)
    path = f"runs/{mlp.run()}/analyses/flame"
    with ThreadPoolExecutor(6) as pool:
        query = {"limit": 5, "time": "0-9999999"}
        answers = list(pool.map(lambda offset: mlp.get(path, {**query, "offset": offset}), [0, 0, 0, 0, 1, 2]))
    assert answers[0] == answers[3]
    assert len(asked) == 1


def test_what_a_run_is(ranks: Client) -> None:
    job = read(RANKS)
    for rank in (None, 0, 1):
        told = ranks.get(f"runs/{ranks.run()}", {} if rank is None else {"rank": rank})
        table = job.trace(rank or 0).table("steps")
        assert (told["ranks"], told["rank"], told["cycles"]) == ([0, 1], rank or 0, 1)
        assert [step["step"] for step in told["steps"]] == table["step"].to_list()
        assert all(0 <= step["start"] < step["end"] <= told["duration"] for step in told["steps"])
        assert told["events"] == len(job.trace(rank or 0))
        assert int(told["base"]) > 1_700_000_000 * 10**9
        starts = [int(start) - int(told["origin"]) for start in table["host_start"].to_list()]
        assert starts == [step["start"] for step in told["steps"]]
        assert told["threads"]


def test_everything_declared_is_told(mlp: Client) -> None:
    told = mlp.get("analyses")
    assert [name for group in told["groups"] for name in group["names"]] == list(NAMES)
    for name, facts in told["analyses"].items():
        assert facts["question"] == named(name).question
        assert [each["name"] for each in facts["parameters"]] == [each.name for each in named(name).parameters]
        assert all(each["type"] in ("int", "float", "bool", "choice", "text") for each in facts["parameters"])
        assert [each["name"] for each in facts["columns"]] == named(name).schema.names
    server = mlp.get("server")
    assert [page["name"] for page in server["pages"]] == list(menu())
    assert mlp.get(f"runs/{mlp.run()}/progress") == {"done": 0, "total": 0, "what": ""}


def test_a_view_of_one_rank_asks_its_tables_for_that_rank(ranks: Client) -> None:
    """What the page sends along with a table is what its sentence is about."""
    path = f"runs/{ranks.run()}"
    for query, wanted in (({}, 1), ({"rank": "1"}, 1), ({"ranks": "all"}, 2)):
        page = ranks.get(f"{path}/pages/operators", query)
        table = ranks.get(f"{path}/analyses/operators", page["select"])
        assert table["ranks"] == wanted
        assert ("sum over 2 ranks" in page["facts"]) == (wanted == 2)
    for query, words in (({}, "on average over 2 ranks"), ({"rank": "1"}, "A step takes")):
        page = ranks.get(f"{path}/pages/overview", query)
        assert words in page["sentence"]
        assert page["select"] == (query or {"ranks": "all"})


def test_tables_of_several_ranks_are_sums_unless_another_way_is_chosen(ranks: Client) -> None:
    path = f"runs/{ranks.run()}"
    for query, wanted in (
        ({"ranks": "all"}, "sum"),
        ({"ranks": "all", "p.across_ranks": "mean"}, "mean"),
        ({"ranks": "all", "p.across_ranks": "each"}, None),
        ({}, None),
    ):
        page = ranks.get(f"{path}/pages/operators", query)
        (table,) = (block for block in page["blocks"] if block["block"] == "table")
        assert table["params"].get("across_ranks") == wanted
        controls = [each["name"] for block in page["blocks"] for each in block.get("controls", ())]
        assert ("across_ranks" in controls) == bool(query)
        own = {f"p.{name}": value for name, value in table["params"].items()}
        rows = ranks.get(f"{path}/analyses/operators", {**page["select"], **own, "limit": 10_000})
        names = [row[1] for row in rows["rows"]]
        assert (len(set(names)) < len(names)) == (query.get("p.across_ranks") == "each")
    launches = ranks.get(f"{path}/pages/idle", {"ranks": "all"})["blocks"]
    joined = {each["analysis"]: "across_ranks" in each["params"] for each in launches if each["block"] == "table"}
    assert joined.get("launches", False) is False
    assert ranks.refused(f"{path}/pages/operators", {"ranks": "all", "p.across_ranks": "median"})[0] == 400


def test_all_steps_are_asked_for_by_name(mlp: Client) -> None:
    path = f"runs/{mlp.run()}/analyses/step_breakdown"
    steady, every = (mlp.get(path, query)["rows"] for query in ({}, {"steps": "all"}))
    assert steady == [row for row in every if row[-1]]
    assert len(steady) < len(every)
