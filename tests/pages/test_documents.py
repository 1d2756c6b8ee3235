from __future__ import annotations

import pytest

from kinetoscope import advise, diff, read
from kinetoscope.errors import UsageError
from kinetoscope.pages.answers.diff import of_diff
from kinetoscope.pages.documents import document
from kinetoscope.pages.findings import of_advice
from kinetoscope.screens.markdown import parts
from kinetoscope.views.exports.budget import tokens
from tests.cli.run import TRACES

BEFORE, AFTER = TRACES / "dataloader.pt.trace.json.gz", TRACES / "dataloader_workers.pt.trace.json.gz"


def test_findings_are_numbered_and_each_place_has_an_id_and_a_command() -> None:
    advice = advise(read(BEFORE))
    text = of_advice(advice, limit=0).to_markdown()
    assert advice.findings
    rows = advice.result.frame.rows(named=True)
    for row in rows:
        assert f"### {row['number']}. " in text
        assert f"({row['code']}, {row['severity']})" in text
        for place in row["places"]:
            assert f"- {place['id']} " in text
            assert place["command"] is None or f"`{place['command']}`" in text


def test_what_does_not_fit_goes_from_the_end_and_is_counted() -> None:
    blocks = list(parts(of_diff(diff(read(BEFORE), read(AFTER)))))
    whole = document(blocks)
    cut = document(blocks, tokens(whole) - 50)
    assert cut.splitlines()[0] == whole.splitlines()[0]
    assert cut.rstrip().endswith(f"… 1 more parts do not fit into {tokens(whole) - 50} tokens.")
    with pytest.raises(UsageError, match="the first part alone"):
        document(blocks, 5)


def test_the_kinds_of_time_sum_to_the_change() -> None:
    difference = diff(read(BEFORE), read(AFTER))
    frame = difference.waterfall.frame
    text = of_diff(difference).to_markdown()
    assert text.startswith("# A step takes ")
    assert frame.filter(frame["part"].is_null())["change"].sum() == difference.new - difference.base
