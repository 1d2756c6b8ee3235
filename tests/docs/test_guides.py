"""The guides are executed: what a page tells the reader to type works, and prints what the page says it prints.

In each page under docs/, README.md, CONTRIBUTING.md and the skill file, in a folder where `trace.json.gz` is the demo
trace, `runs/compiled` and `runs/recompiled` are recordings of compiled models, and `oom.pickle.gz`, `leak.pickle.gz`
and `training.pickle.gz` are memory snapshots:

- fenced `python` blocks run in order in one namespace a page; one that opens with `# file: NAME` is written there too;
- in fenced `console` blocks each line `$ kinetoscope ...` goes to the command line's main(); the lines below it must be
  what it prints (to stderr if it fails), where a line of dots stands for any lines. `$ echo $?` shows the exit code;
  other commands are for the reader only. Where nothing is said the exit code must be 0.
"""

from __future__ import annotations

import re
import shlex
import shutil
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kinetoscope import extensions
from kinetoscope.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SKILL = ROOT / "src/kinetoscope/integrations/assistant/SKILL.md"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", SKILL, *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ANY_LINES = "..."


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """(language, text) of each block that is to be run."""
    for match in FENCE.finditer(page.read_text(encoding="utf-8")):
        yield match[1], match[2]


def commands(console: str) -> Iterator[tuple[str, str]]:
    """(command, what the page says it prints) of each prompt in a console block."""
    for part in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def agrees(said: str, printed: str) -> bool:
    """Whether `printed` is what the page says, line by line; a line of dots stands for any number of lines."""
    pattern = "".join(
        r"(?:[^\n]*\n)*?" if line.strip() == ANY_LINES else re.escape(line.rstrip()) + r"[ ]*\n"
        for line in said.rstrip().splitlines()
    )
    return re.fullmatch(pattern, printed.rstrip() + "\n") is not None


def run(command: str) -> int:
    """Give a `kinetoscope ...` line to the command line, as a shell would."""
    try:
        return main(shlex.split(command, comments=True)[1:])
    except SystemExit as stop:  # argparse leaves this way
        return int(stop.code or 0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with the demo trace as `trace.json.gz` and a compiled model in `runs`."""
    with as_file(files("kinetoscope") / "demo") as demo:
        [trace] = demo.glob("*.json.gz")
        shutil.copy(trace, tmp_path / "trace.json.gz")
    shutil.copytree(ROOT / "tests/traces/compiled", tmp_path / "runs/compiled")
    shutil.copytree(ROOT / "tests/traces/recompiled/torch-2.15", tmp_path / "runs/recompiled")
    for name, program in (("oom", "fragmentation"), ("leak", "leak"), ("training", "training")):
        shutil.copy(ROOT / f"tests/snapshots/real/{program}_2.15.0.pickle.gz", tmp_path / f"{name}.pickle.gz")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(extensions, "_modules", {})  # what a page extends is forgotten after it
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_does_what_it_says(page: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    namespace: dict[str, object] = {"__name__": "guide"}
    code = 0
    for language, text in blocks(page):
        if language == "python":
            if text.startswith("# file: "):
                (folder / text.partition("\n")[0].removeprefix("# file: ")).write_text(text, encoding="utf-8")
            exec(compile(text, str(page), "exec", dont_inherit=True), namespace)  # noqa: S102 - our own pages
            continue
        for command, said in commands(text):
            capsys.readouterr()
            if command.startswith("kinetoscope "):
                code = run(command)
                printed = capsys.readouterr()
                shown = printed.err if code else printed.out  # stderr also has the progress of a first run
                if said.strip():
                    assert agrees(said, shown), f"$ {command}\n{shown}"
                else:
                    assert code == 0, f"$ {command}\n{shown}"
            elif command == "echo $?":
                assert said.strip() == str(code)


def test_agreement_is_strict_and_dots_stand_for_lines() -> None:
    assert agrees("a\n...\nz\n", "a\nb\nc\nz\n")
    assert agrees("a\n...\nz\n", "a\nz\n")
    assert not agrees("a\n...\nz\n", "a\nb\n")
    assert not agrees("a\n", "a\nb\n")
    assert not agrees("a.b\n", "axb\n")
