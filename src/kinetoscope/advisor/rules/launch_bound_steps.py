"""HOST001: the device waits for the host to launch its kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kinetoscope.advisor.evidence.launch_time import launch_bound
from kinetoscope.advisor.evidence.serving import GRAPH_SETTINGS, engine_steps, setting, slowed_by_recording
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import share
from kinetoscope.views.sentences import say


def launch_bound_steps(rank: RankView) -> Iterator[Finding]:
    """Is the device idle because the host cannot launch kernels fast enough?

    What it checks. The time in which a launching thread is in operators and launch calls, including short pauses
    between them, but not waiting, allocating and data loading; and the part of it that no device work hides.

    Why it matters. An operator costs the host some ten microseconds whatever it computes. Where kernels are shorter
    than that, the queue is empty and the device waits for the next launch. At stake is the time that the steps gain if
    launching takes no time. Nine tenths of it, less 1 µs between kernels, are the lower end: a captured graph leaves
    out what cannot be captured.

    What to do. Give each kernel more to do (a larger batch), or launch many at once: `torch.compile` fuses kernels, and
    with `mode="reduce-overhead"` launches them as one CUDA graph.
    """
    bound = launch_bound(rank)
    if bound is None:
        return
    yield Finding(
        message=say(
            "The device waits for the host to launch kernels. It waits {waits} of each step ({part}): {launches}.",
            waits=rank.time_per_step(bound.exposed.length),
            part=share(bound.exposed.length, rank.time.length),
            launches=bound.launches(rank),
        ),
        stake=bound.stake,
        factors=bound.factors,
        takes=rank.per_step(bound.exposed.length),
        change=_change(rank),
        why=say(
            "The upper end is launching that takes no time; a graph is assumed to bring nine tenths of it.{slowed}",
            slowed=slowed_by_recording(rank) if rank.program == "serving" else "",
        ),
        confidence="medium" if rank.is_complete else "low",
        evidence=(rank.longest_of(bound.exposed, "the longest stretch without device work while launching",
                                  "idle_breakdown"),),
        time=bound.exposed,
        overlap_priority=1,
    )  # fmt: skip


_COMPILE: Final = '- model = Model()\n+ model = torch.compile(Model(), mode="reduce-overhead")  # or a larger batch'
_GRAPHS: Final = '- torch.compile(model)\n+ torch.compile(model, mode="reduce-overhead")  # or a larger batch'
_SERVERS: Final = {
    "vLLM": '+ vllm serve MODEL --compilation-config \'{"cudagraph_mode": "FULL_AND_PIECEWISE"}\'',
    "SGLang": "+ sglang serve --model-path MODEL --enable-piecewise-cuda-graph",
    "": "+ take more tokens of prompts into a step, so that each kernel has more to do",
}


def _change(rank: RankView) -> str:
    """The change that is not made yet: compiled code, graphs of it, else more of both."""
    steps = engine_steps(rank)
    if steps is not None:
        return setting(steps.engine, _SERVERS if "graphs" in rank.uses else GRAPH_SETTINGS)
    if "graphs" in rank.uses:
        return "+ put what is still launched call by call into the graphs too, or give each kernel more to do"
    return _GRAPHS if "compiled" in rank.uses else _COMPILE


RULE = Rule("HOST001", "The host cannot launch kernels fast enough", launch_bound_steps, needs="device")
