"""A small training job in which one thing goes wrong on one rank: run by torchrun with a plan as JSON.

Steps end by an optimizer; before each its gradients are reduced, and the loss is broadcast from rank 0. The faults are
written as people make them.
"""

from __future__ import annotations

import datetime
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist


@dataclass(frozen=True)
class Plan:
    """See `planted.Planted`."""

    cause: str
    rank: int
    other: int
    step: int
    size: int
    steps: int
    timeout: float
    pause: float


def main(plan: Plan) -> None:
    """Train, with the fault."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=plan.timeout))
    torch.manual_seed(0)
    model = torch.nn.Linear(plan.size, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    mine = dist.get_rank() == plan.rank
    fault = FAULTS.get(plan.cause)
    groups = pairs(plan) if plan.cause == "order of groups" else []
    for step, batch in enumerate(batches(plan, mine)):
        is_due = step == plan.step
        model(batch).square().mean().backward()
        if is_due and fault is not None:
            fault(model, mine, plan, groups)
        else:
            reduce_gradients(model)
            share_loss(model)
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(0.02)
    if plan.cause != "exhausted loader":
        dist.barrier()
    dist.destroy_process_group()


def pairs(plan: Plan) -> list[Any]:
    """Two groups of the same two ranks."""
    timeout = datetime.timedelta(seconds=plan.timeout)
    return [dist.new_group([plan.rank, plan.other], timeout=timeout) for _ in range(2)]


def batches(plan: Plan, mine: bool) -> Iterator[torch.Tensor]:
    """The batches of a rank; one whose shard is shorter has fewer."""
    few = mine and plan.cause == "exhausted loader"
    for _ in range(plan.step if few else plan.steps):
        yield torch.ones(2, plan.size)


def reduce_gradients(model: torch.nn.Module) -> None:
    """The mean of the gradients of all ranks."""
    for each in model.parameters():
        dist.all_reduce(each.grad)


def share_loss(_: torch.nn.Module) -> None:
    """Rank 0 says how it goes."""
    dist.broadcast(torch.zeros(1), src=0)


def skipped(model: torch.nn.Module, mine: bool, _: Plan, __: Any) -> None:
    """A collective behind an `if`."""
    reduce_gradients(model)
    if not mine:
        share_loss(model)


def other_shape(model: torch.nn.Module, mine: bool, plan: Plan, _: Any) -> None:
    """The last batch is not dropped, so a tensor is smaller."""
    reduce_gradients(model)
    dist.all_reduce(torch.ones(plan.size - mine))
    share_loss(model)


def other_type(model: torch.nn.Module, mine: bool, plan: Plan, _: Any) -> None:
    """A metric that is a double on one rank."""
    reduce_gradients(model)
    dist.all_reduce(torch.ones(plan.size, dtype=torch.float64 if mine else torch.float32))
    share_loss(model)


def other_operation(model: torch.nn.Module, mine: bool, plan: Plan, _: Any) -> None:
    """A branch that calls another collective."""
    reduce_gradients(model)
    metric = torch.ones(plan.size)
    if mine:
        dist.all_gather([torch.empty(plan.size) for _ in range(dist.get_world_size())], metric)
    else:
        dist.all_reduce(metric)
    share_loss(model)


def other_root(model: torch.nn.Module, mine: bool, plan: Plan, _: Any) -> None:
    """A rank that thinks that it is the first."""
    reduce_gradients(model)
    dist.broadcast(torch.ones(plan.size), src=plan.rank if mine else plan.other)
    share_loss(model)


def inverse_order(_: torch.nn.Module, __: bool, plan: Plan, groups: Any) -> None:
    """Two groups of the same two ranks, which each calls in its own order."""
    here = dist.get_rank()
    if here in (plan.rank, plan.other):
        for group in groups if here == plan.rank else reversed(groups):
            dist.all_reduce(torch.ones(plan.size), group=group)


def killed(model: torch.nn.Module, mine: bool, _: Plan, __: Any) -> None:
    """What the kernel does when memory runs out."""
    if mine:
        os.kill(os.getpid(), signal.SIGKILL)
    reduce_gradients(model)


def exited(model: torch.nn.Module, mine: bool, _: Plan, __: Any) -> None:
    """A library that ends the process."""
    if mine:
        os._exit(3)
    reduce_gradients(model)


def swallowed(model: torch.nn.Module, mine: bool, _: Plan, __: Any) -> None:
    """An exception in a step, which goes on without its collectives."""
    try:
        if mine:
            raise ValueError("a bad batch")
        reduce_gradients(model)
    except ValueError:
        pass
    share_loss(model)


def asleep(model: torch.nn.Module, mine: bool, plan: Plan, _: Any) -> None:
    """A host that does something else, for longer than the others wait."""
    if mine:
        time.sleep(plan.pause)
    reduce_gradients(model)
    share_loss(model)


def unmatched_send(model: torch.nn.Module, mine: bool, plan: Plan, _: Any) -> None:
    """A send that nobody receives."""
    if mine:
        dist.send(torch.ones(plan.size), dst=plan.other)
    reduce_gradients(model)


def unmatched_receive(model: torch.nn.Module, mine: bool, plan: Plan, _: Any) -> None:
    """A receive that nobody sends to."""
    if mine:
        dist.recv(torch.ones(plan.size), src=plan.other)
    reduce_gradients(model)


class SlowFile:
    """A file on a storage that does not answer."""

    def __init__(self, pause: float) -> None:
        self._pause = pause

    def write(self, data: bytes) -> int:
        """Write, in time."""
        time.sleep(self._pause)
        return len(data)

    def flush(self) -> None:
        """Nothing is left."""


def checkpoint(model: torch.nn.Module, mine: bool, plan: Plan, _: Any) -> None:
    """One rank saves, and the others wait at the next collective."""
    if mine:
        torch.save(model.state_dict(), SlowFile(plan.pause))
    reduce_gradients(model)
    share_loss(model)


FAULTS: dict[str, Callable[[torch.nn.Module, bool, Plan, Any], None]] = {
    "skipped collective": skipped,
    "other shape": other_shape,
    "other type": other_type,
    "other operation": other_operation,
    "other root": other_root,
    "order of groups": inverse_order,
    "killed": killed,
    "os._exit": exited,
    "exception swallowed": swallowed,
    "host asleep": asleep,
    "slow rank": asleep,
    "unmatched send": unmatched_send,
    "unmatched receive": unmatched_receive,
    "checkpoint": checkpoint,
}
"""What comes in place of the collectives of the step; a loader that is exhausted has fewer steps instead."""


if __name__ == "__main__":
    main(Plan(**json.loads(sys.argv[1])))
