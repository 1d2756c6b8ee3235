"""Record dumps of the Flight Recorder with gloo: `python -m tests.readers.flight_recorder.record FOLDER`, with torch.

Two ranks; the second leaves out the last collective. The folders of the machine are taken out of the dumps: torch's is
`/site-packages`, the program's `/job`.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tests.snapshots.writing import torch_pickle

PROGRAM: Final = """
import os, sys, time
from datetime import timedelta
import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d


def step(x, group):
    dist.all_reduce(x)
    dist.all_reduce(x, group=group)
    dist.all_gather([torch.empty(4, 8) for _ in range(2)], x)
    dist.broadcast(x, 0)
    dist.barrier()


rank, folder = int(os.environ["RANK"]), sys.argv[1]
torch.set_num_threads(1)
dist.init_process_group("gloo", timeout=timedelta(seconds=20))
group = dist.new_group([0, 1], group_desc="my_group")
x = torch.ones(4, 8)
step(x, group)
if rank == 0:
    dist.send(x, 1)
else:
    dist.recv(x, 0)
loss = torch.tensor(1.0)
dist.all_reduce(loss)
if rank == 0:
    dist.all_reduce(torch.ones(16, dtype=torch.float64), async_op=True)
time.sleep(2)
with open(f"{folder}/nccl_trace_rank_{rank}", "wb") as file:
    file.write(c10d._dump_fr_trace())
text = c10d._dump_fr_trace_json()
with open(f"{folder}/nccl_trace_rank_{rank}.json", "w") as file:
    file.write(text if isinstance(text, str) else text.decode())
os._exit(0)
"""


def stripped(value: Any, known: dict[int, Any]) -> Any:
    """A dump without the folders of this machine; what is one object stays one."""
    if id(value) in known:
        return known[id(value)]
    if isinstance(value, dict):
        answer: Any = {key: stripped(each, known) for key, each in value.items()}
        if "filename" in answer:
            path = answer["filename"]
            _, found, inside = path.rpartition("/site-packages/")
            answer["filename"] = f"/site-packages/{inside}" if found else f"/job/{Path(path).name}"
        known[id(value)] = answer
        return answer
    if isinstance(value, (list, tuple)):
        return type(value)(stripped(each, known) for each in value)
    return value


def main(folder: Path) -> None:
    """Run both ranks, and write their dumps to a folder, as torch's pickler would."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "train.py"
    program.write_text(PROGRAM)
    facts = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29631", "WORLD_SIZE": "2", "TORCH_FR_BUFFER_SIZE": "2000"}
    ranks = [
        subprocess.Popen([sys.executable, str(program), str(folder)], env=os.environ | facts | {"RANK": str(rank)})
        for rank in range(2)
    ]
    for each in ranks:
        each.wait(300)
    program.unlink()
    for path in sorted(folder.glob("nccl_trace_rank_?")):
        path.write_bytes(torch_pickle(stripped(pickle.loads(path.read_bytes()), {})))
        text = path.with_suffix(".json")
        text.write_text(json.dumps(json.loads(text.read_text()), separators=(",", ":")))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
