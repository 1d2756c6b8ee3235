"""A report: the page as one file, with the answers that its views ask for, and no server, no network.

The file holds the built front end and the answers, packed; a few lines of script unpack them. Its policy lets nothing
else run: each script is named by its digest.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, Final

from kinetoscope.errors import InputError
from kinetoscope.model.steps.grammar import time_range_text
from kinetoscope.pages import PAGES, menu
from kinetoscope.server.http.in_process_client import InProcessClient, address

STATIC: Final = Path(__file__).with_name("static")

_LEFT_OUT_PAGES: Final = ("compare", "ledger", "analyses", "sql")
"""Views that a file without a server has no use for."""

MAX_ROWS_OF_TABLE: Final = 200
"""Rows of a table that are kept, unless its block says otherwise."""

MAX_TILE_BYTES: Final = 400_000
"""Bytes of the timeline that are kept, packed: from the whole run down to as fine as they reach."""

BAND_COLUMNS: Final = 1500
HEAP_PIECES: Final = 2000
"""Columns of the bands and pieces of a heap that are kept; the page asks for as many (web/src/blocks/allocator.tsx)."""

MAX_ALLOCATIONS: Final = 100
"""Allocations whose stack is kept: the largest at the peak."""

_LINES_AROUND: Final = 40
"""Lines of a file that are kept before and after the one that costs most, where files may be shown."""

_MAX_CHOICES: Final = 4
"""A parameter with more choices keeps the one that is shown."""

_SELECT_KEYS: Final = ("rank", "ranks", "steps", "time", "cycle")

_BOOT: Final = """\
const text = async (id) => {
  const packed = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
  if (!packed.length) return '';
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).text();
};
const run = (source, type) => {
  const script = document.createElement('script');
  script.type = type;
  script.textContent = source;
  document.head.append(script);
};
const [answers, vega, app] = await Promise.all(['packed-answers', 'packed-vega', 'packed-app'].map(text));
document.getElementById('kinetoscope-report').textContent = answers;
if (vega) run(vega, 'text/javascript');
run(app, 'module');
"""


_NO_PAIRS: Final[Mapping[str, str]] = {}


@dataclass
class ReportAnswers:
    """The answers of a report, by question."""

    inside: InProcessClient
    shows_sources: bool = False
    answers: dict[str, Any] = field(default_factory=dict)

    def ask(self, *parts: str, pairs: Mapping[str, str] = _NO_PAIRS, more: Mapping[str, str] = _NO_PAIRS) -> Any:
        """An answer, kept; None where there is none. `more` is asked, too, where the page does not ask it."""
        key = f"GET {address(*parts, pairs=pairs.items())}"
        if key not in self.answers:
            answer = self.inside.get(address(*parts, pairs={**pairs, **more}.items()))
            if answer.status != 200:
                return None
            self.answers[key] = answer.plain()
        return self.answers[key]

    def ask_bytes(self, *parts: str, pairs: Mapping[str, str]) -> int:
        """Keep an answer that is no JSON; how many bytes it has, packed."""
        path = address(*parts, pairs=pairs.items())
        answer = self.inside.get(path)
        if answer.status != 200:
            return 0
        self.answers[f"GET {path}"] = {"base64": base64.b64encode(answer.body).decode("ascii")}
        return len(gzip.compress(answer.body, 1))


def pages_of_report() -> tuple[str, ...]:
    """The views that a report can hold."""
    return tuple(name for name in menu() if name not in _LEFT_OUT_PAGES)


def page_of_run(
    inside: InProcessClient,
    run: str,
    sections: Sequence[str],
    select: Mapping[str, str],
    *,
    shows_sources: bool = False,
) -> bytes:
    """The HTML file.

    Args:
        inside: asks the server.
        run: the run that it is about.
        sections: names of `PAGES`.
        select: of the header, as the page's URL has it: `rank`, `steps`, `time`.
        shows_sources: lines of source files are kept, too.

    Raises:
        InputError: the run cannot be read.
    """
    kept = ReportAnswers(inside, shows_sources)
    listed = kept.ask("runs")
    about: Mapping[str, Any] = next((each for each in listed["runs"] if each["id"] == run), {})
    listed["runs"] = [about]
    facts = kept.inside.get(address("runs", run))
    if facts.status != 200:
        raise InputError(str(facts.plain().get("error", "the run cannot be read")))
    shown = {key: value for key, value in select.items() if key in _SELECT_KEYS and value}
    sections = [name for name in sections if name in facts.plain()["views"]]
    about_server = kept.ask("server")
    about_server["pages"] = [each for each in about_server["pages"] if each["name"] in sections]
    of_job = len(facts.plain()["ranks"]) > 1 and not {"rank", "ranks"} & shown.keys()
    for each in about_server["pages"]:
        if of_job and PAGES[each["name"]].sums:
            each["ranks"] = "job"  # a report has read all ranks anyway; elsewhere these views read one unless asked
    kept.ask("runs", run, pairs=shown)
    kept.ask("analyses")
    for name in sections:
        if name == "timeline":
            _timeline(kept, run, shown.get("rank") or str(facts.plain()["ranks"][0]))
        elif PAGES[name].composed:
            _page(kept, run, name, shown, {"ranks": "all"} if of_job and PAGES[name].sums else _NO_PAIRS)
    first = facts.plain()["first_view"]
    first = first if first in sections else next(iter(sections), first)
    return _html(str(about.get("name", run)), f"#/{address(run, first, pairs=shown.items())}", kept.answers)


# --- what the views ask


def _page(kept: ReportAnswers, run: str, name: str, shown: Mapping[str, str], more: Mapping[str, str]) -> None:
    """A page, the tables on it, and the same for each other choice that it offers."""
    page = kept.ask("runs", run, "pages", name, pairs=shown, more=more)
    if page is None:
        return
    _tables(kept, run, page, shown)
    for params in _others(page):
        other = kept.ask("runs", run, "pages", name, pairs={**shown, **_own(params)}, more=more)
        if other is not None:
            _tables(kept, run, other, shown)


def _own(params: Mapping[str, str]) -> dict[str, str]:
    """Parameters of a page or an analysis, as a question names them."""
    return {f"p.{key}": value for key, value in params.items()}


def _others(page: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    for block in page["blocks"]:
        for control in block.get("controls", ()):
            if len(control["choices"]) <= _MAX_CHOICES:
                yield from ({control["name"]: value} for value, _ in control["choices"] if value != control["value"])


def _tables(kept: ReportAnswers, run: str, page: Mapping[str, Any], shown: Mapping[str, str]) -> None:
    for block in page["blocks"]:
        if block["block"] == "source" and kept.shows_sources:
            costly = max(block["lines"], key=lambda line: line["total_time"], default={"line": 1})
            place = {"file": block["file"], "line": str(costly["line"]), "around": str(_LINES_AROUND)}
            kept.ask("runs", run, "source", pairs=place)
        if block["block"] == "allocator":
            _allocator(kept, run, block, {**{key: shown[key] for key in ("cycle",) if key in shown}, **page["select"]})
        if block["block"] != "table":
            continue
        window = {"limit": str(block["limit"] or MAX_ROWS_OF_TABLE), "offset": "0"}
        select = {key: value for key, value in shown.items() if key not in ("rank", "ranks")} | page["select"]
        pairs = {**select, **_own(block["params"]), "sort": block["sort"], "filter": block["filter"], **window}
        kept.ask("runs", run, "analyses", block["analysis"], pairs=pairs)


def _allocator(kept: ReportAnswers, run: str, block: Mapping[str, Any], who: Mapping[str, str]) -> None:
    """The bands along both axes, the heap at the instants that the block names, and the largest blocks at the first."""
    who = {**who, "device": str(block["device"])}
    for by in ("time", "event") if block["span"] else ("event",):
        kept.ask("runs", run, "memory", "bands", pairs={**who, "by": by, "columns": str(BAND_COLUMNS)})
    heaps = {}
    for event in block["kept"]:
        pairs = {**who, "event": str(event), "pieces": str(HEAP_PIECES)}
        heaps[event] = kept.ask("runs", run, "memory", "heap", pairs=pairs)
    first = heaps.get(block["moments"][0]["event"])
    largest = sorted(first["rows"] if first else [], key=lambda piece: -piece[2])
    blocks = [piece[5] for piece in largest if piece[5] >= 0]
    for row in blocks[:MAX_ALLOCATIONS]:
        kept.ask("runs", run, "memory", "allocation", pairs={**who, "row": str(row)})


def _timeline(kept: ReportAnswers, run: str, rank: str) -> None:
    """The lanes, and tiles from the coarsest on until there are bytes enough."""
    lanes = kept.ask("runs", run, "timeline", "lanes", pairs={"rank": rank})
    if lanes is None:
        return
    start, end = int(lanes["start"]), int(lanes["end"])  # texts, where they are too long for a browser's numbers
    kept.ask("runs", run, "notes")
    whole = time_range_text(max(start, 0), end)
    kept.ask("runs", run, "timeline", "range", pairs={"rank": rank, "time": whole})
    length = max(end - min(start, 0), 1)
    level = max((length // 1024).bit_length(), 0)
    spent = 0
    while level >= 0:
        width = 1024 << level
        for place in range(-(-length // width)):
            pairs = {"rank": rank, "z": str(level), "i": str(place), "v": str(lanes.get("version", ""))}
            spent += kept.ask_bytes("runs", run, "timeline", "tile", pairs=pairs)
            if spent > MAX_TILE_BYTES:
                return
        level -= 1


# --- the file


def _html(title: str, hash_: str, answers: Mapping[str, Any]) -> bytes:
    data = json.dumps({"hash": hash_, "answers": answers}, separators=(",", ":"))
    return _page_of(title, data, _built("vega.js") if '"block":"chart"' in data else "").encode("utf-8")


def standing_alone(title: str, hash_: str) -> str:
    """The page as one text without answers: it asks whoever put it into a frame."""
    return _page_of(title, json.dumps({"hash": hash_, "ask": "parent"}), _built("vega.js"))


def _page_of(title: str, data: str, vega: str) -> str:
    app, style = _built("report.js"), _built("app.css")
    allowed = " ".join(f"'sha256-{_digest(script)}'" for script in (_BOOT, app, vega) if script)
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; worker-src blob:;"
        " base-uri 'none'; form-action 'none'"
    )
    packed = "".join(
        f'<script type="text/plain" id="packed-{name}">{_packed(text)}</script>'
        for name, text in (("answers", data), ("vega", vega), ("app", app))
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)} · Kinetoscope</title><style>{style}</style>"
        '<body><div id="page"></div><script type="application/json" id="kinetoscope-report"></script>'
        f'{packed}<script type="module">{_BOOT}</script></body></html>\n'
    )


def _built(name: str) -> str:
    try:
        return (STATIC / name).read_text("utf-8")
    except FileNotFoundError as error:
        raise InputError("the page is not built; `make web` builds it from a checkout") from error


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")


def _packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode("utf-8"), 9, mtime=0)).decode("ascii") if text else ""
