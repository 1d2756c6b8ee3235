"""MEMORY009: a request for memory failed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kinetoscope.advisor.finding import Evidence, Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import quoted
from kinetoscope.model.snapshot.of_trace import snapshot_of
from kinetoscope.views.numbers import shown
from kinetoscope.views.sentences import EMPTY, each, say

_CHANGES: Final = {
    "graph pool": "+ pool = torch.cuda.graph_pool_handle()  # once\n"
    "- with torch.cuda.graph(graph):\n+ with torch.cuda.graph(graph, pool=pool):",
    "pending free": "- tensor.record_stream(other)\n"
    "+ torch.cuda.current_stream().wait_stream(other)  # before `del tensor`",
    "limit": "- torch.cuda.set_per_process_memory_fraction(fraction)",
}
_NO_TIME: Final = "No time is at stake, but the run."
_EXPANDABLE: Final = "+ PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True  # in the environment"


def failed_request(rank: RankView) -> Iterator[Finding]:
    """Did a request for memory fail, and why?

    What it checks. The analysis `memory_oom`: requests that a memory snapshot, or the trace, records as failed. Of
    those of one line that failed for one reason the last is reported.

    Why it matters. Most runs end there. The reason decides what helps: where live data is too much, no setting of the
    allocator does; where free memory lies in pieces, a smaller batch hardly does. No time is at stake.

    What to do. What the finding says; the analysis lists who held what was missing.
    """
    answer = rank.ask("memory_oom")
    frame = answer.frame.filter(kind="request")
    last = {(row["device"], row["name"], row["verdict"]): row for row in frame.iter_rows(named=True)}
    snapshot = snapshot_of(rank.trace)
    for (device, line, verdict), row in last.items():
        where = say(" of {line}", line=quoted(line)) if line else EMPTY
        size, evidence, remedy = (
            each(answer, name, kind="request", device=device, name=line, verdict=verdict).words(shown_last)
            for name, shown_last in (
                ("size", shown(row["size"], "bytes")), ("evidence", row["evidence"]), ("remedy", row["remedy"])
            )
        )  # fmt: skip
        change = _CHANGES.get(verdict, "")
        if verdict == "fragmentation" and not (snapshot and snapshot.settings.get("expandable_segments") is True):
            change = _EXPANDABLE
        yield Finding(
            message=say(
                "A request for memory failed: {verdict}. {device} had no {size} for the request{where}. {evidence}",
                verdict=verdict,
                device=quoted(device),
                size=size,
                where=where,
                evidence=evidence,
            ),
            change=change,
            why=say("No time is at stake, but the run. {remedy}", remedy=remedy) if row["remedy"] else _NO_TIME,
            confidence=row["confidence"],
            evidence=(Evidence("all memory of the device then, and who held it", "memory_oom", start=row["time"]),),
            key=f"{device} {line} {verdict}",
            at_least="critical",
        )


RULE = Rule("MEMORY009", "A request for memory failed", failed_request, unfit=frozenset())
