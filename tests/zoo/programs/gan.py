# mypy: ignore-errors
"""A small DCGAN: a step of the discriminator, then one of the generator, each with its optimizer."""

import torch
from torch import nn

ABOUT = {
    "what": "GAN, two optimizers in turns",
    "needs": (),
    "step": "a batch: an update of the discriminator and one of the generator",
    "steps": 24,
    "slow": None,
    "rules": (),
    "true": "Nothing is to be mended: convolutions take most of a step.",
}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    generator = nn.Sequential(
        nn.ConvTranspose2d(32, 64, 4), nn.BatchNorm2d(64), nn.ReLU(),
        nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.ConvTranspose2d(32, 1, 4, 2, 1), nn.Tanh(),
    )  # fmt: skip
    discriminator = nn.Sequential(
        nn.Conv2d(1, 32, 4, 2, 1), nn.LeakyReLU(0.2),
        nn.Conv2d(32, 64, 4, 2, 1), nn.BatchNorm2d(64), nn.LeakyReLU(0.2),
        nn.Conv2d(64, 1, 4), nn.Flatten(0),
    )  # fmt: skip
    optimizer_g = torch.optim.Adam(generator.parameters(), 2e-4, betas=(0.5, 0.999), fused=True)
    optimizer_d = torch.optim.Adam(discriminator.parameters(), 2e-4, betas=(0.5, 0.999), fused=True)
    loss = nn.BCEWithLogitsLoss()
    images = torch.rand(32 * ABOUT["steps"], 1, 16, 16)
    ones, zeros = torch.ones(32), torch.zeros(32)
    for real in images.split(32):
        optimizer_d.zero_grad()
        fake = generator(torch.randn(32, 32, 1, 1))
        loss_d = loss(discriminator(real), ones) + loss(discriminator(fake.detach()), zeros)
        loss_d.backward()
        optimizer_d.step()

        optimizer_g.zero_grad()
        discriminator.requires_grad_(False)
        loss_g = loss(discriminator(fake), ones)
        loss_g.backward()
        discriminator.requires_grad_(True)
        optimizer_g.step()
    print("digest", sum(p.double().sum().item() for p in [*generator.parameters(), *discriminator.parameters()]))


if __name__ == "__main__":
    main()
