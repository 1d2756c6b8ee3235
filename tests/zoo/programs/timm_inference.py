"""timm: images are classified in batches; the gradient's graph is built though nobody needs it."""

import sys

import timm
import torch

ABOUT = {
    "what": "timm, inference without `no_grad`",
    "needs": ("timm",),
    "step": "a call of the model",
    "steps": None,
    "slow": "Each call builds a graph for a backward pass that never comes.",
    "rules": ("HOST012",),
    "true": "Nodes of autograd are made in each call and thrown away; `torch.inference_mode()` spares them.",
}


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = timm.create_model("test_vit", num_classes=10, pretrained=False).eval()
    images = torch.randn(96, 3, 160, 160)
    found = []
    with torch.inference_mode("--fixed" in sys.argv):
        for begin in range(0, 96, 4):
            found.append(model(images[begin : begin + 4]).argmax(-1))
    print("result", torch.cat(found).tolist())


if __name__ == "__main__":
    main()
