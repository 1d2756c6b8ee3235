"""MEMORY014: a forward pass keeps activations that no backward pass uses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kinetoscope.advisor.evidence.peak_owners import device_number, peak_owners
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import quoted, share
from kinetoscope.model.snapshot.forward_only import kept_graph
from kinetoscope.views.sentences import EMPTY, measured, say

_MIN_SHARE: Final = 0.1
"""Share of the peak from which on it is reported."""


def graph_kept_without_backward(rank: RankView) -> Iterator[Finding]:
    """Does a forward pass keep activations though no backward pass runs?

    What it checks. Activations at the peak of a memory snapshot in whose history autograd's graphs are dropped
    (`release_variables`) and its engine never runs. A tenth of the peak or more is reported, and how much of it an
    earlier forward pass holds: its output, and so its graph, is there until the next output takes its place.

    Why it matters. Without gradients an activation goes as soon as the next layer has used it. No time is at stake
    here; HOST012 counts that of the host.

    What to do. Run the model in `torch.inference_mode()`.
    """
    for peak in peak_owners(rank):
        kept = kept_graph(rank.trace, device_number(peak.device))
        if kept is None or kept.size < _MIN_SHARE * peak.size:
            continue
        size, whole = measured(kept.size, "bytes"), peak.quantity()
        before = EMPTY
        if kept.before:
            until = say(" until {line} drops it", line=quoted(kept.line)) if kept.line else EMPTY
            earlier = measured(kept.before, "bytes")
            before = say(" {earlier} of it are the graph of the forward pass before, which its output keeps{until}.",
                         earlier=earlier, until=until)  # fmt: skip
        yield Finding(
            message=say(
                "A forward pass keeps activations, and no backward pass runs. They take {size} of the {whole} in use at"
                " the peak of {device} ({part}).{before}",
                size=size, whole=whole, device=quoted(peak.device), part=share(kept.size, peak.size), before=before,
            ),
            change="- output = model(x)\n+ with torch.inference_mode():\n+     output = model(x)",
            why=say("No time is at stake. The history has graphs dropped without autograd's engine."),
            evidence=(peak.evidence("the lines that took it", "line"),),
            key=peak.device,
        )  # fmt: skip


RULE = Rule("MEMORY014", "Activations that no backward pass uses", graph_kept_without_backward, unfit=frozenset())
