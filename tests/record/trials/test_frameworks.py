"""Training loops of others with all trials put in: as they look, and as they act."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: `make test-recorder` installs it")
pytestmark = pytest.mark.torch

from tests.record.test_frameworks import LIGHTNING, needs  # noqa: E402
from tests.record.trials.attached import attached  # noqa: E402

ACTING = ["anomaly", "debug", "workers", "threads", "fused", "set-to-none", "compile", "bf16", "channels-last",
          "no-grad", "garbage", "bucket-views", "bucket-size", "static-graph"]  # fmt: skip

HUGGING_FACE = """
import torch
from transformers import Trainer, TrainingArguments
torch.manual_seed(0)
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 1)
    def forward(self, x, labels=None):
        out = self.net(x)
        return {"loss": (out - labels).square().mean(), "logits": out}
data = [{"x": torch.ones(4), "labels": torch.ones(1), "unused": "text"} for _ in range(64)]
args = TrainingArguments("out", max_steps=7, per_device_train_batch_size=2, use_cpu=True, save_strategy="no",
                         eval_strategy="steps", eval_steps=3, report_to=[], disable_tqdm=True, optim="adamw_torch")
trainer = Trainer(Model(), args, train_dataset=data, eval_dataset=data)
trainer.train()
print("loss", [each["eval_loss"] for each in trainer.state.log_history if "eval_loss" in each])
"""

LIGHTNING_LOOP = (
    LIGHTNING.replace("0.1)", "0.001)")
    + """
torch.manual_seed(0)
class Validated(Model):
    def validation_step(self, batch, index):
        self.log("loss", self.net(batch[0]).square().mean())
    def train_dataloader(self):
        return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(48, 4)), 4)
trainer = pl.Trainer(**{**common, "max_epochs": 2, "detect_anomaly": True})
trainer.fit(Validated(), val_dataloaders=data)
print("loss", trainer.callback_metrics["loss"].item())
"""
)

ACCELERATE = """
import torch
from accelerate import Accelerator
torch.manual_seed(0)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=3)
net = torch.nn.Linear(4, 1)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(60, 4)), 2)
net, optimizer, loader = accelerator.prepare(net, torch.optim.SGD(net.parameters(), 0.001), loader)
for (x,) in loader:
    with accelerator.accumulate(net):
        loss = net(x).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
print("loss", loss.item())
"""

DATA_PARALLEL = """
import os, torch
import torch.distributed as dist
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
import tempfile
dist.init_process_group("gloo", init_method="file://" + tempfile.mktemp(), rank=0, world_size=1)
torch.manual_seed(0)
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)))
optimizer = torch.optim.SGD(net.parameters(), 0.01)
for _ in range(5):
    optimizer.zero_grad()
    loss = net(torch.ones(3, 4)).square().mean()
    loss.backward()
    optimizer.step()
print("loss", loss.item())
dist.destroy_process_group()
"""

PROGRAMS = {"transformers": HUGGING_FACE, "lightning": LIGHTNING_LOOP, "accelerate": ACCELERATE, "torch": DATA_PARALLEL}


@pytest.mark.parametrize("framework", PROGRAMS)
def test_frameworks_run_with_all_trials(tmp_path: Path, framework: str) -> None:
    needs(framework)
    program = PROGRAMS[framework]
    plain = attached(program, tmp_path, ["expandable-segments"]).out
    looked = attached(program, tmp_path, acts=[])
    acted = attached(program, tmp_path, acts=ACTING)
    assert "loss" in plain
    assert _losses(looked.out) == _losses(plain)
    assert _losses(acted.out) == pytest.approx(_losses(plain), rel=0.1)
    applied = {name for name in ACTING if acted.notes[name]["count"]}
    assert {name: acted.notes[name]["ineffective"] for name in applied} == dict.fromkeys(applied, "")
    wanted = {
        "transformers": {"compile", "bf16", "workers"},
        "lightning": {"anomaly", "compile", "bf16", "workers", "fused"},
        "accelerate": {"compile", "bf16", "workers", "fused"},
        "torch": {"compile", "bf16", "fused", "bucket-views", "bucket-size", "static-graph"},
    }
    assert wanted[framework] <= applied


def _losses(text: str) -> list[float]:
    said = text[text.rindex("loss") :].removeprefix("loss").strip(" []\n")
    return [float(each) for each in said.split(",")]
