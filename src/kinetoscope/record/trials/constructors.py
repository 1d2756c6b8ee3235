"""Arguments that a change gives to what a program makes: loaders, optimizers, wrappers of models."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Final

from kinetoscope.record.trials.trial import Change

Choice = Mapping[str, Any] | str
"""Arguments to give instead; or why this one is left as it is, "" for one that the change has nothing to do with."""

LOADER: Final = (
    "dataset",
    "batch_size",
    "shuffle",
    "sampler",
    "batch_sampler",
    "num_workers",
    "collate_fn",
    "pin_memory",
    "drop_last",
    "timeout",
    "worker_init_fn",
    "multiprocessing_context",
    "generator",
)
"""Parameters of `DataLoader` that may be given without a name, in order."""


def choose_arguments(
    change: Change,
    kind: type[Any],
    choose: Callable[[Any, dict[str, Any]], Choice],
    made: Callable[[Any], object] = lambda _: None,
) -> None:
    """Have arguments of a class's constructor chosen.

    choose: called with what is being made, and with the arguments that were given, by name.
    made: called with each that was made with other arguments.

    Wrapped by several changes, the constructor asks each; and its signature, which frameworks read, stays.
    """
    original = kind.__init__
    signature = inspect.signature(original)

    @functools.wraps(original)
    def make(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            given = signature.bind(self, *args, **kwargs).arguments
        except TypeError:  # the program's own mistake, which the original tells
            original(self, *args, **kwargs)
            return
        given.pop("self", None)
        try:
            chosen = choose(self, given)
        except Exception as error:  # noqa: BLE001 - whatever a data set or a group of parameters does when it is looked at
            chosen = f"it cannot be looked at: {error!r:.200}"
        if isinstance(chosen, str) or not change.applies():
            if isinstance(chosen, str) and chosen:
                change.refuses(chosen)
            original(self, **given)
            return
        original(self, **{**given, **chosen})
        made(self)

    kind.__init__ = make


def choose_buckets(
    change: Change, choose: Callable[[dict[str, Any]], dict[str, Any] | str], in_effect: Callable[[Any], bool]
) -> None:
    """Have arguments of `DistributedDataParallel` chosen, and read back by `in_effect` from what was made."""
    from torch.nn.parallel import DistributedDataParallel

    made: weakref.WeakSet[Any] = weakref.WeakSet()
    choose_arguments(change, DistributedDataParallel, lambda _, given: choose(given), made.add)
    change.checks(lambda: "" if all(map(in_effect, made)) else "the model was wrapped without it")
