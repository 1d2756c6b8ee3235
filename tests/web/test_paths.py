"""The main paths, clicked through: from what is said to where it happened."""

from __future__ import annotations

import io
import re
from pathlib import Path

import polars as pl
import pytest

from kinetoscope.analyses import named
from kinetoscope.reading import read
from kinetoscope.server.http.access import Rules
from kinetoscope.server.source_code import Sources
from tests.conftest import OURS
from tests.server.serving import serving
from tests.web.conftest import Served, Tab

pytestmark = pytest.mark.slow


def wait_for(tab: Tab, script: str, arg: object = None) -> None:
    tab.page.wait_for_function(script, arg=arg, timeout=30_000)


def test_the_menu_leads_to_every_view(at_ours: Tab, ours: Served) -> None:
    at_ours.page.goto(at_ours.address)
    at_ours.settle()
    for title in ("Operators", "Memory", "All analyses", "Overview"):
        at_ours.page.get_by_role("navigation").get_by_text(title, exact=True).click()
        at_ours.settle()
        assert at_ours.page.locator("nav [aria-current=page]").text_content() == title
    at_ours.page.go_back()
    at_ours.settle()
    assert at_ours.page.locator("nav [aria-current=page]").text_content() == "All analyses"


def test_another_run_is_chosen_in_the_header(at_ours: Tab, ours: Served) -> None:
    at_ours.open(ours.run("mlp"), "operators")
    before = at_ours.sentence
    at_ours.page.locator(".of-run > button").click()
    at_ours.page.get_by_label("Search runs").fill("transformer")
    at_ours.page.locator(".of-run [role=dialog] li").filter(has_text="transformer").first.locator(
        "a, button"
    ).first.click()
    at_ours.settle()
    assert at_ours.sentence != before
    assert "/operators" in at_ours.page.url
    assert ours.run("transformer") in at_ours.page.url


def test_steps_are_chosen_once_and_obeyed_everywhere(at_ours: Tab, ours: Served) -> None:
    at_ours.open(ours.run("mlp"), "overview")
    steps = named("step_breakdown")(read(str(OURS / "mlp.pt.trace.json.gz"))).frame.get_column("step")
    at_ours.page.get_by_role("button", name=re.compile("^steps")).click()
    at_ours.page.get_by_label("Steps", exact=True).fill(str(steps[1]))
    at_ours.page.get_by_role("dialog").get_by_text("Show").click()
    at_ours.settle()
    assert f"steps={steps[1]}" in at_ours.page.url
    at_ours.page.get_by_role("navigation").get_by_text("Operators", exact=True).click()
    at_ours.settle()
    assert f"steps={steps[1]}" in at_ours.page.url
    expected = ours.client.get(f"runs/{ours.run('mlp')}/pages/operators", {"steps": steps[1]})["sentence"]
    assert at_ours.sentence == expected.replace("`", "")


def test_a_table_is_sorted_searched_and_exported(at_ours: Tab, ours: Served) -> None:
    from playwright.sync_api import expect

    at_ours.open(ours.run("mlp"), "operators")
    grid = at_ours.page.get_by_role("grid", name="All operators", exact=True)
    head = grid.get_by_role("columnheader").filter(has_text=re.compile("^name"))
    head.get_by_role("button").click()
    at_ours.settle()
    names = named("operators")(read(str(OURS / "mlp.pt.trace.json.gz"))).frame.get_column("name")
    first = grid.get_by_role("row").nth(1).get_by_role("gridcell").first
    expect(first).to_have_text(re.compile("|".join(f"^{re.escape(str(each))}$" for each in (names.min(), names.max()))))
    section = grid.locator("xpath=ancestor::section[contains(@class, 'table')][1]")
    section.locator("input.search").fill("addmm")
    wait_for(
        at_ours, "() => /\\b[1-9] rows? of|of \\d+ rows|^\\s*\\d/.test(document.querySelector('.count').textContent)"
    )
    at_ours.page.wait_for_timeout(600)
    at_ours.settle()
    rows = grid.get_by_role("row").all()[1:]
    assert rows
    assert all("addmm" in row.inner_text().lower() for row in rows)
    with at_ours.page.expect_download() as download:
        section.get_by_text("Export").click()
        section.get_by_text("CSV", exact=True).click()
    content = download.value.path().read_bytes()
    table = pl.read_csv(io.BytesIO(content))
    assert table.height == len(rows)
    assert set(table.columns) == set(named("operators").schema.names)


def test_a_bar_chooses_what_is_drawn(at_ours: Tab, ours: Served) -> None:
    at_ours.open(ours.run("mlp"), "operators")
    bars = at_ours.page.locator(".block-bars", has_text="Operators by")
    label = bars.locator("svg text").nth(2).text_content() or ""
    bars.get_by_role("button").nth(1).click()
    at_ours.settle()
    assert "p.name=" in at_ours.page.url
    assert label
    assert at_ours.page.locator(".block-chart").count() == 1


def test_a_step_leads_to_its_place_on_the_timeline(at_ours: Tab, ours: Served) -> None:
    at_ours.open(ours.run("mlp"), "overview")
    at_ours.page.locator(".block-columns").get_by_role("button").nth(1).click()
    at_ours.page.wait_for_selector("canvas")
    at_ours.settle()
    assert "/timeline" in at_ours.page.url
    assert "In view" in at_ours.sentence


def test_an_event_is_found_and_told_on_the_timeline(at_ours: Tab, ours: Served) -> None:
    at_ours.open(ours.run("mlp"), "timeline")
    search = at_ours.page.get_by_test_id("timeline-search")
    search.fill("aten::addmm")
    search.press("Enter")
    panel = at_ours.page.locator(".tl-panel")
    panel.wait_for(timeout=30_000)
    text = panel.inner_text()
    assert "aten::addmm" in text
    trace = read(str(OURS / "mlp.pt.trace.json.gz")).trace()
    calls = int((trace.name == trace.strings.code("aten::addmm")).sum())
    assert str(calls) in text
    at_ours.page.keyboard.press("Escape")


def test_keys_zoom_and_pan(at_ours: Tab, ours: Served) -> None:
    at_ours.open(ours.run("mlp"), "timeline")
    at_ours.page.get_by_role("application").focus()
    before = at_ours.page.url
    for key in "wwd":
        at_ours.page.keyboard.press(key)
        at_ours.page.wait_for_timeout(300)
    wait_for(at_ours, "before => location.href !== before", before)
    assert "p.in=" in at_ours.page.url or "p.view=" in at_ours.page.url
    at_ours.page.reload()
    at_ours.settle()
    assert "In view" in at_ours.sentence


def test_an_analysis_is_asked_with_other_parameters(at_ours: Tab, ours: Served) -> None:
    at_ours.open(ours.run("mlp"), "analyses", "?p.name=operators")
    wait_for(at_ours, "() => document.querySelectorAll('[role=grid] [role=row]').length > 3")
    count = at_ours.page.locator(".count").first.inner_text()
    at_ours.page.get_by_label(re.compile("group.by", re.I)).first.select_option("shapes")
    wait_for(at_ours, "count => document.querySelector('.count').innerText !== count", count)


@pytest.mark.parametrize("query", ["SELECT name, count(*) AS n FROM ops GROUP BY name ORDER BY n DESC, name"])
def test_sql_is_answered(at_ours: Tab, ours: Served, query: str) -> None:
    at_ours.open(ours.run("mlp"), "sql")
    editor = at_ours.page.locator("textarea")
    editor.fill(query)
    editor.press("Control+Enter")
    wait_for(at_ours, "() => document.querySelectorAll('[role=grid] [role=row]').length > 3")
    first = at_ours.page.get_by_role("grid").get_by_role("row").nth(1).inner_text()
    expected = read(str(OURS / "mlp.pt.trace.json.gz")).sql(query).frame.row(0)
    assert str(expected[0]) in first


def test_light_and_dark_are_chosen_and_kept(at_ours: Tab, ours: Served) -> None:
    at_ours.open(ours.run("mlp"), "overview")
    colour = "getComputedStyle(document.body).backgroundColor"
    light = at_ours.page.evaluate(colour)
    at_ours.page.get_by_role("button", name="Dark page").click()
    dark = at_ours.page.evaluate(colour)
    assert light != dark
    at_ours.page.reload()
    at_ours.settle()
    assert at_ours.page.evaluate(colour) == dark


def test_keys_are_told(at_ours: Tab, ours: Served) -> None:
    at_ours.open(ours.run("mlp"), "timeline")
    at_ours.page.locator("body").press("?")
    dialog = at_ours.page.get_by_role("dialog")
    dialog.wait_for()
    assert "zoom" in dialog.inner_text().lower()


def test_a_run_that_is_not_there_is_explained(at_ours: Tab) -> None:
    at_ours.page.goto(f"{at_ours.address}/#/nothing/overview")
    wait_for(at_ours, "() => /no run|not there/i.test(document.body.innerText)")
    at_ours.errors.clear()  # Chromium calls each answer of 404 an error


def test_all_ranks_are_drawn_beneath_one_another(at_ours: Tab, ours: Served) -> None:
    at_ours.open(ours.run("ddp2"), "timeline", "?ranks=all")
    at_ours.page.wait_for_selector("canvas")
    assert "2 ranks" in at_ours.page.locator("main").inner_text()


def test_a_frame_opens_in_the_editor_where_the_server_finds_its_file(tab: Tab) -> None:
    sources = Sources.of([str(OURS)])
    with serving(OURS / "mlp.pt.trace.json.gz", sources=sources) as client:
        tab.address = f"http://127.0.0.1:{client.port}"
        (run,) = (each["id"] for each in client.get("runs")["runs"])
        tab.open(run, "sources")
        tab.page.wait_for_selector("a[href^='vscode://file/']")
        links = [link.get_attribute("href") for link in tab.page.locator("a[href^='vscode:']").all()]
        where = str(OURS / "training.py").lstrip("/")
        assert any(link.startswith(f"vscode://file/{where}:") for link in links)
        assert not tab.errors
        tab.page.goto("about:blank")


def test_a_frame_without_a_whole_path_has_no_link_to_an_editor(at_ours: Tab, ours: Served) -> None:
    at_ours.open(ours.run("mlp"), "sources")
    assert at_ours.page.locator(".code-line").count()
    assert at_ours.page.locator("a[href^='vscode:']").count() == 0


def test_a_folder_that_is_gone_is_told(tab: Tab, tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    with serving(folder) as client:
        tab.address = f"http://127.0.0.1:{client.port}"
        tab.page.goto(tab.address)
        tab.page.wait_for_selector("h1")
        folder.rmdir()
        tab.page.wait_for_function("() => /no such file or folder/.test(document.body.innerText)", timeout=20_000)
        tab.page.goto("about:blank")


def test_a_link_with_the_token_may_be_followed_from_another_site(tab: Tab) -> None:
    token = "a-long-secret_of.ours~1"
    with serving(OURS / "mlp.pt.trace.json.gz", rules=Rules(token=token)) as client:
        tab.address = f"http://localhost:{client.port}"
        elsewhere = f"http://127.0.0.9:{client.port}/"
        page = f'<a href="{tab.address}/?token={token}">see this</a>'
        tab.page.route(elsewhere, lambda route: route.fulfill(content_type="text/html", body=page))
        tab.page.goto(elsewhere)
        tab.page.get_by_text("see this").click()
        tab.settle()
        assert "A step takes" in tab.sentence
        assert token not in tab.page.url
        assert tab.errors == [f"request to {elsewhere}"]
        tab.errors.clear()
        tab.page.goto("about:blank")
