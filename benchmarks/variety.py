"""Texts of which no two are the same: names as a compiler or a code generator makes them, and sets of argument keys.

A generated trace repeats its source, and real jobs do not: a long one has hundreds of thousands of distinct frames,
templates and stacks. The pools here put that back. They depend on nothing but their arguments.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.layout import MORE, Style, text
from benchmarks.marking import Form, Quoted, Slot

# Of these events each name may become one of many. The others are known by their names, and so are some of these.
_RENAMED = frozenset({"kernel", "cpu_op", "Operator", "python_function"})
_KEPT_NAMES = ("ProfilerStep", "nccl", "record_param_comms", "c10d::", "Memcpy", "Memset", "Optimizer")
_LONG_ARGUMENT = "Call stack"
_SHAPES = "shapes"

_WORDS = (
    "float", "double", "int", "long", "bool", "c10::Half", "c10::BFloat16", "c10::complex<float>", "unsigned int",
    "at::native::CUDAFunctor_add<float>", "at::detail::Array<char*, 3>", "OffsetCalculator<2, unsigned int, false>",
    "at::native::AUnaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >", "true", "false",
    "cutlass::epilogue::thread::LinearCombination<cutlass::half_t, 8, float, float>", "at::native::reduce_kernel",
    "flash::Flash_fwd_kernel_traits<64, 128, 64, 4, false, false, cutlass::bfloat16_t>", "128", "32", "4",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pool:
    """Texts for the slots of a family: slot n, counted through all copies, gets text n modulo their count."""

    texts: tuple[bytes, ...]
    slots: int


def names(bases: Sequence[str], count: int, seed: int) -> list[bytes]:
    """`count` distinct texts, JSON-escaped and without quotes, each of which begins with one of `bases`.

    They are some 20 to 300 bytes long, 90 in the middle, as names of kernels are.
    """
    rng = random.Random(seed)
    starts = [text(base)[1:-1] for base in bases] or ["name"]
    made = []
    for number in range(count):
        words = ", ".join(_WORDS[int(rng.random() * len(_WORDS))] for _ in range(int(rng.expovariate(0.7)) % 6))
        # The number makes it distinct; mixed, so that texts that follow one another share no long prefix.
        made.append(
            f"{starts[number % len(starts)]}<{number * 2654435761 % 2**32:x}{', ' if words else ''}{words}>".encode()
        )
    return made


def key_sets(count: int, style: Style) -> list[bytes]:
    """`count` distinct sets of further arguments, as the text of members with a comma before each."""
    between = ", " if style == "torch" else ",\n" + " " * 8
    sets = []
    for number in range(1, count + 1):
        keys = [f"attribute_{bit}" for bit in range(number.bit_length()) if number >> bit & 1]
        sets.append("".join(f"{between}{json.dumps(key)}: {len(keys)}" for key in keys).encode())
    return sets


class Families:
    """Hands out slots for names, call stacks and sets of arguments, and afterwards the pools that fill them."""

    def __init__(self, strings: int, shapes: int) -> None:
        self._strings, self._shapes = strings, shapes
        self._slots: dict[str, list[Slot]] = {}
        self._bases: dict[str, dict[str, None]] = {}

    def varied(self, event: dict[str, Any]) -> dict[str, Any]:
        """`event`, which is changed, with such slots."""
        arguments = event.get("args")
        if event.get("ph") != "X" or not isinstance(arguments, dict):
            return event
        if self._strings:
            category, name = str(event.get("cat")), event.get("name")
            if category in _RENAMED and type(name) is str and not name.startswith(_KEPT_NAMES):
                event["name"] = self._text(category, name)
            if type(arguments.get(_LONG_ARGUMENT)) is str:
                arguments[_LONG_ARGUMENT] = self._text(_LONG_ARGUMENT, arguments[_LONG_ARGUMENT])
        if self._shapes and arguments:
            arguments[MORE] = self._slot(_SHAPES)
        return event

    def pools(self, style: Style) -> tuple[Pool, ...]:
        """One pool a family; the distinct strings are shared out in proportion to the slots."""
        rest = sum(len(slots) for family, slots in self._slots.items() if family != _SHAPES)
        left, made = self._strings, []
        for seed, (family, slots) in enumerate(self._slots.items()):
            if family == _SHAPES:
                made.append(Pool(tuple(key_sets(self._shapes, style)), len(slots)))
                continue
            share = max(round(left * len(slots) / rest), 1)
            left, rest = left - share, rest - len(slots)
            made.append(Pool(tuple(names(tuple(self._bases[family]), share, seed)), len(slots)))
        return tuple(made)

    def _text(self, family: str, base: str) -> Quoted:
        self._bases.setdefault(family, {}).setdefault(base)
        return Quoted("", self._slot(family))

    def _slot(self, family: str) -> Slot:
        slots = self._slots.setdefault(family, [])
        index = slots[0].space if slots else len(self._slots) - 1
        slots.append(Slot(Form.TEXT, index, len(slots)))
        return slots[-1]
