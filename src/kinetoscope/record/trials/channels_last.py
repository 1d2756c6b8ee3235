"""Weights of convolutions, and with them what they compute, have the channels last in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinetoscope.record.trials.trial import Change, Edit, Trial

if TYPE_CHECKING:
    import torch


def put_in(change: Change) -> None:
    """Lay out the outermost modules that train before their first call, while the optimizer has no state.

    Inputs need no care: the first convolution brings them into the layout of its weights.
    """
    from torch.nn.parameter import is_lazy

    from kinetoscope.record.trials.outermost import Outermost

    laid_out: list[torch.Tensor] = []
    seen: set[int] = set()

    def lay_out(module: torch.nn.Module, where: tuple[str, int] | None) -> None:
        if id(module) in seen:
            return
        seen.add(id(module))
        if any(map(is_lazy, module.parameters())):
            change.refuses("the sizes of its weights are not known before its first call")
            return
        weights = _weights(module)
        if why := _unfit(module, weights):
            change.refuses(why)
            return
        change.facts.setdefault("module", type(module).__name__)
        if change.applies(where=where):
            module.to(memory_format=_channels_last())
            laid_out.extend(weights)

    Outermost(change, lay_out, first=lay_out)
    change.checks(lambda: "" if all(map(_is_laid_out, laid_out)) else "the weights have another layout at the end")


def _weights(module: torch.nn.Module) -> list[torch.Tensor]:
    """Weights of convolutions of pictures whose layout would change."""
    import torch

    kinds = torch.nn.Conv2d, torch.nn.ConvTranspose2d
    weights = (each.weight for each in module.modules() if isinstance(each, kinds))
    return [weight for weight in weights if weight.dim() == 4 and not _is_laid_out(weight)]


def _unfit(module: torch.nn.Module, weights: list[torch.Tensor]) -> str:
    import torch

    from kinetoscope.record.trials.outermost import inner, is_sharded

    if not weights:
        return "no convolution of pictures has weights in another layout"
    if isinstance(module, torch.jit.ScriptModule):
        return "the model is a TorchScript module"
    if inner(module) is not module:
        return "gradients are exchanged in the layout that the weights had when the model was wrapped"
    if is_sharded(module):
        return "its parameters are spread over ranks"
    if any(each.dim() == 5 for each in module.parameters()):
        return "it has convolutions of volumes, too"
    return ""


def _is_laid_out(weight: torch.Tensor) -> bool:
    return bool(weight.is_contiguous(memory_format=_channels_last()))


def _channels_last() -> torch.memory_format:
    import torch

    return torch.channels_last


TRIAL = Trial(
    name="channels-last",
    title="keep pictures with their channels last in memory",
    answers=("DEVICE004",),
    put_in=put_in,
    effect="rounding",
    edit=Edit(
        after_made=("{called}.to(memory_format=torch.channels_last)",),
        text="after the model is made: `model.to(memory_format=torch.channels_last)`",
    ),
    unasked=True,
)
