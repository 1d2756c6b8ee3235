"""Operators that optimizers call, and what the constructors of torch's optimizers take."""

from __future__ import annotations

import re
from typing import Final

from kinetoscope.algorithms.arrays import Bools
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_beginning, rows_named
from kinetoscope.model.trace.recording import recording
from kinetoscope.model.trace.trace import Trace

FUSED_PREFIX: Final = "aten::_fused_"
_MULTI_TENSOR_PREFIXES: Final = ("aten::_foreach_", FUSED_PREFIX, "aten::_amp_foreach")
"""Beginnings of the names of operators that work on all parameters at once."""

_ZEROS: Final = ("aten::zero_", "aten::_foreach_zero_")


@derived
def works_on_all(trace: Trace) -> Bools:
    """Operators that work on many parameters at once: bool [events]."""
    return rows_beginning(trace, _MULTI_TENSOR_PREFIXES, EventKind.HOST_OP)


@derived
def zeroes(trace: Trace) -> Bools:
    """Operators that set a tensor to zero: bool [events]."""
    return rows_named(trace, _ZEROS.__contains__, EventKind.HOST_OP, holding=("zero_",))


# --- what the constructors of torch's optimizers take

FUSED: Final = "fused=True"
FOREACH: Final = "foreach=True"

_FUSED: Final = {
    "Adam": ((2, 0), (2, 4)),
    "AdamW": ((2, 0), (2, 4)),
    "SGD": ((2, 3), (2, 4)),
    "Adagrad": (None, (2, 4)),
}
"""The torch from which on each takes `fused=True`, on devices and on the host; None: it never did."""

_FOREACH: Final = {
    **dict.fromkeys(
        ("ASGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD"), (1, 12)
    ),
    "Adafactor": (2, 5),
}
"""The torch from which on each takes `foreach=True`."""

_NEITHER: Final = frozenset({"LBFGS", "Muon", "SparseAdam"})
"""Optimizers of torch that take neither."""

_VERSION: Final = re.compile(r"(\d{1,3})\.(\d{1,3})")


def is_of_torch(name: str) -> bool:
    """Is it a class of `torch.optim`?"""
    return name in _FOREACH or name in _NEITHER


def best_argument(trace: Trace, name: str, *, on_device: bool) -> tuple[str, str]:
    """The argument with which an optimizer of torch works on all parameters at once, and a remark; "" for none.

    It is `fused=True` where it can be, else `foreach=True`: what the recorded torch takes; where the file does not say
    which torch that is, the remark says from which one on.
    """
    recorded = _torch_version(trace)
    fused, foreach = _FUSED.get(name, (None, None))[0 if on_device else 1], _FOREACH.get(name)
    for argument, since in ((FUSED, fused), (FOREACH, foreach)):
        if since is not None and (recorded is None or recorded >= since):
            return argument, "" if recorded else f"  # from torch {since[0]}.{since[1]} on"
    return "", ""


def _torch_version(trace: Trace) -> tuple[int, int] | None:
    facts = recording(trace)
    match = _VERSION.match(facts.versions.get("torch", "")) if facts is not None else None
    return (int(match[1]), int(match[2])) if match else None
