"""The outermost modules that train compute in BF16 where torch's autocast says that it is safe."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from kinetoscope.record.trials.trial import Change, Edit, Trial

if TYPE_CHECKING:
    import torch


def put_in(change: Change) -> None:
    """Run their calls under autocast. FP16 needs a scaler of gradients, and is not tried."""
    from kinetoscope.record.trials.outermost import Outermost

    casts = _Casts(change)
    Outermost(change, casts.stay, first=casts.look, enter=casts.enter, leave=casts.leave)
    change.checks(lambda: "" if casts.calls else "no call was made under autocast")


class _Casts:
    """The calls under autocast."""

    def __init__(self, change: Change) -> None:
        self.calls = 0
        self._change = change
        self._fit: dict[int, bool] = {}
        self._open = threading.local()

    def look(self, module: torch.nn.Module, where: tuple[str, int] | None) -> None:
        """A first look at a module: is it fit? Noted once."""
        if id(module) in self._fit:
            return
        if why := _unfit(module):
            self._change.refuses(why)
        else:
            self._change.facts.setdefault("device", _device(module))
        self._fit[id(module)] = not why and self._change.applies(where=where)

    def stay(self, module: torch.nn.Module, where: tuple[str, int] | None) -> None:
        """From the second step on, hooks on the module alone do it: copies of the module have them, too."""
        from kinetoscope.record.trials.outermost import Hook

        self.look(module, where)
        if self._fit[id(module)]:
            module.register_forward_pre_hook(Hook(self.enter), prepend=True)
            module.register_forward_hook(Hook(self.leave), always_call=True)

    def enter(self, module: torch.nn.Module, _: Any = None) -> None:
        import torch

        if not hasattr(self._open, "stack"):
            self._open.stack = []
        device = _device(module)
        fit = self._fit.get(id(module), True) and not torch.is_autocast_enabled(device)
        cast = torch.autocast(device, torch.bfloat16) if fit else None
        self._open.stack.append(cast)
        if cast is not None:
            self.calls += 1
            cast.__enter__()

    def leave(self, *_: Any) -> None:
        if (stack := getattr(self._open, "stack", None)) and (cast := stack.pop()) is not None:
            cast.__exit__(None, None, None)


def _device(module: torch.nn.Module) -> str:
    return next((each.device.type for each in module.parameters()), "cpu")


def _unfit(module: torch.nn.Module) -> str:
    import torch

    from kinetoscope.record.trials.outermost import is_sharded

    device = _device(module)
    if isinstance(module, torch.jit.ScriptModule):
        return "the model is a TorchScript module"
    if torch.is_autocast_enabled(device):
        return "autocast is on already"
    if any(each.is_floating_point() and each.dtype is not torch.float32 for each in module.parameters()):
        return "the model's parameters are not all in FP32"
    if getattr(module, "_compiled_call_impl", None) is not None:
        return "the model is compiled in place"
    if is_sharded(module):
        return "its parameters are spread over ranks"
    if device == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False):
        return "the device has no BF16"
    return ""


TRIAL = Trial(
    name="bf16",
    title="compute in BF16 under autocast",
    answers=("DEVICE001",),
    put_in=put_in,
    effect="rounding",
    edit=Edit(
        within='torch.autocast("{device}", dtype=torch.bfloat16)',
        text='call the model within `with torch.autocast("{device}", dtype=torch.bfloat16):`',
    ),
    loss_within=2e-2,
)
