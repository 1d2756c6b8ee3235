"""Whether a program uses a device, asked without making it use one."""

from __future__ import annotations


def uses_device() -> bool:
    """Has the program begun to use a device? To ask CUDA itself before it has would break its later forks."""
    import torch

    return bool(torch.cuda.is_initialized() and torch.cuda.is_available())


NO_DEVICE = "the program uses no device"
