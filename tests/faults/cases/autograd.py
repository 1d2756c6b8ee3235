"""Faults in the use of autograd: what is computed, kept or checked for a backward pass that needs none of it."""

from __future__ import annotations

from typing import Any, Final

from tests.faults.case import planted
from tests.faults.cases.host import fused, large, on_host, small, training
from tests.faults.healthy import perceptron, transformer
from tests.faults.host import Body
from tests.faults.network import Network
from tests.faults.program import Program

_A100: Final[dict[str, Any]] = {"device": "NVIDIA A100-SXM4-40GB", "capability": (8, 0), "memory": 40e9}
_CPU: Final[dict[str, Any]] = {"device": None}


def anomaly(body: Body) -> Body:
    """The same with anomaly detection."""

    def checked(p: Program, n: int) -> None:
        p.anomaly = True
        body(p, n)

    return checked


def evaluating(rows: int, width: int, *, layers: int, graph: bool, quicker: float = 0.85) -> Body:
    """An evaluation with and without a graph; without one each operator costs the host less."""

    def body(p: Program, n: int) -> None:
        precision = "bf16" if p.device else "fp32"
        net = Network(p, precision, 1.0 if graph else quicker, training=graph)
        factor = 1 if graph else quicker
        for _ in range(layers):
            if p.device:
                net.linear(rows, width, width)
            else:
                us = net.us(2.0 * rows * width * width, 0) * factor
                with p.op("aten::linear", 3):
                    p.call("aten::addmm", us, shapes=[[width], [rows, width], [width, width]], grad=net._node("Addmm"))
            net.pointwise("aten::relu", rows, width)
        net._tape.clear()
        p._tape.clear()

    return body


def validating(*, graph: bool, layers: int = 40) -> Body:
    """A training step, and a validation behind it."""

    def body(p: Program, n: int) -> None:
        training(small)(p, n)
        p.item()
        evaluating(16, 512, layers=layers, graph=graph)(p, n)
        p.item()

    return body


def again(precision: str = "bf16", *, times: int, host: bool = False) -> Body:
    """A training step whose metric is computed by calls of the model, or from the outputs that are there."""

    def body(p: Program, n: int) -> None:
        p.loader(1500, workers=4)
        net = Network(p, precision)
        for call in range(1 + times):
            made = Network(p, precision, training=call == 0) if call else net
            with p.python("nn.Module: Net_0"):
                perceptron(made, rows=128, width=512) if host else transformer(made, layers=6, batch=4, length=512)
        net.backward()
        fused(net)

    return body


def losses(precision: str, *, retained: bool, host: bool = False) -> Body:
    """Two losses of one network, each with a backward pass of its own, or added up."""

    def body(p: Program, n: int) -> None:
        p.loader(1500, workers=4)
        net = Network(p, precision)
        perceptron(net, rows=256, width=512) if host else transformer(net, layers=5, batch=4, length=1024)
        tape, numbers = list(net._tape), list(p._tape)
        for turn in range(1 + retained):
            net._tape[:], p._tape[:] = tape, numbers
            if turn:
                p.host(30)
            net.backward()
        fused(net)

    return body


CASES = (
    planted("HOST011", "anomaly detection left on", anomaly(training(small)), training(small), seed=801, steps=8),
    planted(
        "HOST011",
        "anomaly detection left on, large kernels, A100",
        anomaly(training(large)),
        training(large),
        seed=802,
        steps=8,
        **_A100,
    ),
    planted(
        "HOST011",
        "anomaly detection on the host alone",
        anomaly(training(on_host, precision="fp32")),
        training(on_host, precision="fp32"),
        seed=803,
        **_CPU,
    ),
    planted(
        "HOST011",
        "anomaly detection on the host alone, with Python stacks",
        anomaly(training(on_host, precision="fp32")),
        training(on_host, precision="fp32"),
        seed=804,
        stacks=True,
        **_CPU,
    ),
    planted(
        "HOST012",
        "a graph in each evaluation",
        evaluating(64, 512, layers=60, graph=True),
        evaluating(64, 512, layers=60, graph=False),
        seed=810,
        still=("HOST001", "HOST003"),
    ),
    planted(
        "HOST012",
        "a graph in each evaluation, on the host alone",
        evaluating(64, 256, layers=20, graph=True),
        evaluating(64, 256, layers=20, graph=False),
        seed=811,
        **_CPU,
    ),
    planted(
        "HOST012",
        "a graph in the validation behind each training step",
        validating(graph=True),
        validating(graph=False),
        seed=812,
        still=("HOST001", "HOST002"),
    ),
    planted("HOST013", "a second forward pass for a metric", again(times=1), again(times=0), seed=820, stacks=True),
    planted("HOST013", "a second forward pass, without stacks", again(times=1), again(times=0), seed=821, **_A100),
    planted(
        "HOST013",
        "two more forward passes on the host alone",
        again("fp32", times=2, host=True),
        again("fp32", times=0, host=True),
        seed=822,
        stacks=True,
        **_CPU,
    ),
    planted(
        "HOST014",
        "two losses with a backward pass each",
        losses("bf16", retained=True),
        losses("bf16", retained=False),
        seed=830,
    ),
    planted(
        "HOST014",
        "two losses with a backward pass each, on the host alone",
        losses("fp32", retained=True, host=True),
        losses("fp32", retained=False, host=True),
        seed=831,
        **_CPU,
    ),
)
