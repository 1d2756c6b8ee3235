"""Costs of calls that read some tensors once and write others once."""

from __future__ import annotations

import re

from kinetoscope.model.roofline.formulas.arguments import Arguments, Cost, Tensor, traffic


def streamed(*read: Tensor | None, out: Tensor | tuple[Tensor, ...], flop: int = 0) -> Cost:
    """The cost of a call that reads some tensors once and writes others once."""
    outputs = (out,) if isinstance(out, Tensor) else out
    return Cost(vector_flop=flop, bytes=traffic(*read, *outputs), outputs=outputs)


def streaming(given: Arguments, written: str, read: str, operations: int = 1, mask: str = "") -> Cost | None:
    """Some arguments read, results like others written; None where the first of each was not recorded.

    Args:
        given: the arguments.
        written: names of those whose shape and type the results have, the main result first. They are written
            themselves where the operator works in place or takes the place for its result.
        read: names of those that are read.
        operations: an element of the first result.
        mask: name of a list of flags, one a result, that tells which are wanted; "": all are.
    """
    results, tensors = ([given.tensor(name) for name in names.split()] for names in (written, read))
    if results[0] is None or tensors[0] is None:
        return None
    flags = re.findall("True|False", given.text(mask))
    wanted = [flag == "True" for flag in flags] if len(flags) == len(results) else [True] * len(results)
    out = tuple(each.new() for each, is_wanted in zip(results, wanted, strict=True) if is_wanted and each is not None)
    return streamed(*tensors, out=out, flop=operations * results[0].elements)
