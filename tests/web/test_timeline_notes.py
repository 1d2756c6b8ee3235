"""Notes on the timeline: written, changed and deleted; in two windows at once, in a link, and in a report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kinetoscope.cli import main
from tests.drawn import job, kernel, launch, op
from tests.server.serving import Client, serving
from tests.web.conftest import Tab

pytestmark = pytest.mark.slow

HOSTILE = '<img src=x onerror="alert(1)"> \u202eevil'


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    folder = tmp_path / "run"
    folder.mkdir()
    events = [
        (op("a", at * 1_000, 500), launch(at * 1_000, 10, at), kernel("k", at * 1_000 + 50, 400, at))
        for at in range(40)
    ]
    job(folder, *(each for some in events for each in some))
    with serving(folder) as running:
        yield running


def opened(tab: Tab, client: Client, query: str = "") -> Any:
    tab.address = f"http://127.0.0.1:{client.port}"
    tab.open(client.run(), "timeline", query)
    tab.page.wait_for_function("() => document.querySelector('.tl-stage')?.dataset.waiting === '0'")
    return tab.page


def kept(client: Client) -> list[dict[str, Any]]:
    notes: list[dict[str, Any]] = client.get(f"runs/{client.run()}/notes")["notes"]
    return notes


def written(page: Any, text: str) -> None:
    page.keyboard.press("t")
    page.get_by_label("Text of the note").fill(text)
    page.keyboard.press("Control+Enter")
    page.get_by_label("Text of the note").wait_for(state="detached")


def test_a_note_on_an_event_is_written_found_again_changed_and_deleted(tab: Tab, client: Client) -> None:
    row = client.get(f"runs/{client.run()}/timeline/search", {"q": "k"})["row"]
    page = opened(tab, client, f"?p.row={row}")
    page.locator(".tl-panel").wait_for()
    written(page, HOSTILE)
    (note,) = kept(client)
    about = client.get(f"runs/{client.run()}/timeline/event", {"row": row})
    assert (note["text"], note["row"], note["start"], note["end"]) == (HOSTILE, row, about["start"], about["end"])
    page.goto(page.url.split("#")[0])
    opened(tab, client)
    page.get_by_role("button", name="Notes 1").click()
    page.locator(".tl-note").click()
    page.wait_for_function(
        f"() => location.hash.includes('p.row={row}') && location.hash.includes('p.note={note['id']}')"
    )
    assert page.locator("img").count() == 0
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Text of the note").fill("other words")
    page.get_by_label("red").check()
    page.get_by_role("button", name="Save").click()
    page.locator(".tl-note", has_text="other words").wait_for()
    assert [(each["text"], each["colour"], each["revision"]) for each in kept(client)] == [("other words", "red", 2)]
    tab.shot("timeline-notes")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Undo").click()
    page.locator(".tl-note", has_text="other words").wait_for()
    assert [each["text"] for each in kept(client)] == ["other words"]


def test_a_flag_answers_pointer_and_click(tab: Tab, client: Client) -> None:
    page = opened(tab, client)
    box = page.locator(".tl-stage").bounding_box()
    page.mouse.move(box["x"] + 600, box["y"] + 140)
    written(page, "here")
    (note,) = kept(client)
    assert note["start"] == note["end"]
    page.get_by_label("Close: Notes").click()
    page.wait_for_timeout(400)
    box = page.locator(".tl-stage").bounding_box()
    span = page.evaluate("() => location.hash")
    page.keyboard.press("0")
    page.wait_for_timeout(600)
    whole = client.get(f"runs/{client.run()}/timeline/lanes")
    margin = 0.02 * (whole["end"] - whole["start"])
    share = (note["start"] - whole["start"] + margin) / (whole["end"] - whole["start"] + 2 * margin)
    x, y = box["x"] + 184 + share * (box["width"] - 184) + 8, box["y"] + 60
    page.mouse.move(x, y)
    page.locator(".tl-tip", has_text="here").wait_for()
    page.mouse.click(x, y)
    page.wait_for_function(f"() => location.hash.includes('p.note={note['id']}')")
    assert span != page.evaluate("() => location.hash")


def test_two_windows_do_not_overwrite_each_other(tab: Tab, client: Client) -> None:
    page = opened(tab, client)
    written(page, "first")
    (note,) = kept(client)
    page.get_by_role("button", name="Edit").click()
    body = {"note": {**note, "text": "from elsewhere"}}
    assert page.request.post(f"{tab.address}/api/runs/{client.run()}/notes", data=body).status == 200
    page.get_by_label("Text of the note").fill("mine")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("alert").get_by_text("changed meanwhile").wait_for()
    assert [each["text"] for each in kept(client)] == ["from elsewhere"]
    tab.errors.clear()  # Chromium calls an answer of 409 an error


def test_notes_travel_in_a_link(tab: Tab, client: Client) -> None:
    page = opened(tab, client, '?p.notes=[[0,5000,9000,4,"of a colleague"],[0,1,0,0,"odd"]]&p.side=notes')
    page.locator(".tl-note", has_text="of a colleague").wait_for()
    assert page.locator(".tl-note").count() == 1
    assert not kept(client)
    page.get_by_role("button", name="Keep").click()
    page.wait_for_function("() => !location.hash.includes('p.notes')")
    assert [(each["text"], each["colour"]) for each in kept(client)] == [("of a colleague", "red")]


def test_a_report_holds_the_notes(tab: Tab, client: Client, tmp_path: Path) -> None:
    page = opened(tab, client)
    written(page, "for the report")
    out = tmp_path / "out.html"
    assert main(["report", str(tmp_path / "run"), "-o", str(out), "--sections", "overview,timeline"]) == 0
    tab.address = out.as_uri()
    page.goto(out.as_uri() + f"#/{client.run()}/timeline?p.side=notes")
    page.locator(".tl-note", has_text="for the report").wait_for()
    page.keyboard.press("t")
    page.get_by_label("Text of the note").fill("in the address")
    page.keyboard.press("Control+Enter")
    page.wait_for_function("() => decodeURIComponent(location.hash).includes('in the address')")
    page.reload()
    page.locator(".tl-note", has_text="in the address").wait_for()
