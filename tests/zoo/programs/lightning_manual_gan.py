"""Lightning with manual optimization: a GAN whose two optimizers step in turns."""

import logging
import warnings

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ABOUT = {
    "what": "Lightning, manual optimization, two optimizers (GAN)",
    "needs": ("lightning",),
    "step": "a batch: a step of each of the two optimizers",
    "steps": 24,
    "slow": None,
    "rules": (),
    "true": "Products of generator and discriminator take the time; both updates are fused.",
}


class Gan(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.generator = nn.Sequential(
            nn.Linear(32, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 256)
        )
        self.discriminator = nn.Sequential(nn.Linear(256, 512), nn.LeakyReLU(0.2), nn.Linear(512, 1))

    def training_step(self, batch, index):
        (real,) = batch
        of_discriminator, of_generator = self.optimizers()
        fake = self.generator(torch.randn(len(real), 32))
        loss = nn.functional.softplus(-self.discriminator(real)).mean()
        loss = loss + nn.functional.softplus(self.discriminator(fake.detach())).mean()
        of_discriminator.zero_grad()
        self.manual_backward(loss)
        of_discriminator.step()
        loss = nn.functional.softplus(-self.discriminator(fake)).mean()
        of_generator.zero_grad()
        self.manual_backward(loss)
        of_generator.step()

    def configure_optimizers(self):
        return (
            torch.optim.Adam(self.discriminator.parameters(), 2e-4, fused=True),
            torch.optim.Adam(self.generator.parameters(), 2e-4, fused=True),
        )


def main():
    logging.getLogger("lightning").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    pl.seed_everything(0)
    torch.set_num_threads(1)
    model = Gan()
    loader = DataLoader(TensorDataset(torch.randn(24 * 64, 256)), batch_size=64)
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
