"""Mangled names of C++ functions in words: `_ZN2at4normIfLi64EEEvPT_i` is `void at::norm<float, 64>(float*, int)`.

Of the Itanium C++ ABI (https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling) this knows what names of kernels
have; the texts are those of `abi::__cxa_demangle`, which Kineto calls where it can. A name with anything else in it
comes back as it is. Names are untrusted: what nests too deeply or grows too long comes back as it is, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Final, NamedTuple

_MAX_NAME: Final = 8_192
_MAX_TEXT: Final = 32_768
_MAX_DEPTH: Final = 48
"""Bounds of a mangled name, of any text that is made of it, and of types within types."""

_SHORT_TEXT: Final = 2_000
"""A longer text goes without its list of parameters, which of a template follow from its arguments."""

_BUILTIN: Final = {
    "v": "void",
    "w": "wchar_t",
    "b": "bool",
    "c": "char",
    "a": "signed char",
    "h": "unsigned char",
    "s": "short",
    "t": "unsigned short",
    "i": "int",
    "j": "unsigned int",
    "l": "long",
    "m": "unsigned long",
    "x": "long long",
    "y": "unsigned long long",
    "n": "__int128",
    "o": "unsigned __int128",
    "f": "float",
    "d": "double",
    "e": "long double",
    "g": "__float128",
    "z": "...",
}
_LONG_BUILTIN: Final = {
    "DF16b": "std::bfloat16_t",
    "DF16_": "_Float16",
    "DF32_": "_Float32",
    "DF64_": "_Float64",
    "Dh": "half",
    "Dn": "decltype(nullptr)",
    "Du": "char8_t",
    "Ds": "char16_t",
    "Di": "char32_t",
    "Da": "auto",
}
_LONGEST_BUILTIN: Final = 5
_STANDARD: Final = {"t": "std", "a": "std::allocator", "b": "std::basic_string", "s": "std::string"}
_SUFFIXES: Final = {"i": "", "j": "u", "l": "l", "m": "ul", "x": "ll", "y": "ull"}
"""What follows a literal of each type of integers."""
_QUALIFIERS: Final = {"r": " restrict", "V": " volatile", "K": " const"}
_ANONYMOUS: Final = re.compile(r"_GLOBAL_[._$]N")
_CLONE: Final = re.compile(r"\.[A-Za-z_][\w.]*")
_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class _UnknownError(Exception):
    """Something that this does not know, or that is no mangled name."""


class _Type(NamedTuple):
    """A type as it stands around what is declared: `int (*` and `)(char)`; a pointer to what `holds` needs `(*)`."""

    left: str
    right: str = ""
    holds: bool = False

    @property
    def text(self) -> str:
        return self.left + self.right


@lru_cache(1 << 12)
def demangled(name: str) -> str:
    """The declaration that a mangled name stands for; the name itself where that is not known for certain."""
    if not name.startswith("_Z") or len(name) > _MAX_NAME or not name.isascii():
        return name
    try:
        return _Parser(name).declaration()
    except (_UnknownError, RecursionError):
        return name


class _Parser:
    """One reading of a name, from its beginning to its end."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.at = 2
        self.depth = 0
        self.seen: list[_Type] = []
        self.arguments: list[_Type] = []
        """The arguments of the template that is being named, which `T_` refers to."""

    def declaration(self) -> str:
        name, is_template, qualifiers = self._name(tagged=True)
        if self._is_over():
            return name + self._clone()
        result = self._type() if is_template and not _is_constructor(name) else _Type("")
        start = f"{result.left} {name}".lstrip()
        try:
            listed = self._parameters()
        except _UnknownError:
            if is_template and not result.right:
                return start
            raise
        text = f"{start}({listed}){qualifiers}{result.right}"
        return (start if is_template and len(text) > _SHORT_TEXT else text) + self._clone()

    def _clone(self) -> str:
        clone = self.name[self.at :]
        if clone and not _CLONE.fullmatch(clone):
            raise _UnknownError
        return f" [clone {clone}]" if clone else ""

    def _is_over(self) -> bool:
        return self.at == len(self.name) or self._peek() in ".E"

    def _parameters(self) -> str:
        spelling = [self._type().text]
        while not self._is_over():
            spelling.append(self._type().text)
        return "" if spelling == ["void"] else _joined(spelling)

    # --- characters

    def _peek(self, count: int = 1) -> str:
        return self.name[self.at : self.at + count]

    def _take(self, text: str) -> bool:
        spelling = self.name.startswith(text, self.at)
        self.at += len(text) * spelling
        return spelling

    def _need(self, text: str) -> None:
        if not self._take(text):
            raise _UnknownError

    def _number(self) -> int:
        match = re.compile(r"\d{1,9}").match(self.name, self.at)
        if match is None:
            raise _UnknownError
        self.at = match.end()
        return int(match[0])

    def _ordinal(self, digits: str) -> int:
        """A number and `_`, one less: `_` is 0, `0_` is 1."""
        end = self.name.find("_", self.at, self.at + 8)
        if end < 0:
            raise _UnknownError
        text, self.at = self.name[self.at : end], end + 1
        if not all(each in digits for each in text):
            raise _UnknownError
        return int(text, len(digits)) + 1 if text else 0

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise _UnknownError
        yield
        self.depth -= 1

    def _remember(self, spelling: _Type) -> _Type:
        if len(spelling.text) > _MAX_TEXT:
            raise _UnknownError
        self.seen.append(spelling)
        return spelling

    # --- names

    def _name(self, *, tagged: bool) -> tuple[str, bool, str]:
        """A name, whether it ends as that of a template, and the qualifiers of a member function.

        With `tagged` it names what is being declared: its arguments are those that `T_` refers to.
        """
        if self._take("N"):
            return self._nested(tagged)
        if self._take("Z"):
            return self._local()
        if self._peek() == "S" and self._peek(2) != "St":
            spelling = self._substitution().text
        else:
            spelling = "std::" * self._take("St") + self._unqualified("")
            if self._peek() == "I":
                self._remember(_Type(spelling))
        if self._peek() != "I":
            return spelling, False, ""
        return spelling + self._arguments(tagged), True, ""

    def _local(self) -> tuple[str, bool, str]:
        """A thing that a function declares within: `f(int)::{lambda(float)#1}`."""
        with self._deeper():
            around = self._function_of_local()
        self._need("E")
        if self._take("s"):
            self._discriminator()
            return f"{around}::string literal", False, ""
        name, is_template, qualifiers = self._name(tagged=False)
        self._discriminator()
        return f"{around}::{name}", is_template, qualifiers

    def _function_of_local(self) -> str:
        """A function with its parameters; `T_` within refers to its own arguments."""
        outer, self.arguments = self.arguments, []
        text, is_template, qualifiers = self._name(tagged=True)
        if not self._is_over():
            if is_template and not _is_constructor(text):
                self._type()
            text = f"{text}({self._parameters()}){qualifiers}"
        self.arguments = outer
        return text

    def _discriminator(self) -> None:
        match = re.compile(r"_(?:\d|_\d+_)").match(self.name, self.at)
        self.at = match.end() if match else self.at

    def _nested(self, tagged: bool) -> tuple[str, bool, str]:
        qualifiers = ""
        while self._peek() in _QUALIFIERS:
            qualifiers = _QUALIFIERS[self._peek()] + qualifiers
            self.at += 1
        qualifiers += " &" * (self._take("R")) + " &&" * (self._take("O"))
        spelling, is_template = "", False
        while not self._take("E"):
            if self._peek() == "S" and not spelling:
                spelling = self._substitution().text if self._peek(2) != "St" else self._std()
                continue
            if self._peek() == "T" and not spelling:
                spelling = self._parameter().text
            elif self._peek() == "I" and spelling and not is_template:
                spelling, is_template = spelling + self._arguments(tagged), True
            else:
                part, is_template = self._unqualified(spelling), False
                spelling = f"{spelling}::{part}" if spelling else part
            if self._peek() != "E":
                self._remember(_Type(spelling))
        if not spelling:
            raise _UnknownError
        if not tagged:
            self._remember(_Type(spelling))
        return spelling, is_template, qualifiers

    def _std(self) -> str:
        self.at += 2
        return "std"

    def _unqualified(self, around: str) -> str:
        """A name of one word; `around` is what it stands in, after which constructors are named."""
        self._take("L")
        if self._peek().isdigit():
            return self._word()
        if self._peek() in "CD" and self._peek(2)[1:] in tuple("0123") and around:
            last = _without_arguments(around).rpartition("::")[2]
            is_destructor = self._peek() == "D"
            self.at += 2
            return "~" * is_destructor + last
        if self._take("Ut"):
            return f"{{unnamed type#{self._ordinal('0123456789') + 1}}}"
        if self._take("Ul"):
            listed = self._parameters()
            self._need("E")
            return f"{{lambda({listed})#{self._ordinal('0123456789') + 1}}}"
        if self._take("cl"):
            return "operator()"
        raise _UnknownError

    def _word(self) -> str:
        length = self._number()
        word = self._peek(length)
        if len(word) != length or not length:
            raise _UnknownError
        self.at += length
        return "(anonymous namespace)" if _ANONYMOUS.match(word) else word

    def _substitution(self) -> _Type:
        self._need("S")
        if self._peek() in _STANDARD and self._peek() != "t":
            known = _STANDARD[self._peek()]
            self.at += 1
            return _Type(known)
        place = self._ordinal(_DIGITS)
        if place >= len(self.seen):
            raise _UnknownError
        return self.seen[place]

    def _parameter(self) -> _Type:
        self._need("T")
        place = self._ordinal("0123456789")
        if place >= len(self.arguments):
            raise _UnknownError
        return self.arguments[place]

    # --- arguments of templates

    def _arguments(self, tagged: bool) -> str:
        self._need("I")
        spelling: list[_Type] = self.arguments if tagged else []
        spelling.clear()
        while not self._take("E"):
            spelling.append(self._argument())
        text = _joined([each.text for each in spelling])
        return f"<{text}{' ' * text.endswith('>')}>"

    def _argument(self) -> _Type:
        with self._deeper():
            if self._take("Tn"):  # the type of an argument whose parameter is `auto`; the argument follows
                self._type()
                return self._argument()
            if self._take("L"):
                return _Type(self._literal())
            if self._take("J"):
                spelling = []
                while not self._take("E"):
                    spelling.append(self._argument().text)
                return _Type(_joined(spelling) or _EMPTY_PACK)
            return _Type(self._expression()) if self._take("X") else self._type()

    def _literal(self) -> str:
        if self._take("_Z"):
            return self._inner()
        kind = self._peek()
        type_text = self._type().text
        match = re.compile(r"n?\d{1,40}(?=E)").match(self.name, self.at)
        if match is None:
            raise _UnknownError
        self.at = match.end() + 1
        value = match[0].replace("n", "-")
        if kind == "b" and value in ("0", "1"):
            return "true" if value == "1" else "false"
        return value + _SUFFIXES[kind] if kind in _SUFFIXES else f"({type_text}){value}"

    def _expression(self) -> str:
        """The address of a function, or a literal: all else is computed by compilers."""
        is_address = self._take("ad")
        self._need("L")
        text = self._inner() if self._take("_Z") else "" if is_address else self._literal()
        if not text:
            raise _UnknownError
        self._need("E")
        return f"&{text}" if is_address else text

    def _inner(self) -> str:
        """A function or a variable within a name, up to its `E`, by its name alone."""
        around, self.arguments = self.arguments, []
        name, is_template, _ = self._name(tagged=True)
        if not self._is_over():
            if is_template:
                self._type()
            self._parameters()
        self.arguments = around
        self._need("E")
        return name

    # --- types

    def _type(self) -> _Type:
        with self._deeper():
            for length in range(_LONGEST_BUILTIN, 1, -1):
                if self._peek(length) in _LONG_BUILTIN:
                    spelling = _LONG_BUILTIN[self._peek(length)]
                    self.at += length
                    return _Type(spelling)
            letter = self._peek()
            if letter in _BUILTIN:
                self.at += 1
                return _Type(_BUILTIN[letter])
            make = _TYPES.get(letter)
            return self._named() if make is None else make(self)

    def _qualified(self) -> _Type:
        text = ""
        while self._peek() in _QUALIFIERS:
            text = _QUALIFIERS[self._peek()] + text
            self.at += 1
        of = self._type()
        is_function = of.holds and of.right.startswith(" (")
        return self._remember(of._replace(right=of.right + text) if is_function else of._replace(left=of.left + text))

    def _pointer(self) -> _Type:
        sign = {"P": "*", "R": "&", "O": "&&"}[self._peek()]
        self.at += 1
        of = self._type()
        if of.holds:
            right = of.right if of.right.startswith(" [") else of.right.lstrip()
            return self._remember(_Type(f"{of.left} ({sign}", f"){right}"))
        if sign != "*" and of.left.endswith("&"):
            return self._remember(of if sign == "&&" or not of.left.endswith("&&") else of._replace(left=of.left[:-1]))
        return self._remember(of._replace(left=of.left + sign))

    def _function(self) -> _Type:
        self._need("F")
        self._take("Y")
        result, listed = self._type(), self._parameters()
        self._need("E")
        return self._remember(_Type(result.left, f" ({listed}){result.right}", holds=True))

    def _array(self) -> _Type:
        self._need("A")
        size = self._number()
        self._need("_")
        of = self._type()
        return self._remember(_Type(of.left, f" [{size}]{of.right}".replace("] [", "]["), holds=True))

    def _expansion(self) -> _Type:
        self._need("Dp")
        is_alone = self._peek() == "T"
        of = self._type()
        if not is_alone:
            raise _UnknownError  # `T*...` stands for a pointer to each
        return self._remember(of)

    def _vector(self) -> _Type:
        self._need("Dv")
        size = self._number()
        self._need("_")
        return self._remember(_Type(f"{self._type().text} __vector({size})"))

    def _of_d(self) -> _Type:
        return (
            self._expansion() if self._peek(2) == "Dp" else self._vector() if self._peek(2) == "Dv" else self._named()
        )

    def _of_t(self) -> _Type:
        spelling = self._remember(self._parameter())
        return spelling if self._peek() != "I" else self._remember(_Type(spelling.text + self._arguments(tagged=False)))

    def _of_s(self) -> _Type:
        if self._peek(2) == "St":
            return self._named()
        spelling = self._substitution()
        return spelling if self._peek() != "I" else self._remember(_Type(spelling.text + self._arguments(tagged=False)))

    def _named(self) -> _Type:
        is_nested = self._peek() == "N"
        if not is_nested and self._peek(2) != "St" and self._peek() != "Z" and not self._peek().isdigit():
            raise _UnknownError
        name, _, _ = self._name(tagged=False)
        return _Type(name) if is_nested else self._remember(_Type(name))


_TYPES: Final[dict[str, Callable[[_Parser], _Type]]] = {
    **dict.fromkeys("rVK", _Parser._qualified),
    **dict.fromkeys("PRO", _Parser._pointer),
    "F": _Parser._function,
    "A": _Parser._array,
    "D": _Parser._of_d,
    "T": _Parser._of_t,
    "S": _Parser._of_s,
}

_EMPTY_PACK: Final = "\0"
"""Stands for the arguments of an empty pack, and goes from every list."""


def _joined(texts: list[str]) -> str:
    text = ", ".join(each for each in texts if each != _EMPTY_PACK)
    if len(text) > _MAX_TEXT or _EMPTY_PACK in text:
        raise _UnknownError
    return text


def _without_arguments(text: str) -> str:
    """`a::b` of `a::b<c::d>`."""
    depth, end = 0, len(text)
    while end and (depth or text[end - 1] == ">"):
        depth += (text[end - 1] == ">") - (text[end - 1] == "<")
        end -= 1
    return text[:end]


def _is_constructor(name: str) -> bool:
    """Constructors have no result, templates or not."""
    around, _, last = _without_arguments(name).rpartition("::")
    return _without_arguments(around).rpartition("::")[2] == last.removeprefix("~")
