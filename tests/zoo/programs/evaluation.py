"""An evaluation script: a model, a loader, no optimizer; counts are read one by one."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ABOUT = {
    "what": "evaluation without an optimizer; a confusion matrix is counted sample by sample",
    "needs": (),
    "step": "a call of the model",
    "steps": None,
    "slow": "A loop of Python reads each label and prediction with `.item()` and counts it.",
    "rules": ("HOST015", "HOST008"),
    "true": "Reading 256 values one by one takes a large part of each batch; one `bincount` does the same.",
}


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(4096, 128), torch.randint(10, (4096,)))
    model = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)).eval()
    confusion = torch.zeros(10, 10, dtype=torch.long)
    with torch.no_grad():
        for inputs, labels in DataLoader(data, 256):
            predicted = model(inputs).argmax(-1)
            if "--fixed" in sys.argv:
                confusion += torch.bincount(10 * labels + predicted, minlength=100).view(10, 10)
            else:
                for label, guess in zip(labels, predicted, strict=False):
                    confusion[label.item(), guess.item()] += 1
    print(f"result: accuracy {confusion.diag().sum().item() / confusion.sum().item():.4f}")


if __name__ == "__main__":
    main()
