# mypy: ignore-errors
"""Forward passes under autocast in BF16, with the model's weights in FP32."""

import torch
from torch import nn

ABOUT = {
    "what": "autocast to BF16",
    "needs": (),
    "step": "an optimizer step",
    "steps": 16,
    "slow": None,
    "rules": (),
    "true": "Nothing is to be mended for sure: whether BF16 pays depends on the processor.",
}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(*(nn.TransformerEncoderLayer(128, 4, 512, 0.0, "gelu", batch_first=True) for _ in range(3)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    inputs = torch.randn(8, 64, 128)
    for _ in range(ABOUT["steps"]):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(inputs).float().square().mean()
        loss.backward()
        optimizer.step()
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
