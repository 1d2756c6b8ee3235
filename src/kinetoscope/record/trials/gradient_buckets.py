"""What is chosen where a model is made data parallel: three changes of `DistributedDataParallel`, a module each."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from kinetoscope.record.trials.constructors import choose_arguments
from kinetoscope.record.trials.trial import Change


def choose_buckets(
    change: Change, choose: Callable[[dict[str, Any]], dict[str, Any] | str], in_effect: Callable[[Any], bool]
) -> None:
    """Have arguments of `DistributedDataParallel` chosen, and read back by `in_effect` from what was made."""
    from torch.nn.parallel import DistributedDataParallel

    made: weakref.WeakSet[Any] = weakref.WeakSet()
    choose_arguments(change, DistributedDataParallel, lambda _, given: choose(given), made.add)
    change.checks(lambda: "" if all(map(in_effect, made)) else "the model was wrapped without it")
