"""A result in a notebook."""

from __future__ import annotations

from html import escape
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest

from kinetoscope import diff, kernel_spread, read
from kinetoscope.schema import Result
from kinetoscope.views.charts.palette import KINDS
from kinetoscope.views.notebook import mimebundle, to_html
from tests import drawn
from tests.conftest import OURS
from tests.views.results import BARS, kernels, steps

EVIL = '"><script>alert(1)</script><img src=x onerror=y>&\x1b[31m\u202e'


class Reader(HTMLParser):
    """Tags, attributes and text of what a browser would read."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_what_a_trace_says_is_only_ever_text() -> None:
    read = Reader(to_html(kernels((EVIL, EVIL, 1, 1, 1.0), notes=(EVIL,))))
    assert read.tags == {"div", "table", "thead", "tbody", "tr", "th", "td", "ul", "li"}
    assert read.attributes == {"title", "style"}
    assert read.texts.count('"><script>alert(1)</script><img src=x onerror=y>&\\x1b[31m\\u202e') == 3


def test_what_a_trace_says_is_only_ever_text_in_a_chart() -> None:
    read = Reader(to_html(kernels((EVIL, "memory", 1, 1, 1.0), chart=BARS)))
    assert read.tags - {"div", "table", "thead", "tbody", "tr", "th", "td"} == {"svg", "rect", "text", "title"}
    assert not {name for name in read.attributes if name.startswith("on")}


def test_units_rows_and_what_is_left_out() -> None:
    html = to_html(kernels(*[("k", "memory", 1, 2_000_000, 0.5)] * 60))
    assert "total (ms)" in html
    assert 'title="Time of all calls."' in html
    assert html.count("<td") == 50 * 6
    assert "… 10 more rows" in html


def test_the_html_holds_the_chart_where_one_is_declared() -> None:
    bundle = mimebundle(steps((1, 2, 3), (2, 0, 4)))
    assert bundle.keys() == {"text/plain", "text/html"}
    assert bundle["text/html"].startswith("<div><svg ")
    assert "svg" not in mimebundle(kernels(("a", "memory", 1, 1, 1.0)))["text/html"]
    empty: Result = steps()
    assert "svg" not in mimebundle(empty)["text/html"]


def boxes(html: str) -> list[dict[str, str]]:
    """The rectangles of the chart."""
    found: list[dict[str, str]] = []

    class Boxes(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            if tag == "rect":
                found.append({name: value or "" for name, value in attrs})

    Boxes().feed(html)
    return found


def test_bars_are_as_long_as_their_values() -> None:
    bars = boxes(to_html(kernels(("a", "memory", 1, 4, 1.0), ("b", "computation", 1, 1, 1.0), chart=BARS)))
    assert [bar["fill"] for bar in bars] == [KINDS["memory"].light, KINDS["computation"].light]
    assert float(bars[0]["width"]) == pytest.approx(4 * float(bars[1]["width"]), abs=0.5)


def test_stacks_are_divided_as_their_parts() -> None:
    bars = boxes(to_html(steps((1, 2, 1))))[3:]  # after the key
    assert [float(bar["height"]) for bar in bars] == [50, 100, 50]


def test_one_kernel_on_all_ranks_with_the_least_and_the_greatest() -> None:
    found = kernel_spread(read(str(OURS / "ddp2")))
    spread = Result(SPREAD, found.schema, chart_facts=found.chart_facts)
    html = to_html(spread)
    assert len(boxes(html)) == 2
    assert html.count("<path") == 6
    rows = spread.chart()["data"]["values"]
    assert [(row["label"], row["low"], row["value"], row["high"]) for row in rows] == [("0", 1, 3, 9), ("1", 2, 4, 5)]
    assert spread.chart()["title"]["text"] == "gemm"
    assert spread.chart()["width"] == 640


SPREAD = pl.DataFrame(
    [
        (0, "gemm", "computation", 2, 6, 3, 1, 9, 2, 0.9),
        (0, "add", "computation", 1, 1, 1, 1, 1, 2, 1.0),
        (1, "gemm", "computation", 2, 8, 4, 2, 5, 2, 1.1),
    ],
    schema=["rank", "name", "kind", "calls", "total", "mean", "min", "max", "ranks", "ratio"],
    orient="row",
)


def test_names_are_short_and_whole_in_the_tip() -> None:
    name = "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*)"
    html = to_html(kernels((name, "computation", 1, 1, 1.0)))
    assert "<td" in html
    assert f'title="{escape(name)}">vectorized_gather_kernel&lt;16, long&gt;</td>' in html


def test_a_comparison_has_its_sentence_and_both_steps(tmp_path: Path) -> None:
    runs = []
    for n in (1, 2):
        (tmp_path / str(n)).mkdir()
        runs.append(
            drawn.job(tmp_path / str(n), drawn.annotation("ProfilerStep#1", 0, 50 * n), drawn.op("aten::mm", 5, 20 * n))
        )
    html = diff(runs[0], runs[1])._repr_html_()
    assert "<p><b>A step takes" in html
    assert {"before", "now"} <= set(Reader(html).texts)
    assert repr(diff(runs[0], runs[1])).count("\n") == 0
