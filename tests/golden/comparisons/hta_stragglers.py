"""HTA's candidates for stragglers, of which it names as many as it is asked for."""

from __future__ import annotations

from kinetoscope import stragglers
from tests.golden.comparison import fewest
from tests.golden.hta import Case
from tests.golden.outcome import Outcome

ANALYSIS = "stragglers"
SECTIONS = ("stragglers",)
AS_ASKED = "as many stragglers as asked for"
ASKED = 2


def compare(case: Case) -> Outcome:
    return fewest(sorted(case.golden), lambda rules: _ours(case, bool(rules)), (AS_ASKED,))


def _ours(case: Case, as_asked: bool) -> list[int]:
    job = case.job()
    if as_asked:
        assert len(job.ranks) == ASKED  # then whichever come first, they are all
        return list(job.ranks)
    return stragglers(job).frame.filter("straggler")["rank"].to_list()
