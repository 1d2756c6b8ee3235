"""Facts that follow from the batches of successive steps: buckets, delay of decode by prefill, accepted proposals."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Floats, Int64s
from kinetoscope.algorithms.statistics import MEDIAN, nearest_rank
from kinetoscope.model.execution.engines import StepKind

_MAX_BUCKET: Final = 62

Kinds = Sequence[StepKind | None]


def bucket(batch: Int64s) -> Int64s:
    """The bucket of each batch: 0 for 0, 1 for 1, 2 for 2, 3 for 3–4, 4 for 5–8, 5 for 9–16, …; −1 for −1."""
    powers = 1 << np.arange(_MAX_BUCKET, dtype=np.int64)
    return np.where(batch > 0, np.searchsorted(powers, batch) + 1, np.minimum(batch, 0))


def bounds_of(buckets: Int64s) -> tuple[Int64s, Int64s]:
    """The smallest and the largest batch of each bucket."""
    high = np.where(buckets > 0, 1 << np.maximum(buckets - 1, 0), 0)
    return np.where(buckets > 1, high // 2 + 1, high), high


def decode_delay(kinds: Kinds, decoding: Int64s, duration: Int64s, runs: Bools) -> Int64s:
    """How long each step held up requests that decode, ns: int64 [steps], −1 where it held up none.

    A mixed step holds them up by what it takes beyond the median decode step of as many requests (of its bucket; if
    there is none, of all decode steps). A prefill step holds them up by all of its time, if the steps around it and
    other prefill steps decode.

    Args:
        kinds: [steps], what each does.
        decoding: int64 [steps], requests in decode; −1 where it is not known.
        duration: int64 [steps], ns.
        runs: bool [steps], whether it runs on the device.
    """
    count = len(kinds)
    delay = np.full(count, -1, np.int64)
    decodes = np.array([kind in ("decode", "verify") for kind in kinds], np.bool_) & runs
    mixed = np.flatnonzero(np.array([kind == "mixed" for kind in kinds], np.bool_) & runs & (decoding != 0))
    prefills = np.array([kind == "prefill" for kind in kinds], np.bool_)
    if decodes.any() and len(mixed):
        of = bucket(np.maximum(decoding, 0)).astype(np.int32)
        every = nearest_rank(np.zeros(count, np.int32)[decodes], 1, duration[decodes], MEDIAN)[0][0]
        median = nearest_rank(of[decodes], _MAX_BUCKET + 2, duration[decodes], MEDIAN)[0]
        known = np.bincount(of[decodes], minlength=_MAX_BUCKET + 2) > 0
        usual = np.where(known[of[mixed]] & (decoding[mixed] > 0), median[of[mixed]], every)
        delay[mixed] = np.maximum(duration[mixed] - usual, 0)
    others = np.flatnonzero(~prefills)
    has_decode = np.array([kind in ("decode", "verify", "mixed") for kind in kinds], np.bool_)
    places = np.flatnonzero(prefills & runs)
    after = np.searchsorted(others, places)
    inside = (after > 0) & (after < len(others))
    places, after = places[inside], after[inside]
    held = has_decode[others[after - 1]] & has_decode[others[after]]
    delay[places[held]] = duration[places[held]]
    return delay


def acceptance(kinds: Kinds, batch: Int64s, tokens: Int64s, context: Int64s) -> Floats:
    """Share of the proposed tokens that each verify step accepted: float64 [steps], NaN where it is not known.

    Requests that are verified twice in a row have grown by a token each, and by the accepted ones: the tokens in their
    caches before the step are Σ kv − Σ q. Known where the next step but drafts verifies as many requests.

    Args:
        kinds: [steps], what each does.
        batch: int64 [steps], requests; −1 where the name does not say.
        tokens: int64 [steps], Σ q; −1 likewise.
        context: int64 [steps], Σ kv; −1 likewise.
    """
    share = np.full(len(kinds), np.nan)
    verified = [place for place, kind in enumerate(kinds) if kind != "draft"]
    for one, other in pairwise(verified):
        same = kinds[one] == kinds[other] == "verify" and batch[one] == batch[other]
        if not same or min(context[one], context[other], tokens[one], tokens[other]) < 0:
            continue
        proposed = tokens[one] - batch[one]
        accepted = (context[other] - tokens[other]) - (context[one] - tokens[one]) - batch[one]
        if 0 <= accepted <= proposed and proposed:
            share[one] = accepted / proposed
    return share
