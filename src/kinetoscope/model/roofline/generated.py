"""What kernels compute and move that Inductor generated, whose calls are recorded under the kernels' names.

Since torch 2.9 Inductor records its own estimate with each call: the operations of templates (`kernel_flop`) and the
bytes that go in and out (`kernel_num_gb`), computed when it compiled the kernel. Earlier only the arguments were
recorded. Each tensor among them is read or written; which are both is not recorded, and a tensor that is gathered from
may be read in part. So their bytes are the least of a kernel that gathers nothing, and of others the most.
"""

from __future__ import annotations

import re
from typing import Final

from kinetoscope.model.roofline.arguments import Arguments, Cost, Entry, Tensor, traffic

_GATHERS: Final = re.compile(r"embedding|index|gather|scatter|take|sort|grid_sampl")
"""Words in the name of a kernel that reads or writes only some elements of a tensor."""

_GENERATED: Final = re.compile(r"triton_(poi|red|per|fused|tem|for|mm|bmm|convolution)\w*")


def _fused(given: Arguments) -> Cost | None:
    """What the compiler estimated, else the tensors among the arguments."""
    tensors = [each for each in given.values if isinstance(each, Tensor)]
    flop, moved = given.estimate or (0, 0)
    elements = max((each.elements for each in tensors), default=0)
    if moved:
        return Cost(flop, elements, moved)
    touched = traffic(*tensors)
    if not tensors or touched is None:
        return None
    if _GATHERS.search(given.kernel):
        return Cost(flop, elements, 0, bytes_most=touched)
    return Cost(flop, elements, touched)


_ENTRY: Final = Entry(_fused, needs=("kernel", "estimate"))
_TEMPLATE: Final = Entry(_fused, is_product=True, needs=("kernel", "estimate"))


def generated(name: str) -> Entry | None:
    """The entry of a kernel that Inductor generated; None for other names."""
    match = _GENERATED.fullmatch(name)
    if match is None:
        return None
    return _TEMPLATE if match[1] in ("tem", "mm", "bmm", "convolution") else _ENTRY
