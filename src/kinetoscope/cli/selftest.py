"""`kinetoscope doctor --recorder`: what this machine can and cannot record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kinetoscope.views.terminal.lines import Line

_PATIENCE = 300.0
_VERDICT_MARKS = {"yes": ("✓", "computation"), "no": ("✗", "warn"), "absent": ("–", "dim")}


def run() -> int:
    """Test in a process of its own; the exit code is 1 where something cannot be recorded."""
    from kinetoscope.cli.shared.output import write_lines
    from kinetoscope.cli.shared.torch_program import output_of

    capabilities = output_of("selftest", what="the test of the recorder", patience=_PATIENCE)
    write_lines(_report(capabilities))
    return int(any(each["can"] == "no" for each in capabilities))


def _report(capabilities: Sequence[dict[str, str]]) -> Iterator[Line]:
    from kinetoscope.views.terminal.lines import plain
    from kinetoscope.views.text import printable

    wide = max(len(each["what"]) for each in capabilities)
    missing = [each["what"] for each in capabilities if each["can"] == "no"]
    yield plain(
        f"This machine cannot record: {', '.join(missing)}." if missing else "All that is here can be recorded.", "bold"
    )
    yield plain()
    for each in capabilities:
        mark, style = _VERDICT_MARKS[each["can"]]
        yield ((f"  {mark} ", style), (each["what"].ljust(wide + 2), "bold"), (printable(each["message"]), ""))
