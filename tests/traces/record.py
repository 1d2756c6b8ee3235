# mypy: disable-error-code="import-not-found, no-untyped-call, misc, unused-ignore"
"""Records our own small traces: one function a scenario. Needs torch.

    python tests/traces/record.py OUT            all scenarios into the folder OUT
    python tests/traces/record.py OUT mlp conv   only these

A trace is written as torch exports it and then gzipped; host names and paths are still in it until `strip.py` has
run over the files. `README.md` says which file came from which scenario.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # torch 2.13 otherwise prints two lines to stderr per recording
try:
    import strip
    import torch
    import train
    import training
    from torch.multiprocessing.spawn import spawn
    from torch.profiler import ProfilerActivity, profile, record_function, schedule
except ModuleNotFoundError as missing:
    sys.exit(f"record.py needs {missing.name}: pip install torch==2.13.0 numpy")

# The columns of torch's table that are kept; times in microseconds, memory in bytes.
ROW = (
    *("key", "count", "node_id", "device_type", "self_cpu_time_total", "cpu_time_total", "cpu_time"),
    *("self_device_time_total", "device_time_total", "cpu_memory_usage", "self_cpu_memory_usage"),
    *("device_memory_usage", "self_device_memory_usage", "flops", "is_async", "is_user_annotation", "is_legacy"),
    *("input_shapes", "overload_name", "stack"),
)
TOTALS = ("count", "cpu_time_total", "self_cpu_time_total", "cpu_memory_usage", "self_cpu_memory_usage")

# Steps that run before the recorded ones: one unobserved, one in which the profiler warms up.
BEFORE = 2


def mlp(out: Path) -> None:
    """Every option that the profiler has."""
    everything = dict.fromkeys(("record_shapes", "profile_memory", "with_stack", "with_modules", "with_flops"), True)
    with recording(out, "mlp", steps=5, golden=True, **everything, experimental_config=experimental(verbose=True)) as p:
        training.train(training.MLP(), training.vectors(5 + BEFORE), after_step=p.step)


def mlp_default(out: Path) -> None:
    """No option at all: what most people record first."""
    with recording(out, "mlp_default", steps=5, golden=True) as p:
        training.train(training.MLP(), training.vectors(5 + BEFORE), after_step=p.step)


def conv(out: Path) -> None:
    """Convolutions, plain and grouped, with shapes and memory."""
    with recording(out, "conv", steps=3, golden=True, record_shapes=True, profile_memory=True) as p:
        training.train(training.ConvNet(), training.images(3 + BEFORE), after_step=p.step)


def transformer(out: Path) -> None:
    """Attention and AdamW, four steps, with shapes and memory."""
    model = training.Transformer()
    adam = torch.optim.AdamW(model.parameters())
    with recording(out, "transformer", steps=4, golden=True, record_shapes=True, profile_memory=True) as p:
        training.train(model, training.sentences(4 + BEFORE), after_step=p.step, optimizer=adam)


def dataloader(out: Path) -> None:
    """Loading in the main process, slower than the training; the phases are marked by the user."""
    loader = torch.utils.data.DataLoader(training.SlowVectors(8 * (4 + BEFORE)), batch_size=8)
    with recording(out, "dataloader", steps=4, golden=True, record_shapes=True, profile_memory=True) as p:
        training.train_in_phases(training.MLP(), loader, after_step=p.step)


def dataloader_workers(out: Path) -> None:
    """Loading in two worker processes: the trace shows the wait for them, never what they do."""
    loader = torch.utils.data.DataLoader(training.SlowVectors(8 * (5 + BEFORE)), batch_size=8, num_workers=2)
    with recording(out, "dataloader_workers", steps=5, record_shapes=True, profile_memory=True) as p:
        training.train(training.MLP(), loader, after_step=p.step)


def threads(out: Path) -> None:
    """The main thread trains, two more run inference; without `profile_all_threads` they would be missing."""
    over = threading.Event()

    def infer() -> None:
        model, inputs = training.MLP(), torch.randn(16, 64)
        while not over.is_set():
            with torch.no_grad(), record_function("inference"):
                model(inputs)
            time.sleep(0.002)

    helpers = [threading.Thread(target=infer, name=f"inference-{number}") for number in (1, 2)]
    for helper in helpers:
        helper.start()
    try:
        with recording(out, "threads", steps=3, experimental_config=experimental(profile_all_threads=True)) as p:

            def after_step() -> None:
                time.sleep(0.005)
                p.step()

            training.train(training.MLP(), training.vectors(3 + BEFORE), after_step=after_step)
    finally:
        over.set()
        for helper in helpers:
            helper.join()


def no_steps(out: Path) -> None:
    """Neither schedule nor `prof.step()`: one window without any ProfilerStep."""
    model, batches = training.MLP(), training.vectors(3)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as p:
        training.train(model, batches, after_step=lambda: None)
    export(p, out / "no_steps.pt.trace.json.gz")


def leak(out: Path) -> None:
    """A list keeps 256 KiB of activations each step."""
    kept: list[torch.Tensor] = []
    model = training.MLP(size=64, hidden=256)
    model.hidden.register_forward_hook(lambda _module, _inputs, output: kept.append(output.detach().repeat(8, 1)))
    with recording(out, "leak", steps=5, golden=True, record_shapes=True, profile_memory=True) as p:
        training.train(model, training.vectors(5 + BEFORE), after_step=p.step)


def ddp2(out: Path) -> None:
    """Two ranks over gloo; rank 1 sleeps 20 ms before each step, so rank 0 waits in its collectives."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (out / "ddp2").mkdir(parents=True, exist_ok=True)
    spawn(_ddp_rank, (str(out / "ddp2"), port), nprocs=2)


def _ddp_rank(rank: int, out: str, port: int) -> None:
    torch.set_num_threads(1)
    os.environ.update(GLOO_SOCKET_IFNAME="lo", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    model = torch.nn.parallel.DistributedDataParallel(training.MLP())

    def after_step() -> None:
        p.step()
        if rank == 1:
            time.sleep(0.020)

    with recording(Path(out), f"rank{rank}", steps=4, record_shapes=True, profile_memory=True) as p:
        training.train(model, training.vectors(4 + BEFORE), after_step=after_step)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def python_export(out: Path) -> None:
    """The newer exporter written in Python, which spells events differently."""
    options = {"record_shapes": True, "profile_memory": True, "with_stack": True}
    with recording(out, "python_export", steps=2, python=True, **options) as p:
        training.train(training.MLP(), training.vectors(2 + BEFORE), after_step=p.step)


def demo(out: Path) -> None:
    """The job of `train.py`: what `kinetoscope demo` opens."""
    with recording(out, "training", steps=6, record_shapes=True, profile_memory=True) as p:
        train.train(6 + BEFORE, after_step=p.step)


def compiled(out: Path) -> None:
    """A model that Inductor compiled, with provenance and calls of C++ kernels; torch's log of it lies in `compile`."""
    compile_in(out / "compiled", "compiled.py")


def recompiled(out: Path) -> None:
    """A compiled model with planted graph breaks and recompilations, in a folder for the version of torch."""
    version = ".".join(torch.__version__.split(".")[:2])
    compile_in(out / "recompiled" / f"torch-{version}", "recompiled.py")


def compile_in(folder: Path, script: str) -> None:
    """Run a script that compiles, with torch's log and provenance switched on."""
    (folder / "compile").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as logs:
        variables = {"TORCH_TRACE": logs, "TORCHINDUCTOR_CACHE_DIR": f"{logs}/cache"}
        tracked = {"INDUCTOR_PROVENANCE": "1", "TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE": "1"}
        command = [sys.executable, str(Path(__file__).with_name(script)), str(folder)]
        subprocess.run(command, check=True, env={**os.environ, **variables, **tracked})
        (log,) = Path(logs).glob("*.log")
        write(
            folder / "compile" / "dedicated_log_torch_trace_rank_0_host_1.log.gz", strip.shortened_log(log.read_bytes())
        )


def name_quote(out: Path) -> None:
    """Invalid JSON: torch 2.13 does not escape the quotes of a `record_function`."""
    with recording(out, "name_quote", steps=1) as p:
        with record_function('load "train" batch'):
            batches = training.vectors(1 + BEFORE)
        for batch in batches:
            with record_function('load "train" batch'):
                training.train(training.MLP(), [batch], after_step=lambda: None)
            p.step()


def meta_newline(out: Path) -> None:
    """Invalid JSON: control characters in the user's metadata are written as they are, but for the line break."""
    with profile(activities=[ProfilerActivity.CPU]) as p:
        # Only metadata added while a window is open reaches the file; before it, torch drops it silently.
        p.add_metadata("note", "first line\nsecond line\ttab\x01bell\x07")
        training.train(training.MLP(), training.vectors(1), after_step=p.step)
    export(p, out / "meta_newline.pt.trace.json.gz")


def class_quote(out: Path) -> None:
    """Invalid JSON: a module's class has quotes in its name, which stacks then carry."""
    model = type('MLP "small"', (training.MLP,), {})()
    with recording(out, "class_quote", steps=1, with_stack=True) as p:
        training.train(model, training.vectors(1 + BEFORE), after_step=p.step)


SCENARIOS: tuple[Callable[[Path], None], ...] = (
    mlp,
    mlp_default,
    conv,
    transformer,
    dataloader,
    dataloader_workers,
    threads,
    no_steps,
    leak,
    ddp2,
    python_export,
    demo,
    compiled,
    recompiled,
    name_quote,
    meta_newline,
    class_quote,
)


def experimental(**options: Any) -> Any:
    """The profiler's private options; torch has no public way to them."""
    return torch._C._profiler._ExperimentalConfig(**options)


def recording(out: Path, name: str, *, steps: int, golden: bool = False, python: bool = False, **options: Any) -> Any:
    """A profiler that records `steps` steps after `BEFORE` others, and writes `out/name.pt.trace.json.gz`."""

    def save(p: Any) -> None:
        export(p, out / f"{name}.pt.trace.json.gz", python=python)
        if golden:
            write(out / f"{name}.key_averages.json.gz", json.dumps(key_averages(p)).encode())

    return profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=1, warmup=BEFORE - 1, active=steps, repeat=1),
        on_trace_ready=save,
        **options,
    )


def export(p: Any, path: Path, *, python: bool = False) -> None:
    """Torch's own bytes, gzipped by us: its own way to .gz would put a temporary name into `traceName`."""
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / path.name.removesuffix(".gz")
        p.export_chrome_trace(str(plain), **({"use_python_export": True} if python else {}))
        write(path, plain.read_bytes())


def write(path: Path, content: bytes) -> None:
    """Gzips `content` reproducibly: no time, no name in the header."""
    path.write_bytes(strip.gzipped(content))
    print(f"{path}: {path.stat().st_size} bytes, {len(content)} of JSON")


def key_averages(p: Any) -> dict[str, Any]:
    """Torch's own table of the recording, plain and by shape. Times in microseconds, memory in bytes."""
    plain = p.key_averages()
    return {
        "torch": torch.__version__,
        "n_function_events": len(p.events()),
        "self_cpu_time_total": plain.self_cpu_time_total,
        "total_average": {field: getattr(plain.total_average(), field) for field in TOTALS},
        "trace_start_ns": p.profiler.kineto_results.trace_start_ns(),
        "key_averages": [row(average) for average in plain],
        "by_shape": [row(average) for average in p.key_averages(group_by_input_shape=True)],
    }


def row(average: Any) -> dict[str, Any]:
    """One line of the table, as JSON values."""
    values = {field: getattr(average, field) for field in ROW}
    return values | {"device_type": str(average.device_type), "input_shapes": average.input_shapes or None}


def main() -> None:
    """Records what the command line names, each scenario from the same seed."""
    known = {scenario.__name__: scenario for scenario in SCENARIOS}
    parser = argparse.ArgumentParser(description="Record our own small traces.", epilog=f"Names: {' '.join(known)}")
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="scenario; none means all")
    chosen = parser.parse_args()
    if unknown := sorted(set(chosen.names) - set(known)):
        parser.error(f"no such scenario: {', '.join(unknown)}")
    if len(chosen.names) == 1:
        chosen.out.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(0)
        torch.set_num_threads(1)  # the models are too small for more; a second thread would only add noise
        known[chosen.names[0]](chosen.out)
        return
    for name in chosen.names or known:
        # A process each: a trace names every thread that its process ever profiled, earlier scenarios included.
        subprocess.run([sys.executable, __file__, str(chosen.out), name], check=True)


if __name__ == "__main__":
    main()
