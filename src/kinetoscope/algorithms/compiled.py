"""The one place that decorates what is compiled.

What was compiled ahead of time, by `make prebuilt` or for a wheel, is called at once (`prebuilt`). The rest is compiled
by Numba at its first call, and then kept on disk (`just_in_time`), whose rules hold for both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from kinetoscope.algorithms import prebuilt

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, compiled for the types of its call; runs without the GIL.

    Arguments are contiguous arrays and numbers, by position.
    """
    ready = prebuilt.function(function)
    if ready is not None:
        return cast(Callable[P, R], ready)
    from kinetoscope.algorithms import just_in_time

    return just_in_time.compiled(function)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """`function` as a part of those compiled functions of its file that call it: no call of its own."""
    if prebuilt.is_ready(function):
        return function
    from kinetoscope.algorithms import just_in_time

    return just_in_time.inlined(function)


def intrinsic(function: Callable[..., Any]) -> Any:
    """An instruction for compiled functions of its file, which `function` makes: see `numba.extending.intrinsic`."""
    if prebuilt.is_ready(function):
        return function
    from kinetoscope.algorithms import just_in_time

    return just_in_time.intrinsic(function)


def frozen(array: ArrayLike, dtype: DTypeLike) -> NDArray[Any]:
    """`array` as what compiled functions take for input: one-dimensional, of `dtype`, contiguous, read-only.

    Numba compiles anew for each combination of those; inputs that all look alike keep it at one. The array itself is
    not changed, and copied only where its type or its layout differ.

    Raises:
        TypeError: a value might not survive the change of type.
        ValueError: more than one dimension.
    """
    view = np.ascontiguousarray(np.asarray(array).astype(dtype, casting="safe", copy=False)).view()
    if view.ndim != 1:
        raise ValueError(f"expected an array of one dimension, got shape {view.shape}")
    view.flags.writeable = False
    return view
