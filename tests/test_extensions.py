"""A module of the user's own: its analysis and its rule stand beside ours on every face."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import kinetoscope
from kinetoscope import advise, extensions, read
from kinetoscope.analyses import NAMES, groups, names
from kinetoscope.cli import main
from kinetoscope.errors import InputError
from kinetoscope.pages import menu
from kinetoscope.server.app import Server, client_of
from kinetoscope.server.runs.run import ReadKeywords
from kinetoscope.server.runs.workspace import Workspace
from tests.cli.run import MLP, RANKS
from tests.cli.test_show import MINE

RULE = '''
from kinetoscope.advisor.finding import Evidence, Finding, Stake
from kinetoscope.advisor.rule import RankView, Rule


def many_events(rank: RankView):
    """What it checks. Whether a step has many events."""
    yield Finding(f"A step has {len(rank.trace):,} events.", Stake(0.0, rank.step), evidence=(Evidence("all", "mine"),))


RULE = Rule("MINE001", "A step has many events", of_rank=many_events)
'''
ANALYSIS = """
from kinetoscope.analyses.kernels import ANALYSIS as KERNELS
from kinetoscope.charts import Bars
from kinetoscope.model.analysis import Analysis

ANALYSIS = Analysis("Names", mine, RESULT, chart=Bars("name", "calls"))
"""


@pytest.fixture
def extension(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(extensions, "_modules", {})
    path = tmp_path / "mine.py"
    path.write_text(MINE + ANALYSIS + RULE)
    yield path
    vars(kinetoscope).pop("mine", None)


def test_on_every_face_of_python(extension: Path) -> None:
    assert "mine" not in names()
    kinetoscope.extend(extension)
    kinetoscope.extend(extension)
    assert names() == (*NAMES, "mine")
    assert groups()["Your own"] == ("mine",)
    job = read(RANKS)
    assert kinetoscope.mine(job).frame["rank"].unique().sort().to_list() == [0, 1]  # type: ignore[attr-defined]
    (finding,) = (each for each in advise(job).findings if each.code == "MINE001")
    assert finding.ranks == (0, 1)


def test_the_variable_names_extensions(extension: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(extensions.VARIABLE, str(extension))
    assert "mine" in names()


def test_on_the_command_line(extension: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--extend", str(extension), "show", "mine", str(MLP), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"]
    assert main([f"--extend={extension}", "show"]) == 0
    assert "How often does each name occur?" in capsys.readouterr().out
    assert main(["advise", str(MLP), "--limit", "0"]) == 0
    assert "events." in capsys.readouterr().out
    assert main(["advise", "--explain", "MINE001"]) == 0
    assert main(["--extend"]) == 2
    assert main(["--extend", "./none.py", "show"]) == 1
    assert "none.py: no such file" in capsys.readouterr().err


def test_on_the_page_and_in_the_report(extension: Path, tmp_path: Path) -> None:
    assert "own" not in menu()
    kinetoscope.extend(extension)
    workspace = Workspace((str(MLP),), ReadKeywords())
    client = client_of(Server(workspace))
    (run,) = client.get("runs").plain()["runs"]
    assert "own" in [page["name"] for page in client.get("server").plain()["pages"]]
    answer = client.get(f"runs/{run['id']}/pages/own").plain()
    assert [block["block"] for block in answer["blocks"]] == ["chart", "table"]
    assert client.get(f"runs/{run['id']}/analyses/mine").plain()["total"] > 0
    page = Path(kinetoscope.report(str(MLP), tmp_path / "run.html", sections=["own"]))
    assert page.stat().st_size > 100_000


def test_for_an_assistant(extension: Path, tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="the extra mcp is not installed")
    from kinetoscope.integrations.assistant.runs import Folders
    from kinetoscope.integrations.assistant.tools import call

    kinetoscope.extend(extension)
    folders = Folders([str(MLP.parent)])
    assert "mine" in json.loads(call(folders, "list_analyses", {}))["analyses"]["Your own"]
    assert json.loads(call(folders, "run_analysis", {"name": "mine", "path": MLP.name}))["rows"]
    assert json.loads(call(folders, "explain_finding", {"code": "mine001"}))["title"] == "A step has many events"


@pytest.mark.slow
def test_on_a_cluster(extension: Path) -> None:
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    kinetoscope.extend(extension)
    job = read(RANKS, engine="dask")
    try:
        assert "MINE001" in [finding.code for finding in advise(job).findings]
    finally:
        job.engine.close()


def used(extension: Path) -> None:
    kinetoscope.extend(extension)
    advise(read(MLP))
    names()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (MINE.replace("def mine(", "def kernels(") + ANALYSIS.replace("mine", "kernels"), "the name of another one"),
        (RULE.replace("MINE001", "DATA001"), "the code of another one"),
        ("1 / 0", "cannot be run: ZeroDivisionError"),
    ],
)
def test_what_cannot_stand_beside_ours_is_one_line(extension: Path, text: str, message: str) -> None:
    extension.write_text(text)
    with pytest.raises(InputError, match=message):
        used(extension)


def test_a_rule_of_ones_own_that_fails_is_a_note(extension: Path) -> None:
    extension.write_text(RULE.replace("    yield", "    1 / 0\n    yield"))
    kinetoscope.extend(extension)
    assert any(
        "Rule MINE001 failed on this trace, which is its author's mistake" in note for note in advise(read(MLP)).notes
    )
