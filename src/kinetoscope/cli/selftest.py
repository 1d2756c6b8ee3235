"""`kinetoscope selftest`: record small programs in this environment, and say what can be recorded and read here.

    kinetoscope selftest          a line for each thing; exit code 1 if one of them fails

It takes some ten seconds, needs torch, and leaves nothing behind. Where torch sees no device, the host alone is tested.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kinetoscope.cli.shared.options import Parser
from kinetoscope.errors import KinetoscopeError

if TYPE_CHECKING:
    from kinetoscope.views.terminal.lines import Line

_PATIENCE_S: Final = 300.0
_VERDICT_MARKS: Final = {"yes": ("✓", "computation"), "no": ("✗", "warn"), "absent": ("–", "dim")}
_EXAMPLE_STEPS: Final = 6
_EXAMPLE_BATCH: Final = 4

Capability = dict[str, str]
"""`what`; `can`: yes, no or absent; `message`."""


def run(arguments: list[str]) -> int:
    """Test in processes of their own; the exit code is 1 where something cannot be recorded or read."""
    from kinetoscope.cli.shared.output import write_lines
    from kinetoscope.cli.shared.torch_program import output_of

    Parser(prog="kinetoscope selftest", description=__doc__).parse_args(arguments)
    capabilities: list[Capability] = output_of("selftest", what="the test of the recorder", patience=_PATIENCE_S)
    with tempfile.TemporaryDirectory() as folder:
        capabilities += _of_a_program(Path(folder))
    write_lines(_report(capabilities))
    return int(any(each["can"] == "no" for each in capabilities))


def _of_a_program(folder: Path) -> Iterator[Capability]:
    """Whether an unchanged program is recorded, and what comes of it is read."""
    program = ["-W", "ignore", "-m", "kinetoscope.record.example", str(_EXAMPLE_STEPS), str(_EXAMPLE_BATCH)]
    command = [sys.executable, "-m", "kinetoscope", "record", "-o", str(folder), "--", sys.executable, *program]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False, errors="replace"
        )
        said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
    except subprocess.TimeoutExpired:
        said = f"it did not finish within {_PATIENCE_S:.0f} s"
    if not list(folder.glob("*.pt.trace.json.gz")):
        yield {"what": "programs", "can": "no", "message": f"`kinetoscope record -- python …` records nothing: {said}"}
        return
    yield {
        "what": "programs",
        "can": "yes",
        "message": "`kinetoscope record -- python …` records an unchanged program.",
    }
    yield {"what": "reading", **_reading(folder)}


def _reading(folder: Path) -> Capability:
    """Whether the trace is read, and has an answer to the first question: how long a step takes."""
    from kinetoscope.analyses import named
    from kinetoscope.reading import read
    from kinetoscope.views.numbers import shown

    try:
        job = read(str(folder))
        steps = named("step_breakdown")(job).frame
        trace = job.trace()
    except KinetoscopeError as error:
        return {"can": "no", "message": f"The trace of it cannot be read: {error}"}
    if steps.is_empty():
        return {"can": "no", "message": "The trace of it has no steps."}
    length = shown(sorted(steps["duration"].to_list())[len(steps) // 2], "ns")
    return {"can": "yes", "message": f"{len(trace):,} events are read; {len(steps)} steps of {length} (median)."}


def _report(capabilities: Sequence[Capability]) -> Iterator[Line]:
    from kinetoscope.views.terminal.lines import plain
    from kinetoscope.views.text import printable

    wide = max(len(each["what"]) for each in capabilities)
    missing = [each["what"] for each in capabilities if each["can"] == "no"]
    yield plain(f"This does not work here: {', '.join(missing)}." if missing else "All that is here works.", "bold")
    yield plain()
    for each in capabilities:
        mark, style = _VERDICT_MARKS[each["can"]]
        yield ((f"  {mark} ", style), (each["what"].ljust(wide + 2), "bold"), (printable(each["message"]), ""))
