"""Writes one page for each analysis and each rule, and their indexes, from the facts that they declare.

`python docs/generate.py` writes docs/analyses/*.md and docs/rules/*.md; with `--check` it says which pages are stale,
and exits with 1 if any is.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from kinetoscope.advisor.rule import HEADINGS, Rule
from kinetoscope.advisor.rules import families, rules
from kinetoscope.analyses import ANALYSES, GROUPS, NAMES, named
from kinetoscope.schema import Analysis, Column, Parameter

FOLDER = Path(__file__).parent

_MADE = "<!-- Made by docs/generate.py from src/kinetoscope/{}; do not edit. -->\n"
_END = "\n"
_HEADING = re.compile(r"^(Method|How to read it|Limits)\.", re.MULTILINE)  # how the paragraphs of a docstring begin


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a page is stale")
    parser.add_argument("--folder", type=Path, default=FOLDER, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    found = 0
    for name, wanted in (("analyses", pages()), ("rules", pages_of_rules())):
        folder = args.folder / name
        for stale in differing(wanted, folder):
            found += 1
            if args.check:
                sys.stderr.write(f"{folder / stale} is stale: run python docs/generate.py\n")
            elif stale in wanted:
                folder.mkdir(parents=True, exist_ok=True)
                (folder / stale).write_text(wanted[stale], encoding="utf-8")
            else:
                (folder / stale).unlink()
    return 1 if args.check and found else 0


def pages() -> dict[str, str]:
    """What should be in the folder of analyses: file name to text."""
    made = {f"{analysis.name}.md": page(analysis) for analysis in ANALYSES}
    return made | {"index.md": index()}


def pages_of_rules() -> dict[str, str]:
    """What should be in the folder of rules: file name to text."""
    return {f"{rule.code}.md": page_of_rule(rule) for rule in rules()} | {"index.md": index_of_rules()}


def differing(wanted: dict[str, str], folder: Path) -> list[str]:
    """Names of the pages that are missing, different, or no longer wanted."""
    found = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    return sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))


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
