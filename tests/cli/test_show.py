"""`kinetoscope show`: every format, a module of one's own, and what is said when it cannot be."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import polars as pl
import pytest

from kinetoscope.analyses import ANALYSES
from kinetoscope.cli import main
from tests import drawn
from tests.cli.run import MLP, RANKS, run, without_compiling

MINE = '''
"""Counts events by name."""
from typing import Annotated, Literal

import polars as pl

from kinetoscope.model.answer import Partial
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, Param, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank."), Column("name", pl.String, "Name."), Column("calls", pl.Int64, "Events.")
)


def mine(
    trace: Trace,
    select: Selection,
    *,
    prefix: Annotated[str, Param("Names begin so.")] = "",
    longer: Annotated[int, Param("Only events longer than this.", unit="ns")] = -1,
    reverse: Annotated[bool, Param("The fewest first.")] = False,
    order: Annotated[Literal["calls", "name"], Param("Order of rows.")] = "calls",
) -> Partial:
    """How often does each name occur?"""
    keep = (trace.end - trace.start) > longer
    names = [trace.strings.label(code) for code in trace.name[keep & (trace.name >= 0)].tolist()]
    frame = pl.DataFrame({"name": [name for name in names if name.startswith(prefix)]}, schema={"name": pl.String})
    counted = frame.group_by("name").agg(pl.len().alias("calls")).sort("name")
    return Partial(counted.sort(order, descending=not reverse, maintain_order=True))
'''


@pytest.fixture
def mine(tmp_path: Path) -> str:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return str(path)


def shown(*arguments: str | Path, capsys: pytest.CaptureFixture[str]) -> str:
    code = main(["show", *map(str, arguments)])
    said = capsys.readouterr()
    assert (code, without_compiling(said.err)) == (0, "")
    return said.out


def test_alone_it_lists_the_analyses(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys=capsys)
    for analysis in ANALYSES:
        assert analysis.name.replace("_", "-") in text
        assert analysis.question.split()[0] in text


@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda analysis: analysis.name)
def test_its_help_has_the_docstring_and_the_columns(analysis: object, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = next(each for each in ANALYSES if each is analysis)
    text = shown(chosen.name, "--help", capsys=capsys)
    assert chosen.question in text
    assert all(f"\n  {name} " in text for name in chosen.schema.names)
    assert all("--" + each.name.replace("_", "-") in text for each in chosen.parameters)


def test_both_spellings_of_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [str(MLP), "--format", "json"]
    assert shown("temporal-breakdown", *arguments, capsys=capsys) == shown(
        "temporal_breakdown", *arguments, capsys=capsys
    )


def test_a_module_of_ones_own_with_its_options(mine: str, capsys: pytest.CaptureFixture[str]) -> None:
    everything = json.loads(shown(mine, MLP, "--format", "json", capsys=capsys))
    assert everything["analysis"] == "mine"
    assert [column["name"] for column in everything["columns"]] == ["rank", "name", "calls"]
    options = ["--prefix", "aten::", "--longer", "1us", "--reverse", "--order", "name", "--format", "json"]
    chosen = json.loads(shown(mine, *options, MLP, capsys=capsys))
    assert chosen["params"] == {"prefix": "aten::", "longer": 1000, "reverse": True, "order": "name"}
    names = [row[1] for row in chosen["rows"]]
    assert names == sorted(names)
    assert set(names) <= {row[1] for row in everything["rows"]}
    assert len(names) > 5


def test_a_declared_analysis_is_preferred(tmp_path: Path, mine: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "other.py"
    path.write_text(
        MINE.replace("def _of", "def also(job): ...\ndef _of")
        + "\nfrom kinetoscope.model.analysis import Analysis\nANALYSIS = Analysis('Counts', mine, RESULT)\n"
    )
    assert shown(path, MLP, capsys=capsys) == shown(mine, MLP, capsys=capsys)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "declares no analysis"),
        ("x = ", "cannot be run: SyntaxError"),
        ("\nraise KeyError('k')", "cannot be run: KeyError: 'k' (line 2)"),
        ("import nothing_of_this_name", "No module named 'nothing_of_this_name' (line 1)"),
        ("from kinetoscope.schema import Schema\nRESULT = Schema()", "has 0 public functions (none)"),
        (
            "from kinetoscope.schema import Schema\nRESULT = Schema()\ndef a(job): ...\ndef b(job): ...",
            "has 2 public functions (a, b)",
        ),
        (
            "from kinetoscope.schema import Schema\nRESULT = Schema()\ndef a(job, *, select=None): ...",
            "write it as a(trace, select, *, ...) -> Partial",
        ),
    ],
)
def test_what_is_no_analysis_of_ones_own(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(text)
    assert main(["show", str(path), str(MLP)]) == 1
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_where_sort_and_limit(mine: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = [
        "--where",
        "calls > 5 AND name LIKE 'aten::%'",
        "--sort",
        "calls,name:asc",
        "--limit",
        "3",
        "--format",
        "json",
    ]
    rows = json.loads(shown(mine, MLP, *options, capsys=capsys))["rows"]
    assert len(rows) == 3
    assert rows == sorted(rows, key=lambda row: (-row[2], row[1]))
    assert all(row[2] > 5 and row[1].startswith("aten::") for row in rows)


def test_a_table_says_how_many_rows_it_leaves_out(mine: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(mine, MLP, "--limit", "2", capsys=capsys)
    assert text.startswith("How often does each name occur?\n\nrank  name")
    assert "more rows (--limit 0 shows all)" in text
    assert len(shown(mine, MLP, "--limit", "0", capsys=capsys).splitlines()) > 32


def test_all_formats_hold_the_same(mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(shown(mine, MLP, "--format", "json", capsys=capsys))["rows"]
    table = list(csv.reader(io.StringIO(shown(mine, MLP, "--format", "csv", capsys=capsys))))
    assert table[0] == ["rank", "name", "calls"]
    assert [[int(rank), name.removeprefix("'"), int(calls)] for rank, name, calls in table[1:]] == rows
    for name in ("out.parquet", "out.json", "out.csv"):
        assert shown(mine, MLP, "-o", tmp_path / name, capsys=capsys) == ""
    assert [list(row) for row in pl.read_parquet(tmp_path / "out.parquet").rows()] == rows
    assert json.loads((tmp_path / "out.json").read_text())["rows"] == rows
    assert (tmp_path / "out.csv").read_text().startswith("rank,name,calls\n")


def test_parquet_goes_through_a_pipe(mine: str) -> None:
    import subprocess

    from tests.cli.run import COMMAND, environment

    done = subprocess.run(
        [*COMMAND, "show", mine, str(MLP), "--format", "parquet"], capture_output=True, env=environment(), check=True
    )
    assert pl.read_parquet(io.BytesIO(done.stdout)).columns == ["rank", "name", "calls"]


def test_ranks_are_chosen(mine: str, capsys: pytest.CaptureFixture[str]) -> None:
    def ranks(*options: str) -> set[int]:
        rows = json.loads(shown(mine, RANKS, "--format", "json", *options, capsys=capsys))["rows"]
        return {row[0] for row in rows}

    assert ranks() == {0, 1}
    assert ranks("--ranks", "1", "--jobs", "1") == {1}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["temporal-brakdown", "x"],
            2,
            "there is no analysis 'temporal-brakdown' (did you mean 'temporal_breakdown'?)",
        ),
        (["temporal-breakdown"], 2, "the following arguments are required: PATH"),
        (["./none.py", "x"], 1, "none.py: no such file"),
        (["temporal-breakdown", str(MLP), "--sort", "idel"], 2, "there is no column 'idel' (did you mean 'idle'?)"),
        (
            ["temporal-breakdown", str(MLP), "--where", "idel > 1"],
            2,
            "there is no column 'idel' (did you mean 'idle'?)",
        ),
        (["temporal-breakdown", str(MLP), "--format", "xml"], 2, "argument --format: invalid choice: 'xml'"),
        (
            ["temporal-breakdown", str(MLP), "-o", "/no/such/folder/x.json"],
            1,
            "/no/such/folder/x.json: cannot be written",
        ),
        (["temporal-breakdown", str(MLP), "--ranks", "7"], 2, "has none of the requested ranks (7); it has 0"),
        (["temporal-breakdown", str(MLP), "--max-size", "1kB"], 1, "raise the limit with --max-size"),
    ],
)
def test_what_cannot_be_shown(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", *arguments]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("kinetoscope: ")
    assert message in said.err
    assert said.err.count("\n") == 1


def test_notes_go_beside_the_formats_that_have_no_place_for_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["show", "operators", str(MLP), "--limit", "1"]
    assert main([*arguments, "--format", "json"]) == 0
    said = capsys.readouterr()
    notes = json.loads(said.out)["notes"]
    assert notes
    assert without_compiling(said.err) == ""
    for more in ["--format", "csv"], ["-o", str(tmp_path / "x.parquet")]:
        assert main([*arguments, *more]) == 0
        assert capsys.readouterr().err == "".join(f"kinetoscope: {note['text']}\n" for note in notes)
    assert json.loads(pl.read_parquet_metadata(tmp_path / "x.parquet")["notes"]) == notes


def test_a_limit_of_an_event_can_be_raised_as_the_message_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = drawn.written(tmp_path / "long.json", drawn.op("aten::mm", 0, 10, text="x" * (9 << 20)))
    assert main(["doctor", str(path), "--max-event", "1kB"]) == 1
    assert "raise the limit with --max-event" in capsys.readouterr().err
    for size in "0", "10MB":
        assert main(["doctor", str(path), "--max-event", size]) == 0


def test_names_from_a_trace_are_harmless(tmp_path: Path, mine: str) -> None:
    name = "\x1b]0;owned\x07\x1b[31m[red]x[/red]\u202e\x9b2J\ud800"
    trace = {"traceEvents": [{"ph": "X", "name": name, "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 1, "dur": 2}]}
    path = tmp_path / "evil.json"
    path.write_text(json.dumps(trace))
    done = run("show", mine, path)
    assert done.returncode == 0, done.stderr
    assert "\\x1b]0;owned\\x07\\x1b[31m[red]x[/red]\\u202e\\x9b2J" in done.stdout
    assert not set("\x1b\x07\u202e\x9b") & set(done.stdout)


@pytest.mark.parametrize(("given", "told"), [("2-", "2-"), ("1-2", [1, 2]), ("steady", "steady")])
def test_the_steps_asked_for_are_told(given: str, told: object, capsys: pytest.CaptureFixture[str]) -> None:
    answer = json.loads(shown("step-breakdown", MLP, "--steps", given, "--format", "json", capsys=capsys))
    assert answer["params"] == {"select": {"steps": told}}
    assert answer["rows"]


def test_a_parameter_cannot_have_the_name_of_an_option_that_all_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = tmp_path / "mine.py"
    module.write_text(MINE.replace("longer", "limit"))
    assert main(["show", str(module), str(MLP)]) == 2
    assert "a parameter cannot be called limit" in capsys.readouterr().err
