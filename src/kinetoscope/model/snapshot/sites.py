"""Places of the program that requested memory: what the distinct stacks of a snapshot say, each looked at once.

A stack has Python's frames, C++'s, or both, innermost first. A frame's file and function say what a call was for only
where they are torch's or a well-known library's; the names in a user's program say nothing, but for a few customs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Final, NamedTuple

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s
from kinetoscope.algorithms.grouping import group
from kinetoscope.model.execution.frames import SEPARATOR, frame_text, is_users_file
from kinetoscope.model.snapshot.of_trace import known_snapshot
from kinetoscope.model.snapshot.snapshot import NONE, Snapshot, SnapshotStacks
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace

FRAME_MARKS: Final = (
    *("backward", "accumulation", "optimizer", "optimizer state", "zero_grad", "module", "parameter", "collective"),
    *("workspace", "input", "copy to device", "KV cache", "recomputation", "graph release"),
)
"""What a frame can show, in the order of the bits."""

(
    BACKWARD,
    ACCUMULATION,
    OPTIMIZER,
    OPTIMIZER_STATE,
    ZERO_GRAD,
    MODULE_CALL,
    PARAMETER,
    COLLECTIVE,
    WORKSPACE,
    INPUT,
    COPY_TO_DEVICE,
    KV_CACHE,
    RECOMPUTATION,
    GRAPH_RELEASE,
) = (1 << bit for bit in range(len(FRAME_MARKS)))


class _FrameRule(NamedTuple):
    """A frame whose file and function match shows `mark`; None matches all."""

    mark: int
    file: str | None
    function: str | None


_OPTIMIZERS: Final = (
    r"(?:^|/)(?:apex/optimizers|bitsandbytes/optim|deepspeed/(?:ops/\w+|runtime/(?:zero|fp16|bf16_optimizer))|torchao/optim"
    r"|megatron/core/optimizer|transformer_engine/pytorch/optimizers|torch/optim)"
)
_MODULES: Final = r"(?:^|/)torch/nn/modules/module\.py$"

_FRAME_RULES: Final = (
    _FrameRule(BACKWARD, None, r"torch::autograd::(?:Engine::|AccumulateGrad|python::PythonEngine::execute)"),
    _FrameRule(
        BACKWARD, r"(?:^|/)torch/(?:autograd/(?:__init__|graph)|_tensor)\.py$", r"^(?:\w+_)?backward$|^_?\w*grads?$"
    ),
    _FrameRule(ACCUMULATION, None, r"AccumulateGrad"),
    _FrameRule(OPTIMIZER, r"(?:^|/)torch/optim/(?!lr_scheduler|swa_utils)", r"^(?!zero_grad)"),
    _FrameRule(OPTIMIZER, _OPTIMIZERS, r"step|_init_group|init\w*_state"),
    _FrameRule(OPTIMIZER_STATE, _OPTIMIZERS, r"^_init_group$|init\w*_state|^load_state_dict$|^_process_value_"),
    _FrameRule(ZERO_GRAD, None, r"^zero_grad(?:_buffer)?$"),
    _FrameRule(MODULE_CALL, _MODULES, r"_call_impl$|^_slow_forward$"),
    _FrameRule(PARAMETER, _MODULES, r"^(?:_apply|to_empty|load_state_dict)$"),
    _FrameRule(PARAMETER, r"(?:^|/)torch/nn/(?:modules|parameter|init)\b", r"^(?:__init__|reset_parameters|\w+_)$"),
    _FrameRule(PARAMETER, r"(?:^|/)safetensors/|/fsdp/.*(?:_fsdp_param|_init_utils)\.py$", r"load|init|shard"),
    _FrameRule(
        PARAMETER, None, r"^(?:from_pretrained|_load_pretrained_model|(?:_?init|load|create|initialize)_weights)$"
    ),
    _FrameRule(COLLECTIVE, None, r"\bc10d::|\bnccl[A-Z]"),
    _FrameRule(COLLECTIVE, None, r"^_?(?:all_?gather|all_?reduce|reduce_?scatter|all_?to_?all)(?:_\w+)?$"),
    _FrameRule(COLLECTIVE, r"(?:^|/)torch/distributed/(?:distributed_c10d\.py$|fsdp/.*_fsdp_collectives\.py$)", None),
    _FrameRule(COLLECTIVE, r"(?:^|/)torch/distributed/fsdp/_flat_param\.py$", r"^_alloc_padded_unsharded|unshard"),
    _FrameRule(COLLECTIVE, r"(?:^|/)torch/nn/parallel/distributed\.py$", r"^_ddp_init_helper$"),
    _FrameRule(WORKSPACE, None, r"[wW]orkspace|::run_conv_plan|run_conv_cudagraph"),
    _FrameRule(INPUT, r"(?:^|/)torch/utils/data/", None),
    _FrameRule(INPUT, None, r"^(?:pin_memory|\w*to_device|_prepare_inputs?|transfer_batch_\w+)$"),
    _FrameRule(INPUT, None, r"^(?:get_(?:next_)?batch|next_batch|collate\w*|prefetch\w*)$"),
    _FrameRule(COPY_TO_DEVICE, None, r"autograd::THPVariable_(?:to|cuda)\b"),
    _FrameRule(
        KV_CACHE, None, r"^_?(?:allocate|init|initialize|create|setup|reset)_(?:\w+_)?(?:kv_)?caches?(?:_\w+)?$"
    ),
    _FrameRule(KV_CACHE, r"(?:^|/)(?:\w*kv_?cache|cache_utils|static_cache)\.py$", None),
    _FrameRule(
        RECOMPUTATION, r"checkpoint(?:ing)?\.py$|parallel/random\.py$", r"^(?:recompute_fn|unpack_hook|backward)$"
    ),
    _FrameRule(GRAPH_RELEASE, None, r"^torch::autograd::(?:deleteNode\b|.*::release_variables\b)"),
)

_AUTOGRAD_THREAD: Final = re.compile(r"(?:^|/)torch/(?:autograd|utils/checkpoint|_functorch)\b")
"""Files of the outermost Python frame of a thread of autograd: nothing of Python called it."""

_PYTHON: Final = re.compile(r"\.pyx?$|^<")
"""Files of Python frames; those of C++ frames are libraries, executables, sources or not known."""

_NOISE: Final = re.compile(
    r"^(?:[\w ]+ )?(?:at|torch|c10|std|pybind11)::|^_*(?:Py|start\b|libc_|clone)|^(?:cfunction|method)_|pthread"
)
"""C++ functions that say nothing to a reader: of torch, of Python and of the system."""

_INSTALLED: Final = re.compile(
    r"/(?:(?:site|dist)-packages/(?P<torch>torch/.*)|(?P<package>(?:site|dist)-packages/.*))$"
)

_OPERATOR: Final = re.compile(r"^at::_ops::(\w+?)(?:_((?:[A-Z]|dim|memory_format|self$|out$)\w*))?::call\(")
_TEXT_FRAME: Final = re.compile(r'File "(.+?)", line (\d{1,9})')
"""A frame as Python's `traceback` writes it."""

_NODE: Final = re.compile(r"^torch::autograd::generated::(\w+)::apply\(")


@dataclass(frozen=True)
class StackSites:
    """Facts of each distinct stack of a snapshot; the row behind the last is that of no stack.

    Attributes:
        marks: int32 [stacks + 1], what its frames show: bits of FRAME_MARKS.
        user: int32 [stacks + 1], the innermost frame of the user's program; NONE.
        module: int32 [stacks + 1], the frame of the user's program that calls the innermost nn.Module; NONE.
        operator: int32 [stacks + 1], the frame of the outermost operator, or node of autograd's graph; NONE.
        has_cpp: bool, whether any frame is C++'s.
    """

    snapshot: Snapshot
    marks: Int32s
    user: Int32s
    module: Int32s
    operator: Int32s
    has_cpp: bool

    def line_of(self, frame: int) -> str:
        """`model.py:12`: the file without its folder, unless two files of the program share the name; "" for NONE."""
        if frame < 0:
            return ""
        frames = self.snapshot.frames
        return f"{self._short[int(frames.file[frame])]}:{frames.line[frame]}"

    def line(self, stack: int) -> str:
        """The line of the user's program that a stack leads to."""
        return self.line_of(int(self.user[stack]))

    def forward_line(self, text_stack: int) -> str:
        """The innermost line of the user's program in a stack of texts, which has the outermost frame first."""
        for text in self.snapshot.strings.labels(self.snapshot.text_stacks.of(text_stack)[::-1].tolist()):
            match = _TEXT_FRAME.search(text)
            if match and is_users_file(match[1].replace("\\", "/")):
                return f"{PurePosixPath(match[1].replace(chr(92), '/')).name}:{match[2]}"
        return ""

    def operator_of(self, frame: int) -> str:
        """`aten::mul.Tensor`, `MulBackward0`; "" for NONE."""
        name = self.snapshot.strings.label(int(self.snapshot.frames.name[frame])) if frame >= 0 else ""
        if match := _OPERATOR.match(name):
            return f"aten::{match[1]}" + (f".{match[2]}" if match[2] else "")
        return match[1] if (match := _NODE.match(name)) else ""

    def frame(self, frame: int) -> str:
        """`model.py(12): forward`, an operator, or the C++ function without its arguments; "" for what is noise."""
        frames, strings = self.snapshot.frames, self.snapshot.strings
        name = strings.label(int(frames.name[frame]))
        if self.is_python[frame]:
            return frame_text(f"{self._short[int(frames.file[frame])]}({frames.line[frame]}): {name}")
        if operator := self.operator_of(frame):
            return operator
        return "" if _NOISE.search(name) else frame_text(name.split("(", 1)[0])

    def folded(self, stack: int) -> str:
        """The frames of a stack, the outermost first, parted by semicolons; "" for none."""
        texts = [self._texts.get(frame) or self._keep(frame) for frame in self.snapshot.stacks.of(stack)[::-1].tolist()]
        return SEPARATOR.join(text for text in texts if text)

    def user_frames(self, stack: int) -> Int32s:
        """The frames of the user's program, innermost first."""
        frames = self.snapshot.stacks.of(stack)
        return frames[self.is_users[frames]]

    @cached_property
    def is_users(self) -> Bools:
        """Frames of the user's program: bool [frames]."""
        return _of_files(self.snapshot, is_users_file) & self.is_python

    @cached_property
    def is_python(self) -> Bools:
        """Frames of Python: bool [frames]."""
        return _is_python(self.snapshot)

    @cached_property
    def _texts(self) -> dict[int, str]:
        return {}

    def _keep(self, frame: int) -> str:
        return self._texts.setdefault(frame, self.frame(frame))

    @cached_property
    def _short(self) -> dict[int, str]:
        """The name to show of each file, by its string code."""
        codes = np.unique(self.snapshot.frames.file).tolist()
        paths = {code: PurePosixPath(self.snapshot.strings.label(code).replace("\\", "/")) for code in codes}
        shared = Counter(path.name for path in paths.values() if is_users_file(str(path)))
        return {code: _shortened(path, shared[path.name]) for code, path in paths.items()}


@derived
def stack_sites(trace: Trace) -> StackSites:
    """The sites of the last snapshot of a rank that has one."""
    snapshot = known_snapshot(trace)
    stacks = snapshot.stacks
    is_python = _is_python(snapshot)
    shows = _marks(snapshot)
    begin = np.concatenate([[0], stacks.ends])[:-1].astype(np.int64)
    marks = np.append(_any_bits(shows, stacks, begin), 0).astype(np.int32)
    users = _of_files(snapshot, is_users_file) & is_python
    in_thread = _of_files(snapshot, lambda file: _AUTOGRAD_THREAD.search(file) is not None)
    items = stacks.items
    outermost = _last(np.flatnonzero(is_python[items]), begin, stacks.ends)
    is_thread = outermost >= 0
    is_thread[is_thread] = in_thread[items[outermost[is_thread]]]
    marks[:-1][is_thread] |= BACKWARD
    users_at = np.flatnonzero(users[items])
    user = _first(users_at, begin, stacks.ends)
    called = _first(np.flatnonzero(shows[items] & MODULE_CALL), begin, stacks.ends)
    caller = np.where(called >= 0, _first(users_at, np.maximum(called, 0), stacks.ends), NONE)
    is_operator = _of_names(snapshot, lambda name: _OPERATOR.match(name) or _NODE.match(name)) & ~is_python
    operator = _last(np.flatnonzero(is_operator[items]), begin, stacks.ends)

    def frames_at(places: Int64s) -> Int32s:
        return np.append(np.where(places >= 0, items[places], NONE) if len(items) else places, NONE).astype(np.int32)

    return StackSites(
        snapshot,
        marks,
        frames_at(user),
        frames_at(caller),
        frames_at(operator),
        has_cpp=bool((~is_python[items]).any()),
    )


def _marks(snapshot: Snapshot) -> Int32s:
    """Marks that each frame shows by itself: int32 [frames]."""
    shows = np.zeros(len(snapshot.frames), np.int32)
    for mark, file, function in _FRAME_RULES:
        matches = np.ones(len(shows), np.bool_)
        if file is not None:
            matches &= _of_files(snapshot, re.compile(file).search)
        if function is not None:
            matches &= _of_names(snapshot, re.compile(function).search)
        shows[matches] |= mark
    return shows


def _is_python(snapshot: Snapshot) -> Bools:
    """Frames of Python: those of C++ have no line, or an address in a library as one."""
    return _of_files(snapshot, _PYTHON.search) & (snapshot.frames.line > 0)


def _of_files(snapshot: Snapshot, matches: Callable[[str], object]) -> Bools:
    """Frames whose file matches, each file looked at once: bool [frames]."""
    return _of_texts(snapshot, snapshot.frames.file, lambda text: matches(text.replace("\\", "/")))


def _of_names(snapshot: Snapshot, matches: Callable[[str], object]) -> Bools:
    """Frames whose function matches: bool [frames]."""
    return _of_texts(snapshot, snapshot.frames.name, matches)


def _of_texts(snapshot: Snapshot, codes: Int32s, matches: Callable[[str], object]) -> Bools:
    numbers, first = group(codes)
    texts = snapshot.strings.labels(codes[first].tolist())
    return np.array([bool(matches(text)) for text in texts], np.bool_)[numbers]


def _any_bits(shows: Int32s, stacks: SnapshotStacks, begin: Int64s) -> Int32s:
    """The marks of all frames of each stack: int32 [stacks]."""
    marks = np.zeros(len(stacks), np.int32)
    filled = np.flatnonzero(stacks.ends > begin)
    if len(filled):  # stacks lie one behind the other, so those with frames part the items
        marks[filled] = np.bitwise_or.reduceat(shows[stacks.items], begin[filled])
    return marks


def _first(places: Int64s, begin: Int64s, end: Int64s) -> Int64s:
    """The first of some ascending places from `begin` on and before `end`: int64, NONE where there is none."""
    at = np.append(places, np.iinfo(np.int64).max)[np.searchsorted(places, begin)]
    return np.where(at < end, at, NONE)


def _last(places: Int64s, begin: Int64s, end: Int64s) -> Int64s:
    """The last of them before `end`."""
    at = np.concatenate([[-1], places])[np.searchsorted(places, end)]
    return np.where(at >= begin, at, NONE)


def _shortened(path: PurePosixPath, namesakes: int) -> str:
    """The name of a user's file; of an installed one the path below its folder, so that it still is one."""
    if namesakes:
        return path.name if namesakes == 1 else "/".join(path.parts[-2:])
    installed = _INSTALLED.search(str(path))
    return installed["torch"] or installed["package"] if installed else str(path)
