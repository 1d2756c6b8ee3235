"""Edits of one Python file, from its syntax tree: arguments of a call, statements that go, lines that come.

All are computed from the file as it is, and applied together. What cannot be done for sure raises `CannotEditError`.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

_COMMENT: Final = re.compile(r"#[^\n]*")
_SIMPLE: Final = (ast.Name, ast.Constant, ast.Attribute, ast.Call, ast.Subscript)
_IN_PLACE: Final = frozenset({"to", "cuda", "cpu", "train", "eval", "float", "requires_grad_"})
"""Methods of a module that return the module itself."""


class CannotEditError(ValueError):
    """The place is not what it was said to be, or more than one thing might be meant."""


@dataclass(frozen=True)
class Replacement:
    """Text that takes the place of characters [start, end)."""

    start: int
    end: int
    text: str


class SourceFile:
    """A file, and the edits that are to be made to it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.newline = "\r\n" if "\r\n" in text else "\n"
        try:
            self.tree = ast.parse(text)
        except (SyntaxError, ValueError) as error:
            raise CannotEditError(f"the file is no Python: {error}") from error
        self._replacements: list[Replacement] = []
        self._within: dict[tuple[int, int], list[str]] = {}

    # --- finding ---

    @cached_property
    def _starts(self) -> list[int]:
        """The first character of each line, by its number less one."""
        return [0, *(each.end() for each in re.finditer("\n", self.text))]

    def _at(self, line: int, column: int) -> int:
        """The character at a line and a column, which is in bytes of UTF-8."""
        start = self._starts[line - 1]
        text = self.text[start : start + column]  # at most as many characters as bytes
        return start + len(text.encode()[:column].decode(errors="ignore"))

    def _span(self, node: ast.expr | ast.stmt | ast.keyword) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)

    def _source(self, node: ast.expr) -> str:
        start, end = self._span(node)
        return self.text[start:end]

    @cached_property
    def _imports(self) -> list[ast.Import | ast.ImportFrom]:
        """The imports at the top level."""
        return [each for each in self.tree.body if isinstance(each, (ast.Import, ast.ImportFrom))]

    @cached_property
    def _names(self) -> dict[str, str]:
        """Names of this file, and what they stand for: names under which it imports, and bases of its classes."""
        names: dict[str, str] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.ImportFrom, ast.Import)):
                names |= {each.asname: each.name.rpartition(".")[2] for each in node.names if each.asname}
            elif isinstance(node, ast.ClassDef) and len(node.bases) == 1:
                names[node.name] = _last_name(node.bases[0])
        return names

    def is_named(self, function: ast.expr, names: Sequence[str]) -> bool:
        """Is a function called by one of these names, or by another that stands for it in this file?"""
        name, left = _last_name(function), 5
        while name not in names and name in self._names and left:
            name, left = self._names[name], left - 1
        return name in names

    def calls_at(self, line: int) -> list[ast.Call]:
        """The calls that begin in a line."""
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.Call) and line in _lines_of(node)]

    def call(self, line: int, names: Sequence[str]) -> ast.Call:
        """The call of one of these names that begins in a line; without names, or with others, the only one there."""
        there = self.calls_at(line)
        meant = [each for each in there if self.is_named(each.func, names)] or there
        if len(meant) != 1:
            raise CannotEditError(f"line {line} has {len(meant) or 'no'} calls that may be meant")
        return meant[0]

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that a node is in."""
        innermost: ast.stmt | None = None
        for each in ast.walk(self.tree):
            if isinstance(each, ast.stmt) and any(inner is node for inner in ast.walk(each)):
                innermost = each  # `walk` goes from the outside to the inside
        if innermost is None:
            raise CannotEditError("it is in no statement")
        return innermost

    def statement_at(self, line: int) -> ast.stmt:
        """The statement of the calls that begin in a line."""
        statements = {id(each): each for each in map(self.statement, self.calls_at(line))}
        if len(statements) != 1:
            raise CannotEditError(f"line {line} has {len(statements) or 'no'} statements with calls")
        return next(iter(statements.values()))

    def made(self, line: int, kind: str) -> tuple[ast.stmt, str]:
        """The statement that makes what is called in a line, of the class `kind`, and its name there."""
        called = {ast.unparse(each.func) for each in self.calls_at(line)}
        makes = list(self._assignments())
        of_kind = [each for each in makes if self.is_named(each[2].func, (kind,))]
        for among in (
            [each for each in of_kind if each[1] in called],
            of_kind,
            [each for each in makes if each[1] in called],
        ):
            if len(among) == 1:
                return among[0][0], among[0][1]
        raise CannotEditError(f"no one statement makes what line {line} calls")

    def _assignments(self) -> Iterator[tuple[ast.stmt, str, ast.Call]]:
        """Statements that give what a call returns one name: `model = Net().to(device)` is made by `Net()`."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                target, value = node.targets[0], node.value
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                target, value = node.target, node.value
            else:
                continue
            while (
                isinstance(value, ast.Call)
                and isinstance(value.func, ast.Attribute)
                and value.func.attr in _IN_PLACE
                and isinstance(value.func.value, ast.Call)
            ):
                value = value.func.value
            if isinstance(value, ast.Call) and isinstance(target, (ast.Name, ast.Attribute)):
                yield node, ast.unparse(target), value

    # --- edits ---

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
        was = self._source(value)
        new = text.replace("{was}", was if isinstance(value, _SIMPLE) else f"({was})")
        return [Replacement(*self._span(value), new)] if new != was else []

    def _without(self, keyword: ast.keyword) -> Replacement:
        start, end = self._span(keyword)
        before = self.text[:start].rstrip()
        if before.endswith(","):
            return Replacement(len(before) - 1, end, "")
        after = re.compile(r"\s*,\s*").match(self.text, end)
        return Replacement(start, after.end() if after else end, "")

    def _with(self, call: ast.Call, added: str) -> Replacement:
        _, end = self._span(call)
        arguments: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
        last = max((self._span(each)[1] for each in arguments), default=0)
        if not last:
            return Replacement(end - 1, end - 1, added)
        if last == end:  # one generator, whose parentheses are those of the call
            start, _ = self._span(call.args[0])
            return Replacement(start, end, f"({self.text[start:end]}, {added})")
        rest = _COMMENT.sub(lambda comment: " " * len(comment[0]), self.text[last : end - 1])
        last += rest.rfind(")") + 1
        return Replacement(last, last, f", {added}")

    def replace_call(self, call: ast.Call, text: str) -> None:
        """Put something else in the place of a call."""
        self._replacements.append(Replacement(*self._span(call), text))

    def remove(self, statement: ast.stmt) -> None:
        """Take a statement away; one that is alone in its block becomes `pass`."""
        start, end = self._own_lines(statement)
        bodies = (body for node in ast.walk(self.tree) if node is not self.tree for body in _bodies(node))
        if any(body == [statement] for body in bodies):
            self._replacements.append(Replacement(*self._span(statement), "pass"))
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
        indent = _indent(self.text[start:end])
        self._insert(end, [indent + line for line in lines])

    def add_after_imports(self, lines: Sequence[str]) -> None:
        """Add lines after the last import at the top level, but imports that are there already."""
        there = {
            ast.unparse(type(each)(**{**vars(each), "names": [name]})) for each in self._imports for name in each.names
        }
        lines = [line for line in lines if line not in there]
        head: Sequence[ast.stmt] = self._imports
        if not head and ast.get_docstring(self.tree) is not None:
            head = self.tree.body[:1]
        at = self._own_lines(head[-1])[1] if head else 0
        blank = [""] if any(line.startswith("def ") for line in lines) else []
        self._insert(at, [*blank, *lines, *blank])

    def binds(self, name: str) -> bool:
        """Is the name imported at the top level?"""
        return any((each.asname or each.name).split(".")[0] == name for node in self._imports for each in node.names)

    def _insert(self, at: int, lines: Sequence[str]) -> None:
        before = self.newline if at and self.text[at - 1] != "\n" else ""
        self._replacements.append(Replacement(at, at, before + "".join(line + self.newline for line in lines)))

    def _own_lines(self, statement: ast.stmt) -> tuple[int, int]:
        """The lines of a statement, which must be alone on them, with their line ends."""
        start, end = self._span(statement)
        first, last = self._starts[statement.lineno - 1], self.text.find("\n", end) + 1 or len(self.text)
        rest = _COMMENT.sub("", self.text[end:last]).strip()
        if self.text[first:start].strip() or rest:
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
        text = _applied(self.text, edits)
        try:
            ast.parse(text)
        except SyntaxError as error:
            raise CannotEditError(f"the file would be no Python any more: {error}") from error
        return text

    def _in_contexts(self, lines: tuple[int, int], contexts: Sequence[str], edits: Sequence[Replacement]) -> str:
        """The lines of a statement in a `with`, edited."""
        start, end = lines
        moved = [Replacement(each.start - start, each.end - start, each.text) for each in edits]
        text = _applied(self.text[start:end], moved)
        indent = _indent(text)
        deeper = "\t" if indent.startswith("\t") else "    "
        inner = _deeper(text, deeper)
        return f"{indent}with {', '.join(contexts)}:{self.newline}{inner}"


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


def _last_name(function: ast.expr) -> str:
    """`DataLoader` of `torch.utils.data.DataLoader`."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _lines_of(call: ast.Call) -> tuple[int, ...]:
    """The lines in which Python says that a call is: where it begins, and for a method where its name is."""
    named = call.func.end_lineno if isinstance(call.func, ast.Attribute) else None
    return (call.lineno,) if named is None else (call.lineno, named)


def _bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        body = getattr(node, name, None)
        if isinstance(body, list):
            yield body
