"""Programs whose memory is recorded: run by `record.py` with a torch for CUDA; argument 1 names one, 2 the file.

Each plants one thing. The file is what `_dump_snapshot` writes, but for the paths of this machine, and gzip.
"""

# mypy: ignore-errors
from __future__ import annotations

import gzip
import pickle
import sys

import torch

SITE = torch.__path__[0].rpartition("/torch")[0]
HERE = __file__.rpartition("/")[0]
STANDARD = pickle.__file__.rpartition("/")[0]
memory = torch.cuda.memory
alive = []
"""What lives until the snapshot is taken."""


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Model(torch.nn.Module):
    def __init__(self, width=512, depth=4, words=8000):
        super().__init__()
        self.embedding = torch.nn.Embedding(words, width)
        self.blocks = torch.nn.ModuleList(Block(width) for _ in range(depth))
        self.head = torch.nn.Linear(width, words)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def train(tokens, device="cuda", after=lambda logits, step: None):
    """Train with a batch of so many tokens in each step."""
    model = Model().to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    alive.extend((model, optimizer))
    for step, count in enumerate(tokens):
        memory._set_memory_metadata(f'{{"step": {step}}}')
        batch = torch.zeros(count, dtype=torch.long, device=device)
        logits = model(batch)
        loss = torch.nn.functional.cross_entropy(logits, batch)
        after(logits, step)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def training():
    """Nothing is wrong; batches differ."""
    train([1024, 1536, 1024, 2048, 1280])


def leak():
    """Each step keeps a view of its logits, and so all of them."""
    train([1024] * 6, after=lambda logits, step: alive.append(logits.detach()[:, 0]))


def too_much():
    """The batch grows until what is live does not fit."""
    train([1024 * 4**step for step in range(5)])


def fragmentation():
    """Every second buffer of 20 MiB goes; then one of 100 MiB is wanted, and 200 are free in holes."""
    buffers = [torch.empty(20 << 20, dtype=torch.uint8, device="cuda") for _ in range(2)]
    arena = torch.empty(400 << 20, dtype=torch.uint8, device="cuda")
    del arena
    buffers += [torch.empty(20 << 20, dtype=torch.uint8, device="cuda") for _ in range(20)]
    del buffers[2::2]
    torch.empty(100 << 20, dtype=torch.uint8, device="cuda")


def graph_pools():
    """Two graphs are captured, each with a pool of its own; one has been replayed."""
    model = Model().cuda().eval()
    with torch.no_grad():
        for count in (1024, 2048):
            tokens = torch.zeros(count, dtype=torch.long, device="cuda")
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                logits = model(tokens)
            alive.append((graph, tokens, logits))
        alive[0][0].replay()
        model(torch.zeros(512, dtype=torch.long, device="cuda"))
    torch.cuda.empty_cache()


def pending():
    """Batches are used on another stream, whose events come late: their memory is freed, but not free."""
    other = torch.cuda.Stream()
    for step in range(6):
        memory._set_memory_metadata(f'{{"step": {step}}}')
        batch = torch.empty(8 << 20, device="cuda")
        with torch.cuda.stream(other):
            batch * 2
        batch.record_stream(other)
        del batch


def two_devices():
    """The same model on two devices."""
    train([512, 512], "cuda:0")
    train([256, 256], "cuda:1")


def named(path):
    return (
        path.replace(SITE, "/usr/lib/python3/site-packages").replace(STANDARD, "/usr/lib/python3").replace(HERE, "/job")
    )


if __name__ == "__main__":
    memory._record_memory_history(context="all", stacks="python", max_entries=100_000, global_record_annotations=True)
    try:
        globals()[sys.argv[1]]()
    except torch.OutOfMemoryError as error:
        print(error)
    snapshot = memory._snapshot()
    seen = set()
    for entry in (
        *(event for events in snapshot["device_traces"] for event in events),
        *(block for segment in snapshot["segments"] for block in segment["blocks"]),
        *snapshot["segments"],
    ):
        for frame in entry.get("frames", ()):
            if id(frame) not in seen:
                seen.add(id(frame))
                frame["filename"] = named(frame["filename"])
    with gzip.GzipFile(sys.argv[2], "wb", mtime=0) as file:
        file.write(pickle.dumps(snapshot, 4))
