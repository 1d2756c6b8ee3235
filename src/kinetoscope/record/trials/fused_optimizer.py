"""The optimizer updates all parameters in one kernel: torch's fused form."""

from __future__ import annotations

import inspect
import itertools
import weakref
from collections.abc import Iterator
from typing import Any, Final

from kinetoscope.record.trials.constructors import choose_arguments
from kinetoscope.record.trials.trial import Change, Edit, Trial

_KINDS: Final = ("Adam", "AdamW", "SGD", "Adagrad")


def put_in(change: Change) -> None:
    """Give the optimizers that have a fused form, and do not use it, that form."""
    import torch

    kinds = tuple(getattr(torch.optim, name) for name in _KINDS)
    made: weakref.WeakSet[Any] = weakref.WeakSet()
    slow = [0]

    def of_kind(kind: type[Any]) -> None:
        def choose(optimizer: Any, given: dict[str, Any]) -> dict[str, Any] | str:
            if next((each for each in type(optimizer).__mro__ if each in kinds), kind) is not kind:
                return ""  # AdamW makes itself an Adam: asked already
            return _unfit(optimizer, kind, given) or {"fused": True, "foreach": None}

        choose_arguments(change, kind, choose, made.add)

    def in_effect() -> None:
        slow[0] = sum(not group.get("fused") for each in made for group in each.param_groups)

    for kind in kinds:
        of_kind(kind)
    change.at_first_step(in_effect)
    change.checks(lambda: f"{slow[0]} groups of parameters were updated without it" if slow[0] else "")


def _unfit(optimizer: Any, kind: type[Any], given: dict[str, Any]) -> str:
    """Why an optimizer must not be fused; "" if it may. A generator of parameters becomes a list."""
    if given.get("fused"):
        return "the optimizer is fused already"
    if inspect.unwrap(type(optimizer).step) is not inspect.unwrap(kind.step):
        return "the optimizer has a step of its own"
    for option in ("capturable", "differentiable"):
        if given.get(option):
            return f"the optimizer is {option}"
    parameters = _parameters(given)
    if any(group.get(option) for group in parameters if isinstance(group, dict) for option in ("foreach", "fused")):
        return "a group of parameters says itself how it is updated"
    flat = list(itertools.chain.from_iterable(_of_group(each) for each in parameters))
    if any(each.is_complex() for each in flat):
        return "some parameters are complex"
    if any(not each.is_floating_point() for each in flat):
        return "some parameters are not floating-point numbers"
    if any(each.layout is not _strided() for each in flat):
        return "some parameters are not dense"
    if kind.__name__ == "Adagrad" and any(each.device.type != "cpu" for each in flat):
        return "Adagrad has no fused form there"
    return ""


def _parameters(given: dict[str, Any]) -> list[Any]:
    """The parameters, or groups of them, that were given; iterators, which can be read once, become lists."""
    params = given.get("params", ())
    if isinstance(params, Iterator):
        params = given["params"] = list(params)
    for group in params:
        if isinstance(group, dict) and isinstance(group.get("params"), Iterator):
            group["params"] = list(group["params"])
    return list(params)


def _of_group(group: Any) -> list[Any]:
    """The tensors of a group; torch also takes pairs of a name and a parameter."""
    inside = group.get("params", ()) if isinstance(group, dict) else (group,)
    inside = (inside,) if hasattr(inside, "is_complex") else inside
    return [each[1] if isinstance(each, tuple) else each for each in inside]


def _strided() -> Any:
    import torch

    return torch.strided


TRIAL = Trial(
    name="fused",
    title="update all parameters in one fused kernel",
    answers=("HOST004",),
    put_in=put_in,
    effect="rounding",
    edit=Edit(calls=_KINDS, keywords={"fused": "True", "foreach": ""}, text="give the optimizer fused=True"),
)
