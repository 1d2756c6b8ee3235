"""Remedies for each cause of a hang: words, and a small example. All faces and the docs take them from here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kinetoscope.model.hangs.verdict import Cause


@dataclass(frozen=True, slots=True)
class Remedy:
    """A remedy.

    Attributes:
        what: what to do, in a sentence or two.
        code: an example, as a diff; "" for none.
    """

    what: str
    code: str = ""


_GUARD: Final = """\
+dist.all_reduce(loss)  # on every rank
 if rank == 0:
-    dist.all_reduce(loss)
     log(loss)
"""

_JOIN: Final = """\
 loader = DataLoader(data, sampler=sampler,
+    drop_last=True,  # as many on every rank
 )
+with Join([model]):  # or: uneven ones may end
     for batch in loader:
"""

_PADDED: Final = """\
 loader = DataLoader(data, sampler=sampler,
+    drop_last=True,  # no smaller last batch
 )
"""

_BARRIER: Final = """\
 if rank == 0:
     torch.save(state, path)
+dist.barrier()  # on every rank
"""

_TIMEOUT: Final = """\
 dist.init_process_group("nccl",
+    timeout=timedelta(hours=1),
 )
"""

_UNUSED: Final = """\
 model = DistributedDataParallel(model,
+    find_unused_parameters=True,
 )
"""

_NEW_GROUP: Final = """\
-if rank in members:
-    group = dist.new_group(members)
+group = dist.new_group(members)
"""

_ORDER: Final = """\
-first, second = (a, b) if even else (b, a)
-dist.all_reduce(x, group=first)
-dist.all_reduce(y, group=second)
+dist.all_reduce(x, group=a)
+dist.all_reduce(y, group=b)
"""

_SEND: Final = """\
 works = dist.batch_isend_irecv([
     dist.P2POp(dist.isend, out, after),
+    dist.P2POp(dist.irecv, into, before),
 ])
"""

REMEDIES: Final[dict[Cause, Remedy]] = {
    "no hang": Remedy(
        "Nothing needs mending. If the watchdog ended the job, its timeout was shorter than what ranks did: raise it.",
        _TIMEOUT,
    ),
    "skipped call": Remedy(
        "Look for a branch around the call at that line that not every rank takes: `if rank == 0`, a condition on data,"
        " an early return or a swallowed exception. Every rank of the group must make the call.",
        _GUARD,
    ),
    "missing rank": Remedy(
        "See what that rank did after its last call. Often it ran out of batches before the others, or left the loop by"
        " an exception. `kinetoscope record --hang` keeps the stacks of hosts, which say more.",
        _JOIN,
    ),
    "different collective": Remedy(
        "Let every rank take the same branch: conditions on rank, data or loss come before collectives only if all"
        " ranks decide alike. With DDP, parameters that some ranks do not use have this effect.",
        _UNUSED,
    ),
    "different sizes": Remedy(
        "Let all ranks give tensors of one size: pad the last batch or drop it, or exchange sizes first"
        " (`all_to_all_single` takes uneven ones).",
        _PADDED,
    ),
    "different types": Remedy(
        "Cast before the call: one rank has another dtype, as after an autocast region or a checkpoint in another"
        " precision."
    ),
    "different root": Remedy(
        "Give every rank the same root (`src`, `dst`): it is the global rank, not that in the group."
    ),
    "different group": Remedy(
        "Make groups on every rank, also those outside of the group, in the same order and with the same members.",
        _NEW_GROUP,
    ),
    "order of groups": Remedy(
        "Let every rank call the groups in one order, or wait for the first before the second is called.", _ORDER
    ),
    "rank ended": Remedy(
        "Look into the log of that rank first: what ended it is the cause, the hang follows. Killed by signal 9 is"
        " mostly the memory of the host, by 6 an abort in C++, as of gloo for sizes or types that differ. `torchrun`"
        " ends the others at once; let an exception end the process."
    ),
    "host stalled": Remedy(
        "Look at the stack of that rank: its host waits for something else, as a lock, a file, a socket or another"
        " process. Give that wait a timeout of its own."
    ),
    "data loading": Remedy(
        "See whether the loader of that rank is slow or out of data: give every rank as many batches, a `timeout` to"
        " `DataLoader`, and fast storage.",
        _JOIN,
    ),
    "checkpoint": Remedy(
        "Let every rank pass a barrier beside the saving, and let the timeout be longer than the longest checkpoint; or"
        " save asynchronously (`torch.distributed.checkpoint.async_save`).",
        _BARRIER + _TIMEOUT,
    ),
    "unmatched send": Remedy(
        "Give the send its receive: the schedule of the pipeline has one step more on one side. `batch_isend_irecv`"
        " keeps both together.",
        _SEND,
    ),
    "unmatched receive": Remedy(
        "Give the receive its send: the schedule of the pipeline has one step more on one side. `batch_isend_irecv`"
        " keeps both together.",
        _SEND,
    ),
    "device or network": Remedy(
        "Look at devices and links of the ranks that have not finished: `dmesg` (Xid), `nvidia-smi`, the fabric's"
        " counters, NCCL_DEBUG=INFO. `all_reduce_perf` of nccl-tests on the same nodes tells whether it is the program."
    ),
    "slow rank": Remedy(
        "Nothing hangs: make that rank faster (`kinetoscope show stragglers`), or raise the timeout if it is meant to"
        " take so long.",
        _TIMEOUT,
    ),
    "unknown": Remedy(
        "Record more: dumps of all ranks, with stacks, in a larger ring. `kinetoscope record --hang` does all of it."
    ),
}
"""Remedies by cause."""

HANGING: Final = frozenset(REMEDIES) - {"no hang", "slow rank"}
"""Causes for which the job does not go on by itself."""
