"""Names of kernels and C++ functions, shortened by their grammar: what they all have goes, what tells them apart stays.

    void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int,
    at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)

becomes `vectorized_elementwise_kernel<4, CUDAFunctor_add<float>>`.

Any other name (an operator, a Python call, a module) is left as it is.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_CLONE: Final = re.compile(r" \[clone [^\]]*\]$|\.kd$")
_ARGUMENTS: Final = re.compile(r"[A-Za-z_]\w*(?:<.*>)?\([^()]*\)")
_UNNAMED: Final = re.compile(r"\(anonymous namespace\)::|<unnamed>::|\{anonymous\}::")
_RESULT: Final = re.compile(r"^(?:void|std::enable_if<.*?>::type) (?=\S)")
_NAMESPACE: Final = re.compile(
    r"\b(?:at|c10|std)::(?:(?:native|cuda|detail|memory|modern|internal|binary_internal|impl)::)*"
)
_OPERATOR: Final = re.compile(r"::operator(?: const)?(?![\w ])")
_LAMBDA: Final = re.compile(r"(?:::)?\{lambda(?:\((.*?)\))?#\d+\}")
_PLUMBING: Final = re.compile(
    r", (?:array<char ?\*, ?\d+>|Array<char ?\*, ?\d+>|TrivialOffsetCalculator<[^<>]*>|(?:memory::)?\w+WithoutCast)"
)
_WRAPPER: Final = re.compile(r"\bgpu_kernel_impl(?:_nocast)?<")
_SUFFIX: Final = re.compile(r"(?<=\d)(?:ul|u|l)(?=[,>])")
_MAX_CHARACTERS: Final = 4_000  # characters; a longer name is not looked into


@lru_cache(1 << 14)
def short(name: str, *, types: bool = False) -> str:
    """The name without return type, namespaces of torch, lists of arguments and what every kernel of its kind has.

    With `types` it keeps what its innermost function takes, and what calls that: some kernels differ in that alone.
    """
    if not _is_function(name):
        return name
    bare = _RESULT.sub("", _UNNAMED.sub("", _CLONE.sub("", name)))
    bare = _LAMBDA.sub(_typed if types else "", bare)
    bare = _without_arguments(bare)
    bare = _SUFFIX.sub("", _OPERATOR.sub("", _NAMESPACE.sub("", bare)).replace(" >", ">"))
    bare = _PLUMBING.sub("", bare)
    bare = bare if types else _unwrapped(bare)
    bare = bare.replace("\x01", "(").replace("\x02", ")").replace("()", "").strip()
    return bare or name


def _is_function(name: str) -> bool:
    if len(name) > _MAX_CHARACTERS:
        return False
    return (
        name.startswith("void ")
        or ("::" in name and ("<" in name or "(" in name))
        or _ARGUMENTS.fullmatch(_CLONE.sub("", name)) is not None
    )


def _typed(match: re.Match[str]) -> str:
    """What a lambda takes, kept from being dropped as a list of arguments."""
    return f"\x01{match[1]}\x02" if match[1] else ""


def _without_arguments(text: str) -> str:
    """Without what stands in parentheses, and `const` after it; a name that was cut off may leave one open."""
    kept, depth = [], 0
    for character in text:
        depth += character == "("
        if not depth:
            kept.append(character)
        depth = max(depth - (character == ")"), 0)
    return re.sub(r" const(?=[,>:]|$)", "", "".join(kept))


def _unwrapped(text: str) -> str:
    """`elementwise_kernel<128, 4, gpu_kernel_impl<f>>` as `elementwise_kernel<128, 4, f>`."""
    while match := _WRAPPER.search(text):
        depth, end = 1, match.end()
        while end < len(text) and depth:
            depth += (text[end] == "<") - (text[end] == ">")
            end += 1
        text = text[: match.start()] + text[match.end() : end - (depth == 0)] + text[end:]
    return text
