"""diffusers: pictures are made by a denoising loop of the user's own around a scheduler."""

import contextlib
import sys

import torch
from diffusers import DDIMScheduler, UNet2DModel

ABOUT = {
    "what": "diffusers, an own denoising loop without `no_grad`",
    "needs": ("diffusers",),
    "step": "a call of the model",
    "steps": None,
    "slow": "The loop keeps the graph of all its steps, as gradients are on: memory grows with each.",
    "rules": ("HOST012", "MEMORY005"),
    "true": "Gradients are on in a loop that has no backward pass; with `torch.no_grad()` nothing is kept.",
}


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = UNet2DModel(
        sample_size=32,
        layers_per_block=1,
        block_out_channels=(32, 64),
        norm_num_groups=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    ).eval()
    scheduler = DDIMScheduler(num_train_timesteps=1000)
    scheduler.set_timesteps(25)
    sample = torch.randn(4, 3, 32, 32)
    with torch.no_grad() if "--fixed" in sys.argv else contextlib.nullcontext():
        for time in scheduler.timesteps:
            residual = model(sample, time).sample
            sample = scheduler.step(residual, time, sample).prev_sample
    print(f"result {sample.detach().double().abs().mean().item():.6f}")


if __name__ == "__main__":
    main()
