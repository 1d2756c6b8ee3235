"""Programs that are simulated: what a host asks of a device, when it happens, and the trace of it.

A program is causal as a real one is. The host issues; launches go into a queue and the device works them off stream by
stream, so that either may be what a step waits for; synchronising calls and copies from pageable memory make the host
wait; the workers of a loader make batches ahead. The same program drawn with one thing changed tells what that thing
costs: `run` returns the time of a step.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from tests.faults.device import Device
from tests.faults.host import MAIN, Body, Event, Host, ns
from tests.faults.kernels import elementwise
from tests.faults.loading import Workers
from tests.faults.pool import Pool
from tests.faults.writing import write

COMPUTE: Final = 7
"""The stream that work goes to unless told otherwise."""

_SMALL: Final = 64 * 1024
"""Bytes of a copy from pageable memory that the driver takes at once, without waiting."""

_PAGEABLE: Final = 6.0
_PINNED: Final = 22.0
_WITHIN: Final = 1200.0
"""Bytes a ns: from pageable and from pinned memory, and within the device."""

_WARM: Final = 1.25
_MULTIPROCESSORS: Final = {"H100": 132, "A100": 108, "V100": 80, "MI300X": 304, "T4": 40}


@dataclass
class Program(Host):
    """A program, its device (None: it runs on the host alone), and what its profiler records.

    Attributes:
        device: its name; one that begins with "AMD" writes its trace as ROCm does.
        capability: compute capability.
        memory: of the device, bytes.
        launch_us: of a launch call.
        sync_events: waits are recorded on streams, too (`enable_cuda_sync_events`).
        allocated, reserved: bytes that the program has before its first step.
        top: more of the file's header.
        marks: steps are marked, as `prof.step()` does it.
        launch_blocking: each launch waits for its kernel (`CUDA_LAUNCH_BLOCKING=1`).
        clock: of the multiprocessors, a share of the usual one: kernels take so much longer.
    """

    device: str | None = "NVIDIA H100 80GB HBM3"
    capability: tuple[int, int] = (9, 0)
    memory: float = 80e9
    launch_us: float = 5.0
    sync_events: bool = False
    allocated: int = 0
    reserved: int = 0
    top: dict[str, Any] = field(default_factory=dict)
    marks: bool = True
    launch_blocking: bool = False
    clock: float = 1.0
    gpu: Device = field(default_factory=Device, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.pool = Pool(int(self.allocated), int(max(self.reserved, self.allocated)))
        self._loaders: dict[str, Workers] = {}
        self.ready = 0
        """When the host had what it last waits for: for bodies that wait for the step before."""
        self.step_time = 0.0
        self.clocks: list[tuple[int, float]] = []
        """The clock from the start of each kernel on."""

    # --- device work

    @property
    def amd(self) -> bool:
        """Is its device AMD's?"""
        return bool(self.device and self.device.startswith("AMD"))

    @property
    def multiprocessors(self) -> int:
        """How many the device has."""
        return next((n for name, n in _MULTIPROCESSORS.items() if self.device and name in self.device), 100)

    def kernel(
        self,
        name: str,
        us: float,
        *,
        grid: Sequence[int] = (1056, 1, 1),
        block: Sequence[int] = (256, 1, 1),
        blocks_per_sm: float | None = None,
        occupancy: int | None = None,
        stream: int = COMPUTE,
        launch: str = "cudaLaunchKernel",
        registers: int = 64,
        **args: Any,
    ) -> None:
        """A launch call, and a kernel of `us` on a stream; more arguments are the kernel's own."""
        correlation = self.launched(launch)
        start, end = self.gpu.submit(self.now, stream, self.drawn(us / self.clock))
        self.clocks.append((start, self.clock))
        if self.launch_blocking:
            self.now = max(self.now, end) + self.drawn(2)
            if self.recording:
                self.events[-1]["dur"] = self.now - self.events[-1]["ts"]
        shape = self._shape(grid, block, blocks_per_sm, occupancy, registers)
        self._on_device("kernel", name, start, end, stream, correlation, **shape, **args)

    def graph_launch(
        self, kernels: Sequence[tuple[str, float]], *, stream: int = COMPUTE, us: float = 12.0, graph: int = 3
    ) -> None:
        """One call launches a graph of kernels, each a name and its us; they follow each other closely."""
        correlation = self.launched("cudaGraphLaunch", us)
        before = 0
        for node, (name, takes) in enumerate(kernels):
            if node:
                start, before = self.gpu.follow(before, stream, self.drawn(takes), 700)
            else:
                start, before = self.gpu.submit(self.now, stream, self.drawn(takes))
            self.node(name, start, before, stream, correlation, graph, node)

    def node(self, name: str, start: int, end: int, stream: int, correlation: int, graph: int, node: int) -> None:
        """A kernel of a graph that is replayed."""
        shape = self._shape((1056, 1, 1), (256, 1, 1), None, None, 64)
        ids = {"graph id": graph, "graph node id": graph * 2**32 + node}
        self._on_device("kernel", name, start, end, stream, correlation, **shape, **ids)

    def memset(self, us: float, *, size: int = 4096, stream: int = COMPUTE) -> None:
        """The device sets memory."""
        correlation = self.launched("cudaMemsetAsync")
        start, end = self.gpu.submit(self.now, stream, self.drawn(us))
        rate = {"bytes": size, "memory bandwidth (GB/s)": size / max(end - start, 1)}
        self._on_device("gpu_memset", "Memset (Device)", start, end, stream, correlation, **rate)

    def launched(self, call: str, us: float | None = None) -> int:
        """A call that puts something into the queue; its correlation. The clock is at its end."""
        correlation, start = self.number(), self.now
        self.now = self.gpu.room(start) + self.drawn(self.launch_us if us is None else us)
        self._runtime(call, start, correlation)
        return correlation

    def _runtime(self, call: str, start: int, correlation: int) -> None:
        category = "cuda_driver" if call.startswith("cu") and not call.startswith("cuda") else "cuda_runtime"
        args = {"External id": self.external, "cbid": 211, "correlation": correlation}
        self.record(category, call, start, self.now, **args)

    def _on_device(
        self, category: str, name: str, start: int, end: int, stream: int, correlation: int, **args: Any
    ) -> None:
        """Work that ends after the recording began is in the trace even if its launch is not."""
        more = {"External id": self.external, "device": 0, "context": 1, "stream": stream, "correlation": correlation}
        event: Event = {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": stream, "ts": start}
        self._work.append({**event, "dur": end - start, "args": {**more, **args}})

    def _shape(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        blocks_per_sm: float | None,
        occupancy: int | None,
        registers: int,
    ) -> dict[str, Any]:
        blocks, threads = grid[0] * grid[1] * grid[2], block[0] * block[1] * block[2]
        each = blocks / self.multiprocessors if blocks_per_sm is None else blocks_per_sm
        warps = each * -(-threads // 32)
        filled = min(warps / 64, 1.0, 65536 / (registers * 2048)) * 100 if occupancy is None else occupancy
        return {
            "queued": 0, "registers per thread": registers, "shared memory": 0, "blocks per SM": round(each, 6),
            "warps per SM": round(warps, 6), "grid": list(grid), "block": list(block),
            "est. achieved occupancy %": round(filled),
        }  # fmt: skip

    # --- copies and waits

    def copy(
        self,
        direction: str,
        size: float,
        *,
        pinned: bool = False,
        blocking: bool = True,
        stream: int = COMPUTE,
        rate: float | None = None,
    ) -> None:
        """A copy ("HtoD", "DtoH", "DtoD") of `size` bytes, as torch asks for it.

        From or to pageable memory the call itself waits until the copy is over, but for small ones to the device. A
        `blocking` copy (torch's default) synchronises with the stream after it; between tensors of the device it does
        not. rate: bytes a ns.
        """
        correlation, start = self.number(), self.now
        self.now = self.gpu.room(start) + self.drawn(self.launch_us + 1)
        speed = rate or (_WITHIN if direction == "DtoD" else _PINNED if pinned else _PAGEABLE)
        begins, ends = self.gpu.submit(self.now, stream, self.drawn(1.2 + size / speed / 1000))
        if direction != "DtoD" and not pinned and (size > _SMALL or direction == "DtoH"):
            self.now = max(self.now, ends) + self.drawn(3)
        at_once = blocking and direction != "DtoD"
        if at_once and self.amd:  # one call of HIP that copies and waits
            self.now = max(self.now, ends) + self.drawn(3)
        self._runtime("hipMemcpyWithStream" if at_once and self.amd else "cudaMemcpyAsync", start, correlation)
        host = "Pinned" if pinned else "Pageable"
        places = {"HtoD": f"{host} -> Device", "DtoH": f"Device -> {host}"}.get(direction, "Device -> Device")
        rates = {"bytes": int(size), "memory bandwidth (GB/s)": size / max(ends - begins, 1)}
        self._on_device("gpu_memcpy", f"Memcpy {direction} ({places})", begins, ends, stream, correlation, **rates)
        if at_once and not self.amd:
            self.synchronize(stream=stream)

    def to_device(
        self, size: float, *, pinned: bool = False, blocking: bool = True, dtype: str = "float", stream: int = COMPUTE
    ) -> None:
        """`tensor.to("cuda", non_blocking=not blocking)` with its operators."""
        count = int(size) // {"float": 4, "unsigned char": 1, "c10::Half": 2, "long int": 8}.get(dtype, 4)
        told: dict[str, Any] = {"shapes": [[count]], "types": [dtype]}
        with self.op("aten::to", 2, **told), self.op("aten::_to_copy", 3, **told):
            self.call("aten::empty_strided", 4)
            with self.op("aten::copy_", 4, shapes=[[count], [count], []], types=[dtype, dtype, "Scalar"]):
                self.copy("HtoD", size, pinned=pinned, blocking=blocking, stream=stream)

    def item(self, *, pinned: bool = True, stream: int = COMPUTE) -> None:
        """`tensor.item()`: the host waits for all that was asked of the stream. Older torch copies to pageable."""
        with self.op("aten::item", 1.5, shapes=[[]]), self.op("aten::_local_scalar_dense", 3, shapes=[[]]):
            self.copy("DtoH", 4, pinned=pinned, blocking=True, stream=stream)

    def to_host(self, size: float, *, pinned: bool = False) -> None:
        """`tensor.cpu()` with its operators."""
        with self.op("aten::to", 2), self.op("aten::_to_copy", 3):
            self.call("aten::empty_strided", 4)
            with self.op("aten::copy_", 4):
                self.copy("DtoH", size, pinned=pinned)

    def synchronize(
        self, call: str = "cudaStreamSynchronize", *, stream: int = COMPUTE, until: int | None = None
    ) -> None:
        """The host waits for a stream; for all of them with `cudaDeviceSynchronize` or `cudaEventSynchronize`.

        until: when the event that it waits for comes.
        """
        correlation, start = self.number(), self.now
        one = call == "cudaStreamSynchronize"
        done = until if until is not None else self.gpu.end(stream) if one else self.gpu.end()
        self.now = max(start, done) + self.drawn(2.5)
        self._runtime(call, start, correlation)
        if self.sync_events and done > start:
            kind = {"cudaStreamSynchronize": "Stream Sync", "cudaDeviceSynchronize": "Context Sync"}.get(call)
            self._sync(kind or "Event Sync", start, done, stream if one else -1, correlation)

    def event_wait(self, stream: int, other: int) -> None:
        """What comes next on a stream waits for what was asked of another one until now."""
        recorded, start = self.number(), self.now
        self.now += self.drawn(2)
        self._runtime("cudaEventRecord", start, recorded)
        start, correlation = self.now, self.number()
        self.now += self.drawn(2)
        self._runtime("cudaStreamWaitEvent", start, correlation)
        until = self.gpu.end(other)
        if self.sync_events:
            args = {"wait_on_stream": other, "wait_on_cuda_event_record_corr_id": recorded}
            begin = max(self.now, self.gpu.end(stream))
            self._sync("Stream Wait Event", begin, max(begin, until), stream, correlation, **args)
        self.gpu.wait(stream, until)

    def _sync(self, kind: str, start: int, end: int, stream: int, correlation: int, **args: Any) -> None:
        told = {"cuda_sync_kind": kind, "stream": stream, "correlation": correlation, "device": 0, "context": 1}
        self.record("cuda_sync", kind, start, end, pid=0, tid=max(stream, 0), **told, **args)

    # --- data

    @contextmanager
    def _fetching(self, name: str) -> Iterator[None]:
        frame = self.python("torch/utils/data/dataloader.py(725): __next__")
        with frame, self.annotation(f"enumerate(DataLoader)#{name}.__next__"):
            yield

    def loader(self, us: float, *, workers: int = 0, key: str = "", first_us: float = 0.0, ops: int = 0) -> None:
        """The next batch of torch's loader, which takes `us` to make; made here, or by workers ahead of time.

        first_us: more that the first batch takes. ops: operators that are recorded while a batch is made here.
        """
        if not workers:
            more, self._firsts[key] = self._firsts.get(key, first_us), 0.0
            with self._fetching("_SingleProcessDataLoaderIter"):
                for _ in range(ops):
                    self.call("aten::stack", us / ops)
                self.host(more + (0 if ops else us))
            return
        if key not in self._loaders:
            self._loaders[key] = Workers(workers, lambda: self.drawn(us) + ns(self._firsts.pop(key, 0.0)))
            if first_us:
                self._firsts[key] = first_us
        with self._fetching("_MultiProcessingDataLoaderIter"):
            self.host(30)
            self.now = self._loaders[key].take(self.now)
            self.host(40)

    # --- memory

    def malloc(self, size: float, *, calls: bool = True) -> int:
        """Memory for a tensor; its address. The allocator asks the driver (`cudaMalloc`) for what it has not got."""
        address, grow = self.pool.take(int(size))
        if grow and self.device and calls:
            self.runtime("cudaMalloc", 250)
        if not self.device:
            self.pool.reserved = 0
        self._memory(address, int(size))
        return address

    def free(self, address: int) -> None:
        """A tensor's memory goes back to the pool."""
        self._memory(address, -self.pool.give(address))

    def release(self, us: float = 300.0) -> None:
        """The pool gives unused memory back to the driver (`cudaFree`), which waits for the device first."""
        start, correlation = self.now, self.number()
        self.now = max(start, self.gpu.end()) + self.drawn(us)
        self._runtime("cudaFree", start, correlation)
        self.pool.reserved = self.pool.allocated + self.pool.unusable

    def runtime(self, call: str, us: float) -> None:
        """A call of the runtime that neither launches nor waits."""
        start, correlation = self.now, self.number()
        self.now += self.drawn(us)
        self._runtime(call, start, correlation)

    def _memory(self, address: int, size: int) -> None:
        if self.recording:
            whose = {"Device Type": int(bool(self.device)), "Device Id": 0 if self.device else -1}
            level = {"Total Reserved": self.pool.reserved, "Total Allocated": self.pool.allocated}
            place = {"pid": MAIN, "tid": self.thread, "ts": self.now}
            args = {**level, "Bytes": size, "Addr": address, **whose}
            event = {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", **place, "args": args}
            self.events.append(event)
        self.now += 60

    def look_for_nan(self) -> None:
        """Two gradients of a node are looked at; the host fetches the answer from the device."""
        if self.device is None:
            super().look_for_nan()
            return
        for _ in range(2):
            with self.op("aten::isnan", 3), self.op("aten::ne", 5):
                self.kernel(elementwise("CompareFunctor", "float"), 8)
            with self.op("aten::_is_any_true", 3), self.op("aten::any", 6):
                self.kernel("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<bool>>", 6)
            self.item()

    # --- the run

    @contextmanager
    def backward(self, *, threaded: bool = True) -> Iterator[None]:
        """As of the host; on the host alone autograd runs in the thread that calls it."""
        with super().backward(threaded=threaded and self.device is not None):
            yield

    def run(self, body: Body, path: Path, *, steps: int = 20, warm: int = 3) -> float:
        """Run `body(program, n)` for each step, write the trace of steps 0, 1, …, and return the mean step in ns.

        Steps −warm … −1 come before the recording. The mean is of all recorded steps but those at their head that are
        more than 1.25 times as long as the median; a step ends when both the host and the device are through with it.
        """
        self.begin()
        for n in range(-warm, steps):
            if n == 0:
                self.record_from_here()
            with self.annotation(f"ProfilerStep#{n + 10}") if self.marks else nullcontext():
                body(self, n)
            self.end_step()
        return self.finish(path)

    def begin(self) -> None:
        """Before the first step."""
        self._work: list[Event] = []
        self._firsts: dict[str, float] = {}
        self._ends, self._began = [self.now], 0

    def record_from_here(self) -> None:
        """The profiler starts."""
        self.recording, self._began = True, self.now
        self._ends = [max(self.now, self.gpu.end())]

    def end_step(self) -> None:
        """A step is over when both the host and the device are through with it."""
        self._ends.append(max(self.now, self.gpu.end()))
        self.host(8)  # the profiler's own

    def finish(self, path: Path) -> float:
        """Write the trace, and return the mean step in ns."""
        self.step_time = _mean(self._ends)
        if self.device:
            self.synchronize("cudaDeviceSynchronize")
        self.events += [event for event in self._work if event["ts"] + event["dur"] >= self._began]
        write(path, self.events, self._header(), amd=self.amd)
        return self.step_time

    def _header(self) -> dict[str, Any]:
        devices = []
        if self.device:
            devices = [{
                "id": 0, "name": self.device, "totalGlobalMem": int(self.memory), "computeMajor": self.capability[0],
                "computeMinor": self.capability[1], "maxThreadsPerBlock": 1024,
                "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536, "warpSize": 32,
                "sharedMemPerBlock": 49152, "numSms": self.multiprocessors,
            }]  # fmt: skip
        options = {"with_stack": 1} if self.stacks else {}
        if self.shapes:
            options["record_shapes"] = 1
        if any(event["name"] == "[memory]" for event in self.events):
            options["profile_memory"] = 1
        return {"deviceProperties": devices, **options, **self.top}


def _mean(ends: Sequence[int]) -> float:
    """Of the steps between these ends, ns, without those that warm up."""
    takes = [after - before for before, after in pairwise(ends)]
    usual = _WARM * statistics.median(takes)
    head = next((place for place, each in enumerate(takes) if each <= usual), 0)
    return statistics.fmean(takes[min(head, len(takes) // 2) :])
