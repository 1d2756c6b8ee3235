"""Names without what differs from run to run, so that the same call is found in both.

Left out are numbers of steps, addresses of objects, numbers and hashes of compiled graphs and regions, sequence numbers
of autograd, the numbers of instances of modules, and the lines and folders of Python frames. All else stays: the digits
of `aten::conv2d`, `SumBackward1` or `gemm_128x64` are names.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from kinetoscope.model.execution.frames import frame_text
from kinetoscope.model.execution.marks import MODULE

ANY: Final = "#"
"""Stands where a number was."""

_LOADER: Final = re.compile(r"(enumerate\((?:DataLoader|DataPipe)\))#.*")
_RULES: Final = (
    (re.compile(r"ProfilerStep#\d+"), "ProfilerStep"),
    (re.compile(r"(?: at)? 0x[0-9a-fA-F]+"), ""),
    (re.compile(r"0x[0-9a-fA-F]{5,}"), ANY),
    (re.compile(r", (?:seq|op_id|seq_id) = -?\d+"), ""),
    (re.compile(r"(Torch-Compiled Region): \d+/\d+(?:_\d+)?"), r"\1"),
    (re.compile(r"(CompiledFxGraph) \w+"), r"\1"),
    (re.compile(r"(CompiledFunction(?:Backward)?)\d+"), r"\1"),
    (re.compile(r"\b(triton_\w*?[A-Za-z])_+(?:\d+(?:de|d|c))+\d*\b"), r"\1"),
    (re.compile(r"\b(triton)__(?:\d+(?:de|d|c))+\d*\b"), r"\1"),
    (re.compile(r"\b(triton_\w*?[A-Za-z_])_\d+\b"), r"\1"),
    (re.compile(r"\b(graph|cpp_fused_\w*?[A-Za-z_])_\d+\b"), r"\1"),
    (re.compile(r"_GLOBAL__N__[0-9a-f]{8,}(?:_\d+)?_\w+?_(?:cu|cpp|hip)(?:_[0-9a-f]{8})+(?:_\d+)?"), "_GLOBAL__N_"),
)
_RULE_MARKS: Final = ("Step#", "0x", " = ", "Compiled", "triton", "cpp_fused", "graph_", "_GLOBAL__N__")
"""Each rule applies only to names that hold one of them."""

_HASH: Final = re.compile(r"\b(?=[0-9a-z]*\d)(?=[0-9a-z]*[a-z])[0-9a-z]{32,}\b")
_FRAME: Final = re.compile(r"(.+)\(\d+\): (.*)")
_INSTALLED: Final = re.compile(r".*/(?:site-packages|dist-packages)/|.*/lib/python\d[\w.]*/")
_INSTANCE: Final = re.compile(r"_\d+$")
_DIGITS: Final = re.compile(r"\d+")


@lru_cache(1 << 16)
def normalized(name: str) -> str:
    """The name of an operator, annotation, kernel or runtime call as it is in every run."""
    if name.startswith("enumerate("):
        name = _LOADER.sub(r"\1", name)
    if any(mark in name for mark in _RULE_MARKS):
        for rule, instead in _RULES:
            name = rule.sub(instead, name)
    if len(name) > 32:
        name = _HASH.sub(ANY, name)
    return frame_text(name).strip() or "(no name)"


@lru_cache(1 << 16)
def normalized_frame(name: str) -> str:
    """The name of a Python call: a module without the number of its instance; a function with its file alone.

    `/home/me/train.py(12): main` is `train.py: main`. A file keeps its folders below the folder of installed packages,
    or where its path does not begin at the root.
    """
    if name.startswith(MODULE):
        return normalized(_INSTANCE.sub("", name))
    if match := _FRAME.fullmatch(name):
        file, function = match[1].replace("\\", "/"), match[2]
        inside = _INSTALLED.sub("", file)
        if inside == file and (file.startswith("/") or file[1:3] == ":/"):
            inside = file.rpartition("/")[2]
        name = f"{inside}: {function}"
    return normalized(name)


def without_digits(name: str) -> str:
    """A name whose numbers may all be those of a run: `batch 7` and `batch 12` are alike, `layer_1` and `layer_2`, too.

    Only for names that nothing else matches.
    """
    return _DIGITS.sub(ANY, name)
