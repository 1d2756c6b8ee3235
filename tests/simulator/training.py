"""A training loop, as calls of a Machine."""

from __future__ import annotations

from typing import Final

import numpy as np

from tests.simulator.groups import Family, Ints, families
from tests.simulator.machine import COMPUTE, COPIES, Machine
from tests.simulator.model import Model

FIRST_STEP: Final = 3
"""Profilers wait and warm up."""

LOADING: Final = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"

_KERNELS: Final = (
    ("ampere_sgemm_128x64_tn", "aten::mm"),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl>", "aten::gelu"),
    ("void at::native::reduce_kernel<512, 1, at::native::MeanOps>", "aten::mean"),
    ("flash_fwd_kernel", "aten::_scaled_dot_product_flash_attention"),
)


def train(model: Model) -> Machine:
    """The whole loop."""
    machine = Machine(model)
    job = _Job(machine, families(model))
    for place in range(model.steps):
        machine.begin(place, FIRST_STEP + place)
        job.step(FIRST_STEP + place)
    return machine


class _Job:
    def __init__(self, machine: Machine, groups: dict[str, Family]) -> None:
        self.machine, self.model, self.groups = machine, machine.model, groups
        mesh = machine.everyone.reshape(self.model.pipeline, -1)
        self.stages: list[Ints] = list(mesh)
        # the layers of a model differ in size; those of all ranks are alike
        self.weight = np.random.default_rng([self.model.seed, 2]).uniform(0.6, 1.4, self.model.layers)

    def step(self, number: int) -> None:
        machine, everyone = self.machine, self.machine.everyone
        began = machine.host.copy()
        self._load()
        machine.pause()
        micro = self.model.microbatches if self.model.pipeline > 1 else 1
        for _ in range(micro):
            for stage in range(self.model.pipeline):
                self._forward(stage)
        for batch in range(micro):
            for stage in reversed(range(self.model.pipeline)):
                self._backward(stage, last=batch == micro - 1)
        self._update()
        machine.around(f"ProfilerStep#{number}", everyone, began)

    def _load(self) -> None:
        machine = self.machine
        took = np.full(self.model.ranks, self.model.loading)
        for fault in machine.faults:
            if fault.cause == "data_loading":
                took[fault.rank] += int(fault.amount)
        machine.span(LOADING, machine.everyone, took, category="user_annotation")
        machine.copy("Memcpy HtoD (Pinned -> Device)", machine.everyone, 1 << 20)
        machine.follow(COMPUTE, COPIES, machine.everyone)
        for fault in machine.faults:
            if fault.cause == "host_gap":
                machine.idle(fault.rank, int(fault.amount))

    def _forward(self, stage: int) -> None:
        machine, ranks = self.machine, self.stages[stage]
        family = self._of("dp", stage)
        if self.model.buffers and family is not None:
            self._blocking(family, "broadcast", 4096, 4096, 16384)
        for layer in range(self.model.layers):
            self._gather(stage, layer)
            self._exchange(stage)
            self._compute(ranks, layer, 1.0)
            self._share(stage)
            self._exchange(stage)
            self._alone(stage)
            for fault in machine.faults:
                if fault.cause == "synchronization" and fault.rank in ranks:
                    only = np.array([fault.rank])
                    machine.synchronize("cudaDeviceSynchronize", only, (COMPUTE,), int(fault.amount))
        self._hand_over(stage, stage + 1)

    def _backward(self, stage: int, *, last: bool) -> None:
        machine, ranks = self.machine, self.stages[stage]
        machine.backward = True
        for layer in reversed(range(self.model.layers)):
            self._gather(stage, self.model.layers - 1 - layer)
            self._exchange(stage)
            self._compute(ranks, layer, 2.0)
            self._share(stage)
            self._exchange(stage)
            self._reduce(stage, layer, last=last)
        self._hand_over(stage, stage - 1)
        machine.backward = False

    def _compute(self, ranks: Ints, layer: int, times: float) -> None:
        for place in range(self.model.kernels):
            name, op = _KERNELS[place % len(_KERNELS)]
            self.machine.kernel(name, op, ranks, int(self.model.kernel * self.weight[layer] * times))

    def _of(self, purpose: str, stage: int) -> Family | None:
        """The groups of a stage."""
        family = self.groups.get(purpose)
        if family is None or self.model.pipeline == 1:
            return family
        mine = np.isin(family.ranks[:, 0], self.stages[stage])
        names = tuple(name for name, is_mine in zip(family.names, mine.tolist(), strict=True) if is_mine)
        return Family(purpose, family.description, family.ranks[mine], names, family.stream)

    def _blocking(self, family: Family, kind: str, elements_in: int, elements_out: int, size: int) -> None:
        """A collective that the computation behind it needs."""
        self.machine.collective(family, kind, elements_in, elements_out, size)
        self.machine.follow(COMPUTE, family.stream, family.members)

    def _gather(self, stage: int, place: int) -> None:
        """The parameters of the layer that comes `place` layers after the first of the pass."""
        family = self._of("dp", stage)
        if self.model.style != "fsdp" or family is None:
            return
        part = self.model.elements // family.size
        sizes = part, part * family.size, 2 * part * family.size
        if not self.model.prefetches:
            self._blocking(family, "all_gather", *sizes)
            return
        if not place:
            self.machine.collective(family, "all_gather", *sizes)
        self.machine.follow(COMPUTE, family.stream, family.members)
        if place + 1 < self.model.layers:
            self.machine.collective(family, "all_gather", *sizes, early=True)

    def _share(self, stage: int) -> None:
        family = self._of("tp", stage)
        if family is not None:
            hidden = self.model.elements // 4
            self._blocking(family, "all_reduce", hidden, hidden, 2 * hidden)

    def _exchange(self, stage: int) -> None:
        family = self._of("ep", stage)
        if family is not None:
            tokens = self.model.elements // 8 // family.size * family.size
            self._blocking(family, "all_to_all", tokens, tokens, 2 * tokens)

    def _reduce(self, stage: int, layer: int, *, last: bool) -> None:
        family = self._of("dp", stage)
        if family is None:
            return
        if self.model.style == "fsdp":
            part = self.model.elements // family.size
            self.machine.collective(family, "reduce_scatter", part * family.size, part, 2 * part * family.size)
        elif last and self.model.overlaps and layer % self.model.bucket == 0:
            self._all_reduce(family, min(self.model.bucket, self.model.layers - layer))

    def _all_reduce(self, family: Family, layers: int) -> None:
        elements = self.model.elements * layers // self.model.pieces
        for _ in range(self.model.pieces):
            self.machine.collective(family, "all_reduce", elements, elements, self.model.width * elements)

    def _alone(self, stage: int) -> None:
        family = self._of("single", stage)
        if family is not None:
            self.machine.alone(family, self.model.elements // 4)

    def _hand_over(self, stage: int, to: int) -> None:
        if 0 <= to < self.model.pipeline:
            hidden = self.model.elements // 4
            family = self.groups["pp"]
            arrives = self.machine.send(family, stage, to, hidden, 2 * hidden)
            self.machine.follow(COMPUTE, arrives, self.stages[to])

    def _update(self) -> None:
        machine, everyone = self.machine, self.machine.everyone
        if self.model.style == "ddp" and not self.model.overlaps:
            for stage in range(self.model.pipeline):
                if (family := self._of("dp", stage)) is not None:
                    for layer in range(0, self.model.layers, self.model.bucket):
                        self._all_reduce(family, min(self.model.bucket, self.model.layers - layer))
        if "dp" in self.groups:
            machine.follow(COMPUTE, self.groups["dp"].stream, everyone)
        if len(self.groups.keys() - {"world", "single"}) > 1:  # the norm of the gradients over the whole model
            self._blocking(self.groups["world"], "all_reduce", 1, 1, 4)
        since = machine.host.copy()
        for _ in range(2):
            machine.kernel(
                "void at::native::multi_tensor_apply_kernel", "aten::_fused_adamw_", everyone, self.model.kernel
            )
        machine.around("Optimizer.step#AdamW.step", everyone, since)
        if self.model.synchronizes:
            machine.copy("Memcpy DtoH (Device -> Pinned)", everyone, 4, COMPUTE)
            machine.synchronize("cudaStreamSynchronize", everyone, (COMPUTE,))
