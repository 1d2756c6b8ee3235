"""The plugin's card of the configuration: how many workers, and whether there is a device."""

from __future__ import annotations

from kinetoscope import read, trace_info
from tests.golden.comparison import fewest
from tests.golden.outcome import Outcome
from tests.golden.plugin import Case

ANALYSIS = "trace_info"
SECTIONS = ("overview/environments",)


def compare(case: Case) -> Outcome:
    golden = {card["title"]: card["value"] for card in case.golden}
    # Two workers of one run were read there; the other files are each a run of its own.
    job = read(case.path.parent, jobs=1) if "ddp_oldstyle" in case.name else case.job
    frame = trace_info(job).frame
    counted = frame.filter(frame["topic"] == "events")["item"].to_list()
    device = any(item.endswith("on devices") or item == "runtime and driver calls" for item in counted)
    ranks = frame["rank"].n_unique()
    ours = {"Number of Worker(s)": str(ranks), "Device Type": "GPU" if device else "CPU"}
    return fewest(golden, lambda _: ours, ())
