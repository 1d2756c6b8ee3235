"""Edits of one Python file, from its syntax tree: arguments of a call, statements that go, lines that come.

All are computed from the file as it is, and applied together. What cannot be done for sure raises `CannotEditError`.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kinetoscope.compare.trials.source_tree import CannotEditError, SourceTree

_COMMENT: Final = re.compile(r"#[^\n]*")
_SIMPLE: Final = (ast.Name, ast.Constant, ast.Attribute, ast.Call, ast.Subscript)


@dataclass(frozen=True)
class Replacement:
    """Text that takes the place of characters [start, end)."""

    start: int
    end: int
    text: str


class SourceEdits:
    """The edits that are to be made to a file."""

    def __init__(self, tree: SourceTree) -> None:
        self.tree = tree
        self._replacements: list[Replacement] = []
        self._within: dict[tuple[int, int], list[str]] = {}

    def set_arguments(self, call: ast.Call, wanted: Mapping[str, str], positional: Sequence[str] = ()) -> None:
        """Give a call these arguments; "" takes one away. `{was}` is the present value of the argument."""
        given = {each.arg: each for each in call.keywords if each.arg}
        starred = any(isinstance(each, ast.Starred) for each in call.args)
        spread = any(each.arg is None for each in call.keywords)
        added = []
        edits: list[Replacement] = []
        for name, text in wanted.items():
            index = positional.index(name) if name in positional else len(call.args)
            if name in given:
                edits += self._new_value(given[name].value, text) if text else [self._without(given[name])]
            elif index < len(call.args) and not starred:
                edits += self._new_value(call.args[index], text or "None")
            elif spread or (starred and name in positional):
                raise CannotEditError("arguments are handed on that are made elsewhere")
            elif "{was}" in text:
                raise CannotEditError(f"{name} is not given")
            elif text:
                added.append(f"{name}={text}")
        if added:
            edits.append(self._with(call, ", ".join(added)))
        self._replacements += edits

    def _new_value(self, value: ast.expr, text: str) -> list[Replacement]:
        was = self.tree.source(value)
        new = text.replace("{was}", was if isinstance(value, _SIMPLE) else f"({was})")
        return [Replacement(*self.tree.span(value), new)] if new != was else []

    def _without(self, keyword: ast.keyword) -> Replacement:
        start, end = self.tree.span(keyword)
        before = self.tree.text[:start].rstrip()
        if before.endswith(","):
            return Replacement(len(before) - 1, end, "")
        after = re.compile(r"\s*,\s*").match(self.tree.text, end)
        return Replacement(start, after.end() if after else end, "")

    def _with(self, call: ast.Call, added: str) -> Replacement:
        _, end = self.tree.span(call)
        arguments: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
        last = max((self.tree.span(each)[1] for each in arguments), default=0)
        if not last:
            return Replacement(end - 1, end - 1, added)
        if last == end:  # one generator, whose parentheses are those of the call
            start, _ = self.tree.span(call.args[0])
            return Replacement(start, end, f"({self.tree.text[start:end]}, {added})")
        rest = _COMMENT.sub(lambda comment: " " * len(comment[0]), self.tree.text[last : end - 1])
        last += rest.rfind(")") + 1
        return Replacement(last, last, f", {added}")

    def replace_call(self, call: ast.Call, text: str) -> None:
        """Put something else in the place of a call."""
        self._replacements.append(Replacement(*self.tree.span(call), text))

    def remove(self, statement: ast.stmt) -> None:
        """Take a statement away; one that is alone in its block becomes `pass`."""
        start, end = self._own_lines(statement)
        bodies = (body for node in ast.walk(self.tree.module) if node is not self.tree.module for body in _bodies(node))
        if any(body == [statement] for body in bodies):
            self._replacements.append(Replacement(*self.tree.span(statement), "pass"))
        else:
            self._replacements.append(Replacement(start, end, ""))

    def put_within(self, statement: ast.stmt, context: str) -> None:
        """Put a statement into a `with`."""
        if any(hasattr(statement, name) for name in ("body", "cases")):
            raise CannotEditError("the call is in the head of a block")
        lines = self._own_lines(statement)
        contexts = self._within.setdefault(lines, [])
        if context not in contexts:
            contexts.append(context)

    def add_after(self, statement: ast.stmt, lines: Sequence[str]) -> None:
        """Add lines after a statement, as far indented as it is."""
        start, end = self._own_lines(statement)
        indent = _indent(self.tree.text[start:end])
        self._insert(end, [indent + line for line in lines])

    def add_after_imports(self, lines: Sequence[str]) -> None:
        """Add lines after the last import at the top level, but imports that are there already."""
        there = {
            ast.unparse(type(each)(**{**vars(each), "names": [name]}))
            for each in self.tree.imports
            for name in each.names
        }
        lines = [line for line in lines if line not in there]
        head: Sequence[ast.stmt] = self.tree.imports
        if not head and ast.get_docstring(self.tree.module) is not None:
            head = self.tree.module.body[:1]
        at = self._own_lines(head[-1])[1] if head else 0
        blank = [""] if any(line.startswith("def ") for line in lines) else []
        self._insert(at, [*blank, *lines, *blank])

    def _insert(self, at: int, lines: Sequence[str]) -> None:
        before = self.tree.newline if at and self.tree.text[at - 1] != "\n" else ""
        self._replacements.append(Replacement(at, at, before + "".join(line + self.tree.newline for line in lines)))

    def _own_lines(self, statement: ast.stmt) -> tuple[int, int]:
        """The lines of a statement, which must be alone on them, with their line ends."""
        start, end = self.tree.span(statement)
        first, last = self.tree.starts[statement.lineno - 1], self.tree.text.find("\n", end) + 1 or len(self.tree.text)
        rest = _COMMENT.sub("", self.tree.text[end:last]).strip()
        if self.tree.text[first:start].strip() or rest:
            raise CannotEditError(f"line {statement.lineno} has several statements")
        return first, last

    def edited(self) -> str:
        """The file with all edits.

        Raises:
            CannotEditError: two of them are about the same text, or what comes out is no Python.
        """
        edits = list(dict.fromkeys(self._replacements))
        for lines, contexts in self._within.items():
            mine = [each for each in edits if _is_inside(each, *lines)]
            edits = [each for each in edits if each not in mine]
            edits.append(Replacement(*lines, self._in_contexts(lines, contexts, mine)))
        text = _applied(self.tree.text, edits)
        try:
            ast.parse(text)
        except SyntaxError as error:
            raise CannotEditError(f"the file would be no Python any more: {error}") from error
        return text

    def _in_contexts(self, lines: tuple[int, int], contexts: Sequence[str], edits: Sequence[Replacement]) -> str:
        """The lines of a statement in a `with`, edited."""
        start, end = lines
        moved = [Replacement(each.start - start, each.end - start, each.text) for each in edits]
        text = _applied(self.tree.text[start:end], moved)
        indent = _indent(text)
        deeper = "\t" if indent.startswith("\t") else "    "
        inner = _deeper(text, deeper)
        return f"{indent}with {', '.join(contexts)}:{self.tree.newline}{inner}"


def _is_inside(edit: Replacement, start: int, end: int) -> bool:
    """Is it about something between the two, and not about the border?"""
    return start <= edit.start < edit.end <= end or start < edit.start == edit.end < end


def _applied(text: str, edits: Sequence[Replacement]) -> str:
    ordered = sorted(edits, key=lambda each: (each.start, each.end))
    for one, other in itertools.pairwise(ordered):
        if other.start < one.end:
            raise CannotEditError("two changes are made to the same text")
    for each in reversed(ordered):
        text = text[: each.start] + each.text + text[each.end :]
    return text


def _deeper(text: str, by: str) -> str:
    """A statement further indented; lines of a text in it, which would become another text, stay as they are."""
    of_text: set[int] = set()
    for node in ast.walk(ast.parse(text.strip())):
        if isinstance(node, (ast.JoinedStr, ast.Constant)) and node.end_lineno is not None:
            of_text |= set(range(node.lineno + 1, node.end_lineno + 1))
    lines = text.splitlines(keepends=True)
    return "".join(line if number in of_text or not line.strip() else by + line for number, line in enumerate(lines, 1))


def _indent(text: str) -> str:
    return text[: len(text) - len(text.lstrip(" \t"))]


def _bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        body = getattr(node, name, None)
        if isinstance(body, list):
            yield body
