"""Every view opens on every kind of trace: something is said and drawn, and nothing is wrong or asked elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kinetoscope.pages import PAGES, menu
from tests.web.conftest import Served, Tab, axe

KINDS = (
    "resnet50_v100/num_workers_0",
    "owlv2_h100",
    "dlrm_ddp_v100_8rank",
    "resnet_ddp_mi300",
    "eager_b200",
    "mtia",
    "torch_2_13_cpu/leak",
    "hostile/trace_view",
    "broken/truncated",
)
"""One of each: CUDA, stacks and modules, eight ranks, ROCm, no steps, neither, memory and a leak, odd, cut off."""

PICTURES = """() => [...document.querySelectorAll('.picture')].filter(each => each.firstElementChild).map(each =>
  [each, each.firstElementChild].map(one => one.getBoundingClientRect().toJSON()))"""
"""Places of pictures, each with what is drawn in it."""

SERIOUS = ("serious", "critical")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_view_opens(at_theirs: Tab, theirs: Served, kind: str) -> None:
    opens(at_theirs, theirs, kind, [view for view in menu() if view != "ledger" or kind == KINDS[0]])


@pytest.mark.slow
def test_every_view_of_a_trace_of_ours_opens(at_ours: Tab, ours: Served) -> None:
    """What `make test` opens in a browser."""
    opens(at_ours, ours, "mlp", list(menu()))


def opens(tab: Tab, served: Served, kind: str, views: Sequence[str]) -> None:
    run = served.run(kind)
    for view in views:
        tab.open(run, view)
        assert tab.page.get_by_role("navigation").locator("[aria-current=page]").text_content() == PAGES[view].title
        assert tab.sentence, view
        if view not in ("timeline", "sql", "analyses", "compare", "ledger"):
            answer = served.client.get(f"runs/{run}/pages/{view}", {"rank": 0} if view == "distributed" else {})
            assert tab.sentence == answer["sentence"].replace("`", "")
            assert tab.page.locator("section.block").count() >= len(answer["blocks"])
    assert not tab.errors


@pytest.mark.slow
@pytest.mark.parametrize("view", menu())
def test_pictures_and_accessibility(at_theirs: Tab, theirs: Served, view: str) -> None:
    """At the width of a desk and of a phone, light and dark; axe finds nothing serious."""
    kind = {"distributed": "dlrm_ddp_v100_8rank", "memory": "torch_2_13_cpu/leak", "modules": "eager_b200"}.get(
        view, "resnet50_v100/num_workers_0"
    )
    query = f"?base={theirs.run('resnet50_v100/num_workers_4')}" if view == "compare" else ""
    page = at_theirs.page
    script = axe()
    for width, scheme in ((1440, "light"), (1440, "dark"), (390, "light")):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        at_theirs.open(theirs.run(kind), view, query)
        page.wait_for_timeout(300)
        at_theirs.shot(f"{view}-{width}-{scheme}")
        across = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert across[0] <= across[1], f"{view} is wider than {width}"
        page.evaluate(f"() => {{ {script} }}")
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        serious = [
            (each["id"], [node["target"] for node in each["nodes"]][:3])
            for each in found["violations"]
            if each["impact"] in SERIOUS
        ]
        assert not serious, (view, width, scheme, serious)


@pytest.mark.slow
def test_printed_pictures_fit_the_paper_and_keep_their_room(at_ours: Tab, ours: Served) -> None:
    at_ours.open(ours.run("transformer"), "overview")
    at_ours.page.emulate_media(media="print")
    at_ours.page.evaluate("() => { document.querySelector('main').style.width = '700px' }")
    pictures = at_ours.page.evaluate(PICTURES)
    assert pictures
    for picture, drawn in pictures:
        assert drawn["width"] <= picture["width"] <= 700
        assert drawn["height"] <= picture["height"] + 1
