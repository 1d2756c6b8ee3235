"""Files that Inductor generated, as they describe themselves: kernels, their calls in order, and their origins.

The text is read line by line and never run. Comments name the nodes and operators of each kernel in any version of
torch since 2.0; handles of provenance stand beside them since 2.9 where provenance is tracked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

_DEFINITION: Final = re.compile(r"(\w+) = async_compile\.(\w+)\(")
_CALL: Final = re.compile(r"\s++(?:[\w, ()]+ = )?((?:\w+\.)*\w+)\((.*)")
_LIBRARY: Final = ("extern_kernels.", "torch.ops.", "aten.", "inductor_ops.", "_quantized.")
"""Beginnings of what generated code calls besides its own kernels."""

_SOURCE_NODES: Final = re.compile(
    r"(?:#|//) (?:Topologically Sorted |Unsorted )?Source Nodes: \[(.*?)\], Original ATen: \[(.*?)\]"
)
_HANDLE: Final = re.compile(r"(?:#|//) \[Provenance debug handles\] (\S+:\d+)")
_FRAGMENT: Final = re.compile(r"(?:#|//) {3,}%(\w+)\b.* = call_function\[")
_KERNEL_PATH: Final = re.compile(r"# kernel path: (\S+)")
_GRAPH_ID: Final = re.compile(r"# AOT ID: \['([^']*)'\]")
_INPUTS: Final = re.compile(r"\s+(\w+(?:, \w+)*),? = args\s*\Z")
_INPUT: Final = re.compile(r"\b(?:primals_\d+|arg\d+_\d+)\b")
MAX_LINE_CHARACTERS: Final = 1 << 17
"""Characters of a line of generated code beyond which it is left out."""

_QUOTES: Final = re.compile(r"'''|\"\"\"")


@dataclass(frozen=True)
class GeneratedKernel:
    """A kernel that the file defines.

    Attributes:
        name: what generated code calls it.
        language: `triton`, `cpp_pybinding`, …
        file: the file of its own; "" for none.
        nodes: nodes of the compiled graph that its first call computes; () until torch 2.4, which does not list them.
        operators: what the program called, of that call.
    """

    name: str
    language: str
    file: str = ""
    nodes: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()


@dataclass(frozen=True)
class CallSite:
    """A call of a kernel, or of an operator of a library.

    Attributes:
        callee: the kernel, or the operator as `aten::addmm`.
        line: number of the line in the file, from 1.
        handle: of the provenance, `NAME:NUMBER`; "" where it is not tracked.
        nodes: names of the nodes that it computes, of the graph that Dynamo made, or of a later one.
        operators: what the program called: `aten.add`.
        inputs: inputs of the graph among its arguments: `primals_3`.
    """

    callee: str
    line: int
    handle: str = ""
    nodes: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class GeneratedCode:
    """A generated file.

    Attributes:
        file: its path where it was generated.
        graph: `0_forward`, `0_backward`, `1_inference`; "" where the file does not say.
        inputs: names of the graph's inputs, in order.
        kernels: those that it defines, by name.
        sites: its calls in order.
    """

    file: str
    graph: str = ""
    inputs: tuple[str, ...] = ()
    kernels: dict[str, GeneratedKernel] = field(default_factory=dict)
    sites: tuple[CallSite, ...] = ()


@dataclass
class _Comments:
    """Facts that the comments say of what comes next."""

    path: str = ""
    handle: str = ""
    nodes: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    fragment: list[str] = field(default_factory=list)

    def note(self, line: str) -> None:
        if match := _SOURCE_NODES.match(line):
            self.nodes, self.operators = _listed(match[1]), _listed(match[2])
        elif match := _HANDLE.match(line):
            self.handle = match[1]
        elif match := _FRAGMENT.match(line):
            self.fragment.append(match[1])
        elif match := _KERNEL_PATH.match(line):
            self.path = match[1]


def generated_code(text: str, file: str) -> GeneratedCode:
    """Read what Inductor generated; a text of something else has no calls."""
    graph = ""
    inputs: tuple[str, ...] = ()
    kernels: dict[str, GeneratedKernel] = {}
    sites: list[CallSite] = []
    comments = _Comments()
    for number, line in _statements(text):
        bare = line.lstrip()
        if bare.startswith(("#", "//")):
            comments.note(bare)
            if match := _GRAPH_ID.match(bare):
                graph = match[1]
        elif match := _DEFINITION.match(line):
            nodes = tuple(comments.fragment)
            kernels[match[1]] = GeneratedKernel(match[1], match[2], comments.path, nodes, comments.operators)
            comments = _Comments()
        elif match := _CALL.match(line):
            callee = _callee(match[1], kernels)
            if callee:
                given = tuple(dict.fromkeys(_INPUT.findall(match[2])))
                sites.append(CallSite(callee, number, comments.handle, comments.nodes, comments.operators, given))
                comments = _Comments()
        elif match := _INPUTS.match(line):
            inputs = inputs or _listed(match[1])
    return GeneratedCode(file, graph, inputs, kernels, tuple(sites))


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a Python file that lie in no text in triple quotes, with their numbers."""
    quotes = ""
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > MAX_LINE_CHARACTERS:
            continue
        before = quotes
        for mark in _QUOTES.findall(line):
            quotes = mark if not quotes else "" if mark == quotes else quotes
        if not before:
            yield number, line


def _callee(name: str, kernels: dict[str, GeneratedKernel]) -> str:
    """The kernel or operator that a call in generated code runs; "" for calls of anything else."""
    own = name.removesuffix(".run")
    if own in kernels:
        return own
    if not name.startswith(_LIBRARY):
        return ""
    parts = name.removeprefix("torch.ops.").split(".")
    space = "aten" if parts[0] == "extern_kernels" else parts[0].removesuffix("_ops").lstrip("_")
    return f"{space}::{parts[1]}" if len(parts) > 1 else ""


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(", ") if part)
