"""A Python file of the user, and what is where in it: calls by their lines, statements, what makes a model."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final

_IN_PLACE: Final = frozenset({"to", "cuda", "cpu", "train", "eval", "float", "requires_grad_"})
"""Methods of a module that return the module itself."""


class CannotEditError(ValueError):
    """The place is not what it was said to be, or more than one thing might be meant."""


class SourceTree:
    """The text of a file and its syntax tree, `module`.

    Raises:
        CannotEditError: it is no Python.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.newline = "\r\n" if "\r\n" in text else "\n"
        try:
            self.module = ast.parse(text)
        except (SyntaxError, ValueError) as error:
            raise CannotEditError(f"the file is no Python: {error}") from error

    @cached_property
    def starts(self) -> list[int]:
        """The first character of each line, by its number less one."""
        return [0, *(each.end() for each in re.finditer("\n", self.text))]

    def _at(self, line: int, column: int) -> int:
        """The character at a line and a column, which is in bytes of UTF-8."""
        start = self.starts[line - 1]
        text = self.text[start : start + column]  # at most as many characters as bytes
        return start + len(text.encode()[:column].decode(errors="ignore"))

    def span(self, node: ast.expr | ast.stmt | ast.keyword) -> tuple[int, int]:
        """The characters [start, end) of a node."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)

    def source(self, node: ast.expr) -> str:
        """The text of an expression."""
        start, end = self.span(node)
        return self.text[start:end]

    @cached_property
    def imports(self) -> list[ast.Import | ast.ImportFrom]:
        """The imports at the top level."""
        return [each for each in self.module.body if isinstance(each, (ast.Import, ast.ImportFrom))]

    @cached_property
    def _names(self) -> dict[str, str]:
        """Names of this file, and what they stand for: names under which it imports, and bases of its classes."""
        names: dict[str, str] = {}
        for node in ast.walk(self.module):
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
        return [node for node in ast.walk(self.module) if isinstance(node, ast.Call) and line in _lines_of(node)]

    def call(self, line: int, names: Sequence[str]) -> ast.Call:
        """The call of one of these names that begins in a line; without names, the only one there."""
        meant = [each for each in self.calls_at(line) if not names or self.is_named(each.func, names)]
        if len(meant) != 1:
            raise CannotEditError(f"line {line} has {len(meant) or 'no'} calls that may be meant")
        return meant[0]

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that a node is in."""
        innermost: ast.stmt | None = None
        for each in ast.walk(self.module):
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
        for node in ast.walk(self.module):
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

    def binds(self, name: str) -> bool:
        """Is the name imported at the top level?"""
        return any((each.asname or each.name).split(".")[0] == name for node in self.imports for each in node.names)


def _last_name(function: ast.expr) -> str:
    """`DataLoader` of `torch.utils.data.DataLoader`."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _lines_of(call: ast.Call) -> tuple[int, ...]:
    """The lines in which Python says that a call is: where it begins, and for a method where its name is."""
    named = call.func.end_lineno if isinstance(call.func, ast.Attribute) else None
    return (call.lineno,) if named is None else (call.lineno, named)
