"""Stores are tried before a job starts, as its traces will be written."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

import pytest

from kinetoscope.record.output.finishing_process import refused
from tests.readers import servers
from tests.readers.files.test_remote import connected

pytestmark = pytest.mark.slow

_STORES: Final = {"s3": servers.moto, "gcs": servers.gcs}


@pytest.mark.parametrize("name", _STORES)
def test_a_bucket_is_written_to_and_one_that_is_not_there_is_not_made(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_of: Callable[[], AbstractContextManager[servers.Store]] = _STORES[name]
    with store_of() as store:
        servers.require(store.package)
        monkeypatch.setenv(f"FSSPEC_{store.scheme.upper()}", json.dumps(store.options))
        system = connected(store, monkeypatch)
        if not system.exists("traces"):
            system.mkdir("traces")
        assert refused(f"{store.scheme}://traces/runs/a") == ""
        assert system.find("traces") == []
        assert refused(f"{store.scheme}://trcaes/runs/a")
        system.invalidate_cache()
        assert not system.exists("trcaes")


def test_a_store_that_nobody_knows_or_that_is_not_there_is_refused() -> None:
    assert "Protocol not known: nosuch" in refused("nosuch://a/b")
    assert refused("http://127.0.0.1:1/a")
