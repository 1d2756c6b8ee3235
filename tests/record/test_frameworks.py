"""Training loops of others, run for real on a tiny model."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: `make test-recorder` installs it")
pytestmark = pytest.mark.torch

from tests.record.processes import environment, run  # noqa: E402
from tests.record.programs import names, sidecars, steps, traces  # noqa: E402


def needs(package: str, also: str = "") -> None:
    """Skip where it is not installed; it is not imported into this process."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed{also}")


def recorded(program: str, folder: Path, **more: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Run a program in a process of its own: frameworks keep state, and warn of much."""
    given = environment(CUDA_VISIBLE_DEVICES="", TOKENIZERS_PARALLELISM="false", **more)
    done = run([sys.executable, "-W", "ignore", "-c", program, str(folder)], env=given)
    assert done.returncode == 0, done.stderr[-3000:]
    return traces(folder), sidecars(folder)


LIGHTNING = """
import sys, torch, logging
logging.disable(logging.WARNING)
import lightning.pytorch as pl
from kinetoscope.record.lightning import KinetoscopeCallback, KinetoscopeProfiler
class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        return self.net(batch[0]).square().mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(48, 4)), 4)
common = dict(max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
              enable_model_summary=False)
"""


def test_lightning_callback_counts_steps_of_the_optimizer(tmp_path: Path) -> None:
    needs("lightning")
    program = LIGHTNING + (
        "callback = KinetoscopeCallback(sys.argv[1], active=2)\n"
        "pl.Trainer(callbacks=[callback], accumulate_grad_batches=2, **common).fit(Model(), data)"
    )
    (trace,), (about,) = recorded(program, tmp_path)
    assert steps(trace) == ["ProfilerStep#2", "ProfilerStep#3"]
    assert names(trace).count("forward") == names(trace).count("backward") == 4
    assert names(trace).count("[pl][module]torch.nn.modules.linear.Linear: Linear") == 4
    assert [each["samples"] for each in about["steps"]] == [8, 8]
    assert about["about"]["parameters"] == 5


def test_lightning_profiler_marks_what_lightning_does(tmp_path: Path) -> None:
    needs("lightning")
    program = LIGHTNING + "pl.Trainer(profiler=KinetoscopeProfiler(sys.argv[1]), **common).fit(Model(), data)"
    (trace,), _ = recorded(program, tmp_path)
    assert len(steps(trace)) == 3
    assert any(name.startswith("[pl][profile][Strategy]") for name in names(trace))


def test_lightning_writes_what_an_exception_leaves(tmp_path: Path) -> None:
    needs("lightning")
    program = (
        LIGHTNING
        + """
class Breaks(Model):
    def training_step(self, batch, index):
        if index == 4: raise ArithmeticError("no")
        return super().training_step(batch, index)
try:
    pl.Trainer(callbacks=[KinetoscopeCallback(sys.argv[1], active=50)], **common).fit(Breaks(), data)
except ArithmeticError:
    pass
else:
    raise AssertionError
"""
    )
    (_,), (about,) = recorded(program, tmp_path)
    assert "ArithmeticError" in about["truncated"]


def test_hugging_face_trainer(tmp_path: Path) -> None:
    needs("transformers")
    needs("accelerate", ", which transformers.Trainer needs")
    program = """
import sys, torch
from transformers import Trainer, TrainingArguments
from kinetoscope.record.huggingface import KinetoscopeCallback
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 1)
    def forward(self, x, labels=None):
        out = self.net(x)
        return {"loss": (out - labels).square().mean(), "logits": out}
data = [{"x": torch.ones(4), "labels": torch.ones(1)} for _ in range(64)]
args = TrainingArguments(sys.argv[1] + "/out", max_steps=7, per_device_train_batch_size=2, use_cpu=True,
                         save_strategy="no", gradient_accumulation_steps=2, report_to=[], disable_tqdm=True)
Trainer(Model(), args, train_dataset=data, callbacks=[KinetoscopeCallback(sys.argv[1], active=2)]).train()
"""
    (trace,), (about,) = recorded(program, tmp_path)
    assert steps(trace) == ["ProfilerStep#2", "ProfilerStep#3"]
    assert [each["samples"] for each in about["steps"]] == [4, 4]
    assert names(trace).count("Optimizer.step#AdamW.step") == 2


def test_accelerate_counts_synchronised_batches(tmp_path: Path) -> None:
    needs("accelerate")
    program = """
import sys, torch
from accelerate import Accelerator
from kinetoscope.record.accelerate import profile
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=3)
net = torch.nn.Linear(4, 1)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(60, 4)), 2)
net, optimizer, loader = accelerator.prepare(net, torch.optim.SGD(net.parameters(), 0.1), loader)
with profile(accelerator, sys.argv[1], active=2) as prof:
    for (x,) in loader:
        with accelerator.accumulate(net):
            accelerator.backward(net(x).square().mean())
            optimizer.step()
            optimizer.zero_grad()
        prof.step(samples=len(x))
"""
    (trace,), (about,) = recorded(program, tmp_path)
    assert [each["samples"] for each in about["steps"]] == [6, 6]
    assert names(trace).count("Optimizer.step#SGD.step") == 2


DEEPSPEED = """
import sys, torch
from kinetoscope.record.deepspeed import profile
net = torch.nn.Linear(4, 1)
config = {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2,
          "optimizer": {"type": "SGD", "params": {"lr": 0.1}}}
ENGINE
with profile(engine, sys.argv[1], active=2):
    for _ in range(14):
        loss = engine(torch.ones(2, 4)).square().mean()
        engine.backward(loss)
        engine.step()
assert engine.step.__name__ == "step" and not hasattr(engine.step, "__wrapped__")
"""

REAL = """
import deepspeed
sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # it would compile an extension for minutes
deepspeed.init_distributed("gloo", verbose=False)
engine, *_ = deepspeed.initialize(model=net, config=config, model_parameters=net.parameters())
"""

STAND_IN = """
class Engine:
    def __init__(self):
        self.module, self.micro, self.global_steps = net, 0, 0
        self.optimizer = torch.optim.SGD(net.parameters(), 0.1)
    def __call__(self, x): return self.module(x)
    def train_micro_batch_size_per_gpu(self): return 2
    def gradient_accumulation_steps(self): return 2
    def is_gradient_accumulation_boundary(self): return self.micro % 2 == 1
    def backward(self, loss): loss.backward()
    def step(self):
        if self.is_gradient_accumulation_boundary():
            self.optimizer.step(); self.optimizer.zero_grad(); self.global_steps += 1
        self.micro += 1
engine = Engine()
"""


@pytest.mark.parametrize("engine", [REAL, STAND_IN], ids=["deepspeed", "stand-in"])
def test_deepspeed_counts_boundaries_of_accumulation(tmp_path: Path, engine: str) -> None:
    if engine is REAL:
        needs("deepspeed", " (it has no wheel): only a stand-in for its engine is tested")
    program = DEEPSPEED.replace("ENGINE", engine)
    ranks = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29713"}
    (trace,), (about,) = recorded(program, tmp_path, DS_ACCELERATOR="cpu", **ranks)
    assert [each["samples"] for each in about["steps"]] == [4, 4]
    assert steps(trace) == ["ProfilerStep#2", "ProfilerStep#3"]
