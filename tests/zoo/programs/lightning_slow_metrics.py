"""A training_step of Lightning that computes its metric one sample at a time and logs numbers; the twin does it at once."""

import logging
import sys
import warnings

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ABOUT = {
    "what": "Lightning, training_step with `.item()` for each sample",
    "needs": ("lightning",),
    "step": "an optimizer step: a training_step as its closure",
    "steps": 20,
    "slow": "the accuracy of a batch is counted one sample at a time, with two `.item()` each",
    "rules": ("HOST015",),
    "true": "Hundreds of `.item()` a step take a good part of it; compared at once they take nothing to speak of.",
}


class Classifier(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def training_step(self, batch, index):
        images, labels = batch
        logits = self.net(images)
        if "--fixed" in sys.argv:
            right = (logits.argmax(1) == labels).float().mean().item()
        else:
            right = 0
            for logit, label in zip(logits, labels):
                right += logit.argmax().item() == label.item()
            right /= len(labels)
        self.log("accuracy", right)
        return nn.functional.cross_entropy(logits, labels)

    def validation_step(self, batch, index):
        images, labels = batch
        self.log("validation", nn.functional.cross_entropy(self.net(images), labels))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 1e-2, fused=True)


def main():
    logging.getLogger("lightning").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    pl.seed_everything(0)
    torch.set_num_threads(1)
    model = Classifier()
    data = TensorDataset(torch.randn(20 * 256, 64), torch.randint(10, (20 * 256,)))
    trainer = pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, DataLoader(data, batch_size=256), DataLoader(data, batch_size=1024))
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
