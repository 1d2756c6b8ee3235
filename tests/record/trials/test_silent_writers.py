"""What a program sees of checkpoints that were not written, and what is left on the disk: nothing new."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: `make test-recorder` installs it")
pytestmark = pytest.mark.torch

from tests.record.jobs import run_text  # noqa: E402
from tests.record.test_frameworks import LIGHTNING, needs  # noqa: E402

_ATTACH = """
import sys
from kinetoscope.record.trials.silent_writers import attach
attach()
import os
os.chdir(sys.argv[1])
"""


def silent(program: str, folder: Path) -> str:
    """Run a program whose writers are silent, in a folder; what it prints."""
    done = run_text(_ATTACH + program, [str(folder)], 400)
    assert done.code == 0, done.err[-3000:]
    return done.out


def state(folder: Path) -> dict[str, str]:
    """All files and what is in them."""
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*") if file.is_file()}


def test_a_program_that_writes_and_renames_goes_on(tmp_path: Path) -> None:
    for name in ("final.pt", "best.pth.tar", "oldest.pt", "backup.pt"):
        (tmp_path / name).write_text("of an earlier run")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "model.ckpt").write_text("of an earlier run")
    before = state(tmp_path)
    out = silent(
        """
import glob, io, pathlib, shutil, torch
net = torch.nn.Linear(2, 2)
torch.save(net.state_dict(), "final.tmp")
assert os.path.exists("final.tmp") and os.path.isfile("final.tmp") and os.path.getsize("final.tmp") > 0
os.replace(src="final.tmp", dst="final.pt")
assert os.path.exists("final.pt") and not os.path.exists("final.tmp")
torch.save(obj=net, f=pathlib.Path("new") / "model.bin")
pathlib.Path("new/model.bin").rename("new/other.bin")
assert pathlib.Path("new/other.bin").exists() and pathlib.Path("new/other.bin").stat().st_size
shutil.copyfile("final.pt", "best.pth.tar"), shutil.copy2("final.pt", "copied.pt")
shutil.move("new/other.bin", "moved.bin")
os.symlink("final.pt", "latest.pt")
os.remove("moved.bin"), os.unlink("copied.pt")
assert not os.path.exists("moved.bin")
os.remove("oldest.pt"), os.rename("backup.pt", "backup.2.pt"), shutil.rmtree("old")
assert not os.path.exists("oldest.pt") and not os.path.exists("backup.pt") and os.path.exists("backup.2.pt")
with open("opened.pt", "wb") as file:
    torch.save(net, file)
with pathlib.Path("best.pth.tar").open("wb") as file:
    torch.save(net, file)
torch.jit.save(torch.jit.script(net), "scripted.pt")
for name in ("final.pt", "scripted.pt", "never.pt"):
    try:
        torch.load(name)
    except FileNotFoundError as error:
        print(error)
buffer = io.BytesIO()
torch.save(torch.ones(3), buffer)
print(torch.load(io.BytesIO(buffer.getvalue())).sum().item())
pathlib.Path("log.txt").write_text("as before")
os.replace("log.txt", "log.2.txt")
shutil.copy("log.2.txt", "log.3.txt")
print(pathlib.Path("log.3.txt").read_text(), os.path.getsize("log.2.txt"))
""",
        tmp_path,
    )
    why = "kinetoscope wrote no checkpoints in a trial; allow with --allow writes"
    assert out.splitlines() == [f"final.pt: {why}", f"scripted.pt: {why}", f"never.pt is not there; {why}", "3.0",
                                "as before 9"]  # fmt: skip
    assert state(tmp_path) == before | {"log.2.txt": "as before", "log.3.txt": "as before"}


def test_writers_of_libraries_that_are_imported_later(tmp_path: Path) -> None:
    needs("safetensors")
    out = silent(
        """
import torch
assert "safetensors" not in sys.modules and "torch.distributed.checkpoint" not in sys.modules
import safetensors.torch
from safetensors.torch import save_file
save_file({"w": torch.ones(2)}, "model.safetensors")
safetensors.torch.save_model(torch.nn.Linear(2, 2), "model2.safetensors")
try:
    safetensors.torch.load_file("model.safetensors")
except FileNotFoundError as error:
    print("kinetoscope" in str(error), os.path.exists("model2.safetensors"))
import torch.distributed.checkpoint as dcp
dcp.save({"w": torch.ones(2)}, checkpoint_id="distributed")
print(dcp.save.__name__, dcp.async_save.__name__)
""",
        tmp_path,
    )
    assert out.split() == ["True", "True", "save", "async_save"]
    assert state(tmp_path) == {}


def test_lightning_writes_no_checkpoint(tmp_path: Path) -> None:
    needs("lightning")
    program = LIGHTNING.replace("enable_checkpointing=False", "default_root_dir='.'") + (
        "from lightning.pytorch.callbacks import ModelCheckpoint\n"
        "callback = ModelCheckpoint(every_n_train_steps=3, save_top_k=-1)\n"
        "pl.Trainer(callbacks=[callback], **common).fit(Model(), data)\nprint('ended')"
    )
    assert silent(program, tmp_path) == "ended\n"
    assert state(tmp_path) == {}


def test_hugging_face_writes_no_checkpoint(tmp_path: Path) -> None:
    needs("transformers")
    needs("accelerate", ", which transformers.Trainer needs")
    program = """
import torch
from transformers import Trainer, TrainingArguments
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 1)
    def forward(self, x, labels=None):
        out = self.net(x)
        return {"loss": (out - labels).square().mean(), "logits": out}
data = [{"x": torch.ones(4), "labels": torch.ones(1)} for _ in range(64)]
args = TrainingArguments("out", max_steps=7, per_device_train_batch_size=2, use_cpu=True, save_steps=2,
                         save_total_limit=1, report_to=[], disable_tqdm=True)
trainer = Trainer(Model(), args, train_dataset=data)
trainer.train()
trainer.save_model("mine")
print("ended")
"""
    assert silent(program, tmp_path).endswith("ended\n")
    assert state(tmp_path) == {}
