"""A formula for operators that read some of their arguments once and write results shaped like others."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kinetoscope.model.roofline.formulas.arguments import Arguments, Cost, Tensor, traffic


@dataclass(frozen=True, slots=True)
class StreamedArguments:
    """A formula.

    Attributes:
        written: places of the arguments whose shape and type the results have, the main result first. They are written
            themselves where the operator works in place or takes the place for its result.
        read: places of the arguments that are read; of lists all tensors.
        operations: an element of the first result.
        mask: place of a list of flags, one a result, that tells which are wanted; −1: all are.
    """

    written: tuple[int, ...]
    read: tuple[int, ...]
    operations: int = 1
    mask: int = -1

    def __call__(self, given: Arguments) -> Cost | None:
        """What a call takes, None where its main result or main input was not recorded."""
        main = given.tensor(self.written[0])
        if main is None or given.tensor(self.read[0]) is None:
            return None
        flags = re.findall("True|False", given.text(self.mask))
        wanted = [flag == "True" for flag in flags] if len(flags) == len(self.written) else [True] * len(self.written)
        outputs = tuple(
            Tensor(tensor.shape, None, tensor.type)
            for place, is_wanted in zip(self.written, wanted, strict=True)
            if is_wanted and (tensor := given.tensor(place)) is not None
        )
        read = [each for place in self.read if (each := given.tensor(place)) is not None]
        return Cost(vector_flop=self.operations * main.elements, bytes=traffic(*read, *outputs), outputs=outputs)
