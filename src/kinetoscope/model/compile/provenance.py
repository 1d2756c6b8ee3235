"""From a kernel of Inductor's to the lines of the user's source: stack traces, mappings of nodes, printed graphs.

Tables are torch's own (`torch._inductor.debug`, version 2.0 of the mappings). What a table does not hold, or holds in
another form, is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kinetoscope.model.compile.generated_code import CallSite, GeneratedCode, GeneratedKernel
from kinetoscope.model.execution.frames import SEPARATOR, CodeLocation, user_source
from kinetoscope.model.trace.strings import json_object

STACKS, MAPPINGS, GRAPH, LINES = "stack traces", "node mappings", "graph", "line map"
"""How a line is known, from the surest on: the stack traces of the kernel's nodes; the nodes that torch maps the kernel
to, with their lines in a printed graph; the nodes that comments name, with those lines; the line of the generated file,
as torch keeps one stack trace for a stretch of lines: that of the last node fused there."""

_FRAME: Final = re.compile(r'File "([^"\n]+)", line (\d{1,9}), in ([^\n]+)')
_INNERMOST: Final = re.compile(r"(.+)\((\d{1,9})\): (.*)")
_LINE_OF_NODES: Final = re.compile(r"\s*# File: (.+):(\d{1,9}) in ([^,\n]+)(?:, code: .*)?\Z")
_NODE: Final = re.compile(r"\s+(\w+)(?:: \"[^\"]*\")? = ")
_FORWARD: Final = re.compile(r"\s*def forward\(self(?:, )?(.*?)\):?\s*\Z")
_PLACEHOLDER: Final = re.compile(r"\b(\w++)(?:: \"[^\"]*\")?(?:, |\Z)")
_PARAMETER: Final = re.compile(r"L_\w+?_modules_(\w+)_(?:parameters|buffers)_\w+_\Z")

_MAX_COMMENT_CHARACTERS: Final = 4096
_MAX_NAME_CHARACTERS: Final = 1000

MAX_STACKS: Final = 64
"""Stacks of one kernel that are kept."""


@dataclass(frozen=True)
class PrintedGraph:
    """An FX graph as torch prints it.

    Attributes:
        lines: of each node the stack, here the innermost frame alone.
        inputs: names of the placeholders, in order.
    """

    lines: Mapping[str, str] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProvenanceTables:
    """Tables that were written about one graph.

    Attributes:
        stacks: of each handle the stacks of the nodes in it.
        nodes: of each handle the nodes of the graph that Inductor compiled.
        sources: of each of these nodes those of the graph that Dynamo made.
        compiled, dynamo: the graph that Inductor compiled, and the one that Dynamo made, as printed.
        line_stacks: first lines of stretches of the generated file, ascending, and the stack of each.
        modules: of each input of the graph the module whose parameter it is.
    """

    stacks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    nodes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    compiled: PrintedGraph = field(default_factory=PrintedGraph)
    dynamo: PrintedGraph = field(default_factory=PrintedGraph)
    line_stacks: tuple[tuple[int, str], ...] = ()
    modules: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SourceLines:
    """The stacks that a kernel's nodes were called from, outermost frame first, and how they are known ("" if not)."""

    stacks: tuple[str, ...] = ()
    basis: str = ""

    @property
    def places(self) -> tuple[CodeLocation, ...]:
        """The line of each stack, each once: the innermost of the user's own, else the innermost."""
        return tuple(dict.fromkeys(_line_of(stack) for stack in self.stacks))


def source_lines(site: CallSite, code: GeneratedCode, tables: ProvenanceTables) -> SourceLines:
    """The lines of a call, by the surest of what is known."""
    definition = code.kernels.get(site.callee)
    # The call of a C++ kernel is written when a later node has begun, whose stack the line map has there.
    is_late = definition is not None and definition.language.startswith("cpp")
    for basis, stacks in (
        (STACKS, tables.stacks.get(site.handle, ())),
        (MAPPINGS, _of_mapped(tables.nodes.get(site.handle, ()), tables)),
        (GRAPH, _of_named(site, definition, code, tables)),
        (LINES, () if is_late else _stack_at(site.line, tables.line_stacks)),
    ):
        if stacks:
            return SourceLines(tuple(dict.fromkeys(stacks))[:MAX_STACKS], basis)
    return SourceLines()


def source_text(places: Sequence[CodeLocation]) -> str:
    """The lines by file, for people: `model.py:12, 14; loss.py:3`; "" for none."""
    lines: dict[str, set[int]] = {}
    for place in places:
        if place.file is not None:
            lines.setdefault(place.file.replace("\\", "/").rpartition("/")[2], set()).add(place.line or 0)
    return "; ".join(f"{file}:{', '.join(map(str, sorted(numbers)))}" for file, numbers in lines.items())


def module_of(site: CallSite, tables: ProvenanceTables) -> str:
    """The innermost module that holds all parameters among the inputs of a call; "" where it reads none."""
    paths = [tables.modules[name].split(".") for name in site.inputs if tables.modules.get(name)]
    common: list[str] = []
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return ".".join(common)


def _line_of(stack: str) -> CodeLocation:
    source = user_source(stack)
    if source.file is None and (match := _INNERMOST.fullmatch(stack.rpartition(SEPARATOR)[2])):
        return CodeLocation(match[1], int(match[2]), match[3])
    return source


def _of_mapped(nodes: Iterable[str], tables: ProvenanceTables) -> tuple[str, ...]:
    """The lines of nodes of the compiled graph, else those of the nodes of Dynamo's graph that they come from."""
    compiled, dynamo = tables.compiled.lines, tables.dynamo.lines
    candidates = (
        [compiled.get(node, ""), *(dynamo.get(name, "") for name in tables.sources.get(node, ()))] for node in nodes
    )
    return tuple(stack for each in candidates if (stack := next(filter(None, each), "")))


def _of_named(
    site: CallSite, definition: GeneratedKernel | None, code: GeneratedCode, tables: ProvenanceTables
) -> tuple[str, ...]:
    """The lines of the nodes that comments name.

    Those at the definition of a kernel, which are of its first call, are nodes of the compiled graph. Those at a call
    are Dynamo's, but in a backward graph, where a node that comes from none of these has its own name.
    """
    is_first = definition is not None and sum(each.callee == site.callee for each in code.sites) == 1
    nodes = definition.nodes if definition is not None and is_first else ()
    if stacks := tuple(filter(None, (tables.compiled.lines.get(node, "") for node in nodes))):
        return stacks
    first, second = tables.dynamo.lines, tables.compiled.lines
    if code.graph.endswith("_backward"):
        first, second = second, first
    return tuple(stack for node in site.nodes if (stack := first.get(node) or second.get(node, "")))


def _stack_at(line: int, stretches: tuple[tuple[int, str], ...]) -> tuple[str, ...]:
    last = ""
    for begin, stack in stretches:
        if begin > line:
            break
        last = stack
    return (last,) if last else ()


# --- the forms that torch writes


def stack_of(text: str) -> str:
    """A stack of ours from a traceback of Python's: `train.py(8): forward`, the outermost first, parted by `;`."""
    return SEPARATOR.join(f"{file}({line}): {function.strip()}" for file, line, function in _FRAME.findall(text))


def stack_tables(payload: str) -> dict[str, tuple[str, ...]]:
    """The stacks of each handle, from `inductor_provenance_tracking_kernel_stack_traces`."""
    stacks: dict[str, tuple[str, ...]] = {}
    for handle, texts in json_object(payload).items():
        if isinstance(texts, list):
            known = [stack for text in texts if isinstance(text, str) and (stack := stack_of(text))]
            stacks[handle] = tuple(dict.fromkeys(known))
    return stacks


def node_tables(payload: str) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """Nodes of each handle, and Dynamo's of each of these, from `inductor_provenance_tracking_node_mappings`."""
    tables = json_object(payload)
    return _texts(tables.get("cppCodeToPost")), _texts(tables.get("postToPre"))


def line_tables(payload: str) -> dict[str, tuple[tuple[int, str], ...]]:
    """Stretches of lines with one stack, for each generated file by its name: what our recorder writes."""
    tables: dict[str, tuple[tuple[int, str], ...]] = {}
    for file, rows in json_object(payload).items():
        if isinstance(rows, list):
            pairs = [row for row in rows if isinstance(row, list) and len(row) == 2]
            known = [(line, stack_of(str(text))) for line, text in pairs if isinstance(line, int)]
            tables[file] = tuple(sorted(known))
    return tables


def printed_graph(payload: str) -> PrintedGraph:
    """The nodes of a graph that `print_readable` of torch.fx printed, with the lines in its comments."""
    lines: dict[str, str] = {}
    inputs: tuple[str, ...] = ()
    stack = ""
    for line in payload.splitlines():
        if len(line) < _MAX_COMMENT_CHARACTERS and (match := _LINE_OF_NODES.match(line)):
            stack = f"{match[1]}({match[2]}): {match[3]}"
        elif "# No stacktrace" in line:
            stack = ""
        elif (match := _FORWARD.match(line)) and not inputs:
            inputs = tuple(_PLACEHOLDER.findall(match[1]))
        elif stack and (match := _NODE.match(line)):
            lines.setdefault(match[1], stack)
    return PrintedGraph(lines, inputs)


def modules_of_inputs(dynamo: PrintedGraph, inputs: tuple[str, ...]) -> dict[str, str]:
    """The module of each input that is a parameter or buffer; none where the two graphs differ in their inputs."""
    if len(dynamo.inputs) != len(inputs):
        return {}
    short = ((name, given[:_MAX_NAME_CHARACTERS]) for name, given in zip(inputs, dynamo.inputs, strict=True))
    matches = {name: _PARAMETER.match(given) for name, given in short}
    return {name: match[1].replace("_modules_", ".") for name, match in matches.items() if match}


def _texts(table: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(table, dict):
        return {}
    return {
        key: tuple(each for each in values if isinstance(each, str))
        for key, values in table.items()
        if isinstance(values, list)
    }
