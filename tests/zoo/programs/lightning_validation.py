"""Lightning with a short validation in the midst of training, every eight batches."""

import logging
import warnings

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ABOUT = {
    "what": "Lightning, validation every 8 batches, gradients of 2 batches accumulated",
    "needs": ("lightning",),
    "step": "an optimizer step: two batches, and what validation lies between",
    "steps": 12,
    "slow": None,
    "rules": (),
    "true": "Convolutions take the time; every fourth step is longer by a validation.",
}


class Images(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 24, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(24, 48, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(48, 10),
        )

    def training_step(self, batch, index):
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch, index):
        self.log("loss", nn.functional.cross_entropy(self.net(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 1e-3, fused=True)


def main():
    logging.getLogger("lightning").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    pl.seed_everything(0)
    torch.set_num_threads(1)
    model = Images()
    data = TensorDataset(torch.randn(24 * 16, 3, 32, 32), torch.randint(10, (24 * 16,)))
    trainer = pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        accumulate_grad_batches=2,
        val_check_interval=8,
        limit_val_batches=2,
        num_sanity_val_steps=0,
    )
    trainer.fit(model, DataLoader(data, batch_size=16), DataLoader(data, batch_size=16))
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
