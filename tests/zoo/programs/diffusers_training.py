"""diffusers: a tiny UNet learns to predict noise, as in the training tutorial of diffusers."""

import torch
from diffusers import DDPMScheduler, UNet2DModel
from diffusers.optimization import get_cosine_schedule_with_warmup

ABOUT = {
    "what": "diffusers, a tiny UNet2D is trained",
    "needs": ("diffusers",),
    "step": "an optimizer step",
    "steps": 14,
    "slow": None,
    "rules": (),
    "true": "Convolutions, group norms and SiLUs of the UNet take most of the step.",
}

STEPS, BATCH = 14, 4


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = UNet2DModel(
        sample_size=32,
        in_channels=3,
        out_channels=3,
        layers_per_block=1,
        block_out_channels=(32, 64),
        norm_num_groups=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )
    noise_scheduler = DDPMScheduler(num_train_timesteps=1000)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    schedule = get_cosine_schedule_with_warmup(optimizer, num_warmup_steps=2, num_training_steps=STEPS)
    pictures = torch.randn(32, 3, 32, 32)
    for _ in range(STEPS):
        clean = pictures[torch.randint(32, (BATCH,))]
        noise = torch.randn_like(clean)
        timesteps = torch.randint(0, 1000, (BATCH,))
        noisy = noise_scheduler.add_noise(clean, noise, timesteps)
        predicted = model(noisy, timesteps, return_dict=False)[0]
        loss = torch.nn.functional.mse_loss(predicted, noise)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    print(f"digest {sum(weight.detach().double().abs().sum().item() for weight in model.parameters()):.6f}")


if __name__ == "__main__":
    main()
