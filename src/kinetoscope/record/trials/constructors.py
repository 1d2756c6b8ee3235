"""Arguments that a change gives to what a program makes: loaders, optimizers, wrappers of models."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from kinetoscope.record.trials.trial import Change

Choice = Mapping[str, Any] | str
"""Arguments to give instead; or why this one is left as it is, "" for one that the change has nothing to do with."""


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
