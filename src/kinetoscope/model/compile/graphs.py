"""The graphs that Inductor compiled: the calls in each one's generated code, with operators, lines and module."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from kinetoscope.model.compile.files import CompileFile, compile_files, readable
from kinetoscope.model.compile.generated_code import CallSite, GeneratedCode, generated_code
from kinetoscope.model.compile.log import LogEntry, log_entries
from kinetoscope.model.compile.provenance import (
    PrintedGraph,
    ProvenanceTables,
    SourceLines,
    line_tables,
    module_of,
    modules_of_inputs,
    node_tables,
    printed_graph,
    source_lines,
    stack_tables,
)
from kinetoscope.model.execution.program import operators_in_name
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace

_KEY: Final = re.compile(r'"key": "(\w+)"')
_GENERATED_MARK: Final = "async_compile"
"""A word of all generated files that call kernels; those of single kernels lack it."""


_OF_VLLM: Final = "computation_graph.py"
"""What vLLM prints into its cache: Dynamo's graph in the pieces that Inductor compiles, with the same names."""

MAX_CODE_BYTES: Final = 1 << 28
"""Bytes of generated files that are read for a rank: a cache of Inductor's may hold those of years."""


@dataclass(frozen=True)
class CompiledSite:
    """A call in generated code, and where in the program it comes from.

    Attributes:
        callee: the kernel, or the operator as `aten::addmm`.
        operators: what the program called, `aten::add`; of a C++ kernel what its name says; () where nothing tells.
        module: path of the module whose parameters it reads; "" where it reads none, or that is not known.
        lines: the stacks that its nodes were called from.
    """

    callee: str
    operators: tuple[str, ...]
    module: str
    lines: SourceLines


@dataclass(frozen=True)
class CompiledGraph:
    """A graph as Inductor compiled it.

    Attributes:
        key: what its calls are named after (`## Call CompiledFxGraph KEY ##`); "" where no log tells.
        compile_id: `0/1`, the frame and which compilation of it; "" where no log tells.
        code: what was generated.
        sites: its calls, in order.
    """

    key: str
    compile_id: str
    code: GeneratedCode
    sites: tuple[CompiledSite, ...]


@dataclass
class _Parts:
    """Parts of what was written about one graph, as they were read."""

    text: str
    file: str
    compile_id: str = ""
    key: str = ""
    stacks: str = ""
    mappings: str = ""
    compiled: str = ""
    dynamo: str = ""
    line_stacks: tuple[tuple[int, str], ...] = ()


@derived
def compiled_graphs(trace: Trace) -> tuple[CompiledGraph, ...]:
    """The graphs of the files beside a trace, each generated file once; () where there are no such files."""
    files = compile_files(trace)
    parts = {_base(each.file) or str(place): each for place, each in enumerate(_of_log(log_entries(trace)))}
    lines: dict[str, tuple[tuple[int, str], ...]] = {}
    for each in _of_files(files, lines):
        known = parts.setdefault(_base(each.file) if "output_code" not in each.file else each.file, each)
        known.line_stacks = known.line_stacks or lines.get(_base(each.file), ())
    printed: dict[str, PrintedGraph] = {}
    codes = [generated_code(each.text, each.file) for each in parts.values()]
    modules: dict[str, dict[str, str]] = {}
    for each, code in zip(parts.values(), codes, strict=True):
        if each.dynamo and each.compile_id and not code.graph.endswith("_backward"):
            modules[each.compile_id] = modules_of_inputs(_printed(each.dynamo, printed), code.inputs)
    return tuple(
        _graph(each, code, modules.get(each.compile_id, {}), printed)
        for each, code in zip(parts.values(), codes, strict=True)
    )


def _graph(
    parts: _Parts, code: GeneratedCode, modules: dict[str, str], printed: dict[str, PrintedGraph]
) -> CompiledGraph:
    nodes, sources = node_tables(parts.mappings)
    compiled, dynamo = _printed(parts.compiled, printed), _printed(parts.dynamo, printed)
    stacks = stack_tables(parts.stacks)
    tables = ProvenanceTables(stacks, nodes, sources, compiled, dynamo, parts.line_stacks, modules)
    sites = tuple(
        CompiledSite(each.callee, _operators(each, code), module_of(each, tables), source_lines(each, code, tables))
        for each in code.sites
    )
    return CompiledGraph(parts.key, parts.compile_id, code, sites)


def _operators(site: CallSite, code: GeneratedCode) -> tuple[str, ...]:
    definition = code.kernels.get(site.callee)
    names = site.operators or (definition.operators if definition is not None else ())
    return tuple(dict.fromkeys(name.replace(".", "::", 1) for name in names)) or operators_in_name(site.callee)


def _printed(text: str, printed: dict[str, PrintedGraph]) -> PrintedGraph:
    """The graph in a text, which several graphs may have been made from."""
    if text not in printed:
        printed[text] = printed_graph(text)
    return printed[text]


def _of_log(entries: Iterable[LogEntry]) -> list[_Parts]:
    """The graphs of the log: what is said about a graph comes before its code, or between that and the next one's."""
    graphs: list[_Parts] = []
    last: dict[str, _Parts] = {}
    compiled: dict[str, str] = {}
    dynamo: dict[str, str] = {}
    for entry in entries:
        graph = last.get(entry.compile_id)
        if entry.name == "dynamo_output_graph":
            dynamo[entry.compile_id] = entry.payload
        elif entry.name == "inductor_post_grad_graph":
            compiled[entry.compile_id] = entry.payload
        elif entry.name == "inductor_output_code":
            file = entry.metadata.get("filename")
            graph = _Parts(entry.payload, file if isinstance(file, str) else "", entry.compile_id)
            graph.compiled, graph.dynamo = compiled.pop(entry.compile_id, ""), dynamo.get(entry.compile_id, "")
            last[entry.compile_id] = graph
            graphs.append(graph)
        elif graph is None:
            continue
        elif entry.name.endswith("_node_mappings"):
            graph.mappings = graph.mappings or entry.payload
        elif entry.name.endswith("_kernel_stack_traces"):
            graph.stacks = graph.stacks or entry.payload
        elif entry.name.startswith("fx_graph_cache_") and not graph.key and (match := _KEY.search(entry.payload)):
            graph.key = match[1]
    return graphs


def _of_files(files: Iterable[CompileFile], lines: dict[str, tuple[tuple[int, str], ...]]) -> Iterator[_Parts]:
    """The graphs of generated files; `lines` receives the tables of lines that lie beside them."""
    tables: defaultdict[str, dict[str, str]] = defaultdict(dict)
    codes: list[tuple[str, str]] = []
    room = MAX_CODE_BYTES
    for file in files:
        folder, _, base = file.name.replace("\\", "/").rpartition("/")
        if file.kind == "code":
            text = readable(file) if room > 0 else ""
            if _GENERATED_MARK in text:
                codes.append((file.name, text))
                room -= len(text)
        elif file.kind in ("json", "graph"):
            tables[folder][base] = readable(file)
    for of_folder in tables.values():
        for base, text in of_folder.items():
            if base.endswith("linemaps.json"):
                lines.update(line_tables(text))
    printed = {folder: of_folder[_OF_VLLM] for folder, of_folder in tables.items() if _OF_VLLM in of_folder}
    for name, text in codes:
        tables_of_folder = tables[name.replace("\\", "/").rpartition("/")[0]] if "output_code" in name else {}
        yield _Parts(
            text,
            name,
            stacks=tables_of_folder.get("inductor_provenance_tracking_kernel_stack_traces.json", ""),
            mappings=tables_of_folder.get("inductor_provenance_tracking_node_mappings.json", ""),
            compiled=tables_of_folder.get("fx_graph_transformed.py", "")
            or tables_of_folder.get("fx_graph_readable.py", ""),
            dynamo=_nearest(name, printed),
        )


def _nearest(name: str, texts: Mapping[str, str]) -> str:
    """The text, of those by folders, that has most folders in common with a file; "" where there are none."""
    shared = {folder: len(os.path.commonpath((folder, name))) for folder in texts}
    return texts[max(shared, key=shared.__getitem__)] if shared else ""


def _base(file: str) -> str:
    return file.replace("\\", "/").rpartition("/")[2]
