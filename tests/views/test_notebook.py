"""A result in a notebook."""

from __future__ import annotations

from html import escape
from html.parser import HTMLParser

import polars as pl
import pytest

from kinetoscope import kernel_spread, read
from kinetoscope.notes import Note
from kinetoscope.schema import Result
from kinetoscope.views.charts.chart import MAX_DOTS
from kinetoscope.views.charts.palette import KINDS
from kinetoscope.views.notebook import ROWS, to_html
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
    read = Reader(to_html(kernels((EVIL, EVIL, 1, 1, 1.0), notes=(Note("EVIL", EVIL),))))
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
    assert html.count("<td") == ROWS * 6
    assert f"… {ROWS} of 60 rows" in html


def test_columns_without_a_value_are_named_below() -> None:
    html = to_html(kernels(("k", "memory", 1, None, 0.5)))
    assert "total" not in html.partition("</table>")[0]
    assert "… no values in total" in html


def test_the_html_holds_the_chart_where_one_is_declared() -> None:
    bundle = steps((1, 2, 3), (2, 0, 4))._repr_mimebundle_()
    assert bundle.keys() == {"text/plain", "text/html"}
    assert bundle["text/html"].startswith("<div><svg ")
    assert "svg" not in to_html(kernels(("a", "memory", 1, 1, 1.0)))
    empty: Result = steps()
    assert "svg" not in to_html(empty)


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


def spread(kernel: str = "") -> Result:
    found = kernel_spread(read(str(OURS / "ddp2")))
    return Result(SPREAD.filter(pl.col("name").str.contains(kernel)), found.schema, chart_facts=found.chart_facts)


def marks(html: str, tag: str) -> list[dict[str, str]]:
    """The marks of a kind in the chart."""
    found: list[dict[str, str]] = []

    class Marks(HTMLParser):
        def handle_starttag(self, name: str, attrs: list[tuple[str, str | None]]) -> None:
            if name == tag:
                found.append({key: value or "" for key, value in attrs})

    Marks().feed(html)
    return found


def test_kernels_have_a_line_over_all_ranks_and_a_dot_for_each() -> None:
    dots = marks(to_html(spread()), "circle")
    assert [dot["cy"] for dot in dots] == [dots[0]["cy"]] * 2 + [dots[2]["cy"]], "gemm on two ranks, add on one"
    least, most = (float(dots[2]["cx"]), float(dots[1]["cx"]))  # add takes 1 ns, gemm on rank 1 a mean of 4
    assert float(dots[0]["cx"]) == pytest.approx(least + (most - least) * 2 / 3, abs=0.2)
    lines = [path["d"] for path in marks(to_html(spread()), "path") if path.get("stroke-width") == "2"]
    assert len(lines) == 2


def test_one_kernel_has_a_line_for_each_rank() -> None:
    of_one = spread("gemm").chart()
    rows = of_one["data"]["values"]
    assert [(row["label"], row["low"], row["value"], row["high"]) for row in rows] == [
        ("rank 0", 1, 3, 9),
        ("rank 1", 2, 4, 5),
    ]
    assert of_one["title"]["text"] == "gemm"
    assert of_one["width"] == 640
    assert of_one["layer"][0]["encoding"]["x"]["scale"]["type"] == "linear"


def test_of_very_many_ranks_the_extremes_are_drawn() -> None:
    rows = [(rank, name, "computation", 1, 1, 10 + rank, 0.0, 5, 999, 500, 1.0) for name in "ab" for rank in range(500)]
    many = pl.DataFrame(rows, schema=SPREAD.columns, orient="row")
    facts = kernel_spread(read(str(OURS / "ddp2"))).chart_facts
    schema = kernel_spread(read(str(OURS / "ddp2"))).schema
    for frame, lines in ((many, 2), (many.filter(pl.col("name") == "a"), MAX_DOTS)):
        result = Result(frame, schema, chart_facts=facts)
        values = [row["value"] for row in result.chart()["data"]["values"]]
        assert (min(values), max(values)) == (10, 509)
        html = to_html(result)
        assert len(marks(html, "circle")) == MAX_DOTS * (2 if lines == 2 else 1)
        assert len([path for path in marks(html, "path") if path.get("stroke-width") == "2"]) == lines
        assert "the 32 ranks with the least mean and the 32 with the greatest" in html


def test_notes_beyond_a_dozen_are_counted() -> None:
    html = to_html(kernels(notes=tuple(Note("N", f"note {n}") for n in range(20))))
    assert html.count("<li>note ") == 12
    assert "… 8 more" in html


def test_a_specification_draws_itself() -> None:
    bundle = spread().chart()._repr_mimebundle_()  # type: ignore[attr-defined]
    assert bundle["application/vnd.vegalite.v5+json"]["$schema"].endswith("/v5.json")
    assert bundle["image/svg+xml"].startswith("<svg ")


SPREAD = pl.DataFrame(
    [
        (0, "gemm", "computation", 2, 6, 3, 4.0, 1, 9, 2, 0.9),
        (0, "add", "computation", 1, 1, 1, None, 1, 1, 2, 1.0),
        (1, "gemm", "computation", 2, 8, 4, 2.0, 2, 5, 2, 1.1),
    ],
    schema=["rank", "name", "kind", "calls", "total", "mean", "std", "min", "max", "ranks", "ratio"],
    orient="row",
)


def test_names_are_short_and_whole_in_the_tip() -> None:
    name = "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*)"
    html = to_html(kernels((name, "computation", 1, 1, 1.0)))
    assert "<td" in html
    assert f'title="{escape(name)}">vectorized_gather_kernel&lt;16, long&gt;</td>' in html
