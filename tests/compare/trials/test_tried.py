"""The result of trying as JSON and back, and files that somebody else wrote."""

from __future__ import annotations

import contextlib
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.compare.trials.tried import FILE, MAX_BYTES, Tried, from_json, load
from kinetoscope.errors import InputError
from tests.tried import FAILED, KEPT, STATES, TOGETHER


@pytest.mark.parametrize("name", STATES)
def test_json_holds_all_of_it(name: str) -> None:
    assert from_json(STATES[name].to_json()) == STATES[name]


def test_an_interval_without_ends_is_none_that_json_has() -> None:
    one_round = replace(TOGETHER, rounds=1, change_low=-1.0, change_high=math.inf, loss_difference=math.inf)
    back = from_json(replace(KEPT, trials=(one_round,), noise=math.inf).to_json())
    assert (back.trials[0].change_low, back.trials[0].change_high, back.trials[0].loss_difference) == (-1.0, None, None)
    assert back.noise == 0


def test_each_trial_says_whether_it_is_kept_and_what_it_brought() -> None:
    trials = json.loads(KEPT.to_json())["trials"]
    assert (trials[0]["kept"], trials[0]["brought"]) == (True, 53_300_000)
    assert [(each["kept"], each["brought"]) for each in trials if each["trial"] == FAILED.trial] == [(False, None)]


@pytest.mark.parametrize(
    "changed",
    [
        {"format": 2},
        {"format": None},
        {"trials": None},
        {"trials": [7]},
        {"trials": [{"trial": "workers"}]},
        {"trials": [{"trial": "workers", "title": "", "outcome": "won"}]},
        {"trials": [{"trial": "workers", "title": "", "outcome": "kept", "step": "long"}]},
        {"trials": [{"trial": "workers", "title": "", "outcome": "kept", "step": 10**30}]},
        {"trials": [{"trial": {"a": 1}, "title": "", "outcome": "kept"}]},
        {"kept": [["workers"]]},
        {"edits": [["A", "B"]]},
        {"notes": [["A", "B"]]},
        {"notes": [["A", "B", "loud"]]},
        {"step": True},
        {"step": math.nan},
        {"command": "python train.py"},
    ],
)
def test_what_is_no_result_is_refused_in_one_line(changed: dict[str, object]) -> None:
    with pytest.raises(InputError, match=r"no result of|another version"):
        from_json(json.dumps({**json.loads(KEPT.to_json()), **changed}))


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner)
                    | st.dictionaries(st.sampled_from([*json.loads(KEPT.to_json())]), inner)))  # fmt: skip
def test_any_json_is_a_result_or_an_input_error(value: object) -> None:
    if isinstance(value, dict):
        value = {**json.loads(KEPT.to_json()), **value}
    with contextlib.suppress(InputError):
        assert from_json(json.dumps(value)).result.frame.height >= 0


def test_deep_nesting_and_halves_of_characters_do_no_harm() -> None:
    with pytest.raises(InputError):
        from_json("[" * 200_000)
    odd = from_json(json.dumps({**json.loads(KEPT.to_json()), "loss": "\ud800"}))
    assert odd.loss == "?"


def test_a_file_of_any_size_is_read_in_part(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b" " * (MAX_BYTES + 1))
    with pytest.raises(InputError, match="more than"):
        load(tmp_path)
    with pytest.raises(InputError, match="try"):
        load(tmp_path / "nothing")
    (tmp_path / FILE).write_text(KEPT.to_json())
    assert load(tmp_path) == KEPT == load(tmp_path / FILE)


def test_the_tables_of_a_result_have_its_values() -> None:
    assert KEPT.setups.frame.select("setup", "step", "change").rows() == [
        ("as it is", KEPT.step, None),
        ("kept", KEPT.step_after, KEPT.change),
    ]
    assert Tried(command=()).setups.frame.height == 0
    assert KEPT.result.frame.get_column("brought").to_list()[:2] == [53_300_000, 2_300_000]
