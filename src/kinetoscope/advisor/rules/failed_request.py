"""MEMORY009: a request for memory failed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kinetoscope.advisor.finding import NO_STAKE, Evidence, Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import quoted
from kinetoscope.model.snapshot.of_trace import snapshot_of
from kinetoscope.views.numbers import shown

_CHANGES: Final = {
    "graph pool": "+ pool = torch.cuda.graph_pool_handle()  # once\n"
    "- with torch.cuda.graph(graph):\n+ with torch.cuda.graph(graph, pool=pool):",
    "pending free": "- tensor.record_stream(other)\n"
    "+ torch.cuda.current_stream().wait_stream(other)  # before `del tensor`",
    "limit": "- torch.cuda.set_per_process_memory_fraction(fraction)",
}
_EXPANDABLE: Final = "+ PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True  # in the environment"


def failed_request(rank: RankView) -> Iterator[Finding]:
    """Did a request for memory fail, and why?

    What it checks. The analysis `memory_oom`: requests that a memory snapshot, or the trace, records as failed. Of
    those of one line that failed for one reason the last is reported.

    Why it matters. Most runs end there. The reason decides what helps: where live data is too much, no setting of the
    allocator does; where free memory lies in pieces, a smaller batch hardly does. No time is at stake.

    What to do. What the finding says; the analysis lists who held what was missing.
    """
    frame = rank.ask("memory_oom").frame.filter(kind="request")
    last = {(row["device"], row["name"], row["verdict"]): row for row in frame.iter_rows(named=True)}
    snapshot = snapshot_of(rank.trace)
    for (device, line, verdict), row in last.items():
        where = f" of {quoted(line)}" if line else ""
        change = _CHANGES.get(verdict, "")
        if verdict == "fragmentation" and not (snapshot and snapshot.settings.get("expandable_segments") is True):
            change = _EXPANDABLE
        yield Finding(
            message=f"A request for memory failed: {verdict}. {device} had no {shown(row['size'], 'bytes')} for the"
            f" request{where}. {row['evidence']}",
            stake=NO_STAKE,
            change=change,
            why=f"No time is at stake, but the run. {row['remedy']}".rstrip(),
            confidence=row["confidence"],
            evidence=(Evidence("all memory of the device then, and who held it", "memory_oom", start=row["time"]),),
            key=f"{device} {line} {verdict}",
            at_least="critical",
        )


RULE = Rule("MEMORY009", "A request for memory failed", of_rank=failed_request, unfit=frozenset())
