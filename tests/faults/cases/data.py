"""Faults of loading data, and of bringing it to the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final

from tests.faults.case import planted
from tests.faults.healthy import perceptron, resnet, transformer
from tests.faults.host import Body
from tests.faults.network import Network
from tests.faults.program import COMPUTE, Program

Part = Callable[[Program, int], object]

_A100: Final[dict[str, Any]] = {"device": "NVIDIA A100-SXM4-40GB", "capability": (8, 0), "memory": 40e9}
_MI300: Final[dict[str, Any]] = {"device": "AMD Instinct MI300X", "capability": (9, 4), "memory": 192e9}
_SPAN: Final = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def training(data: Part, layers: Callable[[Network], None] = transformer, *, precision: str = "bf16") -> Body:
    """A training step that begins with `data`: it gets a batch, and brings it to the device if there is one."""

    def body(p: Program, n: int) -> None:
        data(p, n)
        net = Network(p, precision)
        layers(net)
        net.backward()
        net.optimizer(1e8 if p.device else 1e6)

    return body


def batches(us: float, workers: int, size: float = 2e6, *, then: float = 0.0, **copy: Any) -> Part:
    """Batches of torch's loader, copied as well as can be unless told otherwise; the host then has to think."""

    def data(p: Program, n: int) -> None:
        p.loader(us, workers=workers)
        if p.device:
            p.to_device(size, **{"pinned": True, "blocking": False, **copy})
        p.host(then)

    return data


def small(net: Network) -> None:
    """A step of some 15 ms."""
    transformer(net, layers=4, batch=8)


def tiny(net: Network) -> None:
    """What a CPU trains in some 20 ms."""
    perceptron(net, rows=64, width=512)


def vision(net: Network) -> None:
    """A residual network of some 30 ms."""
    resnet(net, batch=128, blocks=6)


# --- DATA003: epochs


def epochs(length: int, shut: float, start: float, first: float, *, persistent: bool, us: float = 5000) -> Part:
    """Epochs of so many steps; at the end of each, workers are shut down and started anew unless they are persistent.

    The first batch of an epoch is made while the training waits in either case.
    """

    def data(p: Program, n: int) -> None:
        if n > 0 and n % length == 0:
            with p.annotation(_SPAN):
                p.host(60 if persistent else shut)
            if not persistent:
                p.call("aten::random_", 8)
            p.host(80 if persistent else start)
            with p.annotation(_SPAN):
                p.host(us if persistent else us + first)
        else:
            p.loader(us, workers=4)
        if p.device:
            p.to_device(2e6, pinned=True, blocking=False)

    return data


# --- DATA004: loaders of another make


def generator(us: float, frame: str = "", around: str = "train.py(31): batches") -> Part:
    """Batches of the user's own making; `frame` is what Python runs meanwhile, if stacks are recorded."""

    def data(p: Program, n: int) -> None:
        with p.python(around, 20), p.python(frame or "train.py(44): decode"):
            p.host(us)
        if p.device:
            p.to_device(2e6, pinned=True, blocking=False)

    return data


# --- DATA005 to DATA007: copies


_COPIES: Final = 20
"""The stream of copies that come ahead of time."""


def ahead(size: float) -> Part:
    """The batch of a step was copied during the step before, on a stream of its own."""

    def data(p: Program, n: int) -> None:
        p.event_wait(COMPUTE, _COPIES)
        p.loader(4000, workers=4)
        p.to_device(size, pinned=True, blocking=False, stream=_COPIES)

    return data


def images(shape: Sequence[int], dtype: str = "float", **copy: Any) -> Part:
    """Images from workers, copied with their shape known; on the device, bytes are made numbers."""
    width = {"float": 4, "unsigned char": 1, "c10::Half": 2}[dtype]

    def data(p: Program, n: int) -> None:
        p.loader(4000, workers=4)
        told: dict[str, Any] = {"shapes": [list(shape)], "types": [dtype]}
        inner: dict[str, Any] = {"shapes": [list(shape), list(shape), []], "types": [dtype, dtype, "Scalar"]}
        with p.op("aten::to", 2, **told), p.op("aten::_to_copy", 3, **told), p.op("aten::copy_", 4, **inner):
            p.copy("HtoD", prod(shape) * width, **{"pinned": True, "blocking": False, **copy})
        if dtype == "unsigned char":
            net = Network(p, training=False)
            net.pointwise("aten::div", *shape)

    return data


def several(count: int, size: float, us: float = 0.0, **copy: Any) -> Part:
    """A batch of several tensors, for each of which the host thinks."""

    def data(p: Program, n: int) -> None:
        p.loader(4000, workers=4)
        for _ in range(count):
            p.to_device(size, dtype="long int", **{"pinned": True, "blocking": False, **copy})
            p.host(us)

    return data


_IMAGES: Final = (256, 3, 224, 224)

CASES = (
    planted("DATA001", "a light loader", training(batches(11e3, 0), small), training(batches(11e3, 4), small), seed=1),
    planted("DATA001", "a loader slower than the model", training(batches(60_000, 0)), training(batches(60_000, 4))),
    planted(
        "DATA001", "images decoded in the process, A100, TF32",
        training(batches(35_000, 0, 20e6), vision, precision="tf32"),
        training(batches(35_000, 4, 20e6), vision, precision="tf32"), seed=3, steps=12, **_A100,
    ),
    planted(
        "DATA001", "on the host alone",
        training(batches(9000, 0), tiny, precision="fp32"),
        training(batches(9000, 4), tiny, precision="fp32"), seed=4, device=None,
    ),
    planted(
        "DATA001", "a loader that the device hides for the most part",
        training(batches(22_500, 0)), training(batches(22_500, 4)), seed=24,
    ),
    planted("DATA002", "two workers of four", training(batches(90_000, 2)), training(batches(90_000, 4)), seed=5),
    planted(
        "DATA002", "one worker that is far too slow",
        training(batches(40_000, 1), small), training(batches(40_000, 4), small), seed=6, still=("DATA002",),
    ),
    planted(
        "DATA002", "on the host alone",
        training(batches(9e3, 2), tiny, precision="fp32"),
        training(batches(9e3, 4), tiny, precision="fp32"), seed=7, device=None,
    ),
    planted("DATA002", "a little too few", training(batches(36e3, 3), small), training(batches(36e3, 6), small)),
    planted(
        "DATA003", "epochs of five steps",
        training(epochs(5, 20e3, 60e3, 30e3, persistent=False)), training(epochs(5, 20e3, 60e3, 30e3, persistent=True)),
        seed=9, steps=22,
    ),
    planted(
        "DATA003", "epochs of eight steps, workers forked slowly",
        training(epochs(8, 50e3, 300e3, 100e3, persistent=False), small),
        training(epochs(8, 50e3, 300e3, 100e3, persistent=True), small), seed=10, steps=20,
    ),
    planted(
        "DATA003", "one epoch ends",
        training(epochs(13, 20e3, 100e3, 30e3, persistent=False), small),
        training(epochs(13, 20e3, 100e3, 30e3, persistent=True), small), seed=11, steps=20,
    ),
    planted("DATA004", "a generator in the loop", training(generator(25e3)), training(generator(400)), seed=12),
    planted(
        "DATA004", "a queue that runs dry",
        training(generator(18e3, "queue.py(154): get"), small), training(generator(150, "queue.py(154): get"), small),
        seed=13, stacks=True, steps=10,
    ),
    planted(
        "DATA004", "files read on the host alone",
        training(generator(5e3, "PIL/Image.py(3243): open"), tiny, precision="fp32"),
        training(generator(100, "queue.py(154): get"), tiny, precision="fp32"),
        seed=14, device=None, stacks=True, steps=10,
    ),
    planted(
        "DATA005", "images from pageable memory",
        training(batches(4000, 4, 77e6, pinned=False, blocking=True), vision, precision="fp16"),
        training(batches(4000, 4, 77e6), vision, precision="fp16"), seed=15, steps=12,
    ),
    planted(
        "DATA005", "small batches, the host falls behind",
        training(batches(4000, 4, 6e6, pinned=False, blocking=True), small),
        training(batches(4000, 4, 6e6), small), seed=16,
    ),
    planted(
        "DATA005", "pageable, though without blocking, A100",
        training(batches(4000, 4, 30e6, pinned=False, blocking=False), vision, precision="fp16"),
        training(batches(4000, 4, 30e6), vision, precision="fp16"), seed=17, steps=12, **_A100,
    ),
    planted(
        "DATA005", "three tensors of a megabyte",
        training(several(3, 1e6, pinned=False, blocking=True)), training(several(3, 1e6)), seed=25,
    ),
    planted(
        "DATA006", "few float images",
        training(images((32, 3, 224, 224)), small), training(images((32, 3, 224, 224), "unsigned char"), small),
        seed=26,
    ),
    planted(
        "DATA006", "float images, pinned",
        training(images(_IMAGES), vision, precision="fp16"),
        training(images(_IMAGES, "unsigned char"), vision, precision="fp16"), seed=18, steps=12,
    ),
    planted(
        "DATA006", "large float images",
        training(images((64, 3, 800, 800)), vision, precision="fp16"),
        training(images((64, 3, 800, 800), "unsigned char"), vision, precision="fp16"), seed=19, steps=12, **_A100,
    ),
    planted(
        "DATA006", "16-bit images",
        training(images((512, 3, 224, 224), "c10::Half"), vision, precision="fp16"),
        training(images((512, 3, 224, 224), "unsigned char"), vision, precision="fp16"), seed=20, steps=12,
    ),
    planted(
        "DATA007", "pinned, but the host waits, and has more to do",
        training(batches(4000, 4, 20e6, then=2500, blocking=True), small),
        training(batches(4000, 4, 20e6, then=2500), small), seed=21,
    ),
    planted(
        "DATA007", "six tensors that the host waits for",
        training(several(6, 2e5, 300, blocking=True), small), training(several(6, 2e5, 300), small), seed=22,
    ),
    planted(
        "DATA007", "on an MI300X",
        training(batches(4000, 4, 40e6, then=1500, blocking=True), small),
        training(batches(4000, 4, 40e6, then=1500), small), seed=23, **_MI300,
    ),
    planted(
        "DATA009", "large batches on the stream of the kernels",
        training(batches(4000, 4, 150e6), small), training(ahead(150e6), small), seed=27,
    ),
    planted(
        "DATA009", "the same, MI300X",
        training(batches(4000, 4, 250e6), small), training(ahead(250e6), small), seed=28, **_MI300,
    ),
)  # fmt: skip
