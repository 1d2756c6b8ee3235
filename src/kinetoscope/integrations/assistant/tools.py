"""The tools: one function each, and what it says of itself."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.datastructures import QueryParams

from kinetoscope.advisor.commands import arguments
from kinetoscope.advisor.finding import NO_STAKE, Evidence, Finding
from kinetoscope.errors import UsageError, nearest
from kinetoscope.integrations.assistant.arguments import MAX_ARGUMENT_CHARACTERS, Argument, checked, selection
from kinetoscope.integrations.assistant.runs import Folders
from kinetoscope.integrations.assistant.trials import list_trials, try_change
from kinetoscope.integrations.assistant.wording import (
    DATA,
    MAX_LEVELS,
    MAX_ROWS,
    MAX_TEXT_CHARACTERS,
    MAX_TOKENS,
    ROWS,
    TOKENS,
    bounded,
    brief,
    clean,
    notes,
    table,
)
from kinetoscope.pages.documents import Lines, document
from kinetoscope.server.errors import ForbiddenError
from kinetoscope.views.exports.budget import LEAST_TOKENS
from kinetoscope.views.exports.plain import plain


@dataclass(frozen=True, slots=True)
class Tool:
    """One thing that can be asked. Nothing in it ever comes out of a trace."""

    name: str
    doc: str
    arguments: tuple[Argument, ...]
    answer: Callable[[Folders, Mapping[str, Any]], dict[str, Any] | list[Lines]]
    """JSON, or the blocks of a Markdown document."""

    runs: bool = False
    """It runs a command of whoever asks; only where the server was started so."""

    @property
    def schema(self) -> dict[str, Any]:
        """Its arguments, as JSON Schema."""
        return {
            "type": "object",
            "properties": {each.name: each.schema for each in (*self.arguments, _BUDGET)},
            "required": [each.name for each in self.arguments if each.required],
            "additionalProperties": False,
        }


def call(folders: Folders, name: str, given: Mapping[str, Any] | None) -> str:
    """The answer of a tool, as JSON or Markdown.

    Raises:
        KinetoscopeError: there is no such tool or argument, or it cannot be answered.
    """
    known = {tool.name: tool for tool in tools_of(folders)}
    if name not in known:
        raise UsageError(f"there is no tool {brief(name)!r}{nearest(name[:60], known)}; tools: {', '.join(known)}")
    tool = known[name]
    asked = checked(tool.name, (*tool.arguments, _BUDGET), given or {})
    budget = asked.get("budget", TOKENS)
    answer = tool.answer(folders, asked)
    return bounded(answer, budget) if isinstance(answer, dict) else document([[DATA], *answer], budget)


def tools_of(folders: Folders) -> tuple[Tool, ...]:
    """The tools that may be used on these folders."""
    return tuple(tool for tool in TOOLS if folders.allow_run or not tool.runs)


def _list_analyses(folders: Folders, given: Mapping[str, Any]) -> dict[str, Any]:
    del folders
    from kinetoscope.analyses import groups, named

    if not given.get("name"):
        return {
            "analyses": {group: {name: named(name).question for name in names} for group, names in groups().items()},
            "next": "list_analyses with a name tells what it measures, its parameters and its columns.",
        }
    analysis = _analysis(given["name"])
    return {
        "name": analysis.name,
        "doc": analysis.doc,
        "parameters": {
            each.name: {"doc": each.doc, "default": each.default, **({"choices": each.choices} if each.choices else {}),
                        **({"unit": each.unit} if each.unit else {})}
            for each in analysis.parameters
        },
        "columns": {each.name: f"{each.doc}{f' ({each.unit})' if each.unit else ''}" for each in analysis.schema},
    }  # fmt: skip


def _analysis(name: str) -> Any:
    from kinetoscope.analyses import named, names

    wanted = name.strip().replace("-", "_")
    if wanted not in names():
        raise UsageError(f"there is no analysis {brief(name)!r}{nearest(wanted[:60], names())}; see list_analyses")
    return named(wanted)


def _run_analysis(folders: Folders, given: Mapping[str, Any]) -> dict[str, Any]:
    from kinetoscope.analyses import RECORDED
    from kinetoscope.model.steps.selection import default_to_steady
    from kinetoscope.server.query import parameters

    analysis = _analysis(given["name"])
    params = QueryParams([(f"p.{name}", _text(value)) for name, value in given.get("params", {}).items()])
    select = selection(given) if analysis.name in RECORDED else default_to_steady(selection(given))
    result = analysis(folders.job(given), select=select, **parameters(analysis, params))
    return {"analysis": analysis.name, "question": analysis.question, **table(result, given)}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)[:MAX_ARGUMENT_CHARACTERS]
    return brief(json.dumps(value, default=str))


def _summary(folders: Folders, given: Mapping[str, Any]) -> list[Lines]:
    from kinetoscope.outputs.summary import summary
    from kinetoscope.screens.markdown import parts

    job = dataclasses.replace(folders.job(given), path=given["path"])  # which tells nothing about the machine
    return list(parts(summary(job, select=selection(given))))


def _page(folders: Folders, given: Mapping[str, Any]) -> list[Lines]:
    from kinetoscope.outputs.page import page
    from kinetoscope.screens.markdown import parts

    job = dataclasses.replace(folders.job(given), path=given["path"])
    base = folders.job(given, "base") if given.get("base") else None
    runs = [] if base is None else [base]
    params = {name: _text(value) for name, value in given.get("params", {}).items()}
    made = page(job, given["name"], select=selection(given), base=base, runs=runs, params=params)
    return list(parts(made))


def _advise(folders: Folders, given: Mapping[str, Any]) -> dict[str, Any]:
    from kinetoscope.advisor.advice import METHOD, advise

    advice = advise(folders.job(given), select=selection(given))
    limit = given.get("limit", ROWS)
    findings = [_finding(number, each, advice.ranks) for number, each in enumerate(advice.findings[:limit], 1)]
    return {
        "headline": clean(advice.headline, MAX_LEVELS),
        "step_ns": math.floor(advice.step + 0.5),
        "program": advice.program,
        "findings": findings,
        "findings_in_all": len(advice.findings),
        "how_to_read": "at_stake_ns and at_stake_share: how much shorter an average step would be, at least, at most."
        f" {METHOD} A finding with same_time_as is about time that another one counts already. `call` of evidence is"
        " what run_analysis takes beside path.",
        **notes(advice.notes),
    }


def _finding(number: int, finding: Finding, ranks: int) -> dict[str, Any]:
    share = finding.share or NO_STAKE
    answer = {
        "number": number,
        "code": finding.code,
        "severity": finding.severity,
        "certainty": finding.certainty,
        "message": clean(finding.message, MAX_LEVELS),
        "at_stake_ns": [round(finding.stake.low), round(finding.stake.high)],
        "at_stake_share": [round(share.low, 4), round(share.high, 4)],
        "confidence": finding.confidence,
        "why": clean(finding.why, MAX_LEVELS),
        "change": [clean(line, MAX_LEVELS) for line in finding.change.splitlines()],
        "ranks": list(finding.ranks)[:64],
        "same_time_as": finding.same_time_as,
        "record": finding.record,
        "evidence": [_evidence(f"{number}.{at}", each, ranks) for at, each in enumerate(finding.evidence, 1)],
    }
    return {key: value for key, value in answer.items() if value not in ("", [], None)}


def _evidence(name: str, each: Evidence, ranks: int) -> dict[str, Any]:
    answer = {
        "id": name,
        "what": clean(each.text, MAX_LEVELS),
        "file": f"{clean(each.file, MAX_TEXT_CHARACTERS)}:{each.line}" if each.file else "",
        "call": {"name": each.analysis, **plain(arguments(each, ranks), _cleaned)} if each.analysis else {},
    }
    return {key: value for key, value in answer.items() if value not in ("", {})}


def _cleaned(value: Any) -> Any:
    return clean(value, MAX_TEXT_CHARACTERS) if isinstance(value, str) else value


def _explain(folders: Folders, given: Mapping[str, Any]) -> dict[str, Any]:
    del folders
    from kinetoscope.advisor.rules import rules

    known = {rule.code: rule for rule in rules()}
    rule = known.get(given["code"].strip().upper())
    if rule is None:
        raise UsageError(f"there is no rule {brief(given['code'])!r}; rules: {', '.join(known)}")
    return {"code": rule.code, "title": rule.title, "doc": rule.doc}


def _diff(folders: Folders, given: Mapping[str, Any]) -> dict[str, Any]:
    from kinetoscope.compare.diff.diff import diff
    from kinetoscope.compare.diff.memory import memory_diff

    base, new = folders.job(given, "base"), folders.job(given, "new")
    if all(source.reader == "snapshot" for source in (*base.sources, *new.sources)):
        memory = memory_diff(base, new, select=selection(given))
        return {"answer": clean(memory.sentence, MAX_LEVELS), **table(memory, {"limit": _CALLS, **given})}
    difference = diff(base, new, select=selection(given))
    waterfall, rows = (
        table(difference.waterfall, {"limit": MAX_ROWS}, "waterfall"),
        table(difference.rows, {"limit": _CALLS, **given}),
    )
    return {
        "answer": clean(difference.sentence, MAX_LEVELS),
        "base_step_ns": difference.base,
        "new_step_ns": difference.new,
        "waterfall_columns": waterfall["columns"],
        "waterfall": waterfall["waterfall"],
        **({"hardware": clean(difference.hardware.sentence, MAX_LEVELS)} if difference.hardware is not None else {}),
        **rows,
    }


def _sql(folders: Folders, given: Mapping[str, Any]) -> dict[str, Any]:
    from kinetoscope.server.sql.routes import query_result, require_harmless

    try:
        require_harmless(given["query"])
    except ForbiddenError as error:
        raise UsageError("the query is refused: a single SELECT over the tables of the run, no files") from error
    return table(query_result(folders.job(given), given["query"]), given)


def _list_tables(folders: Folders, given: Mapping[str, Any]) -> dict[str, Any]:
    del folders
    from kinetoscope.model.tables.sql import schema_of
    from kinetoscope.model.tables.tables import TABLES

    names = [given["table"]] if given.get("table") else list(TABLES)
    for name in names:
        if name not in TABLES:
            raise UsageError(f"there is no table {brief(name)!r}{nearest(name[:60], TABLES)}; {', '.join(TABLES)}")
    return {
        name: {"doc": TABLES[name].doc, "columns": {
            column.name: f"{column.dtype}: {column.doc}{f' ({column.unit})' if column.unit else ''}"
            for column in schema_of(name)
        }}
        for name in names
    }  # fmt: skip


def _list_runs(folders: Folders, given: Mapping[str, Any]) -> dict[str, Any]:
    from kinetoscope.server.runs.run import state_of

    runs = folders.runs()
    offset, limit = given.get("offset", 0), given.get("limit", ROWS)
    rows = [
        {
            "path": clean(folders.shown(run), MAX_TEXT_CHARACTERS),
            "files": len(run.files.files),
            "bytes": run.files.bytes,
            "modified": int(run.files.modified),
            "state": state_of(run),
        }
        for run in runs[offset : offset + limit]
    ]
    return {"runs": rows, "runs_in_all": len(runs)}


_RUN: Final = "A trace, or a folder with those of one run: its name in list_runs, or a path below the served folders."

_CALLS: Final = 10
"""Rows of a comparison, unless more are asked for."""

_LIMIT_ARGUMENT: Final = Argument("limit", "integer", f"Rows at most; {ROWS} by default.", least=1, most=MAX_ROWS)
_OFFSET: Final = Argument("offset", "integer", "Rows to leave out first.", least=0, most=1 << 40)
_SORT: Final = Argument("sort", "string", "Columns by which rows are sorted, largest first: `calls`, `name:asc`.")
_PARTS: Final = (
    Argument("ranks", "string", "Only these ranks: `0,8-15`."),
    Argument("steps", "string", "Only these steps: `2-4`; `all`. By default `steady`, without those of the warm-up."),
    Argument("time", "string", "Only this time, from the beginning: `10ms..20ms`."),
)
_CALLS_CHOSEN: Final = (
    Argument("device", "string", "Only these devices: `0,1`."),
    Argument("event_name", "string", "Only calls and kernels of this name: `aten::mm|nccl*`; `*` is any text."),
    Argument("under", "string", "Only calls of this name, what is inside them and what that launched."),
    Argument("before", "string", "Only what begins before the first call of this name in a step."),
    Argument("after", "string", "Only what begins after the last call of this name in a step."),
)
_PATH: Final = Argument("path", "string", _RUN, required=True)
_BUDGET: Final = Argument(
    "budget",
    "integer",
    f"Largest answer in tokens; {TOKENS} by default.",
    least=LEAST_TOKENS,
    most=MAX_TOKENS,
)

TOOLS: Final = (
    Tool(
        "list_runs",
        "The runs (traces of one job) below the served folders, newest first; their paths are what other tools take.",
        (_LIMIT_ARGUMENT, _OFFSET),
        _list_runs,
    ),
    Tool(
        "summary",
        "A run on one page, as Markdown: where a step goes, who waits for whom, what to change and what it would bring,"
        " what takes the time, what is odd about the trace. Begin with this.",
        (_PATH, *_PARTS),
        _summary,
    ),
    Tool(
        "page",
        "A view of the page, as Markdown: what it found in a sentence, its pictures as tables, the first rows of its"
        " tables. Views: overview, operators, kernels, modules, efficiency, memory, idle, critical_path, serving,"
        " distributed, sources, compare (with base), ledger.",
        (
            Argument("name", "string", "Of the view.", required=True),
            _PATH,
            Argument("base", "string", "Of `compare` and `ledger`: the run before."),
            Argument("params", "object", "What the view lets its reader choose; it says what that is."),
            *_PARTS,
        ),
        _page,
    ),
    Tool(
        "advise",
        "What to change in a run, and what it would bring, as JSON: findings ranked by the time at stake in an average"
        " step, each with the reason, the change, and evidence with the call that shows it.",
        (_PATH, _LIMIT_ARGUMENT, *_PARTS),
        _advise,
    ),
    Tool(
        "explain_finding",
        "What a rule of advise checks, why it matters, and what to do.",
        (Argument("code", "string", "Of a finding: `DATA001`.", required=True),),
        _explain,
    ),
    Tool(
        "list_analyses",
        "The questions that can be asked about a run; with a name, what that one measures, its parameters and columns.",
        (Argument("name", "string", "Of an analysis."),),
        _list_analyses,
    ),
    Tool(
        "run_analysis",
        "The answer of one analysis about a run, as a table. Times are nanoseconds, sizes bytes.",
        (
            Argument("name", "string", "Of an analysis, as list_analyses has it.", required=True),
            _PATH,
            Argument("params", "object", "Parameters of the analysis by name, as list_analyses with its name tells."),
            _SORT,
            _LIMIT_ARGUMENT,
            _OFFSET,
            *_PARTS,
            *_CALLS_CHOSEN,
        ),
        _run_analysis,
    ),
    Tool(
        "diff",
        "Why a step of one run takes longer than a step of another: the change by category, which sums to the whole,"
        " and the calls and kernels that changed.",
        (
            Argument("base", "string", f"The run before. {_RUN}", required=True),
            Argument("new", "string", f"The run after. {_RUN}", required=True),
            _LIMIT_ARGUMENT,
            _OFFSET,
            _PARTS[1],
        ),
        _diff,
    ),
    Tool(
        "list_tables",
        "The tables that sql can ask, with their columns; with a table, those of that one.",
        (Argument("table", "string", "Of this table only."),),
        _list_tables,
    ),
    Tool(
        "sql",
        "SELECT over the tables of a run (kernels, ops, …; list_tables has their columns), each with a column `rank`."
        " The dialect is that of Polars; nothing else can be read.",
        (
            _PATH,
            Argument(
                "query", "string", "SELECT name, sum(duration) AS total FROM kernels GROUP BY name", required=True
            ),
            _SORT,
            _LIMIT_ARGUMENT,
            _OFFSET,
            _PARTS[0],
        ),
        _sql,
    ),
    Tool(
        "list_trials",
        "Changes that `kinetoscope try` can make in a program without an edit, and the folders with its results; with"
        " the path of such a folder, what came of each change: step time, interval, promise, loss, and the patch.",
        (Argument("path", "string", "A folder of `results`."), _SORT, _LIMIT_ARGUMENT, _OFFSET),
        list_trials,
    ),
    Tool(
        "try_change",
        "Run a training program some dozens of times for some dozens of steps, with changes and without in turns, and"
        " answer what makes its steps shorter. It takes minutes. The command runs on this machine.",
        (
            Argument("command", "string", "That starts the program: `python train.py --batch-size 64`.", required=True),
            Argument("only", "string", "Names of list_trials, separated by commas; else what findings ask for."),
            Argument("seconds", "integer", "That it may take; 600 by default.", least=10, most=7200),
            _LIMIT_ARGUMENT,
        ),
        try_change,
        runs=True,
    ),
)
"""All tools."""
