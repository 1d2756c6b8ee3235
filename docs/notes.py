"""The page of the codes of notes, read from the source: `docs/generate.py` writes it.

A code stands with the words of its note where it is made; what is computed is an ellipsis.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "kinetoscope"

_MADE = "<!-- Made by docs/generate.py from the source; do not edit. -->\n"
_INTRODUCTION: Final = """\
# Notes

An answer says in notes what it leaves out, assumes, or found odd. A note is a sentence with a code: programs ask for
the code, which stays while words change. JSON has both (`"notes": [{"code": …, "severity": …, "text": …}]`), and
`about` where a code is of several things; Python has `note.code`, `note.severity` and `note.about`, and the note itself
is the text. Notes on the health of a trace are explained in [Reading traces](reading-traces.md).

| code | words | made in |
| --- | --- | --- |
"""


class NoteMade(NamedTuple):
    """A place of the source that makes a note: its code, its words, the module's path."""

    code: str
    words: str
    module: str


@cache
def made() -> tuple[NoteMade, ...]:
    """Every place of the source that makes a note of a code that is spelled there."""
    return tuple(each for path in sorted(SOURCE.rglob("*.py")) for each in _of_module(path))


def page() -> dict[str, str]:
    """The page: file name to text."""
    words: dict[tuple[str, str], list[str]] = {}
    for each in made():
        words.setdefault((each.code, each.module), []).append(each.words)
    rows = [
        f"| `{code}` | {' / '.join(dict.fromkeys(filter(None, said))) or '…'} | `{module}` |"
        for (code, module), said in sorted(words.items())
    ]
    return {"notes.md": _MADE + _INTRODUCTION + "\n".join(rows) + "\n"}


def _of_module(path: Path) -> Iterator[NoteMade]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    module = path.relative_to(SOURCE).as_posix().removesuffix(".py")
    for scope in (each for each in ast.walk(tree) if isinstance(each, ast.Module | ast.FunctionDef)):
        for call in _calls(scope):
            code = call.args[0]
            if isinstance(code, ast.Constant) and isinstance(code.value, str) and code.value and len(call.args) > 1:
                yield NoteMade(code.value, _words(call.args[1], scope, call.lineno).replace("|", "\\|"), module)


def _calls(scope: ast.AST) -> Iterator[ast.Call]:
    """The notes that are made in a scope, but not in a function inside it."""
    for child in ast.iter_child_nodes(scope):
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id == "Note" and child.args:
            yield child
        if not isinstance(child, ast.FunctionDef):
            yield from _calls(child)


def _words(text: ast.expr, scope: ast.AST, line: int) -> str:
    match text:
        case ast.Constant(value=str(words)):
            return words
        case ast.JoinedStr(values=parts):
            return "".join(part.value if isinstance(part, ast.Constant) else "…" for part in parts)  # type: ignore[misc]
        case ast.BinOp(left=left, right=right):
            return _words(left, scope, line) + _words(right, scope, line)
        case ast.IfExp(body=body):
            return _words(body, scope, line)
        case ast.Name(id=name):
            return "".join(_words(each, scope, line) for each in _assigned(name, scope, line))
    return "…"


def _assigned(name: str, scope: ast.AST, line: int) -> list[ast.expr]:
    """What a name has last been given before a line, with what was added to it."""
    values: list[tuple[int, bool, ast.expr]] = []
    for node in ast.walk(scope):
        match node:
            case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name and node.lineno <= line:
                values.append((node.lineno, False, value))
            case ast.AugAssign(target=ast.Name(id=target), value=value) if target == name and node.lineno <= line:
                values.append((node.lineno, True, value))
    values.sort(key=lambda each: each[0])
    first = max((place for place, each in enumerate(values) if not each[1]), default=0)
    return [value for _, _, value in values[first:]]
