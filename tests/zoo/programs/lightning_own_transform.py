"""A data set of Lightning's that transforms each sample slowly, in the process that trains; the twin prepares it once."""

import logging
import sys
import warnings

import lightning.pytorch as pl
import numpy
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ABOUT = {
    "what": "Lightning, slow transform in the training process",
    "needs": ("lightning",),
    "step": "an optimizer step: a training_step as its closure",
    "steps": 20,
    "slow": "each sample is filtered with numpy as it is fetched, in the training process",
    "rules": ("DATA001",),
    "true": "The data set's numpy takes most of a step; workers, or doing it once, take it out of the step.",
}


class Signals(Dataset):
    def __init__(self, count):
        self.raw = numpy.random.default_rng(0).standard_normal((count, 2048)).astype(numpy.float32)
        self.ready = [self.filtered(each) for each in self.raw] if "--fixed" in sys.argv else None

    def filtered(self, signal):
        for _ in range(3):
            signal = numpy.convolve(signal, numpy.hanning(129), "same")
        return torch.from_numpy(signal[::16].astype(numpy.float32))

    def __len__(self):
        return len(self.raw)

    def __getitem__(self, at):
        return self.ready[at] if self.ready is not None else self.filtered(self.raw[at])


class Coder(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 128))

    def training_step(self, batch, index):
        return nn.functional.mse_loss(self.net(batch), batch)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-3, fused=True)


def main():
    logging.getLogger("lightning").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    pl.seed_everything(0)
    torch.set_num_threads(1)
    model = Coder()
    trainer = pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, DataLoader(Signals(20 * 32), batch_size=32))
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
