"""Lightning with automatic optimization and a fused optimizer."""

import logging
import warnings

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ABOUT = {
    "what": "Lightning, automatic optimization, fused Adam",
    "needs": ("lightning",),
    "step": "an optimizer step: a training_step as its closure",
    "steps": 24,
    "slow": None,
    "rules": (),
    "true": "Forward and backward pass run in a closure of the optimizer, whose own update is one fused operator.",
}


class Classifier(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 10))

    def training_step(self, batch, index):
        images, labels = batch
        return nn.functional.cross_entropy(self.net(images), labels)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-3, fused=True)


def main():
    logging.getLogger("lightning").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    pl.seed_everything(0)
    torch.set_num_threads(1)
    model = Classifier()
    loader = DataLoader(TensorDataset(torch.randn(24 * 64, 256), torch.randint(10, (24 * 64,))), batch_size=64)
    trainer = pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, loader)
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
