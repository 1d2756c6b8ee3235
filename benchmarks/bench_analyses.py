"""How long does each analysis take on a trace that has been read, and how much memory do reading and analysis take?

The cases are all analyses that there are. Each sample gets a Job of its own: what a Trace has derived it keeps.
"""

from __future__ import annotations

from benchmarks import data


def names() -> tuple[str, ...]:
    """All analyses by name."""
    from kinetoscope.analyses import ANALYSES

    return tuple(analysis.name for analysis in ANALYSES)


class Analyses:
    """One analysis with its defaults, on one rank."""

    params = names

    def prepare(self, _case: str) -> None:
        data.large(data.source(), size=data.size())

    def setup(self, case: str) -> None:
        import kinetoscope

        self.job = kinetoscope.read(data.large(data.source(), size=data.size()), jobs=1)
        self.analysis = next(each for each in kinetoscope.ANALYSES if each.name == case)
        self.job.trace(0)

    def time_analysis(self) -> None:
        self.analysis(self.job)

    def peakmem_read_and_analysis(self) -> None:
        self.analysis(self.job)
