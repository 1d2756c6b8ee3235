"""Draws how long each tool takes to its first answer, and its memory: docs/images/speed.svg.

Drawn from benchmarks/measured/peers.json, which `make bench-peers ARGS="--trace T --out …"` writes.
`python docs/generate.py` draws it, and `--check` says when it is stale.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

MEASURED: Final = Path(__file__).resolve().parents[1] / "benchmarks" / "measured" / "peers.json"
WHAT: Final = {
    "kinetoscope": "Kinetoscope",
    "orjson.loads": "orjson, dicts only",
    "json.loads": "json, dicts only",
    "Perfetto (wasm)": "Perfetto (wasm)",
    "HTA (ijson)": "HTA, its iterative parser",
    "HTA": "HTA",
    "torch-tb-profiler": "TensorBoard plugin",
}
"""Tool → its name in the picture."""

_WIDTH, _ROW, _HEAD, _FOOT = 880, 30, 56, 16
_BARS: Final = ((210, 300), (600, 200))
"""Where the bars of the seconds and of the memory begin, and how long the longest is."""

_STYLE = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif">
<style>
text {{ font-size: 14px; fill: #14233a }}
.name {{ text-anchor: end }}
.head {{ font-weight: 600 }}
.quiet {{ fill: #5a6b82 }}
.paper {{ fill: #ffffff }}
.bar {{ fill: #b9c4d3 }}
.ours {{ fill: #2f5d9b }}
</style>
<rect class="paper" width="{width}" height="{height}"/>"""


def measured() -> dict[str, Any]:
    """What was measured: date, machine, versions, sizes, rows."""
    found: dict[str, Any] = json.loads(MEASURED.read_text("utf-8"))
    return found


def wholes(file: str) -> dict[str, dict[str, Any]]:
    """The whole processes that read a file, by tool, the quickest first; what failed is last."""
    rows = [row for row in measured()["rows"] if row["file"] == file and row["what"].startswith("whole")]
    rows.sort(key=lambda row: (bool(row["note"]), row["wall"]))
    return {row["tool"]: row for row in rows}


def pictures() -> dict[str, str]:
    """File name to text."""
    return {"speed.svg": svg(wholes("large"), measured()["sizes"]["large"])}


def svg(rows: dict[str, dict[str, Any]], size: int) -> str:
    """Two bars a tool: seconds and memory."""
    height = _HEAD + _ROW * len(rows) + _FOOT
    parts = [_STYLE.format(width=_WIDTH, height=height)]
    heads = (f"seconds to the first answer, {size / 1e9:.2f} GB of JSON", "GB of memory at the peak")
    parts += [
        f'<text class="head" x="{left}" y="30">{escape(head)}</text>'
        for (left, _), head in zip(_BARS, heads, strict=True)
    ]
    done = [row for row in rows.values() if not row["note"]]
    most = max(row["wall"] for row in done), max(row["peak"] for row in done)
    for at, (tool, row) in enumerate(rows.items()):
        top = _HEAD + _ROW * at
        parts.append(f'<text class="name" x="{_BARS[0][0] - 10}" y="{top + 15}">{escape(WHAT[tool])}</text>')
        if row["note"]:
            parts.append(f'<text class="quiet" x="{_BARS[0][0]}" y="{top + 15}">{escape(row["note"])}</text>')
            continue
        kind = "ours" if tool == "kinetoscope" else "bar"
        values = (row["wall"], f"{row['wall']:.3g}"), (row["peak"], f"{row['peak'] / 1e9:.2g}")
        for (left, longest), (value, text), scale in zip(_BARS, values, most, strict=True):
            length = max(longest * value / scale, 2)
            parts.append(f'<rect class="{kind}" x="{left}" y="{top}" width="{length:.1f}" height="20" rx="2"/>')
            parts.append(f'<text x="{left + length + 7:.1f}" y="{top + 15}">{text}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
