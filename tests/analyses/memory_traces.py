"""Real traces that recorded memory."""

from __future__ import annotations

import pytest

from tests.catalog.samples import BUNDLED, SHARED
from tests.conftest import DEMO

_OURS = ("conv", "dataloader", "dataloader_workers", "ddp2/rank0", "leak", "mlp", "python_export", "transformer")
_SHARED = (
    "broken/name_quote.plain.cpp.pt.trace.json",
    "owlv2_h100/google_owlv2-large-patch14-ensemble__1016001.json.gz",
    "resnet50_v100/num_workers_0/worker0.1623143089861.pt.trace.json.gz",
    "resnet50_v100/num_workers_4/worker0.1623212756351.pt.trace.json.gz",
    "torch_2_13_cpu/compile.pt.trace.json.gz",
    "torch_2_13_cpu/ddp4_rank0.pt.trace.json.gz",
    "torch_2_13_cpu/leak_light.pt.trace.json.gz",
)

with_memory = pytest.mark.parametrize(
    "file",
    [
        *(pytest.param(BUNDLED / f"{name}.pt.trace.json.gz", id=name) for name in _OURS),
        pytest.param(DEMO, id="demo"),
        *(pytest.param(SHARED / name, id=name.partition("/")[0]) for name in _SHARED),
    ],
)
