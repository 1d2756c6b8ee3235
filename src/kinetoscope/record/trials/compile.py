"""The outermost modules that train are compiled by `torch.compile`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from kinetoscope.record.trials.trial import Change, Edit, Trial

if TYPE_CHECKING:
    import torch


def put_in(change: Change) -> None:
    """Compile `forward` of each from the second step on.

    `Module.compile` does nothing, and says nothing, for a `Sequential`, whose `forward` is torch's own.
    """
    from kinetoscope.record.trials.outermost import Outermost

    counted = _Counts()
    Outermost(change, lambda module, where: _compile(change, module, where, counted))
    change.checks(lambda: counted.read(change))


def _compile(change: Change, module: torch.nn.Module, where: tuple[str, int] | None, counted: _Counts) -> None:
    from kinetoscope.record.trials.outermost import Forward, inner

    target = inner(module)
    if why := _unfit(target):
        change.refuses(why)
        return
    change.facts.setdefault("module", type(module).__name__)
    change.facts.setdefault("inner", "" if target is module else ".module")
    if change.applies(where=where):
        import torch

        target.forward = Forward(target, torch.compile(target.forward))
        counted.begin()


def _unfit(module: torch.nn.Module) -> str:
    import torch

    from kinetoscope.record.trials.outermost import is_compiled, is_sharded

    if isinstance(module, torch.jit.ScriptModule):
        return "the model is a TorchScript module"
    if is_compiled(module):
        return "the program compiles it, or a part of it, already"
    if is_sharded(module):
        return "its parameters are spread over ranks"
    return ""


class _Counts:
    """Graphs, breaks and compilations anew, as torch's compiler counts them, since `begin`."""

    def __init__(self) -> None:
        self._before: tuple[int, int] | None = None

    def begin(self) -> None:
        self._before = self._before or _counted()

    def read(self, change: Change) -> str:
        """The counts become facts of the change; "" if anything was compiled."""
        graphs, breaks = (now - then for now, then in zip(_counted(), self._before or (0, 0), strict=True))
        change.facts |= {"graphs": graphs, "breaks": breaks, "recompilations": _recompilations()}
        return "" if graphs else "torch.compile made no graph of it"


def _counted() -> tuple[int, int]:
    """Graphs and breaks of this process so far."""
    counters: Any = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
    return int(counters.get("stats", {}).get("unique_graphs", 0)), sum(counters.get("graph_break", {}).values())


def _recompilations() -> int:
    """Compilations of code that was compiled before: their numbers end with another than 0, as in `2/1`."""
    metrics = getattr(sys.modules.get("torch._dynamo.utils"), "get_compilation_metrics", lambda: ())()
    numbers = {str(getattr(each, "compile_id", "")).strip("[]") for each in metrics}
    return sum("/" in number and not number.endswith("/0") for number in numbers)


TRIAL = Trial(
    name="compile",
    title="compile the model",
    answers=("HOST001", "HOST003", "DEVICE008"),
    put_in=put_in,
    effect="rounding",
    edit=Edit(
        after_made=("{called}{inner}.forward = torch.compile({called}{inner}.forward)",),
        text="after the model is made: `model.forward = torch.compile(model.forward)`",
    ),
    compiles=True,
    loss_within=1e-3,
)
