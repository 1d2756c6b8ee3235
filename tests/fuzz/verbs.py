"""What every document is asked, in this process, and what each answer must be."""

from __future__ import annotations

import contextlib
import io
import json
import resource
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kinetoscope import ANALYSES, read
from kinetoscope.cli import main
from kinetoscope.errors import KinetoscopeError
from kinetoscope.pages import PAGES
from kinetoscope.server import report
from kinetoscope.server.app import Server, client_of
from kinetoscope.server.http.in_process_client import InProcessClient, address
from kinetoscope.server.runs.run import ReadKeywords
from kinetoscope.server.runs.workspace import Workspace
from kinetoscope.server.source_code import Sources
from kinetoscope.views.exports import files
from kinetoscope.views.terminal import screen
from kinetoscope.views.terminal.lines import without_colour
from tests.conftest import OURS

SOUND: Final = OURS / "no_steps.pt.trace.json.gz"
"""What documents are compared with."""

SECONDS: Final = 20.0
"""Of the processor's time, for one question about a small document: some hundred times what it takes."""

MEMORY: Final = 1 << 30
"""Bytes that the process may grow by for one document."""

assert "MAX_TILE_BYTES" in vars(report)
vars(report)["MAX_TILE_BYTES"] = 4_000  # of a small trace a hundredth says as much

_COMPILING: Final = "kinetoscope: compiling (first run only) …\n"


@dataclass(frozen=True, slots=True)
class Wrong:
    """What went wrong: of which question, and how."""

    question: str
    how: str


Question = Callable[[Path], Iterator[str]]
"""Asks about a file; yields what is wrong about the answer, if anything."""


def asked(file: Path, names: Sequence[str]) -> list[Wrong]:
    """Put questions of `QUESTIONS` to a file, and say what is wrong."""
    wrong = []
    most = _most_memory()
    for name in names:
        began = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                wrong += [Wrong(name, how) for how in QUESTIONS[name](file)]
        except Exception:  # noqa: BLE001 - that is what is looked for
            wrong.append(Wrong(name, traceback.format_exc()))
        if (took := time.process_time() - began) > SECONDS:
            wrong.append(Wrong(name, f"it took {took:.1f} s of the processor's time"))
    if (grown := _most_memory() - most) > MEMORY:
        wrong.append(Wrong("all", f"the process grew by {grown:,} bytes"))
    return wrong


def _most_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# --- verbs of the command line


def _verb(*arguments: str) -> Question:
    """`kinetoscope ARGUMENTS`, where FILE, SOUND and OUT stand for files."""

    def question(file: Path) -> Iterator[str]:
        names = {"FILE": str(file), "SOUND": str(SOUND), "OUT": str(file.parent / "out")}
        words = [names.get(word, word) for word in arguments]
        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(words)
        said = err.getvalue().replace(_COMPILING, "")
        if code not in (0, 1, 2, 3):
            yield f"exit code {code}"
        notes = [] if "csv" in arguments else said.splitlines()  # CSV has no place for them
        if code in (0, 3) and (notes or not all(line.startswith("kinetoscope: ") for line in said.splitlines())):
            yield f"it succeeded and said: {said}"
        if code in (1, 2) and not (said.startswith("kinetoscope: ") and said.count("\n") == 1):
            yield f"exit code {code}, and not one line: {said}"

    return question


# --- all analyses of one job


def _analyses(file: Path) -> Iterator[str]:
    """Every analysis, and every form of its answer."""
    try:
        job = read(file, jobs=1)
        trace = job.trace()
    except KinetoscopeError as error:
        yield from _lines("the error", [str(error)])
        return
    yield from _lines("the health", [str(symptom) for symptom in trace.health])
    list(trace.events())
    for analysis in ANALYSES:
        try:
            result = analysis(job)
        except KinetoscopeError as error:
            yield from _lines(analysis.name, [str(error)])
            continue
        yield from _lines(analysis.name, result.notes)
        json.loads(files.to_json(result))
        files.to_csv(result)
        files.to_parquet(result)
        without_colour(screen.lines(result, width=100, limit=10))


def _lines(name: str, messages: Sequence[str]) -> Iterator[str]:
    for message in messages:
        if len(message.splitlines()) > 1:
            yield f"{name} has a message of several lines: {message!r}"


# --- what the page asks


def _page(file: Path) -> Iterator[str]:
    """All views, all tables, and the timeline."""
    workspace = Workspace((str(file),), ReadKeywords(jobs=1))
    inside = client_of(Server(workspace, Sources.of([], [])))
    with inside.asked_often():
        runs = json.loads(inside.get("runs").body)["runs"]
        for run in runs:
            yield from _answers(inside, run["id"])


def _answers(inside: InProcessClient, run: str) -> Iterator[str]:
    facts = yield from _answered(inside, address("runs", run))
    if facts is None:
        return
    rank = str(facts["ranks"][0])
    for name in PAGES:
        if PAGES[name].composed:
            yield from _answered(inside, address("runs", run, "pages", name))
    yield from _answered(inside, address("runs", run, "analyses", "operators", pairs=[("limit", "10")]))
    lanes = yield from _answered(inside, address("runs", run, "timeline", "lanes", pairs=[("rank", rank)]))
    if lanes is not None:
        level = max(int(lanes["end"]) - int(lanes["start"]), 1).bit_length()
        spans = [("time", f"{max(int(lanes['start']), 0)}-{max(int(lanes['end']), 1)}")]
        for what, pairs in (
            ("tile", [("z", str(level)), ("i", "0")]),
            ("range", spans),
            ("search", [("q", "a")]),
            ("event", [("row", "0")]),
        ):
            yield from _answered(inside, address("runs", run, "timeline", what, pairs=[("rank", rank), *pairs]))
        yield from _answered(inside, address("runs", run, "cut", pairs=[("rank", rank), *spans]))


def _answered(inside: InProcessClient, asked: str) -> Generator[str, None, Any]:
    err = io.StringIO()
    with contextlib.redirect_stderr(err):
        answer = inside.get(asked)
    if answer.status >= 500 or err.getvalue():
        yield f"{asked}: {answer.status} {answer.body[:500]!r} {err.getvalue()}"
    if answer.status != 200 or not answer.kind.startswith("application/json"):
        return None
    return answer.plain()


QUESTIONS: Final[dict[str, Question]] = {
    "analyses": _analyses,
    "doctor": _verb("doctor", "FILE"),
    "summary": _verb("summary", "FILE"),
    "advise": _verb("advise", "FILE"),
    "show": _verb("show", "trace-info", "FILE", "--format", "csv"),
    "sql": _verb("sql", "FILE", "select kind, count(*), sum(duration) from events group by kind"),
    "convert json": _verb("convert", "FILE", "--to", "json", "-o", "OUT"),
    "convert perfetto": _verb("convert", "FILE", "--to", "perfetto", "-o", "OUT", "--critical-path"),
    "convert parquet": _verb("convert", "FILE", "--to", "parquet", "-o", "OUT"),
    "diff": _verb("diff", "SOUND", "FILE"),
    "gate": _verb("gate", "FILE", "SOUND"),
    "ledger": _verb("ledger", "SOUND", "FILE"),
    "report": _verb("report", "FILE", "-o", "OUT", "--sections", "overview,memory,timeline"),  # all others: "page"
    "page": _page,
}
"""Every question, by name."""
