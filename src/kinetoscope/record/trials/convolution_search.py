"""The algorithm of each convolution is searched, by cuDNN's own measurement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinetoscope.record.trials.trial import NO_DEVICE, Change, Edit, Trial, uses_device

if TYPE_CHECKING:
    import torch


def put_in(change: Change) -> None:
    """Switch the search on before the first convolution, unless results must be the same each time."""
    from torch.backends import cudnn

    from kinetoscope.record.trials.outermost import Outermost

    was_on = cudnn.benchmark
    if change.acts:
        cudnn.benchmark = True
    Outermost(change, lambda module, _: _look(change, module, on_is_ours=change.acts and not was_on))
    change.checks(lambda: "" if cudnn.benchmark else "the program has switched it off")


def _look(change: Change, module: torch.nn.Module, *, on_is_ours: bool) -> None:
    from torch import are_deterministic_algorithms_enabled
    from torch.backends import cudnn
    from torch.nn.modules.conv import _ConvNd

    if not any(isinstance(each, _ConvNd) for each in module.modules()):
        change.refuses("the model has no convolutions")
    elif not uses_device():
        change.refuses(NO_DEVICE)
    elif cudnn.deterministic or are_deterministic_algorithms_enabled():
        change.refuses("the program asks for the same results each time")
    elif cudnn.benchmark and not on_is_ours:
        change.refuses("it is on already")
    else:
        change.applies(place=False)


TRIAL = Trial(
    name="cudnn-benchmark",
    title="search the fastest algorithm of each convolution",
    answers=(),
    put_in=put_in,
    effect="rounding",
    edit=Edit(lines=("import torch", "torch.backends.cudnn.benchmark = True")),
    needs="device",
    unasked=True,
)
