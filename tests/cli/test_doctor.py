"""How the doctor's findings are told."""

from __future__ import annotations

from kinetoscope.cli.doctor import RankSymptom, as_result, report
from kinetoscope.notes import Note
from kinetoscope.views.terminal.lines import without_colour

LOST = Note("TRUNCATED", "The file ends in the middle of an event.", "error", 1)
ODD = Note("NO_STACKS", "No stacks \x1b[31mwere recorded.", "note", 1)


def told(*found: RankSymptom, traces: int = 1) -> str:
    return without_colour(report(found, traces=traces, width=60))


def test_the_worst_comes_first_and_names_are_harmless() -> None:
    assert told((0, "a.json", ODD), (0, "a.json", LOST)) == (
        "1 trace read: 1 error, 1 note.\n"
        "\n"
        "error  TRUNCATED\n"
        "  The file ends in the middle of an event.\n"
        "\n"
        "note  NO_STACKS\n"
        "  No stacks \\x1b[31mwere recorded.\n"
    )


def test_what_many_ranks_have_is_said_once() -> None:
    found = [(rank, f"{rank}.json", LOST) for rank in (0, 1, 2, 5)]
    assert "error  TRUNCATED  ranks 0–2, 5\n" in told(*found, (7, "7.json", ODD), traces=8)
    assert "note  NO_STACKS  rank 7: 7.json\n" in told(*found, (7, "7.json", ODD), traces=8)


def test_nothing_found_is_said() -> None:
    assert told(traces=2) == "2 traces read: nothing is wrong or odd.\n"


def test_scripts_get_a_table() -> None:
    result = as_result([(3, "a.json", LOST)])
    assert result.frame.rows() == [(3, "a.json", "error", "TRUNCATED", 1, str(LOST))]
    assert as_result([]).frame.height == 0
