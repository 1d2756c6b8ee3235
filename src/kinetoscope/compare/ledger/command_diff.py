"""Differences of two command lines, and of two sets of parameters or versions, in a few words each."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kinetoscope.views.text import middle, printable

_MAX_CELLS: Final = 60
_NUMBER: Final = re.compile(r"-\.?\d")


def command_changes(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """Words that differ: `--workers 0 → 4`, `+ --amp`, `− --compile`, `train.py → train2.py`.

    `--a=b` and `--a b` are the same, and so are the same words in another order.
    """
    one, other = _words(before), _words(after)
    if not one or not other or sorted(one) == sorted(other):
        return
    for what, i, j, k, m in difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if what == "equal":
            continue
        gone, come = one[i:j], other[k:m]
        if _is_value(gone) and _is_value(come):
            yield short(f"{_option_at_end(one[:i])}{gone[0]} → {come[0]}")
            gone, come = gone[1:], come[1:]
        yield from (short(f"− {' '.join(part)}") for part in _parts(gone))
        yield from (short(f"+ {' '.join(part)}") for part in _parts(come))


def _is_value(words: Sequence[str]) -> bool:
    """Is the first of some words no option?"""
    return bool(words) and not _is_option(words[0])


def _option_at_end(words: Sequence[str]) -> str:
    """The option that some words end with, and a space; "" if they end with none."""
    return f"{words[-1]} " if words and _is_option(words[-1]) else ""


def _words(command: Sequence[str]) -> list[str]:
    """The words, an option and its value apart."""
    parts: list[str] = []
    for word in command:
        name, equals, value = word.partition("=")
        parts += [name, value] if equals and _is_option(word) else [word]
    return parts


def _parts(words: Sequence[str]) -> Iterator[list[str]]:
    """Options with what follows them."""
    part: list[str] = []
    for word in words:
        if _is_option(word) and part:
            yield part
            part = []
        part.append(word)
    if part:
        yield part


def _is_option(word: str) -> bool:
    return word.startswith("-") and len(word) > 1 and not _NUMBER.match(word)


def mapping_changes(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """Values that differ: `torch 2.2.0 → 2.3.1`; one that only one of them has is said so."""
    for name in dict.fromkeys([*before, *after]):
        then, now = before.get(name), after.get(name)
        if then == now:
            continue
        if then is None or now is None:
            yield short(f"{'−' if now is None else '+'} {name} {then if now is None else now}")
        else:
            yield f"{short(name)} {short(then)} → {short(now)}"


def flat(facts: Mapping[str, Any], above: str = "") -> dict[str, str]:
    """Parameters, however nested, as texts: `{"optim": {"lr": 0.1}}` is `optim.lr`."""
    flattened: dict[str, str] = {}
    for name, value in facts.items():
        if isinstance(value, dict) and value:
            flattened |= flat(value, f"{above}{name}.")
        else:
            flattened[f"{above}{name}"] = value if isinstance(value, str) else json.dumps(value)
    return flattened


def short(text: str) -> str:
    """The text, printable, without its middle where it is long."""
    return middle(printable(text), _MAX_CELLS)
