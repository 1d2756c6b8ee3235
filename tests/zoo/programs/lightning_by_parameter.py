"""Lightning with an optimizer that was told to go through the parameters one by one; the twin's is fused."""

import logging
import sys
import warnings

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ABOUT = {
    "what": "Lightning, automatic optimization, Adam with foreach=False",
    "needs": ("lightning",),
    "step": "an optimizer step: a training_step as its closure",
    "steps": 20,
    "slow": "Adam updates 200 small tensors one by one",
    "rules": ("HOST004",),
    "true": "The update goes through 200 tensors one by one and takes half of a step; fused it takes next to nothing.",
}


class Deep(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(100)))

    def training_step(self, batch, index):
        return self.net(batch[0]).square().mean()

    def configure_optimizers(self):
        how = {"fused": True} if "--fixed" in sys.argv else {"foreach": False}
        return torch.optim.Adam(self.parameters(), 1e-3, **how)


def main():
    logging.getLogger("lightning").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    pl.seed_everything(0)
    torch.set_num_threads(1)
    model = Deep()
    loader = DataLoader(TensorDataset(torch.randn(20 * 16, 64)), batch_size=16)
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
