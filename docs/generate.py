"""Writes the pages of analyses, rules and trials from what they declare, the types of public names, three pictures.

`python docs/generate.py` writes docs/analyses/*.md, docs/rules/*.md, docs/trials.md, docs/notes.md (`notes.py`),
docs/images/house*.svg (`house.py` draws them), docs/images/speed.svg (`speed.py`) and src/kinetoscope/__init__.pyi;
with `--check` it says which of them are stale, and exits with 1 if any is.
"""

from __future__ import annotations

import argparse
import builtins
import functools
import inspect
import re
import runpy
import sys
from pathlib import Path

from kinetoscope import HOMES
from kinetoscope.advisor.rule import HEADINGS, Rule
from kinetoscope.advisor.rules import families, rules
from kinetoscope.analyses import ANALYSES, GROUPS, NAMES, named
from kinetoscope.model.analysis import Analysis
from kinetoscope.record.trials import ours
from kinetoscope.record.trials.trial import Trial
from kinetoscope.schema import Column, Parameter

ROOT = Path(__file__).parents[1]

_MADE = "<!-- Made by docs/generate.py from src/kinetoscope/{}; do not edit. -->\n"
_END = "\n"
_HEADING = re.compile(r"^(Method|How to read it|Limits)\.", re.MULTILINE)  # how the paragraphs of a docstring begin


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is stale")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    stale = 0
    for folder, pattern, texts in (
        ("docs/analyses", "*.md", pages()),
        ("docs/rules", "*.md", pages_of_rules()),
        ("docs", "trials.md", {"trials.md": page_of_trials()}),
        ("docs", "notes.md", pictures("notes.py")),
        ("docs/images", "house*.svg", pictures("house.py")),
        ("docs/images", "speed.svg", pictures("speed.py")),
        ("src/kinetoscope", "__init__.pyi", {"__init__.pyi": public_types()}),
    ):
        for path, text in differing(texts, args.root / folder, pattern):
            stale += 1
            if args.check:
                sys.stderr.write(f"{path} is stale: run python docs/generate.py\n")
            elif text is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
    return 1 if args.check and stale else 0


@functools.cache
def pictures(script: str) -> dict[str, str]:
    """What a script beside this one makes: file name to text."""
    made: dict[str, str] = runpy.run_path(str(Path(__file__).with_name(script)))[
        "pictures" if script != "notes.py" else "page"
    ]()
    return made


def pages() -> dict[str, str]:
    """What should be in the folder of analyses: file name to text."""
    made = {f"{analysis.name}.md": page(analysis) for analysis in ANALYSES}
    return made | {"index.md": index()}


def pages_of_rules() -> dict[str, str]:
    """What should be in the folder of rules: file name to text."""
    return {f"{rule.code}.md": page_of_rule(rule) for rule in rules()} | {"index.md": index_of_rules()}


def differing(texts: dict[str, str], folder: Path, pattern: str) -> list[tuple[Path, str | None]]:
    """The files that are missing, different, or no longer wanted, each with the text that it should have."""
    present = {path.name: path.read_text(encoding="utf-8") for path in folder.glob(pattern)}
    names = sorted(name for name in texts.keys() | present.keys() if texts.get(name) != present.get(name))
    return [(folder / name, texts.get(name)) for name in names]


def public_types() -> str:
    """The stub of the package, which gives its names their types: at run time they are loaded when first used."""
    homes = HOMES | {"OverRanks": "schema", "Readable": "model.job"}
    imports = sorted(
        (f"from kinetoscope.{module} import {name} as {name}" + "  # noqa: A004" * (name in dir(builtins)))
        for name, module in homes.items()
    )
    head = ["# Made by docs/generate.py from src/kinetoscope; do not edit.", "", "from typing import Literal", ""]
    names = ["", "HOMES: dict[str, str]", "__all__: list[str]", "__version__: str", ""]
    return _END.join([*head, *imports, *names, *(_signature(named(name)) for name in sorted(NAMES)), ""])


def _signature(analysis: Analysis) -> str:
    own = [f"{each.name}: {_annotation(each)} = {each.default!r}" for each in analysis.parameters]
    listed = "".join(f"    {each},{_END}" for each in ["job: Job | Readable", "*", "select: Selection = ...", *own])
    return f"def {analysis.name}({_END}{listed}) -> Result: ...".replace("'", '"')


def _annotation(parameter: Parameter) -> str:
    return "OverRanks" if parameter.name == "across_ranks" else inspect.formatannotation(parameter.type)


def index_of_rules() -> str:
    intro = (
        "What `kinetoscope advise` looks for. Each rule says what it checks, why it matters, and what to do; each"
        " finding says how much of a step is at stake, from sure to possible, and where to look."
    )
    parts = [f"{_MADE.format('advisor/rules')}\n# Rules", intro]
    for heading, of_family in families().items():
        rows = "\n".join(
            f"| [{rule.code}]({rule.code}.md) | {_cell(rule.title)} | {_cell(rule.doc.partition(_END)[0])} |"
            for rule in of_family
        )
        if rows:
            parts.append(f"## {heading}\n\n| rule | trouble | question |\n| --- | --- | --- |\n{rows}")
    entries = _END.join(rule.code for rule in rules())
    return "\n\n".join([*parts, f"```{{toctree}}\n:hidden:\n\n{entries}\n```"]) + _END


def page_of_rule(rule: Rule) -> str:
    text = re.sub(rf"^({'|'.join(HEADINGS)})\.", r"**\1.**", rule.doc, flags=re.MULTILINE)
    return f"{_MADE.format('advisor/rules')}\n# {rule.code}: {rule.title}\n\n{text}\n"


_EFFECTS = {"none": "the same", "rounding": "other last digits", "training": "another training"}
_NEEDS = {"": "", "device": "a GPU", "ranks": "several ranks"}


def page_of_trials() -> str:
    """What `kinetoscope try` can change: a row for each trial."""
    intro = (
        "What `kinetoscope try` changes in a process, see [Trying changes](try.md). A trial is run where a finding of"
        " one of its rules asks for it, or, where none is named or it says *always*, where a look at the program finds"
        " what it changes. *Results* is what it may do to them; losses are compared all the same."
    )
    rows = [
        f"| `{trial.name}` | {_cell(trial.title)} | {_asked_by(trial)} | {_EFFECTS[trial.effect]} | {_wanted(trial)} |"
        for trial in ours()
    ]
    head = "| trial | tries to | asked for by | results | needs |\n| --- | --- | --- | --- | --- |"
    return "\n\n".join([f"{_MADE.format('record/trials')}\n# Trials", intro, _END.join([head, *rows])]) + _END


def _asked_by(trial: Trial) -> str:
    codes = [f"[{code}](rules/{code}.md)" for code in trial.answers]
    return ", ".join([*codes, *(["always"] if trial.unasked else [])])


def _wanted(trial: Trial) -> str:
    allowed = f"`--allow {trial.allow}`" if trial.allow else ""
    return ", ".join(filter(None, [_NEEDS[trial.needs], allowed]))


def index() -> str:
    parts = [f"{_MADE.format('analyses')}\n# Analyses"]
    for heading, names in GROUPS.items():
        rows = "\n".join(f"| [{name}]({name}.md) | {_cell(named(name).question)} |" for name in names)
        parts.append(f"## {heading}\n\n| analysis | question |\n| --- | --- |\n{rows}")
    entries = "\n".join(NAMES)
    return "\n\n".join([*parts, f"```{{toctree}}\n:hidden:\n\n{entries}\n```"]) + "\n"


def page(analysis: Analysis) -> str:
    spelled = analysis.name.replace("_", "-")
    parts = [
        f"{_MADE.format('analyses')}\n# {analysis.title}",
        _HEADING.sub(r"**\1.**", analysis.doc),
        f"## Ask it\n\n```console\n$ kinetoscope show {spelled} PATH\n```",
        f"```python\nimport kinetoscope\n\njob = kinetoscope.read(PATH)\nprint(kinetoscope.{analysis.name}(job))\n```",
    ]
    if analysis.parameters:
        parts.append(f"## Parameters\n\n{_parameters(analysis.parameters)}")
    parts.append(f"## Columns\n\n{_columns(analysis.schema.columns)}")
    return "\n\n".join(parts) + "\n"


def _parameters(parameters: tuple[Parameter, ...]) -> str:
    rows = "\n".join(
        f"| `{each.name}` | `--{each.name.replace('_', '-')}` | {_cell(_type(each))} | {each.unit} "
        f"| `{each.default!r}` | {_cell(each.doc)} |"
        for each in parameters
    )
    return f"| name | option | type | unit | default | meaning |\n| --- | --- | --- | --- | --- | --- |\n{rows}"


def _type(parameter: Parameter) -> str:
    if parameter.choices:
        return ", ".join(f"`{choice}`" for choice in parameter.choices)
    return f"`{getattr(parameter.type, '__name__', parameter.type)}`"


def _columns(columns: tuple[Column, ...]) -> str:
    rows = "\n".join(f"| `{each.name}` | {each.dtype} | {each.unit} | {_cell(each.doc)} |" for each in columns)
    return f"| name | type | unit | meaning |\n| --- | --- | --- | --- |\n{rows}"


def _cell(text: str) -> str:
    """Text in a cell of a table: one line, no bars that would end the cell."""
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
