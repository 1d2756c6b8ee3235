"""What is said where something was not recorded."""

import typing

import pytest

from kinetoscope.model.trace.unrecorded import What, unrecorded


def test_it_says_what_is_missing_what_records_it_and_what_follows() -> None:
    assert unrecorded("memory") == "Memory was not recorded (profile_memory=True records it)."
    assert unrecorded("shapes", "rows are by name only") == (
        "Input shapes were not recorded (record_shapes=True records them): rows are by name only."
    )


@pytest.mark.parametrize("what", typing.get_args(What))
def test_each_is_one_sentence(what: What) -> None:
    assert unrecorded(what).endswith(").")
    assert " recorded (" in unrecorded(what)
