"""`kinetoscope summary PATH`: where a step goes, the largest loss, and what to type next, on one screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kinetoscope.cli.opening import opened, selection
from kinetoscope.cli.options import Parser, add_engine, add_reading, add_selection

if TYPE_CHECKING:
    from kinetoscope.model.job import Job
    from kinetoscope.schema import Analysis

_LARGEST: Final = 300_000_000
"""Bytes of JSON up to which the rules of `advise` are asked too; of more they would take longer than all the rest."""

_PACKED: Final = 15
"""So many times larger is JSON than its gzip or zstd."""


def run(arguments: list[str]) -> int:
    """Ask the analyses and draw the screen."""
    parser = Parser(prog="kinetoscope summary", description=__doc__)
    add_reading(parser)
    add_engine(parser)
    add_selection(parser)
    args = parser.parse_args(arguments)
    with opened(args) as (job, meter):
        from kinetoscope.advisor.advice import ALONE, of_all_ranks, of_ranks_alone
        from kinetoscope.cli.asking import ask
        from kinetoscope.pages.digest import ASKED, digest

        asked: dict[str | Analysis, dict[str, Any]] = dict(ASKED.items())
        if _text_bytes(job) < _LARGEST:
            asked[ALONE] = {}
        results = ask(job, asked, meter, jobs=args.jobs, **selection(args))
        found = of_all_ranks(of_ranks_alone(results[ALONE.name]), job, **selection(args)) if ALONE in asked else None
        drawn = digest(args.path[0], results, found)
    from kinetoscope.cli.output import width, write_lines
    from kinetoscope.cli.screen import lines

    write_lines(lines(drawn, width=width()))
    return 0


def _text_bytes(job: Job) -> int:
    """About how much JSON the files hold; of files whose size is not known, much."""
    sizes = [(source.size, source.name.endswith(".json")) for source in job.sources]
    return sum(_LARGEST if size is None else size if plain else size * _PACKED for size, plain in sizes)
