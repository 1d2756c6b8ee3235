"""The activity of a host, by the stack of its main thread: a short table of places that all programs go through."""

from __future__ import annotations

import re
from typing import Final

from kinetoscope.model.execution.frames import SEPARATOR

_PLACES: Final = (
    ("debugger", r"/(?:pdb|bdb|ipdb/\w+|debugpy/.*)\.py\("),
    ("compilation", r"/torch/_(?:dynamo|inductor|functorch)/|/triton/(?:compiler|runtime)/"),
    ("import", r"^<frozen importlib"),
    (
        "checkpoint",
        r"/torch/(?:serialization\.py|distributed/checkpoint/)|/safetensors/|: \w+_(?:checkpoint|pretrained)$",
    ),
    (
        "data loading",
        r"/torch/utils/data/|/torchdata/|/webdataset/|/nvidia/dali/|/site-packages/(?:datasets|streaming)/",
    ),
    ("rendezvous", r"/torch/distributed/(?:rendezvous\.py|elastic/)|\): (?:init_process_group|_store_based_barrier)$"),
    ("send", r"/torch/distributed/distributed_c10d\.py\(\d+\): i?send(?:_object_list)?$"),
    ("receive", r"/torch/distributed/distributed_c10d\.py\(\d+\): i?recv(?:_object_list)?$"),
    ("collective", r"/torch/distributed/|/torch/nn/parallel/distributed\.py\("),
    ("synchronization", r"/torch/(?:cuda|xpu|accelerator)/\w+\.py\(\d+\): (?:synchronize|wait\w*|query)$"),
)
_WAITS: Final = (
    ("waiting for a process", r"/subprocess\.py\("),
    ("network", r"/(?:socket|ssl|http/client)\.py\(|/(?:urllib3|requests|aiohttp|botocore|google)/"),
    ("waiting for a thread", r"/threading\.py\(\d+\): (?:wait|join|acquire|_wait_for_tstate_lock)$|/queue\.py\("),
)
_BY_FRAME: Final = tuple(tuple((what, re.compile(pattern)) for what, pattern in places) for places in (_PLACES, _WAITS))
"""Looked up in this order for each frame, the innermost first; ways to wait only if nothing else says."""

_BY_CODE: Final = (
    ("sleep", re.compile(r"\bsleep\(")),
    ("synchronization", re.compile(r"\.(?:item|tolist|cpu|numpy|synchronize)\(")),
    ("collective", re.compile(r"\.wait\(|\bbarrier\(|\ball_(?:reduce|gather)|\bbroadcast\(")),
    ("data loading", re.compile(r"\bnext\(|^for\b.*\bin\b.*(?:load|data|batch)")),
    ("checkpoint", re.compile(r"\b(?:torch\.)?save\w*\(|checkpoint")),
)
"""The line itself, where it calls into C, which has no frame: `time.sleep`, `loss.item()`, `work.wait()`."""

COLLECTIVE: Final = "collective"
GARBAGE: Final = "garbage collection"


def activity_of(stack: str, code: str = "") -> str | None:
    """The activity of a thread: data loading, checkpoint, collective, sleep, …; None where no word fits.

    Args:
        stack: frames, outermost first.
        code: the source of its innermost line; "" where unknown.
    """
    frames = [frame for frame in stack.split(SEPARATOR) if frame]
    for places in _BY_FRAME:
        for frame in reversed(frames):
            for what, pattern in places:
                if pattern.search(frame):
                    return what
    return next((what for what, pattern in _BY_CODE if pattern.search(code.strip())), None)
