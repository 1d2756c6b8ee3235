"""The Timeline opens on what matters, keeps what is arranged, and says what it leaves out."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import pytest

from tests.drawn import op, written
from tests.server.serving import serving
from tests.web.conftest import Served, Tab

pytestmark = pytest.mark.slow

DRAWN = """() => {
  const stage = document.querySelector('.tl-stage');
  return !!stage && stage.dataset.waiting === '0' && !!stage.dataset.sight;
}"""
SHARE = """() => {
  const { top, bottom } = document.querySelector('.tl-stage').getBoundingClientRect();
  return (Math.min(bottom, innerHeight) - top) / innerHeight;
}"""

SEEN = "words => !!document.querySelector('.tl-stage')?.dataset.sight?.includes(words)"

KINDS = (
    "resnet50_v100/num_workers_0",
    "owlv2_h100",
    "dlrm_ddp_v100_8rank",
    "resnet_ddp_mi300",
    "eager_b200",
    "mtia",
    "ddp_nccl_a100",
)
"""Few and many host threads, deep stacks, a dozen streams; CUDA, ROCm, MTIA."""


def opened(tab: Tab, run: str, query: str = "") -> str:
    """The Timeline of a run, drawn: what is in sight of it."""
    tab.open(run, "timeline", query)
    tab.page.wait_for_function(DRAWN, timeout=60_000)
    tab.page.wait_for_timeout(600)  # until rows that hold nothing are gone
    return in_sight(tab)


def in_sight(tab: Tab) -> str:
    return str(tab.page.locator(".tl-stage").get_attribute("data-sight"))


def steps(text: str) -> list[str]:
    return re.findall(r"(?:^|; )([a-z]+): ", text)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [(1280, 720), (1024, 768)])
def test_devices_and_the_main_thread_are_in_sight(
    at_theirs: Tab, theirs: Served, kind: str, size: tuple[int, int]
) -> None:
    at_theirs.page.set_viewport_size({"width": size[0], "height": size[1]})
    seen = opened(at_theirs, theirs.run(kind))
    assert "device: " in seen
    assert "host: main thread" in seen
    assert seen.index("device: ") < seen.index("host: ")
    if kind != "eager_b200":  # has no steps
        assert steps(seen)[0] == "steps"
    assert at_theirs.page.evaluate(SHARE) >= 0.65


def test_each_of_all_ranks_is_a_line_and_the_stragglers_are_marked(at_theirs: Tab, theirs: Served) -> None:
    run = theirs.run("dlrm_ddp_v100_8rank")
    late = theirs.client.get(f"runs/{run}/analyses/stragglers")
    names = [column["name"] for column in late["columns"]]
    expected = {
        row[names.index("rank")]: "straggler" for row in late["rows"] if row[names.index("straggler")]
    }  # what Distributed says
    assert expected
    opened(at_theirs, run, "?ranks=all")
    at_theirs.page.wait_for_function(SEEN, arg="straggler")
    lines = re.findall(r"rank: Rank (\d+)( · straggler)?", in_sight(at_theirs))
    assert {int(rank) for rank, _ in lines} == set(range(8))
    assert {int(rank) for rank, mark in lines if mark} == set(expected)


def test_a_click_unfolds_a_rank_and_a_reload_keeps_it(at_theirs: Tab, theirs: Served) -> None:
    seen = opened(at_theirs, theirs.run("dlrm_ddp_v100_8rank"), "?ranks=all")
    assert "device: " not in seen
    box: Any = at_theirs.page.locator(".tl-stage").bounding_box()
    at_theirs.page.mouse.click(box["x"] + 60, box["y"] + 54 + 26 + 28 + 10)
    at_theirs.page.wait_for_function(SEEN, arg="device: GPU 1")
    assert "p.fold=r1" in at_theirs.page.url
    at_theirs.page.reload()
    at_theirs.page.wait_for_function(SEEN, arg="device: GPU 1", timeout=30_000)


def test_escape_clears_one_thing_at_a_time(at_ours: Tab, ours: Served) -> None:
    row = ours.client.get(f"runs/{ours.run('mlp')}/timeline/search", {"q": "addmm"})["row"]
    opened(at_ours, ours.run("mlp"), f"?time=1000-900000&p.measure=2000-5000&p.q=addmm&p.row={row}")
    at_ours.page.locator(".tl-panel").wait_for()
    left = ["p.row", "p.measure", "time", "p.q"]
    while left:
        assert all(f"{name}=" in at_ours.page.url for name in left), left
        at_ours.settle()
        at_ours.page.locator(".tl-stage").focus()
        at_ours.page.keyboard.press("Escape")
        gone = left.pop(0)
        at_ours.page.wait_for_function("name => !location.hash.includes(name + '=')", arg=gone, timeout=5_000)


def test_a_selection_moves_neither_the_lanes_nor_the_picture(at_theirs: Tab, theirs: Served) -> None:
    page = at_theirs.page
    page.set_viewport_size({"width": 1280, "height": 720})
    before = opened(at_theirs, theirs.run("owlv2_h100"))
    box: Any = page.locator(".tl-stage").bounding_box()
    page.mouse.click(box["x"] + 400, box["y"] + 160)
    page.locator(".tl-panel").wait_for()
    page.wait_for_timeout(600)
    after: Any = page.locator(".tl-stage").bounding_box()
    assert after["y"] == box["y"]
    assert before.startswith(in_sight(at_theirs))
    name: Any = page.locator(".tl-name").bounding_box()
    assert 16 <= name["height"] <= 44, "two lines at most"


def test_counters_and_steps_answer_the_pointer(at_theirs: Tab, theirs: Served) -> None:
    run = theirs.run("resnet50_v100/num_workers_0")
    opened(at_theirs, run)
    box: Any = at_theirs.page.locator(".tl-stage").bounding_box()
    tip = at_theirs.page.locator(".tl-tip:not([hidden])")
    middle = box["x"] + 184 + (box["width"] - 184) / 2
    at_theirs.page.mouse.move(middle, box["y"] + 54 + 26 + 14)
    tip.wait_for()
    assert re.search(r"GPU 0 · utilization.*%", tip.inner_text(), re.DOTALL)
    at_theirs.page.mouse.move(middle, box["y"] + 54 + 8)
    at_theirs.page.wait_for_function("() => /^Step/.test(document.querySelector('.tl-tip')?.textContent)")
    (rank,) = theirs.client.get(f"runs/{run}/timeline/lanes")["ranks"]
    number = int(str(tip.locator("b").text_content()).removeprefix("Step "))
    (step,) = (each for each in rank["steps"] if each["step"] == number)
    device, host = (step[f"{side}end"] - step[f"{side}start"] for side in ("", "host_"))
    assert device != host
    said = str(tip.locator("span").text_content()).replace("\u00a0", " ")
    assert said == f"{device / 1e6:.0f} ms; {host / 1e6:.0f} ms on the host"


def test_a_server_that_is_away_takes_nothing_from_the_page(at_ours: Tab, ours: Served) -> None:
    seen = opened(at_ours, ours.run("mlp"))
    sentence = at_ours.sentence
    at_ours.page.route("**/api/**", lambda route: route.abort())
    at_ours.page.locator(".away").wait_for(timeout=15_000)
    assert at_ours.sentence == sentence
    assert in_sight(at_ours) == seen
    at_ours.page.unroute("**/api/**")
    at_ours.page.locator(".away").wait_for(state="detached", timeout=15_000)
    assert at_ours.sentence == sentence
    at_ours.errors.clear()  # Chromium calls each request that fails an error


def test_times_that_cannot_be_right_are_said_and_the_rest_is_drawn(tab: Tab, tmp_path: Path) -> None:
    begin = 1_700_000_000_000_000_000
    written(tmp_path / "t.json", op("bad", 0, 10), *(op("a", begin + at * 1_000, 500) for at in range(300)))
    with serving(tmp_path) as client:
        tab.address = f"http://127.0.0.1:{client.port}"
        seen = opened(tab, client.run())
        assert "host: main thread" in seen
        assert "cannot be right" in str(tab.page.locator(".tl-notes").get_attribute("data-tip"))


def test_lanes_that_are_not_listed_are_counted(tab: Tab, tmp_path: Path) -> None:
    written(tmp_path / "t.json", *(op("a", at * 10, 5, tid=at) for at in range(600)))
    with serving(tmp_path) as client:
        tab.address = f"http://127.0.0.1:{client.port}"
        opened(tab, client.run())
        assert "400 of 600" in str(tab.page.locator(".tl-tools").text_content())


def test_hits_are_listed_and_a_row_goes_there(at_theirs: Tab, theirs: Served) -> None:
    run, page = theirs.run("resnet50_v100/num_workers_0"), at_theirs.page
    listed = theirs.client.get(f"runs/{run}/timeline/hits", {"q": "gemm", "sort": "-duration", "limit": 2})
    opened(at_theirs, run)
    page.keyboard.press("/")
    page.keyboard.type("gemm")
    page.get_by_role("button", name="list them").click()
    side = page.locator(".tl-side")
    side.get_by_role("columnheader", name="name").wait_for()
    side.get_by_role("button", name="duration").click()
    assert f"{listed['total']} rows" in side.inner_text()
    side.locator(".grid").focus()
    for row in (0, 1):
        page.keyboard.press("ArrowDown" if row else "Home")
        page.keyboard.press("Enter")
        page.wait_for_function(f"() => location.hash.includes('p.row={listed['rows'][row][5]}')")
    page.locator(".tl-panel").get_by_text(f"{listed['rows'][1][2] // 1000} µs").first.wait_for()
    side.get_by_label("Search arguments too").check()
    page.wait_for_function("() => location.hash.includes('p.args=1')")
    page.get_by_test_id("timeline-search").fill("External id=21179")
    page.wait_for_function("() => /^[1-9] rows?/.test(document.querySelector('.tl-side .count').textContent)")
    at_theirs.shot("timeline-hits")


def test_the_longest_of_a_name_by_key(at_theirs: Tab, theirs: Served) -> None:
    run, page = theirs.run("resnet50_v100/num_workers_0"), at_theirs.page
    row = theirs.client.get(f"runs/{run}/timeline/search", {"q": "cudaLaunchKernel"})["row"]
    opened(at_theirs, run, f"?p.row={row}")
    page.locator(".tl-panel").wait_for()
    for key, which in ((">", "longest"), (".", "next"), (",", "previous")):
        wanted = theirs.client.get(
            f"runs/{run}/timeline/occurrence", {"of": 0, "row": row, "which": which, "time": "0..2s"}
        )["row"]
        at_theirs.settle()
        page.keyboard.press(key)
        page.wait_for_function(f"() => location.hash.includes('p.row={wanted}')")
        row = wanted
    page.locator(".tl-alike").get_by_text("List").click()
    total = theirs.client.get(f"runs/{run}/timeline/event", {"row": row})["same"]["calls"]
    page.locator(".tl-side .count", has_text=f"{total:,} rows".replace(",", " ")).or_(
        page.locator(".tl-side .count", has_text=f"{total:,} rows")
    ).first.wait_for()


def pixel(tab: Tab, x: float, y: float) -> str:
    """The colour of a place of the page, as hex."""
    clip = {"x": x, "y": y, "width": 1, "height": 1}
    content = base64.b64encode(tab.page.screenshot(clip=clip)).decode()
    return str(
        tab.page.evaluate(
            """async content => {
              const bytes = Uint8Array.from(atob(content), letter => letter.charCodeAt(0));
              const on = new OffscreenCanvas(1, 1).getContext('2d');
              on.drawImage(await createImageBitmap(new Blob([bytes])), 0, 0);
              const hex = [...on.getImageData(0, 0, 1, 1).data].map(each => each.toString(16).padStart(2, '0'));
              return hex.slice(0, 3).join('');
            }""",
            content,
        )
    )


def background(tab: Tab) -> str:
    return str(tab.page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--bg')")).strip(" #")


def saturation(colour: str) -> int:
    parts = bytes.fromhex(colour)
    return max(parts) - min(parts)


def test_marks_are_coloured_by_kind_by_name_and_by_module(at_ours: Tab, ours: Served) -> None:
    page, run = at_ours.page, ours.run("mlp")
    opened(at_ours, run)
    box: Any = page.locator(".tl-stage").bounding_box()
    rows = [box["y"] + 140 + 15 * row for row in range(6)]

    def colours() -> list[str]:
        page.wait_for_function(DRAWN)
        page.wait_for_timeout(400)
        return [pixel(at_ours, box["x"] + box["width"] / 2, y) for y in rows]

    seen = [colours()]
    for colouring in ("name", "module"):
        page.keyboard.press("c")
        page.wait_for_function(f"() => location.hash.includes('p.colour={colouring}')")
        seen.append(colours())
    assert seen[0] != seen[1]
    drawn = [at for at, colour in enumerate(seen[0]) if colour != background(at_ours)]
    assert len({seen[1][at] for at in drawn}) == len(drawn) > 1, "names are told apart"
    assert min(saturation(seen[1][at]) for at in drawn) > 2 * max(saturation(seen[0][at]) for at in drawn)
    page.keyboard.press("c")
    page.wait_for_function("() => !location.hash.includes('p.colour')")
    assert colours() == seen[0]
    page.get_by_role("button", name="Show kind").click()
    page.get_by_label("colour by name").check()
    page.wait_for_function("() => location.hash.includes('p.colour=name')")
    top = ours.client.get(f"runs/{run}/timeline/range", {"time": "0..1s"})["top"][0]["name"]
    assert top[:30] in str(page.locator(".tl-facts").text_content())


def test_the_critical_path_is_shown_by_a_key_and_leads_to_events(at_theirs: Tab, theirs: Served) -> None:
    page = at_theirs.page
    opened(at_theirs, theirs.run("owlv2_h100"))
    page.keyboard.press("k")
    page.wait_for_function(SEEN, arg="extra: critical path")
    page.wait_for_function(DRAWN)
    box: Any = page.locator(".tl-stage").bounding_box()
    page.mouse.click(box["x"] + 184 + (box["width"] - 184) / 2, box["y"] + 54 + 26 + 10)
    page.locator(".tl-panel").wait_for()
    at_theirs.shot("timeline-path")
    page.keyboard.press("Escape")
    page.keyboard.press("k")
    page.wait_for_function("() => !document.querySelector('.tl-stage')?.dataset.sight?.includes('critical path')")


def test_an_event_is_copied_and_said_relative_to_its_step(at_theirs: Tab, theirs: Served) -> None:
    page, run = at_theirs.page, theirs.run("resnet50_v100/num_workers_0")
    row = theirs.client.get(f"runs/{run}/timeline/search", {"q": "gemm"})["row"]
    about = theirs.client.get(f"runs/{run}/timeline/event", {"row": row})
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened(at_theirs, run, f"?p.row={row}")
    panel = page.locator(".tl-panel")
    panel.wait_for()
    assert re.search(r"\d.* into step \d", panel.inner_text())
    for what, said in (("name", about["name"]), ("link", f"p.row={row}"), ("stack", about["stack"][0]["name"])):
        panel.get_by_role("button", name=what, exact=True).click()
        panel.get_by_text(f"The {what} is copied.").wait_for()
        assert said in page.evaluate("navigator.clipboard.readText()")


def test_the_rows_of_a_query_are_a_lane(at_theirs: Tab, theirs: Served) -> None:
    page, run = at_theirs.page, theirs.run("resnet50_v100/num_workers_0")
    at_theirs.open(run, "sql")
    page.get_by_label("Query").fill("SELECT row, name FROM kernels WHERE duration > 700000")
    page.keyboard.press("Control+Enter")
    page.get_by_role("button", name="Show as a lane").click()
    page.wait_for_function(SEEN, arg="extra: query", timeout=60_000)
    page.wait_for_function(DRAWN)
    listed = theirs.client.ask(
        f"/api/runs/{run}/sql/lane",
        method="POST",
        body=b'{"query": "SELECT row, name FROM kernels WHERE duration > 700000"}',
        Content_Type="application/json",
    ).json["lanes"][0]
    at_theirs.open(
        run,
        "timeline",
        f"?p.sql=SELECT row, name FROM kernels WHERE duration > 700000&p.in={listed['start'][3]}-{listed['end'][3]}",
    )
    page.wait_for_function(SEEN, arg="extra: query", timeout=60_000)
    page.wait_for_function(DRAWN)
    box: Any = page.locator(".tl-stage").bounding_box()
    x, y = box["x"] + 184 + (box["width"] - 184) / 2, box["y"] + 54 + 26 + 10
    page.mouse.move(x, y)
    page.locator(".tl-tip:not([hidden])").wait_for()
    page.mouse.click(x, y)
    page.wait_for_function(f"() => location.hash.includes('p.row={listed['row'][3]}')")
    at_theirs.shot("timeline-query")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Show kind").click()
    page.get_by_label("query").click()
    page.wait_for_function("() => !document.querySelector('.tl-stage')?.dataset.sight?.includes('query')")


def test_a_key_follows_the_arrow_and_goes_back(at_theirs: Tab, theirs: Served) -> None:
    page, run = at_theirs.page, theirs.run("resnet50_v100/num_workers_0")
    row = theirs.client.get(f"runs/{run}/timeline/search", {"q": "gemm"})["row"]
    launch = theirs.client.get(f"runs/{run}/timeline/event", {"row": row})["launched_by"]
    opened(at_theirs, run, f"?p.row={row}")
    page.locator(".tl-panel").wait_for()
    at_theirs.settle()
    page.keyboard.press("Shift+J")
    page.wait_for_function(f"() => location.hash.includes('p.row={launch}')")
    page.locator(".tl-panel h2", has_text="cudaLaunchKernel").wait_for()
    at_theirs.settle()
    page.keyboard.press("j")
    page.wait_for_function(f"() => location.hash.includes('p.row={row}')")
