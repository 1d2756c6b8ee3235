"""A result in a notebook."""

from __future__ import annotations

from html.parser import HTMLParser

from kinetoscope.schema import Result
from kinetoscope.views.notebook import mimebundle, to_html
from tests.views.results import kernels, steps

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
    assert read.tags == {"table", "thead", "tbody", "tr", "th", "td", "ul", "li"}
    assert read.attributes == {"title", "style"}
    assert read.texts.count('"><script>alert(1)</script><img src=x onerror=y>&\\x1b[31m\\u202e') == 3


def test_units_rows_and_what_is_left_out() -> None:
    html = to_html(kernels(*[("k", "memory", 1, 2_000_000, 0.5)] * 60))
    assert "total (ms)" in html
    assert 'title="Time of all calls."' in html
    assert html.count("<td") == 50 * 6
    assert "… 10 more rows" in html


def test_the_bundle_has_a_chart_where_one_is_declared() -> None:
    assert mimebundle(steps((1, 2, 3))).keys() == {
        "text/plain",
        "text/html",
        "application/vnd.vegalite.v5+json",
        "application/vnd.vegalite.v6+json",
    }
    assert mimebundle(kernels(("a", "memory", 1, 1, 1.0))).keys() == {"text/plain", "text/html"}
    empty: Result = steps()
    assert "application/vnd.vegalite.v6+json" not in mimebundle(empty)
