"""The page as one file: it opens from the disk, asks nobody, and says what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinetoscope.cli import main
from tests.conftest import OURS
from tests.web.conftest import Served, Tab

pytestmark = pytest.mark.slow

SECTIONS = (
    "overview",
    "timeline",
    "operators",
    "kernels",
    "modules",
    "efficiency",
    "memory",
    "idle",
    "critical_path",
    "distributed",
    "sources",
)


def test_it_opens_from_a_file_with_every_section(tab: Tab, ours: Served, tmp_path: Path) -> None:
    out = tmp_path / "run.html"
    assert main(["report", str(OURS / "transformer.pt.trace.json.gz"), "-o", str(out)]) == 0
    assert out.stat().st_size < 3_000_000
    tab.address = "file://"
    tab.page.goto(out.as_uri())
    tab.settle()
    for view in SECTIONS:
        tab.page.evaluate("view => { location.hash = location.hash.replace(/\\/[a-z_]+(?=\\?|$)/, '/' + view) }", view)
        tab.settle()
        assert tab.page.locator("nav [aria-current=page]").count() == 1
        if view != "timeline":
            run = ours.run("transformer")
            assert tab.sentence == ours.client.get(f"runs/{run}/pages/{view}")["sentence"].replace("`", "")
        assert not tab.page.locator(".tl-summary, .tl-folded").count()  # a report has no events to sum up
        assert "not in this report" not in tab.page.locator("main").inner_text()
        tab.shot(f"report-{view}")
    assert not tab.errors


def test_a_report_of_several_ranks_speaks_for_all_of_them(tab: Tab, ours: Served, tmp_path: Path) -> None:
    out = tmp_path / "run.html"
    assert main(["report", str(OURS / "ddp2"), "-o", str(out)]) == 0
    tab.address = "file://"
    tab.page.goto(out.as_uri())
    tab.settle()
    for view in ("operators", "kernels", "modules", "idle"):
        tab.page.evaluate("view => { location.hash = location.hash.replace(/\\/[a-z_]+(?=\\?|$)/, '/' + view) }", view)
        tab.settle()
        of_all = ours.client.get(f"runs/{ours.run('ddp2')}/pages/{view}", {"ranks": "all"})
        assert tab.sentence == of_all["sentence"].replace("`", "")
        assert "all 2" in tab.page.locator("header").inner_text()
        assert "not in this report" not in tab.page.locator("main").inner_text()
    assert not tab.errors


def test_lines_of_source_are_in_it_where_a_folder_is_allowed(tab: Tab, tmp_path: Path) -> None:
    for words, said in ((["--source", str(OURS)], "loss.backward()"), ([], "--source DIR allows a folder")):
        out = tmp_path / f"run{len(words)}.html"
        trace = str(OURS / "mlp.pt.trace.json.gz")
        assert main(["report", trace, "-o", str(out), "--sections", "sources", *words]) == 0
        tab.address = "file://"
        tab.page.goto(out.as_uri())
        tab.settle()
        text = tab.page.locator("main").inner_text()
        assert said in text
        assert "not in this report" not in text


def test_only_the_sections_asked_for(tab: Tab, tmp_path: Path) -> None:
    out = tmp_path / "run.html"
    assert main(["report", str(OURS / "mlp.pt.trace.json.gz"), "-o", str(out), "--sections", "kernels,overview"]) == 0
    tab.address = "file://"
    tab.page.goto(out.as_uri())
    tab.settle()
    assert tab.page.locator("nav a").all_inner_texts() == ["Overview", "Kernels"]


def test_hostile_names_do_not_leave_the_data(tab: Tab, tmp_path: Path) -> None:
    from tests.drawn import annotation, op, written

    name = "</script><script>document.title='taken'</script><!--"
    trace = written(tmp_path / "rank0.json", annotation("ProfilerStep#0", 0, 900), op(name, 10, 500))
    out = tmp_path / "run.html"
    assert main(["report", str(trace), "-o", str(out)]) == 0
    tab.address = "file://"
    tab.page.goto(out.as_uri())
    tab.settle()
    assert "taken" not in tab.page.title()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--sections", "operaters"], "did you mean"),
        (["-o", "/nowhere/at/all/run.html"], "no folder"),
    ],
)
def test_what_is_wrong_is_one_line(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = [] if "-o" in words else ["-o", str(tmp_path / "run.html")]
    assert main(["report", str(OURS / "mlp.pt.trace.json.gz"), *out, *words]) in (1, 2)
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
