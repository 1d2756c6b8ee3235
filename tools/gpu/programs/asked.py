# mypy: disable-error-code="import-not-found, no-untyped-call, unused-ignore"
"""The command line that all programs have, and waiting for a device."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tests.faults.programs.running import waiting


@dataclass(frozen=True)
class Asked:
    """What a program was asked for.

    Attributes:
        out: the folder for what it records and measures.
        device: of torch.
        small: little of everything.
        name: which of several programs; "" where there is one.
    """

    out: Path
    device: str
    small: bool
    name: str = ""

    @property
    def wait(self) -> Callable[[], Any]:
        """Until the device has nothing to do."""
        return waiting(self.device)

    def tell(self, **measured: Any) -> None:
        """Keep what was measured."""
        (self.out / "measured.json").write_text(json.dumps(measured, indent=1), "utf-8")


def asked(*, named: bool = False) -> Asked:
    """The command line: `[NAME] OUT --device cuda --small`."""
    parser = argparse.ArgumentParser()
    if named:
        parser.add_argument("name")
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--small", action="store_true")
    told = Asked(**vars(parser.parse_args()))
    told.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    return told
