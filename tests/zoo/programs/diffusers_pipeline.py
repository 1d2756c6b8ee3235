"""diffusers: the library's own pipeline makes pictures."""

import torch
from diffusers import DDIMPipeline, DDIMScheduler, UNet2DModel

ABOUT = {
    "what": "diffusers, a DDIM pipeline makes pictures",
    "needs": ("diffusers",),
    "step": "a call of the model",
    "steps": None,
    "slow": None,
    "rules": (),
    "true": "The UNet's convolutions take most of the time; the pipeline switches gradients off by itself.",
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
    pipeline = DDIMPipeline(unet=model, scheduler=DDIMScheduler(num_train_timesteps=1000))
    pipeline.set_progress_bar_config(disable=True)
    images = pipeline(batch_size=2, num_inference_steps=30, output_type="np").images
    print("result", images.shape, f"{float(images.mean()):.4f}")


if __name__ == "__main__":
    main()
